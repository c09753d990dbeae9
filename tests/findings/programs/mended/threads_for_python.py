"""Four threads for work that only Python does."""

import concurrent.futures
import multiprocessing


def collatz(start, stop):
    longest = 0
    for n in range(start, stop):
        length = 0
        while n != 1:
            n = 3 * n + 1 if n & 1 else n >> 1
            length += 1
        if length > longest:
            longest = length
    return longest


def work(place):
    return collatz(1 + place * 20_000, 1 + (place + 1) * 20_000)


fork = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(4, mp_context=fork) as pool:
    found = list(pool.map(work, range(4)))
print(max(found))
