"""Load a catalogue and a day's orders, price them, and total by region."""
import csv
import random
import sqlite3
import tempfile
import zlib
from pathlib import Path

SCHEMA = """
CREATE TABLE product (id INTEGER PRIMARY KEY, sku TEXT NOT NULL, price INTEGER, stock INTEGER);
CREATE UNIQUE INDEX product_sku ON product (sku);
CREATE TABLE line (id INTEGER PRIMARY KEY, region TEXT, product INTEGER, amount INTEGER, cents INTEGER);
"""


def write_orders(path, skus, count, rng):
    with open(path, "w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["region", "sku", "amount", "note"])
        for _ in range(count):
            sku = rng.choice(skus)
            if rng.random() < 0.3:
                sku = sku.lower()
            writer.writerow([rng.choice("NESW"), sku, rng.randint(1, 9), "x" * rng.randint(0, 30)])


def read_orders(path):
    with open(path, newline="") as handle:
        for row in csv.DictReader(handle):
            note = row["note"].strip()
            yield row["region"], row["sku"], int(row["amount"]), len(note)


class Store:
    def __init__(self, path):
        self.db = sqlite3.connect(path)
        self.db.executescript(SCHEMA)

    def fill(self, skus, rng):
        rows = [(sku, rng.randint(100, 9900), rng.randint(5, 50)) for sku in skus]
        with self.db:
            self.db.executemany("INSERT INTO product (sku, price, stock) VALUES (?, ?, ?)", rows)

    def find(self, sku):
        query = "SELECT id, price FROM product WHERE sku = ?"
        return self.db.execute(query, (sku.upper(),)).fetchone()

    def add_orders(self, orders):
        missing = 0
        with self.db:
            for region, sku, amount, _ in orders:
                found = self.find(sku)
                if found is None:
                    missing += 1
                    continue
                product, price = found
                self.db.execute("INSERT INTO line (region, product, amount, cents) VALUES (?, ?, ?, ?)",
                                (region, product, amount, amount * price))
                self.db.execute("UPDATE product SET stock = stock - ? WHERE id = ?", (amount, product))
        return missing

    def totals(self):
        query = "SELECT region, count(*), sum(cents) FROM line GROUP BY region ORDER BY region"
        return self.db.execute(query).fetchall()

    def short(self):
        return self.db.execute("SELECT count(*) FROM product WHERE stock < 0").fetchone()[0]


def main():
    rng = random.Random(23)
    skus = [f"{rng.choice('ABCDEFG')}{n:05d}-{rng.choice('XYZ')}" for n in range(500)]
    with tempfile.TemporaryDirectory() as folder:
        orders = Path(folder) / "orders.csv"
        write_orders(orders, skus + ["Q00000-X"], 22000, rng)
        store = Store(str(Path(folder) / "shop.db"))
        store.fill(skus, rng)
        missing = store.add_orders(read_orders(orders))
        print(missing, store.short(), f"{zlib.crc32(repr(store.totals()).encode()):08x}")
        store.db.close()


if __name__ == "__main__":
    main()
