"""Shared lookup tables."""
import functools


def _smooth_numbers(limit):
    largest = [0] * (limit + 1)
    for p in range(2, limit + 1):
        if largest[p] == 0:
            for multiple in range(p, limit + 1, p):
                largest[multiple] = p
    return largest


@functools.cache
def largest_factor():
    return _smooth_numbers(3_000_000)


def scale(values):
    lo, hi = values.min(), values.max()
    return (values - lo) / (hi - lo)
