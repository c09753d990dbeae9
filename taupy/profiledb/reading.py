"""A SELECT over values, and what another engine than SQLite has to know to answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement over calls and values, of timers or of call paths.

    Attributes:
        sql: in SQLite's dialect.
        elsewhere: the same for an engine whose tables hold these trials only, and integers only, so
            that sums do not depend on the order of rows; "" where that is not enough.
        level: whose tables it reads.
        metrics: ids of those whose values it reads.
        columns: how many there are.
        keys: how many of them, the first, order the rows.
    """

    sql: str
    elsewhere: str
    level: Literal["timer", "callpath"]
    trials: Sequence[int]
    metrics: Sequence[int]
    columns: int
    keys: int
