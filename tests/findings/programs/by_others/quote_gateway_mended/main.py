"""Values a set of client portfolios against the vendor's live quotes."""
import asyncio
import random

from gateway import QuoteGateway
from upstream import start_vendor

CLIENTS = 12
POSITIONS = 11


def make_portfolios(seed=11):
    rng = random.Random(seed)
    universe = [f"{a}{b}{c}" for a in "ABCDEF" for b in "KLMN" for c in "XYZ"]
    portfolios = {}
    for client in range(CLIENTS):
        symbols = rng.sample(universe, POSITIONS)
        portfolios[f"client-{client:02d}"] = {s: rng.randint(10, 400) for s in symbols}
    return portfolios


async def value_all(base_url, portfolios):
    gateway = QuoteGateway(base_url)
    try:
        names = sorted(portfolios)
        results = await asyncio.gather(
            *(gateway.value_portfolio(portfolios[name]) for name in names)
        )
    finally:
        gateway.close()
    return dict(zip(names, results)), gateway.requests_made


def main():
    server, base_url = start_vendor()
    try:
        values, calls = asyncio.run(value_all(base_url, make_portfolios()))
    finally:
        server.shutdown()
    best = max(values, key=lambda name: values[name][0])
    total = sum(value for value, _ in values.values())
    cost = sum(spread for _, spread in values.values())
    print(f"portfolios={len(values)} calls={calls}")
    print(f"total={total:.2f} spread_cost={cost:.2f} largest={best}")


if __name__ == "__main__":
    main()
