"""What a statement reads of a store is told from its text; in doubt, everything."""

from __future__ import annotations

import pytest

from taupy.errors import DatabaseError
from taupy.store.needs import EVERYTHING, needs

pytest.importorskip("sqlglot")

TABLES = frozenset({"call", "interval_value", "launch", "thread", "timer_call", "timer_value"})
FIRST, SECOND = 1 << 32 | 1, 2 << 32 | 1  # threads of trials 1 and 2


@pytest.mark.parametrize(
    "sql, parameters, expected",
    [
        ("SELECT * FROM thread", (), {"thread": EVERYTHING}),
        ("SELECT * FROM thread WHERE trial_id = ? AND name = ?", (7, "x"), {"thread": {7}}),
        ("SELECT * FROM thread WHERE name = '?' AND trial_id = ?", (7,), {"thread": {7}}),
        ("SELECT * FROM thread WHERE trial_id = 7", (), {"thread": {7}}),
        ("SELECT * FROM thread WHERE trial_id = ? OR name = ?", (7, "x"), {"thread": EVERYTHING}),
        ("SELECT * FROM thread WHERE trial_id <> 7", (), {"thread": EVERYTHING}),
        ("SELECT * FROM thread WHERE NOT trial_id = 7", (), {"thread": EVERYTHING}),
        ("SELECT * FROM thread WHERE trial_id > :t", {"t": 7}, {"thread": EVERYTHING}),
        ("SELECT * FROM thread WHERE trial_id IN (1, 2)", (), {"thread": {1, 2}}),
        ("SELECT * FROM thread WHERE trial_id NOT IN (1, 2)", (), {"thread": EVERYTHING}),
        (f"SELECT * FROM thread WHERE id IN ({FIRST},{SECOND})", (), {"thread": {1, 2}}),
        (
            "SELECT 1 FROM timer_value AS m JOIN timer_call AS c ON c.trial_id = m.trial_id"
            " AND c.timer_id = m.timer_id WHERE m.trial_id IN (3)",
            (),
            {"timer_value": {3}, "timer_call": {3}},
        ),
        (
            "SELECT 1 FROM timer_value AS m JOIN timer_call AS c ON c.timer_id = m.timer_id"
            " WHERE m.trial_id IN (3)",
            (),
            {"timer_value": {3}, "timer_call": EVERYTHING},
        ),
        (
            "SELECT 1 FROM call LEFT JOIN thread ON thread.id = call.thread_id"
            " WHERE call.trial_id = :t",
            {"t": 5},
            {"call": {5}, "thread": {5}},
        ),
        (  # rows of the left side are there whatever the condition of the join says
            "SELECT 1 FROM call LEFT JOIN thread ON call.trial_id = :t AND thread.trial_id = :t",
            {"t": 5},
            {"call": EVERYTHING, "thread": {5}},
        ),
        (
            "SELECT 1 FROM timer WHERE id IN (SELECT timer_id FROM timer_call WHERE trial_id = 3)",
            (),
            {"timer_call": {3}},
        ),
        (
            "WITH a AS (SELECT * FROM call WHERE trial_id = 9)"
            " SELECT * FROM a JOIN thread ON thread.id = a.thread_id",
            (),
            {"call": {9}, "thread": EVERYTHING},
        ),
        (
            "SELECT 1 FROM call WHERE trial_id = 1 UNION SELECT 1 FROM call WHERE trial_id = 2",
            (),
            {"call": {1, 2}},
        ),
        (
            "SELECT 1 FROM call WHERE trial_id = 1 UNION SELECT 1 FROM call",
            (),
            {"call": EVERYTHING},
        ),
        ("SELECT 1 FROM launch WHERE launch.id IN (1, 2, 3)", (), {"launch": set()}),
    ],
)
def test_trials_of_each_table(sql, parameters, expected):
    read = needs(sql, parameters, TABLES)
    for table, trials in read.items():
        read[table] = trials and trials - {0}
    assert read == expected


@pytest.mark.slow
def test_a_million_ids_take_no_parsing():
    ids = ", ".join(map(str, range(1_000_000)))
    read = needs(f"SELECT 1 FROM call WHERE trial_id = 3 AND callpath_id IN ({ids})", (), TABLES)
    assert read == {"call": {3}}


def test_what_is_no_question_is_refused():
    with pytest.raises(DatabaseError, match="read-only"):
        needs("DELETE FROM call WHERE trial_id = 3", (), TABLES)
