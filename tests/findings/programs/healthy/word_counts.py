"""Words of a text, counted and written as JSON once at the end."""

import collections
import json
import random
import re
import sys

WORD = re.compile(r"[a-z]+")


def lines(count):
    random.seed(3)
    letters = "abcdefghij"
    for _ in range(count):
        yield " ".join("".join(random.choices(letters, k=3)) for _ in range(12))


counts = collections.Counter()
for line in lines(9_000):
    counts.update(WORD.findall(line))
json.dump(counts.most_common(5), sys.stdout)
