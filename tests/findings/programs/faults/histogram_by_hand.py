"""A histogram, counted in Python."""

import numpy as np


def histogram(values, low, high, bins):
    counts = np.zeros(bins, dtype=int)
    width = (high - low) / bins
    for value in values:
        place = int((value - low) / width)
        if 0 <= place < bins:
            counts[place] += 1
    return counts


counts = histogram(np.random.default_rng(12).normal(size=1_200_000), -4, 4, 64)
print(counts.argmax(), counts.max())
