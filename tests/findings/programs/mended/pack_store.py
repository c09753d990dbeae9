"""Compress log shards with two threads and keep them in one store."""
import queue
import random
import threading
import zlib


class Store:
    def __init__(self):
        self._lock = threading.Lock()
        self._items = {}
        self.raw = 0
        self.packed = 0

    def put(self, name, payload):
        blob = zlib.compress(payload, 9)
        with self._lock:
            self._items[name] = blob
            self.raw += len(payload)
            self.packed += len(blob)

    def ratio(self):
        with self._lock:
            return self.packed / self.raw


def make_shard(index, size=450_000):
    rnd = random.Random(index % 8)
    vocabulary = [f"word{rnd.randrange(90000)}" for _ in range(3000)]
    text = " ".join(rnd.choices(vocabulary, k=size // 9)).encode()
    cut = index * 997
    return text[cut:] + text[:cut]


def worker(todo, store):
    while True:
        try:
            name, payload = todo.get_nowait()
        except queue.Empty:
            return
        store.put(name, payload)


def main(shards=56, threads=2):
    todo = queue.Queue()
    for i in range(shards):
        todo.put((f"shard-{i:03d}", make_shard(i)))
    store = Store()
    pool = [threading.Thread(target=worker, args=(todo, store), name=f"pack-{n}")
            for n in range(threads)]
    for t in pool:
        t.start()
    for t in pool:
        t.join()
    print("shards", len(store._items), "ratio %.3f" % store.ratio())


if __name__ == "__main__":
    main()
