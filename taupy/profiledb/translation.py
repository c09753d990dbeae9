"""A question translated for the database: the ids it refers to, and the SQL that answers it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from taupy.dataclass import dataclass, replace
from taupy.errors import UsageError
from taupy.model.dimension import dimension as unit_of
from taupy.model.dimension import spelled
from taupy.model.question import VALUES, Condition, Question, Source, Value
from taupy.model.table import Column
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import Id, dimension, ids_of, ids_where, listed
from taupy.profiledb.measures import MEASURES, column, source_of
from taupy.profiledb.statements import Statement, names_counts

if TYPE_CHECKING:
    from taupy.model.formula import Sum

_METRICS = """
    SELECT DISTINCT thread_metric.trial_id, metric.id, metric.name, metric.unit
      FROM thread_metric JOIN metric ON metric.id = thread_metric.metric_id
     WHERE thread_metric.trial_id IN ({trials})
     ORDER BY metric.name <> 'time', metric.name, metric.unit
"""

OF_PATH = ("timer", "parent", "depth")
"""Columns of a call path's row."""


def metrics_of(db: ProfileDB, trials: Sequence[int]) -> dict[int, dict[str, tuple[int, str]]]:
    """Id and unit of the trials' measured metrics, `time` first; of equal names only the first."""
    ids_of: dict[int, dict[str, tuple[int, str]]] = {trial: {} for trial in trials}
    for trial, id, name, unit in db.rows(_METRICS.replace("{trials}", listed(trials))):
        ids_of[trial].setdefault(name, (id, unit))
    return ids_of


@dataclass(frozen=True, slots=True)
class Translation:
    """A question with the ids it refers to.

    Attributes:
        metrics: name -> id and unit of each measured metric.
        threads, timers, callpaths, items: ids that meet the conditions; None for all.
        lone: the only thread, None if there are several.
    """

    question: Question
    source: Source
    trials: Sequence[int]
    sums: Sequence[Sum]
    metrics: Mapping[str, tuple[int, str]]
    threads: Sequence[int] | None
    timers: Sequence[int] | None
    callpaths: Sequence[int] | None
    items: Sequence[int] | None
    lone: int | None

    @classmethod
    def of(cls, db: ProfileDB, question: Question) -> Translation:
        """Look up the question's names.

        Raises:
            UsageError: a dimension does not exist, or a metric has different units.
        """
        where = question.where
        trials = ids_where(db, "trial", question.trials, where)
        chosen = list(question.trials) if trials is None else trials
        every = ids_of(db, "thread", chosen)
        threads = ids_where(db, "thread", chosen, where)
        if threads is not None and len(threads) == len(every):
            threads = None  # to select all, no list is needed
        allowed = every if threads is None else threads
        source = source_of(question.values, question.dimensions)
        texts = question.metrics if source == "call" else ()
        measured_in = metrics_of(db, question.trials) if texts else {}
        measured = {name for of_trial in measured_in.values() for name in of_trial}
        sums = sums_of(texts, measured) if texts else []
        return cls(
            question,
            source=source,
            trials=chosen,
            sums=sums,
            metrics=units_agree(measured_in, {name for term in sums for name in term.metrics}),
            threads=threads,
            timers=ids_where(db, "timer", chosen, where),
            callpaths=_callpaths(db, chosen, where),
            items=None if source == "call" else ids_where(db, source, chosen, where),
            lone=allowed[0] if len(allowed) == 1 else None,
        )

    def divided(self, db: ProfileDB, apart: Collection[int]) -> tuple[Translation, Translation]:
        """The question without these threads, and the question for these threads only."""
        threads = ids_of(db, "thread", self.trials) if self.threads is None else self.threads
        parts = [id for id in threads if id not in apart], [id for id in threads if id in apart]
        without, alone = (
            replace(self, threads=ids, lone=ids[0] if len(ids) == 1 else None) for ids in parts
        )
        return without, alone

    @property
    def leaves_any(self) -> bool:
        """Whether anything meets the conditions."""
        chosen = (self.trials, self.threads, self.timers, self.callpaths, self.items)
        return all(ids is None or len(ids) > 0 for ids in chosen)

    @property
    def needs(self) -> set[Id]:
        """The ids that the dimensions depend on."""
        return {dimension(name).of for name in self.question.by}

    @property
    def by_path(self) -> bool:
        """Whether each call path counts separately."""
        return not {"callpath", "parent", "depth"}.isdisjoint(self.question.by)

    @property
    def metric_ids(self) -> set[int]:
        names = {name for term in self.sums for name in term.metrics}
        return {self.metrics[name][0] for name in names & self.metrics.keys()}

    def between(self, name: str) -> tuple[float, float] | None:
        """The range that the conditions allow; None without conditions."""
        limits = [limit for limit in self.question.where if limit.dimension == name]
        least = [float(limit.labels[0] or 0) for limit in limits if limit.relation == "at least"]
        most = [float(limit.labels[0] or 0) for limit in limits if limit.relation == "at most"]
        return (max(least, default=-math.inf), min(most, default=math.inf)) if limits else None

    def columns(self, values: Sequence[Value]) -> list[Column]:
        """The names of a statement's numbers, in order."""
        columns = [column(value) for value in MEASURES if value in values]
        for term in self.sums:
            units = [self.metrics[name][1] for name in term.metrics if name in self.metrics]
            # Values with different units are added in base units.
            unit = "" if not units else units[0]
            if len({unit_of(text).scale for text in units}) > 1:
                unit = spelled(unit_of(unit))[0]
            columns += [Column(value, term.text, unit) for value in values if value not in MEASURES]
        return columns

    def statement(self) -> Statement:
        """The statement that sums by id."""
        needs = self.needs
        values = [
            name for name in dict.fromkeys((*MEASURES, *VALUES)) if name in self.question.values
        ]
        leaf = self._leaf
        keys: list[Id] = []
        # A trial without launches gives no row, rather than an empty sum.
        if self.source != "call" or (len(self.trials) > 1 and needs & {"trial", "thread"}):
            keys.append("trial")
        if "callpath" in needs:
            keys.append("callpath")
        if "thread" in needs and self.lone is None:
            keys.append("thread")
        if leaf in needs and leaf != "callpath":
            keys.append(leaf)
        wanted = {*self.question.by, *needs}
        return Statement(
            leaf,
            trials=self.trials,
            sums=self.sums,
            metrics=self.metrics,
            values=values,
            keys=keys,
            attributes=[name for name in OF_PATH if name in wanted] if leaf != "timer" else [],
            threads=self.threads,
            timers=self.timers,
            callpaths=self.callpaths,
            items=self.items,
            inclusive=self.between("inclusive"),
            depth=self.between("depth"),
            rows="launch" in keys
            or (leaf in keys and leaf != "event" and (self.lone is not None or "thread" in keys)),
            together=self.question.together,
            # Call paths have calls even where they have no value of a metric.
            whole=not self.question.together and names_counts(self.sums, self.metrics),
            largest=self.question.largest if self._rows_stay else None,
        )

    @property
    def _rows_stay(self) -> bool:
        """Whether each row of the statement is a row of the answer."""
        stays = {"thread", "callpath", *OF_PATH}
        return (
            len(self.trials) == 1
            and self.question.over == "sum"
            and not self.question.together
            and "callpath" in self.question.by
            and stays.issuperset(self.question.by)
        )

    @property
    def _leaf(self) -> Id:
        """The finest id by which the statement reads sums."""
        if self.source != "call":
            return self.source
        chosen = self.between("depth") or self.callpaths is not None
        return "callpath" if chosen or "callpath" in self.needs else "timer"

    def trees(self) -> Statement:
        """The statement for complete call trees, with all values of each call path."""
        keys: list[Id] = ["trial"] if len(self.trials) > 1 else []
        keys += ["callpath"] if self.lone is not None else ["callpath", "thread"]
        return replace(
            self.statement(),
            level="callpath",
            values=VALUES,
            keys=keys,
            attributes=OF_PATH,
            timers=None,
            callpaths=None,
            inclusive=None,
            depth=None,
            together=False,
            rows=True,
            whole=True,
            largest=None,
        )


def sums_of(texts: Sequence[str], measured: Collection[str]) -> list[Sum]:
    """The sums that a question's metrics stand for.

    Raises:
        UsageError: one of them is a formula over several sums.
    """
    # Imports the expression parser, which launches and events do not need.
    from taupy.model.formula import Sum

    return [Sum("", (text,)) if text in measured else Sum.of(text) for text in texts]


def _callpaths(
    db: ProfileDB, trials: Sequence[int], where: Sequence[Condition]
) -> list[int] | None:
    """The ids of call paths that meet the conditions; None for all."""
    named = [condition for condition in where if condition.dimension == "callpath"]
    others = [condition for condition in where if condition.dimension not in ("callpath", *OF_PATH)]
    chosen = [{int(id) for id in condition.labels if id is not None} for condition in named]
    if (ids := ids_where(db, "callpath", trials, others)) is not None:
        chosen.append(set(ids))
    return sorted(set.intersection(*chosen)) if chosen else None


def units_agree(
    measured_in: Mapping[int, Mapping[str, tuple[int, str]]], wanted: Collection[str]
) -> dict[str, tuple[int, str]]:
    """All metrics that the trials measured.

    Raises:
        UsageError: a requested metric has different units.
    """
    metrics: dict[str, tuple[int, str]] = {}
    for of_trial in measured_in.values():
        for name, (id, unit) in of_trial.items():
            before = metrics.setdefault(name, (id, unit))[1]
            if before != unit and name in wanted:
                raise UsageError(
                    f"'{name}' has the units {before} and {unit}: values in different units "
                    "cannot be compared"
                )
    return metrics
