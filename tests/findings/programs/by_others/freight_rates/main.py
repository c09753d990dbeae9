"""Quote a day's shipments with two worker processes."""
import random
from multiprocessing import get_context

from tariff import Tariff

WORKERS = 2


def shipments(codes, seed, count):
    rng = random.Random(seed)
    for number in range(count):
        yield number, rng.choice(codes), rng.randint(1, 70)


def batched(items, size):
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class RateDesk:
    def __init__(self, tariff):
        self.tariff = tariff

    def quote(self, batch):
        quotes = []
        for number, code, kilos in batch:
            place = self.tariff.places[code]
            quotes.append((number, place[0], self.tariff.best_split(place, kilos)))
        return quotes

    def run(self, work, size=30):
        with get_context("fork").Pool(WORKERS) as pool:
            for quotes in pool.imap(self.quote, batched(work, size)):
                yield from quotes


def main():
    tariff = Tariff(seed=2027)
    desk = RateDesk(tariff)
    codes = sorted(tariff.places)
    by_zone = {}
    last = -1
    for number, zone, price in desk.run(shipments(codes, 55, 4600)):
        assert number == last + 1
        last = number
        count, total, top = by_zone.get(zone, (0, 0.0, 0.0))
        by_zone[zone] = (count + 1, total + price, max(top, price))
    for zone in sorted(by_zone):
        count, total, top = by_zone[zone]
        print(f"zone {zone}: {count:5d} shipments {total:12.2f} mean {total / count:7.2f} top {top:7.2f}")
    print(f"quoted {last + 1}")


if __name__ == "__main__":
    main()
