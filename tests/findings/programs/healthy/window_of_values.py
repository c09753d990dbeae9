"""A window that goes with the values: all of it is read in each step, and it does not grow."""

import collections
import random


class Window:
    def __init__(self, size):
        self.values = collections.deque(maxlen=size)

    def add(self, value):
        self.values.append(value)

    def spread(self):
        return max(self.values) - min(self.values)


def widest(steps):
    window, most = Window(100), 0.0
    for _ in range(steps):
        window.add(random.random())
        most = max(most, window.spread())
    return most


random.seed(2)
print(widest(40_000))
