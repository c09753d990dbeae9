"""Measure what recording a call costs, for compensation and for the trial's metadata.

Calls are timed without and with the engine, in the launcher, just before the program takes its
place: in the same interpreter, with the same engine, on the same machine.

* `call_ns`: the whole cost of a call, which is added to the time of all its callers; measured
  with a small routine with one argument;
* `inner_ns`: the share of it that is in the routine's own time; measured with an empty routine,
  whose time is nothing else.

This is how TAU does it (TAU_COMPENSATE): time many empty timers, subtract their cost.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OPTIONS = (  # options that change the cost of a call
    "c_calls",
    "metrics",
    "throttle",
    "counters",
    "counters_at_calls",
    "counters_by_rdpmc",
    "counters_whole",
)
_CALLS = 50
"""In a round. The program waits, and more calls do not make the answer steadier."""
_ROUNDS = 7
_UNKNOWN = float("inf")
_LINES_OF_BARE = 2  # in each turn


def _small(value: int) -> int:
    return value + 1


def _empty() -> None:
    pass


def _small_loop(count: int) -> None:
    value = 0
    for _ in range(count):
        value = _small(value)


def _empty_loop(count: int) -> None:
    for _ in range(count):
        _empty()


def _bare_loop(count: int) -> None:
    for _ in range(count):
        pass


def line_ns(early: tuple[int, int]) -> float:
    """Cost of a line that begins in a routine with exact lines, in ns."""
    from taupy._native import engine

    bare = _fastest(_bare_loop)
    name = f"{_bare_loop.__code__.co_filename}:{_bare_loop.__qualname__}"
    engine.start({"early": early, "line_routines": [name]})
    try:
        with_lines = _fastest(_bare_loop)
    finally:
        engine.stop()
    return max(0.0, with_lines - bare) / _LINES_OF_BARE


def _fastest(loop: Callable[[int], None]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter_ns()
        loop(_CALLS)
        best = min(best, time.perf_counter_ns() - start)
    return best / _CALLS


def calibrate(early: tuple[int, int], options: dict[str, Any]) -> dict[str, float]:
    """Cost of one call under the compiled engine, in ns; {} if it cannot be determined."""
    from taupy._native import engine

    bare, empty, small = map(_fastest, (_bare_loop, _empty_loop, _small_loop))
    engine.start(
        {
            "early": early,
            **{name: options[name] for name in _OPTIONS if name in options},
        }
    )
    try:
        inside = _inside(engine.flat)
        measured = _fastest(_small_loop)
    finally:
        engine.stop()
    if inside == _UNKNOWN:
        return {}
    # In an uninstrumented run, about a third of the cost of calling an empty routine falls between
    # its entry and its return; this third is the routine's own time.
    own = max(0.0, empty - bare) / 3
    return {
        "call_ns": round(max(0.0, measured - small), 1),
        "inner_ns": round(max(0.0, inside - own), 1),
    }


def _inside(flat: Callable[[], list[tuple[Any, ...]]]) -> float:
    """Recorded time of a call of the empty routine, in ns: the least mean of a round. That of all
    rounds would have whatever interrupted one of them."""
    best, before = _UNKNOWN, _of_empty(flat())
    for _ in range(_ROUNDS):
        _empty_loop(_CALLS)
        now = _of_empty(flat())
        calls, inclusive = map(int.__sub__, now, before)
        best = min(best, inclusive / calls if calls else _UNKNOWN)
        before = now
    return best


def _of_empty(rows: list[tuple[Any, ...]]) -> tuple[int, int]:
    return next(((row[1], row[2]) for row in rows if row[0] == "_empty"), (0, 0))
