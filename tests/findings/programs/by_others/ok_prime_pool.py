"""Counts primes, twins and gaps in segments of a range, spread over worker processes."""
import concurrent.futures
import math

LIMIT = 24_000_000
SEGMENT = 1_000_000
WORKERS = 2


def small_primes(limit):
    flags = bytearray([1]) * (limit + 1)
    flags[0:2] = b"\0\0"
    for n in range(2, math.isqrt(limit) + 1):
        if flags[n]:
            flags[n * n::n] = bytes(len(range(n * n, limit + 1, n)))
    return [n for n, flag in enumerate(flags) if flag]


def sieve_segment(low, high, base):
    flags = bytearray([1]) * (high - low)
    for prime in base:
        first = max(prime * prime, (low + prime - 1) // prime * prime)
        if first < high:
            flags[first - low::prime] = bytes(len(range(first, high, prime)))
    return flags


def study(bounds):
    low, high = bounds
    base = small_primes(math.isqrt(high))
    flags = sieve_segment(low, high, base)
    count = twins = widest = 0
    first = last = None
    at = flags.find(1)
    while at != -1:
        prime = low + at
        count += 1
        if last is None:
            first = prime
        else:
            gap = prime - last
            twins += gap == 2
            widest = max(widest, gap)
        last = prime
        at = flags.find(1, at + 1)
    return first, last, count, twins, widest


def segments(limit, size):
    return [(max(low, 2), min(low + size, limit)) for low in range(0, limit, size)]


def combine(parts):
    count = twins = widest = 0
    previous = None
    for first, last, c, t, w in parts:
        count, twins, widest = count + c, twins + t, max(widest, w)
        if previous is not None:
            twins += first - previous == 2
            widest = max(widest, first - previous)
        previous = last
    return count, twins, widest, previous


def main():
    with concurrent.futures.ProcessPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(study, segments(LIMIT, SEGMENT)))
    count, twins, widest, last = combine(parts)
    print(f"primes={count} twins={twins} widest={widest} last={last}")


if __name__ == "__main__":
    main()
