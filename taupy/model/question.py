"""A question about values: which sums are wanted, by what, and of which part of the data.

    Question((7,), ("time",), by=("thread", "timer"), where=(Condition("kind", ("host",)),))

A question is data: it can be printed, compared, and kept as text. It knows neither tables nor
screens; `profiledb/values.py` answers it with a `Table`. Which dimensions there are stands in
`profiledb/dimensions.py` and in docs/architecture.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple, get_args

Value = Literal["calls", "subroutines", "inclusive", "exclusive"]
VALUES: tuple[Value, ...] = get_args(Value)
COUNTS: tuple[Value, ...] = ("calls", "subroutines")
"""Values that belong to no metric."""

Relation = Literal["in", "at least", "at most"]
Label = str | int | float | None


class Condition(NamedTuple):
    """What a dimension must be.

    Attributes:
        labels: of "in" any of these; else one number.
    """

    dimension: str
    labels: tuple[Label, ...]
    relation: Relation = "in"

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.labels))
        return f"{self.dimension} {self.relation} {listed}"


@dataclass(frozen=True, slots=True)
class Question:
    """Which sums of which part of the data.

    Attributes:
        trials: their ids.
        metrics: measured ones by name. `first(a, b)` is the first of them that a call path
            was measured in, `sum(a, b)` the sum of those that it was measured in.
        by: dimensions; values are summed over all others.
        where: conditions, all of which must hold.
        over: how the threads of a group become one: their sum, or the largest of them.
        values: which values of each metric.
        together: only what was measured in all of the metrics counts, as a ratio needs it.
            On a host's thread counters may be read at some routines only: what was measured
            in some of the metrics only counts at the nearest caller that has all.
    """

    trials: tuple[int, ...]
    metrics: tuple[str, ...] = ("time",)
    by: tuple[str, ...] = ()
    where: tuple[Condition, ...] = ()
    over: Literal["sum", "max"] = "sum"
    values: tuple[Value, ...] = ("exclusive",)
    together: bool = False

    def __str__(self) -> str:
        parts = [f"{', '.join(self.values)} of {', '.join(self.metrics)}"]
        if self.by:
            parts.append(f"by {', '.join(self.by)}")
        if self.where:
            parts.append("where " + " and ".join(map(str, self.where)))
        if self.over != "sum":
            parts.append(f"over threads: {self.over}")
        parts.append(f"in trials {', '.join(map(str, self.trials))}")
        return " ".join(parts)

    def text(self) -> str:
        """The question as JSON, for `of_text`."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Question:
        """The question that `text` gave."""
        fields = json.loads(text)
        where = tuple(Condition(name, tuple(labels), how) for name, labels, how in fields["where"])
        for name in ("trials", "metrics", "by", "values"):
            fields[name] = tuple(fields[name])
        return cls(**{**fields, "where": where})
