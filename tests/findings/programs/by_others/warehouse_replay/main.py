"""Replays a day of warehouse traffic against the stock ledger."""
import hashlib
import random

from stock import Ledger

SKUS = 320
EVENTS = 2_600


def make_events(seed=17):
    rng = random.Random(seed)
    skus = [f"SKU-{n:04d}" for n in range(SKUS)]
    for sku in skus:
        yield "restock", [(sku, rng.randint(10, 60))]
    for _ in range(EVENTS):
        if rng.random() < 0.12:
            yield "restock", [(rng.choice(skus), rng.randint(5, 40))]
        else:
            lines = [(rng.choice(skus), rng.randint(1, 6)) for _ in range(rng.randint(1, 5))]
            yield "order", lines


def fingerprint(ledger):
    digest = hashlib.sha256()
    for sku in sorted(ledger.bins):
        slot = ledger.bins[sku]
        digest.update(f"{sku}:{slot.on_hand}:{slot.reserved};".encode())
    return digest.hexdigest()[:12]


def simulate_demand(ledger, rounds, seed=23):
    """Estimates how many weeks the remaining stock lasts."""
    rng = random.Random(seed)
    total = sum(slot.on_hand for slot in ledger.bins.values())
    weeks = []
    for _ in range(rounds):
        left, week = total, 0
        while left > 0:
            left -= max(20, int(rng.gauss(240, 70)))
            week += 1
        weeks.append(week)
    return sum(weeks) / len(weeks)


def main():
    ledger = Ledger()
    for kind, lines in make_events():
        if kind == "restock":
            for sku, quantity in lines:
                ledger.stock(sku, quantity)
        else:
            ledger.place_order(lines)
    print(f"shipped={ledger.shipped} rejected={ledger.rejected}")
    print(f"state={fingerprint(ledger)} weeks={simulate_demand(ledger, 4000):.2f}")


if __name__ == "__main__":
    main()
