"""An order desk over SQLite: loads orders and writes statements for customers."""
import pathlib
import random
import sqlite3
import tempfile
import zlib

CUSTOMERS = 1100
ORDERS = 26000

SCHEMA = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, region TEXT);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer_id INTEGER, day INTEGER, cents INTEGER, item TEXT);
"""


def open_desk(path):
    db = sqlite3.connect(path)
    db.executescript(SCHEMA)
    return db


def load(db, seed):
    rng = random.Random(seed)
    regions = ["north", "south", "east", "west"]
    with db:
        db.executemany(
            "INSERT INTO customer VALUES (?, ?, ?)",
            [(n, f"Customer {n:05d}", rng.choice(regions)) for n in range(CUSTOMERS)],
        )
        db.executemany(
            "INSERT INTO purchase VALUES (?, ?, ?, ?, ?)",
            [
                (n, rng.randrange(CUSTOMERS), rng.randrange(365), rng.randrange(100, 90000), f"sku{rng.randrange(500)}")
                for n in range(ORDERS)
            ],
        )


def purchases_of(db, customer):
    query = "SELECT day, cents, item FROM purchase WHERE customer_id = ? ORDER BY day, id"
    return db.execute(query, (customer,)).fetchall()


def running_balance(rows):
    balance, peak = 0, 0
    for day, cents, _ in rows:
        balance += cents
        if day % 30 == 0:
            balance = balance * 9 // 10
        peak = max(peak, balance)
    return balance, peak


def statement(name, region, rows):
    balance, peak = running_balance(rows)
    lines = [f"{name:<20}{region:>8}"]
    lines += [f"{day:>4} {item:<8} {cents / 100:>10.2f}" for day, cents, item in rows]
    lines.append(f"balance {balance / 100:.2f} peak {peak / 100:.2f}")
    return "\n".join(lines), balance


def main():
    with tempfile.TemporaryDirectory() as tmp:
        db = open_desk(pathlib.Path(tmp) / "desk.db")
        load(db, 9)
        mark, total, count = 0, 0, 0
        for number, name, region in db.execute("SELECT id, name, region FROM customer ORDER BY id").fetchall():
            text, balance = statement(name, region, purchases_of(db, number))
            mark = zlib.crc32(text.encode(), mark)
            total += balance
            count += 1
        db.close()
    print(f"statements={count} total={total} mark={mark:08x}")


if __name__ == "__main__":
    main()
