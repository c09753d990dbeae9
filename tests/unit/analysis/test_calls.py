"""The call tree that rules ask: sums by thread and outermost rows, in linear time."""

from __future__ import annotations

from taupy.analysis.findings.calls import Calls, Sum
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Table
from tests.growth import is_linear

MAIN, OTHER = (ThreadRow(0, 0, number, "host", "") for number in (0, 1))
TIMERS = [TimerRow(name, name, "a.py", 1, "PYTHON") for name in ("outer", "chosen", "leaf")]


def calls_of(parent: list[int], codes: list[int], threads=None) -> Calls:
    size = len(parent)
    table = Table({"timer": codes}, {"timer": TIMERS}, {}, size)
    threads = threads or [MAIN] * size
    timers = [TIMERS[code] for code in codes]
    return Calls(
        parent, timers, threads, [2] * size, [10 + n for n in range(size)], [1] * size, table
    )


def is_chosen(timer: TimerRow) -> bool:
    return timer.short_name == "chosen"


def test_rows_below_another_chosen_one_are_not_outermost_however_far():
    #        0 outer - 1 chosen - 2 leaf - 3 chosen;  4 outer - 5 leaf - 6 chosen, 7 chosen
    calls = calls_of([-1, 0, 1, 2, -1, 4, 5, 5], [0, 1, 2, 1, 0, 2, 1, 1])
    assert calls.outermost(is_chosen) == [1, 6, 7]


def test_sums_of_threads_keep_the_order_of_their_rows():
    calls = calls_of([-1] * 4, [0, 1, 1, 1], [MAIN, OTHER, MAIN, OTHER])
    assert calls.by_thread([3, 0, 1]) == {OTHER: Sum(24, 4, (3, 1)), MAIN: Sum(10, 2, (0,))}


def test_a_deep_recursion_with_a_chosen_row_at_each_level_takes_linear_time():
    def ask(levels: int) -> None:
        spine = [-1, *range(levels - 1)]
        calls = calls_of([*spine, *range(levels)], [0] * levels + [1] * levels)
        found = calls.outermost(is_chosen)
        (whole,) = calls.by_thread(found).values()
        assert len(whole.rows) == levels

    assert is_linear(ask, 1_500)
