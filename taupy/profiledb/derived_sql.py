"""Derived metrics as SQL: one statement over the tables, for readers without taupy.

If all metrics cover the same call paths, it returns the same as `metrics.flat_profile`: one row
per timer and thread that has a value. For sums over threads, remove the thread from GROUP BY.
"""

from __future__ import annotations

from taupy.escaping import visible
from taupy.model.expression import Binary, Function, Name, Node, Number
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.meaning import COUNTS
from taupy.profiledb.metrics import bound_expression

_STATEMENT = """\
-- {name} [{unit}] = {expression}
SELECT * FROM (
    SELECT thread.node, thread.context, thread.thread, timer.name AS timer,
           {exclusive} AS exclusive,
           {inclusive} AS inclusive
      FROM timer_value AS value
      JOIN metric ON metric.id = value.metric_id
      JOIN timer_call AS call
        ON call.trial_id = value.trial_id AND call.thread_id = value.thread_id
       AND call.timer_id = value.timer_id
      JOIN thread ON thread.id = value.thread_id
      JOIN timer ON timer.id = value.timer_id
     WHERE value.trial_id = {trial}
     GROUP BY value.thread_id, value.timer_id
)
 WHERE inclusive IS NOT NULL OR exclusive IS NOT NULL
 ORDER BY node, context, thread, inclusive IS NULL, inclusive DESC, timer"""


def statement(db: ProfileDB, trial_id: int, name: str) -> str:
    """A statement that computes the metric for a trial.

    Raises:
        NoSuchTrial, MissingMetric, UsageError: as for `metrics.resolve`.
    """
    metric, node, scales, factor = bound_expression(db, trial_id, name)
    columns = {}
    for column in ("exclusive", "inclusive"):
        text = _sql(node, column, scales)
        columns[column] = text if factor == 1 else f"{factor!r} * ({text})"
    return _STATEMENT.format(
        name=visible(metric.name),  # used in a comment, which a line break would end
        unit=visible(metric.unit),
        expression=visible(metric.expression or metric.name),
        trial=trial_id,
        **columns,
    )


def _sql(node: Node, column: str, scales: dict[str, float]) -> str:
    if isinstance(node, Number):
        return repr(node.value * scales.get(f"[{node.unit}]", 1.0))
    if isinstance(node, Name):
        return _leaf(node.name, column, scales)
    if isinstance(node, Function):
        parts = [_sql(argument, column, scales) for argument in node.arguments]
        if len(parts) == 1:
            return parts[0]
        if node.function == "first":
            return f"coalesce({', '.join(parts)})"
        if node.function == "sum":
            present = f"coalesce({', '.join(parts)})"
            total = " + ".join(f"ifnull({part}, 0)" for part in parts)
            return f"iif({present} IS NULL, NULL, {total})"
        return f"{node.function}({', '.join(parts)})"
    assert isinstance(node, Binary)
    left, right = _sql(node.left, column, scales), _sql(node.right, column, scales)
    if node.operator == "/":
        return f"1.0 * ({left}) / nullif({right}, 0)"
    return f"(({left}) {node.operator} ({right}))"


def _leaf(name: str, column: str, scales: dict[str, float]) -> str:
    if name in COUNTS and name not in scales:
        return f"max(call.{name})"
    quoted = name.replace("'", "''")
    text = f"sum(CASE metric.name WHEN '{quoted}' THEN value.{column} END)"
    scale = scales.get(name, 1.0)
    return text if scale == 1 else f"{scale!r} * {text}"
