"""Crawl a generated site with a fixed number of asynchronous workers."""
import asyncio
import hashlib
import random
import re
from collections import Counter

LINK = re.compile(r'href="(/p/\d+)"')
WORD = re.compile(r"[a-z]{3,}")


class Site:
    def __init__(self, pages, seed):
        rng = random.Random(seed)
        words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 7))) for _ in range(900)]
        self.bodies = {}
        for number in range(pages):
            links = [(number + 1) % pages] + [rng.randrange(pages) for _ in range(6)]
            anchors = " ".join(f'<a href="/p/{target}">{rng.choice(words)}</a>' for target in links)
            self.bodies[f"/p/{number}"] = " ".join(rng.choices(words, k=320)) + anchors

    async def get(self, path):
        await asyncio.sleep(0)
        return self.bodies[path]


class Index:
    def __init__(self):
        self.words = Counter()
        self.digests = {}

    def add(self, path, body):
        self.words.update(WORD.findall(body))
        self.digests[path] = hashlib.sha256(body.encode()).hexdigest()

    def checksum(self):
        total = hashlib.sha1()
        for path in sorted(self.digests):
            total.update(self.digests[path].encode())
        for word, count in sorted(self.words.items()):
            total.update(f"{word}{count}".encode())
        return total.hexdigest()[:12]


class Crawler:
    def __init__(self, site, workers):
        self.site = site
        self.workers = workers
        self.index = Index()
        self.seen = set()
        self.queue = asyncio.Queue()

    def offer(self, path):
        if path not in self.seen:
            self.seen.add(path)
            self.queue.put_nowait(path)

    async def work(self):
        while True:
            path = await self.queue.get()
            try:
                body = await self.site.get(path)
                self.index.add(path, body)
                for link in LINK.findall(body):
                    self.offer(link)
            finally:
                self.queue.task_done()

    async def run(self, start):
        self.offer(start)
        tasks = [asyncio.create_task(self.work()) for _ in range(self.workers)]
        await self.queue.join()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main():
    crawler = Crawler(Site(9000, 13), workers=16)
    asyncio.run(crawler.run("/p/0"))
    print(len(crawler.seen), len(crawler.index.words), crawler.index.checksum())


if __name__ == "__main__":
    main()
