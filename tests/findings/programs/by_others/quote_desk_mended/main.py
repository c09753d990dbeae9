"""Morning valuation: a number of desks send their orders to the gateway at once."""
import asyncio
import json
import random

from gateway import Gateway, QuoteCache
from vendor import Vendor

DESKS = 24
ORDERS = 110
SYMBOLS = [f"{a}{b}X" for a in "ABCDEFGHIJKLMNO" for b in "KLMNOPQRST"]


def orders_for(desk):
    rng = random.Random(4100 + desk)
    for n in range(ORDERS):
        legs = [
            {"symbol": rng.choice(SYMBOLS), "qty": rng.randint(1, 500), "side": rng.choice(["buy", "sell"])}
            for _ in range(rng.randint(1, 4))
        ]
        yield {"id": desk * 10_000 + n, "day": 1 + n * 2 // ORDERS, "legs": legs}


async def run_desk(desk, port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    net, count = 0.0, 0
    for order in orders_for(desk):
        writer.write(json.dumps(order).encode() + b"\n")
        await writer.drain()
        reply = json.loads(await reader.readline())
        assert reply["id"] == order["id"]
        net += reply["net"]
        count += len(reply["legs"])
    writer.close()
    return desk, count, round(net, 2)


async def main():
    vendor = Vendor()
    cache = QuoteCache(vendor)
    gateway = Gateway(cache)
    server = await asyncio.start_server(gateway.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        results = await asyncio.gather(*(run_desk(d, port) for d in range(DESKS)))
    for desk, count, net in results:
        print(f"desk {desk:2d} legs {count:4d} net {net:14.2f}")
    print(f"served {gateway.served} vendor calls {vendor.calls} hits {cache.hits}")


if __name__ == "__main__":
    asyncio.run(main())
