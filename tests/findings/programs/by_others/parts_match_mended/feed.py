"""Catalogue and supplier delivery notes, as they would come from the two systems."""
import csv
import io
import random

FAMILIES = [a + b for a in "BCDFGH" for b in "LMNRST"]


def catalogue(seed, size):
    rng = random.Random(seed)
    seen = set()
    while len(seen) < size:
        fam = rng.choice(FAMILIES)
        seen.add((fam, f"{fam}-{rng.randint(1000, 99999)}-{rng.choice('aAbBkKxX')}{rng.randint(1, 9)}"))
    for fam, sku in sorted(seen):
        yield sku, fam, rng.randint(40, 90_000), rng.randint(0, 300)


def _sloppy(sku, rng):
    roll = rng.random()
    if roll < 0.45:
        return sku.lower()
    if roll < 0.7:
        return sku.upper()
    if roll < 0.72:
        at = rng.randrange(3, len(sku) - 3)
        return sku[:at] + rng.choice("0123456789") + sku[at + 1 :]
    return sku


def delivery_notes(skus, seed, notes):
    rng = random.Random(seed)
    for n in range(notes):
        out = io.StringIO()
        w = csv.writer(out, delimiter=";")
        w.writerow(["pos", "article", "qty", "unit"])
        for pos in range(1, rng.randint(8, 30)):
            w.writerow([pos * 10, " " + _sloppy(rng.choice(skus), rng), rng.randint(1, 40), rng.choice(["pc", "box"])])
        yield f"DN{n:05d}", out.getvalue()
