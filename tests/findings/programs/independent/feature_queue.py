"""One reader thread decodes records, two trainer-side threads score them."""
import bz2
import hashlib
import threading
from dataclasses import dataclass, field
from queue import Queue

import pandas as pd

DONE = object()


@dataclass
class Scores:
    rows: list = field(default_factory=list)
    guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, row):
        with self.guard:
            self.rows.append(row)


def records(count):
    base = "".join(hashlib.sha256(str(i).encode()).hexdigest() for i in range(3000)).encode()
    packed = [bz2.compress(base[k:] + base[:k]) for k in range(0, 800, 100)]
    return [packed[i % len(packed)] for i in range(count)]


def reader(source, out, consumers):
    for index, blob in enumerate(source):
        text = bz2.decompress(blob)
        for _ in range(2):               # verify the archive twice, as the format asks
            assert bz2.decompress(bz2.compress(text)) == text
        out.put((index, text))
    for _ in range(consumers):
        out.put(DONE)


def scorer(inbox, scores):
    while (item := inbox.get()) is not DONE:
        index, text = item
        digest = hashlib.pbkdf2_hmac("sha1", text[:64], b"s", 4000)
        scores.add((index, len(text), digest[0]))


def main(count=60, consumers=2):
    inbox, scores = Queue(maxsize=4), Scores()
    source = records(count)
    threads = [threading.Thread(target=reader, args=(source, inbox, consumers), name="reader")]
    threads += [threading.Thread(target=scorer, args=(inbox, scores), name=f"scorer-{i}")
                for i in range(consumers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    frame = pd.DataFrame(scores.rows, columns=["index", "size", "score"]).sort_values("index")
    print(frame["score"].describe().round(2).to_dict())


if __name__ == "__main__":
    main()
