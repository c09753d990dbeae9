"""The range of each day's measurements."""

import numpy as np

days = np.random.default_rng(2).normal(20, 5, size=(150_000, 6))


def spread(day):
    return day.max(axis=1) - day.min(axis=1)


ranges = spread(days)
print(ranges.mean())
