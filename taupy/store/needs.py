"""Which rows of which trials a statement reads, as far as its text shows.

A table with rows of trials is read entirely unless the statement restricts it to certain trials
wherever it names the table: by `trial_id = ?`, `trial_id IN (1, 2)`, the same for threads, or an
equality with such a column of another table. In case of doubt, everything is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from taupy.errors import DatabaseError
from taupy.profiledb.schema_views import VIEWS

THREAD_BITS = 32
"""In a database filled from a store, ids of threads and devices are TRIAL << THREAD_BITS | n."""

SHARED = {"callpath": "callpath", "timer": "timer", "timer_group": "timer"}
"""Shared tables whose rows are requested by id, with the table that holds these ids."""

REFERRING = {
    "timer": ("trial_timer",),
    "timer_group": ("trial_timer",),
    "callpath": ("call",),
    "metric": ("thread_metric",),
    "user_event": ("user_event_value", "sample"),
}
"""Shared tables, with the tables of trials whose rows refer to all of their rows."""

_REFERENCES = {"timer_id", "callpath_id", "parent_id", "metric_id", "user_event_id"}

EVERYTHING = None
"""The rows of all trials."""

Needs = dict[str, set[int] | None]
"""Table -> the trials whose rows are read, or EVERYTHING; for shared tables, the ids requested
explicitly. Their other rows are copied because rows already present refer to them."""

Evaluate = Callable[[str, Mapping[str, object]], object]
"""Computes an expression of SQLite from its named parameters; DatabaseError if it cannot."""

_EXPRESSION = "="
_LISTS = re.compile(r"\bIN\s*\((\s*-?\d+(?:\s*,\s*-?\d+)*\s*)\)", re.IGNORECASE)
_MARKS = re.compile(r"'[^']*'|\"[^\"]*\"|\?|:[A-Za-z_]\w*")
_OF_TRIALS = {"trial_id": 0, "thread_id": THREAD_BITS, "device_id": THREAD_BITS}
_OF_NO_TRIAL = 64  # a shift that leaves 0
_OWN_IDS = {
    "callpath": 0,
    "timer": 0,
    **{"trial": 0, "thread": THREAD_BITS, "device": THREAD_BITS},
    # The local database numbers these itself: such an id can only have been read from it.
    **dict.fromkeys(("launch", "user_event_value", "activity"), _OF_NO_TRIAL),
}


class _Place(NamedTuple):
    """A column that identifies the trial, with its table's alias in one SELECT."""

    alias: str
    shift: int


class _Named(NamedTuple):
    """A table in one SELECT, and the trials it is restricted to there.

    Attributes:
        values: parameters that hold its trials' numbers, each with the shift that yields them.
        joined: for a shared table: only rows are read to which rows of other tables refer.
    """

    table: str
    values: tuple[tuple[str, int], ...] | None
    joined: bool = False


class NotAQuery(DatabaseError):
    """A statement that is not a SELECT."""


def needs(
    sql: str,
    parameters: Sequence[object] | Mapping[str, object],
    tables: frozenset[str],
    evaluate: Evaluate | None = None,
    *,
    shared_alone: bool = False,
) -> Needs:
    """The trials whose rows a statement reads, for each table that it names.

    Args:
        sql: one SELECT, in SQLite's dialect.
        parameters: of the statement.
        tables: names of the tables to look for.
        evaluate: for expressions that name a trial, such as `(SELECT max(id) FROM trial)`.
        shared_alone: it may read all rows of shared tables, which taupy's own statements join.

    Raises:
        NotAQuery: it is not a SELECT.
        DatabaseError: sqlglot is not installed.
    """
    values: dict[str, Any] = {}
    text = _LISTS.sub(lambda match: f"IN (:{_listed(match[1], values)})", sql)
    text = _MARKS.sub(lambda match: _marked(match[0], parameters, values), text)
    read: Needs = {}
    for table, held, joined in _named(text, tables):
        if held is None:
            if table not in REFERRING:
                read[table] = EVERYTHING
            elif shared_alone and not joined:
                read.update(dict.fromkeys(REFERRING[table], EVERYTHING))
            continue
        meant = [(_meant(name, values, evaluate), shift) for name, shift in held]
        before = read.setdefault(table, set())
        if before is EVERYTHING:
            continue
        for numbers, shift in meant:
            if numbers is EVERYTHING:
                read[table] = EVERYTHING
                break
            before |= {number >> shift for number in numbers}
    return read


def _meant(name: str, values: dict[str, Any], evaluate: Evaluate | None) -> list[int] | None:
    """The numbers that a condition compares with; EVERYTHING if unknown."""
    if name.isdecimal():
        return [int(name)]
    if not name.startswith(_EXPRESSION):
        return _numbers(values.get(name))
    if evaluate is None:
        return EVERYTHING
    try:
        return _numbers(evaluate(name.removeprefix(_EXPRESSION), values))
    except DatabaseError:  # it reads more than the list of trials
        return EVERYTHING


def _listed(numbers: str, values: dict[str, Any]) -> str:
    """The name of a parameter for a list of numbers: statements contain up to a million."""
    name = f"list_{len(values)}"
    values[name] = [int(number) for number in numbers.split(",")]
    return name


def _marked(
    text: str, parameters: Sequence[object] | Mapping[str, object], values: dict[str, Any]
) -> str:
    """Replace a parameter of the statement by a named one, and store its value in `values`."""
    if text[0] in "'\"":
        return text
    if text[0] == ":":
        if isinstance(parameters, Mapping) and text[1:] in parameters:
            values[text[1:]] = parameters[text[1:]]
        return text
    position = sum(name.startswith("mark_") for name in values)
    if isinstance(parameters, Mapping) or position >= len(parameters):
        return text  # SQLite will reject it
    name = f"mark_{position}"
    values[name] = parameters[position]
    return f":{name}"


def _numbers(value: Any) -> list[int]:
    """The integers that SQLite finds equal to a value, which may be text."""
    if isinstance(value, list):
        return value
    if isinstance(value, int):
        return [value]
    try:
        number = float(value)
    except (TypeError, ValueError):
        return []
    return [int(number)] if number.is_integer() else []


@lru_cache(maxsize=1000)
def _named(sql: str, tables: frozenset[str]) -> tuple[_Named, ...]:
    try:
        import sqlglot
        from sqlglot import exp
    except ImportError as error:
        raise DatabaseError(
            f"reading a store needs sqlglot ({error}); install it with: "
            "pip install 'taupy-profiler[store]'"
        ) from error
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except sqlglot.errors.SqlglotError as error:
        raise NotAQuery(f"{sql}: {error}") from error
    if not isinstance(tree, exp.Query):
        raise NotAQuery(f"a store is read-only, and this is not a query: {sql}")
    return tuple(
        _Named(
            table.name.lower(),
            _parameters_of(table.find_ancestor(exp.Select), table),
            table.name.lower() in REFERRING
            and _is_joined(table.find_ancestor(exp.Select), table, tables),
        )
        for table in tree.find_all(exp.Table)
        if table.name.lower() in tables
    )


def _parameters_of(select: Any, table: Any) -> tuple[tuple[str, int], ...] | None:
    """The parameters that hold a table's trials, from the conditions of its SELECT."""
    from sqlglot import exp

    if select is None:
        return None
    sources = {source.alias_or_name: source.name for source in _sources(select)}
    held: dict[str, set[tuple[str, int]]] = {}
    links: list[tuple[str, str]] = []
    where = select.args.get("where")
    conditions = [(None, where.this)] if where is not None else []
    for join in select.args.get("joins") or ():
        if join.args.get("on") is not None and join.side not in ("RIGHT", "FULL"):
            only = join.this.alias_or_name if join.side == "LEFT" else None
            conditions.append((only, join.args["on"]))
    for only, condition in conditions:
        for part in _parts(condition):
            if isinstance(part, exp.EQ):
                left, right = (_place(side, sources) for side in (part.this, part.expression))
                if left and right and left.shift == right.shift:
                    links += [
                        (a, b)
                        for a, b in ((left.alias, right.alias), (right.alias, left.alias))
                        if only in (None, b)
                    ]
                    continue
            if (constant := _constant(part, sources)) and only in (None, constant[0].alias):
                place, names = constant
                held.setdefault(place.alias, {*((name, place.shift) for name in names)})
    alias = table.alias_or_name
    reached, open_ends = {alias}, [alias]
    while open_ends:
        at = open_ends.pop()
        if at in held:
            return tuple(sorted(held[at]))
        for source, target in links:
            if target == at and source not in reached:
                reached.add(source)
                open_ends.append(source)
    return None


def _is_joined(select: Any, table: Any, tables: frozenset[str]) -> bool:
    """Whether only rows of a shared table are read whose id another table's column equals.

    That column is one of a table with rows of trials, or of a shared table that is joined itself.
    """
    from sqlglot import exp

    if select is None:
        return False
    sources = {source.alias_or_name: source.name.lower() for source in _sources(select)}
    preserved: set[str] = set()  # tables whose rows an outer join keeps without a match
    before: list[str] = [next(iter(sources))] if sources else []
    conditions = []
    where = select.args.get("where")
    if where is not None:
        conditions.append(where.this)
    for join in select.args.get("joins") or ():
        preserved.update(before if join.side in ("LEFT", "FULL") else ())
        before.append(join.this.alias_or_name)
        preserved.update([before[-1]] if join.side in ("RIGHT", "FULL") else ())
        if join.args.get("on") is not None:
            conditions.append(join.args["on"])
    joined = {alias for alias, name in sources.items() if name in tables - {*REFERRING, *VIEWS}}
    own = {alias: "timer_id" if name == "timer_group" else "id" for alias, name in sources.items()}
    links = [
        (left, right)
        for condition in conditions
        for part in _parts(condition)
        if isinstance(part, exp.EQ)
        and isinstance(part.this, exp.Column)
        and isinstance(part.expression, exp.Column)
        for left, right in ((part.this, part.expression), (part.expression, part.this))
        if left.table in own
        and left.name == own[left.table]
        and left.table not in preserved
        and right.name in _REFERENCES
    ]
    for _ in links:
        joined |= {left.table for left, right in links if right.table in joined}
    return table.alias_or_name in joined


def _sources(select: Any) -> Iterator[Any]:
    from sqlglot import exp

    first = select.args.get("from_") or select.args.get("from")
    if first is not None:
        yield first.this
    for join in select.args.get("joins") or ():
        if isinstance(join.this, exp.Table | exp.Subquery):
            yield join.this


def _parts(condition: Any) -> Iterator[Any]:
    """The conditions joined by AND."""
    from sqlglot import exp

    if isinstance(condition, exp.And):
        yield from _parts(condition.this)
        yield from _parts(condition.expression)
    elif isinstance(condition, exp.Paren):
        yield from _parts(condition.this)
    else:
        yield condition


def _place(side: Any, sources: Mapping[str, str]) -> _Place | None:
    from sqlglot import exp

    if not isinstance(side, exp.Column):
        return None
    alias = side.table or (next(iter(sources)) if len(sources) == 1 else "")
    if alias not in sources:
        return None
    if side.name in _OF_TRIALS:
        return _Place(alias, _OF_TRIALS[side.name])
    if (sources[alias], side.name) == ("timer_group", "timer_id"):
        return _Place(alias, 0)
    if side.name == "id" and sources[alias] in _OWN_IDS:
        return _Place(alias, _OWN_IDS[sources[alias]])
    return None


def _constant(part: Any, sources: Mapping[str, str]) -> tuple[_Place, list[str]] | None:
    """The column that a condition restricts by `=` or IN, and the names of the parameters."""
    from sqlglot import exp

    if isinstance(part, exp.EQ):
        for side, other in ((part.this, part.expression), (part.expression, part.this)):
            place = _place(side, sources)
            if place and (name := _named_value(other)):
                return place, [name]
    if isinstance(part, exp.In) and part.expressions and (place := _place(part.this, sources)):
        names = [name for value in part.expressions if (name := _named_value(value))]
        if len(names) == len(part.expressions):
            return place, names
    return None


def _named_value(value: Any) -> str:
    """The name of a parameter, the digits of a number, or `=` and an expression that reads no
    table except `trial`; "" for anything else."""
    from sqlglot import exp

    if (isinstance(value, exp.Literal) and value.is_int) or isinstance(value, exp.Placeholder):
        return str(value.name)
    if isinstance(value, exp.Coalesce | exp.Subquery) and all(
        table.name.lower() == "trial" for table in value.find_all(exp.Table)
    ):
        return _EXPRESSION + str(value.sql(dialect="sqlite"))
    return ""
