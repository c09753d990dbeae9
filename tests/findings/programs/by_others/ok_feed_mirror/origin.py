"""The feed origin: serves pages of a feed, a limited number at any time."""
import asyncio
import json
import random

SLOTS = 32


class Origin:
    def __init__(self):
        self.slots = asyncio.Semaphore(SLOTS)
        self.served = 0

    async def handle(self, reader, writer):
        try:
            while line := await reader.readline():
                feed, page = line.split()
                async with self.slots:
                    await asyncio.sleep(0.01)
                body = self.render(feed.decode(), int(page))
                writer.write(len(body).to_bytes(4, "big") + body)
                await writer.drain()
                self.served += 1
        finally:
            writer.close()

    @staticmethod
    def render(feed, page):
        rng = random.Random(f"{feed}/{page}")
        entries = [
            {"id": f"{feed}-{page}-{n}", "words": rng.choices(range(5000), k=12)}
            for n in range(14)
        ]
        return json.dumps({"entries": entries, "more": page < 24 + len(feed) % 3}).encode()

    async def start(self):
        server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        return server, server.sockets[0].getsockname()[1]
