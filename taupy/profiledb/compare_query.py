"""What comparisons ask of a trial: values summed over threads, by content-made ids.

Ids of timers and call paths are the same in every trial, so values come by id, and
names are asked for afterwards, once for all trials. Nothing is compared here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from taupy.model.profile import Metric
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.selector import loosely
from taupy.profiledb.tree import stored_trees

Over = Literal["total", "mean", "max"]
Where = Literal["host", "gpu"]

_METRIC = """
    SELECT metric.id, metric.name, metric.unit FROM metric
     WHERE metric.id IN (SELECT metric_id FROM thread_metric WHERE trial_id = ?)
     ORDER BY metric.name <> 'time', metric.name, metric.unit
"""

_THREADS = """
    SELECT thread.id, thread.kind
      FROM thread_metric JOIN thread ON thread.id = thread_metric.thread_id
     WHERE thread_metric.trial_id = ? AND thread_metric.metric_id = ?
"""

_ALL_THREADS = "SELECT id, kind FROM thread WHERE trial_id = ?"

_METADATA = "SELECT trial_id, name, value FROM metadata ORDER BY node IS NOT NULL, node"

_GPU_METADATA = """
    SELECT value FROM metadata WHERE trial_id = ? AND name LIKE 'GPU%Name' ORDER BY node, name
"""

_GPU_FACTS = """
    SELECT device.id, device_fact.name, device_fact.value, device_fact.unit
      FROM device JOIN device_fact ON device_fact.device_id = device.id
     WHERE device.trial_id = ? ORDER BY device.node, device.ordinal, device_fact.position
"""

_GPUS = "SELECT name FROM device WHERE trial_id = ? ORDER BY node, ordinal"

# One range of the key for each thread, so that no thread that is not meant is read.
_TIMERS = """
    SELECT value.timer_id, sum(timer_call.calls), sum(timer_call.subroutines),
           {how}(value.inclusive), {how}(value.exclusive), count(*)
      FROM timer_value AS value
      CROSS JOIN timer_call
              ON timer_call.trial_id = value.trial_id
             AND timer_call.thread_id = value.thread_id
             AND timer_call.timer_id = value.timer_id
     WHERE value.trial_id = ? AND value.metric_id = ? AND value.thread_id IN ({threads})
     GROUP BY value.timer_id
"""

# The key's order is by call path, then thread: nothing is sorted.
_CALLPATHS = """
    SELECT value.callpath_id, {how}(value.inclusive), {how}(value.exclusive), count(*)
      FROM interval_value AS value
     WHERE value.trial_id = ? AND value.metric_id = ? {threads}
     GROUP BY value.callpath_id
"""

_CALLS = """
    SELECT callpath_id, sum(calls), sum(subroutines) FROM call
     WHERE trial_id = ? {threads} GROUP BY callpath_id
"""

_TOTALS = """
    SELECT thread_id, sum(exclusive) FROM timer_value
     WHERE trial_id = ? AND metric_id = ? AND thread_id IN ({threads})
     GROUP BY thread_id
"""

_TIMER_FACTS = """
    SELECT timer.id, timer.name, timer.short_name, timer.file, timer.line,
           (SELECT coalesce(group_concat(name, '|'), '') FROM timer_group
             WHERE timer_group.timer_id = timer.id)
      FROM trial_timer JOIN timer ON timer.id = trial_timer.timer_id
     WHERE trial_timer.trial_id = ?
"""

_PARENTS = """
    SELECT callpath.id, callpath.timer_id, callpath.parent_id
      FROM call JOIN callpath ON callpath.id = call.callpath_id
     WHERE call.trial_id = ? GROUP BY callpath.id
"""

_TIMER_IDS = "SELECT timer_id FROM trial_timer WHERE trial_id = ?"

# From call paths up to their roots.
_CHAINS = """
    WITH RECURSIVE above (start, steps, timer_id, parent_id) AS (
        SELECT id, 0, timer_id, parent_id FROM callpath WHERE id IN ({paths})
        UNION ALL
        SELECT above.start, above.steps + 1, next.timer_id, next.parent_id
          FROM above CROSS JOIN callpath AS next ON next.id = above.parent_id
    )
    SELECT above.start, timer.name, timer.short_name, timer.file, timer.line,
           iif(above.steps, '', (SELECT coalesce(group_concat(name, '|'), '') FROM timer_group
                                  WHERE timer_group.timer_id = above.timer_id))
      FROM above CROSS JOIN timer ON timer.id = above.timer_id
     ORDER BY above.steps
"""

_CALLS_OF_SOME = """
    SELECT callpath_id, sum(calls) FROM call
     WHERE trial_id = ? AND callpath_id IN ({paths}) GROUP BY callpath_id
"""

_ONE_COLUMN = """
    SELECT value.callpath_id, sum(value.{column}) FROM interval_value AS value
     WHERE value.trial_id = ? AND value.metric_id = ?
     GROUP BY value.callpath_id
"""

_EVENTS = """
    SELECT user_event.name, user_event.unit, sum(value.count), min(value.minimum),
           max(value.maximum), sum(value.count * value.mean)
      FROM user_event_value AS value
      JOIN user_event ON user_event.id = value.user_event_id
     WHERE value.trial_id = ?
     GROUP BY user_event.name, user_event.unit
"""


class Sums(NamedTuple):
    """A timer's or call path's values in one trial, over threads.

    `inclusive` and `exclusive` are in the metric's unit; of "max", the largest of any
    thread's. `calls` and `subroutines` are always sums.
    """

    calls: int
    subroutines: int
    inclusive: float
    exclusive: float


class TimerFacts(NamedTuple):
    """What is known of a timer; `groups` is joined by "|"."""

    timer: str
    short_name: str
    file: str | None
    line: int | None
    groups: str


class EventSums(NamedTuple):
    """A user event in one trial, over threads and call paths."""

    samples: int
    minimum: float
    maximum: float
    mean: float


def with_room(db: ProfileDB) -> None:
    """Let SQLite keep the pages of several trials at hand: 2 MB, its default, hold one."""
    db.rows("PRAGMA cache_size = -65536")


def metric_of(db: ProfileDB, trial_id: int, name: str) -> tuple[int, Metric] | None:
    """A measured metric's id and itself, by its name as written, else by any letters.

    Raises:
        NoSuchTrial: there is no such trial.
    """
    db.trial(trial_id)
    there = db.rows(_METRIC, (trial_id,))
    for wanted, written in ((name, str), (name.lower(), str.lower)):
        for id, found, unit in there:
            if written(found) == wanted:
                return id, Metric(found, unit)
    return None


@of_a_sound_file
def thread_ids(
    db: ProfileDB, trial_id: int, metric_id: int | None, where: Where | None = None
) -> list[int]:
    """The threads on which the metric was measured (None: all there are).

    Args:
        where: only the host's, or only the GPUs' streams.
    """
    rows = (
        db.rows(_ALL_THREADS, (trial_id,))
        if metric_id is None
        else db.rows(_THREADS, (trial_id, metric_id))
    )
    return [id for id, kind in rows if where is None or (kind == "stream") == (where == "gpu")]


@of_a_sound_file
def gpu_names(db: ProfileDB, trial_id: int) -> list[str]:
    """The names of the trial's GPUs, by node and ordinal."""
    return [name for (name,) in db.rows(_GPUS, (trial_id,))]


@of_a_sound_file
def gpu_facts(db: ProfileDB, trial_id: int) -> list[tuple[str, str, str]]:
    """What is known of each GPU: `GPU 0 Core Clock`, value, unit; numbered over nodes."""
    rows = db.rows(_GPU_FACTS, (trial_id,))
    order = list(dict.fromkeys(device for device, *_ in rows))
    return [
        (f"GPU {order.index(device)} {name}", str(value), unit)
        for device, name, value, unit in rows
    ]


@of_a_sound_file
def gpu_metadata(db: ProfileDB, trial_id: int) -> list[str]:
    """The same from metadata, for trials of other tools."""
    return [value for (value,) in db.rows(_GPU_METADATA, (trial_id,))]


@of_a_sound_file
def metadata_values(db: ProfileDB, name: str) -> dict[int, str]:
    """A fact of every trial that has it, by trial id; the trial's before its nodes'.

    A name that is nowhere is looked for with letters, blanks, `_` and `-` alike.
    """
    rows = db.rows(_METADATA)
    for wanted, written in ((name, str), (loosely(name), loosely)):
        found: dict[int, str] = {}
        for trial, there, value in rows:
            if written(there) == wanted:
                found.setdefault(trial, value)
        if found:
            return found
    return {}


@of_a_sound_file
def metadata_names(db: ProfileDB) -> list[str]:
    """The names of all facts of all trials."""
    return [name for (name,) in db.rows("SELECT DISTINCT name FROM metadata ORDER BY name")]


@of_a_sound_file
def timer_sums(
    db: ProfileDB,
    trial_id: int,
    metric_id: int,
    threads: Collection[int],
    over: Over = "total",
) -> dict[int, Sums]:
    """Each timer's values over these threads, by timer id.

    A mean divides by all the threads, also those on which the timer did not run.
    """
    sql = _TIMERS.format(how=_how(over), threads=_listed(threads))
    share = len(threads) if over == "mean" else 1
    return {
        timer: Sums(calls, subroutines, *_values(inclusive, exclusive, share))
        for timer, calls, subroutines, inclusive, exclusive, _ in db.stream(
            sql, (trial_id, metric_id)
        )
    }


@of_a_sound_file
def callpath_values(
    db: ProfileDB,
    trial_id: int,
    metric_id: int,
    threads: Collection[int] | None = None,
    over: Over = "total",
) -> dict[int, tuple[float, float]]:
    """Each call path's inclusive and exclusive over these threads (None: all), by its id."""
    which = "" if threads is None else f"AND value.thread_id IN ({_listed(threads)})"
    sql = _CALLPATHS.format(how=_how(over), threads=which)
    share = 1
    if over == "mean":
        share = len(thread_ids(db, trial_id, metric_id) if threads is None else threads)
    rows = db.stream(sql, (trial_id, metric_id))
    if share == 1:
        return {
            path: (inclusive, exclusive)
            for path, inclusive, exclusive, _ in rows
            if inclusive is not None and exclusive is not None
        }
    return {path: _values(inclusive, exclusive, share) for path, inclusive, exclusive, _ in rows}


@of_a_sound_file
def callpath_calls(
    db: ProfileDB, trial_id: int, threads: Collection[int] | None = None
) -> dict[int, tuple[int, int]]:
    """Each call path's calls and subroutines over these threads (None: all), by its id."""
    which = "" if threads is None else f"AND thread_id IN ({_listed(threads)})"
    rows = db.stream(_CALLS.format(threads=which), (trial_id,))
    return {path: (calls, subroutines) for path, calls, subroutines in rows}


@of_a_sound_file
def total(
    db: ProfileDB,
    trial_id: int,
    metric_id: int,
    threads: Collection[int],
    over: Over = "total",
) -> float | None:
    """All exclusive values of a thread together, over these threads; None where there is none."""
    sql = _TOTALS.format(threads=_listed(threads))
    sums = [summed or 0 for _, summed in db.rows(sql, (trial_id, metric_id))]
    if not sums:
        return None
    if over == "max":
        return float(max(sums))
    return float(sum(sums)) / (len(threads) if over == "mean" else 1)


@of_a_sound_file
def timer_facts(db: ProfileDB, trial_ids: Iterable[int]) -> dict[int, TimerFacts]:
    """The timers of these trials, by id."""
    facts: dict[int, TimerFacts] = {}
    for trial_id in trial_ids:
        for id, *rest in db.rows(_TIMER_FACTS, (trial_id,)):
            if id not in facts:
                facts[id] = TimerFacts(*rest)
    return facts


@of_a_sound_file
def callpath_parents(db: ProfileDB, trial_ids: Iterable[int]) -> dict[int, tuple[int, int | None]]:
    """Call path id -> its timer's id and its parent's id, for all call paths of the trials."""
    found: dict[int, tuple[int, int | None]] = {}
    for trial_id in trial_ids:
        found.update((id, (timer, above)) for id, timer, above in db.rows(_PARENTS, (trial_id,)))
    return found


@of_a_sound_file
def callpath_names(
    db: ProfileDB, callpaths: Iterable[int]
) -> dict[int, tuple[TimerFacts, list[str]]]:
    """What is known of call paths' timers, and the names on the way from the root to each."""
    found: dict[int, tuple[TimerFacts, list[str]]] = {}
    for path, *facts in db.rows(_CHAINS.format(paths=_listed(callpaths))):
        if path not in found:
            found[path] = (TimerFacts._make(facts), [])
        found[path][1].append(facts[0])
    for _, names in found.values():
        names.reverse()
    return found


@of_a_sound_file
def callpath_column(
    db: ProfileDB, trial_id: int, metric_id: int, column: Literal["inclusive", "exclusive"]
) -> dict[int, float]:
    """One value of each call path over all threads, by its id: half of `callpath_values`."""
    found: dict[int, Any] = dict(db.rows(_ONE_COLUMN.format(column=column), (trial_id, metric_id)))
    if None in found.values():
        return {path: value for path, value in found.items() if value is not None}
    return found


@of_a_sound_file
def calls_of(db: ProfileDB, trial_id: int, callpaths: Iterable[int]) -> dict[int, float]:
    """How often these call paths were called, over all threads; without those not there."""
    return dict(db.rows(_CALLS_OF_SOME.format(paths=_listed(callpaths)), (trial_id,)))


@of_a_sound_file
def timer_ids(db: ProfileDB, trial_id: int) -> frozenset[int]:
    """The ids of a trial's timers."""
    return frozenset(id for (id,) in db.rows(_TIMER_IDS, (trial_id,)))


@of_a_sound_file
def inclusive_by(
    db: ProfileDB,
    trial_id: int,
    metric_id: int,
    threads: Collection[int],
    names_of: Mapping[int, Sequence[str]],
) -> dict[str, float]:
    """The value during which any timer of a name was on the stack, over these threads.

    Routines of one group or file call each other; each moment is counted once.

    Args:
        names_of: timer id -> the names (groups, file) that it counts in.
    """
    wanted = set(threads)
    sums: dict[str, float] = {}
    for thread, tree in stored_trees(db, trial_id, [metric_id]).items():
        values = tree.inclusive.get(metric_id)
        if thread not in wanted or values is None:
            continue
        children: dict[int, list[int]] = {}
        for row, above in enumerate(tree.parents()):
            children.setdefault(above, []).append(row)
        stack: list[tuple[int, frozenset[str]]] = [
            (row, frozenset()) for row in children.get(-1, ())
        ]
        while stack:
            row, active = stack.pop()
            names = names_of.get(tree.timer[row], ())
            fresh = [name for name in names if name not in active]
            if not math.isnan(values[row]):
                for name in fresh:
                    sums[name] = sums.get(name, 0) + values[row]
            below = active.union(fresh) if fresh else active
            stack += [(child, below) for child in children.get(row, ())]
    return sums


@of_a_sound_file
def event_sums(db: ProfileDB, trial_id: int) -> dict[tuple[str, str], EventSums]:
    """The trial's user events over threads and call paths, by name and unit."""
    db.trial(trial_id)
    return {
        (name, unit): EventSums(
            samples,
            math.nan if least is None else least,
            math.nan if most is None else most,
            math.nan if summed is None or not samples else summed / samples,
        )
        for name, unit, samples, least, most, summed in db.rows(_EVENTS, (trial_id,))
    }


def _how(over: Over) -> str:
    return "max" if over == "max" else "sum"


def _listed(threads: Iterable[int]) -> str:
    return ", ".join(str(int(thread)) for thread in threads)


def _values(inclusive: float | None, exclusive: float | None, share: int) -> tuple[float, float]:
    one = math.nan if inclusive is None else inclusive
    other = math.nan if exclusive is None else exclusive
    return (one, other) if share == 1 else (one / share, other / share)
