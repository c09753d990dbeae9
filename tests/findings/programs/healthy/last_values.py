"""A list that grows, of which each step needs the last values and the sum so far."""

import random


class Series:
    def __init__(self):
        self.values, self.sum = [], 0.0

    def add(self, value):
        self.values.append(value)
        self.sum += value

    def trend(self):
        return sum(self.values[-50:]) / 50 - self.sum / len(self.values)


def follow(steps):
    series, rising = Series(), 0
    for _ in range(steps):
        series.add(random.random())
        rising += series.trend() > 0
    return rising


random.seed(8)
print(follow(60_000))
