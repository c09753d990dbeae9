"""Mirrors all feeds, each one over its own connection, page after page."""
import asyncio
import json
from collections import Counter


class Mirror:
    def __init__(self, port, connections):
        self.port = port
        self.connections = connections
        self.entries = Counter()
        self.words = Counter()

    async def run(self, feeds):
        todo = asyncio.Queue()
        for feed in feeds:
            todo.put_nowait(feed)
        async with asyncio.TaskGroup() as group:
            for _ in range(self.connections):
                group.create_task(self._worker(todo))

    async def _worker(self, todo):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while not todo.empty():
            await self._copy(todo.get_nowait(), reader, writer)
        writer.close()
        await writer.wait_closed()

    async def _copy(self, feed, reader, writer):
        page, more = 0, True
        while more:
            writer.write(f"{feed} {page}\n".encode())
            size = int.from_bytes(await reader.readexactly(4), "big")
            document = json.loads(await reader.readexactly(size))
            for entry in document["entries"]:
                self.words.update(entry["words"])
            self.entries[feed] += len(document["entries"])
            page, more = page + 1, document["more"]
