"""Show what ran on the GPUs: kernels and copies with their times, and who launched them.

    taupy kernels                        the trial stored last, one row per kernel
    taupy kernels 12 --by configuration  one row per size of grid and block
    taupy kernels --by step              step by step, after taupy run --trace=gpu
    taupy kernels --kernel gemm          only those whose name matches
    taupy kernels --activity             how long each GPU was busy, and its gaps
    taupy kernels --critical-path        what the length of the last step consists of

`taupy kernel NAME` shows one kernel with its launch sites; `taupy pprof --kernels` sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from taupy.analysis.gpu_conclusion import sentences
from taupy.answers.answer import Nothing
from taupy.answers.steps import notable
from taupy.errors import UsageError
from taupy.model import options
from taupy.model.gpu import NO_OWNER
from taupy.model.gpu_path import EARLIER, KINDS, OTHERS, Path
from taupy.model.gpu_rows import BusyRow, KernelRow
from taupy.model.gpu_time import CAUSES, GpuTime, gpu_name, slug
from taupy.model.kernel_names import is_kernel
from taupy.model.options import option
from taupy.model.step_spans import step_name
from taupy.model.step_times import step_times
from taupy.network.operators import NOT_OPERATORS
from taupy.pprof import selection
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import gpu_query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import OF_LAUNCHES, heading
from taupy.profiledb.steps import steps_of
from taupy.units import duration, percent, several

TIMES = (
    Column("time_ns", "time_ns", "GPU time", width=9),
    Column("launches", "int", "Launches"),
    Column("untimed", "int", audience="machines"),
    Column("mean_ns", "time_ns", "Mean", width=9),
    Column("minimum_ns", "time_ns", "Min", width=9),
    Column("maximum_ns", "time_ns", "Max", width=9),
    Column("stddev_ns", "time_ns", "Std. Dev.", width=9),
)
_LABEL = Column("name", heading="Kernel", audience="people")
_LABEL_OF_MACHINES = Column("kernel", audience="machines")
_REPEATED = {"routine": "routine", "node": "kernel"}
"""By such a dimension, the column that says the same as that with its name."""
_COLUMNS = (
    Column("node", "int", audience="machines"),
    Column("context", "int", audience="machines"),
    Column("percent", "percent", "%GPU", width=5),
    *TIMES,
    Column("occupancy_percent", "percent", "Occ.\n%"),
    Column("limiter", audience="machines"),
    Column("bytes", "bytes", "Bytes"),
    Column("configurations", "int", audience="machines"),
    Column("short_name", audience="machines"),
    _LABEL,
    Column("launched", heading="Launched from", audience="people"),
    _LABEL_OF_MACHINES,
    Column("groups", audience="machines"),
    Column("routine", audience="machines"),
    Column("routines", "int", audience="machines"),
)
_PATH_COLUMNS = (
    Column("node", "int", audience="machines"),
    Column("context", "int", audience="machines"),
    Column("step", audience="machines"),
    Column("kind", heading="Kind"),
    Column("path_ns", "time_ns", "On path", width=9),
    Column("path_percent", "percent", "%Path", width=5),
    Column("bound_ns", "time_ns", "Gains\nat most", width=9),
    Column("place", heading="Place"),
)
_PARTS = ("span", "compute", "communication_only", "copies_only", "idle", "unproven_idle")
_BUSY_COLUMNS = (
    Column("node", "int", "Node"),
    Column("context", "int", "Context"),
    Column("device", heading="GPU"),
    Column("kernel_ns", "time_ns", "Kernels"),
    Column("copy_ns", "time_ns", "Copies"),
    Column("busy_ns", "time_ns", "Busy"),
    Column("busy_percent", "percent", "Busy\n%"),
    Column("overlap_ns", "time_ns", "Copies\nbeside kernels"),
    Column("gaps", "int", "Gaps"),
    Column("longest_gap_ns", "time_ns", "Longest\ngap"),
    Column("without_owner_percent", "percent", "Without\nowner %"),
    *(Column(f"{name}_ns", "time_ns", audience="machines") for name in _PARTS),
    *(Column(f"idle_{slug(cause)}_ns", "time_ns", audience="machines") for cause in CAUSES),
)
_LARGEST = 8
OPERATORS = ("operator", "outer_operator")

CALLS_ONLY = (
    "what the host did between its calls of CUDA is not known by time: `host` names the nearest "
    "routine above both (--trace=host,gpu records layers and phases, too)"
)


@dataclass(frozen=True)
class Options(options.Asked):
    by: str = options.by(
        tuple(dict.fromkeys((gpu_query.KERNEL, *OF_LAUNCHES, gpu_query.STEP))), "one row for each"
    )
    kernel: str | None = option(
        None,
        "only kernels of this name: short or full, a part, a pattern with * and ?, or /REGEX/",
        metavar="NAME",
        is_text=True,
    )
    activity: bool = option(False, "how long each GPU was busy, and its gaps")
    critical_path: bool = option(
        False, "of the last step: what its length consists of, and what less of it gains at most"
    )
    step: int | None = option(None, "critical path of this step instead", metavar="N")
    limit: int | None = options.limit()
    whole: bool = options.whole("by step: every step")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_ignored("activity", "by", "kernel")
        self.check_ignored("critical_path", "by", "kernel", "activity")
        if self.step is not None and not self.critical_path:
            raise UsageError("--step needs --critical-path")


PAGES = (Options(), Options(activity=True))


def views(db: ProfileDB, trial: int, options: Options) -> list[View]:
    """One table for each GPU; of their activity one for all.

    Raises:
        UsageError: no kernel has such a name; by step, of a trial that has no steps or no trace.
    """
    names = () if options.kernel is None else (options.kernel,)
    return tables(db, trial, launched(db, trial, options.by), options, names)


def tables(
    db: ProfileDB,
    trial: int,
    launches: gpu_query.Launched,
    options: Options,
    names: Sequence[str] = (),
    sort: str = "",
    reverse: bool = False,
) -> list[View]:
    """The same of these launches, as `taupy pprof --kernels` selects and sorts them.

    Args:
        names: of kernels, in place of the options' one; () for all.
        sort: a key of `_ORDERS`; with any other, the largest time first, steps in order.
    """
    if options.activity:
        busy = _busy(gpu_query.busy(db, trial, launches), db.trial(trial).source)
        return [busy.first(options.limit)]
    if options.critical_path:
        return [view.first(options.limit) for view in _paths(db, trial, options.step)]
    chosen = of_names(launches, trial, names) if names else launches
    rows = gpu_query.kernels(chosen, options.by)
    notes = list(launches.notes)
    if options.by == gpu_query.STEP and not options.whole:
        rows, hidden = _for_people(db, trial, rows)
        notes += [f"{several(hidden, 'step')} more: --all shows them"] if hidden else []
    if sort in _ORDERS:
        rows.sort(key=_ORDERS[sort])
    if options.by in OPERATORS and {row.timer for row in rows} <= {*NOT_OPERATORS}:
        notes.append("no operators were recorded: `taupy run --operators` does (docs/gpu.md)")
    views = _views(rows[::-1] if reverse else rows, options)
    return [*views[:-1], replace(views[-1], notes=[*views[-1].notes, *notes])]


def _mean_first(row: KernelRow) -> float:
    return -row.mean_ns if row.mean_ns == row.mean_ns else 0.0


_ORDERS: Mapping[str, Callable[[KernelRow], float | str]] = {
    "calls": lambda row: -row.calls,
    "inclusive-per-call": _mean_first,
    "exclusive-per-call": _mean_first,
    "name": lambda row: row.timer,
}


def launched(
    db: ProfileDB,
    trial: int,
    by: str = gpu_query.KERNEL,
    threads: Container[str] | None = None,
) -> gpu_query.Launched:
    """What ran on the GPUs.

    Args:
        threads: streams, such as "0.1.0"; None for all.

    Raises:
        Nothing: nothing did.
    """
    try:
        launches = gpu_query.launched(db, trial, threads, [] if by == gpu_query.KERNEL else [by])
    except gpu_query.NothingRan as nothing:
        raise Nothing(str(nothing)) from nothing
    if not len(launches.table):
        raise Nothing(f"nothing of trial {trial} ran on a GPU for these threads")
    return launches


def of_names(launches: gpu_query.Launched, trial: int, names: Sequence[str]) -> gpu_query.Launched:
    """The launches of kernels of any of these names.

    Raises:
        UsageError: there is none; the message names the largest.
    """
    tests = [selection.name_test(name) for name in names]
    chosen = launches.of_kernels(lambda *name: any(test(*name) for test in tests))
    if not chosen.table:
        largest = [row.short_name for row in gpu_query.kernels(launches)[:_LARGEST]]
        raise UsageError(
            f"no kernel of trial {trial} matches {' or '.join(map(repr, names))}; the largest are "
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


def _views(rows: Sequence[KernelRow], options: Options) -> list[View]:
    """One table per GPU: its kernels and copies with their share of its time; those beyond a limit
    are summed as `-others-`."""
    views = []
    for place in sorted({(row.node, row.context) for row in rows}):
        chosen = [row for row in rows if (row.node, row.context) == place]
        shown, rest = chosen, []
        if options.limit is not None:
            shown, rest = chosen[: options.limit], chosen[options.limit :]
        cells = [_cells(row) for row in shown]
        if rest:
            cells.append(_others(place, rest))
        what = "KERNELS" if options.by == "kernel" else f"GPU WORK BY {heading(options.by).upper()}"
        title = f"{what} OF NODE {place[0]}, CONTEXT {place[1]}"
        names = [row.timer for row in shown if is_kernel(row.groups)]
        view = View(title, _COLUMNS, cells, _notes(chosen), kernels=names)
        views.append(_labelled(view, options.by))
    return views


def _labelled(view: View, by: str) -> View:
    """The table by another dimension, which names the column with the labels."""
    view = view.only(lambda column, _: column.name != _REPEATED.get(by))
    people, machines = replace(_LABEL, heading=heading(by)), replace(_LABEL_OF_MACHINES, name=by)
    named = {_LABEL: people, _LABEL_OF_MACHINES: machines}
    return replace(view, columns=[named.get(column, column) for column in view.columns])


def _cells(row: KernelRow) -> list[Cell]:
    more = f" (+{row.routines - 1} more)" if row.routines > 1 else ""
    return [
        row.node,
        row.context,
        row.percent,
        row.time_ns,
        row.calls,
        row.untimed,
        *spread_cells(row.mean_ns, row.minimum_ns, row.maximum_ns, row.stddev_ns),
        None if row.occupancy is None else 100 * row.occupancy,
        row.limiter,
        row.bytes,
        row.configurations,
        row.short_name,
        row.timer,
        row.routine + more,
        row.timer,
        row.groups,
        row.routine,
        row.routines,
    ]


def spread_cells(mean: float, minimum: Cell, maximum: Cell, stddev: float) -> list[Cell]:
    """None if no launch was timed: unknown is not 0."""
    return [mean, minimum, maximum, stddev] if mean == mean else [None] * 4


def _others(place: tuple[int, int], rest: Sequence[KernelRow]) -> list[Cell]:
    cells: list[Cell] = [None] * len(_COLUMNS)
    at = {column.name: place for place, column in enumerate(_COLUMNS)}
    cells[at["node"]], cells[at["context"]] = place
    cells[at["percent"]] = sum(row.percent for row in rest)
    cells[at["time_ns"]] = sum(row.time_ns for row in rest)
    cells[at["launches"]] = sum(row.calls for row in rest)
    cells[at["untimed"]] = sum(row.untimed for row in rest)
    cells[at["short_name"]] = cells[at["name"]] = cells[at["kernel"]] = "-others-"
    return cells


def _notes(rows: Sequence[KernelRow]) -> list[str]:
    notes = []
    if untimed := sum(row.untimed for row in rows):
        notes.append(
            f"{several(untimed, 'launch')} without times from the GPU: times and means leave that "
            "out, %GPU takes the mean of others of the call path"
        )
    without = sum(row.percent for row in rows if row.routine == NO_OWNER)
    if without:
        notes.append(f"{without:.1f} % of the GPU's time has no known launching routine")
    return notes


def _busy(rows: Sequence[BusyRow], source: str = "") -> View:
    """Utilization of each GPU: kernels, copies, gaps and overlap.

    Args:
        source: file that the trial was imported from; empty if taupy measured it.
    """
    notes = []
    if any(row.busy_ns is None for row in rows):
        timed = any(row.kernel_ns or row.copy_ns for row in rows)
        notes.append(f"busy time, gaps and overlap need {_way_to_stamps(source, timed)}")
    elif any(row.gaps is None for row in rows):
        notes.append(f"gaps and overlap need {_way_to_stamps(source, True)}")
    gpus = [(row.node, row.context) for row in rows]
    for gpu, row in zip(gpus, rows, strict=True):
        if row.time is not None:
            notes += sentences(gpu_name(gpu, gpus, row.device), row.time)
    if any(row.time is not None and row.time.host == "calls" for row in rows):
        notes.append(CALLS_ONLY)
    cells = [_busy_cells(row) for row in rows]
    return View("GPU ACTIVITY", _BUSY_COLUMNS, cells, notes)


def _paths(db: ProfileDB, trial: int, step: int | None) -> list[View]:
    """The critical path of each GPU whose time is known.

    Args:
        step: of this step; None for the last one.

    Raises:
        Nothing: there is none.
        UsageError: there is none of this step.
    """
    views = []
    steps = []
    times = gpu_query.gpu_times(db, trial)
    for (node, context), time in times.items():
        steps += [path.step for path in reversed(time.paths)]
        if step is None:
            paths = time.paths[:1]
        else:
            paths = tuple(path for path in time.paths if path.step == f"step {step}")
        if not paths:
            continue
        (path,) = paths
        cells: list[list[Cell]] = [
            [node, context, path.step, part.kind, part.ns,
             100 * part.ns / path.replayed_ns if path.replayed_ns else None,
             None if part.place in (OTHERS, EARLIER, "") else part.bound_ns, part.place]
            for part in path.parts
        ]  # fmt: skip
        what = (path.step or "THE WHOLE TIME").upper()
        title = f"CRITICAL PATH OF {what}, NODE {node}, CONTEXT {context}"
        notes = [CALLS_ONLY] if time.host == "calls" else []
        views.append(View(title, _PATH_COLUMNS, cells, [*_path_notes(path), *notes]))
    if steps and not views:
        others = ", ".join(dict.fromkeys(name or "the whole time" for name in steps))
        raise UsageError(
            f"trial {trial} has no critical path of step {step}: it has that of {others} "
            "(docs/gpu.md says which are kept)"
        )
    if times and not views:
        raise Nothing(
            f"trial {trial} has no critical path: the calls that launched its GPU work are not in "
            "the trace"
        )
    if not views:
        source = db.trial(trial).source
        raise Nothing(
            f"trial {trial} has no critical path: it needs {_way_to_stamps(source, True)}"
        )
    return views


def _path_notes(path: Path) -> list[str]:
    shares = sorted(((path.of(kind), kind) for kind in KINDS), reverse=True)
    text = ", ".join(
        f"{kind} {percent(100 * ns / path.replayed_ns)} %" for ns, kind in shares if ns
    )
    difference = path.replayed_ns - path.measured_ns
    whether = f"{difference:+} ns" if difference else "exactly"
    return [
        f"{text}; the replay takes {duration(path.replayed_ns)}, as measured: {whether}",
        "gains at most: without the own time of that place, of all kinds together, it would be "
        "shorter by no more; without anything that is not on the path, by no more than "
        f"{duration(path.unexplained_ns)}, which nothing explains",
    ]


def _way_to_stamps(source: str, timed: bool) -> str:
    """How to get start and end times of single launches into the trial."""
    imported, _, file = source.partition(": ")
    format = imported.removeprefix("import ")
    if format == imported:
        return "start and end times of single launches: record them with `taupy run --trace`"
    if timed and format in ("nsys", "chrome", "perfetto"):
        import shlex

        return (
            "start and end times of single launches: import them with "
            f"`taupy import {shlex.quote(file)}`"
        )
    return "start and end times of single launches, which the imported file does not have"


def _busy_cells(row: BusyRow) -> list[Cell]:
    total = row.kernel_ns + row.copy_ns
    share = 100 * row.busy_ns / row.span_ns if row.busy_ns is not None and row.span_ns else None
    return [
        row.node,
        row.context,
        row.device,
        row.kernel_ns,
        row.copy_ns,
        row.busy_ns,
        share,
        row.overlap_ns,
        row.gaps,
        row.longest_gap_ns,
        100 * row.without_owner_ns / total if total else None,
        *_time_cells(row.time),
    ]


def _time_cells(time: GpuTime | None) -> list[Cell]:
    """What the columns for machines say; none where the causes are not known."""
    if time is None:
        return [None] * (len(_PARTS) + len(CAUSES))
    parts = (time.span_ns, time.compute_ns, time.communication_ns, time.copies_ns, time.idle_ns)
    return [*parts, time.unproven_ns, *map(time.of, CAUSES)]
