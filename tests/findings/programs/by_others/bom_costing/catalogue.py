"""Bill-of-materials catalogue: assemblies, parts, and their prices."""
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    code: str
    price: float
    labour: float
    lead_days: int
    components: tuple


def build_catalogue(levels=13, width=16, seed=5):
    rng = random.Random(seed)
    items = {}
    below = []
    for level in range(levels):
        current = []
        for n in range(width):
            code = f"L{level:02d}-{n:02d}"
            components = ()
            if below:
                chosen = rng.sample(below, 3)
                components = tuple((child, rng.randint(1, 2)) for child in chosen)
            items[code] = Item(
                code,
                round(rng.uniform(0.2, 4.0), 2) if not below else 0.0,
                round(rng.uniform(0.05, 1.5), 2),
                rng.randint(1, 9),
                components,
            )
            current.append(code)
        below = current
    return items, below
