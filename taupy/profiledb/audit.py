"""Check every invariant of a database.

- *file*: SQLite reports it (`integrity_check`, `foreign_key_check`), or it cannot be opened;
- *schema*: a table, column, index or view is missing;
- *ids*: an id does not match its content;
- *laws*: a trial violates an invariant of `model/invariants.py`;
- *summary*: the flat profile is not the sum of the call paths;
- *values*: a user event, launch, activity or ceiling has impossible values;
- *remarks*: notes from the measurement itself; the file is intact.

The audit is read-only. One trial is in memory at a time, without its activities.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from struct import error as StructError
from typing import Any, Literal, NamedTuple

from taupy.errors import TaupyError
from taupy.escaping import visible
from taupy.model import invariants
from taupy.model.identifier import is_uuid
from taupy.model.profile import Profile, Thread, ThreadProfile, Timer
from taupy.model.progress import SILENT, Progress
from taupy.profiledb import impossible
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import listed
from taupy.profiledb.flat_rows import FlatRows
from taupy.profiledb.identity import callpath_id, timer_id, user_event_id
from taupy.profiledb.prepared import PreparedThread
from taupy.profiledb.reader import call_tree_of
from taupy.profiledb.tree import StoredTree, stored_trees
from taupy.profiledb.writer import HEALTH, INVARIANTS
from taupy.units import listing, several

State = Literal["PROBLEM", "note"]

_EXAMPLES = 3


WORDS = {
    "file": "SQLite",
    "schema": "taupy's schema",
    "ids": "the rules for ids",
    "laws": "the model's laws",
    "summary": "the sums over call paths",
    "values": "possible values",
    "remarks": "the measurement itself",
}
"""What each check refers to."""


class Finding(NamedTuple):
    """One violation or note.

    Attributes:
        state: PROBLEM, or note if the data are intact.
        check: file, schema, ids, laws, summary, values or remarks.
        trial: the trial concerned, None for the whole file.
    """

    state: State
    check: str
    trial: int | None
    text: str


def audit(db: ProfileDB, progress: Progress = SILENT) -> Iterator[Finding]:
    """Check a database."""
    progress.begin("checking the file")
    broken = False
    for text in _file_faults(db):
        broken = True
        yield Finding("PROBLEM", "file", None, text)
    checks: list[tuple[str, Callable[[ProfileDB], Iterator[Finding]]]] = [
        ("schema", _schema),
        ("ids", _ids),
        ("values", _values),
        ("remarks", _remarks),
    ]
    for name, check in checks:
        progress.begin(f"checking {WORDS[name]}")
        yield from _guarded(name, None, check(db), broken)
    try:
        trials = db.trials()
    except TaupyError as error:
        yield Finding("PROBLEM", "file", None, str(error))
        return
    progress.begin("checking trials", len(trials), "trials")
    for trial in trials:
        yield from _guarded("laws", trial.id, _trial_faults(db, trial.id), broken)
        progress.advance()


def _guarded(
    check: str, trial: int | None, findings: Iterator[Finding], broken: bool
) -> Iterator[Finding]:
    """If the file is damaged, only the current check ends, not the audit."""
    try:
        yield from findings
    except TaupyError as error:
        yield Finding("PROBLEM", "file", trial, str(error))
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, StructError) as error:
        what = visible(f"{type(error).__name__}: {error}")
        hint = "" if broken else " although SQLite reports no damage"
        yield Finding("PROBLEM", check, trial, f"rows are inconsistent{hint} ({what})")


# --- the file ----------------------------------------------------------------


def _file_faults(db: ProfileDB) -> Iterator[str]:
    try:
        for (text,) in db.stream("PRAGMA integrity_check(20)"):
            if text != "ok":
                yield from (visible(line) for line in str(text).splitlines())
    except TaupyError as error:
        yield str(error)
        return
    missing: dict[tuple[str, str], int] = {}
    try:
        for table, _, parent, _ in db.stream("PRAGMA foreign_key_check"):
            missing[table, parent] = missing.get((table, parent), 0) + 1
        for (table, parent), count in missing.items():
            yield f"{several(count, 'row')} of {table} refer to missing rows of {parent}"
    except TaupyError as error:
        yield str(error)


def _schema(db: ProfileDB) -> Iterator[Finding]:
    for text in _schema_faults(db):
        # Views contain no data; the next schema upgrade creates them again.
        state: State = "note" if text.startswith("the view ") else "PROBLEM"
        yield Finding(state, "schema", None, text)


def _schema_faults(db: ProfileDB) -> Iterator[str]:
    """Tables, columns, indexes and views that the file lacks."""
    from taupy.profiledb import migrations
    from taupy.state.sqlite import in_memory

    fresh = in_memory()
    ((version,),) = db.rows("PRAGMA user_version")
    try:
        if version < migrations.SCHEMA_VERSION:  # its views are made anew when it is upgraded
            migrations.upgrade(fresh, migrations.UPGRADES[:version])
        else:
            migrations.migrate(fresh)
        ask = "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
        columns = 'SELECT name FROM pragma_table_xinfo("{}")'
        stored = set(db.rows(ask))
        for kind, name in sorted(fresh.execute(ask).fetchall()):
            if (kind, name) not in stored:
                yield f"the {kind} {name} is missing"
            elif kind in ("table", "view"):
                own = {row[0] for row in db.rows(columns.format(name))}
                for (column,) in fresh.execute(columns.format(name)):
                    if column not in own:
                        yield f"the {kind} {name} has no column {column}"
    finally:
        fresh.close()


# --- ids ---------------------------------------------------------------------


def _ids(db: ProfileDB) -> Iterator[Finding]:
    checks = (
        ("timers", _odd_timers(db), "their names and groups"),
        ("call paths", _odd_callpaths(db), "their timers and parents"),
        ("user events", _odd_events(db), "their names and units"),
    )
    for what, odd, content in checks:
        odd_ids = list(odd)
        if odd_ids:
            yield Finding(
                "PROBLEM",
                "ids",
                None,
                f"{what} with ids that do not match {content}: {len(odd_ids)}, "
                f"{_some(odd_ids)}; a merge could confuse them with others",
            )
    for trial in db.trials():
        if not is_uuid(trial.uuid):
            text = f"the uuid '{trial.uuid}' is none: the trial is neither merged nor pushed"
            yield Finding("PROBLEM", "ids", trial.id, text)
    deep = _count(
        db,
        "SELECT count(*) FROM callpath LEFT JOIN callpath AS above ON above.id = callpath.parent_id"
        " WHERE callpath.depth <> ifnull(above.depth + 1, 0)",
    )
    if deep:
        yield Finding(
            "PROBLEM", "ids", None, f"{several(deep, 'call path')} not one deeper than the parent"
        )


def _odd_timers(db: ProfileDB) -> Iterator[str]:
    rows = db.stream(
        "SELECT timer.id, timer.name, timer_group.name FROM timer"
        " LEFT JOIN timer_group ON timer_group.timer_id = timer.id ORDER BY timer.id"
    )
    here: tuple[int, str] | None = None
    groups: list[str] = []
    for id, name, group in rows:
        if here is not None and here[0] != id:
            yield from _odd_timer(*here, groups)
            groups = []
        here = (id, name)
        groups += [] if group is None else [group]
    if here is not None:
        yield from _odd_timer(*here, groups)


def _odd_timer(id: int, name: str, groups: list[str]) -> Iterator[str]:
    if timer_id(Timer(name, groups=tuple(groups))) != id:
        yield f"{id} {visible(name)}"


def _odd_callpaths(db: ProfileDB) -> Iterator[str]:
    for id, timer, parent in db.stream("SELECT id, timer_id, parent_id FROM callpath"):
        if callpath_id(parent or 0, timer) != id:
            yield str(id)


def _odd_events(db: ProfileDB) -> Iterator[str]:
    for id, name, unit in db.stream("SELECT id, name, unit FROM user_event"):
        if user_event_id(name, unit) != id:
            yield f"{id} {visible(name)}"


# --- a trial -----------------------------------------------------------------

_THREADS = (
    "SELECT id, node, context, thread, kind, name, native_id, count, least_ns, most_ns FROM thread"
    " WHERE trial_id = ? ORDER BY node, context, thread"
)

_TIMERS = "SELECT timer_id FROM trial_timer WHERE trial_id = ? ORDER BY timer_id"

_METRICS = """
    SELECT id, name FROM metric
     WHERE id IN (SELECT metric_id FROM thread_metric WHERE trial_id = :trial
                   UNION SELECT metric_id FROM interval_value WHERE trial_id = :trial)
"""

_WITHOUT_CALL = """
    SELECT count(*) FROM {table} AS value
     WHERE value.trial_id = ? AND value.callpath_id IS NOT NULL AND NOT EXISTS (
           SELECT 1 FROM call WHERE call.trial_id = value.trial_id
              AND call.callpath_id = value.callpath_id AND call.thread_id = value.thread_id)
"""

_STRANGERS = """
    SELECT count(*) FROM {table} AS value JOIN thread ON thread.id = value.thread_id
     WHERE value.trial_id = ? AND thread.trial_id <> value.trial_id
"""

_TIMER_CALLS = """
    SELECT timer_id, calls, subroutines FROM timer_call WHERE trial_id = ? AND thread_id = ?
"""

_LARGEST = """
    SELECT metric_id, largest_inclusive FROM thread_metric WHERE trial_id = ? AND thread_id = ?
"""

_TIMER_VALUES = """
    SELECT timer_id, inclusive, exclusive FROM timer_value
     WHERE trial_id = ? AND thread_id = ? AND metric_id = ?
"""

_NO_TREES = "its call paths do not form the trees that their ids describe"

_WITH_CALLPATHS = ("interval_value", "user_event_value", "launch", "activity")


def _trial_faults(db: ProfileDB, trial: int) -> Iterator[Finding]:
    for table in ("call", "thread_metric", *_WITH_CALLPATHS):
        if count := _count(db, _STRANGERS.format(table=table), trial):
            text = f"{several(count, 'row')} of {table} belong to threads of another trial"
            yield Finding("PROBLEM", "laws", trial, text)
            return
    for table in _WITH_CALLPATHS:
        if count := _count(db, _WITHOUT_CALL.format(table=table), trial):
            text = (
                f"{several(count, 'row')} of {table} name a call path that the thread never entered"
            )
            yield Finding("PROBLEM", "laws", trial, text)
            if table == "interval_value":
                return
    ids = [id for (id,) in db.rows(_TIMERS, (trial,))]
    position = {id: place for place, id in enumerate(ids)}
    timers = [Timer(str(id)) for id in ids]  # the invariants do not depend on names
    metrics = dict(db.rows(_METRICS, {"trial": trial}))
    trees = stored_trees(db, trial, metrics)
    unlisted = {timer for tree in trees.values() for timer in tree.timer} - position.keys()
    if unlisted:
        text = f"timers of its call paths that trial_timer does not list: {len(unlisted)}"
        yield Finding("PROBLEM", "laws", trial, text)
        return
    threads = []
    for id, *place in db.rows(_THREADS, (trial,)):
        stored = trees.pop(id, StoredTree())
        has = {metric: name for metric, name in metrics.items() if metric in stored.inclusive}
        tree, _ = call_tree_of(stored, position, has)
        measured = ThreadProfile(Thread(*place), tree)
        threads.append(measured)
        prepared = PreparedThread.of(measured, ids)
        texts = [] if set(prepared.callpaths) == set(stored.callpath) else [_NO_TREES]
        texts += _Summary(db, trial, id, prepared.flat, metrics).faults(stored.inclusive)
        number = ".".join(map(str, measured.thread.place))
        for text in texts:
            yield Finding("PROBLEM", "summary", trial, f"thread {number}: {text}")
    faults = invariants.check(
        Profile(
            uuid="",
            application="",
            experiment="",
            started_at=0.0,
            duration_ns=0,
            timers=timers,
            threads=threads,
        )
    )
    yield from _laws(db, trial, faults)


def _laws(db: ProfileDB, trial: int, faults: list[str]) -> Iterator[Finding]:
    """Violations as problems, or as notes if the trial's metadata declares them."""
    declared = {
        _law(line)
        for (value,) in db.rows(
            "SELECT value FROM metadata WHERE trial_id = ? AND name = ?", (trial, INVARIANTS)
        )
        for line in value.split("\n")
    }
    for fault in faults:
        if _law(fault) not in declared:
            yield Finding("PROBLEM", "laws", trial, fault)
    noted = [fault for fault in faults if _law(fault) in declared]
    if noted:
        laws = "a law" if len(noted) == 1 else f"{len(noted)} laws"
        yield Finding(
            "note", "laws", trial, f"violates {laws}, as noted when it was stored: {noted[0]}"
        )


def _law(fault: str) -> str:
    """The invariant and the thread, without the rows."""
    return fault.partition(" on ")[0]


class _Summary(NamedTuple):
    """A thread's flat profile, which must be the sum of its call paths.

    Attributes:
        thread: its id.
        flat: the sums of its call paths.
        metrics: the trial's metrics, id -> name.
    """

    db: ProfileDB
    trial: int
    thread: int
    flat: FlatRows
    metrics: dict[int, str]

    def faults(self, measured_metrics: Collection[int]) -> Iterator[str]:
        """Differences between the flat profile and the sums.

        Args:
            measured_metrics: ids of the metrics that the thread's call paths have.
        """
        calls = {timer: numbers for timer, *numbers in self._rows(_TIMER_CALLS)}
        expected = {timer: numbers for timer, *numbers in self.flat.counted()}
        if calls != expected:
            odd = [t for t in calls.keys() | expected.keys() if calls.get(t) != expected.get(t)]
            yield f"calls of {_timers(self.db, odd)} are not the sums over call paths"
        largest: dict[int, float | None] = dict(self._rows(_LARGEST))
        for metric, name in self.metrics.items():
            if metric in measured_metrics or metric in largest:
                yield from self._metric_faults(metric, name, largest)

    def _metric_faults(
        self, metric: int, name: str, largest: dict[int, float | None]
    ) -> Iterator[str]:
        flat = self.flat
        if metric not in largest:
            yield f"has values of {visible(name)}, which is not among its metrics"
        elif name in flat.largest and not _alike(largest[metric], flat.largest[name]):
            yield (
                f"the largest inclusive {visible(name)} is {flat.largest[name]}, "
                f"not {largest[metric]}"
            )
        stored = {timer: numbers for timer, *numbers in self._rows(_TIMER_VALUES, metric)}
        rows = flat.measured(name) if name in flat.inclusive else ()
        sums = {timer: numbers for timer, *numbers in rows}
        odd = [
            timer
            for timer in stored.keys() | sums.keys()
            if timer not in stored
            or timer not in sums
            or not all(map(_alike, stored[timer], sums[timer]))
        ]
        if odd:
            yield f"{visible(name)} of {_timers(self.db, odd)} is not the sum over call paths"

    def _rows(self, sql: str, *more: int) -> Sequence[tuple[Any, ...]]:
        return self.db.rows(sql, (self.trial, self.thread, *more))


def _alike(value: float | None, other: float | None) -> bool:
    """Equality that allows for rounding in sums of real numbers; integers must be equal."""
    if value == other:
        return True
    if value is None or other is None:
        return (value is None or math.isnan(value)) and (other is None or math.isnan(other))
    if isinstance(value, int) and isinstance(other, int):
        return False
    return math.isclose(value, other, rel_tol=1e-9) or (math.isnan(value) and math.isnan(other))


def _timers(db: ProfileDB, ids: list[int]) -> str:
    wanted = sorted(ids)
    names = dict(db.rows(f"SELECT id, name FROM timer WHERE id IN ({listed(wanted[:_EXAMPLES])})"))
    return listing(
        (f"'{visible(names[id])}'" if id in names else str(id) for id in wanted), _EXAMPLES
    )


# --- values ------------------------------------------------------------------


def _values(db: ProfileDB) -> Iterator[Finding]:
    for table, condition, what in impossible.OF_TRIALS:
        for trial, count in db.rows(
            f"SELECT trial_id, count(*) FROM {table} WHERE {condition} GROUP BY trial_id"
        ):
            yield Finding("PROBLEM", "values", trial, f"{count} {what}")
    for question, what in impossible.COUNTS:
        if count := _count(db, question):
            yield Finding("PROBLEM", "values", None, f"{count} {what}")


# --- remarks -----------------------------------------------------------------


def _remarks(db: ProfileDB) -> Iterator[Finding]:
    for trial, name, value in db.rows(
        "SELECT trial_id, name, value FROM metadata WHERE name >= ? AND name < ?"
        " ORDER BY trial_id, name",
        (HEALTH, HEALTH + "\U0010ffff"),
    ):
        for line in value.split("\n"):
            label = name.removeprefix(HEALTH)
            yield Finding("note", "remarks", trial, visible(f"{label}: {line}"))
    for trial, state in db.rows("SELECT id, state FROM trial WHERE state <> 'complete'"):
        yield Finding("note", "remarks", trial, f"the trial is {visible(state)}")


def _count(db: ProfileDB, question: str, *values: Any) -> int:
    return int(db.rows(question, values)[0][0])


def _some(examples: list[str]) -> str:
    more = ", ..." if len(examples) > _EXAMPLES else ""
    return ", ".join(examples[:_EXAMPLES]) + more
