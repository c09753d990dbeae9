"""Which of many routines are the program's own."""

from __future__ import annotations

from taupy.analysis import own_code
from taupy.analysis.own_code import Extent, is_own, own_ones
from taupy.model.metric import ROOT_TIMER
from taupy.model.rows import TimerRow

_PACKAGE = "/env/lib/python3.12/site-packages/tool"
_TIMERS = {
    TimerRow("f [{app.py}{1}]", "f", "app.py", 1, "PYTHON"): "/home/u/app.py",
    TimerRow("g [{app.py}{5}]", "g", "app.py", 5, "PYTHON"): "/home/u/app.py",
    TimerRow("h [{app.py}{9}]", "h", "app.py", 9, "LIBRARY|PYTHON"): "/home/u/app.py",
    TimerRow("<module> [{<string>}{1}]", "<module>", "<string>", 1, "PYTHON"): "<string>",
    TimerRow("__init__ [{<string>}{2}]", "__init__", "<string>", 2, "PYTHON"): "<string>",
    TimerRow("work [{<dynamic-code>}{1}]", "work", "<dynamic-code>", 1, "PYTHON"): "<dynamic-code>",
    TimerRow("run [{tool/cli.py}{3}]", "run", "tool/cli.py", 3, "PYTHON"): f"{_PACKAGE}/cli.py",
    TimerRow("len", "len", None, None, "C"): None,
}


def test_many_routines_are_the_programs_own_as_each_alone():
    timers, paths = [*_TIMERS], [*_TIMERS.values()]
    for extent in (
        Extent(),
        Extent(frozenset({"<string>"})),
        Extent(frozenset(), frozenset({_PACKAGE})),
        Extent(everything=True),
    ):
        alone = [is_own(path, extent, timer) for timer, path in _TIMERS.items()]
        assert own_ones(timers, paths, extent) == alone
    assert own_ones(
        [TimerRow(ROOT_TIMER, ROOT_TIMER, None, None, "TAUPY")], ["a.py"], Extent()
    ) == [False]


def test_functions_that_cloudpickle_sends_are_the_programs():
    """Those of `__main__` in workers of joblib, Dask and Ray."""
    timer = TimerRow("work [{<dynamic-code>}{1}]", "work", "<dynamic-code>", 1, "PYTHON")
    assert is_own("<dynamic-code>", Extent(), timer)


def test_routines_of_a_file_are_looked_at_once(monkeypatch):
    asked: list[str | None] = []

    def looked_at(path: str | None, extent: Extent, timer: TimerRow | None = None) -> bool:
        asked.append(path)
        return is_own(path, extent, timer)

    monkeypatch.setattr(own_code, "is_own", looked_at)
    timers = [TimerRow(f"f{n}", f"f{n}", "app.py", n, "PYTHON") for n in range(1000)]
    assert own_ones(timers, ["/home/u/app.py"] * 1000, Extent()) == [True] * 1000
    assert asked == ["/home/u/app.py"]
