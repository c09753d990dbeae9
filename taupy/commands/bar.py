"""How far slow work is, on stderr: what, a bar, the rate and the time that remains.

It appears on a terminal that can draw, when the work has taken most of a second, and is erased at
the end. A thread draws it, so that work which reports nothing for a while is seen to go on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taupy import units
from taupy.escaping import visible
from taupy.model.progress import SILENT, Progress
from taupy.pprof import terminal

_PATIENCE_SECONDS = 0.7
_INTERVAL_SECONDS = 0.1
_IDLE_SECONDS = 1.0
"""How often it is drawn while nothing is reported."""
_BAR_COLUMNS = 30


@contextmanager
def shown(what: str = "") -> Iterator[Progress]:
    """Takes reports of work.

    Args:
        what: is done until a report says more.
    """
    if not terminal.can_draw(sys.stderr):
        yield SILENT
        return
    bar = _Bar(what)
    try:
        yield bar
    finally:
        bar.close()


class _Stretch:
    """A stretch of work, and how much of it is done."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self.since = time.monotonic()

    def state(self, now: float) -> str:
        """`45 %, 12.3 MiB/s, 21 s left`; without a total `1,234, 12/s, 8 s`."""
        took = now - self.since
        rate = self.done / took if took > 0 else 0.0
        parts = []
        if self.total:
            parts.append(f"{min(100 * self.done // self.total, 100)} %")
        elif self.done:
            parts.append(self._amount(self.done))
        if self.done:
            parts.append(f"{self._amount(rate)}/s")
        left = (self.total or 0) - self.done
        if left > 0 and self.done and rate:
            parts.append(f"{_clock(left / rate)} left")
        else:
            parts.append(_clock(took))
        return ", ".join(parts)

    def _amount(self, amount: float) -> str:
        if self.unit == "B":
            return units.size(amount)
        return f"{units.rate(amount)} {self.unit}".strip()


def _clock(seconds: float) -> str:
    """Whole seconds below a minute, so that what is drawn ten times a second can be read."""
    return f"{seconds:.0f} s" if seconds < 59.5 else units.duration(seconds * 1e9)


class _Bar:
    """Counts what is reported; a thread of its own draws."""

    def __init__(self, what: str) -> None:
        import threading

        self._now = _Stretch(what, None, "")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._thread.start()

    def begin(self, what: str, total: int | None = None, unit: str = "") -> None:
        self._now = _Stretch(what, total, unit)

    def advance(self, amount: int = 1) -> None:
        self._now.done += amount

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _draw(self) -> None:
        if self._ended.wait(_PATIENCE_SECONDS):
            return
        from rich.console import Console
        from rich.live import Live

        drawn: tuple[_Stretch, int] | None = None
        at = 0.0
        with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
            while True:
                stretch, now = self._now, time.monotonic()
                if drawn != (stretch, stretch.done) or now - at >= _IDLE_SECONDS:
                    drawn, at = (stretch, stretch.done), now
                    live.update(_line(stretch, now), refresh=True)
                if self._ended.wait(_INTERVAL_SECONDS):
                    return


def _line(stretch: _Stretch, now: float) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    bar = ProgressBar(
        total=stretch.total or 1,
        completed=min(stretch.done, stretch.total or 1),
        width=_BAR_COLUMNS,
        pulse=not stretch.total,
    )
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row(
        Text(visible(stretch.what), no_wrap=True, overflow="ellipsis"),
        bar,
        Text(stretch.state(now), no_wrap=True, overflow="ellipsis"),
    )
    return line
