"""What a part of a line of Python does, in few words: `con.execute()`, `not in seen`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_LONGEST = 60


def excerpt(text: str, length: int, does: str, mark: str = "…") -> str:
    """A line's text in so many characters: its beginning, or else from where it does what takes
    its time.

    Args:
        does: as `Expressions.at` has it, or a routine's name and `()`; a time may follow.
        mark: where something is left out.
    """
    if len(text) <= length:
        return text
    room = max(0, length - len(mark))
    begin, end = _position(text, does)
    if end <= room or room < 2 * len(mark):
        return f"{text[:room].rstrip()}{mark}"
    rest = text[begin:]
    return f"{mark}{rest if len(rest) <= room else rest[: room - len(mark)].rstrip() + mark}"


def _position(text: str, does: str) -> tuple[int, int]:
    """Where the text of its line has it: of a call, up to its arguments. The beginning if
    that is not known."""
    does = does.partition(" ~")[0]
    name = does.removeprefix("await ").removesuffix("()")
    if name == does:
        begin = max(0, text.find(does))
        return begin, begin + len(does)
    for part in (name, name.rpartition(".")[2]):
        if at := re.search(rf"(?<!\w){re.escape(part)}\s*\(", text):
            return at.span()
    return 0, 0


class Expressions:
    """The expressions of one source file.

    Args:
        lines: its text.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._nodes: dict[tuple[int, int, int, int], ast.expr] | None = None

    def at(self, line: int, end_line: int, column: int, end_column: int) -> str | None:
        """The expression that begins and ends there; lines from 1, columns in bytes from 0.

        None for what is neither call nor comparison nor operation: its text alone tells nothing.
        """
        if column < 0:
            return None
        if self._nodes is None:
            self._nodes = self._parsed()
        node = self._nodes.get((line, end_line, column, end_column))
        text = None if node is None else _text(node)
        if text is None:
            return None
        text = " ".join(text.split())
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

    def _parsed(self) -> dict[tuple[int, int, int, int], ast.expr]:
        try:
            tree = ast.parse("\n".join(self.lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}  # of another version of Python, or masked where that matters
        return {
            (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0): node
            for node in ast.walk(tree)
            if isinstance(node, ast.expr)
        }


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Await):
        inner = _text(node.value)
        return f"await {inner}" if inner else "await"
    if isinstance(node, ast.Call):
        return _short(node)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        word = "in" if isinstance(node.ops[0], ast.In) else "not in"
        return f"{word} {_short(node.comparators[0])}"
    if isinstance(node, ast.Compare | ast.BinOp | ast.Subscript):
        return ast.unparse(node)
    return None


def _short(node: ast.expr) -> str:
    """Without the arguments of calls: `pd.read_csv().groupby()`."""
    return ast.unparse(_bare(node))


def _bare(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Attribute):
        return ast.Attribute(_bare(node.value), node.attr)
    return ast.Call(_bare(node.func), [], []) if isinstance(node, ast.Call) else node
