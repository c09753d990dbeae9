"""Lane tariffs and the pricing rule for a single shipment."""
import random

ZONES = 420


def build_tariff(seed=3):
    rng = random.Random(seed)
    lanes = {}
    for origin in range(ZONES):
        for target in range(ZONES):
            base = 4 + abs(origin - target) * 0.11
            lanes[origin, target] = (round(base * rng.uniform(0.8, 1.3), 3), rng.randint(1, 6))
    return lanes


def make_batches(count, size, seed=4):
    rng = random.Random(seed)
    batches = []
    for _ in range(count):
        batches.append([
            (rng.randrange(ZONES), rng.randrange(ZONES), rng.randint(1, 900) / 10)
            for _ in range(size)
        ])
    return batches


def price(lane, weight):
    rate, days = lane
    surcharge = 0.06 if days <= 2 else 0.0
    for threshold, discount in ((60, 0.18), (30, 0.1), (10, 0.04)):
        if weight >= threshold:
            return rate * weight * (1 - discount + surcharge)
    return rate * weight * (1 + surcharge)
