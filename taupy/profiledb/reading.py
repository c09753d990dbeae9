"""A SELECT over values, and what an engine other than SQLite must know to answer it."""

from __future__ import annotations

from collections.abc import Sequence

from taupy.dataclass import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


@dataclass(frozen=True, slots=True)
class Reading:
    """A statement over calls and values, of timers or of call paths.

    Attributes:
        sql: in SQLite's dialect.
        elsewhere: the statement for an engine whose tables hold only these trials and only
            integers, so that sums do not depend on the order of rows; "" if other engines cannot
            answer it.
        level: whether it reads the tables by timer or by call path.
        metrics: ids of the metrics whose values it reads.
        columns: number of columns.
        keys: number of leading columns by which rows are sorted.
        integers: number of leading columns that hold only integers, and NULL.
    """

    sql: str
    elsewhere: str
    level: Literal["timer", "callpath"]
    trials: Sequence[int]
    metrics: Sequence[int]
    columns: int
    keys: int
    integers: int
