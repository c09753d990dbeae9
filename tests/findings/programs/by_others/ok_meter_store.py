"""Loads meter readings into SQLite and computes monthly bills with set-based queries."""
import pathlib
import random
import sqlite3
import tempfile
import zlib

METERS = 900
DAYS = 365

SCHEMA = """
CREATE TABLE meter (id INTEGER PRIMARY KEY, street TEXT, tariff INTEGER);
CREATE TABLE reading (meter_id INTEGER, day INTEGER, watt_hours INTEGER,
                      PRIMARY KEY (meter_id, day)) WITHOUT ROWID;
"""

BILL = """
SELECT m.id, m.tariff, r.day / 31 AS month, SUM(r.watt_hours), MAX(r.watt_hours)
FROM meter m JOIN reading r ON r.meter_id = m.id
GROUP BY m.id, month ORDER BY m.id, month
"""


def open_store(path):
    db = sqlite3.connect(path)
    db.executescript(SCHEMA)
    return db


def readings(rng):
    for meter in range(METERS):
        base = rng.randrange(2000, 9000)
        for day in range(DAYS):
            season = 1 + abs(day - 182) / 182
            yield meter, day, int(base * season) + rng.randrange(500)


def load(db, seed):
    rng = random.Random(seed)
    with db:
        db.executemany(
            "INSERT INTO meter VALUES (?, ?, ?)",
            ((n, f"Street {n % 40}", rng.randrange(3)) for n in range(METERS)),
        )
        db.executemany("INSERT INTO reading VALUES (?, ?, ?)", readings(rng))


def price(tariff, watt_hours, peak):
    rate = (31, 28, 25)[tariff]
    cents = watt_hours * rate // 1000
    if peak > 15000:
        cents += 450
    return cents


def bills(db):
    for meter, tariff, month, used, peak in db.execute(BILL):
        yield meter, month, price(tariff, used, peak)


def street_totals(db):
    query = """SELECT m.street, SUM(r.watt_hours) FROM meter m
               JOIN reading r ON r.meter_id = m.id GROUP BY m.street ORDER BY m.street"""
    return db.execute(query).fetchall()


def main():
    with tempfile.TemporaryDirectory() as tmp:
        db = open_store(pathlib.Path(tmp) / "meters.db")
        load(db, 5)
        total, mark = 0, 0
        for bill in bills(db):
            total += bill[2]
            mark = zlib.crc32(repr(bill).encode(), mark)
        streets = street_totals(db)
        db.close()
    print(f"cents={total} streets={len(streets)} top={max(s[1] for s in streets)} mark={mark:08x}")


if __name__ == "__main__":
    main()
