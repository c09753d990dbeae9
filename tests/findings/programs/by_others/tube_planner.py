"""Finds the best routes between stations of a tube network, counting changes of line."""
import copy
import heapq
import itertools
import random

LINES = 9
STATIONS = 120


class Network:
    def __init__(self, seed):
        rng = random.Random(seed)
        self.links = {n: [] for n in range(STATIONS)}
        for line in range(LINES):
            stops = rng.sample(range(STATIONS), 26)
            for a, b in zip(stops, stops[1:]):
                minutes = rng.randrange(2, 9)
                self.links[a].append((b, line, minutes))
                self.links[b].append((a, line, minutes))


class Route:
    def __init__(self, stops, lines, minutes):
        self.stops = stops
        self.lines = lines
        self.minutes = minutes

    def extended(self, stop, line, minutes):
        route = copy.deepcopy(self)
        if route.lines and route.lines[-1] != line:
            route.minutes += 4
        route.stops.append(stop)
        route.lines.append(line)
        route.minutes += minutes
        return route

    def changes(self):
        return sum(1 for a, b in zip(self.lines, self.lines[1:]) if a != b)


class Planner:
    def __init__(self, network, width):
        self.network = network
        self.width = width
        self.expanded = 0

    def best(self, start, goal, wanted):
        ticket = itertools.count()
        heap = [(0, next(ticket), Route([start], [], 0))]
        visits, found = {}, []
        while heap and len(found) < wanted:
            _, _, route = heapq.heappop(heap)
            here = route.stops[-1]
            if here == goal:
                found.append(route)
                continue
            visits[here] = visits.get(here, 0) + 1
            if visits[here] > self.width:
                continue
            self.expanded += 1
            for stop, line, minutes in self.network.links[here]:
                if stop not in route.stops:
                    longer = route.extended(stop, line, minutes)
                    heapq.heappush(heap, (self.cost(longer), next(ticket), longer))
        return found

    def cost(self, route):
        crowd = sum(0.3 for s in route.stops if len(self.network.links[s]) > 5)
        return route.minutes + crowd + 0.5 * route.changes()


def describe(route):
    legs = [f"{line}:{len(list(group))}" for line, group in itertools.groupby(route.lines)]
    return f"{route.stops[0]}-{route.stops[-1]} {route.minutes}min " + "/".join(legs)


def main():
    planner = Planner(Network(31), width=8)
    rng = random.Random(32)
    texts = []
    for _ in range(46):
        start, goal = rng.sample(range(STATIONS), 2)
        texts += [describe(r) for r in planner.best(start, goal, 4)]
    weight = sum(sum(map(ord, t)) * (n + 1) for n, t in enumerate(texts))
    print(f"routes={len(texts)} expanded={planner.expanded} mark={weight % 1000003}")


if __name__ == "__main__":
    main()
