"""trio and anyio: their coroutines, awaits and loops are told as asyncio's are."""

from __future__ import annotations

import json

import pytest

from tests.integration.test_suspensions import waits

pytest.importorskip("taupy._native.engine", reason="needs the compiled core")

LOOPS = [("trio", "trio"), ("anyio", "trio"), ("anyio", "asyncio")]

PROGRAM = """\
import sys
import LIBRARY as library
async def nap(seconds):
    await library.sleep(seconds)
async def guarded(lock):
    async with lock:
        await nap(0.02)
async def fetch(number, got):
    await library.sleep(0.05)
    got.append(number)
async def one_by_one(got):
    for number in range(20):
        await fetch(number, got)
async def main():
    lock = library.Lock()
    async with library.START() as group:
        for _ in range(4):
            group.start_soon(guarded, lock)
    await one_by_one([])
library.run(MAIN)
"""
TOGETHER = """\
async def one_by_one(got):
    async with library.START() as group:
        for number in range(20):
            group.start_soon(fetch, number, got)
"""
BUSY = """\
import time
def crunch():
    begun = time.thread_time()
    while time.thread_time() < begun + 0.06:
        pass
async def one_by_one(got):
    async with library.START() as group:
        for _ in range(4):
            group.start_soon(step, got)
async def step(got):
    for _ in range(5):
        crunch()
        await library.sleep(0)
"""


def program(library, backend, one_by_one=""):
    """With another way of doing it."""
    pytest.importorskip(library, reason=f"{library} is not installed")
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    start = "open_nursery" if library == "trio" else "create_task_group"
    main = "main" if library == "trio" else f"main, backend={backend!r}"
    text = PROGRAM
    if one_by_one:
        before, _, rest = PROGRAM.partition("async def one_by_one")
        text = before + one_by_one + rest[rest.index("async def main") :]
    return text.replace("LIBRARY", library).replace("START", start).replace("MAIN", main)


def line(text, part):
    return next(n for n, one in enumerate(text.splitlines(), 1) if part in one)


def report(runs):
    return json.loads(runs.taupy("report", "--db", str(runs.database), "--json").stdout)


def findings(runs, kind):
    return [one for one in report(runs)["findings"] if one["kind"] == f"event loop: {kind}"]


@pytest.mark.parametrize(("library", "backend"), LOOPS)
def test_awaits_have_their_suspensions_and_the_loop_waits_at_one(runs, library, backend):
    text = program(library, backend)
    runs.run(text)
    seen = waits(runs)
    assert seen[line(text, "library.sleep(seconds)")][0] == 4
    assert seen[line(text, "library.sleep(0.05)")][0] == 20
    # The first of four sleeps under the lock, and those behind it wait for 1, 2 and 3 of them.
    assert seen[line(text, "async with lock")][0] >= 3
    assert seen[line(text, "async with lock")][1] >= (1 + 2 + 3) * 20
    waiting = next(row for row in report(runs)["places"] if row["kind"] == "waiting")
    assert waiting["hottest_line"] == line(text, "library.sleep(0.05)")
    (finding,) = findings(runs, "one after another")
    assert f"prog.py:{line(text, 'await fetch')}" in finding["sentence"]
    assert "start_soon" in finding["attempt"]


@pytest.mark.parametrize(("library", "backend"), LOOPS)
def test_tasks_that_are_started_together_are_no_finding(runs, library, backend):
    runs.run(program(library, backend, TOGETHER))
    assert findings(runs, "one after another") + findings(runs, "blocked") == []


@pytest.mark.parametrize(("library", "backend"), LOOPS)
def test_what_computes_blocks_the_loop(runs, library, backend):
    text = program(library, backend, BUSY)
    runs.run(text)
    (finding,) = findings(runs, "blocked")
    assert "crunch" in finding["sentence"]
    assert f"prog.py:{line(text, '        crunch()')}" in finding["sentence"]
    assert f"await {library}.to_" in finding["attempt"]
