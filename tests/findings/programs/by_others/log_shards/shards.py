"""Writer threads, one for each shard file."""
import json
import threading
from collections import deque


class ShardWriter(threading.Thread):
    BATCH = 500

    def __init__(self, path):
        super().__init__(name=f"writer-{path.stem}", daemon=True)
        self.path = path
        self.inbox = deque()
        self.closing = threading.Event()
        self.written = 0

    def put(self, records):
        self.inbox.append(records)

    def close(self):
        self.closing.set()
        self.join()

    def run(self):
        with open(self.path, "w") as out:
            while True:
                records = self._next()
                if records is None:
                    break
                out.writelines(json.dumps(r) + "\n" for r in records)
                self.written += len(records)

    def _next(self):
        while True:
            if self.inbox:
                return self.inbox.popleft()
            if self.closing.is_set() and not self.inbox:
                return None


class ShardRouter:
    def __init__(self, folder, names):
        self.writers = {n: ShardWriter(folder / f"{n}.jsonl") for n in names}
        self.pending = {n: [] for n in names}
        for writer in self.writers.values():
            writer.start()

    def route(self, name, record):
        batch = self.pending[name]
        batch.append(record)
        if len(batch) >= ShardWriter.BATCH:
            self.writers[name].put(batch)
            self.pending[name] = []

    def close(self):
        for name, writer in self.writers.items():
            writer.put(self.pending[name])
        for writer in self.writers.values():
            writer.close()
        return {name: writer.written for name, writer in self.writers.items()}
