"""Simulate a walk-in clinic with several rooms and two kinds of visit."""
import heapq
import itertools
import random
from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class Visit:
    number: int
    urgent: bool
    arrived: float
    length: float


class Clinic:
    def __init__(self, rooms, seed):
        self.rng = random.Random(seed)
        self.free = rooms
        self.events = []
        self.ticket = itertools.count()
        self.urgent = deque()
        self.normal = deque()
        self.waits = {True: [], False: []}
        self.clock = 0.0

    def schedule(self, when, action, visit):
        heapq.heappush(self.events, (when, next(self.ticket), action, visit))

    def open(self, visits):
        clock = 0.0
        for number in range(visits):
            clock += self.rng.expovariate(1.0)
            visit = Visit(number, self.rng.random() < 0.15, clock, self.rng.gammavariate(4.0, 1.2))
            self.schedule(clock, self.arrive, visit)

    def arrive(self, visit):
        (self.urgent if visit.urgent else self.normal).append(visit)
        self.admit()

    def leave(self, visit):
        self.free += 1
        self.admit()

    def admit(self):
        while self.free and (self.urgent or self.normal):
            visit = (self.urgent or self.normal).popleft()
            self.free -= 1
            self.waits[visit.urgent].append(self.clock - visit.arrived)
            self.schedule(self.clock + visit.length, self.leave, visit)

    def run(self):
        while self.events:
            self.clock, _, action, visit = heapq.heappop(self.events)
            action(visit)


def describe(waits):
    ordered = sorted(waits)
    return f"{sum(ordered) / len(ordered):.4f}/{ordered[int(len(ordered) * 0.95)]:.4f}"


def main():
    rows = []
    for rooms, seed in ((5, 1), (6, 2)):
        clinic = Clinic(rooms, seed)
        clinic.open(110000)
        clinic.run()
        rows.append(f"{rooms}: {describe(clinic.waits[True])} {describe(clinic.waits[False])}")
    print(" | ".join(rows))


if __name__ == "__main__":
    main()
