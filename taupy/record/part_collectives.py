"""The collectives of a process as stored in its part."""

from __future__ import annotations

from dataclasses import dataclass, field

from taupy.record.engine_layout import Array
from taupy.record.part_steps import Clock


@dataclass(frozen=True, slots=True)
class Communicator:
    """A group of processes as described by the part; see `Collectives`."""

    name: str
    ranks: str
    size: int
    begun: int
    stride: int


@dataclass(slots=True)
class PartCollectives:
    """The collectives of a part, as stored there.

    Attributes:
        communicators, operations: by the positions to which rows and sums refer.
        rows: of COLLECTIVE, those in use; sums: of COLLECTIVE_SUM; stretches: of STRETCH.
    """

    clock: Clock
    communicators: dict[int, Communicator] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    rows: list[Array] = field(default_factory=list)
    sums: list[Array] = field(default_factory=list)
    stretches: list[Array] = field(default_factory=list)
