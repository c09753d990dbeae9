"""A small command that brings a whole library along and asks nothing of it."""

import sys


def count(text):
    words = {}
    for word in text.split():
        words[word] = words.get(word, 0) + 1
    return words


text = "to be or not to be that is the question " * 2_000
print(sorted(count(text).items(), key=lambda pair: -pair[1])[:3], file=sys.stdout)
