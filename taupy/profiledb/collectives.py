"""Store and read collectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from taupy.model.collectives import NOT_ENDED, Collectives, Stretches
from taupy.profiledb import bulk
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.steps import STRETCH
from taupy.profiledb.text import storable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_COLUMNS = ("number", "bytes", "asked_ns", "begun_ns", "ended_ns", "callpath_id", "operation")
_READ = f"""
    SELECT thread_id, communicator, {", ".join(_COLUMNS)}
      FROM collective WHERE trial_id = ? ORDER BY thread_id, communicator, number
"""
_COMMUNICATORS = """
    SELECT thread_id, name, ranks, size, begun, stride
      FROM communicator WHERE trial_id = ? ORDER BY thread_id, name
"""

_STRETCHES = f"""
    SELECT thread_id, number, start_ns, time_ns
      FROM step WHERE trial_id = ? AND kind = '{STRETCH}' ORDER BY thread_id, number
"""
_OWN = f"""
    SELECT thread_id, number, name, value
      FROM step_value WHERE trial_id = ? AND kind = '{STRETCH}'
     ORDER BY thread_id, number, value DESC, name
"""


def add_collectives(
    connection: sqlite3.Connection,
    key: tuple[int, int],
    collectives: Collectives,
    callpaths: Sequence[int],
) -> None:
    """Insert what one process did in one communicator.

    Args:
        key: the trial and the thread, which exist.
        callpaths: the id of each row of the thread's tree.
    """
    name = storable(collectives.communicator)
    connection.execute(
        "INSERT INTO communicator (trial_id, thread_id, name, ranks, size, begun, stride)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, name, storable(collectives.ranks), collectives.size, collectives.begun,
         collectives.stride),
    )  # fmt: skip
    bulk.insert(
        connection,
        f"INSERT INTO collective (trial_id, thread_id, communicator, {', '.join(_COLUMNS)})",
        f"({key[0]}, {key[1]}, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (name, number, moved, requested, begun, None if ended == NOT_ENDED else ended,
             callpaths[row], storable(operation))
            for number, moved, requested, begun, ended, row, operation in zip(
                collectives.number, collectives.bytes, collectives.asked_ns, collectives.begun_ns,
                collectives.ended_ns, collectives.row, collectives.operation, strict=True,
            )
        ),
    )  # fmt: skip


def read_collectives(db: ProfileDB, trial: int) -> Iterator[tuple[int, Collectives, list[int]]]:
    """Thread id, collectives and their call-path ids, per thread and communicator of a trial.

    `row` is 0 in the result; callers that need it look it up by call-path id.
    """
    rows = {
        key: [*of_key]
        for key, of_key in groupby(db.stream(_READ, (trial,)), lambda row: (row[0], row[1]))
    }
    for thread, name, ranks, size, begun, stride in db.rows(_COMMUNICATORS, (trial,)):
        collectives = Collectives(name, ranks, size, begun, stride)
        paths = []
        for _, _, number, moved, asked_ns, begun_ns, ended, path, operation in rows.get(
            (thread, name), ()
        ):
            collectives.number.append(number)
            collectives.bytes.append(moved)
            collectives.asked_ns.append(asked_ns)
            collectives.begun_ns.append(begun_ns)
            collectives.ended_ns.append(NOT_ENDED if ended is None else ended)
            collectives.operation.append(operation)
            collectives.row.append(0)
            paths.append(path)
        yield thread, collectives, paths


def add_stretches(
    connection: sqlite3.Connection,
    key: tuple[int, int],
    stretches: Stretches,
    callpaths: Sequence[int],
) -> None:
    """Insert a thread's stretches between collectives, as steps of their own kind.

    Call-path ids serve as the names of a step's values.

    Args:
        key: the trial and the thread, which exist.
        callpaths: the id of each row of the thread's tree.
    """
    times = zip(stretches.start_ns, stretches.end_ns, strict=True)
    connection.executemany(
        "INSERT INTO step (trial_id, thread_id, kind, number, count, start_ns, time_ns,"
        f" longest_ns) VALUES ({key[0]}, {key[1]}, '{STRETCH}', ?, 1, ?, ?, ?)",
        ((number, start, end - start, end - start) for number, (start, end) in enumerate(times, 1)),
    )
    connection.executemany(
        "INSERT INTO step_value (trial_id, thread_id, kind, number, name, value)"
        f" VALUES ({key[0]}, {key[1]}, '{STRETCH}', ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET value = value + excluded.value",
        (
            (at + 1, str(callpaths[row]), own)
            for at, row, own in zip(stretches.stretch, stretches.row, stretches.own_ns, strict=True)
        ),
    )


def read_stretches(db: ProfileDB, trial: int) -> Iterator[tuple[int, Stretches, list[int]]]:
    """Thread id, stretches and the listed call-path ids, per thread of a trial that has stretches.

    `row` is 0 in the result, as in `read_collectives`.
    """
    place: dict[tuple[int, int], int] = {}
    threads: dict[int, tuple[Stretches, list[int]]] = {}
    for thread, number, start, took in db.stream(_STRETCHES, (trial,)):
        stretches = threads.setdefault(thread, (Stretches(), []))[0]
        place[thread, number] = len(stretches)
        stretches.start_ns.append(start)
        stretches.end_ns.append(start + took)
    for thread, number, callpath, own in db.stream(_OWN, (trial,)):
        stretches, callpaths = threads[thread]
        stretches.stretch.append(place[thread, number])
        stretches.row.append(0)
        stretches.own_ns.append(int(own))
        callpaths.append(int(callpath))
    for thread, (stretches, callpaths) in threads.items():
        yield thread, stretches, callpaths
