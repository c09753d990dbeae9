"""Collect simulated feeds concurrently and keep a running account of the entries."""
import asyncio
import random
import zlib
from dataclasses import dataclass


@dataclass
class Entry:
    feed: int
    key: str
    score: int


class Source:
    def __init__(self, count, seed):
        rng = random.Random(seed)
        self.pages = [rng.randint(1, 4) for _ in range(count)]
        self.connections = asyncio.Semaphore(4)

    async def fetch(self, feed):
        rng = random.Random(feed)
        parts = []
        async with self.connections:
            for _ in range(self.pages[feed]):
                await asyncio.sleep(0)
                parts.extend(f"k{rng.randint(0, 500)}={rng.randint(0, 99)}" for _ in range(15))
        return feed, ";".join(parts)


class Account:
    def __init__(self):
        self.scores = {}
        self.feeds = 0

    def add(self, entries):
        self.feeds += 1
        for entry in entries:
            self.scores[entry.key] = self.scores.get(entry.key, 0) + entry.score

    def checksum(self):
        text = ",".join(f"{key}:{score}" for key, score in sorted(self.scores.items()))
        return f"{zlib.crc32(text.encode()):08x}"


def parse(feed, payload):
    entries = []
    for part in payload.split(";"):
        key, _, score = part.partition("=")
        entries.append(Entry(feed, key, int(score)))
    return entries


async def results(tasks):
    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            yield task.result()


async def collect(source, count):
    account = Account()
    tasks = [asyncio.create_task(source.fetch(feed)) for feed in range(count)]
    async for feed, payload in results(tasks):
        account.add(parse(feed, payload))
    return account


def main():
    count = 4000
    source = Source(count, 3)
    account = asyncio.run(collect(source, count))
    print(account.feeds, sum(account.scores.values()), account.checksum())


if __name__ == "__main__":
    main()
