"""Ceilings in the database: kept, listed, and the best one of a kind found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields

from taupy.model.machine import Ceiling, CeilingKind, CeilingSource
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.text import storable

_COLUMNS = tuple(field.name for field in fields(Ceiling))
_LIST = ", ".join(_COLUMNS)

_ADD = f"""
    INSERT INTO ceiling ({_LIST}) VALUES ({", ".join("?" * len(_COLUMNS))})
    ON CONFLICT (characterization, kind, name, pattern, threads) DO UPDATE
       SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
"""

_CEILINGS = f"SELECT {_LIST} FROM ceiling ORDER BY id"

TRUST: tuple[CeilingSource, ...] = ("measured", "user", "report", "datasheet")
"""Sources, the one to believe most first."""

LAUNCH_PATTERNS = ("back-to-back", "event pair")
"""How launches were timed, the way that programs launch first; a graph's are cheaper, one
that is waited for is dearer."""


def add_ceilings(db: ProfileDB, found: Iterable[Ceiling]) -> int:
    """Keep ceilings; one that is there already (same characterization, kind, name, pattern
    and threads) is replaced.

    Returns:
        How many.

    Raises:
        DatabaseError: they could not be stored; the database is as it was.
    """
    rows = [
        tuple(storable(value) if isinstance(value, str) else value for value in astuple(each))
        for each in found
    ]
    with db.transaction() as connection:
        connection.executemany(_ADD, rows)
    return len(rows)


@of_a_sound_file
def ceilings(
    db: ProfileDB, *, processor: str | None = None, source: CeilingSource | None = None
) -> list[Ceiling]:
    """The ceilings in the order they were stored.

    Args:
        processor: only of this CPU or GPU; letters count as they are written. None for all.
        source: only from there.
    """
    return [
        each
        for each in (Ceiling(*row) for row in db.rows(_CEILINGS))
        if (processor is None or each.processor == processor)
        and (source is None or each.source == source)
    ]


def best_ceiling(
    db: ProfileDB,
    processor: str,
    kind: CeilingKind,
    name: str,
    *,
    threads: int | None = None,
) -> Ceiling | None:
    """The roof to hold a program against; see `best_of`."""
    return best_of(ceilings(db, processor=processor), kind, name, threads=threads)


def best_of(
    found: Sequence[Ceiling], kind: CeilingKind, name: str, *, threads: int | None = None
) -> Ceiling | None:
    """Of the most trusted source, the highest rate; of latencies, the one of launches that
    follow each other (`LAUNCH_PATTERNS`), the lowest of those.

    What was measured counts even where a datasheet promises more. Of several measurements
    the highest counts: a roof is what the processor has been seen to reach.

    Args:
        name: of the ceiling; capitals do not matter.
        threads: only ceilings of so many CPU threads; None for any.
    """
    fitting = [
        each
        for each in found
        if each.kind == kind
        and each.name.lower() == name.lower()
        and (threads is None or each.threads == threads)
    ]
    for source in TRUST:
        of_source = [each for each in fitting if each.source == source]
        if of_source:
            if kind == "latency":
                return min(of_source, key=lambda each: (_rank(each.pattern), each.value))
            return max(of_source, key=lambda each: each.value)
    return None


def _rank(pattern: str) -> int:
    return LAUNCH_PATTERNS.index(pattern) if pattern in LAUNCH_PATTERNS else len(LAUNCH_PATTERNS)
