"""Store and read the times of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from taupy.model.names import NO_FILE
from taupy.model.profile import LineTime
from taupy.profiledb.database import ProfileDB

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_OWN = (
    *("line", "end_line", "start_column", "end_column", "state"),
    *("looks", "time_ns", "seen_ns", "squares", "text_hash", "context_hash"),
    *("count", "inclusive_ns", "on_cpu"),
)
_STATE = _OWN.index("state")
_ON_CPU = {"cpu": 1, "runnable": 0, "active": None}
_READY = {on_cpu: state for state, on_cpu in _ON_CPU.items()}
"""States that the column `state` has as cpu, by the column `on_cpu`."""
_READ = f"""
    SELECT thread_id, timer_id, callee_id, {", ".join(_OWN)}
      FROM line WHERE trial_id = ?
     ORDER BY thread_id, time_ns DESC, timer_id, line, start_column, end_column, state, on_cpu,
           callee_id
"""

_EXACT = """
    SELECT timer.file, line.line
      FROM line
      JOIN timer ON timer.id = line.timer_id
     WHERE line.trial_id = ?
     GROUP BY timer.file, line.line
    HAVING count(*) = count(line.count)"""

_SUMS = """
    SELECT thread.node, thread.context, thread.thread, timer.name, line.line, sum(line.looks),
           sum(line.time_ns), sum(line.count)
      FROM line
      JOIN thread ON thread.id = line.thread_id
      JOIN timer ON timer.id = line.timer_id
     WHERE line.trial_id = ?
     GROUP BY thread.node, thread.context, thread.thread, timer.name, line.line
     ORDER BY thread.node, thread.context, thread.thread, timer.name, line.line"""


def add_lines(
    connection: sqlite3.Connection,
    key: tuple[int, int],
    lines: Sequence[LineTime],
    timers: Sequence[int],
) -> None:
    """Insert a thread's lines; `key` is the trial and the thread, `timers` are the ids of the
    profile's timers."""
    marks = ", ".join("?" * (len(_OWN) + 2))
    connection.executemany(
        f"INSERT INTO line (trial_id, thread_id, timer_id, callee_id, {', '.join(_OWN)})"
        f" VALUES ({key[0]}, {key[1]}, {marks})",
        (
            (
                timers[line.timer],
                None if line.callee is None else timers[line.callee],
                *(line.line, line.end_line, line.column, line.end_column),
                "cpu" if line.state in _ON_CPU else line.state,
                *(line.looks, line.time_ns, line.seen_ns, line.squares),
                *(line.text_hash, line.context_hash, line.count, line.inclusive_ns),
                _ON_CPU.get(line.state),
            )
            for line in lines
        ),
    )


def line_sums(
    db: ProfileDB, trial: int
) -> list[tuple[tuple[int, int, int], str, int, int, int, int | None]]:
    """Thread, routine's full name, line, looks, time [ns] and count of a trial's lines; no count of
    those that are estimates."""
    return [
        ((node, context, thread), name, *sums)
        for node, context, thread, name, *sums in db.rows(_SUMS, (trial,))
    ]


def exact_lines(db: ProfileDB, trial: int) -> set[tuple[str, int]]:
    """File and number of those lines of a trial that are no estimates anywhere."""
    return {(file or NO_FILE, line) for file, line in db.rows(_EXACT, (trial,))}


def read_lines(db: ProfileDB, trial: int) -> Iterator[tuple[int, LineTime]]:
    """(thread id, line) of all lines of a trial, those of a thread by time; `timer` and `callee`
    are ids."""
    for thread, timer, callee, *own, on_cpu in db.stream(_READ, (trial,)):
        if own[_STATE] == "cpu":
            own[_STATE] = _READY[on_cpu]
        yield thread, LineTime(timer, callee, *own)
