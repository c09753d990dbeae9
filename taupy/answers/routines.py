"""The flat profile: every routine on every thread, the largest exclusive value first.

`taupy pprof` shows it thread by thread, and adds up threads; its CSV has these columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from taupy.answers.answer import Nothing
from taupy.errors import MissingMetric, UsageError
from taupy.model import options
from taupy.model.metric import TIME
from taupy.model.options import option
from taupy.pprof import figures, flat
from taupy.pprof.view import Column, View
from taupy.profiledb import metrics, query
from taupy.profiledb.database import ProfileDB

_THREAD = Column("of_thread", heading="Thread", audience="people")


@dataclass(frozen=True)
class Options(options.Asked):
    metric: str | None = option(
        None, "of this metric (default: time, or the only one)", metavar="NAME", is_text=True
    )

    @property
    def alone(self) -> bool:
        return True


PAGES = (Options(),)


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table.

    Raises:
        MissingMetric, UsageError: the trial does not have the metric.
    """
    try:
        metric = options.metric or usual_metric(db, trial)
        profile = metrics.flat_profile(db, trial, metric)
    except (MissingMetric, UsageError) as problem:
        if options.metric is not None:
            raise
        raise Nothing(str(problem)) from problem
    choice = flat.FlatOptions(sort="exclusive", summaries=())
    of_threads = flat.views(profile, query.threads(db, trial), choice)
    if not of_threads:
        raise Nothing(f"trial {trial} has no values of routines")
    if not profile.additive:
        of_threads = [figures.without_shares(view) for view in of_threads]
    columns = [_THREAD, *map(_readable, of_threads[0].columns)]
    names = [column.name for column in columns]
    exclusive = names.index(figures.value_name("exclusive", profile.metric))
    rows: list[tuple[Any, ...]] = [
        (_label(*row[1:5]), *row) for view in of_threads for row in view.rows
    ]
    rows.sort(key=lambda row: figures.sortable(row[exclusive]), reverse=True)
    return [View("", columns, rows)]


def usual_metric(db: ProfileDB, trial: int) -> str:
    """`time`, or the trial's only metric, such as samples.

    Raises:
        UsageError: the trial has several metrics, none of them `time`.
    """
    names = [metric.name for metric in query.metrics(db, trial)]
    if len(names) > 1 and TIME.name not in names:
        raise UsageError(
            f"trial {trial} has no metric 'time'; choose one with --metric NAME (it has: "
            f"{', '.join(names)})"
        )
    return names[0] if len(names) == 1 else TIME.name


def _label(node: object, context: object, thread: object, name: object) -> str:
    return f"{node}.{context}.{thread} {name}".strip()


_HEADINGS = {
    "Exclusive": "Own", "Inclusive": "With callees", "#Call": "Calls", "#Subrs": "Calls made",
    "Name": "Routine",
}  # fmt: skip


def _readable(column: Column) -> Column:
    """TAU's column with the words and units of time that people read elsewhere on a page."""
    heading = "Per call" if column.name.endswith("_per_call") else column.heading.split("\n")[0]
    heading = _HEADINGS.get(heading, heading)
    kind = "time_ns" if column.kind in ("tau_time", "tau_per_call") else column.kind
    return replace(column, kind=kind, heading=heading)
