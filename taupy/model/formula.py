"""Expressions bound to metrics with units, and the values they compute from sums.

The ratio of a group of call paths is the ratio of their sums, never the mean of their ratios. A
formula is therefore applied to the columns of a `Table` once, after everything has been added;
the resulting values are for display only.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taupy.dataclass import NamedTuple, dataclass
from taupy.errors import UsageError
from taupy.model import dimension
from taupy.model.dimension import Dimension
from taupy.model.expression import (
    LENIENT,
    Binary,
    Function,
    Name,
    Node,
    Number,
    names,
    parse,
    written,
)
from taupy.model.table import Amount, Table

Evaluate = Callable[[Sequence[float]], float]


class Sum(NamedTuple):
    """One sum that a formula needs: of one metric, or of several.

    Attributes:
        function: "sum" or "first", over the metrics measured on a call path; "" for one metric.
    """

    function: str
    metrics: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sum's name in a `Question`: the metric's name, `sum(...)` or `first(...)`."""
        if not self.function:
            return self.metrics[0]
        return written(Function(self.function, tuple(Name(name) for name in self.metrics)))

    @classmethod
    def of(cls, text: str) -> Sum:
        """Parse the text of one sum.

        Raises:
            UsageError: it is a formula over several sums.
        """
        node = parse(text)
        if isinstance(node, Name):
            return cls("", (node.name,))
        if isinstance(node, Function) and node.function in LENIENT:
            return cls(node.function, tuple(names(node)))
        raise UsageError(f"'{text}' is not a sum: ask for the metrics that it consists of")


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression that can be computed.

    Attributes:
        sums: the arguments of `evaluate`, in order, in base units.
        additive: whether the values of parts add up to the value of the whole; false for ratios.
        evaluate: returns NaN where a divisor is 0; None for a measured metric.
        dimension: of the result, before conversion to `unit`.
    """

    sums: tuple[Sum, ...]
    unit: str
    additive: bool
    evaluate: Evaluate | None
    dimension: Dimension

    @classmethod
    def measured(cls, name: str, unit: str) -> Formula:
        """The formula of a measured metric."""
        return cls((Sum("", (name,)),), unit, True, None, dimension.dimension(unit))

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics in the formula, without repetitions."""
        return tuple(dict.fromkeys(name for term in self.sums for name in term.metrics))

    @property
    def texts(self) -> tuple[str, ...]:
        """The sums as a `Question` names them."""
        return tuple(term.text for term in self.sums)

    def values(self, table: Table, value: str) -> Sequence[float]:
        """The formula's value for each row; NaN where it has none.

        Args:
            value: "exclusive" or "inclusive".
        """
        if self.evaluate is None:
            numbers = self._column(table, self.sums[0], value)
            if isinstance(numbers, array):  # of integers
                return numbers
            return [math.nan if number is None else number for number in numbers]
        evaluate = self.evaluate
        return [
            math.nan if None in parts else _finite(evaluate, parts)
            for parts in self._parts(table, value)
        ]

    def is_measured(self, table: Table, value: str) -> list[bool]:
        """For each row, whether all its sums were measured; see `Answer.measured`."""
        columns = [self._column(table, term, value) for term in self.sums]
        if columns and all(isinstance(column, array) for column in columns):
            return [True] * len(table)
        return [None not in parts for parts in self._parts(table, value)]

    def _parts(self, table: Table, value: str) -> list[tuple[Any, ...]]:
        """The sums of each row, in base units."""
        if not self.sums:
            return [(None,)] * len(table)
        return list(zip(*(self._column(table, term, value) for term in self.sums), strict=True))

    def _column(self, table: Table, term: Sum, value: str) -> Sequence[Amount]:
        try:
            column = table.named(value, term.text)
        except KeyError:
            column = table.named(term.text)  # a count
        numbers = table.columns[column]
        scale = dimension.dimension(column.unit).scale
        if self.evaluate is None or scale == 1:
            return numbers
        return [None if number is None else number * scale for number in numbers]


def bound(node: Node, unit_of: Mapping[str, str], unit: str = "") -> Formula:
    """Bind an expression, checking its units.

    Args:
        unit_of: metric -> its unit. A missing metric is left out of a `sum` or `first` that has
            others; anywhere else it is a mistake of the caller.
        unit: of the result; if empty, it follows from the expression.

    Raises:
        UsageError: different units are added or compared, or `unit` does not fit.
    """
    binder = _Binder(unit_of)
    evaluate, quantity, kind = binder.bind(node)
    text, factor = dimension.spelled(quantity)
    if unit:
        wanted = dimension.dimension(unit)
        if wanted.powers != quantity.powers:
            raise UsageError(f"'{written(node)}' is in {text}, not in {unit}")
        text, factor = unit, 1 / wanted.scale
    sums = tuple(binder.sums)
    if factor != 1:
        scaled = lambda parts: evaluate(parts) * factor  # noqa: E731
        return Formula(sums, text, kind == _ADDITIVE, scaled, quantity)
    return Formula(sums, text, kind == _ADDITIVE, evaluate, quantity)


def degree(node: Node) -> int | None:
    """How the value scales with its metrics: 1 for a sum, 0 for a ratio; None for neither."""
    if isinstance(node, Number):
        return 0
    if isinstance(node, Name):
        return 1
    if isinstance(node, Function):
        degrees = {degree(argument) for argument in node.arguments}
        return degrees.pop() if len(degrees) == 1 else None
    left, right = degree(node.left), degree(node.right)
    if left is None or right is None:
        return None
    if node.operator in "+-":
        return left if left == right else None
    return left + right if node.operator == "*" else left - right


def _finite(evaluate: Evaluate, parts: Sequence[float]) -> float:
    try:
        value = evaluate(parts)
    except OverflowError:
        return math.nan
    return value if abs(value) < math.inf else math.nan


_CONSTANT, _ADDITIVE, _NEITHER = range(3)


class _Bound(NamedTuple):
    """A node that can be computed; `kind`: constant, additive, or neither."""

    evaluate: Evaluate
    unit: Dimension
    kind: int


class _Binder:
    """Binds nodes bottom-up."""

    def __init__(self, unit_of: Mapping[str, str]) -> None:
        self._unit_of = unit_of
        self.sums: list[Sum] = []

    def bind(self, node: Node) -> _Bound:
        if isinstance(node, Number):
            unit = dimension.dimension(node.unit)
            value = node.value * unit.scale
            return _Bound(lambda parts: value, unit, _CONSTANT)
        if isinstance(node, Name):
            return self._sum("", [node.name], node)
        if isinstance(node, Function):
            if node.function in LENIENT:
                wanted = [
                    argument.name for argument in node.arguments if isinstance(argument, Name)
                ]
                measured = [name for name in wanted if name in self._unit_of]
                return self._sum(node.function, measured or wanted[:1], node)
            return self._extreme(node)
        return self._binary(node)

    def _sum(self, lenient: str, metrics: Sequence[str], node: Node) -> _Bound:
        units = [dimension.dimension(self._unit_of[name]) for name in metrics]
        for name, other in zip(metrics, units, strict=True):
            self._same(node, metrics[0], units[0], name, other)
        wanted = Sum(lenient, tuple(metrics))
        if wanted not in self.sums:
            self.sums.append(wanted)
        at = self.sums.index(wanted)
        return _Bound(lambda parts: parts[at], Dimension(units[0].powers), _ADDITIVE)

    def _extreme(self, node: Function) -> _Bound:
        operands = [self.bind(argument) for argument in node.arguments]
        first, texts = operands[0], [written(argument) for argument in node.arguments]
        for text, operand in zip(texts, operands, strict=True):
            self._same(node, texts[0], first.unit, text, operand.unit)
        choose = min if node.function == "min" else max

        def evaluate(parts: Sequence[float]) -> float:
            values = [operand.evaluate(parts) for operand in operands]
            return math.nan if any(value != value for value in values) else choose(values)

        kind = first.kind if len(operands) == 1 else _NEITHER
        return _Bound(evaluate, Dimension(first.unit.powers), kind)

    def _binary(self, node: Binary) -> _Bound:
        left, right = self.bind(node.left), self.bind(node.right)
        first, second = left.evaluate, right.evaluate
        if node.operator in "+-":
            self._same(node, written(node.left), left.unit, written(node.right), right.unit)
            unit = Dimension(left.unit.powers)
            kind = left.kind if left.kind == right.kind else _NEITHER
            if node.operator == "+":
                return _Bound(lambda parts: first(parts) + second(parts), unit, kind)
            return _Bound(lambda parts: first(parts) - second(parts), unit, kind)
        if node.operator == "*":
            kind = min(left.kind + right.kind, _NEITHER)
            unit = dimension.product(left.unit, right.unit)
            return _Bound(lambda parts: first(parts) * second(parts), unit, kind)

        def divide(parts: Sequence[float]) -> float:
            below = second(parts)
            return first(parts) / below if below else math.nan

        unit = dimension.product(left.unit, right.unit, -1)
        return _Bound(divide, unit, left.kind if right.kind == _CONSTANT else _NEITHER)

    def _same(
        self, node: Node, left: str, left_unit: Dimension, right: str, right_unit: Dimension
    ) -> None:
        if left_unit.powers == right_unit.powers:
            return
        units = [
            dimension.spelled(Dimension(quantity.powers))[0] for quantity in (left_unit, right_unit)
        ]
        raise UsageError(
            f"'{written(node)}' mixes units: {left} is in {units[0]}, {right} in {units[1]}"
        )
