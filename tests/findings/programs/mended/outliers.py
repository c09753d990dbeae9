"""Finds values far above the others."""
import random

random.seed(3)


def outliers(values):
    found = []
    middle = sorted(values)[len(values) // 2]
    for value in values:
        if value > 8 * middle:
            found.append(value)
    return found


values = [random.expovariate(1.0) for _ in range(3000)]
found = outliers(values)
print(len(found), round(sum(found), 6))
