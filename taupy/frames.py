"""Rows as pandas frames: the one place that makes them, and writes them to Parquet files.

pandas is imported with the first frame: commands that print do without.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from taupy.errors import TaupyError, UsageError
from taupy.state.saving import save_named

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["whole", "real", "number", "time"]
"""Of a column: integers, which may be missing; real numbers; numbers as text; timestamps."""

_NO_KINDS: Mapping[str, Kind] = MappingProxyType({})


def frame(
    rows: Iterable[Sequence[Any]],
    columns: Iterable[str],
    kinds: Mapping[str, Kind] = _NO_KINDS,
    *,
    documented: bool = True,
) -> pd.DataFrame:
    """Rows as a frame with these columns; integers stay integers, even if some are missing.

    Args:
        kinds: the types of columns that do not depend on their values.
        documented: the columns are those of docs/database.md; a column without any value
            gets its usual type.
    """
    import pandas as pd

    names = list(columns)
    cells = [tuple(row) for row in rows]
    series = {
        place: _series([row[place] for row in cells], name if documented else "")
        for place, name in enumerate(names)
    }
    table = pd.DataFrame(series)
    table.columns = pd.Index(names)
    for name, kind in kinds.items():
        if kind == "time":
            table[name] = pd.to_datetime(table[name], utc=True, errors="coerce")
        elif kind == "number":
            table[name] = pd.to_numeric(table[name])
        else:
            table[name] = table[name].astype("Int64" if kind == "whole" else "float64")
    return table


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames as one; a column that one of them lacks is missing there."""
    import pandas as pd

    if len(frames) == 1:
        return frames[0]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def write_parquet(table: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a frame to a Parquet file, which is replaced.

    Raises:
        UsageError: two columns have the same name, or the file cannot be written.
        TaupyError: pyarrow is not installed.
    """
    if not table.columns.is_unique:
        (name, *_) = table.columns[table.columns.duplicated()]
        raise UsageError(f"two columns are named {name!r}: a Parquet file needs different names")
    try:
        import pyarrow  # noqa: F401
    except ImportError as problem:
        raise no_pyarrow(problem) from None
    packed = table.apply(_storable).to_parquet(engine="pyarrow", compression="zstd")
    try:
        save_named(path, packed)
    except OSError as problem:
        reason = problem.strerror or problem
        raise UsageError(f"{os.fspath(path)} cannot be written: {reason}") from None


def no_pyarrow(problem: ImportError) -> TaupyError:
    """It is not installed; or it is, and a newer one than NumPy."""
    why = "is not installed" if problem.name == "pyarrow" else f"cannot be imported ({problem})"
    return TaupyError(f"Parquet needs pyarrow, which {why}: pip install 'taupy-profiler[parquet]'")


def _storable(column: pd.Series[Any]) -> pd.Series[Any]:
    """Parquet holds one type in a column: text if there are several."""
    kinds = {type(value) for value in column if value is not None}
    return column.map(_text) if column.dtype == object and len(kinds) > 1 else column


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return None if value is None or value != value else str(value)


_WHOLE = frozenset({
    "id", "duration_ns", "exit_code", "node", "context", "thread", "callpath_id", "parent_id",
    "depth", "line", "calls", "subroutines", "untimed", "time_ns", "minimum_ns", "maximum_ns",
    "count", "bytes", "configurations", "routines", "registers", "shared_static_bytes",
    "shared_dynamic_bytes", "local_bytes",
})  # fmt: skip
_REAL = frozenset({
    "inclusive", "exclusive", "percent", "mean_ns", "stddev_ns", "sum_squares_ns2", "occupancy",
    "minimum", "maximum", "mean", "stddev", "start_s", "end_s",
})  # fmt: skip
_OBJECTS = frozenset({"tags", "grid", "block", "additive"})


def _series(values: list[Any], name: str) -> pd.Series[Any]:
    """Integers with missing values become `Int64`: ids must not pass through floats."""
    import pandas as pd

    kinds = set(map(type, values))
    if kinds == {int, type(None)}:
        return pd.Series(values, dtype="Int64")
    if kinds <= {type(None)} and name and name not in _OBJECTS:
        whole = "Int64" if values else "int64"
        return pd.Series(
            values, dtype=whole if name in _WHOLE else "float64" if name in _REAL else "str"
        )
    return pd.Series(values, dtype=object).infer_objects()
