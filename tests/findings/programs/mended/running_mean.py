"""A moving average over a measured signal, element by element."""

import numpy as np

WINDOW = 25


def smooth(signal):
    sums = np.cumsum(np.concatenate([[0.0], signal]))
    return (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW


def main():
    signal = np.sin(np.linspace(0, 60, 40_000)) + np.random.default_rng(0).normal(size=40_000)
    smoothed = smooth(signal)
    print("noise left:", np.std(np.diff(smoothed)))


main()
