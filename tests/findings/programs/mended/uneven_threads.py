"""Files are compressed by threads, cut by count and not by size."""

import random
import threading
import zlib

SIZES = [40_000] * 30 + [1_000_000] * 5
WORKERS = 2


def compress(files, results, place):
    total = 0
    while True:
        try:
            data = files.pop()
        except IndexError:
            break
        total += len(zlib.compress(data, 5))
    results[place] = total


def main():
    random.seed(5)
    block = bytes(random.choices(b"abcdefgh    ", k=40_000))
    files = [(block * (size // len(block) + 1))[:size] for size in SIZES]
    results = [0] * WORKERS
    files = sorted(files[: len(files) // WORKERS * WORKERS], key=len)
    threads = [
        threading.Thread(target=compress, args=(files, results, n))
        for n in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(results))


main()
