"""Definitions of derived metrics: from the database, from the project, and predefined.

A definition is a name and an expression (`model/expression.py`); values are computed on demand
(`metrics.py`). If a name has several definitions, the database's takes precedence, then that of
[tool.taupy.derived] in pyproject.toml, then the predefined one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeGuard

from taupy.catalog.ratios import RATIOS, Ratio
from taupy.errors import MissingMetric, UsageError
from taupy.escaping import visible
from taupy.model import expression
from taupy.model.project import project_settings
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.text import storable

Source = Literal["database", "project", "predefined"]

NAME = re.compile(r"[A-Za-z_][\w.:/-]*")
"""Valid names of derived metrics; names with `/` or `-` are quoted in expressions."""

_ALL = "SELECT name, expression, unit, description FROM derived_metric ORDER BY name"
_MEASURED = """
    SELECT 1 FROM thread_metric JOIN metric ON metric.id = metric_id WHERE name = ? LIMIT 1
"""


class Definition(NamedTuple):
    """A derived metric. An empty `unit` means the unit that results from the expression."""

    name: str
    expression: str
    unit: str
    description: str
    source: Source


@of_a_sound_file
def definitions(db: ProfileDB) -> dict[str, Definition]:
    """All derived metrics by name: predefined, the project's and the database's.

    Raises:
        UsageError: the project's definitions are invalid.
    """
    by_name = {ratio.name: _of_ratio(ratio) for ratio in RATIOS}
    by_name |= project_definitions()
    for name, text, unit, description in db.rows(_ALL):
        by_name[name] = Definition(name, text, unit, description, "database")
    return by_name


def is_measured(db: ProfileDB, name: str) -> bool:
    """Whether any trial of this database has a measured metric with this name."""
    return bool(db.rows(_MEASURED, (name,)))


def of_legacy_name(name: str) -> str | None:
    """The predefined metric with this name in other tools: `warps/inst`, `executed_ipc`."""
    for ratio in RATIOS:
        if name.lower() in ratio.legacy:
            return ratio.name
    return None


def project_definitions() -> dict[str, Definition]:
    """[tool.taupy.derived] of pyproject.toml: name = "expression", or a table of
    `expression`, `unit`, `description`. [tool.taupy.metrics] is the same, unless `metrics` is
    a list, which names the metrics that `taupy run` measures.

    Raises:
        UsageError: it contains something else, or an invalid expression.
    """
    settings = project_settings()
    by_name: dict[str, Definition] = {}
    for key in ("metrics", "derived"):
        table = settings.get(key, {})
        if isinstance(table, dict):
            by_name |= _of_table(f"[tool.taupy.{key}] in pyproject.toml", table)
        elif key == "derived":
            raise UsageError("[tool.taupy.derived] in pyproject.toml is not a table of names")
    return by_name


def _of_table(place: str, table: Mapping[str, object]) -> dict[str, Definition]:
    by_name = {}
    for name, value in table.items():
        entry = {"expression": value} if isinstance(value, str) else value
        if not _is_entry(entry):
            raise UsageError(
                f"{place}: {name} is neither an expression nor a table of expression, "
                "unit and description"
            )
        try:
            by_name[name] = checked(
                Definition(
                    name,
                    entry["expression"],
                    entry.get("unit", ""),
                    entry.get("description", ""),
                    "project",
                )
            )
        except UsageError as problem:
            raise UsageError(f"{place}, {name}: {problem}") from None
    return by_name


def _is_entry(value: object) -> TypeGuard[dict[str, str]]:
    return (
        isinstance(value, dict)
        and "expression" in value
        and value.keys() <= {"expression", "unit", "description"}
        and all(isinstance(text, str) for text in value.values())
    )


def checked(definition: Definition) -> Definition:
    """Return the definition if it is valid.

    Raises:
        UsageError: its name or its expression is invalid.
    """
    if not NAME.fullmatch(definition.name) or definition.name in expression.FUNCTIONS:
        raise UsageError(
            f"'{definition.name}' is not a valid name: use letters, digits, _ . : / -, beginning "
            "with a letter"
        )
    if definition.name in expression.names(expression.parse(definition.expression)):
        raise UsageError(f"'{definition.name}' cannot be derived from itself")
    return definition


def define(
    db: ProfileDB, name: str, expression: str, unit: str = "", description: str = ""
) -> Definition:
    """Store a derived metric in the database, replacing one of the same name.

    Raises:
        UsageError: the name or the expression is invalid.
        DatabaseError: the database cannot be written.
    """
    definition = checked(Definition(name, expression, unit, storable(description), "database"))
    with db.tables() as tables:
        row = {name: value for name, value in definition._asdict().items() if name != "source"}
        tables["derived_metric"].insert(row, replace=True)
    return definition


def forget(db: ProfileDB, name: str) -> None:
    """Delete a derived metric from the database.

    Raises:
        MissingMetric: the database has none of that name.
    """
    own = [row[0] for row in db.rows(_ALL)]
    if name in own:
        with db.tables() as tables:
            tables["derived_metric"].delete(name)
    else:
        has = ", ".join(map(visible, own)) or "none"
        raise MissingMetric(
            f"the database has no derived metric '{name}' of its own (it has: {has})"
        )


def predefined(name: str) -> Definition | None:
    """The predefined metric of this name."""
    return next((_of_ratio(ratio) for ratio in RATIOS if ratio.name == name), None)


def _of_ratio(ratio: Ratio) -> Definition:
    return Definition(ratio.name, ratio.expression, "", ratio.description, "predefined")
