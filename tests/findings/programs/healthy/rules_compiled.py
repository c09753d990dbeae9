"""Each of many patterns is compiled once, at the start, and used for every line."""

import re


def rules(count):
    return [re.compile(rf"\bitem{n:04d}\b (\d+)") for n in range(count)]


def matches(patterns, line):
    return sum(pattern.search(line) is not None for pattern in patterns)


patterns = rules(1_500)
print(sum(matches(patterns, f"order of item{n:04d} {n % 9}") for n in range(0, 1_500, 10)))
