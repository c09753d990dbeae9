"""Two threads compress equal halves; zlib lets go of the GIL."""

import random
import threading
import zlib


def compress(blocks, results, place):
    results[place] = sum(len(zlib.compress(block, 6)) for block in blocks)


random.seed(2)
block = bytes(random.choices(b"abcdefgh    ", k=500_000))
results = [0, 0]
threads = [
    threading.Thread(target=compress, args=([block] * 12, results, place)) for place in range(2)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(results)
