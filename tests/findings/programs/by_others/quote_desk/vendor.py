"""Stands in for the price vendor: answers after a while, over our own loop."""
import asyncio
import zlib


class Vendor:
    def __init__(self, delay=0.016, limit=64):
        self.delay = delay
        self.slots = asyncio.Semaphore(limit)
        self.calls = 0

    async def price(self, symbol, day):
        async with self.slots:
            self.calls += 1
            await asyncio.sleep(self.delay)
        mark = zlib.crc32(f"{symbol}:{day}".encode())
        return {
            "symbol": symbol,
            "day": day,
            "bid": 10 + (mark % 9000) / 100,
            "spread": 0.01 + (mark >> 16) % 40 / 1000,
        }
