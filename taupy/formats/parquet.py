"""Tables of a profile as Parquet: the flat profile, call paths, or user events.

Needs pyarrow (`pip install taupy-profiler[parquet]`). A column of values holds 64-bit integers if
all values are whole, otherwise doubles.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from taupy.formats import tables
from taupy.formats.tables import ProfileTable
from taupy.frames import no_pyarrow
from taupy.model.profile import Profile
from taupy.model.progress import SILENT, Progress

_ROWS_AT_ONCE = 50_000


def _write(table: ProfileTable, profile: Profile, target: Path, progress: Progress) -> list[str]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as problem:
        raise no_pyarrow(problem) from None
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    whole = _whole_columns(table, profile)
    types = {"text": pyarrow.string(), "int": pyarrow.int64()}
    schema = pyarrow.schema(
        [
            (name, types.get(kind) or (pyarrow.int64() if name in whole else pyarrow.float64()))
            for name, kind in table.columns
        ],
        metadata={
            "taupy.table": table.name,
            "taupy.trial": f"{profile.application}/{profile.experiment}/{profile.name or ''}",
            "taupy.uuid": profile.uuid,
        },
    )
    with parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for rows in _batches(table.rows(profile, progress)):
            columns = [
                pyarrow.array([_storable(row[place]) for row in rows], field.type)
                for place, field in enumerate(schema)
            ]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))
    return []


def _whole_columns(table: ProfileTable, profile: Profile) -> set[str]:
    """Columns of numbers that hold only integers."""
    numbers = {name: place for place, (name, kind) in enumerate(table.columns) if kind == "number"}
    for row in table.rows(profile, SILENT):
        for name, place in [*numbers.items()]:
            if row[place] is not None and not isinstance(row[place], int):
                del numbers[name]
        if not numbers:
            break
    return set(numbers)


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    while batch := list(islice(rows, _ROWS_AT_ONCE)):
        yield batch


def _storable(value: Any) -> Any:
    """Parquet's text is UTF-8: what UTF-8 cannot encode is escaped."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


FORMATS = tables.formats("parquet", "Parquet", _write)
