"""Show what ran on the GPUs: kernels and copies with their times, and who launched them.

    taupy kernels                        the trial stored last, one row per kernel
    taupy kernels 12 --by configuration  one row per size of grid and block
    taupy kernels --by step              step by step, after taupy run --trace=gpu
    taupy kernels --kernel gemm          only those whose name matches
    taupy kernels --activity             how long each GPU was busy, and its gaps

`taupy kernel NAME` shows one kernel with its launch sites; `taupy pprof --kernels` sorts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from taupy.answers import answer
from taupy.answers.answer import Nothing, option
from taupy.answers.steps import notable
from taupy.errors import UsageError
from taupy.model.gpu_rows import KernelRow
from taupy.model.step_spans import step_name
from taupy.model.step_times import step_times
from taupy.pprof import kernels, selection
from taupy.pprof.view import View
from taupy.profiledb import gpu_query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import OF_LAUNCHES
from taupy.profiledb.steps import steps_of
from taupy.units import several

_LARGEST = 8


@dataclass(frozen=True)
class Options(answer.Asked):
    by: str = answer.by((gpu_query.KERNEL, *OF_LAUNCHES, gpu_query.STEP), "one row for each")
    kernel: str | None = option(
        None,
        "only kernels of this name: short or full, a part, a pattern with * and ?, or /REGEX/",
        metavar="NAME",
        is_text=True,
    )
    activity: bool = option(False, "how long each GPU was busy, and its gaps")
    limit: int | None = answer.limit()
    whole: bool = answer.whole("by step: every step")


PAGES = (Options(), Options(activity=True))


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each GPU; of their activity one for all.

    Raises:
        UsageError: no kernel has such a name; by step, of a trial that has no steps or no trace.
    """
    more = [] if options.by == gpu_query.KERNEL else [options.by]
    try:
        launches = gpu_query.launched(db, trial, more=more)
    except gpu_query.NothingRan as nothing:
        raise Nothing(str(nothing)) from nothing
    if options.activity:
        source = db.trial(trial).source
        return [kernels.busy(gpu_query.busy(db, trial, launches), source)]
    chosen = launches
    if options.kernel is not None:
        chosen = of_name(launches, trial, options.kernel)
    rows = gpu_query.kernels(chosen, options.by)
    notes = list(launches.notes)
    if options.by == gpu_query.STEP and not options.whole:
        rows, hidden = _for_people(db, trial, rows)
        notes += [f"{several(hidden, 'step')} more: --all shows them"] if hidden else []
    tables = kernels.table(rows, by=options.by, sort=None, limit=options.limit)
    return [*tables[:-1], replace(tables[-1], notes=[*tables[-1].notes, *notes])]


def of_name(launches: gpu_query.Launched, trial: int, name: str) -> gpu_query.Launched:
    """The launches of kernels of this name.

    Raises:
        UsageError: there is none; the message names the largest.
    """
    chosen = launches.of_kernels(selection.name_test(name))
    if not chosen.table:
        largest = [row.short_name for row in gpu_query.kernels(launches)[:_LARGEST]]
        raise UsageError(
            f"no kernel of trial {trial} matches {name!r}; the largest are "
            + ", ".join(dict.fromkeys(largest))
        )
    return chosen


def _for_people(
    db: ProfileDB, trial: int, rows: Sequence[KernelRow]
) -> tuple[list[KernelRow], int]:
    """What ran in the first and last steps, in outliers, and in no step; and how many are left."""
    hidden: set[str] = set()
    shown: set[str] = set()
    for _, steps in steps_of(db, trial):
        names = [step_name(steps.kind, number, steps.count[row])
                 for row, number in enumerate(steps.number)]  # fmt: skip
        hidden.update(names)
        shown.update(names[row] for row in notable(steps, step_times(steps)))
    hidden -= shown
    left = {row.timer for row in rows} & hidden
    return [row for row in rows if row.timer not in left], len(left)
