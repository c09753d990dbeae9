"""Lines that the interpreter tells: their counts are known, and their times are at least those that
the program has itself measured. Nothing here depends on how fast or busy the machine is."""

from __future__ import annotations

import csv
import signal
import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("taupy._native.engine", reason="needs the compiled core")

ALL = ("--lines=exact", "--include", "file:*prog.py", "--no-watch")
LINES = """SELECT line.line, sum(line.count), sum(line.time_ns), sum(line.inclusive_ns)
             FROM line JOIN timer ON timer.id = line.timer_id
            WHERE line.count IS NOT NULL GROUP BY line.line"""
OWN = """SELECT sum(exclusive) FROM timer_value JOIN timer ON timer.id = timer_id
           JOIN metric ON metric.id = metric_id
          WHERE metric.name = 'time' AND (short_name = ? OR short_name LIKE ? || '.<locals>.<%')"""


def rows(runs, sql, *parameters):
    with closing(sqlite3.connect(runs.database)) as connection:
        return connection.execute(sql, parameters).fetchall()


def exact(runs, source):
    """The text of each line with a count -> count, time and inclusive time [ns]."""
    text = source.split("\n")
    return {text[line - 1].strip(): tuple(sums) for line, *sums in rows(runs, LINES)}


def counts(runs, source):
    return {text: count for text, (count, _, _) in exact(runs, source).items()}


CALLS = """
import threading

def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)

def numbers(n):
    for i in range(n):
        value = i * i
        yield value

def fails(n):
    try:
        raise ValueError(n)
    except ValueError:
        text = str(n)
    return text

def work():
    total = 0
    for value in numbers(30):
        total += value
    while total > 8550:
        total -= 1
    squares = sum(x * x for x in range(50))
    for n in range(7):
        fails(n)
    fib(10)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_counts_are_those_of_the_program(runs):
    assert runs.run(CALLS, *ALL).returncode == 0
    found = counts(runs, CALLS)
    expected = {
        "if n < 2:": 177, "return n": 89, "return fib(n - 1) + fib(n - 2)": 88,
        "for i in range(n):": 31, "value = i * i": 30, "yield value": 30,
        "raise ValueError(n)": 7, "text = str(n)": 7, "return text": 7,
        "total = 0": 1, "for value in numbers(30):": 31, "total += value": 30,
        "while total > 8550:": 6, "total -= 1": 5, "squares = sum(x * x for x in range(50))": 1,
        "for n in range(7):": 8, "fails(n)": 7, "fib(10)": 1,
    }  # fmt: skip
    assert {text: found[text] for text in expected} == {
        text: 3 * count for text, count in expected.items()
    }


def test_the_lines_of_a_routine_add_up_to_its_exact_time(runs):
    """Each number is rounded to nanoseconds."""
    assert runs.run(CALLS, *ALL).returncode == 0
    for name in ("fib", "numbers", "work"):
        ((own,),) = rows(runs, OWN, name, name)
        ((lines,),) = rows(
            runs,
            "SELECT sum(time_ns) FROM line JOIN timer ON timer.id = timer_id WHERE short_name = ?",
            name,
        )
        assert lines == pytest.approx(own, rel=1e-3, abs=2000), name


TIMES = """
import time

spent = dict.fromkeys("ab", 0)
now = time.perf_counter_ns

def spin(ns):
    end = now() + ns
    while now() < end:
        pass

def again(depth):
    if depth:
        again(depth - 1)
    spin(1000000)

exec(compile('''
def library(name):
    begin = now()
    sum(range(20000))
    spent[name] += now() - begin
''', "<library>", "exec"))

def task():
    a = (yield) or library("a")
    b = (yield) or library("b")

def work():
    tasks = [task() for _ in range(50)]
    for turn in range(3):
        for each in tasks:
            next(each, None)

work()
again(20)
print(spent["a"], spent["b"])
"""


def test_times_are_with_libraries_and_without_other_routines(runs):
    done = runs.run(TIMES, *ALL)
    a, b = map(int, done.stdout.split())
    found = exact(runs, TIMES)
    count, own, inclusive = found['a = (yield) or library("a")']
    assert count == 50
    assert a <= own == inclusive
    count, own, inclusive = found['b = (yield) or library("b")']
    assert count == 50
    assert b <= own == inclusive
    # Of the recursion, the outermost call has the time of all; the others have none of it.
    count, own, inclusive = found["spin(1000000)"]
    assert count == 21
    assert inclusive >= 1_000_000
    _, own, inclusive = found["again(depth - 1)"]
    assert inclusive >= 20 * 1_000_000
    assert own < inclusive - 20 * 1_000_000


COROUTINES = """
import asyncio

async def fetch(turns):
    for turn in range(turns):
        await asyncio.sleep(0)
    return turns

async def task(turns):
    first = await fetch(turns)
    second = await fetch(turns + 1)
    return first + second

async def main():
    return await asyncio.gather(*(task(turns) for turns in range(10)))

asyncio.run(main())
"""


def test_coroutines_are_counted_once_however_often_they_wait(runs):
    assert runs.run(COROUTINES, *ALL).returncode == 0
    found = counts(runs, COROUTINES)
    assert found["first = await fetch(turns)"] == 10
    assert found["second = await fetch(turns + 1)"] == 10
    assert found["await asyncio.sleep(0)"] == sum(2 * turns + 1 for turns in range(10))


KILLED = """
import os, signal, sys, time

def work():
    for turn in range(3):
        time.sleep(0.01)
    begin = time.monotonic_ns()
    last(begin)

def last(begin):
    while time.monotonic_ns() < begin + int(sys.argv[1]): pass
    os.kill(os.getpid(), signal.SIGKILL)

work()
"""


def test_what_a_killed_program_was_in_is_counted(runs):
    for took_ns in (50_000_000, 1_000_000_000, 10_000_000_000):
        runs.database.unlink(missing_ok=True)
        killed = runs.run(KILLED, *ALL[:3], arguments=(str(took_ns),))
        assert killed.returncode == -signal.SIGKILL
        runs.taupy("trials", "--db", str(runs.database))  # stores it
        found = exact(runs, KILLED)
        assert found["time.sleep(0.01)"][0] == 3
        assert found["os.kill(os.getpid(), signal.SIGKILL)"][0] == 1
        if found["last(begin)"][2] >= took_ns:
            return
    pytest.fail("the time until its end is missing")  # the watch, which may be late, knows it


FORKED = """
import os

def child():
    return [os.getpid() for _ in range(4)]

def work():
    pid = os.fork()
    if pid == 0:
        for turn in range(5):
            child()
        os._exit(0)
    os.waitpid(pid, 0)

work()
"""


def test_a_forked_child_has_lines_of_its_own(runs):
    assert runs.run(FORKED, *ALL).returncode == 0
    found = counts(runs, FORKED)
    assert found["if pid == 0:"] == 2
    assert found["child()"] == 5
    assert found["os.waitpid(pid, 0)"] == 1


CHOSEN = """
import sys

def busy():
    total = 0
    for i in range(300_000):
        total += i
    return [x for x in range(1000)]

def brief():
    return 1

def ordered(): return sorted(range(2000), key=lambda value: -value)

busy(); brief(); ordered()
if len(sys.argv) > 1:
    sys.settrace(lambda *_: None)
    sys.settrace(None)
"""


def test_an_earlier_trial_chooses_the_routines_and_the_cost_is_said_before(runs):
    refused = runs.run(CHOSEN, "--lines=exact")
    assert refused.returncode == 1
    assert "--lines=exact: there is no earlier trial in" in refused.stderr
    assert runs.run(CHOSEN).returncode == 0
    done = runs.run(CHOSEN, "--lines=exact")
    assert "taupy: exact lines of busy, " in done.stderr
    assert "of trial 1: each line that begins costs about " in done.stderr
    found = counts(runs, CHOSEN)
    assert found["total += i"] == 300_000
    assert "return 1" not in found
    shown = runs.taupy("lines", "--db", str(runs.database)).stdout
    assert "Count" in shown
    assert "~" not in shown.partition("estimated")[0]
    assert runs.run(CHOSEN, "--lines=exact:1", arguments=("trace",)).returncode == 0
    wrong = runs.run(CHOSEN, "--lines=exactly")
    assert wrong.returncode == 2
    assert "is not inside, exact or exact:TRIAL" in wrong.stderr
    plain = runs.run(CHOSEN, "--lines=exact", "--engine", "python")
    assert "--lines=exact needs the compiled engine" in plain.stderr


def test_the_page_and_the_report_show_exact_lines_without_a_mark(runs):
    assert runs.run(CHOSEN, *ALL).returncode == 0
    report = runs.taupy("report", "--db", str(runs.database)).stdout
    assert "~" not in report, report
    listed = runs.taupy("lines", "--db", str(runs.database), "--csv").stdout.splitlines()
    names = listed[0].split(",")
    assert {"count", "inclusive_ns", "error_ns"} <= {*names}
    shared = next(line for line in csv.DictReader(listed) if "lambda" in line["source"])
    assert shared["count"] == "1"  # and not that of the lambda, which shares the line
    error = names.index("error_ns")
    assert all(line.split(",")[error] == "0" for line in listed[1:] if "prog.py" in line)


def test_comparisons_mark_estimates_only(runs):
    for name in ("a", "b"):
        assert runs.run(CHOSEN, "--trial", name, "--repeat", "2", *ALL).returncode == 0
    compared = ("compare", "--db", str(runs.database), "a", "b", "--by", "line")
    shown = runs.taupy(*compared).stdout
    assert "prog.py" in shown, shown
    assert "~" not in shown, shown
    with closing(sqlite3.connect(runs.database)) as connection, connection:
        connection.execute("UPDATE line SET count = NULL, inclusive_ns = NULL, looks = 100")
    shown = runs.taupy(*compared).stdout
    row = next(line for line in shown.splitlines() if "total += i" in line)
    assert row.count("~") >= 4, row


LAYERS = """
import torch
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
    def forward(self, x):
        x = self.inner(x)
        return torch.relu(x)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
net, x = Net(), torch.ones(2, 4)
for _ in range(7):
    net(x).sum().backward()
"""


def test_lines_of_layers_are_counted(runs):
    """A layer's call has a call path of its own, through which its lines belong to it."""
    pytest.importorskip("torch", reason="torch is not installed")
    runs.run(LAYERS, *ALL)
    found = counts(runs, LAYERS)
    assert found["x = self.inner(x)"] == found["return torch.relu(x)"] == 7 * 3
    assert found["for block in self.blocks:"] == 7 * (3 + 1)
    assert found["x = block(x)"] == 7 * 3
    assert found["return x"] == found["net(x).sum().backward()"] == 7
