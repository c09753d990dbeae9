"""Distances of all pairs of points."""

import numpy as np


def distances(points):
    gaps = points[:, None] - points[None]
    return (gaps * gaps).sum(axis=2) ** 0.5


if __name__ == "__main__":
    points = np.random.default_rng(1).normal(size=(330, 3))
    table = distances(points)
    print("widest:", table.max())
