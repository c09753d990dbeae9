"""Collects daily price bars from a quote service and computes indicators on them."""
import asyncio
import json
import random
import statistics

SYMBOLS = [f"{a}{b}{c}" for a in "ABCDE" for b in "KLMNOP" for c in "XYZW"]
BARS = 120


class QuoteService:
    """Stands in for the remote vendor; listens on the loopback interface."""

    def __init__(self, latency=0.014):
        self.latency = latency
        self.server = None

    async def start(self):
        self.server = await asyncio.start_server(self.handle, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def handle(self, reader, writer):
        symbol = (await reader.readline()).decode().strip()
        await asyncio.sleep(self.latency)
        rng = random.Random(symbol)
        price, bars = 100.0, []
        for _ in range(BARS):
            price *= 1 + rng.gauss(0, 0.01)
            bars.append(round(price, 4))
        writer.write(json.dumps({"symbol": symbol, "bars": bars}).encode() + b"\n")
        await writer.drain()
        writer.close()


class Collector:
    def __init__(self, port, limit=16):
        self.port = port
        self.gate = asyncio.Semaphore(limit)
        self.books = {}

    async def fetch(self, symbol):
        async with self.gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(symbol.encode() + b"\n")
            await writer.drain()
            reply = json.loads(await reader.readline())
            writer.close()
            return reply["symbol"], reply["bars"]

    async def collect(self, symbols):
        for symbol in symbols:
            name, bars = await self.fetch(symbol)
            self.books[name] = bars
        return len(self.books)


def moving_average(bars, width):
    total, out = sum(bars[:width]), []
    for i in range(width, len(bars)):
        out.append(total / width)
        total += bars[i] - bars[i - width]
    return out


def indicators(bars):
    returns = [b / a - 1 for a, b in zip(bars, bars[1:])]
    narrow, wide = moving_average(bars, 5), moving_average(bars, 20)
    crossings = sum(1 for f, s in zip(narrow[15:], wide) if f > s)
    return statistics.pstdev(returns), crossings, max(bars) - min(bars)


async def main():
    service = QuoteService()
    port = await service.start()
    collector = Collector(port)
    count = await collector.collect(SYMBOLS)
    service.server.close()
    risk = cross = span = 0
    for symbol in sorted(collector.books):
        r, c, s = indicators(collector.books[symbol])
        risk, cross, span = risk + r, cross + c, span + s
    print(f"symbols={count} risk={risk:.6f} crossings={cross} span={span:.3f}")


if __name__ == "__main__":
    asyncio.run(main())
