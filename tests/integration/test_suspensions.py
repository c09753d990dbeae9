"""Where coroutines wait. Counts are exact, and no time is shorter than the sleep that it consists
of: nothing here depends on how fast or busy the machine is."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("taupy._native.engine", reason="needs the compiled core")

WAITS = """SELECT user_event.name, sum(value.count), sum(value.count * value.mean) / 1e6
             FROM user_event_value AS value
             JOIN user_event ON user_event.id = value.user_event_id
            WHERE user_event.name LIKE 'Suspended in Line %' GROUP BY user_event.name"""

PROGRAM = """\
import asyncio, time
async def nap(seconds):
    await asyncio.sleep(seconds)
async def ticks(number):
    for n in range(number):
        await asyncio.sleep(0.001)
        yield n
async def guarded(lock):
    async with lock:
        await nap(0.02)
async def stubborn():
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.sleep(0.002)
async def main():
    async for n in ticks(5):
        pass
    lock = asyncio.Lock()
    await asyncio.gather(*(guarded(lock) for _ in range(4)))
    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0.01)
    task.cancel()
    await task
    asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(forgotten())
    await asyncio.sleep(0.03)
async def forgotten():
    await asyncio.get_running_loop().create_future()
asyncio.run(main())
"""

AT_LEAST = {
    "await asyncio.sleep(seconds)":
        "asyncio.get_running_loop().call_soon(time.sleep, seconds); await asyncio.sleep(seconds)",
    "task.cancel()": "time.sleep(0.01); task.cancel()",
}  # fmt: skip
"""While they are suspended, their loop's thread sleeps itself: for so long they wait, whenever the
system lets it run."""


def line(part):
    return next(n for n, text in enumerate(PROGRAM.splitlines(), 1) if part in text)


def waits(runs):
    with closing(sqlite3.connect(runs.database)) as connection:
        rows = connection.execute(WAITS).fetchall()
    return {int(name.split()[-1]): (count, ms) for name, count, ms in rows}


@pytest.mark.parametrize("options", [(), ("--throttle",), ("--lines=exact", "--include", "*")])
def test_each_await_has_its_suspensions_and_their_time(runs, options):
    program = PROGRAM
    for awaited, blocked in AT_LEAST.items():
        program = program.replace(awaited, blocked)
    runs.run(program, *options)
    seen = waits(runs)
    assert {number: count for number, (count, _) in seen.items()} == {
        line("asyncio.sleep(seconds)"): 4,
        line("asyncio.sleep(0.001)"): 5,
        line("async with lock"): 3,
        line("asyncio.sleep(60)"): 1,
        line("asyncio.sleep(0.002)"): 1,
        line("asyncio.gather"): 1,
        line("asyncio.sleep(0.01)"): 1,
        line("await task"): 1,
        line("asyncio.sleep(0.03)"): 1,
        line("create_future"): 1,
    }
    # The first of four sleeps under the lock, and those behind it wait for it, for 1, 2 and 3 of
    # them; `guarded` awaits what is suspended in `nap`, which has the time.
    assert seen[line("asyncio.sleep(seconds)")][1] >= 4 * 20
    assert seen[line("async with lock")][1] >= (1 + 2 + 3) * 20
    assert line("await nap") not in seen
    assert 10 <= seen[line("asyncio.sleep(60)")][1] < 60_000


def test_the_line_that_tasks_wait_at_stands_for_the_waiting_of_their_loop(runs):
    runs.run(PROGRAM.replace("range(4)", "range(9)"))
    report = runs.taupy("report", "--db", str(runs.database), "--json")
    waiting = next(row for row in json.loads(report.stdout)["places"] if row["kind"] == "waiting")
    assert waiting["hottest_line"] == line("async with lock")
    assert waiting["source"] == "async with lock:"
    awaits = dict(one.split(" ", 1) for one in waiting["awaits"].split("; "))
    assert {at: seen.split("x")[0] for at, seen in awaits.items()} == {
        f"prog.py:{number}": str(count) for number, (count, _) in waits(runs).items()
    }
    shown = runs.taupy("report", "--db", str(runs.database)).stdout
    assert f"prog.py:{line('async with lock')}" in shown
    assert re.search(r"tasks wait [\d,]+x [\d.]+ [mun]?s each", shown), shown
