"""Ceilings in the database: store, list, and find the best one."""

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

_CEILINGS = f"SELECT {_LIST} FROM ceiling"

TRUST: tuple[CeilingSource, ...] = ("measured", "user", "report", "datasheet")
"""Sources, the most reliable first."""

LAUNCH_PATTERNS = ("back-to-back", "event pair")
"""How launches were timed; the usual way of launching comes first. Launches in a graph are cheaper,
launches with a wait are more expensive."""


def add_ceilings(db: ProfileDB, measured: Iterable[Ceiling]) -> int:
    """Store ceilings, replacing those with equal characterization, kind, name, pattern and threads.

    Returns:
        The number of ceilings.

    Raises:
        DatabaseError: they could not be stored; the database is unchanged.
    """
    rows = [
        tuple(storable(value) if isinstance(value, str) else value for value in astuple(ceiling))
        for ceiling in measured
    ]
    with db.transaction() as connection:
        connection.executemany(_ADD, rows)
    return len(rows)


@of_a_sound_file
def ceilings(
    db: ProfileDB, *, processor: str | None = None, source: CeilingSource | None = None
) -> list[Ceiling]:
    """The ceilings, in the order of `ordered`.

    Args:
        processor: only those of this CPU or GPU (case-sensitive). None for all.
        source: only those from this source.
    """
    return [
        ceiling
        for ceiling in ordered(Ceiling(*row) for row in db.rows(_CEILINGS))
        if (processor is None or ceiling.processor == processor)
        and (source is None or ceiling.source == source)
    ]


def ordered(ceilings: Iterable[Ceiling]) -> list[Ceiling]:
    """The oldest measurement first, and its ceilings by kind and name.

    This order does not depend on how they came into the database, which may be a store.
    """
    return sorted(
        ceilings,
        key=lambda ceiling: (
            *(ceiling.measured_at, ceiling.processor, ceiling.characterization),
            *(ceiling.kind != "compute", ceiling.kind != "bandwidth"),
            *(ceiling.name, ceiling.threads, ceiling.pattern),
        ),
    )


def best_of(
    candidates: Sequence[Ceiling], kind: CeilingKind, name: str, *, threads: int | None = None
) -> Ceiling | None:
    """The highest rate from the most reliable source; for latencies, the lowest one of
    back-to-back launches (`LAUNCH_PATTERNS`).

    A measured rate is preferred even if a datasheet promises more. Of several measurements the
    highest is used, since a roof is what the processor can reach.

    Args:
        name: of the ceiling, case-insensitive.
        threads: only ceilings for this number of CPU threads; None for any.
    """
    fitting = [
        ceiling
        for ceiling in candidates
        if ceiling.kind == kind
        and ceiling.name.lower() == name.lower()
        and (threads is None or ceiling.threads == threads)
    ]
    for source in TRUST:
        of_source = [ceiling for ceiling in fitting if ceiling.source == source]
        if of_source:
            if kind == "latency":
                return min(of_source, key=lambda ceiling: (_rank(ceiling.pattern), ceiling.value))
            return max(of_source, key=lambda ceiling: ceiling.value)
    return None


def _rank(pattern: str) -> int:
    return LAUNCH_PATTERNS.index(pattern) if pattern in LAUNCH_PATTERNS else len(LAUNCH_PATTERNS)
