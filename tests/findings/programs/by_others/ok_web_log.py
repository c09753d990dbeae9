"""Count requests, sessions and slow pages in a generated web log."""
import random
import re
import tempfile
import zlib
from collections import Counter, defaultdict
from pathlib import Path

LINE = re.compile(r'^(\S+) (\d+) "([A-Z]+) ([^ "]+)" (\d{3}) (\d+)$')
SESSION_GAP = 1800


def write_log(path, count, seed):
    rng = random.Random(seed)
    clock = 1_700_000_000
    with open(path, "w") as handle:
        for _ in range(count):
            clock += rng.randint(0, 3)
            page = f"/{rng.choice('abcdef')}/{rng.randint(1, 300)}"
            status = rng.choice((200, 200, 200, 304, 404, 500))
            handle.write(f'10.0.{rng.randint(0, 9)}.{rng.randint(1, 250)} {clock} "GET {page}" '
                         f'{status} {rng.randint(1, 900)}\n')


def read_log(path):
    with open(path) as handle:
        for line in handle:
            match = LINE.match(line)
            if match:
                host, clock, _, page, status, millis = match.groups()
                yield host, int(clock), page, status, int(millis)


class Sessions:
    def __init__(self):
        self.last = {}
        self.count = 0

    def see(self, host, clock):
        before = self.last.get(host)
        if before is None or clock - before > SESSION_GAP:
            self.count += 1
        self.last[host] = clock


class Pages:
    def __init__(self):
        self.status = Counter()
        self.times = defaultdict(list)

    def see(self, page, status, millis):
        self.status[status] += 1
        self.times[page].append(millis)

    def slowest(self, count):
        medians = {}
        for page, times in self.times.items():
            times.sort()
            medians[page] = times[len(times) // 2]
        return sorted(medians.items(), key=lambda item: (-item[1], item[0]))[:count]


def analyse(path):
    sessions = Sessions()
    pages = Pages()
    for host, clock, page, status, millis in read_log(path):
        sessions.see(host, clock)
        pages.see(page, status, millis)
    return sessions, pages


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "web.log"
        write_log(path, 300000, 19)
        sessions, pages = analyse(path)
    slow = pages.slowest(20)
    rows = repr((sorted(pages.status.items()), slow))
    print(sessions.count, slow[0][0], f"{zlib.crc32(rows.encode()):08x}")


if __name__ == "__main__":
    main()
