"""The database of TAU's SQLite plugin: calls and exclusive times of routines without a caller."""

import sqlite3

SUMS = """
    SELECT coalesce(sum(value), 0) FROM timer_value
      JOIN metric ON metric.id = timer_value.metric JOIN timer ON timer.id = timer_value.timer
     WHERE metric.name = ? AND timer.parent IS NULL
"""


def count(path):
    with sqlite3.connect(path) as db:
        names = {"calls": "Number of Calls", "exclusive": "Exclusive TIME"}
        return {own: db.execute(SUMS, (name,)).fetchone()[0] for own, name in names.items()}
