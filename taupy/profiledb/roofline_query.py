"""Read the data of rooflines: the work of kernels and routines, and the processors that did it.

Kernels, routines and stated work take one statement each, however many trials there are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from taupy.model.gpu import Device
from taupy.model.machine import reported
from taupy.model.question import Condition, Question, Value
from taupy.model.rows import ThreadRow, TimerRow, TrialRow
from taupy.model.table import Amount, Table
from taupy.model.work import (
    BLAS_ALONE,
    COUNTED_LAUNCHES,
    COUNTED_OPERATIONS,
    COUNTED_PROGRAM,
    COUNTED_TIME,
    LEVEL_OF,
    METRICS,
    PER_SECOND,
    PRECISION_OF,
    TENSOR_INSTRUCTIONS,
    KernelWork,
    NotedWork,
    Place,
    RoutineWork,
    TrialWork,
)
from taupy.network.layers import is_backward, is_layer, layer_of
from taupy.profiledb.ancestry import Ancestry
from taupy.profiledb.counted_times import HELPERS, WRAPPERS, counted_times
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import ids_of, labels
from taupy.profiledb.gpu_query import devices
from taupy.profiledb.layers import facts_of
from taupy.profiledb.query import trial_metadata
from taupy.profiledb.translation import metrics_of
from taupy.profiledb.values import values

_STATED = (*PRECISION_OF, *LEVEL_OF)
_RATES = tuple(name + PER_SECOND for name in _STATED)
_HOST = Condition("kind", ("host",))
_KERNELS = (Condition("kind", ("gpu",)), Condition("group", ("GPU_KERNEL",)))
_CPU_NAMES = ("CPU Type", "CPU Model", "CPU Name", "Processor")


@of_a_sound_file
def trial_work(db: ProfileDB, trials: Sequence[TrialRow]) -> list[TrialWork]:
    """All work of each trial; kernels under their call paths, routines flat.

    Raises:
        NoSuchTrial: there is no such trial.
        UsageError: a metric has different units in the trials.
    """
    return [facts.assembled(*tables) for facts, *tables in _read(db, trials)]


def rank_work(db: ProfileDB, trials: Sequence[TrialRow]) -> list[TrialWork]:
    """The work of each rank of each trial: that of its processes, and of their GPUs.

    `wall_ns` is the trial's.

    Raises:
        NoSuchTrial, UsageError: as for `trial_work`.
    """
    works = []
    for facts, *tables in _read(db, trials, ("rank",)):
        of_ranks = [{} if table is None else table.parts("rank") for table in tables]
        parts = [
            facts.assembled(*(of_rank.get(rank) for of_rank in of_ranks), rank=rank)
            for rank in sorted({rank for of_rank in of_ranks for rank in of_rank})
        ]
        wall = max((part.wall_ns for part in parts), default=0.0)
        works += [replace(part, wall_ns=wall) for part in parts]
    return works


def _read(
    db: ProfileDB, trials: Sequence[TrialRow], more: tuple[str, ...] = ()
) -> Iterator[tuple[_Work, Table | None, Table | None, Table | None]]:
    """Each trial's facts, kernels, routines and user events; by these dimensions, too."""
    for trial in trials:
        db.trial(trial.id)
    ids = tuple(dict.fromkeys(trial.id for trial in trials))
    measured = {trial: frozenset(names) for trial, names in metrics_of(db, ids).items()}
    every = frozenset[str]().union(*measured.values())
    metrics = tuple(name for name in ("time", *METRICS) if name in every)
    questions = (
        _kernels_asked(ids, metrics),
        _routines_asked(ids, metrics),
        _stated_work_asked(ids),
    )
    kernels, routines, events = (
        values(db, replace(question, by=(*question.by, *more))) for question in questions
    )
    above = Ancestry.of(db, (*kernels.labels["callpath"], *events.labels["callpath"]))
    parts = [table.parts("trial") for table in (kernels, routines, events)]
    for trial in trials:
        facts = _Work.of(db, trial, sorted(measured[trial.id]), above)
        of_kernels, of_routines, of_events = (tables.get(trial.id) for tables in parts)
        yield facts, of_kernels, of_routines, of_events


def _kernels_asked(trials: tuple[int, ...], metrics: tuple[str, ...]) -> Question:
    """By call path, including kernels without measured values, because they were launched."""
    by = ("trial", "thread", "callpath", "timer")
    return Question(trials, ("calls", *metrics), by, _KERNELS)


def _routines_asked(trials: tuple[int, ...], metrics: tuple[str, ...]) -> Question:
    by = ("trial", "thread", "timer")
    counted: tuple[Value, ...] = ("calls", "inclusive", "exclusive")
    return Question(trials, metrics, by, (_HOST,), values=counted)


def _stated_work_asked(trials: tuple[int, ...]) -> Question:
    by, stated = ("trial", "thread", "callpath", "event"), Condition("event", (*_STATED, *_RATES))
    return Question(trials, (), by, (stated,), values=("event.count", "event.total"))


@dataclass(frozen=True, slots=True)
class _Work:
    """One trial's facts other than values.

    Attributes:
        metrics: names of its metrics.
        above: the call paths of kernels and of stated work.
        place: timer -> its position among `timers`.
    """

    db: ProfileDB
    trial: TrialRow
    metrics: Sequence[str]
    metadata: Mapping[str, str]
    gpus: Sequence[Device]
    above: Ancestry
    timers: Sequence[TimerRow]
    place: Mapping[TimerRow, int]

    @classmethod
    def of(cls, db: ProfileDB, trial: TrialRow, metrics: Sequence[str], above: Ancestry) -> _Work:
        metadata: dict[str, str] = {}
        for row in trial_metadata(db, trial.id):  # the trial's own entries come before its nodes'
            metadata.setdefault(row.name, row.value)
        named = labels(db, "timer", ids_of(db, "timer", [trial.id]))
        timers = list(dict.fromkeys(timer for (timer,) in named.values()))
        place = {timer: position for position, timer in enumerate(timers)}
        return cls(db, trial, metrics, metadata, devices(db, trial.id), above, timers, place)

    def _places(self, timers: Iterable[int]) -> tuple[int, ...]:
        """The positions of timers, given by id."""
        return tuple(self.place[self.above.timers[id]] for id in timers)

    def assembled(
        self,
        kernels: Table | None,
        routines: Table | None,
        events: Table | None,
        *,
        rank: int | None = None,
    ) -> TrialWork:
        """The work of the trial, or of one of its ranks, from its kernels, routines and user
        events, each None if absent."""
        trial, metadata = self.trial, self.metadata
        own = [] if routines is None else list(self._routines(routines))
        noted = () if events is None else tuple(self._noted(events))
        of_layers: tuple[NotedWork, ...] = ()
        if rank is None and not noted and not {*_STATED}.intersection(self.metrics):
            noted = of_layers = tuple(self._of_layers(own))
        return TrialWork(
            trial_id=trial.id,
            name=f"{trial.application}/{trial.experiment}/{trial.name}",
            application=metadata.get(COUNTED_PROGRAM, trial.application),
            metrics=tuple(self.metrics),
            metadata=metadata,
            rank=rank,
            gpus=self._gpu_names(None if rank is None else _nodes(kernels, routines)),
            processor=next((metadata[name] for name in _CPU_NAMES if name in metadata), ""),
            wall_ns=max(
                (routine.inclusive_ns for routine in own if routine.inclusive_ns > 0), default=0.0
            ),
            timers=tuple(
                Place(timer.timer, timer.short_name, frozenset(timer.groups.split("|")))
                for timer in self.timers
            ),
            kernels=() if kernels is None else tuple(self._kernels(kernels, events)),
            routines=tuple(own),
            noted=noted,
            health=tuple(
                value for name, value in metadata.items() if name.startswith("taupy.health.")
            ),
            ceilings=tuple(
                ceiling
                for gpu in self.gpus
                for ceiling in reported(gpu.name, gpu.facts, trial.source)
            ),
            source=trial.source,
            knows_layers_alone=bool(of_layers),
        )

    def _of_layers(self, routines: Iterable[RoutineWork]) -> Iterator[NotedWork]:
        """The flop of layers of a network and of their backward passes, as `taupy layers` shows
        them."""
        facts = facts_of(self.db, self.trial.id)
        for routine in routines if facts else ():
            timer = self.timers[routine.timer]
            layer = facts.get((routine.thread[0], layer_of(timer.timer)))
            if layer is None or not is_layer(timer.groups):
                continue
            of_calls = layer.backward_flop_of if is_backward(timer.groups) else layer.flop_of
            flop = of_calls(routine.calls)
            if flop is not None:
                yield NotedWork("flop", flop, (routine.timer,), bool(layer.unknown))

    def _gpu_names(self, nodes: Collection[int] | None) -> tuple[str, ...]:
        """The GPUs that ran something, of these nodes or all; all GPUs if no stream is known."""
        threads = labels(self.db, "thread", ids_of(self.db, "thread", [self.trial.id]))
        used = {row[:2] for (row,) in threads.values() if row.kind == "stream"}
        names = [
            gpu.name
            for gpu in self.gpus
            if (not used or (gpu.node, gpu.ordinal + 1) in used)
            and (nodes is None or gpu.node in nodes)
        ]
        if not names and "GPU Name" in self.metadata:
            names = [self.metadata["GPU Name"]]
        return tuple(dict.fromkeys(names))

    def _kernels(self, table: Table, events: Table | None) -> Iterable[KernelWork]:
        rates = {} if events is None else _rates(events)
        has_own_pipe = self._has_own_pipe()
        names = ("thread", "callpath", "timer")
        rows = zip(*map(table.row_labels, names), _measured(table, "exclusive"), strict=True)
        for thread, callpath, timer, counted in rows:
            calls, time = int(counted.pop("calls", 0)), counted.pop("time", math.nan)
            if calls > 0:
                _know_idle_tensor_cores(counted, has_own_pipe)
                owners = self._places(self.above.up(callpath))[1:]
                rate = rates.get((thread, callpath), {})
                counts = counted.get(COUNTED_LAUNCHES, calls)
                if 0 < counts < calls and counted.get(COUNTED_TIME) == time:
                    time *= calls / counts  # the others were not timed
                yield KernelWork(self.place[timer], owners, calls, time, counted, rate)

    def _has_own_pipe(self) -> bool:
        """Whether tensor cores have a pipe of their own (compute capability 10 and 11)."""
        capabilities = {gpu.compute_capability for gpu in self.gpus}
        return any(text.partition(".")[0] in ("10", "11") for text in capabilities)

    def _routines(self, table: Table) -> Iterable[RoutineWork]:
        clean = self._clean_times()
        columns = (table.column("calls"), _measured(table, "inclusive"),
                   _measured(table, "exclusive"))  # fmt: skip
        rows = zip(table.row_labels("thread"), table.row_labels("timer"), *columns, strict=True)
        for thread, timer, calls, whole, own in rows:
            inclusive, exclusive = whole.pop("time", math.nan), own.pop("time", math.nan)
            if clean is not None:
                if (thread, timer) not in clean:
                    continue
                inclusive, exclusive = clean[thread, timer]
            yield RoutineWork(
                self.place[timer],
                thread[:3],
                calls=int(calls or 0),
                exclusive_ns=exclusive,
                inclusive_ns=inclusive,
                exclusive=own,
                inclusive=whole,
            )

    def _clean_times(self) -> dict[tuple[ThreadRow, TimerRow], tuple[float, float]] | None:
        """Inclusive and exclusive times that replace the stored ones, if any."""
        if COUNTED_OPERATIONS not in self.metadata or "time" not in self.metrics:
            return None
        by = ("thread", "callpath", "parent", "timer")
        times = counted_times(values(self.db, Question((self.trial.id,), by=by, where=(_HOST,))))
        keys = zip(times.row_labels("thread"), times.row_labels("timer"), strict=True)
        columns = (times.column(value, "time") for value in ("inclusive", "exclusive"))
        return {
            key: (float(inclusive or 0), float(exclusive or 0))
            for key, inclusive, exclusive in zip(keys, *columns, strict=True)
        }

    def _noted(self, events: Table) -> Iterable[NotedWork]:
        """The work stated by the program."""
        owners = _Owners.of(self.above, BLAS_ALONE in self.metadata)
        summed: dict[tuple[str, tuple[int, ...]], float] = {}
        for (name, unit), callpath, total in zip(
            events.row_labels("event"),
            events.row_labels("callpath"),
            events.column("event.total"),
            strict=True,
        ):
            stated = name in _STATED and unit == ("flop" if name.startswith("flop") else "B")
            if not stated or callpath is None or total is None:
                continue
            if (timers := owners.outside(list(self.above.up(callpath)))) is not None:
                key = (name, self._places(timers))
                summed[key] = summed.get(key, 0.0) + float(total)
        for (name, places), total in summed.items():
            yield NotedWork(name, total, places)


@dataclass(frozen=True, slots=True)
class _Owners:
    """The owners of stated work, skipping taupy's own helpers; all by timer id.

    Attributes:
        ours: helpers of `taupy.count`; `notes`: those that state work.
        wrappers: functions that PyTorch puts around a dispatch mode.
        blas: whether BLAS calls are among the events.
    """

    ours: frozenset[int]
    notes: frozenset[int]
    wrappers: frozenset[int]
    blas: bool

    @classmethod
    def of(cls, above: Ancestry, blas: bool) -> _Owners:
        names = {id: timer.timer for id, timer in above.timers.items()}
        ours = frozenset(id for id, name in names.items() if HELPERS.search(name))
        return cls(
            ours,
            frozenset(id for id in ours if names[id].startswith("_note [")),
            frozenset(
                id for id, name in names.items() if "torch" in name and WRAPPERS.search(name)
            ),
            blas,
        )

    def outside(self, owners: list[int]) -> list[int] | None:
        """The program's own timers, nearest first; None for work that has already been counted."""
        noted = bool(owners) and owners[0] in self.notes
        if self.blas and not noted and self.ours.intersection(owners):
            return None  # a BLAS call inside an operation that is counted as a whole
        inside = self.ours | self.wrappers if noted else self.ours
        while owners and owners[0] in inside:
            owners.pop(0)
        return owners


def _nodes(*tables: Table | None) -> set[int]:
    return {
        thread.node
        for table in tables
        if table is not None
        for thread in table.row_labels("thread")
    }


def _measured(table: Table, value: str) -> list[dict[str, float]]:
    """For each row, the metrics measured on it."""
    names = [column.metric for column in table.columns if column.value == value]
    rows: Iterable[tuple[Amount, ...]] = zip(
        *(table.column(value, name) for name in names), strict=True
    )
    return [
        {name: float(number) for name, number in zip(names, row, strict=True) if number is not None}
        for row in (rows if names else [()] * len(table))
    ]


def _rates(events: Table) -> dict[tuple[ThreadRow, int], dict[str, float]]:
    """Flop and bytes per second of launches of unknown duration, by call path."""
    rates: dict[tuple[ThreadRow, int], dict[str, float]] = {}
    names = zip(
        events.row_labels("thread"),
        events.row_labels("callpath"),
        events.row_labels("event"),
        strict=True,
    )
    sums = zip(events.column("event.count"), events.column("event.total"), strict=True)
    for (thread, callpath, event), (count, total) in zip(names, sums, strict=True):
        if event.name in _RATES and callpath is not None and count and total is not None:
            name = event.name.removesuffix(PER_SECOND)
            rates.setdefault((thread, callpath), {})[name] = total / count
    return rates


def _know_idle_tensor_cores(counted: dict[str, float], has_own_pipe: bool) -> None:
    """Set tensor-core operations to 0 if the tensor pipe executed no instruction.

    Does not apply if tensor cores have a pipe of their own.
    """
    if counted.pop(TENSOR_INSTRUCTIONS, None) == 0 and not has_own_pipe:
        counted.setdefault("flop_tensor", 0.0)
