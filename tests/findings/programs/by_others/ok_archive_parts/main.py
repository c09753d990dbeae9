"""Pack a folder of generated reports into a checked, compressed container."""
import hashlib
import json
import lzma
import random
import struct
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MAGIC = b"PAK2"
BLOCK = 192 * 1024


def write_reports(folder, seed, files):
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(3, 9))) for _ in range(1500)]
    for n in range(files):
        lines = []
        for k in range(rng.randint(14_000, 18_000)):
            lines.append(f"{n:03d}.{k:05d} " + " ".join(rng.choices(words, k=12)))
        (folder / f"report{n:03d}.txt").write_text("\n".join(lines))


class Ledger:
    """Running totals shared by the workers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.raw = self.packed = self.blocks = 0

    def note(self, raw, packed):
        with self.lock:
            self.raw += raw
            self.packed += packed
            self.blocks += 1


def pack_block(ledger, data):
    packed = lzma.compress(data, format=lzma.FORMAT_ALONE, preset=1)
    ledger.note(len(data), len(packed))
    return hashlib.sha256(data).digest(), packed


def blocks_of(path):
    with path.open("rb") as f:
        while data := f.read(BLOCK):
            yield data


def pack(folder, target, ledger, workers=2):
    index = []
    with ThreadPoolExecutor(workers) as pool, target.open("wb") as out:
        out.write(MAGIC)
        for path in sorted(folder.glob("*.txt")):
            entry = {"name": path.name, "blocks": []}
            for mark, packed in pool.map(lambda d: pack_block(ledger, d), blocks_of(path)):
                entry["blocks"].append([out.tell(), len(packed), mark.hex()])
                out.write(packed)
            index.append(entry)
        at = out.tell()
        out.write(json.dumps(index).encode())
        out.write(struct.pack("<Q", at))
    return index


def verify(target):
    raw = target.read_bytes()
    assert raw[:4] == MAGIC
    (at,) = struct.unpack("<Q", raw[-8:])
    good = 0
    for entry in json.loads(raw[at:-8]):
        for offset, size, mark in entry["blocks"]:
            data = lzma.decompress(raw[offset : offset + size])
            if hashlib.sha256(data).hexdigest() != mark:
                raise SystemExit(f"bad block in {entry['name']}")
            good += 1
    return good


def main():
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp)
        write_reports(folder, seed=3, files=12)
        ledger = Ledger()
        target = folder / "reports.pak"
        index = pack(folder, target, ledger)
        print(f"files {len(index)} blocks {ledger.blocks}")
        print(f"raw {ledger.raw} packed {ledger.packed} ratio {ledger.packed / ledger.raw:.3f}")
        print(f"verified {verify(target)}")
        print(hashlib.sha256(target.read_bytes()).hexdigest()[:20])


if __name__ == "__main__":
    main()
