"""What a roofline needs of a trial: work of kernels and routines, and what ran them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from taupy.model.machine import Ceiling, reported
from taupy.model.rows import TrialRow
from taupy.model.work import (
    COUNTED_OPERATIONS,
    COUNTED_PROGRAM,
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
from taupy.profiledb.counted_times import HELPERS, WRAPPERS, counted_times
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.gpu_query import devices

_METRICS = """
    SELECT id, name FROM metric
     WHERE id IN (SELECT metric_id FROM thread_metric WHERE trial_id = ?)
     ORDER BY name
"""

_TIMERS = """
    SELECT timer.id, timer.name, timer.short_name,
           (SELECT coalesce(group_concat(name, '|'), '') FROM timer_group
             WHERE timer_group.timer_id = timer.id)
      FROM trial_timer JOIN timer ON timer.id = trial_timer.timer_id
     WHERE trial_timer.trial_id = ?
"""

_THREADS = "SELECT id, node, context, thread, kind FROM thread WHERE trial_id = ?"

# Work of one kind on all streams, in one pass over the trial's call paths.
_ON_STREAMS = """
    SELECT call.callpath_id, call.thread_id, callpath.timer_id, callpath.parent_id, call.calls
      FROM call
      CROSS JOIN callpath ON callpath.id = call.callpath_id
     WHERE call.trial_id = :trial AND call.calls > 0
       AND call.thread_id IN (SELECT id FROM thread
                               WHERE trial_id = :trial AND kind = 'stream')
       AND callpath.timer_id IN (SELECT timer_id FROM timer_group WHERE name = :group)
"""

_VALUE = """
    SELECT exclusive FROM interval_value
     WHERE trial_id = ? AND metric_id = ? AND callpath_id = ? AND thread_id = ?
"""

_VALUES = """
    SELECT callpath_id, thread_id, exclusive FROM interval_value
     WHERE trial_id = ? AND metric_id = ?
"""

_FLAT = """
    SELECT value.thread_id, value.timer_id, timer_call.calls, value.inclusive, value.exclusive
      FROM timer_value AS value
      CROSS JOIN timer_call
              ON timer_call.trial_id = value.trial_id
             AND timer_call.thread_id = value.thread_id
             AND timer_call.timer_id = value.timer_id
      CROSS JOIN thread ON thread.id = value.thread_id AND thread.kind = 'host'
     WHERE value.trial_id = ? AND value.metric_id = ?
"""

_STATED = (*PRECISION_OF, *LEVEL_OF)

_EVENTS = f"""
    SELECT user_event.name, value.callpath_id, value.count * value.mean
      FROM user_event_value AS value
      JOIN user_event ON user_event.id = value.user_event_id
     WHERE value.trial_id = ? AND value.callpath_id IS NOT NULL
       AND user_event.name IN ({", ".join("?" * len(_STATED))})
       AND user_event.unit = iif(user_event.name LIKE 'flop%', 'flop', 'B')
"""

_RATES = f"""
    SELECT user_event.name, value.callpath_id, value.thread_id, value.mean
      FROM user_event_value AS value
      JOIN user_event ON user_event.id = value.user_event_id
     WHERE value.trial_id = ? AND value.callpath_id IS NOT NULL
       AND user_event.name IN ({", ".join("?" * len(_STATED))})
"""

_PARENT = "SELECT timer_id, parent_id FROM callpath WHERE id = ?"

_LONGEST = """
    SELECT max(thread_metric.largest_inclusive)
      FROM thread_metric JOIN thread ON thread.id = thread_metric.thread_id
      JOIN metric ON metric.id = thread_metric.metric_id
     WHERE thread_metric.trial_id = ? AND metric.name = 'time' AND thread.kind = 'host'
"""

_DEVICES = """
    SELECT DISTINCT device.name FROM device
     WHERE device.trial_id = :trial
       AND (NOT EXISTS (SELECT 1 FROM thread WHERE trial_id = :trial AND kind = 'stream')
            OR EXISTS (SELECT 1 FROM thread
                        WHERE thread.trial_id = :trial AND thread.kind = 'stream'
                          AND thread.node = device.node
                          AND thread.context = device.ordinal + 1))
     ORDER BY device.node, device.ordinal
"""

_METADATA = "SELECT name, value FROM metadata WHERE trial_id = ? ORDER BY ifnull(node, -1) DESC"

_BLAS = "taupy.option.analytic"

_CPU_NAMES = ("CPU Type", "CPU Model", "CPU Name", "Processor")


@of_a_sound_file
def trial_work(db: ProfileDB, trial: TrialRow) -> TrialWork:
    """All work of a trial; kernels under their call paths, routines flat.

    Raises:
        NoSuchTrial: there is no such trial.
    """
    db.trial(trial.id)
    metrics = {name: id for id, name in db.rows(_METRICS, (trial.id,))}
    timers = db.rows(_TIMERS, (trial.id,))
    place = {id: position for position, (id, *_) in enumerate(timers)}
    paths = _Paths(db, place)
    metadata = dict(db.rows(_METADATA, (trial.id,)))
    clean = None
    if COUNTED_OPERATIONS in metadata and "time" in metrics:
        names = {id: name for id, name, *_ in timers}
        clean = counted_times(db, trial.id, metrics["time"], names)
    return TrialWork(
        trial_id=trial.id,
        name=f"{trial.application}/{trial.experiment}/{trial.name}",
        application=metadata.get(COUNTED_PROGRAM, trial.application),
        metrics=tuple(metrics),
        metadata=metadata,
        gpus=_gpus(db, trial.id, metadata),
        processor=next((metadata[name] for name in _CPU_NAMES if name in metadata), ""),
        wall_ns=_wall_ns(db, trial.id, clean),
        timers=tuple(
            Place(name, short, frozenset(groups.split("|"))) for _, name, short, groups in timers
        ),
        kernels=tuple(_kernels(db, trial.id, metrics, paths)),
        routines=tuple(_routines(db, trial.id, metrics, place, clean)),
        noted=tuple(
            _noted(db, trial.id, paths, [name for _, name, *_ in timers], _BLAS in metadata)
        ),
        health=tuple(value for name, value in metadata.items() if name.startswith("taupy.health.")),
        ceilings=tuple(_ceilings(db, trial)),
        source=trial.source,
    )


def _ceilings(db: ProfileDB, trial: TrialRow) -> Iterable[Ceiling]:
    for device in devices(db, trial.id):
        yield from reported(device.name, device.facts, trial.source)


def _wall_ns(
    db: ProfileDB, trial_id: int, clean: Mapping[tuple[int, int], tuple[float, float]] | None
) -> float:
    if clean:
        return max(inclusive for inclusive, _ in clean.values())
    return float(db.rows(_LONGEST, (trial_id,))[0][0] or 0)


def _gpus(db: ProfileDB, trial_id: int, metadata: dict[str, str]) -> tuple[str, ...]:
    found = [name for (name,) in db.rows(_DEVICES, {"trial": trial_id})]
    if not found and "GPU Name" in metadata:
        found = [metadata["GPU Name"]]
    return tuple(dict.fromkeys(found))


def _kernels(
    db: ProfileDB, trial_id: int, metrics: dict[str, int], paths: _Paths
) -> Iterable[KernelWork]:
    threads = {id: place for id, *place, kind in db.rows(_THREADS, (trial_id,)) if kind == "stream"}
    if not threads:
        return
    values: dict[tuple[int, int], dict[str, float]] = {}
    for name in METRICS:
        if name in metrics:
            for callpath, thread, value in db.stream(_VALUES, (trial_id, metrics[name])):
                if value is not None and thread in threads:
                    values.setdefault((callpath, thread), {})[name] = float(value)
    _know_idle_tensor_cores(db, trial_id, values)
    rates = _rates(db, trial_id)
    rows = db.rows(_ON_STREAMS, {"trial": trial_id, "group": "GPU_KERNEL"})
    for callpath, thread, timer, parent, calls in rows:
        node, context, number = threads[thread]
        yield KernelWork(
            paths.place(timer),
            () if parent is None else paths.timers(parent),
            (node, context, number),
            calls,
            _time_ns(db, trial_id, metrics, callpath, thread),
            values.get((callpath, thread), {}),
            rates.get((callpath, thread), {}),
        )


def _know_idle_tensor_cores(
    db: ProfileDB, trial_id: int, values: Mapping[tuple[int, int], dict[str, float]]
) -> None:
    """No instruction on the tensor pipe is no operation of tensor cores: there it is 0.

    Not so where tensor cores have a pipe of their own (compute capability 10 and 11).
    """
    capabilities = {each.compute_capability for each in devices(db, trial_id)}
    own_pipe = any(text.partition(".")[0] in ("10", "11") for text in capabilities)
    for counted in values.values():
        if counted.pop(TENSOR_INSTRUCTIONS, None) == 0 and not own_pipe:
            counted.setdefault("flop_tensor", 0.0)


def _rates(db: ProfileDB, trial_id: int) -> dict[tuple[int, int], dict[str, float]]:
    """Flop and bytes per second of launches whose duration is not known, by call path."""
    found: dict[tuple[int, int], dict[str, float]] = {}
    names = [name + PER_SECOND for name in _STATED]
    for name, callpath, thread, mean in db.rows(_RATES, (trial_id, *names)):
        rates = found.setdefault((callpath, thread), {})
        rates[name.removesuffix(PER_SECOND)] = float(mean)
    return found


def _time_ns(
    db: ProfileDB, trial_id: int, metrics: dict[str, int], callpath: int, thread: int
) -> float:
    """One by one: of a million times, those of kernels are few."""
    if "time" not in metrics:
        return math.nan
    found = db.rows(_VALUE, (trial_id, metrics["time"], callpath, thread))
    return float(found[0][0]) if found and found[0][0] is not None else math.nan


def _noted(
    db: ProfileDB, trial_id: int, paths: _Paths, names: list[str], blas: bool
) -> Iterable[NotedWork]:
    """Work that was stated.

    Args:
        blas: are calls of BLAS among the events?
    """
    ours = {place for place, name in enumerate(names) if HELPERS.search(name)}
    notes = {place for place in ours if names[place].startswith("_note [")}
    wrappers = {
        place for place, name in enumerate(names) if "torch" in name and WRAPPERS.search(name)
    }
    summed: dict[tuple[str, tuple[int, ...]], float] = {}
    for name, callpath, value in db.rows(_EVENTS, (trial_id, *_STATED)):
        if value is None:
            continue
        owners = list(paths.timers(callpath))
        noted_here = bool(owners) and owners[0] in notes
        if blas and ours.intersection(owners) and owners[0] not in notes:
            continue  # a BLAS call inside an operation that is counted as a whole
        while owners and (owners[0] in ours or (noted_here and owners[0] in wrappers)):
            owners.pop(0)
        key = (name, tuple(owners))
        summed[key] = summed.get(key, 0.0) + float(value)
    for (name, above), total in summed.items():
        yield NotedWork(name, total, above)


def _routines(
    db: ProfileDB,
    trial_id: int,
    metrics: dict[str, int],
    place: dict[int, int],
    clean: Mapping[tuple[int, int], tuple[float, float]] | None,
) -> Iterable[RoutineWork]:
    """Args: clean: times to take instead of the stored ones; routines not in it are none."""
    threads = {id: tuple(where) for id, *where, _ in db.rows(_THREADS, (trial_id,))}
    found: dict[tuple[int, int], dict[str, tuple[Any, Any]]] = {}
    calls: dict[tuple[int, int], int] = {}
    for name in ("time", *METRICS):
        if name not in metrics:
            continue
        for thread, timer, called, inclusive, exclusive in db.stream(
            _FLAT, (trial_id, metrics[name])
        ):
            calls[thread, timer] = called
            found.setdefault((thread, timer), {})[name] = (inclusive, exclusive)
    for (thread, timer), values in found.items():
        inclusive, exclusive = values.pop("time", (math.nan, math.nan))
        if clean is not None:
            if (thread, timer) not in clean:
                continue
            inclusive, exclusive = clean[thread, timer]
        node, context, number = threads[thread]
        yield RoutineWork(
            place[timer],
            (node, context, number),
            calls[thread, timer],
            math.nan if exclusive is None else float(exclusive),
            math.nan if inclusive is None else float(inclusive),
            {name: float(own) for name, (_, own) in values.items() if own is not None},
            {name: float(whole) for name, (whole, _) in values.items() if whole is not None},
        )


class _Paths:
    """Call paths as timers, each call path read once."""

    def __init__(self, db: ProfileDB, place: dict[int, int]) -> None:
        self._db = db
        self._place = place
        self._known: dict[int, tuple[int, ...]] = {}

    def place(self, timer: int) -> int:
        return self._place[timer]

    def timers(self, callpath: int) -> tuple[int, ...]:
        """From the call path itself up to its root."""
        climbed = []
        here: int | None = callpath
        while here is not None and here not in self._known:
            found = self._db.rows(_PARENT, (here,))
            if not found:
                here = None
                break
            climbed.append((here, found[0][0]))
            here = found[0][1]
        above = self._known[here] if here is not None else ()
        for path, timer in reversed(climbed):
            above = self._known[path] = (self._place[timer], *above)
        return self._known.get(callpath, ())
