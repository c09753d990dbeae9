"""A simulation whose state is global, and is measured at each step."""

import random

random.seed(8)
levels = [random.random() for _ in range(20_000)]


class World:
    def __init__(self, n):
        self.cells = [random.random() for _ in range(n)]

    def step(self):
        for k in range(0, len(self.cells), 40):
            self.cells[k] = self.cells[k] * 3.7 * (1 - self.cells[k])


def pour():
    for k in range(0, len(levels), 50):
        levels[k] = levels[k] * 0.9 + 0.01 * random.random()


def run(n):
    peak = 0
    for _ in range(n):
        pour()
        peak += max(levels)
    return peak


def other(n):
    world = World(20_000)
    cells = world.cells
    total = 0
    for _ in range(n):
        world.step()
        total += sum(cells)
    return total


print(round(run(1500), 3), round(other(1500), 3))
