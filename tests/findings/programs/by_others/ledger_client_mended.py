"""Posts transfers to a ledger server; sessions are authenticated by challenge and response."""
import asyncio
import hashlib
import json
import random
import zlib

SECRET = b"orchard-gate-7"
ITERATIONS = 10000
TRANSFERS = 130


def prove(challenge):
    return hashlib.pbkdf2_hmac("sha256", SECRET, challenge, ITERATIONS)


class LedgerServer:
    def __init__(self):
        self.balance = {f"acct{n:02d}": 1000 for n in range(20)}
        self.chain = b"genesis"
        self.sessions = 0

    async def handle(self, reader, writer):
        self.sessions += 1
        challenge = self.sessions.to_bytes(8, "big")
        writer.write(challenge)
        await writer.drain()
        answer = await reader.readexactly(32)
        if answer != prove(challenge):
            writer.close()
            return
        while line := await reader.readline():
            reply = self.apply(json.loads(line))
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        writer.close()

    def apply(self, order):
        if self.balance[order["src"]] < order["amount"]:
            return {"ok": False, "seal": self.chain.hex()[:8]}
        self.balance[order["src"]] -= order["amount"]
        self.balance[order["dst"]] += order["amount"]
        for _ in range(4000):
            self.chain = hashlib.blake2b(self.chain + b"|" + order["src"].encode()).digest()
        return {"ok": True, "seal": self.chain.hex()[:8]}


class LedgerClient:
    def __init__(self, port):
        self.port = port
        self.reader = self.writer = None

    async def connect(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        challenge = await self.reader.readexactly(8)
        self.writer.write(prove(challenge))
        await self.writer.drain()

    async def post(self, src, dst, amount):
        if self.writer is None:
            await self.connect()
        order = {"src": src, "dst": dst, "amount": amount}
        self.writer.write(json.dumps(order).encode() + b"\n")
        await self.writer.drain()
        reply = json.loads(await self.reader.readline())
        return reply


def make_orders(seed, count):
    rng = random.Random(seed)
    names = [f"acct{n:02d}" for n in range(20)]
    for _ in range(count):
        src, dst = rng.sample(names, 2)
        yield src, dst, rng.randrange(1, 400)


async def main():
    ledger = LedgerServer()
    server = await asyncio.start_server(ledger.handle, "127.0.0.1", 0)
    client = LedgerClient(server.sockets[0].getsockname()[1])
    accepted, seals = 0, []
    for src, dst, amount in make_orders(5, TRANSFERS):
        reply = await client.post(src, dst, amount)
        accepted += reply["ok"]
        seals.append(reply["seal"])
    client.writer.close()
    await asyncio.sleep(0.02)
    server.close()
    print(f"accepted={accepted} total={sum(ledger.balance.values())} "
          f"mark={zlib.crc32(''.join(seals).encode()):08x}")


if __name__ == "__main__":
    asyncio.run(main())
