import asyncio
import json
from collections import defaultdict


class QuoteCache:
    """Keeps each day's quote; the vendor bills per call, so never ask for one twice."""

    def __init__(self, vendor):
        self._vendor = vendor
        self._quotes = {}
        self._locks = defaultdict(asyncio.Lock)
        self.hits = 0

    async def get(self, symbol, day):
        async with self._locks[symbol, day]:
            quote = self._quotes.get((symbol, day))
            if quote is None:
                quote = await self._vendor.price(symbol, day)
                self._quotes[symbol, day] = quote
            else:
                self.hits += 1
        return quote


class Gateway:
    """One JSON object per line in, one per line out."""

    def __init__(self, cache):
        self.cache = cache
        self.served = 0

    async def answer(self, request):
        legs = []
        for leg in request["legs"]:
            quote = await self.cache.get(leg["symbol"], request["day"])
            side = 1 if leg["side"] == "buy" else -1
            price = quote["bid"] + (quote["spread"] if side > 0 else 0.0)
            legs.append({"symbol": leg["symbol"], "cash": round(-side * leg["qty"] * price, 2)})
        return {"id": request["id"], "legs": legs, "net": round(sum(x["cash"] for x in legs), 2)}

    async def handle(self, reader, writer):
        try:
            while line := await reader.readline():
                reply = await self.answer(json.loads(line))
                self.served += 1
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()
