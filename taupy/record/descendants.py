"""Unmeasured descendants of the program, with their run times, for the trial's metadata.

The engines note processes started by a measured process (`record/children.py`), the watch finds
those that others started. If many have the same command, they are listed together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from taupy.dataclass import dataclass
from taupy.model.command_line import joined
from taupy.model.processes import process_start
from taupy.record.children import COMMAND_LENGTH, Notes, lost
from taupy.state import heartbeat
from taupy.state.folder import Folder
from taupy.state.heartbeat import Beat, End
from taupy.state.values import Damaged
from taupy.units import count, duration

_LISTED_AT_MOST, _ALIKE = 100, 3
_TIME_TO_BE_FOUND_NS = 200_000_000


@dataclass(frozen=True, slots=True)
class _Process:
    """An unmeasured process; `ran_ns` is None if its run time is unknown."""

    command: str
    pid: int
    ran_ns: int | None
    runs: bool = False


def others(
    folder: Folder, notes: Notes, reached: Collection[int], elsewhere: Collection[int] = ()
) -> dict[str, str]:
    """All descendants of the program that this run has not measured, as metadata of the trial.

    Args:
        reached: ids of processes that are not lost although none of their parts was read.
        elsewhere: ids of programs that another run has measured, with their descendants.
    """
    try:
        kept, descendants = heartbeat.read(folder), heartbeat.read_seen(folder)
    except (Damaged, OSError):
        kept, descendants = None, []
    beat, ends = kept or (None, [])
    times = _Ends(ends, beat)
    measured = list(_measured_elsewhere(notes, descendants, elsewhere, times))
    below = _below(elsewhere, descendants)
    descendants = [process for process in descendants if process.pid not in below]
    unmeasured = list(_processes(notes, {*reached, *elsewhere}, descendants, times))
    texts = [f"{_counted(unmeasured)} not measured: {_text(unmeasured)}{_missed(beat)}"]
    texts = [text for text in texts if unmeasured]
    if measured:
        texts.append(f"{_counted(measured)} measured by another run: {_text(measured)}")
    return {"taupy.children": "; ".join(texts)} if texts else {}


def _counted(processes: Sequence[_Process]) -> str:
    return "1 process" if len(processes) == 1 else f"{count(len(processes))} processes"


def _text(processes: Sequence[_Process]) -> str:
    listed = list(_listed(processes))
    more = len(listed) - _LISTED_AT_MOST
    return "; ".join(listed[:_LISTED_AT_MOST]) + (f"; and {more} more" if more > 0 else "")


def _below(roots: Collection[int], descendants: Sequence[heartbeat.SeenProcess]) -> set[int]:
    """The ids of these processes and of all below them; a parent is found before its children."""
    below = set(roots)
    for process in descendants:
        if process.parent in below:
            below.add(process.pid)
    return below


def _measured_elsewhere(
    notes: Notes,
    descendants: Sequence[heartbeat.SeenProcess],
    elsewhere: Collection[int],
    ends: _Ends,
) -> Iterator[_Process]:
    noted = {child.pid: child for child in notes.children}
    seen = {process.pid: process for process in descendants}
    for pid in sorted(elsewhere):
        if child := noted.get(pid):
            yield ends.process(child.command, pid, child.began_ns, child.ended_ns)
        elif process := seen.get(pid):
            yield ends.process(_shown(_words(notes, process)), pid, process.seen_ns)
        else:
            yield _Process("taupy run", pid, None)


class _Ends:
    """Run times of processes. Process ids are reused: a process's end is the first one recorded
    after it was found."""

    def __init__(self, ends: Sequence[End], beat: Beat | None) -> None:
        self.until_ns = beat.beat_ns if beat else 0
        self.of: dict[int, list[int]] = {}
        for end in ends:
            self.of.setdefault(end.pid, []).append(end.ended_ns)

    def process(self, command: str, pid: int, began_ns: int, ended_ns: int = 0) -> _Process:
        """The process with its run time; `ended_ns` is 0 if its parent did not note its end."""
        noted = [ended_ns] if ended_ns else []
        moments = [end for end in (*self.of.get(pid, ()), *noted) if end >= began_ns]
        if moments:
            return _Process(command, pid, min(moments) - began_ns)
        runs = self.until_ns > began_ns and process_start(pid) != 0
        return _Process(command, pid, self.until_ns - began_ns if runs else None, runs)


def _processes(
    notes: Notes,
    reached: Collection[int],
    descendants: Sequence[heartbeat.SeenProcess],
    ends: _Ends,
) -> Iterator[_Process]:
    accounted = {child.pid for child in notes.children} | notes.measured | {*reached}
    for process in descendants:
        if process.pid not in accounted:
            words = _words(notes, process)
            yield ends.process(_shown(words), process.pid, process.seen_ns)
    for child in lost(notes, reached):
        if not child.is_unknown:
            yield ends.process(child.command, child.pid, child.began_ns, child.ended_ns)


def _words(notes: Notes, process: heartbeat.SeenProcess) -> list[str]:
    return notes.masking.words(process.command.decode("utf-8", "backslashreplace").split("\0"))


def _listed(processes: Sequence[_Process]) -> Iterator[str]:
    """One entry per process, or per command if there are many."""
    by_command: dict[str, list[_Process]] = {}
    for process in processes:
        by_command.setdefault(process.command, []).append(process)
    for command, alike in by_command.items():
        if len(alike) > _ALIKE:
            yield f"{command} ({count(len(alike))} processes{_range(alike)})"
        else:
            yield from (_named(process) for process in alike)


def _named(process: _Process) -> str:
    if process.ran_ns is None:
        ran = "for an unknown time"
    else:
        ran = f"{'still running after ' if process.runs else ''}{duration(process.ran_ns)}"
    number = f"process {process.pid}, " if process.pid else ""
    return f"{process.command} ({number}{ran})"


def _range(alike: Sequence[_Process]) -> str:
    """The range of their run times."""
    times = [process.ran_ns for process in alike if process.ran_ns is not None]
    unknown = len(alike) - len(times)
    text = f", {duration(min(times))} to {duration(max(times))}" if times else ""
    if running := sum(process.runs for process in alike):
        text += f", {count(running)} of them still running"
    return text + (f", {count(unknown)} of them for an unknown time" if unknown else "")


def _shown(words: Sequence[str]) -> str:
    text = " ".join(joined(word for word in words if word).split()) or "unknown"
    return text if len(text) <= COMMAND_LENGTH else text[: COMMAND_LENGTH - 3] + "..."


def _missed(beat: Beat | None) -> str:
    """A note on periods in which processes may have come and gone unseen."""
    if beat is None or beat.apart_ns <= _TIME_TO_BE_FOUND_NS:
        return ""
    return (
        "; there may be others, because looks for new processes were up to "
        f"{duration(beat.apart_ns)} "
        f"apart: at most {count(beat.unseen)} processes or threads of this machine came and went "
        "unseen"
    )
