"""Packs generated documents into compressed blocks with a thread pipeline and verifies them."""
import hashlib
import pathlib
import queue
import random
import struct
import tempfile
import threading
import zlib

DOCUMENTS = 130
PACKERS = 2
HEADER = struct.Struct("<III")


def make_document(number):
    rng = random.Random(number)
    words = [rng.randbytes(rng.randrange(3, 9)).hex() for _ in range(300)]
    return " ".join(rng.choices(words, k=25000)).encode()


class Packer(threading.Thread):
    def __init__(self, inbox, outbox):
        super().__init__()
        self.inbox = inbox
        self.outbox = outbox

    def run(self):
        while (item := self.inbox.get()) is not None:
            number, data = item
            packed = zlib.compress(data, 6)
            self.outbox.put((number, len(data), packed))


class Writer(threading.Thread):
    """Writes blocks in the order of their numbers, whatever order they arrive in."""

    def __init__(self, path, outbox, count):
        super().__init__()
        self.path = path
        self.outbox = outbox
        self.count = count

    def run(self):
        held, wanted = {}, 0
        with open(self.path, "wb") as out:
            while wanted < self.count:
                number, size, packed = self.outbox.get()
                held[number] = (size, packed)
                while wanted in held:
                    size, packed = held.pop(wanted)
                    out.write(HEADER.pack(wanted, size, len(packed)))
                    out.write(packed)
                    wanted += 1


def read_blocks(path):
    with open(path, "rb") as src:
        while head := src.read(HEADER.size):
            number, size, packed = HEADER.unpack(head)
            data = zlib.decompress(src.read(packed))
            if len(data) != size:
                raise ValueError(f"block {number} is damaged")
            yield number, data


def pack_all(path):
    inbox, outbox = queue.Queue(8), queue.Queue(8)
    threads = [Packer(inbox, outbox) for _ in range(PACKERS)]
    threads.append(Writer(path, outbox, DOCUMENTS))
    for thread in threads:
        thread.start()
    for number in range(DOCUMENTS):
        inbox.put((number, make_document(number)))
    for _ in range(PACKERS):
        inbox.put(None)
    for thread in threads:
        thread.join()


def main():
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp) / "archive.bin"
        pack_all(path)
        whole, size, count = hashlib.sha256(), 0, 0
        for number, data in read_blocks(path):
            whole.update(data)
            size += len(data)
            count += number == count
        print(f"blocks={count} bytes={size} mark={whole.hexdigest()[:12]}")


if __name__ == "__main__":
    main()
