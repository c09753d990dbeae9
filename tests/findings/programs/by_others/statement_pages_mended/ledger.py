import datetime as dt
import random

FIRST = ["Ada", "Bela", "Cora", "Dino", "Edda", "Falk", "Gero", "Hale"]
LAST = ["Abel", "Brandt", "Conti", "Dahl", "Egger", "Frank", "Gruber"]
KINDS = ["card", "transfer", "fee", "refund", "standing order"]


class Ledger:
    def __init__(self, seed, customers):
        rng = random.Random(seed)
        self.customers = {}
        self.entries = {}
        for number in range(1, customers + 1):
            self.customers[number] = {
                "number": number,
                "name": f"{rng.choice(FIRST)} {rng.choice(LAST)}",
                "limit": rng.choice([0, 500, 2000]),
            }
            day = dt.date(2026, 1, 1)
            rows = []
            for _ in range(rng.randint(25, 45)):
                day += dt.timedelta(days=rng.randint(0, 3))
                amount = rng.randint(-40_000, 30_000)
                rows.append({"day": day, "kind": rng.choice(KINDS), "cents": amount, "ref": f"R{rng.randrange(10**7):07d}"})
            self.entries[number] = rows

    def statement(self, number, month):
        opening, rows, balance = 0, [], 0
        for entry in self.entries[number]:
            if entry["day"].month < month:
                opening += entry["cents"]
                balance = opening
            elif entry["day"].month == month:
                balance += entry["cents"]
                rows.append({**entry, "balance": balance})
        totals = {}
        for row in rows:
            totals[row["kind"]] = totals.get(row["kind"], 0) + row["cents"]
        return {
            "customer": self.customers[number],
            "month": month,
            "opening": opening,
            "closing": balance,
            "rows": rows,
            "totals": sorted(totals.items()),
        }
