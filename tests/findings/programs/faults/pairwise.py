"""Distances of all pairs of points."""

import numpy as np


def distances(points):
    count, width = points.shape
    found = np.zeros((count, count))
    for i in range(count):
        for j in range(count):
            square = 0.0
            for k in range(width):
                gap = points[i, k] - points[j, k]
                square += gap * gap
            found[i, j] = square**0.5
    return found


if __name__ == "__main__":
    points = np.random.default_rng(1).normal(size=(330, 3))
    table = distances(points)
    print("widest:", table.max())
