import random


class Plot:
    """One plot of land, addressed by column and row. Plots never change once made."""

    __slots__ = ("col", "row")

    def __init__(self, col, row):
        self.col = col
        self.row = row

    def __eq__(self, other):
        return (
            isinstance(other, Plot)
            and self.col == other.col
            and self.row == other.row
        )

    def __hash__(self):
        return hash((self.col, self.row))

    def __repr__(self):
        return f"Plot({self.col}, {self.row})"

    def around(self):
        c, r = self.col, self.row
        yield Plot(c - 1, r)
        yield Plot(c + 1, r)
        yield Plot(c, r - 1)
        yield Plot(c, r + 1)


class Terrain:
    """Slope and dryness of the land, worked out from a few random bumps."""

    def __init__(self, size, seed):
        self.size = size
        rng = random.Random(seed)
        self.bumps = [
            (rng.uniform(0, size), rng.uniform(0, size), rng.uniform(size / 9, size / 3), rng.uniform(-1, 1))
            for _ in range(6)
        ]
        self.height = [[self._height(c, r) for c in range(size)] for r in range(size)]
        self.dry = [[rng.random() for _ in range(size)] for _ in range(size)]

    def _height(self, c, r):
        total = 0.0
        for bc, br, width, top in self.bumps:
            d2 = ((c - bc) ** 2 + (r - br) ** 2) / (width * width)
            if d2 < 4:
                total += top * (1 - d2 / 4) ** 2
        return total

    def inside(self, plot):
        return 0 <= plot.col < self.size and 0 <= plot.row < self.size

    def climb(self, a, b):
        return self.height[b.row][b.col] - self.height[a.row][a.col]

    def dryness(self, plot):
        return self.dry[plot.row][plot.col]
