"""The dimensions by which values can be grouped and filtered.

A row of values has four ids: trial, thread, timer and call path; rows of launches and user events
have one more. Every dimension depends on one of them: a node on the thread, a file on the timer,
a GPU on the trial. Values are therefore summed by id, in the order of the tables' keys, and the
few sums get their labels afterwards. Across trials, rows with equal labels are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from taupy.dataclass import dataclass
from taupy.errors import UsageError
from taupy.model.gpu import Configuration
from taupy.model.names import NO_FILE, module_of
from taupy.model.question import Condition
from taupy.model.rows import Event, ThreadRow, TimerRow
from taupy.model.timer_columns import TimerColumns
from taupy.network import operators
from taupy.network.layers import is_layer, layer_of, layer_type
from taupy.network.phase_paths import phase_in
from taupy.profiledb.database import ProfileDB, refuse_infinite
from taupy.profiledb.reading import Reading

Id = Literal["trial", "thread", "timer", "callpath", "launch", "event", "step", "line"]

METADATA = "meta."
"""`meta.NAME` is also a dimension of trials."""

_MOST_IDS = 20_000
"""Maximum number of ids in one statement; SQLite's limit is a million characters."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension.

    Attributes:
        of: the id that it depends on.
        sql: statement returning an id and the parts of its label; `{ids}` is replaced by the
            ids. If it is empty, and nothing is inherited, the id is the label.
        label: function that makes a label from the parts.
        spelling: text of a label in conditions.
        inherited: for a call path, function that makes what its label is made from, of the same of
            its parent (None for a root) and of its own timer. Instead of `sql`.
        several: an id may have several rows, each with its own label.
        joined: what becomes of the last parts of an id's rows, which differ in nothing else.
        alike: the parts that hundreds of thousands of ids share, and keep once.
        across: when labels of different trials count as equal.
        title: in the headings of tables, if that is not its name: see `heading`.
    """

    of: Id
    sql: str = ""
    label: Callable[..., Hashable] = lambda part: part
    spelling: Callable[[Any], Hashable] = lambda label: label
    inherited: Callable[[Any, TimerRow], Any] | None = None
    several: bool = False
    joined: Callable[[Iterable[str]], str] | None = None
    alike: tuple[int, ...] = ()
    across: str = "equal names"
    title: str = ""

    @property
    def is_id(self) -> bool:
        """Whether the id is the label."""
        return not self.sql and self.inherited is None


def _of_trial(columns: str) -> str:
    return f"""
    SELECT trial.id, {columns}
      FROM trial
      JOIN experiment ON experiment.id = trial.experiment_id
      JOIN application ON application.id = experiment.application_id
     WHERE trial.id IN ({{ids}})"""


def _of_thread(columns: str) -> str:
    return f"SELECT thread.id, {columns} FROM thread WHERE thread.id IN ({{ids}})"


_TIMER = """
    SELECT timer.id, timer.name, timer.short_name, timer.file, timer.line,
           ifnull(timer_group.name, '')
      FROM timer
      LEFT JOIN timer_group ON timer_group.timer_id = timer.id
     WHERE timer.id IN ({ids})
     ORDER BY timer.id, timer_group.name"""

_SHARED = """
    SELECT timer.id, timer.name FROM timer
     WHERE timer.name IN (SELECT timer.name FROM timer GROUP BY timer.name HAVING count(*) > 1)"""

_FILE = "SELECT timer.id, timer.file FROM timer WHERE timer.id IN ({ids})"

_GROUP = """
    SELECT timer_group.timer_id, timer_group.name FROM timer_group
     WHERE timer_group.timer_id IN ({ids})
     ORDER BY timer_group.timer_id, timer_group.name"""

_KERNEL = """
    SELECT timer.id, CASE WHEN timer.id IN (SELECT timer_group.timer_id FROM timer_group
                                             WHERE timer_group.name IN ('GPU_KERNEL',
                                                                        'TAU_GPU_KERNEL'))
                          THEN timer.short_name END
      FROM timer WHERE timer.id IN ({ids})"""

# Processes of a job report their rank. Otherwise it is the node number of the launched process;
# its child processes are numbered after it.
_RANK = """
    WITH RECURSIVE above (id, trial_id, node) AS (
        SELECT thread.id, thread.trial_id, thread.node FROM thread WHERE thread.id IN ({ids})
        UNION
        SELECT above.id, above.trial_id, process.node
          FROM above
          JOIN metadata AS child ON child.trial_id = above.trial_id
           AND child.node = above.node AND child.name = 'Parent Process ID'
          JOIN metadata AS process ON process.trial_id = above.trial_id
           AND process.node < above.node AND process.name = 'Process ID'
           AND process.value = child.value
    )
    SELECT above.id, coalesce(CAST(min(said.value) AS INTEGER), min(above.node))
      FROM above
      JOIN thread ON thread.id = above.id
      LEFT JOIN metadata AS said ON said.trial_id = thread.trial_id AND said.node = thread.node
       AND said.name = 'Rank'
     WHERE thread.id IN ({ids})
     GROUP BY above.id"""

_METADATA = """
    SELECT metadata.trial_id, metadata.value FROM metadata
     WHERE metadata.node IS NULL AND metadata.name = {name} AND metadata.trial_id IN ({ids})"""

# By node and ordinal; trials imported from other tools may name their GPUs in metadata only.
_GPU = """
    SELECT gpu.trial_id, gpu.name
      FROM (SELECT device.trial_id, device.name, device.node, device.ordinal, '' AS source
              FROM device WHERE device.trial_id IN ({ids})
            UNION ALL
            SELECT metadata.trial_id, metadata.value, coalesce(metadata.node, -1), 0, metadata.name
              FROM metadata
             WHERE metadata.trial_id IN ({ids}) AND metadata.name LIKE 'GPU%Name'
               AND metadata.trial_id NOT IN (SELECT device.trial_id FROM device)) AS gpu
     ORDER BY gpu.trial_id, gpu.node, gpu.ordinal, gpu.source"""

_CONFIGURATION = """
    SELECT launch.id, launch.grid_x, launch.grid_y, launch.grid_z, launch.block_x,
           launch.block_y, launch.block_z, launch.registers, launch.shared_static_bytes,
           launch.shared_dynamic_bytes, launch.local_bytes, launch.occupancy, launch.limiter
      FROM launch WHERE launch.id IN ({ids})"""

_EVENT = """
    SELECT user_event.id, user_event.name, user_event.unit
      FROM user_event WHERE user_event.id IN ({ids})"""

_STEP = """
    SELECT callpath.id, callpath.parent_id, callpath.timer_id
      FROM callpath WHERE callpath.id IN ({ids})"""

_STEPS_UP = """
    WITH RECURSIVE needed (id) AS (
        SELECT callpath.id FROM callpath WHERE callpath.id IN ({ids})
        UNION
        SELECT callpath.parent_id
          FROM needed JOIN callpath ON callpath.id = needed.id
         WHERE callpath.parent_id IS NOT NULL
    )
    SELECT callpath.id, callpath.parent_id, callpath.timer_id
      FROM needed JOIN callpath ON callpath.id = needed.id"""

_CALLPATHS = "SELECT DISTINCT call.callpath_id FROM call"

_IDS = {
    "thread": "SELECT thread.id FROM thread WHERE thread.trial_id IN ({trials})",
    "timer": "SELECT trial_timer.timer_id FROM trial_timer"
    " WHERE trial_timer.trial_id IN ({trials})",
    "launch": "SELECT launch.id FROM launch WHERE launch.trial_id IN ({trials})",
    "event": "SELECT DISTINCT event.user_event_id FROM user_event_value AS event"
    " WHERE event.trial_id IN ({trials})",
}
"""The ids of all threads, timers ... of some trials, except call paths."""


def _nearest_layer(above: TimerRow | None, timer: TimerRow) -> TimerRow | None:
    """The timer of the nearest layer at or above a call path."""
    return timer if is_layer(timer.groups) else above


def _place(label: Any) -> str:
    """`0.0.1`: a thread as users write it."""
    return label if isinstance(label, str) else ".".join(map(str, label[:3]))


def _full_name(label: Any) -> str:
    return label if isinstance(label, str) else str(label.timer)


def _upper(label: Any) -> str:
    return str(label or "").upper()


DIMENSIONS: dict[str, Dimension] = {
    "trial": Dimension("trial", across="never: a trial is itself"),
    "application": Dimension("trial", _of_trial("application.name")),
    "experiment": Dimension("trial", _of_trial("experiment.name")),
    "name": Dimension("trial", _of_trial("trial.name")),
    "state": Dimension("trial", _of_trial("trial.state")),
    "gpu": Dimension(
        "trial", _GPU, joined=lambda names: " + ".join(dict.fromkeys(names)), title="GPU"
    ),
    "thread": Dimension(
        "thread",
        _of_thread(
            "thread.node, thread.context, thread.thread, thread.kind, thread.name, thread.count,"
            " ifnull(thread.least_ns, 0), ifnull(thread.most_ns, 0)"
        ),
        ThreadRow,
        _place,
        across="the same node, context and thread",
    ),
    "node": Dimension("thread", _of_thread("thread.node"), across="equal numbers"),
    "rank": Dimension("thread", _RANK, across="equal numbers"),
    "device": Dimension(
        "thread",
        _of_thread("thread.node, thread.context"),
        lambda node, context: (node, context),
        _place,
        across="the same node and context",
    ),
    "kind": Dimension(
        "thread", _of_thread("CASE thread.kind WHEN 'stream' THEN 'gpu' ELSE 'host' END")
    ),
    "timer": Dimension(
        "timer",
        _TIMER,
        TimerRow,
        _full_name,
        joined=lambda groups: "|".join(filter(None, groups)),
        alike=(2, 4),
        across="equal full names and groups; match.py finds more",
    ),
    "file": Dimension("timer", _FILE, lambda file: file or NO_FILE),
    "module": Dimension("timer", _FILE, module_of),
    "group": Dimension("timer", _GROUP, spelling=_upper, several=True),
    "kernel": Dimension("timer", _KERNEL, across="equal short names; match.py finds more"),
    "layer": Dimension(
        "callpath",
        label=lambda timer: timer and layer_of(timer.short_name),
        inherited=_nearest_layer,
    ),
    "layer_type": Dimension(
        "callpath",
        label=lambda timer: timer and layer_type(timer.timer),
        inherited=_nearest_layer,
        across="equal classes",
        title="Class",
    ),
    "phase": Dimension(
        "callpath",
        label=lambda within: within and within.kind,
        inherited=lambda above, timer: phase_in(above, timer.groups),
        across="equal kinds",
    ),
    "operator": Dimension(
        "callpath", label=lambda name: name or operators.NONE, inherited=operators.nearest
    ),
    "outer_operator": Dimension(
        "callpath", label=lambda name: name or operators.NONE, inherited=operators.outermost
    ),
    "callpath": Dimension("callpath", across="equal timers from the root", title="Call path"),
    "parent": Dimension("callpath", across="equal timers from the root"),
    "depth": Dimension("callpath", across="equal numbers"),
    "configuration": Dimension(
        "launch", _CONFIGURATION, Configuration.of_columns, across="all of it equal"
    ),
    "event": Dimension("event", _EVENT, Event, lambda label: getattr(label, "name", label)),
    "step": Dimension("step", across="equal kinds and numbers"),
    "line": Dimension("line", across="equal places and texts; line_names.py finds those moved"),
}
"""By name. `callpath`, `parent` and `depth` are columns of a call path's row; a parent is a
call-path id. `configuration` applies to launches, `event` to user events, `step` to the time of
steps (`step_values.py`), `line` to that of lines (`line_values.py`)."""


WITHIN = (
    *("file", "module", "group", "kernel", "operator", "outer_operator"),
    *("layer", "layer_type", "phase"),
    *("node", "rank", "device", "kind", "thread"),
)
"""Dimensions for the values of one trial, apart from timers and call paths."""


OF_TIMERS = tuple(name for name in WITHIN if DIMENSIONS[name].of == "timer")
"""The dimensions in `WITHIN` that distinguish routines."""

OF_LAUNCHES = (*WITHIN, "routine", "configuration")
"""Dimensions for the launches of one trial; the routine is the nearest one above the launch."""


def heading(name: str) -> str:
    """A dimension as the heading of a column; in CSV and frames the column has its plain name."""
    if name in DIMENSIONS and DIMENSIONS[name].title:
        return DIMENSIONS[name].title
    return name.removeprefix(METADATA).replace("_", " ").capitalize()


def written(name: str, label: Any) -> str:
    """A label of this dimension as shown in a table."""
    if label is None:
        return "" if name == "group" else f"(no {name})"
    if isinstance(label, Configuration):
        return str(label)
    return ".".join(map(str, label[:3])) if isinstance(label, tuple) else str(label)


def following(db: ProfileDB, trial: int, name: str) -> tuple[Id, dict[Any, list[str]]]:
    """The kind of id that a dimension depends on, and its labels as text by that id's label."""
    source = dimension(name).of
    ids = ids_of(db, source, [trial])
    from_source = labels(db, source, ids)
    of_id = labels(db, name, ids)
    return source, {from_source[id][0]: [written(name, label) for label in of_id[id]] for id in ids}


def dimension(name: str) -> Dimension:
    """The dimension with this name.

    Raises:
        UsageError: it does not exist; the message lists all dimensions.
    """
    if name.startswith(METADATA):
        quoted = name.removeprefix(METADATA).replace("'", "''")
        return Dimension("trial", _METADATA.replace("{name}", f"'{quoted}'"))
    if name not in DIMENSIONS:
        names = ", ".join([*DIMENSIONS, METADATA + "NAME"])
        raise UsageError(f"unknown dimension '{name}' (known: {names})")
    return DIMENSIONS[name]


def ids_of(db: ProfileDB, what: Id, trials: Sequence[int]) -> list[int]:
    """The ids of all threads, timers, call paths, launches or user events of these trials."""
    if what == "trial":
        return list(trials)
    if what == "callpath":
        sql = f"{_CALLPATHS} WHERE call.trial_id IN ({listed(trials)})"
        columns = db.columns(
            Reading(sql, _CALLPATHS, "callpath", trials, metrics=(), columns=1, keys=1, integers=1)
        )
        return list(columns[0]) if columns else []
    rows = db.rows(_IDS[what].replace("{trials}", listed(trials)))
    return list(dict.fromkeys(id for (id,) in rows))


def ids_where(
    db: ProfileDB, what: Id, trials: Sequence[int], where: Sequence[Condition]
) -> list[int] | None:
    """The ids that meet the conditions that apply to them; None if no condition applies."""
    matching: list[int] | None = None
    for condition in where:
        if condition.relation != "in" or dimension(condition.dimension).of != what:
            continue
        definition = dimension(condition.dimension)
        wanted = {definition.spelling(label) for label in condition.labels}
        ids = ids_of(db, what, trials) if matching is None else matching
        of_id = labels(db, condition.dimension, ids)
        matching = [
            id for id in ids if any(definition.spelling(part) in wanted for part in of_id[id])
        ]
    return matching


def labels(
    db: ProfileDB, name: str, ids: Sequence[Any], trials: Sequence[int] = ()
) -> dict[Any, tuple[Any, ...]]:
    """The labels of each id in a dimension, one or several; None if it has no label.

    None may also be an id: a user event may lack a call path and timer.

    Args:
        trials: those that the ids are of, if they are known.
    """
    definition = dimension(name)
    if definition.inherited is not None:
        return _inherited(db, definition.inherited, definition.label, ids)
    if definition.is_id:
        return {id: (id,) for id in ids}
    label_of: dict[Any, tuple[Any, ...]] = {None: (None,)}
    rows = _rows(db, definition, ids, trials)
    if definition.several:
        for row in rows:
            label_of[row[0]] = (*label_of.get(row[0], ()), definition.label(*row[1:]))
    elif labelled_parts := _parts(definition, rows, ids):
        labelled, *parts = labelled_parts
        of_ids = map(definition.label, *parts)
        label_of.update(zip(labelled, zip(of_ids, strict=True), strict=True))
    if definition.several or definition.of == "trial":
        return {id: label_of.get(id, (None,)) for id in ids}
    return dict(zip(ids, map(label_of.__getitem__, ids), strict=True))


def timers(db: ProfileDB, ids: Sequence[Any], trials: Sequence[int]) -> Sequence[TimerRow | None]:
    """The timer of each id, in columns if all ids have one."""
    definition = DIMENSIONS["timer"]
    labelled, *parts = _parts(definition, _rows(db, definition, ids, trials), ids) or [()] * 6
    of_ids = TimerColumns(*parts)
    if len(labelled) == len(ids):
        return of_ids
    timer_of = dict(zip(labelled, of_ids, strict=True))
    return [None if id is None else timer_of[id] for id in ids]


def _rows(
    db: ProfileDB, definition: Dimension, ids: Sequence[Any], trials: Sequence[int]
) -> list[Any]:
    """Those that the statement returns for these ids."""
    present = [id for id in ids if id is not None]
    every = _IDS.get(definition.of, "") if trials else ""
    rows = [*rows_of_ids(db, definition.sql, present, every.replace("{trials}", listed(trials)))]
    refuse_infinite(chain.from_iterable(rows))
    return rows


def _parts(definition: Dimension, rows: list[Any], ids: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The ids that have a label, in their order, and the parts of their labels, column by column;
    nothing if none has."""
    columns = [*zip(*rows, strict=True)]
    if not columns or columns[0] != tuple(ids):
        row_of = {row[0]: row for row in rows}
        if definition.joined is not None and len(row_of) < len(rows):
            row_of = _joined(rows, definition.joined)
        # In the order of the ids, in which they are read: what is side by side is read faster.
        labelled = filter(row_of.__contains__, ids)
        columns = [*zip(*map(row_of.__getitem__, labelled), strict=True)]
    for part in definition.alike if columns else ():
        first: dict[Any, Any] = {}
        column = columns[part + 1]
        columns[part + 1] = tuple(map(first.setdefault, column, column))
    return columns


def _joined(rows: list[Any], joined: Callable[[Iterable[str]], str]) -> dict[Any, Any]:
    """One row for each id."""
    lasts: dict[Any, list[str]] = {}
    for row in rows:
        lasts.setdefault(row[0], []).append(row[-1])
    return {row[0]: (*row[:-1], joined(lasts[row[0]])) for row in rows}


class TimerNames:
    """The timers of ids, asked for when they are shown."""

    def __init__(self, db: ProfileDB) -> None:
        self._db = db

    def timers(self, ids: Sequence[int]) -> list[TimerRow]:
        """The timer of each id."""
        of_id = labels(self._db, "timer", ids)
        return [of_id[id][0] for id in ids]

    def alike(self, ids: Sequence[int]) -> Sequence[Hashable]:
        """For each id, something that is equal if the full names are."""
        shared: dict[int, str] = dict(self._db.rows(_SHARED))
        return [shared.get(id, id) for id in ids] if shared else ids


def _inherited(
    db: ProfileDB,
    inherited: Callable[[Any, TimerRow], Any],
    label: Callable[[Any], Hashable],
    ids: Sequence[int | None],
) -> dict[Any, tuple[Any, ...]]:
    """The labels of call paths; each call path and ancestor is visited once.

    Raises:
        ValueError: a call path is its own ancestor: the file is damaged.
    """
    steps = steps_up(db, ids)
    timers = labels(db, "timer", list(dict.fromkeys(timer for _, timer in steps.values())))
    source_of: dict[int | None, Any] = {None: None}
    for id in ids:
        here, new = id, list[int]()
        while here is not None and here not in source_of:
            new.append(here)
            here, _ = steps[here]
            if len(new) > len(steps):
                raise ValueError("a call path is its own ancestor")
        for path in reversed(new):
            (timer,) = timers[steps[path][1]]
            source_of[path] = inherited(source_of[here], timer)
            here = path
    label_of = {source: (label(source),) for source in {*map(source_of.__getitem__, ids)}}
    return {id: label_of[source_of[id]] for id in ids}


def steps_up(db: ProfileDB, ids: Iterable[int | None]) -> dict[int, tuple[int | None, int]]:
    """These call paths and their ancestors: call path -> its parent, None for a root, and its
    timer's id."""
    present = [id for id in dict.fromkeys(ids) if id is not None]
    steps = {id: (parent, timer) for id, parent, timer in rows_of_ids(db, _STEP, present)}
    above = {parent for parent, _ in steps.values() if parent is not None and parent not in steps}
    for id, parent, timer in rows_of_ids(db, _STEPS_UP, sorted(above)):
        steps[id] = parent, timer
    return steps


def rows_of_ids(db: ProfileDB, sql: str, ids: Sequence[int], every: str = "") -> Iterator[Any]:
    """The rows of a statement with ids in place of `{ids}`.

    Args:
        every: selects these ids and perhaps others, which takes the place of many. Without it, many
            are split.
    """
    if every and len(ids) > _MOST_IDS:
        yield from db.rows(sql.replace("{ids}", every))
        return
    for begin in range(0, len(ids), _MOST_IDS):
        yield from db.rows(sql.replace("{ids}", listed(ids[begin : begin + _MOST_IDS])))


def listed(ids: Iterable[int]) -> str:
    """Ids as text for `IN (...)`; no ids give NULL, which matches nothing."""
    return ", ".join(str(int(id)) for id in ids) or "NULL"
