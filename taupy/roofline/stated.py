"""Flop and bytes that the user states for kernels without counts.

    --flop 'ampere_*gemm*=2*M*N*K, tensor fp16'     of one launch; M, N, K are metadata or numbers
    --bytes 'saxpy*=12*n'                           of one launch, from DRAM if no level is named

Stated values are analytic: what the mathematics requires, not what a processor did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

from taupy.errors import UsageError
from taupy.model.expression import Binary, Function, Name, Node, Number, parse
from taupy.model.work import LEVELS
from taupy.roofline.point import Point
from taupy.roofline.roofs import PRECISIONS
from taupy.units import no_such

Quantity = Literal["flop", "bytes"]


@dataclass(frozen=True, slots=True)
class Statement:
    """The work of one launch of a kernel (one call of a routine).

    Attributes:
        pattern: for names, with * and ?.
        formula: as typed; `node`: parsed.
        of: the precision of flop, "any" by default; the level of bytes.
    """

    quantity: Quantity
    pattern: str
    formula: str
    node: Node
    of: str

    def names(self, point: Point) -> bool:
        """Whether it applies to this point."""
        return any(
            name == self.pattern or fnmatchcase(name, self.pattern)
            for name in (point.name, point.short)
        )


def statement(quantity: Quantity, text: str) -> Statement:
    """Parse a statement: `PATTERN=EXPRESSION[, PRECISION or LEVEL]`.

    Raises:
        UsageError: it is invalid.
    """
    pattern, equals, rest = text.rpartition("=")
    if not equals or not pattern.strip() or not rest.strip():
        raise UsageError(f"--{quantity} takes 'KERNEL=EXPRESSION', such as {_EXAMPLE[quantity]}")
    formula, comma, tail = rest.rpartition(",")
    names = {name.lower(): name for name in (PRECISIONS if quantity == "flop" else LEVELS)}
    of = names.get(tail.strip().lower()) if comma else None
    if of is None:
        formula = rest
    default = "any" if quantity == "flop" else "DRAM"
    node = parse(formula.strip())
    return Statement(quantity, pattern.strip(), formula.strip(), node, of or default)


_EXAMPLE: Mapping[Quantity, str] = {
    "flop": "'gemm*=2*M*N*K' or 'gemm*=2*64*64*64, tensor fp16'",
    "bytes": "'saxpy*=12*n' or 'saxpy*=12*n, L2'",
}


def stated(
    points: Sequence[Point], statements: Iterable[Statement], metadata: Mapping[str, str]
) -> list[Point]:
    """The points with stated work added; complete counts are kept.

    Args:
        metadata: of the trial; formulas refer to its numbers by name.

    Raises:
        UsageError: a statement matches no point, or uses an unknown name.
    """
    with_statements = list(points)
    for statement in statements:
        numbers = [number for number, point in enumerate(with_statements) if statement.names(point)]
        if not numbers:
            raise UsageError(
                f"--{statement.quantity}: "
                + no_such("point", statement.pattern, (point.short for point in with_statements))
            )
        value = _value(statement.node, statement, metadata)
        for number in numbers:
            with_statements[number] = _with(with_statements[number], statement, value)
    return with_statements


def _with(point: Point, statement: Statement, value: float) -> Point:
    if point.rates_alone:
        note = f"--{statement.quantity} ignored: the duration is unknown"
        return replace(point, notes=(*point.notes, note))
    count = point.counted or point.launches or point.calls
    if not point.counted and point.launches:
        point = replace(point, counted=point.launches, time=point.run_time)
    note = f"{statement.quantity} of each launch stated: {statement.formula} = {value:.6g}"
    if statement.quantity == "bytes":
        if point.bytes_tier == "measured" and statement.of in point.bytes:
            return replace(point, notes=(*point.notes, _counted(statement)))
        moved = {**point.bytes, statement.of: count * value}
        return replace(point, bytes=moved, bytes_tier="analytic", notes=(*point.notes, note))
    if point.flop_tier != "unknown" and not point.uncounted:
        return replace(point, notes=(*point.notes, _counted(statement)))
    return replace(
        point,
        flop={statement.of: count * value},
        flop_tier="analytic",
        uncounted=(),
        notes=(*point.notes, note),
    )


def _counted(statement: Statement) -> str:
    return f"--{statement.quantity} ignored: it was counted"


def _value(node: Node, statement: Statement, metadata: Mapping[str, str]) -> float:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Name):
        return _number(node.name, statement, metadata)
    if isinstance(node, Binary):
        left, right = (_value(side, statement, metadata) for side in (node.left, node.right))
        if node.operator == "/" and right == 0:
            raise UsageError(f"--{statement.quantity} '{statement.formula}': division by 0")
        operate = {"+": left + right, "-": left - right, "*": left * right}
        return operate[node.operator] if node.operator != "/" else left / right
    return _function(node, statement, metadata)


def _function(node: Function, statement: Statement, metadata: Mapping[str, str]) -> float:
    values = [_value(argument, statement, metadata) for argument in node.arguments]
    if node.function == "min":
        return min(values)
    if node.function == "max":
        return max(values)
    return sum(values) if node.function == "sum" else values[0]


def _number(name: str, statement: Statement, metadata: Mapping[str, str]) -> float:
    try:
        return float(metadata[name])
    except (KeyError, ValueError):
        numbers = sorted(fact for fact, value in metadata.items() if _is_number(value))
        facts = ", ".join(numbers[:12]) or "none"
        raise UsageError(
            f"--{statement.quantity} '{statement.formula}': the trial's metadata has no number "
            f"'{name}' "
            f"(it has: {facts}); write the number, or set it in the program with "
            f"taupy.metadata('{name}', VALUE)"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
