"""How far slow work is, on stderr: what, a bar, the rate and the time that remains.

It appears on a terminal that can draw, when the work has taken most of a second, and is erased at
the end. A thread draws it, so that work which reports nothing for a while is seen to go on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from taupy import units
from taupy.escaping import visible
from taupy.model.progress import SILENT, Progress

_PATIENCE_SECONDS = 0.7
_INTERVAL_SECONDS = 0.1
_IDLE_SECONDS = 1.0
"""How often it is drawn while nothing is reported."""
_BAR_COLUMNS = 30


@contextmanager
def shown(what: str = "", stream: IO[str] | None = None) -> Iterator[Progress]:
    """Takes reports of work. Nothing may be printed before it ends.

    Within another one, its work is shown in the place of the other's.

    Args:
        what: is done until a report says more.
        stream: of a terminal; None: stderr.
    """
    stream = stream or sys.stderr
    if _open:
        _open[0].begin(what or _open[0].what)
        yield _open[0]
        return
    if not can_draw(stream):
        yield SILENT
        return
    bar = _Bar(what, stream)
    _open.append(bar)
    try:
        yield bar
    finally:
        _open.clear()
        bar.close()


def can_draw(stream: IO[str] | None) -> bool:
    """Whether the stream is a terminal on which a line can replace another."""
    named = os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    try:
        return stream is not None and named and stream.isatty()
    except ValueError:
        return False


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

    def __init__(self, what: str, stream: IO[str]) -> None:
        import threading

        self._now = _Stretch(what, None, "")
        self._stream = stream
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._thread.start()

    @property
    def what(self) -> str:
        return self._now.what

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
        with Live(console=Console(file=self._stream), transient=True, auto_refresh=False) as live:
            while True:
                stretch, now = self._now, time.monotonic()
                if drawn != (stretch, stretch.done) or now - at >= _IDLE_SECONDS:
                    drawn, at = (stretch, stretch.done), now
                    live.update(_line(stretch, now), refresh=True)
                if self._ended.wait(_INTERVAL_SECONDS):
                    return


_open: list[_Bar] = []
"""The one bar of this process, while it is shown."""


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
