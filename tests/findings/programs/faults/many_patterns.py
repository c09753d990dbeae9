"""Each word of a dictionary is looked for by a pattern of its own, more than re remembers."""

import re

WORDS = [f"w{n:03d}" for n in range(700)]
LINES = [f"line {n} with w{n % 700:03d} and w{n * 7 % 700:03d}" for n in range(4)]


def mentions(line):
    return [word for word in WORDS if re.search(rf"\b{word}\b", line)]


total = sum(len(mentions(line)) for line in LINES)
print(total)
