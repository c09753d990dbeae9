"""The compiled engine's hash tables: code that is made anew costs the same every time.

What a search costs is told by the engine (`tables`): entries, slots and the steps that finding
every entry once takes. Nothing here looks at a clock.
"""

from __future__ import annotations

import itertools
import json
import os

import pytest

from tests.engine.conftest import has_native

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")

LAMBDAS = """
import json
from taupy._native import engine

def resident_kib():
    with open("/proc/self/statm") as file:
        return 4 * int(file.read().split()[1])

batches = []
for batch in range(10):
    for i in range(10_000):
        eval("(lambda: 1)()")
    batches.append({**engine.tables(), "resident": resident_kib()})
print(json.dumps(batches))
"""

MANY_CALL_PATHS = """
import json
from taupy._native import engine

def down(n):
    eval("(lambda: 1)()")
    if n:
        down(n - 1)

for i in range(50):
    down(199)
print(json.dumps(engine.tables()))
"""

ALIKE = """
import json
from taupy._native import engine
alike = [eval("lambda: 1") for i in range(20_000)]
for function in alike:
    function()
del alike, function
for i in range(100):
    eval("lambda: 1")()
print(json.dumps(engine.tables()))
"""

TREE = """
import json
from taupy._native import engine

def left(level):
    if level:
        left(level - 1)
        right(level - 1)

def right(level):
    if level:
        left(level - 1)
        right(level - 1)

def third():
    pass

def among_many(number):
    routines[number]()

names = {}
for i in range(9):
    exec(f"def routine{i}(): pass", names)
routines = [names[f"routine{i}"] for i in range(9)]
for _ in range(3):
    left(15)
    third()
    for i in (0, 1, 2, 3, 0, 4, 8, 5, 6, 7, 2, 1):
        among_many(i)
print(json.dumps(engine.tables()))
"""

RANDOM = """
import json, random, sys

chance = random.Random({seed})
calls = {{}}
SOURCE = '''
def f(path, left): note(path + " > f", left)
def g(path, left): note(path + " > g", left)
def h(path, left):
    try:
        note(path + " > h", left)
    except KeyError:
        pass
def k(path, left):
    yield note(path + " > k", left)
'''

def new():
    made = {{"note": note}}
    exec(compile(SOURCE, __file__, "exec"), made)
    return [made[name] for name in "fghk"]

def note(path, left):
    calls[path] = calls.get(path, 0) + 1
    path += " > note"
    calls[path] = calls.get(path, 0) + 1
    if left == 0 and chance.random() < 0.5:
        raise KeyError
    for i in range(min(left, 3)):
        if chance.random() < 0.1:
            kept[:] = new()
        routine = chance.choice(kept)
        again = routine(path, chance.randrange(left))
        if again is not None:
            list(again)

kept = new()
for i in range(400):
    try:
        note("<module>", 9)
    except KeyError:
        pass
del calls["<module>"]
print(json.dumps(calls))
"""


@pytest.mark.slow
def test_a_lambda_made_anew_for_ever_costs_the_same_and_leaves_nothing(runner):
    trial = runner.run(LAMBDAS, "native")
    batches = json.loads(trial.stdout)
    assert trial.calls("<string>")["<lambda>"] == 100_000
    for name in ("routines", "retired", "nodes"):
        entries, slots, steps = batches[-1][name]
        assert [entries, slots] == batches[1][name][:2], name
        assert steps <= 2 * entries, name
    if os.environ.get("TAUPY_SANITIZED") != "address":  # which keeps freed memory for a while
        assert batches[-1]["resident"] - batches[0]["resident"] < 256
    # Routines of one call path: a node is handed over at every beginning and end, 4 to 6 times for
    # each lambda, as the addresses of code objects fall, however many lambdas there were before.
    more = [after["rekeyed"] - before["rekeyed"] for before, after in itertools.pairwise(batches)]
    assert max(more) <= min(more) + 100 and max(more) <= 6 * 10_100


def test_a_lambda_on_many_call_paths_does_not_move_them_all_each_time(runner):
    trial = runner.run(MANY_CALL_PATHS, "native")
    # 50 x 200 evaluations, each of a new <module> and a new <lambda> on 200 call paths.
    assert trial.calls("<string>")["<lambda>"] == 10_000
    paths = [path for path in trial.paths() if path.names[-1] == "<lambda>"]
    assert [path.calls for path in paths] == [50] * 200
    assert json.loads(trial.stdout)["rekeyed"] < 3 * 20_000


@pytest.mark.slow
def test_many_routines_alike_are_found_again_at_once(runner):
    trial = runner.run(ALIKE, "native")
    assert trial.calls("<string>")["<lambda>"] == 20_100
    entries, _, steps = json.loads(trial.stdout)["retired"]
    assert steps <= 2 * entries


@pytest.mark.slow
def test_few_children_that_lie_near_need_no_table(runner):
    trial = runner.run(TREE, "native")
    entries, _, _ = json.loads(trial.stdout)["nodes"]
    # Both children of a call lie near but for those at the top, whose trees have thousands.
    assert 0 < entries < 60
    paths = [path for path in trial.paths() if path.names[-1] in ("left", "right")]
    assert [path.calls for path in paths] == [3] * (2**16 - 1)
    assert trial.calls("prog.py")["third"] == 3
    among = {path.names[-1]: path.calls for path in trial.paths() if "among_many" in path.names}
    assert among == {"among_many": 36} | {f"routine{i}": 3 + 3 * (i < 3) for i in range(9)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_routines_made_anew_in_the_middle_of_calls_keep_their_counts(runner, seed):
    trial = runner.run(RANDOM.format(seed=seed), "native")
    counts = trial.counts("prog.py")
    expected = json.loads(trial.stdout)
    assert sum(expected.values()) > 5000
    own = {
        path: calls for path, calls in counts.items() if path != "<module>" and " > new" not in path
    }
    assert own == expected
