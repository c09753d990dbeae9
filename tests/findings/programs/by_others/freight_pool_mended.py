"""Prices freight orders against a tariff catalogue with a pool of worker processes."""
import multiprocessing
import random
import zlib

ORDERS = 75
CODES = 9000

_tariffs = {}


def make_catalogue(seed):
    rng = random.Random(seed)
    catalogue = {}
    for n in range(CODES):
        code = f"HS{n:06d}"
        catalogue[code] = {
            "duty": round(rng.uniform(0, 0.2), 4),
            "bands": [round(rng.uniform(1, 9), 2) for _ in range(4)],
            "group": f"g{rng.randrange(30)}",
        }
    return catalogue


def make_orders(seed, codes):
    rng = random.Random(seed)
    orders = []
    for n in range(ORDERS):
        lines = [(rng.choice(codes), rng.randrange(1, 5000)) for _ in range(900)]
        orders.append((n, lines))
    return orders


def band_price(bands, weight):
    cost, left = 0.0, weight
    for limit, rate in zip((100, 500, 1500), bands):
        part = min(left, limit)
        cost += part * rate
        left -= part
        if not left:
            return cost
    return cost + left * bands[-1]


def install(catalogue):
    _tariffs.update(catalogue)


def price_order(order):
    number, lines = order
    total, groups = 0.0, {}
    for code, weight in lines:
        entry = _tariffs[code]
        cost = band_price(entry["bands"], weight) * (1 + entry["duty"])
        groups[entry["group"]] = groups.get(entry["group"], 0.0) + cost
        total += cost
    return number, round(total, 2), max(groups, key=groups.get)


def price_all(orders, catalogue):
    with multiprocessing.Pool(2, install, (catalogue,)) as pool:
        pending = [pool.apply_async(price_order, (order,)) for order in orders]
        return [p.get() for p in pending]


def main():
    catalogue = make_catalogue(2)
    orders = make_orders(3, sorted(catalogue))
    rows = price_all(orders, catalogue)
    rows.sort()
    grand = sum(row[1] for row in rows)
    print(f"orders={len(rows)} total={grand:.2f} mark={zlib.crc32(repr(rows).encode()):08x}")


if __name__ == "__main__":
    main()
