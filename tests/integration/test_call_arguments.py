"""With which arguments the program's routines are called, as the engine counts it in the calls that
it looks at. Which ones these are is up to the clock: nothing here depends on it, since more events
in a row are looked at, from time to time, than an iteration of these programs has."""

from __future__ import annotations

import pytest

from taupy.model.sampled import ARGUMENTS, OTHER_ARGUMENTS
from taupy.record.growth import LEAST_NS, LEAST_SHARE

pytest.importorskip("taupy._native.engine", reason="needs the compiled core")

ROWS = """SELECT timer.name, user_event.name, sum(value.count), sum(value.count * value.mean)
            FROM user_event_value AS value
            JOIN user_event ON user_event.id = value.user_event_id
            JOIN callpath ON callpath.id = value.callpath_id
            JOIN timer ON timer.id = callpath.timer_id
           WHERE user_event.name IN (?, ?) GROUP BY timer.name, user_event.name"""

OF_THREADS = """SELECT sum(value.count), sum(value.count * value.mean)
                  FROM user_event_value AS value
                  JOIN user_event ON user_event.id = value.user_event_id
                  JOIN callpath ON callpath.id = value.callpath_id
                  JOIN timer ON timer.id = callpath.timer_id
                 WHERE user_event.name = ? AND timer.short_name = 'work' GROUP BY value.thread_id"""

# Until each has the part of the time of which the engine's counts are stored, with a margin.
LOOP = f"""
import gc, time
clock = time.perf_counter
def work(least=2000):
    return sum(range(least))
def main():
    begun, n = clock(), 0
    while n < 1000 or min(spent) < max(
        {1.25e-9 * LEAST_NS}, 1.25 / {LEAST_SHARE} * (clock() - begun)
    ):
        n += 1
        call(n)
main()
"""


def program(routines, calls):
    lines = (
        f"    begun = clock()\n    {call}\n    spent[{at}] += clock() - begun\n"
        for at, call in enumerate(calls)
    )
    return f"{routines}\nspent = [0] * {len(calls)}\ndef call(n):\n{''.join(lines)}{LOOP}"


def counts(runs):
    """Of each routine, how many calls were compared, how many of them differ, and the others."""
    rows = runs.sql(ROWS, ARGUMENTS, OTHER_ARGUMENTS)
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


def test_equal_arguments_are_counted_once(runs):
    runs.run(program(ROUTINES, IMMUTABLE))
    looked_at = counts(runs)
    for call, most in IMMUTABLE.items():
        compared, found, others = looked_at[call.split("(")[0]]
        assert 0 < found <= min(most, compared), call
        assert others == 0, call
        if most == EACH:
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


def test_others_are_not_compared_and_none_of_their_code_runs(runs):
    names = [call.split("(")[0] for call in OTHERS]
    routines = "".join(
        f"def {name}(a{', **b' * (name == 'more')}):\n    return work()\n" for name in names
    )
    done = runs.run(program(CLASS + routines, OTHERS))
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
"""
    calls = ("bare()", "list(steps(n))", "with suppress(StopIteration): waited(n).send(None)")
    runs.run(program("from contextlib import suppress\n" + routines, calls))
    assert {*counts(runs)} <= {"call", "work"}  # `work` has one with a default


def test_nothing_is_referred_to_or_stored(runs):
    secret = "".join(map(chr, (113, 117, 105, 110, 99, 101, 45, 116, 97, 114, 116)))
    routines = """
text = "".join(map(chr, (113, 117, 105, 110, 99, 101, 45, 116, 97, 114, 116)))
values = tuple(text + str(number) for number in range(5))
before = [sys.getrefcount(value) for value in values]
def routine(value):
    return work()
"""
    done = runs.run(
        program("import sys\n" + routines, ["routine(values[n % 5])"])
        + "print([sys.getrefcount(value) for value in values] == before)"
    )
    assert done.stdout.split()[-1] == "True"
    compared, _, others = counts(runs)["routine"]
    assert compared > 0 == others
    assert secret.encode() not in runs.database.read_bytes()


RECURSION = """
def ways(n):
    return 1 if n < 2 else ways(n - 1) + ways(n - 2)
"""


def test_the_arguments_of_a_routine_are_those_of_all_its_call_paths(runs):
    runs.run(program(RECURSION, ["ways(12)"]))
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
    """Their memory is used again."""
    runs.run(THREADS, "--threads", "4")
    # The row of several may have the counts of its first thread, and the last thread may not have
    # ended when the program does.
    of_threads = runs.sql(OF_THREADS, ARGUMENTS)
    assert len(of_threads) <= 4 + 2
    for compared, different in of_threads:
        assert 0 < different <= min(2, compared)
