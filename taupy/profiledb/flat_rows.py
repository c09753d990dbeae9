"""A thread's flat profile as columns, ready for the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from taupy.dataclass import dataclass
from taupy.model.flat import FlatSums


@dataclass(frozen=True, slots=True)
class FlatRows:
    """One row per timer that ran on the thread.

    Attributes:
        timers: ids, in ascending order.
        inclusive, exclusive: by metric; None where no call path of the timer has a value.
        largest: the largest inclusive value of all timers, by metric.
    """

    timers: Sequence[int]
    calls: Sequence[int]
    subroutines: Sequence[int]
    inclusive: Mapping[str, Sequence[int | None]]
    exclusive: Mapping[str, Sequence[int | None]]
    largest: dict[str, int]

    @classmethod
    def of(cls, sums: dict[int, FlatSums], metrics: Iterable[str], on_stream: bool) -> FlatRows:
        """The rows of sums by timer id.

        Args:
            on_stream: whether the thread is a GPU stream; see `FlatSums.has_run`.
        """
        timers = sorted(id for id, row in sums.items() if row.has_run(on_stream))
        rows = [sums[id] for id in timers]
        names = list(metrics)
        measured = {
            name: [row.inclusive[name] for row in sums.values() if name in row.inclusive]
            for name in names
        }
        return cls(
            timers,
            calls=[row.calls for row in rows],
            subroutines=[row.subroutines for row in rows],
            inclusive={name: [row.inclusive.get(name) for row in rows] for name in names},
            exclusive={name: [row.exclusive.get(name) for row in rows] for name in names},
            largest={name: max(values, default=0) for name, values in measured.items()},
        )

    def counted(self) -> Iterator[tuple[int, int, int]]:
        """Timer, calls and subroutines."""
        return zip(self.timers, self.calls, self.subroutines, strict=True)

    def measured(self, metric: str) -> Iterator[tuple[int, int | None, int | None]]:
        """Timer, inclusive and exclusive, for the timers that have the metric."""
        cells = zip(self.timers, self.inclusive[metric], self.exclusive[metric], strict=True)
        return (cell for cell in cells if cell[1] is not None)
