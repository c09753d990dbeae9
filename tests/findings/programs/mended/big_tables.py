"""Tables, made when this is imported."""

import functools

NAME = "tables"


def primes(limit):
    found = []
    for n in range(2, limit):
        if all(n % p for p in found if p * p <= n):
            found.append(n)
    return found


SQUARES = [n * n for n in range(200_000)]


@functools.cache
def PRIMES():
    return primes(60_000)
