"""Store and read the calls of operators by the sizes and types of their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from taupy.model.profile import OperatorInput
from taupy.profiledb.database import ProfileDB, of_a_sound_file
from taupy.profiledb.dimensions import labels, listed
from taupy.profiledb.text import storable

if TYPE_CHECKING:
    import sqlite3

    from taupy.profiledb.records import Key, Rows

_SUMS = ("calls", "time_ns", "launches", "gpu_ns")
_READ = f"""
    SELECT thread_id, callpath_id, signature, {", ".join(_SUMS)}
      FROM operator_input WHERE trial_id = ? ORDER BY thread_id, callpath_id, signature
"""
_OF_TRIALS = f"""
    SELECT trial_id, callpath_id, signature, {", ".join(f"sum({name})" for name in _SUMS)}
      FROM operator_input WHERE trial_id IN ({{trials}})
     GROUP BY trial_id, callpath_id, signature ORDER BY trial_id, callpath_id, signature
"""


def add_inputs(
    connection: sqlite3.Connection,
    key: Key,
    inputs: Iterable[OperatorInput],
    callpaths: Sequence[int],
) -> None:
    """Insert those of a thread; equal call paths and signatures are added up."""
    connection.executemany(
        f"INSERT INTO operator_input (trial_id, thread_id, callpath_id, signature,"
        f" {', '.join(_SUMS)}) VALUES ({key[0]}, {key[1]}, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET "
        + ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS),
        ((callpaths[own.row], storable(own.signature), *own[2:]) for own in inputs),
    )


def read_inputs(db: ProfileDB, trial: int, rows: Rows) -> Iterator[tuple[int, OperatorInput]]:
    """Thread id and sums of each call path and signature of a trial."""
    for thread, callpath, signature, *sums in db.stream(_READ, (trial,)):
        yield thread, OperatorInput(rows[thread][callpath], signature, *sums)


class Signed(NamedTuple):
    """Calls of an operator with one signature at one call path, over all threads.

    Attributes:
        path: id of the operator's call path.
        operator, outer: its name, and that of the outermost operator around it.
        launches, gpu_ns: of the work that it launched itself, not by operators in it.
    """

    path: int
    operator: str
    outer: str
    signature: str
    calls: int
    time_ns: int
    launches: int
    gpu_ns: int


@of_a_sound_file
def signed(db: ProfileDB, trials: Sequence[int]) -> dict[int, list[Signed]]:
    """The calls of each trial; trials without recorded inputs are missing."""
    rows = db.rows(_OF_TRIALS.replace("{trials}", listed(trials)))
    paths = list(dict.fromkeys(path for _, path, *_ in rows))
    inner, outer = (labels(db, name, paths) for name in ("operator", "outer_operator"))
    of_trials: dict[int, list[Signed]] = {}
    for trial, path, signature, *numbers in rows:
        own = Signed(path, inner[path][0], outer[path][0], signature, *numbers)
        of_trials.setdefault(trial, []).append(own)
    return of_trials
