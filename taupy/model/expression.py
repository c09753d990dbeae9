"""The language of derived metrics: parses text into a tree of nodes. Nothing is evaluated here.

    warps_launched / inst_issued
    sum(flop_fp64, flop_fp32, flop_tensor) / first(counted_time, time)
    32[B/sector] * (sectors_read + sectors_written)
    "CUDA.Tesla_P100-PCIE-16GB.domain_d.inst_executed" / cycles

An expression consists of numbers, metrics (in double quotes if the name contains anything but
letters, digits, `_`, `.` and `:`), `+ - * /`, parentheses and functions: `min` and `max` of values,
`sum` of those metrics that were measured, and `first`, the first metric that was measured. A number
may have a unit in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, NoReturn

from taupy.dataclass import dataclass
from taupy.errors import UsageError

LONGEST = 2000
"""Maximum length of an expression, in characters."""

DEEPEST = 50
"""Maximum nesting of parentheses and functions."""

MOST = 200
"""Maximum number of metrics and numbers in an expression."""

FUNCTIONS = ("min", "max", "sum", "first")
LENIENT = ("sum", "first")
"""Functions of metrics, which skip those that were not measured."""

Operator = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True)
class Number:
    """A constant; `unit` is empty for a pure number."""

    value: float
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A metric, measured or derived."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary:
    """Two nodes and an operator between them; a negated metric is -1 times the metric."""

    operator: Operator
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Function:
    """One of `FUNCTIONS` and its arguments, at least one."""

    function: str
    arguments: tuple[Node, ...]


Node = Number | Name | Binary | Function

_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])(?:\s*\[[^\[\]]*\])?)"
    r'|"(?P<quoted>[^"]+)"'
    r"|(?P<name>[A-Za-z_][\w.:]*)"
    r"|(?P<sign>[-+*/(),])"
    r"|(?P<end>$)"
    r"|(?P<unknown>\S)"
    r")"
)
_LEVELS: tuple[tuple[Operator, ...], ...] = (("+", "-"), ("*", "/"))


def parse(text: str) -> Node:
    """Parse an expression.

    Raises:
        UsageError: the syntax is invalid; the message says where, and what was expected.
    """
    if len(text) > LONGEST:
        raise UsageError(
            f"an expression has {LONGEST} characters at most; this one has {len(text)}"
        )
    return _Parser(text).whole()


def names(node: Node) -> Iterator[str]:
    """The metrics in the expression, from left to right, with repetitions."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Binary):
        yield from names(node.left)
        yield from names(node.right)
    elif isinstance(node, Function):
        for argument in node.arguments:
            yield from names(argument)


def units(node: Node) -> Iterator[str]:
    """The units of the numbers in the expression."""
    if isinstance(node, Number) and node.unit:
        yield node.unit
    elif isinstance(node, Binary):
        yield from units(node.left)
        yield from units(node.right)
    elif isinstance(node, Function):
        for argument in node.arguments:
            yield from units(argument)


def replaced(node: Node, change: Callable[[Name], Node]) -> Node:
    """The tree with each name replaced by the node that `change` returns for it."""
    if isinstance(node, Name):
        return change(node)
    if isinstance(node, Binary):
        return Binary(node.operator, replaced(node.left, change), replaced(node.right, change))
    if isinstance(node, Function):
        return Function(
            node.function, tuple(replaced(argument, change) for argument in node.arguments)
        )
    return node


def written(node: Node) -> str:
    """The expression as text that parses to the same tree."""
    if isinstance(node, Number):
        return f"{node.value:.17g}" + (f"[{node.unit}]" if node.unit else "")
    if isinstance(node, Name):
        plain = re.fullmatch(r"[A-Za-z_][\w.:]*", node.name) and node.name not in FUNCTIONS
        return node.name if plain else f'"{node.name}"'
    if isinstance(node, Function):
        return f"{node.function}({', '.join(map(written, node.arguments))})"
    left, right = written(node.left), written(node.right)
    if isinstance(node.left, Binary) and node.operator in "*/" and node.left.operator in "+-":
        left = f"({left})"
    if isinstance(node.right, Binary) and (node.operator in "*/-" or node.right.operator in "+-"):
        right = f"({right})"
    return f"{left} {node.operator} {right}"


class _Parser:
    """Recursive descent; `_kind` and `_text` are the next token."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.finditer(text)
        self._depth = self._parts = 0
        self._advance()

    def whole(self) -> Node:
        node = self._sum()
        if self._kind != "end":
            self._refuse("an operator, or the end")
        return node

    def _advance(self) -> None:
        self._token = next(self._tokens)
        self._kind = self._token.lastgroup or "end"
        self._text = self._token[self._kind]
        if self._kind == "unknown":
            self._refuse("a metric, a number, an operator or a parenthesis")

    def _refuse(self, expected: str) -> NoReturn:
        actual = "the end" if self._kind == "end" else f"'{self._text}'"
        raise UsageError(
            f"the expression '{self._token.string}' is not understood: at character "
            f"{self._token.start(self._kind) + 1} is {actual} instead of {expected}"
        )

    def _is(self, *signs: str) -> bool:
        return self._kind == "sign" and self._text in signs

    def _sum(self) -> Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UsageError(f"an expression has {DEEPEST} nested parentheses at most")
        node = self._binary(0)
        self._depth -= 1
        return node

    def _binary(self, level: int) -> Node:
        """Parse operators of one precedence level; higher levels bind tighter."""
        if level == len(_LEVELS):
            return self._signed()
        node = self._binary(level + 1)
        while operator := next(filter(self._is, _LEVELS[level]), None):
            self._advance()
            node = Binary(operator, node, self._binary(level + 1))
        return node

    def _signed(self) -> Node:
        negative = False
        while self._is("+", "-"):
            negative ^= self._text == "-"
            self._advance()
        node = self._single()
        if negative and isinstance(node, Number):
            return Number(-node.value, node.unit)
        return Binary("*", Number(-1), node) if negative else node

    def _single(self) -> Node:
        text = self._text
        self._parts += 1
        if self._parts > MOST:
            raise UsageError(f"an expression has {MOST} metrics and numbers at most")
        if self._kind == "number":
            digits, _, unit = text.partition("[")
            number = Number(float(digits), unit.removesuffix("]").strip())
            if number.value == float("inf"):
                self._refuse("a number that a computer can hold")
            self._advance()
            return number
        if self._kind == "quoted":
            self._advance()
            return Name(text)
        if self._kind == "name":
            self._advance()
            return self._function(text) if self._is("(") else Name(text)
        if self._is("("):
            self._advance()
            node = self._sum()
            self._close()
            return node
        self._refuse("a metric, a number or (")

    def _function(self, function: str) -> Node:
        if function not in FUNCTIONS:
            raise UsageError(
                f"there is no function '{function}' in expressions (known: {', '.join(FUNCTIONS)})"
            )
        self._advance()
        arguments = [self._sum()]
        while self._is(","):
            self._advance()
            arguments.append(self._sum())
        self._close()
        if function in LENIENT and not all(isinstance(argument, Name) for argument in arguments):
            raise UsageError(f"{function}() takes metrics only, as in {function}(time, cpu_time)")
        return Function(function, tuple(arguments))

    def _close(self) -> None:
        if not self._is(")"):
            self._refuse(")")
        self._advance()
