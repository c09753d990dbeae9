"""The tables of an nsys SQLite file: which ones exist, and their rows in a uniform format.

nsys omits tables without rows and has added columns over the years, so queries use the existing
columns, with NULL for others. Rows whose timestamps are not integers, or are implausible, are
skipped.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from taupy.formats import limits
from taupy.formats.foreign_sqlite import is_indexed, quoted, table_columns

GPU_TABLES: Final = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)

WAITS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"

# The columns that, with the stream, identify the work of a record.
_WORK: Final = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "name", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
        "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("copyKind",),
    "CUPTI_ACTIVITY_KIND_MEMSET": (),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("syncType",),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("graphId",),
}  # fmt: skip

_KERNEL_NAMES: Final = ("demangledName", "mangledName", "shortName", "nameId")


class Tables:
    """The tables of one file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.columns = table_columns(connection)
        self._texts: dict[Any, str] = {}
        if "StringIds" in self.columns and not is_indexed(connection, "StringIds", "id"):
            rows = connection.execute(
                f"SELECT id, value FROM StringIds LIMIT {limits.NSYS_STRINGS}"
            )
            self._texts = {id: str(text or "")[: limits.LONGEST_NAME] for id, text in rows}
        self._enums: dict[tuple[str, str], dict[Any, str]] = {}

    def __contains__(self, table: str) -> bool:
        return table in self.columns

    def has(self, table: str, *columns: str) -> bool:
        return table in self.columns and set(columns) <= set(self.columns[table])

    def rows(self, table: str) -> int:
        """The approximate number of rows; 0 if the table does not exist."""
        if table not in self.columns:
            return 0
        query = f"SELECT max(rowid) FROM {quoted(table)}"
        try:
            count = self.connection.execute(query).fetchone()[0]
        except sqlite3.OperationalError:  # a table without rowids
            query = f"SELECT count(*) FROM {quoted(table)}"
            count = self.connection.execute(query).fetchone()[0]
        return count if isinstance(count, int) and count > 0 else 0

    def count(self, table: str) -> int:
        """The exact number of rows."""
        query = f"SELECT count(*) FROM {quoted(table)}"
        return int(self.connection.execute(query).fetchone()[0])

    def select(self, table: str, *columns: str, more: str = "") -> Iterator[tuple[Any, ...]]:
        """These columns of a table's rows, None for missing ones; no rows for a missing table."""
        if table not in self.columns:
            return iter(())
        wanted = ", ".join(self.column(table, name) for name in columns)
        return self.connection.execute(f"SELECT {wanted} FROM {quoted(table)} {more}")

    def column(self, table: str, name: str) -> str:
        return quoted(name) if name in self.columns[table] else "NULL"

    def integer(self, table: str, name: str) -> str:
        """SQL for a column's value if it is an integer, else NULL."""
        column = self.column(table, name)
        if column == "NULL":
            return column
        return f"CASE typeof({column}) WHEN 'integer' THEN {column} END"

    def sane(self, table: str) -> str:
        """The SQL condition that timestamps are plausible integers."""
        limit, longest = limits.STAMP_NS, limits.SLICE_NS
        return (
            f"typeof(start) = 'integer' AND typeof({quoted('end')}) = 'integer'"
            f" AND start BETWEEN {-limit} AND {limit}"
            f" AND {quoted('end')} BETWEEN {-limit} AND start + {longest}"
        )

    def process(self, table: str) -> str:
        """SQL for the process of a row: its globalPid, or that of its globalTid; else 0."""
        if "globalPid" in self.columns[table]:
            return f"ifnull({self.integer(table, 'globalPid')}, 0)"
        if "globalTid" in self.columns[table]:
            return f"ifnull({self.integer(table, 'globalTid')}, 0) & ~0xFFFFFF"
        return "0"

    def _stream(self, table: str) -> str:
        stream = f"ifnull({self.integer(table, 'streamId')}, 0) & 0xFFFFFFFF"
        device = f"max(0, min(ifnull({self.integer(table, 'deviceId')}, 0), 65535))"
        context = f"ifnull({self.integer(table, 'contextId')}, 0) & 0xFFFFFFFF"
        return f"{self.process(table)}, {device}, {context}, {stream}"

    def streams(self, table: str) -> set[tuple[int, int, int, int]]:
        """(process, device, CUDA context, stream) of the table's rows."""
        if not self.has(table, "start", "end"):
            return set()
        query = f"SELECT DISTINCT {self._stream(table)} FROM {quoted(table)} WHERE"
        return set(self.connection.execute(f"{query} {self.sane(table)}"))

    def gpu_query(self, table: str) -> str:
        """The query for start, end, bytes, correlation, the stream's columns, and the work's.

        Unknown bytes and correlations are -1.
        """
        if not self.has(table, "start", "end"):
            return "SELECT NULL WHERE 0"
        work = []
        for name in _WORK[table]:
            if name == "name":
                names = [self.column(table, column) for column in _KERNEL_NAMES]
                work.append(f"coalesce({', '.join(names)})")
            else:
                work.append(self.integer(table, name))
        moved = f"max(-1, min(ifnull({self.integer(table, 'bytes')}, -1), {1 << 50}))"
        correlation = f"ifnull({self.integer(table, 'correlationId')}, -1)"
        columns = ", ".join(
            ["start", quoted("end"), moved, correlation, self._stream(table), *work]
        )
        return f"SELECT {columns} FROM {quoted(table)} WHERE {self.sane(table)}"

    def text(self, value: Any, unknown: str) -> str:
        """A text itself, or the text with this number in StringIds."""
        if isinstance(value, str):
            return value[: limits.LONGEST_NAME] or unknown
        if not isinstance(value, int):
            return unknown
        text = self._texts.get(value)
        if text is None:
            row = self.connection.execute(
                "SELECT value FROM StringIds WHERE id = ?", (value,)
            ).fetchone()
            text = str(row[0])[: limits.LONGEST_NAME] if row and row[0] is not None else ""
            self._texts[value] = text
        return text or unknown

    def enum(self, table: str, value: Any, column: str) -> str:
        """The name of a number in one of the file's ENUM_ tables; empty if it is not listed."""
        names = self._enums.get((table, column))
        if names is None:
            names = {}
            if self.has(table, "id"):
                name = column if column in self.columns[table] else "name"
                names = {key: str(text) for key, text in self.select(table, "id", name) if text}
            self._enums[table, column] = names
        return names.get(value, "")
