"""How the work of a function grows with its input, measured by CPU time.

A limit in seconds would fail on a busy machine. A ratio of CPU times does not: each is the lowest
of several interleaved ones, and a high ratio is measured again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

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
    small_s = large_s = float("inf")
    for _ in range(TRIES):
        small_s = min(small_s, _cpu_s(work, size))
        large_s = min(large_s, _cpu_s(work, size * TIMES_AS_LARGE))
        if large_s < 3 * TIMES_AS_LARGE * small_s:
            return True
    return False


def _cpu_s(work: Callable[[int], object], size: int) -> float:
    begin = time.thread_time()
    work(size)
    return time.thread_time() - begin
