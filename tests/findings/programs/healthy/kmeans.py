"""Healthy: vectorised k-means with restarts."""
from dataclasses import dataclass

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np


@dataclass
class Result:
    centres: np.ndarray
    inertia: float


def blobs(n, d, k, rng):
    centres = rng.normal(0, 6, (k, d))
    return centres[rng.integers(0, k, n)] + rng.standard_normal((n, d))


def assign(x, norms, centres):
    dist = norms[:, None] - 2 * x @ centres.T + (centres ** 2).sum(1)
    label = dist.argmin(1)
    return label, float(np.take_along_axis(dist, label[:, None], 1).sum())


def lloyd(x, k, rng, rounds=15):
    norms = (x ** 2).sum(1)
    centres = x[rng.choice(len(x), k, replace=False)]
    for _ in range(rounds):
        label, inertia = assign(x, norms, centres)
        onehot = np.zeros((len(x), k))
        onehot[np.arange(len(x)), label] = 1
        count = np.maximum(onehot.sum(0), 1)
        centres = onehot.T @ x / count[:, None]
    return Result(centres, inertia)


def main():
    rng = np.random.default_rng(0)
    x = blobs(30000, 24, 12, rng)
    best = min((lloyd(x, 12, rng) for _ in range(8)), key=lambda r: r.inertia)
    print("inertia %.1f" % best.inertia)


if __name__ == "__main__":
    main()
