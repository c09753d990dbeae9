"""Each word of a dictionary is looked for by a pattern of its own, more than re remembers."""

import re

WORDS = [f"w{n:03d}" for n in range(700)]
PATTERNS = {word: re.compile(rf"\b{word}\b") for word in WORDS}
LINES = [f"line {n} with w{n % 700:03d} and w{n * 7 % 700:03d}" for n in range(4)]


def mentions(line):
    return [word for word in WORDS if PATTERNS[word].search(line)]


total = sum(len(mentions(line)) for line in LINES)
print(total)
