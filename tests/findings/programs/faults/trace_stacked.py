"""The path of a walker, of which each step copies all steps before."""

import numpy as np


class Trace:
    def __init__(self):
        self.points = np.zeros((0, 64))

    def add(self, point):
        self.points = np.vstack([self.points, point])

    def mean(self):
        return self.points.mean()


random = np.random.default_rng(1)
trace, point = Trace(), np.zeros(64)
for _ in range(2_500):
    point = point + random.normal(size=64)
    trace.add(point)
print(trace.mean())
