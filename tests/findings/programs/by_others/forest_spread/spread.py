"""Fire moves from plot to plot; each burning plot holds some fuel."""
import random


class Fire:
    def __init__(self, terrain, seed, wind=(0.25, -0.1)):
        self.terrain = terrain
        self.rng = random.Random(seed)
        self.wind = wind
        self.burning = {}
        self.burnt = set()
        self.history = []

    def light(self, plot, fuel=4):
        self.burning[plot] = fuel

    def chance(self, source, target):
        t = self.terrain
        push = self.wind[0] * (target.col - source.col) + self.wind[1] * (target.row - source.row)
        return 0.16 + 0.42 * t.dryness(target) + 0.3 * push + 0.8 * t.climb(source, target)

    def tick(self):
        started = []
        spent = []
        for plot, fuel in self.burning.items():
            for near in plot.around():
                if not self.terrain.inside(near):
                    continue
                if near in self.burning or near in self.burnt:
                    continue
                if self.rng.random() < self.chance(plot, near):
                    started.append(near)
            if fuel <= 1:
                spent.append(plot)
            else:
                self.burning[plot] = fuel - 1
        for plot in spent:
            del self.burning[plot]
            self.burnt.add(plot)
        for plot in started:
            if plot not in self.burnt:
                self.burning.setdefault(plot, 3 + int(2 * self.terrain.dryness(plot)))
        self.history.append((len(self.burning), len(self.burnt)))
        return bool(self.burning)

    def edge(self):
        """Burnt plots that touch unburnt land."""
        count = 0
        for plot in self.burnt:
            for near in plot.around():
                if self.terrain.inside(near) and near not in self.burnt:
                    count += 1
                    break
        return count
