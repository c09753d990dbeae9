"""Statements over the files of many trials, answered by Dask workers: each handles some trials.

Only statements that engines answer exactly are handled here, so the parts add up to what one engine
would return. Every worker must reach the catalogue and the files under the same names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from taupy.errors import DatabaseError, UsageError
from taupy.escaping import visible
from taupy.model.project import project_settings
from taupy.model.table import Column, Table, combine
from taupy.profiledb.reading import Reading

Columns = list[Sequence[Any]]

Answer = Callable[[str, Reading], Columns | None]
"""Computes the answer of the store at an address."""

_PARTS_EACH = 4
"""Parts per worker thread, so that no worker waits long for the last part."""

_LARGEST = 2**63 - 1


def scheduler() -> str:
    """The address of the scheduler from $TAUPY_CLUSTER or the project; "" for none.

    Raises:
        UsageError: the project's setting is not text.
    """
    chosen = os.environ.get("TAUPY_CLUSTER") or project_settings().get("cluster", "")
    if not isinstance(chosen, str):
        raise UsageError(f"`cluster` of [tool.taupy] in pyproject.toml is not a string: {chosen!r}")
    return chosen


def columns(scheduler: str, answer: Answer, address: str, reading: Reading) -> Columns | None:
    """The answer, column by column; None if SQLite has to compute it.

    Args:
        scheduler: its address.
        answer: called by the workers; a function of a module that they can import.
        address: of the store.

    Raises:
        DatabaseError: the scheduler cannot be reached, or the workers cannot answer.
    """
    client = _client(scheduler)
    trials = sorted(reading.trials)
    try:
        count = _PARTS_EACH * max(sum(client.nthreads().values()), 1)
        parts = [trials[first::count] for first in range(min(count, len(trials)))]
        answers = client.gather(
            [
                client.submit(answer, address, replace(reading, trials=part), pure=False)
                for part in parts
            ]
        )
    except DatabaseError:
        raise
    except Exception as error:  # from any part of Dask
        raise _refused(scheduler, error) from error
    if None in answers or not any(answers):
        return None
    return combined(answers, reading.keys)


def combined(parts: Sequence[Columns], keys: int) -> Columns | None:
    """The sums of all parts, in the order of their keys; None if one is too large for SQLite."""
    if not any(parts):
        return []
    whole = combine([_table(part, keys) for part in parts if part])
    numbers = list(whole.columns.values())
    if any(number is not None and abs(number) > _LARGEST for sums in numbers for number in sums):
        return None
    columns = [*map(whole.row_labels, whole.codes), *numbers]
    rows = sorted(
        zip(*columns, strict=True),
        key=lambda row: [(part is not None, part or 0) for part in row[:keys]],
    )
    return list(zip(*rows, strict=True))


def _table(columns: Columns, keys: int) -> Table:
    count = len(columns[0])
    return Table(
        {str(at): range(count) for at in range(keys)},
        {str(at): columns[at] for at in range(keys)},
        {Column(str(at)): columns[at] for at in range(keys, len(columns))},
        count,
    )


@cache
def _client(scheduler: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise DatabaseError(
            f"a cluster needs distributed ({error}); install it with: "
            "pip install 'taupy-profiler[cluster]'"
        ) from error
    try:
        return Client(scheduler, timeout=10, set_as_default=False)
    except Exception as error:
        raise _refused(scheduler, error) from error


def _refused(scheduler: str, error: Exception) -> DatabaseError:
    what = visible(" ".join(str(error).split()) or type(error).__name__)
    return DatabaseError(
        f"the Dask cluster at {visible(scheduler)} cannot answer: {what}; without --cluster, "
        "TAUPY_CLUSTER, and `cluster` in pyproject.toml, this machine answers alone"
    )
