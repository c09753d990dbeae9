"""Turn a shuffled click log into visits and count the common paths."""
import random
import tempfile
from collections import Counter, deque
from itertools import groupby
from pathlib import Path

from spill import SpillSorter

PAGES = ["home", "search", "list", "item", "cart", "pay", "help", "account"]
NEXT = {
    0: [1, 2, 6], 1: [2, 3, 1], 2: [3, 3, 1, 0], 3: [4, 2, 3, 0],
    4: [5, 3, 0], 5: [7, 0], 6: [0, 7], 7: [0, 6],
}
GAP = 30 * 60


def clicks(seed, visitors, events):
    """(visitor, second, page, millis) in the order the collectors delivered them."""
    rng = random.Random(seed)
    clock = [rng.randint(0, 40_000) for _ in range(visitors)]
    page = [0] * visitors
    late = deque()
    for _ in range(events):
        v = int(rng.random() ** 2 * visitors)
        clock[v] += rng.randint(2, 600) if rng.random() < 0.93 else rng.randint(1800, 20_000)
        page[v] = rng.choice(NEXT[page[v]])
        record = (v, clock[v], page[v], rng.randint(20, 900))
        if rng.random() < 0.2:
            late.append(record)
            if len(late) > 500:
                yield late.popleft()
        else:
            yield record
    yield from late


def visits(ordered):
    for visitor, events in groupby(ordered, key=lambda r: r[0]):
        current, last = [], None
        for _, second, page, millis in events:
            if last is not None and second - last > GAP:
                yield visitor, current
                current = []
            current.append((second, page, millis))
            last = second
        if current:
            yield visitor, current


def main():
    paths, slow = Counter(), Counter()
    count = longest = bought = 0
    with tempfile.TemporaryDirectory() as tmp:
        sorter = SpillSorter(Path(tmp), limit=40_000)
        for record in clicks(seed=8, visitors=9_000, events=540_000):
            sorter.add(record)
        for _, visit in visits(sorter.merged()):
            count += 1
            longest = max(longest, visit[-1][0] - visit[0][0])
            trail = [p for _, p, _ in visit]
            bought += 5 in trail
            for a, b, c in zip(trail, trail[1:], trail[2:]):
                paths[a, b, c] += 1
            for _, p, millis in visit:
                if millis > 800:
                    slow[p] += 1
    print(f"visits {count} longest {longest} s bought {bought}")
    for path, n in sorted(paths.items(), key=lambda kv: (-kv[1], kv[0]))[:6]:
        print("  " + " > ".join(PAGES[p] for p in path), n)
    print("slow " + ", ".join(f"{PAGES[p]} {slow[p]}" for p in sorted(slow)))


if __name__ == "__main__":
    main()
