"""Writing and streaming compressed click events."""
import gzip
import json
import random

PAGES = ("home", "list", "item", "basket", "pay", "done")


def write_events(path, count, seed=6):
    rng = random.Random(seed)
    clock = 1_700_000_000
    with gzip.open(path, "wt", compresslevel=3) as out:
        for _ in range(count):
            clock += rng.randint(0, 4)
            event = {
                "ts": clock,
                "visitor": f"v{rng.randrange(900)}",
                "page": PAGES[min(int(rng.expovariate(0.6)), 5)],
                "ms": rng.randint(20, 1800),
                "tags": {"device": rng.choice(("phone", "desk")), "ab": rng.randrange(4)},
            }
            out.write(json.dumps(event) + "\n")


def read_events(path):
    with gzip.open(path, "rb") as lines:
        for line in lines:
            yield json.loads(line)
