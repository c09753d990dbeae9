"""Norms of the rows of a table, by a function that NumPy calls for each row."""

import numpy as np


def norm(rows):
    return (rows * rows).sum(axis=1) ** 0.5


def main():
    table = np.random.default_rng(3).normal(size=(120_000, 4))
    norms = norm(table)
    print(norms.max())


main()
