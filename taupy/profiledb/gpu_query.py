"""Questions about a trial's GPUs: kernels, where they were launched, devices, busy time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from taupy.dataclass import NamedTuple, dataclass, field, replace
from taupy.errors import TaupyError
from taupy.escaping import visible
from taupy.model.gpu import BUSY, NO_OWNER, Device, Fact
from taupy.model.gpu_rows import BusyRow, KernelRow, SiteRow, launched_times, spread
from taupy.model.gpu_time import TIME, GpuTime, stored
from taupy.model.question import LAUNCHES, Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.table import Table
from taupy.network import jax
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import labels, steps_up, written
from taupy.profiledb.values import values
from taupy.units import duration

_DEVICES = """
    SELECT id, node, ordinal, name, uuid, compute_capability
      FROM device WHERE trial_id = ? ORDER BY node, ordinal
"""

_FACTS = "SELECT name, value, unit FROM device_fact WHERE device_id = ? ORDER BY position"

_BEGINNING = """
    SELECT 1 FROM timer
     WHERE timer.name BETWEEN :begin AND :begin || '~'
       AND EXISTS (SELECT 1 FROM trial_timer
                    WHERE trial_timer.trial_id = :trial AND trial_timer.timer_id = timer.id)
     LIMIT 1
"""

_SPANS = """
    SELECT thread.node, thread.context, activity.kind, activity.start_ns, activity.end_ns
      FROM activity JOIN thread ON thread.id = activity.thread_id
     WHERE activity.trial_id = ? AND thread.kind = 'stream'
       AND activity.kind IN ('kernel', 'copy', 'memset')
       AND activity.start_ns > 0 AND activity.end_ns >= activity.start_ns
     ORDER BY thread.node, thread.context, activity.start_ns
"""

_TIMED = """
    SELECT thread.node, thread.context, sum(launch.count - launch.untimed)
      FROM launch JOIN thread ON thread.id = launch.thread_id
     WHERE launch.trial_id = ? GROUP BY thread.node, thread.context
"""

_BUSY = """
    SELECT node, substr(name, length(:name) + 1), value FROM metadata
     WHERE trial_id = :trial AND node IS NOT NULL AND substr(name, 1, length(:name)) = :name
"""

_NOTED = """
    SELECT node, name, value FROM metadata
     WHERE trial_id = :trial AND node IS NOT NULL AND substr(name, 1, length(:name)) = :name
"""

_NOT_A_ROUTINE = {"CUDA_API", "TAUPY", "EXIT", "GPU_KERNEL", "GPU_COPY", "GPU_SYNC", "GPU_NO_OWNER"}


@dataclass(frozen=True, slots=True)
class Launched:
    """What ran on a trial's GPUs: sums of launches.

    Attributes:
        table: by `WHERE_LAUNCHED` and `routine`, the nearest one above the launch.
        above: the call paths of the launches.
        whole: GPU -> total time of everything that ran there.
        all_ns: GPU -> `whole`, and an estimate for each launch without a time.
        notes: on launches by step.
    """

    table: Table
    above: Ancestry
    whole: dict[tuple[int, int], int]
    all_ns: Mapping[tuple[int, int], float]
    notes: Sequence[str] = ()

    def of_kernels(self, matches: Callable[[str, str], bool]) -> Launched:
        """Only the launches of kernels for whose full and short names `matches` is true."""
        timers = enumerate(self.table.row_labels("timer"))
        rows = [row for row, timer in timers if matches(timer.timer, timer.short_name)]
        return replace(self, table=self.table.taken(rows))


class NothingRan(TaupyError):
    """Nothing of a trial ran on a GPU."""


KERNEL, STEP = "kernel", "step"
WHERE_LAUNCHED = ("device", "thread", "timer", "callpath", "parent", "configuration")


@of_a_sound_file
def launched(
    db: ProfileDB,
    trial_id: int,
    threads: Container[str] | None = None,
    more: Sequence[str] = (),
) -> Launched:
    """Every kernel and copy of a trial.

    Args:
        threads: streams, such as "0.1.0"; None for all.
        more: further dimensions to sum by; `routine` is always included, and `step`, of launches
            that a trace has stamped, is the only one.

    Raises:
        NoSuchTrial: there is no such trial.
        NothingRan: the message says how to measure what does.
        UsageError: there is no such dimension; or, by step, the trial has no steps or no trace.
    """
    db.trial(trial_id)
    notes: list[str] = []
    if STEP in more:
        from taupy.profiledb.launch_steps import launches

        table, notes = launches(db, trial_id)
    else:
        by = dict.fromkeys((*WHERE_LAUNCHED, *(name for name in more if name != "routine")))
        table = values(db, Question((trial_id,), (), tuple(by), values=LAUNCHES))
    if not len(table):
        raise NothingRan(
            f"nothing of trial {trial_id} ran on a GPU; `taupy run` on a machine with an NVIDIA "
            "GPU records kernels (`taupy doctor` says whether this is one), `taupy import` reads "
            "them from Nsight's and torch.profiler's files"
        )
    if threads is not None:
        places = [".".join(map(str, thread[:3])) for thread in table.row_labels("thread")]
        table = table.taken([row for row, place in enumerate(places) if place in threads])
    above = Ancestry.of(db, table.labels["callpath"])
    whole = dict(_times(table.by("device"), "device"))
    table, all_ns = _with_routines(table, above), _all_ns(table, "device")
    return Launched(table, above, whole, {gpu: ns for (gpu,), ns in all_ns.items()}, notes)


def _with_routines(table: Table, above: Ancestry) -> Table:
    """The table with the dimension `routine`, which follows from the parent."""
    numbers: dict[str, int] = {}
    code_of = [
        numbers.setdefault(_routine(above, parent), len(numbers))
        for parent in table.labels["parent"]
    ]
    codes = [code_of[code] for code in table.codes["parent"]]
    return replace(
        table,
        codes={**table.codes, "routine": codes},
        labels={**table.labels, "routine": list(numbers)},
    )


def sites(launches: Launched) -> list[SiteRow]:
    """One row per stream, call path and configuration."""
    table, above = launches.table, launches.above
    names = ("thread", "timer", "callpath", "parent", "routine", "configuration")
    rows = zip(*map(table.row_labels, names), _sums(table), strict=True)
    return [
        SiteRow._make((*thread[:3], timer.timer, timer.short_name, timer.groups, routine,
                       _text(above, parent), callpath, *sums[:6], *configuration, sums.bytes))
        for thread, timer, callpath, parent, routine, configuration, sums in rows
    ]  # fmt: skip


def kernels(launches: Launched, by: str = KERNEL) -> list[KernelRow]:
    """The launches of each kernel on each GPU, sorted by GPU, then by decreasing time.

    Args:
        by: another dimension to sum by; steps are in order of time.
    """
    table = launches.table
    by = "timer" if by == KERNEL else by
    summed = table.by("device", by)
    estimated, whole = _all_ns(table, "device", by), launches.all_ns
    routines = _largest(table, by, "routine")
    configurations = _largest(table, by, "configuration")
    rows = []
    for gpu, label, sums in zip(
        summed.row_labels("device"), summed.row_labels(by), _sums(summed), strict=True
    ):
        timer = label if isinstance(label, TimerRow) else _named(by, label)
        routine, number = routines[gpu, label]
        kinds: int | None
        configuration, kinds = configurations[gpu, label]
        if by == STEP:
            kinds = None  # a trace has no configurations
        percent = 100 * estimated[gpu, label] / whole[gpu] if whole[gpu] else 0.0
        mean, stddev = spread(sums.calls - sums.untimed, sums.time_ns, sums.squares)
        rows.append(
            KernelRow._make((*gpu, timer.timer, timer.short_name, timer.groups, percent, *sums[:5],
                             mean, stddev, sums.bytes, sums.occupancy, configuration.limiter,
                             kinds, routine, number))
        )  # fmt: skip
    if by == STEP:
        order = {written(by, label): at for at, label in enumerate(table.labels[by])}
        return sorted(rows, key=lambda row: (row.node, row.context, order[row.timer]))
    return sorted(rows, key=lambda row: (row.node, row.context, -row.percent, row.timer))


def _all_ns(table: Table, *by: str) -> dict[tuple[Any, ...], float]:
    """The time of all launches by dimensions, those without a time estimated."""
    all_ns: dict[tuple[Any, ...], float] = {}
    keys = zip(*map(table.row_labels, by), strict=True)
    for key, ns in zip(keys, launched_times(table), strict=True):
        all_ns[key] = all_ns.get(key, 0.0) + ns
    return all_ns


class _Sums(NamedTuple):
    calls: int
    untimed: int
    time_ns: int
    shortest: int | None
    longest: int | None
    squares: float
    bytes: int | None
    occupancy: float | None


def _sums(table: Table) -> Iterator[_Sums]:
    """The numbers of each row; the mean occupancy is a formula of sums."""
    columns = [table.column(value) for value in LAUNCHES]
    for *sums, weighted, weight in zip(*columns, strict=True):
        yield _Sums._make((*sums, weighted / weight if weight else None))


def _times(table: Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*map(table.row_labels, names), table.column("launch.time"), strict=True)


def _largest(table: Table, by: str, other: str) -> dict[tuple[Any, Any], tuple[Any, int]]:
    """For each GPU and label of `by`: the label of `other` with the most time, and their number."""
    time_of: dict[tuple[Any, Any], dict[Any, int]] = {}
    for gpu, label, other_label, time in _times(table.by("device", by, other), "device", by, other):
        time_of.setdefault((gpu, label), {})[other_label] = time
    return {key: (max(times, key=times.__getitem__), len(times)) for key, times in time_of.items()}


def _named(by: str, label: Any) -> TimerRow:
    return TimerRow(written(by, label), written(by, label), None, None, "")


@of_a_sound_file
def devices(db: ProfileDB, trial_id: int) -> list[Device]:
    """The trial's GPUs with all their facts, sorted by node and ordinal."""
    db.trial(trial_id)
    return [
        Device(node, ordinal, name, uuid, capability, tuple(map(Fact._make, facts)))
        for id, node, ordinal, name, uuid, capability in db.rows(_DEVICES, (trial_id,))
        for facts in [db.rows(_FACTS, (id,))]
    ]


def models(db: ProfileDB, trial_id: int) -> dict[tuple[int, int], str]:
    """The model of each GPU, by node and context."""
    return {(device.node, 1 + device.ordinal): device.name for device in devices(db, trial_id)}


@of_a_sound_file
def busy(db: ProfileDB, trial_id: int, launches: Launched) -> list[BusyRow]:
    """The totals of each GPU of the trial."""
    names = models(db, trial_id)
    spans: dict[tuple[int, int], _Spans] = {}
    for node, context, kind, start, end in db.stream(_SPANS, (trial_id,)):
        spans.setdefault((node, context), _Spans(start, start)).add(kind == "kernel", start, end)
    times = gpu_times(db, trial_id)
    table, whole = launches.table, launches.whole
    kernels_ns = _time_of(table, "timer", lambda timer: "GPU_KERNEL" in timer.groups.split("|"))
    without_owner = _time_of(table, "routine", lambda routine: routine == NO_OWNER)
    rows = []
    for gpu, whole_ns in sorted(whole.items()):
        row = BusyRow(
            *gpu,
            device=names.get(gpu, ""),
            kernel_ns=kernels_ns.get(gpu, 0),
            copy_ns=whole_ns - kernels_ns.get(gpu, 0),
            without_owner_ns=without_owner.get(gpu, 0),
            time=times.get(gpu),
        )
        if row.time is not None:
            row = row._replace(span_ns=row.time.span_ns, busy_ns=row.time.busy_ns)
        if joined := spans.get(gpu):
            row = row._replace(
                span_ns=joined.until - joined.first,
                busy_ns=joined.busy,
                overlap_ns=joined.overlap,
                gaps=joined.gaps,
                longest_gap_ns=joined.longest,
            )
        rows.append(row)
    return rows


@of_a_sound_file
def gpu_times(db: ProfileDB, trial_id: int) -> dict[tuple[int, int], GpuTime]:
    """Where the time of each GPU went, by node and context, as noted when the trial was stored."""
    facts: dict[int | None, dict[str, str]] = {}
    for node, name, text in db.rows(_NOTED, {"trial": trial_id, "name": TIME}):
        facts.setdefault(node, {})[name] = text
    return stored(facts)


@of_a_sound_file
def autotuning(db: ProfileDB, trial_id: int) -> str:
    """A sentence on the kernels that XLA tried while JAX compiled; "" if there were none."""
    if not db.rows(_BEGINNING, {"trial": trial_id, "begin": jax.COMPILES}):
        return ""
    on_gpu = (Condition("kind", ("gpu",)),)
    of_paths = Question((trial_id,), by=("callpath",), where=on_gpu, values=("exclusive",))
    table = values(db, of_paths)
    steps = steps_up(db, table.labels["callpath"])
    timers = labels(db, "timer", list({timer for _, timer in steps.values()}))
    below: dict[str, float] = {}
    for path, ns in zip(
        table.row_labels("callpath"), table.column("exclusive", "time"), strict=True
    ):
        here: int | None = path
        while here is not None and not jax.compiles(timers[steps[here][1]][0]):
            here = steps[here][0]
        if here is not None and ns:
            name = timers[steps[here][1]][0].short_name
            below[name] = below.get(name, 0.0) + ns
    if not below:
        return ""
    routine = max(below, key=lambda name: below[name])
    return (
        f"autotuning took {duration(sum(below.values()))} of GPU time: kernels that XLA tried "
        f"while JAX compiled, below {routine} (taupy kernels --by routine)"
    )


@of_a_sound_file
def union_ns(db: ProfileDB, trial_id: int) -> dict[tuple[int, int], int]:
    """GPU -> the time in which any of its streams worked: work on several streams counts once.
    GPUs some of whose work has no stored times are missing, unless that was noted."""
    noted = {gpu: time.busy_ns for gpu, time in gpu_times(db, trial_id).items()}
    if noted:
        return noted
    union = {  # older versions noted the sum
        (node, int(context)): int(value)
        for node, context, value in db.rows(_BUSY, {"trial": trial_id, "name": BUSY})
        if context.isdigit() and value.isdigit()
    }
    spans: dict[tuple[int, int], _Spans] = {}
    for node, context, kind, start, end in db.stream(_SPANS, (trial_id,)):
        spans.setdefault((node, context), _Spans(start, start)).add(kind == "kernel", start, end)
    timed = {(node, context): number for node, context, number in db.rows(_TIMED, (trial_id,))}
    whole = {gpu: of_gpu.busy for gpu, of_gpu in spans.items() if of_gpu.number == timed.get(gpu)}
    return union | whole


def _time_of(table: Table, name: str, matches: Callable[[Any], bool]) -> dict[Any, int]:
    """GPU -> time of the launches for whose label `matches` is true."""
    rows = [row for row, label in enumerate(table.row_labels(name)) if matches(label)]
    return dict(_times(table.taken(rows).by("device"), "device"))


@dataclass(slots=True)
class _Spans:
    """Intervals, which are added in order of their starts and merged as they arrive."""

    first: int
    until: int
    number: int = 0
    busy: int = 0
    gaps: int = 0
    longest: int = 0
    overlap: int = 0
    ends: list[int] = field(default_factory=lambda: [0, 0])  # latest end of copies, of kernels

    def add(self, is_kernel: bool, start: int, end: int) -> None:
        self.number += 1
        if start > self.until:
            self.gaps += 1
            self.longest = max(self.longest, start - self.until)
        self.busy += max(0, end - max(start, self.until))
        self.until = max(self.until, end)
        # The part that extends this kind, intersected with the other kind's extent so far.
        mine, other = self.ends[is_kernel], self.ends[not is_kernel]
        self.overlap += max(0, min(end, other) - max(start, mine))
        self.ends[is_kernel] = max(mine, end)


def _routine(above: Ancestry, callpath: int | None) -> str:
    """The nearest timer at or above this call path that is neither an API call nor the root.

    If there is none, because a thread without routines launched it: the API call or the root.
    """
    nearest = None
    for timer in map(above.timers.__getitem__, above.up(callpath)):
        groups = set(timer.groups.split("|"))
        if "GPU_NO_OWNER" in groups:
            return NO_OWNER
        if not groups & _NOT_A_ROUTINE:
            return visible(timer.timer)
        nearest = nearest or timer
    return NO_OWNER if nearest is None else visible(nearest.timer)


def _text(above: Ancestry, callpath: int | None) -> str:
    """The call path as text, without its root."""
    timers = [above.timers[timer] for timer in above.up(callpath)]
    if timers and "TAUPY" in timers[-1].groups.split("|"):
        timers.pop()
    return " => ".join(visible(timer.timer) for timer in reversed(timers)) or NO_OWNER
