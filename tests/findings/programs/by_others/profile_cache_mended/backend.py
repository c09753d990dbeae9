"""Profile backend: a line-based JSON service, and a pooled client for it."""
import asyncio
import json

LOOKUP_DELAY = 0.03
PLANS = ("free", "team", "business", "enterprise")


async def _serve_client(reader, writer):
    try:
        while line := await reader.readline():
            request = json.loads(line)
            await asyncio.sleep(LOOKUP_DELAY)
            uid = request["user"]
            reply = {
                "user": uid,
                "plan": PLANS[uid * 7 % 4],
                "seats": uid * 31 % 40 + 1,
                "flags": [f"f{k}" for k in range(uid % 6)],
            }
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
    finally:
        writer.close()


async def start_backend():
    server = await asyncio.start_server(_serve_client, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


class ProfileClient:
    def __init__(self, port, size=20):
        self.port = port
        self.size = size
        self.idle = asyncio.Queue()
        self.calls = 0

    async def connect(self):
        for _ in range(self.size):
            self.idle.put_nowait(await asyncio.open_connection("127.0.0.1", self.port))

    async def fetch(self, user_id):
        reader, writer = await self.idle.get()
        try:
            self.calls += 1
            writer.write(json.dumps({"user": user_id}).encode() + b"\n")
            return json.loads(await reader.readline())
        finally:
            self.idle.put_nowait((reader, writer))

    async def close(self):
        while not self.idle.empty():
            _, writer = self.idle.get_nowait()
            writer.close()
            await writer.wait_closed()
