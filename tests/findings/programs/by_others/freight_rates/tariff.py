import random


class Tariff:
    """The yearly price book: a zone for each postcode, price bands for each zone."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.places = {}
        for code in rng.sample(range(10_000, 99_999), 42_000):
            zone = (code // 9_000) % 8
            self.places[f"{code:05d}"] = (zone, rng.random() < 0.08, rng.choice(("road", "rail", "ferry")))
        self.bands = {
            zone: [(limit, round(3.2 + zone * 0.9 + limit * (0.21 + 0.02 * zone), 2)) for limit in (2, 5, 10, 20, 31)]
            for zone in range(8)
        }
        self.surcharge = {"road": 1.0, "rail": 1.04, "ferry": 1.35}

    def parcel_price(self, place, weight):
        zone, remote, mode = place
        for limit, price in self.bands[zone]:
            if weight <= limit:
                return price * self.surcharge[mode] + (4.5 if remote else 0.0)
        raise ValueError(weight)

    def best_split(self, place, kilos):
        """Cheapest way to divide a shipment of whole kilos into parcels of up to 31 kg."""
        single = [0.0] + [self.parcel_price(place, k) for k in range(1, 32)]
        best = [0.0] * (kilos + 1)
        for k in range(1, kilos + 1):
            best[k] = min(single[p] + best[k - p] for p in range(1, min(k, 31) + 1))
        return round(best[kilos], 2)
