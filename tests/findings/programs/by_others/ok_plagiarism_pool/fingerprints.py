"""Winnowed fingerprints of a document (robust winnowing)."""
import random
from collections import deque

BASE = 257
MODULUS = (1 << 61) - 1
GRAM = 12
WINDOW = 8


def make_document(number):
    rng = random.Random(number)
    shared = random.Random(number // 7)
    words = [f"w{shared.randrange(4000)}" for _ in range(250)]
    words += [f"w{rng.randrange(4000)}" for _ in range(900)]
    return " ".join(words)


def rolling_hashes(text):
    data = text.encode()
    top = pow(BASE, GRAM - 1, MODULUS)
    value = 0
    for byte in data[:GRAM]:
        value = (value * BASE + byte) % MODULUS
    yield value
    for leaving, entering in zip(data, data[GRAM:]):
        value = ((value - leaving * top) * BASE + entering) % MODULUS
        yield value


def winnow(text):
    chosen = set()
    minima = deque()
    for position, value in enumerate(rolling_hashes(text)):
        while minima and minima[-1][1] >= value:
            minima.pop()
        minima.append((position, value))
        if minima[0][0] <= position - WINDOW:
            minima.popleft()
        if position >= WINDOW - 1:
            chosen.add(minima[0][1])
    return chosen


def fingerprint(number):
    return number, frozenset(winnow(make_document(number)))
