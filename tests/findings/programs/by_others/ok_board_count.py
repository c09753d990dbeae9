"""Count placements of non-attacking queens on boards with blocked squares."""
import random


def blocked_rows(size, count, seed):
    rng = random.Random(seed)
    rows = [0] * size
    for square in rng.sample(range(size * size), count):
        rows[square // size] |= 1 << (square % size)
    return rows


def place(row, size, blocked, columns, left, right):
    if row == size:
        return 1
    total = 0
    free = ((1 << size) - 1) & ~(columns | left | right | blocked[row])
    while free:
        bit = free & -free
        free ^= bit
        total += place(row + 1, size, blocked, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return total


class BoardSeries:
    def __init__(self, size, seed):
        self.size = size
        self.seed = seed

    def boards(self, blocked_counts):
        for count in blocked_counts:
            yield count, blocked_rows(self.size, count, self.seed + count)

    def solve(self, blocked_counts):
        return {count: place(0, self.size, rows, 0, 0, 0)
                for count, rows in self.boards(blocked_counts)}


def trend(results):
    counts = sorted(results)
    drops = [results[a] - results[b] for a, b in zip(counts, counts[1:])]
    return sum(drops) / len(drops)


def main():
    results = BoardSeries(12, seed=7).solve(range(0, 25, 4))
    print(" ".join(f"{k}:{v}" for k, v in results.items()), f"trend {trend(results):.2f}")


if __name__ == "__main__":
    main()
