"""Distances of words: dynamic programming over lists; each cell needs the one before it."""

import random


def distance(one, other):
    above = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
        above = row
    return above[-1]


random.seed(4)
words = ["".join(random.choices("acgt", k=120)) for _ in range(9)]
print(min(distance(a, b) for a in words for b in words if a is not b))
