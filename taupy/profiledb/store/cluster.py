"""Statements over the files of many trials, answered by Dask workers: each handles some trials.

Only statements that engines answer exactly come here, so the parts add up to what one engine would
return. Every worker must reach the catalogue and the files under the same names.
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
from taupy.profiledb.reading import Reading

Columns = list[Sequence[Any]]

Answer = Callable[[str, Reading], Columns | None]
"""Computes the answer of the store at an address."""

_PARTS_EACH = 4
"""Parts per worker thread, so that none waits long for the last one."""

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


def columns(answer: Answer, address: str, reading: Reading) -> Columns | None:
    """The answer, column by column; None if SQLite has to compute it.

    Args:
        answer: called by the workers; a function of a module that they can import.
        address: of the store.

    Raises:
        DatabaseError: the scheduler cannot be reached, or the workers cannot answer.
    """
    client = _client(scheduler())
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
        raise _refused(error) from error
    if None in answers or not any(answers):
        return None
    return combined(answers, reading.keys)


def combined(parts: Sequence[Columns], keys: int) -> Columns | None:
    """The sums of all parts, in the order of their keys; None if one is too large for SQLite."""
    sums: dict[tuple[Any, ...], list[Any]] = {}
    for part in parts:
        for row in zip(*part, strict=True):
            numbers = list(row[keys:])
            if before := sums.get(row[:keys]):
                numbers = [_added(*pair) for pair in zip(before, numbers, strict=True)]
            sums[row[:keys]] = numbers
    if any(
        number is not None and abs(number) > _LARGEST for row in sums.values() for number in row
    ):
        return None
    order = sorted(sums, key=lambda key: [(part is not None, part or 0) for part in key])
    return list(zip(*((*key, *sums[key]) for key in order), strict=True))


def _added(number: int | None, other: int | None) -> int | None:
    if number is None or other is None:
        return other if number is None else number
    return number + other


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
        raise _refused(error) from error


def _refused(error: Exception) -> DatabaseError:
    what = visible(" ".join(str(error).split()) or type(error).__name__)
    return DatabaseError(
        f"the Dask cluster at {scheduler()} cannot answer: {what}; without TAUPY_CLUSTER, or "
        "`cluster` in pyproject.toml, this machine answers alone"
    )
