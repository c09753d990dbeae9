"""With which arguments the program's routines are called, as the engine counts it in the calls that
it looks at. Which ones these are is up to the clock: nothing here depends on it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from taupy.model.sampled import ARGUMENTS, OTHER_ARGUMENTS

pytest.importorskip("taupy._native.engine", reason="needs the compiled core")

ROWS = """SELECT timer.name, user_event.name, sum(value.count), sum(value.count * value.mean)
            FROM user_event_value AS value
            JOIN user_event ON user_event.id = value.user_event_id
            JOIN callpath ON callpath.id = value.callpath_id
            JOIN timer ON timer.id = callpath.timer_id
           WHERE user_event.name IN (?, ?) GROUP BY timer.name, user_event.name"""

LOOP = """
import time, gc, sys
def work(least=2000):
    return sum(range(least))
def main():
    begun, n = time.thread_time(), 0
    while time.thread_time() < begun + 1.5 or n < 1000:
        n += 1
        call(n)
main()
"""


def counts(runs):
    """Of each routine, how many calls were compared, how many of them differ, and the others."""
    with closing(sqlite3.connect(runs.database)) as connection:
        rows = list(connection.execute(ROWS, (ARGUMENTS, OTHER_ARGUMENTS)))
    names = {row[0].split()[0] for row in rows}
    of = {(row[0].split()[0], row[1]): row[2:] for row in rows}
    none = (0, 0)
    return {
        name: (
            of.get((name, ARGUMENTS), none)[0],
            round(of.get((name, ARGUMENTS), none)[1]),
            of.get((name, OTHER_ARGUMENTS), none)[0],
        )
        for name in names
    }


AT_ONCE = 3
"""So many routines have a large part of the time each."""
EACH = 10**9
IMMUTABLE = {
    "numbers(n % 2, n % 3 / 2)": 6,
    "texts('xyz'[n % 3], b'ab')": 3,
    "tuples((n % 2, (None, True, 'x')))": 2,
    "negative(-1 - n % 2)": 2,
    "star(*range(n % 4))": 4,
    "keywords(b=n % 5)": 5,
    "assigned(n % 3)": 3,
    "inside(n % 3)": 3,
    "each(n)": EACH,
    "cells(n % 2, 0.5)": 2,
}
ROUTINES = """
def numbers(a, b):
    return work()
def texts(a, b):
    return work()
def tuples(a):
    return work()
def negative(a):
    return work()
def star(*a):
    return work()
def keywords(*, a=1, b=2):
    return work()
def cells(a, b):
    return sum(a + b + k for k in range(300))
def assigned(a):
    work()
    a += 1
    return a
def inside(a):
    def step():
        nonlocal a
        a += work()
    step()
    return a
def each(a):
    return work()
"""


def program(routines, calls):
    return f"{routines}\ndef call(n):\n" + "".join(f"    {call}\n" for call in calls) + LOOP


@pytest.mark.parametrize("first", range(0, len(IMMUTABLE), AT_ONCE))
def test_equal_arguments_are_counted_once(runs, first):
    calls = [*IMMUTABLE][first : first + AT_ONCE]
    runs.run(program(ROUTINES, calls))
    looked_at = counts(runs)
    for call in calls:
        compared, found, others = looked_at[call.split("(")[0]]
        assert 0 < found <= min(IMMUTABLE[call], compared), call
        assert others == 0, call
        if IMMUTABLE[call] == EACH:
            assert found == compared


OTHERS = [
    "lists([n % 2])", "dicts({})", "instances(Own(1))", "within((1, [n % 2]))",
    "not_numbers(float('nan'))", "large(1 << 200)", "long('x' * 5000)",
    "deep(((((((1,),),),),),))", "more(1, b=2)",
]  # fmt: skip
CLASS = """class Own(int):
    def fail(self, *_):
        print('called')
    __eq__ = __hash__ = __index__ = __float__ = __bool__ = __int__ = fail
"""


@pytest.mark.parametrize("first", range(0, len(OTHERS), AT_ONCE))
def test_others_are_not_compared_and_none_of_their_code_runs(runs, first):
    calls = OTHERS[first : first + AT_ONCE]
    names = [call.split("(")[0] for call in calls]
    routines = "".join(
        f"def {name}(a{', **b' * (name == 'more')}):\n    return work()\n" for name in names
    )
    done = runs.run(program(CLASS + routines, calls))
    assert "called" not in done.stdout
    looked_at = counts(runs)
    for name in names:
        compared, different, others = looked_at[name]
        assert compared == different == 0 < others, name


def test_routines_without_arguments_generators_and_coroutines_have_none(runs):
    routines = """
async def waited(n):
    return work()
def steps(n):
    yield work()
def bare():
    return work()
def call(n):
    bare()
    list(steps(n))
    try:
        waited(n).send(None)
    except StopIteration:
        pass
"""
    runs.run(routines + LOOP)
    assert {*counts(runs)} <= {"call", "work"}  # `work` has one with a default


def test_nothing_is_referred_to_or_stored(runs):
    secret = "".join(map(chr, (113, 117, 105, 110, 99, 101, 45, 116, 97, 114, 116)))
    routines = """
text = "".join(map(chr, (113, 117, 105, 110, 99, 101, 45, 116, 97, 114, 116)))
values = tuple(text + str(number) for number in range(5))
before = [sys.getrefcount(value) for value in values]
def routine(value):
    return work()
def call(n):
    routine(values[n % 5])
"""
    done = runs.run(
        "import sys\n" + routines + LOOP +
        "print([sys.getrefcount(value) for value in values] == before)"
    )  # fmt: skip
    assert done.stdout.split()[-1] == "True"
    compared, _, others = counts(runs)["routine"]
    assert compared > 0 == others
    assert secret.encode() not in runs.database.read_bytes()


RECURSION = """
def ways(n):
    return 1 if n < 2 else ways(n - 1) + ways(n - 2)
def call(n):
    ways(12)
"""


def test_the_arguments_of_a_routine_are_those_of_all_its_call_paths(runs):
    runs.run(RECURSION + LOOP)
    compared, different, _ = counts(runs)["ways"]
    assert 0 < different <= 13
    assert compared >= different


THREADS = """\
import threading
def work(number):
    return sum(range(900))
def run():
    for number in range(2000):
        work(number % 2)
for _ in range(30):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
"""


def test_threads_that_are_added_up_leave_no_counts_to_others(runs):
    runs.run(THREADS, "--threads", "4")
    compared, different, _ = counts(runs).get("work", (0, 0, 0))
    assert different <= 2 * 4
    assert (compared > 0) == (different > 0)
