"""Applies stock movements from several shops to one inventory and checks the thresholds."""
import csv
import io
import json
import logging
import random
import zlib

log = logging.getLogger("stock")

SHOPS = ["harbour", "station", "market", "campus"]
ITEMS = 70
MOVES = 38000


def make_feed(seed):
    rng = random.Random(seed)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["shop", "item", "kind", "count"])
    for _ in range(MOVES):
        kind = rng.choice(["sale", "sale", "sale", "delivery", "count"])
        writer.writerow([rng.choice(SHOPS), f"item{rng.randrange(ITEMS):03d}", kind, rng.randrange(1, 12)])
    return out.getvalue()


class Inventory:
    def __init__(self):
        self.levels = {shop: {f"item{n:03d}": 40 for n in range(ITEMS)} for shop in SHOPS}
        self.orders = []
        self.refused = 0

    def snapshot(self, shop):
        return {"shop": shop, "levels": self.levels[shop], "open": len(self.orders)}

    def apply(self, move):
        shop, item, count = move["shop"], move["item"], int(move["count"])
        levels = self.levels[shop]
        if move["kind"] == "delivery":
            levels[item] += count * 3
        elif move["kind"] == "count":
            levels[item] = max(0, levels[item] - count // 6)
        elif levels[item] >= count:
            levels[item] -= count
        else:
            self.refused += 1
            log.info("refused %s of %s in %s", count, item, shop)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s: %s", move["kind"], item, json.dumps(self.snapshot(shop), sort_keys=True))
        self.reorder(shop, item)

    def reorder(self, shop, item):
        if self.levels[shop][item] < 8:
            low = [name for name, level in self.levels[shop].items() if level < 8]
            self.orders.append((shop, item, len(low)))
            self.levels[shop][item] += 15


def weekly_totals(feed):
    totals = {}
    for row in csv.DictReader(io.StringIO(feed)):
        key = (row["shop"], row["kind"])
        totals[key] = totals.get(key, 0) + int(row["count"])
    return totals


def main():
    logging.basicConfig(level=logging.WARNING)
    feed = make_feed(51)
    inventory = Inventory()
    for move in csv.DictReader(io.StringIO(feed)):
        inventory.apply(move)
    totals = weekly_totals(feed)
    text = json.dumps(inventory.levels, sort_keys=True) + repr(sorted(totals.items()))
    print(f"orders={len(inventory.orders)} refused={inventory.refused} mark={zlib.crc32(text.encode()):08x}")


if __name__ == "__main__":
    main()
