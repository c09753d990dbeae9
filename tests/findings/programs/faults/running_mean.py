"""A moving average over a measured signal, element by element."""

import numpy as np

WINDOW = 25


def smooth(signal):
    out = np.zeros(len(signal) - WINDOW + 1)
    for i in range(len(out)):
        total = 0.0
        for j in range(WINDOW):
            total += signal[i + j]
        out[i] = total / WINDOW
    return out


def main():
    signal = np.sin(np.linspace(0, 60, 40_000)) + np.random.default_rng(0).normal(size=40_000)
    smoothed = smooth(signal)
    print("noise left:", np.std(np.diff(smoothed)))


main()
