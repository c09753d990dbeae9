"""Healthy: two threads share equal-cost items from one queue."""
import hashlib
import queue
import threading


class Pool:
    def __init__(self, threads):
        self.todo = queue.SimpleQueue()
        self.done = queue.SimpleQueue()
        self.threads = [threading.Thread(target=self._loop, name=f"pool-{i}")
                        for i in range(threads)]

    def _loop(self):
        while (item := self.todo.get()) is not None:
            self.done.put((item, hashlib.pbkdf2_hmac("sha256", str(item).encode(), b"x", 50000)))

    def run(self, items):
        for item in items:
            self.todo.put(item)
        for _ in self.threads:
            self.todo.put(None)
        for t in self.threads:
            t.start()
        for t in self.threads:
            t.join()
        out = {}
        while not self.done.empty():
            item, key = self.done.get()
            out[item] = key
        return out


def main():
    keys = Pool(2).run(range(120))
    print(len(keys), hashlib.sha256(b"".join(keys[i] for i in sorted(keys))).hexdigest()[:12])


if __name__ == "__main__":
    main()
