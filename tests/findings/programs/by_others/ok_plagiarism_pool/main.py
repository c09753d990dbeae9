"""Finds pairs of documents which share passages, by winnowed fingerprints."""
from collections import Counter, defaultdict
from itertools import combinations
from multiprocessing import Pool

from fingerprints import fingerprint

DOCUMENTS = 900
WORKERS = 2
COMMON = 12


def collect(pool):
    index = defaultdict(list)
    sizes = {}
    for number, marks in pool.imap_unordered(fingerprint, range(DOCUMENTS), chunksize=50):
        sizes[number] = len(marks)
        for mark in marks:
            index[mark].append(number)
    return index, sizes


def shared_pairs(index):
    pairs = Counter()
    for holders in index.values():
        if 2 <= len(holders) <= COMMON:
            pairs.update(combinations(sorted(holders), 2))
    return pairs


def main():
    with Pool(WORKERS) as pool:
        index, sizes = collect(pool)
    pairs = shared_pairs(index)
    suspects = [
        (count / min(sizes[a], sizes[b]), a, b)
        for (a, b), count in pairs.items()
        if count > 60
    ]
    suspects.sort(reverse=True)
    print(f"documents={len(sizes)} marks={len(index)} suspects={len(suspects)}")
    for score, a, b in suspects[:3]:
        print(f"{a:>5} {b:>5} overlap={score:.3f}")


if __name__ == "__main__":
    main()
