"""A progress bar for slow work, on stderr if that is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taupy.escaping import visible
from taupy.formats.progress import SILENT, Progress

_PATIENCE_SECONDS = 0.5
_INTERVAL_SECONDS = 0.1


@contextmanager
def shown() -> Iterator[Progress]:
    """A progress bar that appears after half a second and is erased at the end."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        yield SILENT
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """Reports progress to rich, at most ten times a second."""

    def __init__(self) -> None:
        self._rich: Any = None
        self._task: Any = None
        self._what = ""
        self._total: int | None = None
        self._done = 0
        self._next = time.monotonic() + _PATIENCE_SECONDS

    def begin(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._done = what, total, 0
        if self._rich is not None:
            self._rich.reset(self._task, description=visible(what), total=total)

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL_SECONDS
        if self._rich is None:
            self._start()
        self._rich.update(self._task, completed=self._done)
        self._rich.refresh()

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._rich = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )
        self._task = self._rich.add_task(visible(self._what), total=self._total)
        self._rich.start()

    def close(self) -> None:
        if self._rich is not None:
            self._rich.stop()
