"""Answer questions by `line`: the time of the program's lines, estimated or exact.

    Question((7,), by=("thread", "line"))
    Question((7, 8), by=("trial", "file", "line"))

A line's time includes what it calls of libraries and C functions (docs/lines.md). Lines that are
not exact in any of the trials, and were seen less than ten times, with this text, in each of them,
share a label, `REST`: otherwise, a line would be missing in the trial in which it is short. Of
lines, only the time is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from taupy.errors import UsageError
from taupy.model.metric import TIME
from taupy.model.names import NO_FILE
from taupy.model.profile import LEAST_LOOKS
from taupy.model.question import COUNTS, VALUES, Question
from taupy.model.table import Amount, Column, Table, merged
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import dimension, ids_where, labels, listed

LINE = "line"

_READ = """
    SELECT line.trial_id, line.thread_id, line.timer_id, timer.file, line.line,
           max(line.text_hash), max(line.context_hash), sum(line.looks),
           sum(line.count), sum(line.time_ns)
      FROM line
      JOIN timer ON timer.id = line.timer_id
     WHERE line.trial_id IN ({trials})
     GROUP BY line.trial_id, line.thread_id, line.timer_id, timer.file, line.line
     ORDER BY line.trial_id, line.thread_id, line.timer_id, line.line"""


class Line(NamedTuple):
    """A line of the program.

    Attributes:
        text, context: hashes of its text, and of its text with its neighbours; None: not known.
    """

    file: str
    number: int
    text: int | None = None
    context: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.number}" if self.number else self.file


REST = Line("(lines seen less than ten times)", 0)


def line_values(db: ProfileDB, question: Question) -> Table:
    """The sums of a question that groups by lines.

    Raises:
        UsageError: it asks for something that is not known of lines.
    """
    _check(question)
    rows = _rows(db, question)
    ids: dict[str, Sequence[Any]] = {
        name: [row[at] for row in rows]
        for at, name in enumerate(("trial", "thread", "timer", LINE))
    }
    codes, names = {}, {}
    for name in question.by:
        of_rows = ids[LINE] if name == LINE else _labels(db, name, ids[dimension(name).of])
        numbers: dict[Any, int] = {}
        codes[name] = [numbers.setdefault(label, len(numbers)) for label in of_rows]
        names[name] = list(numbers)
    times = [row[-1] for row in rows]
    nothing: list[Amount] = [None] * len(rows)
    cells: dict[Column, Sequence[Amount]] = {
        Column(value, "", "call"): nothing for value in COUNTS if value in question.values
    }
    cells |= {
        Column(value, metric, "ns"): times if value == "exclusive" else nothing
        for metric in question.metrics
        for value in question.values
        if value not in COUNTS
    }
    return merged(Table(codes, names, cells, len(rows)))


def _check(question: Question) -> None:
    for name in question.dimensions:
        definition = dimension(name)
        if name != LINE and (
            definition.of not in ("trial", "thread", "timer") or definition.several
        ):
            raise UsageError(f"lines are not divided by {name}")
    if not {*question.values} <= {*VALUES} or {*question.metrics} - {TIME.name}:
        raise UsageError("of lines, only the exclusive time is known: see docs/lines.md")


def _rows(db: ProfileDB, question: Question) -> list[tuple[int, int, int, Line, int]]:
    """Trial, thread, timer, line and time."""
    where = [condition for condition in question.where if condition.dimension != LINE]
    trials = ids_where(db, "trial", question.trials, where)
    chosen = question.trials if trials is None else trials
    of_threads = ids_where(db, "thread", chosen, where)
    of_timers = ids_where(db, "timer", chosen, where)
    kept = None if of_threads is None else {*of_threads}
    timers = None if of_timers is None else {*of_timers}
    looks_of: dict[tuple[int, str, int], int] = defaultdict(int)
    rows = []
    for trial, thread, timer, file, number, text, context, looks, count, time in db.rows(
        _READ.replace("{trials}", listed(chosen))
    ):
        line = Line(file or NO_FILE, number, text, context)
        looks_of[trial, line.file, _meant(line)] += looks if count is None else LEAST_LOOKS
        if (kept is None or thread in kept) and (timers is None or timer in timers):
            rows.append((trial, thread, timer, line, time))
    wanted = [limit.labels for limit in question.where if limit.dimension == LINE]
    seen = {(file, meant) for (_, file, meant), n in looks_of.items() if n >= LEAST_LOOKS}
    labelled = (
        (trial, thread, timer, line if (line.file, _meant(line)) in seen else REST, time)
        for trial, thread, timer, line, time in rows
    )
    return [row for row in labelled if all(str(row[3]) in names for names in wanted)]


def _meant(line: Line) -> int:
    """What a line has in common with itself in other trials, where it may have moved."""
    return line.number if line.text is None else line.text


def _labels(db: ProfileDB, name: str, ids: Sequence[int]) -> Sequence[Any]:
    of_id = labels(db, name, [*dict.fromkeys(ids)])
    return [of_id[id][0] for id in ids]
