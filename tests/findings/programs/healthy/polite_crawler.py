"""A polite crawler: one request at a time, by a lock, and a gap between two."""

import asyncio, random

random.seed(6)


class Polite:
    def __init__(self, gap):
        self.gap, self.lock, self.last = gap, asyncio.Lock(), 0.0

    async def get(self, path):
        async with self.lock:
            now = asyncio.get_running_loop().time()
            if now < self.last + self.gap:
                await asyncio.sleep(self.last + self.gap - now)
            self.last = asyncio.get_running_loop().time()
            return len(path) * 7 % 5


async def robots(host):
    await asyncio.sleep(0.01)
    return host % 3


async def main():
    polite = Polite(0.02)
    links = [f"/p{k}" for k in range(70)]
    rules = [await robots(1)]
    total = 0
    for link in links:
        total += await polite.get(link)
    print(total, rules)


asyncio.run(main())
