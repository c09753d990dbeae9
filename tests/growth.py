"""How the work of a function grows with its input, and compares with other work, measured by CPU
time.

A limit in seconds would fail on a busy machine. A ratio of CPU times does not: each is the lowest
of several interleaved ones, and a high ratio is measured again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

TIMES_AS_LARGE = 8
TRIES = 5


def is_linear(work: Callable[[int], object], size: int) -> bool:
    """Whether 8 times the size takes about 8 times the CPU time of this thread.

    Args:
        work: does the work for an input of the given size.
        size: the smaller size; its work should take a millisecond or more.

    Returns:
        False if the ratio is over 24, three times that of linear work, in every attempt.
        Quadratic work has a ratio of 64.
    """
    large = partial(work, size * TIMES_AS_LARGE)
    return is_faster(large, partial(work, size), 3 * TIMES_AS_LARGE)


def is_faster(work: Callable[[], object], other: Callable[[], object], ratio: float) -> bool:
    """Whether work takes less than this ratio of the CPU time of other work, in this thread; False
    if in no attempt."""
    work_s = other_s = float("inf")
    for _ in range(TRIES):
        other_s = min(other_s, _cpu_s(other))
        work_s = min(work_s, _cpu_s(work))
        if work_s < ratio * other_s:
            return True
    return False


def _cpu_s(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def events_of(work: Callable[[], object]) -> int:
    """How many calls and returns there are while it works, of Python code and by it: the same each
    time. What C code calls by itself is not counted."""
    seen: list[str] = []
    sys.setprofile(lambda _, event, __: seen.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(seen)
