"""Quote gateway: gathers vendor quotes for client portfolios."""
import asyncio
from dataclasses import dataclass

import requests
from requests.adapters import HTTPAdapter


@dataclass(frozen=True)
class Quote:
    symbol: str
    bid: float
    ask: float
    volume: int

    @property
    def mid(self):
        return (self.bid + self.ask) / 2


class QuoteGateway:
    def __init__(self, base_url, max_in_flight=16):
        self.base_url = base_url
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.mount("http://", HTTPAdapter(pool_maxsize=max_in_flight))
        self.slots = asyncio.Semaphore(max_in_flight)
        self.requests_made = 0

    async def quote(self, symbol):
        async with self.slots:
            payload = await self._call("/v1/quote", {"symbol": symbol})
        return Quote(payload["symbol"], payload["bid"], payload["ask"], payload["volume"])

    async def _call(self, path, params):
        self.requests_made += 1
        response = self.session.get(self.base_url + path, params=params, timeout=5)
        response.raise_for_status()
        return response.json()

    async def value_portfolio(self, positions):
        quotes = await asyncio.gather(*(self.quote(symbol) for symbol in positions))
        value = sum(q.mid * positions[q.symbol] for q in quotes)
        spread = sum((q.ask - q.bid) * positions[q.symbol] for q in quotes)
        return value, spread

    def close(self):
        self.session.close()
