"""Which queries of a program read a whole table to find some of its rows, as SQLite itself plans
them: the tables and indexes of the program's own statements are made in memory, without rows.

A name of a column or table that is only known when the program runs has no plan.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

from taupy.analysis.findings import source
from taupy.analysis.findings.trial import Trial
from taupy.dataclass import NamedTuple

_MAKES = re.compile(r"\s*CREATE\s+(?:TEMP\w*\s+)?(?:TABLE|(?:UNIQUE\s+)?INDEX)\b", re.I)
_COMMENT = re.compile(r"--[^\n]*")
_PLACEHOLDER = re.compile(r"\?\d*|(?<![\w:])[:@$][A-Za-z_]\w*|%s|%\(\w+\)s")
_COMPARED = re.compile(
    r"(?:\bFROM|\bUPDATE)\s+(\w+)\b(?:(?!\bJOIN\b).)*?\bWHERE\s+"
    r"(?:(?:\w+\.)?(?P<column>\w+)|(?P<call>\w+\s*\(\s*(?:\w+\.)?(?P<of>\w+)\b[^()]*\)))"
    r"\s*(?:=|IN\b)",
    re.I | re.S,
)
_STEPS_AT_MOST = 1_000_000
"""Of SQLite's machine; a plan takes a few."""
_BYTES_AT_MOST = 1_000_000
"""Of a value: a table may be made of a query (`AS SELECT`), of a program that we do not know."""
_PAGES_AT_MOST = 1_000


class Scan(NamedTuple):
    """A whole table that is read.

    Attributes:
        by: what is compared: a column, or what a function makes of it.
        column: the column.
        has_index: whether the column itself has an index.
    """

    table: str
    by: str
    column: str
    has_index: bool


def statements(trial: Trial) -> list[str] | None:
    """The statements that make the program's tables and indexes; None if some of them are only
    known when it runs."""
    texts = {
        text for timer in trial.calls.timers if trial.is_own(timer)
        if (text := trial.source(timer)) is not None
    }  # fmt: skip
    makers: list[str] = []
    for text in sorted(texts):
        for part in ast.walk(source.tree(text)):
            if isinstance(part, ast.JoinedStr) and re.search(r"\bINDEX\b", ast.unparse(part), re.I):
                return None
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                makers += _makers(part.value)
    return sorted(makers, key=lambda text: "INDEX" in text[: text.find("(")].upper())


def _makers(text: str) -> Iterator[str]:
    for statement in _COMMENT.sub("", text).split(";"):
        if _MAKES.match(statement):
            yield statement


def scan(makers: Sequence[str], query: str) -> Scan | None:
    """The table that a query reads to its end to find rows by a column; None: it does not, or has
    no plan."""
    hit = _COMPARED.search(query)
    if hit is None:
        return None
    column, by = hit["column"] or hit["of"], hit["column"] or hit["call"]
    if not _is_scanned(makers, query):
        return None
    bare = query[: hit.start("call")] + column + query[hit.end("call") :] if hit["call"] else query
    return Scan(hit[1], by, column, bool(hit["call"]) and not _is_scanned(makers, bare))


def _is_scanned(makers: Sequence[str], query: str) -> bool:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.set_progress_handler(lambda: 1, _STEPS_AT_MOST)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _BYTES_AT_MOST)
        connection.execute(f"PRAGMA max_page_count = {_PAGES_AT_MOST}")
        for statement in makers:
            with suppress(sqlite3.Error, sqlite3.Warning):
                connection.execute(statement)
        try:
            plan = connection.execute("EXPLAIN QUERY PLAN " + _PLACEHOLDER.sub("1", query))
            steps = [row[3] for row in plan.fetchall()]
        except (sqlite3.Error, sqlite3.Warning):
            return False
    return bool(steps) and steps[0].startswith("SCAN")
