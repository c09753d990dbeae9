"""The critical path of a step on one GPU, as it is stored and shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar, get_args

from taupy.dataclass import NamedTuple

Word = TypeVar("Word", bound=str)
Kind = Literal["host", "launch", "kernel", "communication", "copy", "gap", "wait", "earlier work"]
"""host: routines and calls; launch: from a call to the begin of its work; gap: between two works of
a stream, or of streams that wait for each other; wait: from the end of the work that a call waits
for to its return; earlier work: launched before the step."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

UNEXPLAINED: Final[tuple[Kind, ...]] = ("launch", "gap", "wait")
"""Delays whose reason is not recorded."""

EARLIER: Final = "(launched before)"

OTHERS: Final = "-others-"

PARTS: Final = 24
"""Parts of a path that are kept, the longest."""


class Part(NamedTuple):
    """Time on the path of one kind and place: an operator, a routine, or a kernel without either.

    Attributes:
        bound_ns: how much shorter the step would be at most without the place's own time, of all
            kinds together.
    """

    kind: Kind
    place: str
    ns: int
    bound_ns: int


class Path(NamedTuple):
    """
    Attributes:
        step: its name; "" for the whole time of the recording.
        measured_ns: from the step's begin to the end of its last work, or its own.
        replayed_ns: the same as replayed: the sum of all parts.
        parts: the longest first.
    """

    step: str
    measured_ns: int
    replayed_ns: int
    parts: tuple[Part, ...]

    @property
    def unexplained_ns(self) -> int:
        """What nothing that was recorded explains; without anything that is not on the path, the
        step would be shorter by this at most."""
        return sum(part.ns for part in self.parts if part.kind in UNEXPLAINED)

    def of(self, kind: Kind) -> int:
        return sum(part.ns for part in self.parts if part.kind == kind)


def written(path: Path) -> list[Any]:
    """As it is stored: what is beyond the longest parts is added up by kind, without a bound."""
    rest = {kind: sum(p.ns for p in path.parts[PARTS:] if p.kind == kind) for kind in KINDS}
    others = [[kind, OTHERS, ns, path.measured_ns] for kind, ns in rest.items() if ns]
    return [
        path.step,
        path.measured_ns,
        path.replayed_ns,
        [*map(list, path.parts[:PARTS]), *others],
    ]


def read(value: Any) -> Path:
    """From what was stored.

    Raises:
        TypeError, ValueError: it is something else.
    """
    step, measured, replayed, parts = value
    return Path(
        str(step), stored_ns(measured), stored_ns(replayed),
        tuple(Part(one_of(KINDS, kind), str(place), stored_ns(ns), stored_ns(bound))
              for kind, place, ns, bound in parts),
    )  # fmt: skip


def stored_ns(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(value)
    return value


def one_of(words: Sequence[Word], value: Any) -> Word:
    for word in words:
        if value == word:
            return word
    raise ValueError(value)
