"""SQL of our own tables is in `profiledb` and `store` alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOMS = Path(__file__).parents[3] / "taupy"
# A format reads another tool's SQLite file, a store has tables of its own.
OTHERS = ("formats", "profiledb", "store")
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH RECURSIVE)\s[^a-z]*\b[a-z]\w*")


def statements(source: str) -> list[str]:
    """String literals that read as SQL; docstrings are not statements."""
    tree = ast.parse(source)
    docs = {
        id(node.value) for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }  # fmt: skip
    return [
        node.value for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        and id(node) not in docs and STATEMENT.match(node.value)
    ]  # fmt: skip


@pytest.mark.slow  # and part of `make check`
def test_no_other_room_holds_sql():
    paths = [path for path in ROOMS.rglob("*.py") if path.relative_to(ROOMS).parts[0] not in OTHERS]
    assert len(paths) > 200
    assert {str(path): statements(path.read_text("utf-8")) for path in paths
            if statements(path.read_text("utf-8"))} == {}  # fmt: skip


@pytest.mark.parametrize("text", ["SELECT id FROM trial", "\n  WITH RECURSIVE above (id) AS ("])
def test_sql_is_seen_where_there_is_some(text):
    assert statements(f"rows = db.rows({text!r})") == [text]
    assert statements(f'"""{text}"""') == []
