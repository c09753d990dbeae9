"""Sort more records than we care to hold: sorted runs on disk, then a k-way merge."""
import heapq
import struct
from operator import itemgetter

RECORD = struct.Struct("<IIHH")
KEY = itemgetter(0, 1)


class SpillSorter:
    def __init__(self, folder, limit):
        self.folder = folder
        self.limit = limit
        self.pending = []
        self.runs = []

    def add(self, record):
        self.pending.append(record)
        if len(self.pending) >= self.limit:
            self.spill()

    def spill(self):
        if not self.pending:
            return
        self.pending.sort(key=KEY)
        path = self.folder / f"run{len(self.runs):03d}.bin"
        with path.open("wb") as f:
            for record in self.pending:
                f.write(RECORD.pack(*record))
        self.runs.append(path)
        self.pending = []

    @staticmethod
    def read(path):
        with path.open("rb") as f:
            while chunk := f.read(RECORD.size * 4096):
                yield from RECORD.iter_unpack(chunk)

    def merged(self):
        self.spill()
        return heapq.merge(*(self.read(p) for p in self.runs), key=KEY)
