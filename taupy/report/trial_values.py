"""A metric's values in the trials of the database, measured or derived, summed over threads.

What comparisons and pivots are made of: by timer, by call path, and of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from taupy.errors import UsageError
from taupy.profiledb import compare_query, metrics, query
from taupy.profiledb.compare_query import Over, Sums, Where
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.meaning import Resolved
from taupy.profiledb.text import shown


class TrialValues:
    """One metric in some trials; each trial is read once.

    Attributes:
        metric: with its unit, which is the same in all trials.
        additive: values of parts add up to that of the whole; of a ratio they do not.
    """

    def __init__(
        self, db: ProfileDB, trial_ids: Iterable[int], metric: str, over: Over = "total"
    ) -> None:
        """Find the metric in every trial.

        Raises:
            MissingMetric: a trial does not have it.
            UsageError: it has another unit in another trial.
        """
        compare_query.with_room(db)
        self._db = db
        self._name = metric
        self._over = over
        self._metric_ids: dict[int, int] = {}
        self._derived: dict[int, dict[Where, dict[int, Sums]]] = {}
        self._sums: dict[tuple[int, Where | None], dict[int, Sums]] = {}
        meant = [self._find_metric(trial) for trial in dict.fromkeys(trial_ids)]
        units = {one.unit for one in meant}
        if len(units) > 1:
            raise UsageError(
                f"'{shown(metric)}' is in {' and in '.join(sorted(units))}: values of "
                "different units cannot be compared"
            )
        self.metric = meant[0].metric
        self.additive = all(one.additive for one in meant)

    def _find_metric(self, trial_id: int) -> Resolved:
        found = compare_query.metric_of(self._db, trial_id, self._name)
        if found is None:
            return metrics.resolve(self._db, trial_id, self._name)
        self._metric_ids[trial_id], metric = found
        return Resolved(metric.name, metric.unit, True, "measured")

    def is_measured(self, trial_id: int) -> bool:
        """Measured in this trial, not derived."""
        return trial_id in self._metric_ids

    def threads(self, trial_id: int, where: Where | None = None) -> list[int]:
        """Ids of the threads that have values."""
        metric = self._metric_ids.get(trial_id)
        if metric is None and where is not None and not self._of_derived(trial_id)[where]:
            return []
        return compare_query.thread_ids(self._db, trial_id, metric, where)

    def timers(self, trial_id: int, where: Where | None = None) -> dict[int, Sums]:
        """Values by timer id."""
        if (trial_id, where) not in self._sums:
            self._sums[trial_id, where] = self._timers(trial_id, where)
        return self._sums[trial_id, where]

    def _timers(self, trial_id: int, where: Where | None) -> dict[int, Sums]:
        metric = self._metric_ids.get(trial_id)
        if metric is not None:
            threads = self.threads(trial_id, where)
            return compare_query.timer_sums(self._db, trial_id, metric, threads, self._over)
        found = self._of_derived(trial_id)
        if where is not None:
            return found[where]
        both = dict(found["host"])
        for id, sums in found["gpu"].items():
            both[id] = added(both[id], sums, self._over) if id in both else sums
        return both

    def _of_derived(self, trial_id: int) -> dict[Where, dict[int, Sums]]:
        """Values of a derived metric, which come thread by thread and add up by `+`."""
        if trial_id in self._derived:
            return self._derived[trial_id]
        facts = compare_query.timer_facts(self._db, [trial_id])
        ids = {(one.timer, one.groups): id for id, one in facts.items()}
        kinds = {place[:3]: place.kind for place in query.threads(self._db, trial_id)}
        found: dict[Where, dict[int, Sums]] = {"host": {}, "gpu": {}}
        for row in metrics.flat_values(self._db, trial_id, self._name):
            id = ids[row.timer, row.groups]
            here = found["gpu" if kinds[row[:3]] == "stream" else "host"]
            sums = Sums(row.calls, row.subroutines, row.inclusive, row.exclusive)
            here[id] = added(here[id], sums, self._over) if id in here else sums
        if self._over == "mean" and self.additive:
            for where, here in found.items():
                count = sum(1 for kind in kinds.values() if (kind == "stream") == (where == "gpu"))
                found[where] = {
                    id: sums._replace(
                        inclusive=sums.inclusive / count, exclusive=sums.exclusive / count
                    )
                    for id, sums in here.items()
                }
        self._derived[trial_id] = found
        return found

    def callpaths(self, trial_id: int) -> dict[int, Sums]:
        """Values by call-path id, over all threads."""
        metric = self._metric_ids.get(trial_id)
        if metric is None:
            found: dict[int, Sums] = {}
            for row in metrics.tree_values(self._db, trial_id, self._name):
                sums = Sums(row.calls, row.subroutines, row.inclusive, row.exclusive)
                before = found.get(row.callpath_id)
                found[row.callpath_id] = sums if before is None else added(before, sums, self._over)
            return found
        calls = compare_query.callpath_calls(self._db, trial_id)
        values = compare_query.callpath_values(self._db, trial_id, metric, over=self._over)
        return {
            id: Sums(*calls.get(id, (0, 0)), inclusive, exclusive)
            for id, (inclusive, exclusive) in values.items()
        }

    def callpath_column(
        self, trial_id: int, column: Literal["inclusive", "exclusive"]
    ) -> dict[int, float] | None:
        """One value by call-path id, the quick way; None where there is none."""
        metric = self._metric_ids.get(trial_id)
        if metric is None or self._over != "total":
            return None
        return compare_query.callpath_column(self._db, trial_id, metric, column)

    def total(self, trial_id: int, where: Where | None = None) -> float | None:
        """All exclusive values together; None where there is none."""
        metric = self._metric_ids.get(trial_id)
        if metric is not None:
            threads = self.threads(trial_id, where)
            return compare_query.total(self._db, trial_id, metric, threads, self._over)
        values = [
            sums.exclusive
            for sums in self.timers(trial_id, where).values()
            if sums.exclusive == sums.exclusive
        ]
        if not values:
            return None
        return max(values) if self._over == "max" and self.additive else sum(values)

    def inclusive_by(self, trial_id: int, names_of: dict[int, tuple[str, ...]]) -> dict[str, float]:
        """Inclusive values by group or file, each moment counted once; see `compare_query`.

        Raises:
            UsageError: the metric is derived.
        """
        metric = self._metric_ids.get(trial_id)
        if metric is None:
            raise UsageError(
                f"inclusive values by group, file or module are of measured metrics; "
                f"'{shown(self._name)}' is derived"
            )
        threads = self.threads(trial_id)
        return compare_query.inclusive_by(self._db, trial_id, metric, threads, names_of)


def added(one: Sums, other: Sums, over: Over = "total") -> Sums:
    """Two rows that are one. Derived values add up their parts."""
    if over == "max":
        return Sums(
            one.calls + other.calls,
            one.subroutines + other.subroutines,
            max(one.inclusive, other.inclusive),
            max(one.exclusive, other.exclusive),
        )
    return Sums(
        one.calls + other.calls,
        one.subroutines + other.subroutines,
        one.inclusive + other.inclusive,
        one.exclusive + other.exclusive,
    )
