"""How the time per call goes on with the number of calls, as the engine notes it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from taupy.model.sampled import first_call

pytest.importorskip("taupy._native.engine", reason="needs the compiled core")

ROWS = """SELECT timer.name, user_event.name, value.count, value.count * value.mean
            FROM user_event_value AS value
            JOIN user_event ON user_event.id = value.user_event_id
            JOIN callpath ON callpath.id = value.callpath_id
            JOIN timer ON timer.id = callpath.timer_id
           WHERE user_event.name LIKE 'Time per Call from %'"""
TIMES = """SELECT sum(call.calls), sum(value.inclusive) FROM interval_value AS value
             JOIN call USING (callpath_id, thread_id)
             JOIN callpath ON callpath.id = value.callpath_id
             JOIN timer ON timer.id = callpath.timer_id
             JOIN metric ON metric.id = value.metric_id
            WHERE timer.name LIKE 'total %' AND metric.name = 'time'"""

OF_THREADS = """SELECT sum(value.count) FROM user_event_value AS value
                  JOIN user_event ON user_event.id = value.user_event_id
                  JOIN callpath ON callpath.id = value.callpath_id
                  JOIN timer ON timer.id = callpath.timer_id
                 WHERE user_event.name LIKE 'Time per Call from %' AND timer.name LIKE 'total %'
                 GROUP BY value.thread_id"""

PROGRAM = """\
import time
kept = []
def total(number):
    kept.append(number)
    return sum(kept) + sum(kept)
def resumed():
    for number in range(3000):
        yield number
def main():
    begun = time.thread_time()
    for number in resumed():
        total(number)
    while time.thread_time() < begun + 0.6:
        total(0)
main()
"""


def rows(runs):
    with closing(sqlite3.connect(runs.database)) as connection:
        parts: dict[str, list[tuple[int, int, float]]] = {}
        for timer, event, count, ns in connection.execute(ROWS):
            parts.setdefault(timer.split()[0], []).append((first_call(event), count, ns))
        return {name: sorted(part) for name, part in parts.items()}, *connection.execute(TIMES)


@pytest.mark.parametrize("options", [(), ("--throttle",), ("--c-calls",), ("--metrics=cpu_time",)])
def test_the_parts_of_the_calls_add_up_to_all_of_them(runs, options):
    runs.run(PROGRAM, *options)
    parts, (calls, inclusive) = rows(runs)
    assert [*parts] == ["total"]  # `main` is called once, and a generator goes on
    assert sum(count for _, count, _ in parts["total"]) == calls
    assert sum(ns for *_, ns in parts["total"]) == pytest.approx(inclusive, rel=1e-6)
    before = 0
    for first, count, _ in parts["total"]:
        assert first <= before + 1 < 2 * first
        before += count
    assert len(parts["total"]) > 1


THREADS = """\
import threading
def total(kept, number):
    kept.append(number)
    return sum(kept)
def work():
    kept = []
    for number in range(3000):
        total(kept, number)
for _ in range(40):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""


def test_threads_that_are_added_up_leave_no_notes_to_others(runs):
    """Their memory is used again."""
    runs.run(THREADS, "--threads", "4")
    parts, (calls, _) = rows(runs)
    assert calls == 40 * 3000
    # The row of several may have the notes of its first thread, and the last thread may not have
    # ended when the program does.
    of_threads = runs.sql(OF_THREADS)
    assert len(of_threads) <= 4 + 2
    assert all(count <= 3000 for (count,) in of_threads)
    assert {"total", "work"} >= {*parts}
