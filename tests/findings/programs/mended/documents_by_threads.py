"""Documents are indexed by a pool, although only Python works on them."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

DOCUMENTS = [" ".join(f"w{(n * 7 + k) % 9_973}" for k in range(100_000)) for n in range(6)]


def score(document):
    words = {}
    for word in document.split():
        words[word] = words.get(word, 0) + 1
    total = 0
    for word, number in words.items():
        for letter in word:
            total = (total * 31 + ord(letter) * number) % 1_000_003
    return total


def main():
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
        print(sum(pool.map(score, DOCUMENTS * 8)))


main()
