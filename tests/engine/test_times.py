"""Both engines' times: whatever the clock says, the tree adds up."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.engine.programs import PROGRAMS

BUSY = """
import time
def wait(s):
    end = time.perf_counter() + s
    while time.perf_counter() < end: pass
def outer():
    wait(0.03)
    inner()
def inner():
    wait(0.06)
def down(n):
    wait(0.01)
    if n: down(n - 1)
def numbers():
    wait(0.02)
    yield 1
    wait(0.02)
outer()
down(4)
for _ in numbers():
    wait(0.05)
"""


@pytest.fixture(params=["corpus", "busy"])
def trial(request, runner, engine):
    if request.param == "corpus":
        return request.getfixturevalue("corpus_trial")
    return runner.run(BUSY, engine)


def test_inclusive_is_exclusive_and_the_childrens_inclusive(trial):
    children: dict[tuple, float] = {}
    entered: dict[tuple, int] = {}
    paths = trial.paths()
    for path in paths:
        above = (path.node, path.thread, path.names[:-1], path.files[:-1])
        children[above] = children.get(above, 0) + path.inclusive
        entered[above] = entered.get(above, 0) + path.calls
    for path in paths:
        here = (path.node, path.thread, path.names, path.files)
        assert 0 <= path.exclusive <= path.inclusive
        if path.names.count("<module>") + path.names.count("<lambda>") < 2:
            # Names tell these call paths apart.
            assert path.exclusive + children.get(here, 0) == pytest.approx(path.inclusive)
            assert path.subroutines == entered.get(here, 0)


def test_a_thread_is_never_busier_than_it_is_old(trial):
    duration = trial.sql("SELECT duration_ns FROM trial")[0][0]
    for path in trial.paths():
        assert path.inclusive <= duration * 1.01 + 1_000_000, path.names


def test_time_stands_where_it_was_spent(runner, engine):
    ms = 1_000_000
    trial = runner.run(BUSY, engine)
    outer, inner = trial.under("<module>", "outer"), trial.under("<module>", "outer", "inner")
    assert 90 * ms <= outer.inclusive
    assert 60 * ms <= inner.inclusive <= outer.inclusive - 30 * ms
    assert outer.exclusive < outer.inclusive / 2
    down = [trial.under("<module>", *["down"] * n) for n in range(1, 6)]
    assert [path.calls for path in down] == [1] * 5
    for n, path in enumerate(reversed(down), 1):
        assert n * 10 * ms <= path.inclusive
    for above, below in itertools.pairwise(down):
        assert below.inclusive <= above.inclusive - 10 * ms
    # A suspended generator spends nothing: 2 * 20 ms, not 50 more.
    numbers = trial.under("<module>", "numbers")
    everything = trial.under("<module>")
    assert 40 * ms <= numbers.inclusive
    assert everything.inclusive >= outer.inclusive + down[0].inclusive + numbers.inclusive + 50 * ms
    assert numbers.calls == 1


def test_every_program_of_the_corpus_was_measured(corpus_trial):
    assert {path.files[-1] for path in corpus_trial.paths()} >= {
        f"{program.name}.py" for program in PROGRAMS
    }


def test_what_the_first_thread_waited_for_a_processor_is_known(runner, native):
    """With its CPU time, less than the thread's whole time by what it slept."""
    before = Path("/proc/self/schedstat").read_text("ascii").split()
    if not int(before[2]):
        pytest.skip("this kernel does not count run delays")
    trial = runner.run("import time\ndef nap(): time.sleep(0.3)\nnap()", native)
    ((count, delay),) = trial.sql(
        """SELECT count(*), sum(value.mean) FROM user_event_value AS value
             JOIN user_event AS event ON event.id = value.user_event_id
            WHERE event.name = 'Thread Run Delay'"""
    )
    ((duration,),) = trial.sql("SELECT duration_ns FROM trial")
    assert count == 1
    assert 0 <= delay <= duration - 250_000_000
