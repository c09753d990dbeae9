"""Simulate a chain of depots that ship parts to each other day by day."""
import copy
import random
import zlib


class Depot:
    def __init__(self, name, slots, rng):
        self.name = name
        self.slots = [rng.randint(20, 60) for _ in range(slots)]

    def demand(self, rng):
        wanted = 0
        for _ in range(len(self.slots) // 20):
            slot = rng.randrange(len(self.slots))
            amount = min(self.slots[slot], rng.randint(0, 4))
            self.slots[slot] -= amount
            wanted += amount
        return wanted

    def refill(self, rng, budget):
        while budget > 0:
            slot = rng.randrange(len(self.slots))
            amount = min(budget, rng.randint(1, 6))
            self.slots[slot] += amount
            budget -= amount


class Chain:
    def __init__(self, depots, slots, seed):
        self.rng = random.Random(seed)
        self.depots = [Depot(f"depot-{i}", slots, self.rng) for i in range(depots)]
        self.history = []
        self.shipped = 0

    def levels(self):
        return {depot.name: depot.slots for depot in self.depots}

    def record(self, day):
        self.history.append((day, {name: copy.copy(slots) for name, slots in self.levels().items()}))

    def step(self, day):
        for depot in self.depots:
            wanted = depot.demand(self.rng)
            self.shipped += wanted
            depot.refill(self.rng, wanted if day % 7 else wanted + 5)
        self.record(day)

    def run(self, days):
        for day in range(days):
            self.step(day)


def stockouts(history):
    total = 0
    for _, levels in history:
        for slots in levels.values():
            total += slots.count(0)
    return total


def largest_swing(history):
    best = 0
    previous = None
    for _, levels in history:
        sums = {name: sum(slots) for name, slots in levels.items()}
        if previous is not None:
            best = max(best, max(abs(sums[name] - previous[name]) for name in sums))
        previous = sums
    return best


def checksum(history):
    value = 0
    for day, levels in history[::10]:
        for name, slots in levels.items():
            value = zlib.crc32(f"{day}{name}{sum(slots)}".encode(), value)
    return value


def main():
    chain = Chain(depots=12, slots=900, seed=5)
    chain.run(300)
    print(chain.shipped, stockouts(chain.history), largest_swing(chain.history),
          f"{checksum(chain.history):08x}")


if __name__ == "__main__":
    main()
