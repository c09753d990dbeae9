"""Places of a million call paths: the sums are those of few, without a look at each row."""

from __future__ import annotations

from random import Random

import pytest

from taupy.analysis import places
from taupy.analysis.trees import Tree
from taupy.model import forest
from taupy.model.rows import ThreadRow, TimerRow


class Looked(list):
    """A list that counts the looks at its rows."""

    looks = 0

    def __getitem__(self, row):
        self.looks += 1
        return super().__getitem__(row)


def _timers() -> list[TimerRow]:
    site = "/usr/lib/python3.12/site-packages"
    files = ["/u/app.py"] * 4 + [f"{site}/numpy/x.py"] * 4 + [f"{site}/pandas/y.py"] * 2
    timers = [TimerRow(f"f{n}", f"f{n}", file, n, "") for n, file in enumerate(files)]
    timers += [
        TimerRow("<module>", "<module>", "/u/app.py", 1, ""),
        TimerRow("import m", "import m", None, None, "IMPORT"),
        TimerRow("exit", "exit", None, None, "EXIT"),
        TimerRow("wait", "Condition.wait", "threading.py", 9, ""),
        TimerRow("select", "EpollSelector.select", "selectors.py", 9, ""),
        TimerRow("run", "BaseEventLoop.run_forever", "asyncio/base_events.py", 9, ""),
        TimerRow("sleep", "sleep", "asyncio/tasks.py", 9, ""),
        TimerRow("len", "len", None, None, "PYTHON_C"),
    ]
    return timers


def _tree(size: int, seed: int, threads: int = 3) -> Tree:
    """Random call paths of several threads, callers and callees in any order; no two times are
    equal."""
    random, timers = Random(seed), _timers()
    row_of = list(range(size))
    random.shuffle(row_of)
    thread, parent, timer = [0] * size, [-1] * size, [0] * size
    for at, row in enumerate(row_of):
        above = row_of[random.randrange(at)] if at >= threads else -1
        parent[row], timer[row] = above, random.randrange(len(timers))
        thread[row] = at if above < 0 else thread[above]
    rows = [ThreadRow(0, 0, number, "host", "") for number in range(threads)]
    calls = [random.choice((0, 1, 5, 700)) for _ in range(size)]
    exclusive = [(2 << 20) + random.randrange(2 << 40) for _ in range(size)]
    return Tree(rows, thread, timers, timer, parent, calls, exclusive)


@pytest.mark.parametrize("seed", range(20))
def test_many_call_paths_have_the_places_and_packages_of_few(monkeypatch, seed: int):
    tree, groups = _tree(400, seed), ["main", "others", "others"]
    few = places.tally(tree, groups, {})
    monkeypatch.setattr(forest, "MANY", 1)
    monkeypatch.setattr(forest, "SHALLOW", 0)
    many = places.tally(tree, groups, {})
    assert many.levels and not few.levels
    for group in ("main", "others"):
        assert many.packages(group) == few.packages(group)
        for one, other in zip(many.places()[group], few.places()[group], strict=True):
            assert one == other
            assert one.entries == other.entries


def test_no_row_of_many_call_paths_is_looked_at_for_its_own_sake():
    tree = _tree(forest.MANY, 7)
    calls, exclusive = Looked(tree.calls), Looked(tree.exclusive)
    few = places.tally(tree._replace(calls=[*calls, 0][:-1]), ["", "", ""], {})
    many = places.tally(tree._replace(calls=calls, exclusive=exclusive), ["", "", ""], {})
    assert many.places() == few.places()
    assert calls.looks == exclusive.looks == 0


def test_times_that_are_no_integers_are_added_row_by_row(monkeypatch):
    tree = _tree(300, 9)
    halves = [time / 2 for time in tree.exclusive]
    few = places.tally(tree._replace(exclusive=halves), ["", "", ""], {}).places()
    monkeypatch.setattr(forest, "MANY", 1)
    monkeypatch.setattr(forest, "SHALLOW", 0)
    assert places.tally(tree._replace(exclusive=halves), ["", "", ""], {}).places() == few
