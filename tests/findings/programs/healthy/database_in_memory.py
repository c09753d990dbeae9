"""Rows go into a database in one transaction and are summed by it."""

import sqlite3

with sqlite3.connect(":memory:") as db:
    db.execute("CREATE TABLE sale (shop INTEGER, amount REAL)")
    rows = ((n % 50, n * 0.25) for n in range(250_000))
    db.executemany("INSERT INTO sale VALUES (?, ?)", rows)
    print(db.execute("SELECT shop, sum(amount) FROM sale GROUP BY shop LIMIT 3").fetchall())
