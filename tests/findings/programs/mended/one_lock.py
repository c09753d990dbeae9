"""Requests are answered by threads that share one lock, held while the disk is slow."""

import threading
import time

lock = threading.Lock()
cache = {}


def read_from_disk(key):
    time.sleep(0.01)
    return key * 2


def lookup(key):
    if key not in cache:
        value = read_from_disk(key)
        with lock:
            cache.setdefault(key, value)
    return cache[key]


def serve(keys):
    for key in keys:
        lookup(key)


threads = [
    threading.Thread(target=serve, args=(range(n, 100, 4),), name=f"request-{n}") for n in range(4)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(cache))
