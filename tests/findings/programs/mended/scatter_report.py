"""Principal directions of repeated random walks, reported as text."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from scatter_tables import scale


def walks(count, length, rng):
    steps = rng.standard_normal((count, length)) * 0.1
    return np.cumsum(steps, axis=1)


def directions(data, k):
    data = data - data.mean(0)
    _, s, vt = np.linalg.svd(data, full_matrices=False)
    return s[:k] ** 2 / (s ** 2).sum(), vt[:k]


def bar(value, width=40):
    return "#" * int(round(value * width))


def main():
    rng = np.random.default_rng(8)
    explained = np.zeros(5)
    rounds = 16
    for _ in range(rounds):
        share, _ = directions(walks(700, 300, rng), 5)
        explained += share / rounds
    for i, value in enumerate(scale(explained)):
        print(f"pc{i + 1} {explained[i]:.3f} {bar(value)}")


if __name__ == "__main__":
    main()
