"""Which lines of different trials are the same: one that has only moved, or whose neighbours have
changed, is found by the hashes of its text.

Lines match by file, text and neighbours; then by text and neighbours in another file; then by file
and text alone; and, where the source of a trial is not known, by file and number. Where several
lines of a trial are alike, they match in their order, if the other trial has as many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from taupy.analysis.line_times import LineRow, estimates
from taupy.analysis.match import Key, Rule
from taupy.comparison.trial_values import Value
from taupy.dataclass import NamedTuple
from taupy.errors import MissingMetric, UsageError
from taupy.model.answer import Answer
from taupy.model.rows import TrialRow
from taupy.profiledb import sources
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import labels
from taupy.profiledb.line_values import LINE, REST, Line
from taupy.profiledb.lines import exact_lines, read_lines
from taupy.profiledb.query import threads_by_id
from taupy.units import count, duration

_LEVELS: Sequence[Callable[[Line], Hashable | None]] = (
    lambda line: None if line.context is None else (line.file, line.context),
    lambda line: line.context,
    lambda line: None if line.text is None else (line.file, line.text),
)


def check(metric: str, value: Value | str) -> None:
    """Refuse what is not known of lines.

    Raises:
        UsageError: it is not.
    """
    if metric != "time" or value != "exclusive":
        raise UsageError(
            "of lines, only the time is known (--metric time --value exclusive): with what they "
            "call of libraries, see docs/lines.md"
        )


def missing(trials: str) -> MissingMetric:
    """None of these trials has times of lines."""
    return MissingMetric(
        f"{trials} have no times of lines: they ended before the watch first looked, or were "
        "measured without it (docs/lines.md)"
    )


def line_keys(
    db: ProfileDB, answers: Iterable[Answer], trials: Sequence[int], *, exact: bool
) -> dict[int, dict[Line, Key]]:
    """Trial -> its lines -> their keys, the same for lines that are the same.

    Args:
        answers: by trial and line.
        exact: match by file and number only.
    """
    lines_of: dict[int, dict[Line, None]] = {trial: {} for trial in trials}
    for answer in answers:
        rows = zip(*map(answer.table.row_labels, ("trial", LINE)), strict=True)
        for trial, line in rows:
            lines_of[trial][line] = None
    pool: dict[Line, Key] = {}
    keys: dict[int, dict[Line, Key]] = {}
    for trial, lines in lines_of.items():
        same = _by_place(pool, lines) if exact else matched_lines(pool, lines)
        texts = _texts(db, trial, lines)
        keys[trial] = {
            line: _key(line, texts.get(line), pool.get(same.get(line, line))) for line in lines
        }
        for line, key in keys[trial].items():
            if line not in same:
                pool[line] = key
    return keys


def matched_lines(earlier: Collection[Line], lines: Collection[Line]) -> dict[Line, Line]:
    """Those of `lines` that are the same as a known one -> that one."""
    same = {line: line for line in lines if line in earlier}
    for level in (*_LEVELS, None):
        free = [line for line in earlier if line not in same.values()]
        open_lines = [line for line in lines if line not in same]
        if level is None:
            unknown = _by_place(free, open_lines)
            same |= {line: old for line, old in unknown.items() if None in (line.text, old.text)}
            continue
        theirs, mine = _grouped(free, level), _grouped(open_lines, level)
        for what, group in mine.items():
            if len(theirs.get(what, ())) == len(group):
                same |= dict(zip(group, theirs[what], strict=True))
    return same


def _by_place(earlier: Collection[Line], lines: Collection[Line]) -> dict[Line, Line]:
    at = {(line.file, line.number): line for line in earlier}
    places = ((line, at.get((line.file, line.number))) for line in lines)
    return {line: old for line, old in places if old is not None}


def _grouped(
    lines: Iterable[Line], level: Callable[[Line], Hashable | None]
) -> Mapping[Hashable, list[Line]]:
    groups: dict[Hashable, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: (line.file, line.number)):
        if (what := level(line)) is not None:
            groups[what].append(line)
    return groups


def _key(line: Line, text: str | None, first: Key | None) -> Key:
    """A line's key; `first`: that of the same line in an earlier trial."""
    if line == REST:
        return Key(REST, REST.file, REST.file, None, None, "", "same")
    name = f"{line} {text}" if text else str(line)
    if first is None:
        return Key(line, name, str(line), line.file, line.number, "", "same")
    rule: Rule = "same" if (first.file, first.line) == (line.file, line.number) else "moved"
    return Key(first.identity, name, str(line), line.file, line.number, "", rule)


def _texts(db: ProfileDB, trial: int, lines: Collection[Line]) -> dict[Line, str]:
    """The source text of lines, as far as it is stored or at hand."""
    from taupy.profiledb.source_texts import sources_of  # hashlib: comparisons start without it

    path_of = {file: path for _, file, path in sources.files(db, [trial])}
    of_trial = sources_of(db, trial)
    texts: dict[Line, str] = {}
    for line in lines:
        source = of_trial.source(path_of.get(line.file))
        if source is not None and source.lines and 0 < line.number <= len(source.lines):
            texts[line] = source.lines[line.number - 1].strip()
    return texts


def are_exact(db: ProfileDB, trial: int, lines: Collection[Line]) -> bool:
    """Whether none of a trial's lines is an estimate."""
    counted = exact_lines(db, trial)
    return all((line.file, line.number) in counted for line in lines)


class Looked(NamedTuple):
    """A row of a comparison, in a trial with looks.

    Attributes:
        name: what the row is called there; None: it is not there.
        is_seen: whether a look counts for the row.
    """

    trial: TrialRow
    name: str | None
    is_seen: Callable[[LineRow], bool]


def error_note(db: ProfileDB, sides: Mapping[str, Looked], by: str) -> str:
    """How many looks the times are estimated from, and the standard error of one of them.

    Args:
        sides: by letter.
        by: what the rows are.
    """
    sampled = [letter for letter, side in sides.items() if side.trial.is_sampled]
    others = [letter for letter in sides if letter not in sampled]
    divided = others if by == LINE else []
    parts = []
    for letter in (*sampled, *divided) if sampled else sides:
        trial, name, is_seen = sides[letter]
        rows = _line_rows(db, trial.id)
        error = estimates(rows, is_seen, sampled=trial.is_sampled).get(True)
        part = f"{letter} from {count(sum(row.line.looks for row in rows))} looks"
        parts.append(part if error is None else f"{part}, {name} +-{duration(error.error_ns)}")
    what = "the times of routines are exact, their division among lines is estimated"
    if sampled:
        what = f"all times of {' and '.join(sampled)} are estimated"
    if sampled and others:
        what += f", of {' and '.join(others)} "
        what += "only the division among lines" if divided else "none"
    return f"~: {what}: {'; '.join(parts)}"


def _line_rows(db: ProfileDB, trial: int) -> list[LineRow]:
    stored = list(read_lines(db, trial))
    threads = threads_by_id(db, trial)
    ids = {own.timer for _, own in stored} | {
        own.callee for _, own in stored if own.callee is not None
    }
    timers = {timer: label for timer, (label,) in labels(db, "timer", list(ids)).items()}
    return [
        LineRow(threads[thread], timers[own.timer], timers.get(own.callee), own)
        for thread, own in stored
    ]
