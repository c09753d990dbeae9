"""Many rows with one statement are the same rows."""

from __future__ import annotations

import sqlite3

import pytest

from taupy.profiledb import bulk


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 100, 149])
def test_all_rows_go_in_in_their_order(count):
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE pairs (one, two, three)")
    rows = [(f"name {number}", number) for number in range(count)]
    bulk.insert(connection, "INSERT INTO pairs (one, two, three)", "(?, 7, ?)", iter(rows))
    there = connection.execute("SELECT one, three, two FROM pairs ORDER BY rowid").fetchall()
    assert there == [(*row, 7) for row in rows]


def test_the_ending_holds_for_each_row():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE names (id INTEGER PRIMARY KEY, name)")
    rows = [(number % 40, str(number)) for number in range(130)]
    into = "INSERT INTO names (id, name)"
    bulk.insert(connection, into, "(?, ?)", rows, " ON CONFLICT DO NOTHING")
    there = connection.execute("SELECT id, name FROM names ORDER BY id").fetchall()
    assert there == [(number, str(number)) for number in range(40)]
