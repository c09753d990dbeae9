"""What only the type checker reads of profiles: closed sets of words, and what has a timer's names.

The storer, for which the prompt waits, imports neither this module nor `typing`.
"""

from __future__ import annotations

from typing import Literal, Protocol

ThreadKind = Literal["host", "stream"]
TrialState = Literal["complete", "incomplete"]
StepKind = Literal["training", "validation"]

ActivityKind = Literal["kernel", "copy", "memset", "api", "sync", "range", "call"]
"""range: a layer, phase, import or region; call: a long call of a routine of the program."""


class Named(Protocol):
    """Anything with the names of a timer: a `TimerRow`, `Figures`, a comparison's `Key`."""

    @property
    def timer(self) -> str: ...
    @property
    def short_name(self) -> str: ...
    @property
    def file(self) -> str | None: ...
    @property
    def line(self) -> int | None: ...
    @property
    def groups(self) -> str: ...
