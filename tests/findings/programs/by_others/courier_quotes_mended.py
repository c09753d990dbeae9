"""Quotes parcels for a courier: distance tables per depot, surcharges, and a day's summary."""
import functools
import heapq
import random
import zlib

DEPOTS = 90
PLACES = 150
PARCELS = 5000


def make_roads(seed):
    rng = random.Random(seed)
    roads = [[] for _ in range(PLACES)]
    for place in range(PLACES):
        for other in [(place + 1) % PLACES, *rng.sample(range(PLACES), 3)]:
            length = rng.randrange(2, 60)
            roads[place].append((other, length))
            roads[other].append((place, length))
    return roads


ROADS = make_roads(4)


@functools.lru_cache(maxsize=1024)
def distances_from(depot):
    best = [10 ** 9] * PLACES
    best[depot] = 0
    heap = [(0, depot)]
    while heap:
        reached, place = heapq.heappop(heap)
        if reached > best[place]:
            continue
        for other, length in ROADS[place]:
            total = reached + length
            if total < best[other]:
                best[other] = total
                heapq.heappush(heap, (total, other))
    return best


class Parcel:
    def __init__(self, number, rng):
        self.number = number
        self.depot = number % DEPOTS
        self.place = rng.randrange(PLACES)
        self.grams = rng.randrange(100, 20000)
        self.address = f"{rng.randrange(1, 300)} {rng.choice(['Mill', 'High', 'Park'])} Street, P{self.place:03d}"


def surcharge(parcel):
    words = parcel.address.replace(",", " ").split()
    fee = 150 if words[1] == "High" else 0
    house = int(words[0])
    while house > 9:
        house = sum(int(d) for d in str(house))
    return fee + house * 3 + (parcel.grams // 500) * 11


def label(parcel, cents):
    text = f"{parcel.number:06d}{parcel.depot:03d}{parcel.address.upper()}{cents:07d}"
    checks = []
    for shift in range(6):
        check = 0
        for position, char in enumerate(text):
            check = (check * 10 + ord(char) * (position + shift + 1)) % 97
        checks.append(f"{check:02d}")
    return "".join(checks)


def quote(parcel):
    distance = distances_from(parcel.depot)[parcel.place]
    return 290 + distance * 7 + surcharge(parcel)


def summary(parcels, quotes):
    by_depot = {}
    for parcel, cents in zip(parcels, quotes):
        by_depot.setdefault(parcel.depot, []).append(cents)
    rows = []
    for depot, cents in sorted(by_depot.items()):
        cents.sort()
        rows.append(f"{depot:>4} {len(cents):>5} {cents[len(cents) // 2]:>7} {sum(cents):>10}")
    return "\n".join(rows)


def main():
    rng = random.Random(12)
    parcels = [Parcel(n, rng) for n in range(PARCELS)]
    quotes = [quote(p) for p in parcels]
    text = summary(parcels, quotes) + "".join(map(label, parcels, quotes))
    print(f"parcels={len(parcels)} cents={sum(quotes)} mark={zlib.crc32(text.encode()):08x}")


if __name__ == "__main__":
    main()
