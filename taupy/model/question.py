"""A question about values: which sums, grouped by what, over which part of the data.

    Question((7,), ("time",), by=("thread", "timer"), where=(Condition("kind", ("host",)),))

A question is data: it can be printed, compared, and stored as text. It knows neither tables nor
screens; `profiledb/values.py` answers it with a `Table`. The dimensions are listed in
`profiledb/dimensions.py` and docs/architecture.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from taupy.dataclass import NamedTuple

Source = Literal["call", "launch", "event"]
"""The rows a question reads: calls with their metrics, launches on GPUs, user events."""

_OfCalls = Literal["calls", "subroutines", "inclusive", "exclusive"]
_OfLaunches = Literal[
    "launch.count",
    "launch.untimed",
    "launch.time",
    "launch.shortest",
    "launch.longest",
    "launch.squares",
    "launch.bytes",
    "launch.occupancy",
    "launch.occupied",
]
_OfEvents = Literal["event.count", "event.total", "event.least", "event.most"]
Value = _OfCalls | _OfLaunches | _OfEvents

VALUES: tuple[_OfCalls, ...] = get_args(_OfCalls)
COUNTS: tuple[_OfCalls, ...] = ("calls", "subroutines")
"""Values independent of any metric."""

LAUNCHES: tuple[_OfLaunches, ...] = get_args(_OfLaunches)
"""Values of GPU launches. Times cover the timed launches, `squares` is the sum of their squares
[ns^2]; `occupancy` is weighted by time: its sum divided by that of `occupied` is the mean."""

EVENTS: tuple[_OfEvents, ...] = get_args(_OfEvents)
"""Values of user events: number of samples, their sum, minimum and maximum."""

Relation = Literal["in", "at least", "at most"]
Label = str | int | float | None


class Condition(NamedTuple):
    """A condition on a dimension.

    Attributes:
        labels: for "in", any of these; otherwise one number.
    """

    dimension: str
    labels: tuple[Label, ...]
    relation: Relation = "in"

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.labels))
        return f"{self.dimension} {self.relation} {listed}"


@dataclass(frozen=True, slots=True)
class Question:
    """Which sums over which part of the data.

    Attributes:
        trials: their ids.
        metrics: names of measured metrics; none for launches and user events. `first(a, b)` is
            the first of them measured on a call path, `sum(a, b)` the sum of those measured
            on it.
        by: dimensions; values are summed over all others.
        where: conditions, all of which must hold.
        over: how the threads of a group are combined: their sum, or the largest.
        values: which values of each metric.
        together: count only call paths on which all metrics were measured, as ratios require.
            On host threads, counters may be read at some routines only: a call path that lacks
            some of the metrics counts for its nearest caller that has them all.
        largest: only this many rows, those with the largest `exclusive` of the first metric;
            None for all. Tables of such questions do not add up.
        ids: dimensions of which the ids are the labels, because few of the labels are needed.
    """

    trials: tuple[int, ...]
    metrics: tuple[str, ...] = ("time",)
    by: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    over: Literal["sum", "max"] = "sum"
    values: tuple[Value, ...] = ("exclusive",)
    together: bool = False
    largest: int | None = None
    ids: tuple[str, ...] = ()

    @property
    def dimensions(self) -> list[str]:
        """The dimensions it groups or filters by."""
        chosen = (condition for condition in self.where if condition.relation == "in")
        return [*self.by, *(condition.dimension for condition in chosen)]

    def __str__(self) -> str:
        of = f" of {', '.join(self.metrics)}" if self.metrics else ""
        parts = [f"{', '.join(self.values)}{of}"]
        if self.by:
            parts.append(f"by {', '.join(self.by)}")
        if self.where:
            parts.append("where " + " and ".join(map(str, self.where)))
        if self.largest is not None:
            parts.append(f"the {self.largest} largest")
        if self.over != "sum":
            parts.append(f"over threads: {self.over}")
        parts.append(f"in trials {', '.join(map(str, self.trials))}")
        return " ".join(parts)

    def text(self) -> str:
        """The question as JSON, for `of_text`."""
        import json

        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Question:
        """The inverse of `text`."""
        import json

        fields = json.loads(text)
        where = tuple(Condition(name, tuple(labels), how) for name, labels, how in fields["where"])
        for name in ("trials", "metrics", "by", "values", "ids"):
            fields[name] = tuple(fields[name])
        return cls(**{**fields, "where": where})
