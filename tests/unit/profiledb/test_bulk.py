"""Many rows with one statement are the same rows."""

from __future__ import annotations

import sqlite3

import pytest

from taupy.profiledb import bulk

ROWS = bulk.ROWS_A_STATEMENT


@pytest.mark.parametrize("count", [0, 1, ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 3 * ROWS - 1])
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


def statements_of(connection, there: int, rows: int) -> list[str]:
    """What runs when so many rows come into a table that has some, and its index."""
    connection.execute("CREATE TABLE names (id INTEGER PRIMARY KEY, name)")
    connection.execute("CREATE INDEX by_name ON names (name)")
    numbers = range(there + rows)
    connection.executemany(
        "INSERT INTO names VALUES (?, ?)", ((n, str(n)) for n in numbers[:there])
    )
    ran: list[str] = []
    connection.set_trace_callback(ran.append)
    with bulk.index_afterwards(connection, "by_name", "names", rows):
        more = ((n, str(n)) for n in numbers[there:])
        bulk.insert(connection, "INSERT INTO names (id, name)", "(?, ?)", more)
    connection.set_trace_callback(None)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    plan = connection.execute("EXPLAIN QUERY PLAN SELECT id FROM names WHERE name = '7'")
    assert "by_name" in plan.fetchone()[3]
    return [text.split()[0] for text in ran if "INSERT" not in text]


@pytest.mark.parametrize(
    ("there", "rows", "expected"),
    [
        (0, 10_000, ["SELECT", "SELECT", "DROP", "CREATE"]),
        (9_999, 10_000, ["SELECT", "SELECT", "DROP", "CREATE"]),
        (10_000, 10_000, ["SELECT"]),  # to sort all would take longer
        (0, 9_999, []),
    ],
)
def test_an_index_is_made_anew_for_more_rows_than_there_are(there, rows, expected):
    connection = sqlite3.connect(":memory:", isolation_level=None)
    assert statements_of(connection, there, rows) == expected


def test_an_index_is_there_when_rows_are_refused():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    statements_of(connection, 0, 1)
    connection.execute("BEGIN")
    with (
        pytest.raises(sqlite3.IntegrityError),
        bulk.index_afterwards(connection, "by_name", "names", 10_000),
    ):
        connection.executemany("INSERT INTO names VALUES (?, '')", [(7,), (7,)])
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT count(*) FROM pragma_index_list('names')").fetchone() == (1,)
