"""Waiting without a clock, which may stand still or jump (libfaketime)."""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def pauses(seconds: float, step_s: float) -> "Iterator[None]":
    """Yield at least once, and sleep after each time, as often as fills these seconds.

    Sleeps are counted; `time.sleep` would wait for a time of the clock.
    """
    for _ in range(max(1, round(seconds / step_s))):
        yield
        select.select((), (), (), step_s)
