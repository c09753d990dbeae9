"""A filter in which each value needs the one before: a loop that no vector call replaces."""

import numpy as np


def exponential_mean(values, weight):
    out = np.empty(len(values))
    mean = values[0]
    for n in range(len(values)):
        mean += weight * (values[n] - mean)
        out[n] = mean
    return out


values = np.random.default_rng(5).normal(size=400_000)
print(exponential_mean(values, 0.05)[-1])
