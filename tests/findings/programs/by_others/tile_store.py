"""Threaded tile renderer in front of a tile archive with an in-memory store."""
import hashlib
import random
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

THREADS = 8
REQUESTS = 900


class Archive:
    """The tile archive; an answer takes a while to arrive."""

    def __init__(self, latency=0.007):
        self.latency = latency

    def load(self, key):
        time.sleep(self.latency)
        rng = random.Random(repr(key))
        return zlib.compress(bytes(rng.randrange(64) for _ in range(1024)))


class TileStore:
    def __init__(self, archive):
        self.archive = archive
        self.tiles = {}
        self.lock = threading.Lock()

    def get(self, key):
        with self.lock:
            if key not in self.tiles:
                self.tiles[key] = self.archive.load(key)
            return self.tiles[key]


class Renderer:
    def __init__(self, store):
        self.store = store

    def shade(self, raw, level):
        table = bytes((v * level) & 0xFF for v in range(256))
        return raw.translate(table)

    def render(self, job):
        key, level = job
        raw = zlib.decompress(self.store.get(key))
        image = self.shade(raw, level)
        return hashlib.sha1(image).digest()[:4]


def make_jobs(seed):
    rng = random.Random(seed)
    jobs = []
    for _ in range(REQUESTS):
        zoom = rng.randrange(3, 6)
        x = min(int(rng.expovariate(0.25)), 2 ** zoom - 1)
        y = min(int(rng.expovariate(0.25)), 2 ** zoom - 1)
        jobs.append(((zoom, x, y), rng.randrange(1, 8)))
    return jobs


def main():
    store = TileStore(Archive())
    renderer = Renderer(store)
    jobs = make_jobs(21)
    with ThreadPoolExecutor(THREADS) as pool:
        marks = list(pool.map(renderer.render, jobs))
    print(f"jobs={len(jobs)} tiles={len(store.tiles)} "
          f"mark={hashlib.sha1(b''.join(marks)).hexdigest()[:12]}")


if __name__ == "__main__":
    main()
