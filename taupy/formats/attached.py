"""A profile from looks at processes that run already (`taupy attach`).

Each look at a thread counts for the time since the previous one. A call path's time is thus
estimated, and calls are unknown; lines are those that were seen. Threads that have ended are added
up as those of a run are (`_native/thread_rows.h`), and so are forked children
(`record/process_rows.py`), which are alike here if their command line is that of the same parent.
`watch/foreign.py` reads the frames.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import defaultdict
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from taupy.formats.places import library_folder
from taupy.formats.stacks import Stacks
from taupy.instrument.runfolder import RunSettings, new_uuid
from taupy.model.masking import Masking
from taupy.model.processes import contents, parent
from taupy.model.profile import (
    ABSENT,
    TIME,
    LineTime,
    Profile,
    Statistics,
    Thread,
    ThreadProfile,
    Timer,
)
from taupy.model.sampled import STATES as SEEN
from taupy.model.timers import Timers
from taupy.record.host_profile import FileNames, row_name
from taupy.record.in_step import InStep
from taupy.record.line_table import Position, position_at, positions
from taupy.record.lines import add_texts
from taupy.record.native_part import threads_added
from taupy.record.process_rows import ADDED as CHILDREN_ADDED
from taupy.record.process_rows import POOLS, children_added
from taupy.record.source_files import own_codes, read_sources
from taupy.state.lines import ACTIVE, STATES
from taupy.units import several
from taupy.watch.foreign import Frame
from taupy.watch.looks import state_of

_PLACES_AT_MOST = 1_000_000
"""Stacks with their lines that are told apart; of later ones, the lines are dropped."""

_UNNAMED = re.compile(r"(Thread|Dummy)-\d+( |$)")
"""What threading calls threads without a name of their own; Python 3.14 tells it the system."""

_Code = tuple[str, str, int]
_Place = tuple[int, Position | None]


class _Sums:
    """Of looks: their number, and of the times that they stand for, sum [ns] and sum of squares."""

    __slots__ = ("looks", "ns", "squares")

    def __init__(self) -> None:
        self.looks, self.ns, self.squares = 0, 0, 0.0

    def look(self, ns: int) -> None:
        self.looks += 1
        self.ns += ns
        self.squares += float(ns) * ns

    def add(self, other: _Sums) -> None:
        self.looks += other.looks
        self.ns += other.ns
        self.squares += other.squares


_Ended = TypeVar("_Ended", "_Looked", "_Process")


class _Looked:
    """What was seen of one thread, or of several that have ended.

    Attributes:
        stacks: by state and stack, which begins with the outermost frame.
        began: the routine that they began in; None: it is a main thread, or has not ended.
        times: of several, how long each was looked at [ns].
    """

    __slots__ = ("began", "name", "native_id", "stacks", "times")

    def __init__(self, native_id: int, name: str) -> None:
        self.native_id, self.name = native_id, name
        self.stacks: defaultdict[tuple[int, tuple[_Place, ...]], _Sums] = defaultdict(_Sums)
        self.began: int | None = None
        self.times = Statistics()

    def take(self, ended: _Looked) -> None:
        """Add one that has ended, or several."""
        for looked in (self, ended):
            if not looked.times.count:
                looked.times.add(sum(sums.ns for sums in looked.stacks.values()))
        limits = ended.times.minimum, ended.times.maximum
        self.times.add(ended.times.total / ended.times.count, ended.times.count, limits)
        for place, sums in ended.stacks.items():
            self.stacks[place].add(sums)


class _Process:
    """What was seen of one process, or of several that have ended.

    Attributes:
        threads: in the order in which they were seen first.
        living: those that have not ended, by id.
        ended: those that have, by the routine that they began in.
    """

    __slots__ = ("count", "ended", "facts", "living", "pid", "threads")

    def __init__(self, pid: int) -> None:
        self.pid, self.count = pid, 1
        self.facts = _Facts()
        self.threads: dict[_Looked, None] = {}
        self.living: dict[int, _Looked] = {}
        self.ended: defaultdict[int, _Alike[_Looked]] = defaultdict(_Alike)

    def take(self, ended: _Process) -> None:
        """Add one that has ended: a row for each routine that threads began in."""
        threads = [*self.threads, *ended.threads]
        self.threads = {}
        of: dict[int | None, _Looked] = {}
        for looked in threads:
            if (first := of.setdefault(looked.began, looked)) is not looked:
                first.take(looked)
        self.threads = dict.fromkeys(of.values())
        self.count += ended.count

    def metadata(self) -> dict[str, str]:
        which = {"PID": str(self.pid)} if self.count == 1 else {"Processes": str(self.count)}
        if self.facts.words:
            which["Process Name"] = os.path.basename(self.facts.words[0])[:1000]
        return which


class _Alike(Generic[_Ended]):
    """Threads, or processes, that began alike and have ended.

    Attributes:
        apart: how many stay as they are.
        sums: the next one, to which further ones are added.
    """

    __slots__ = ("apart", "sums")

    def __init__(self) -> None:
        self.apart = 0
        self.sums: _Ended | None = None

    def has_taken(self, ended: _Ended, apart: int) -> bool:
        """Whether it has been added to another one."""
        if self.apart < apart:
            self.apart += 1
        elif self.sums is None:
            self.sums = ended
        else:
            self.sums.take(ended)
            return True
        return False


class _Round:
    """Looks of one round at threads that began in the same routine, compared with each other."""

    def __init__(self) -> None:
        self._sums = [0.0, 0.0, 0.0]
        self._seen: set[_Looked] = set()
        self._of: dict[int, dict[tuple[int, int], list[int]]] = {}

    def add(self, thread: _Looked, began: int, line: tuple[int, int], ns: int) -> None:
        if thread in self._seen:
            self._end()
        self._seen.add(thread)
        self._of.setdefault(began, {}).setdefault(line, []).append(ns)

    def _end(self) -> None:
        for of_lines in self._of.values():
            every = [ns for of_line in of_lines.values() for ns in of_line]
            if len(every) > 1:
                squares = sum(ns * ns for ns in every)
                alike = sum(sum(of_line) ** 2 for of_line in of_lines.values())
                for at, more in enumerate((sum(every) ** 2 - squares, alike - squares, squares)):
                    self._sums[at] += more
        self._seen.clear()
        self._of.clear()

    def sums(self) -> tuple[float, float, float]:
        """As `pairs`, `alike` and `paired` of `state.lines.Head`."""
        self._end()
        pairs, alike, paired = self._sums
        return pairs, alike, paired


class Looks:
    """All looks at a process and those that it started.

    Args:
        apart: how many ended threads of one beginning stay as they are; None: all.

    Attributes:
        unseen: threads that began and ended between two looks.
    """

    def __init__(self, apart: int | None = None) -> None:
        self.looks = self.torn = self.unseen = 0
        self._apart = apart
        self._processes: dict[_Process, None] = {}
        self._living: dict[int, _Process] = {}
        self._forked: defaultdict[int, _Alike[_Process]] = defaultdict(_Alike)
        self._codes: dict[_Code, int] = {}
        self._is_pool: list[bool] = []
        self._is_threading: list[bool] = []
        self._is_own: list[bool] = []
        self._round = _Round()
        self._places = 0
        self._positions: dict[tuple[bytes, int], list[Position | None]] = {}

    def add(
        self, pid: int, native_id: int, name: str, state: int, frames: list[Frame], took_ns: int
    ) -> None:
        """Count one look at a thread, for the time since the previous one."""
        process = self._living.get(pid)
        if process is None:
            process = self._living[pid] = _Process(pid)
            self._processes[process] = None
        thread = process.living.get(native_id)
        if thread is None:
            thread = process.living[native_id] = _Looked(native_id, name)
            process.threads[thread] = None
            process.facts = _facts(pid) or process.facts
        keeps = self._places < _PLACES_AT_MOST
        stack = tuple(
            (self._code(frame), self._position(frame) if keeps else None)
            for frame in reversed(frames)
        )
        before = len(thread.stacks)
        thread.stacks[state, stack].look(took_ns)
        self._round.add(thread, *self._where(stack), took_ns)
        self._places += len(thread.stacks) - before
        self.looks += 1

    def end_thread(self, pid: int, native_id: int) -> None:
        """A thread that is no main thread has ended: see `_native/thread_rows.h`."""
        process = self._living.get(pid)
        ended = None if process is None else process.living.pop(native_id, None)
        if process is None or ended is None:
            return
        began = [self._beginning(stack) for _, stack in ended.stacks]
        ended.began = next((code for code in began if not self._is_threading[code]), began[0])
        if (
            self._apart is not None
            and (ended.name == process.facts.name or _UNNAMED.match(ended.name))
            and not self._is_pool[ended.began]
            and process.ended[ended.began].has_taken(ended, self._apart)
        ):
            del process.threads[ended]

    def end_process(self, pid: int) -> None:
        """A process has ended: see `record/process_rows.py`."""
        process = self._living.get(pid)
        if process is None:
            return
        for native_id in process.living.keys() - {pid}:
            self.end_thread(pid, native_id)
        del self._living[pid]
        facts = process.facts
        parent = self._living.get(facts.parent)
        codes = {code for of in process.threads for _, stack in of.stacks for code, _ in stack}
        if (
            self._apart is not None
            and parent is not None
            and facts.words == parent.facts.words
            and not any(of.facts.parent == pid for of in self._processes)
            and not any(self._is_pool[code] for code in codes)
            and self._forked[facts.parent].has_taken(process, self._apart)
        ):
            del self._processes[process]

    def _code(self, frame: Frame) -> int:
        key = frame.file, frame.name, frame.first_line
        code = self._codes.setdefault(key, len(self._codes))
        if code == len(self._is_pool):
            self._is_pool.append(any(pool in frame.file for pool in POOLS))
            self._is_threading.append(frame.file.endswith("/threading.py"))
            self._is_own.append(library_folder(frame.file) is None and frame.file[:1] != "<")
        return code

    def _beginning(self, stack: tuple[_Place, ...]) -> int:
        """The routine that a thread began in: the first one that is not the module threading's."""
        return next((code for code, _ in stack if not self._is_threading[code]), stack[0][0])

    def _where(self, stack: tuple[_Place, ...]) -> tuple[int, tuple[int, int]]:
        """The routine that the thread began in, and the line of the program that it is in."""
        code, position = next((at for at in reversed(stack) if self._is_own[at[0]]), stack[-1])
        return self._beginning(stack), (code, 0 if position is None else position.line)

    def _widen(self) -> None:
        """Make squares those of independent looks."""
        in_step = InStep()
        looked = [
            (seen if seen.times.count < 2 else number, self._where(stack), sums)
            for process in self._processes
            for seen in process.threads
            for number, ((_, stack), sums) in enumerate(seen.stacks.items())
        ]
        for thread, (began, line), sums in looked:
            in_step.add(began, line, thread, sums.ns)
        effect = in_step.effect(*self._round.sums())
        for _, (began, _), sums in looked:
            if began in in_step.together:
                sums.squares *= effect

    def _position(self, frame: Frame) -> Position | None:
        key = frame.table, frame.first_line  # routines of one shape have equal tables
        units = self._positions.get(key)
        if units is None:
            units = self._positions[key] = positions(*key)
        return position_at(units, frame.instruction)

    def _thread(self, of: _Process, seen: _Looked, node: int, number: int) -> Thread:
        """The thread, or row of threads, as which the trial has it."""
        count = seen.times.count
        if of.count == 1 and not count:
            return Thread(node, 0, number, "host", seen.name, seen.native_id)
        name = "" if seen.began is None else f" of {[*self._codes][seen.began][1]}"
        if of.count == 1:
            name = row_name("threads", self._apart or 0, count) + name
        else:
            name = row_name("processes", self._apart or 0, of.count) + (name and f", threads{name}")
        limits = (int(seen.times.minimum), int(seen.times.maximum)) if count else ()
        return Thread(node, 0, number, "host", name, 0, count or 1, *limits)

    def _added_up(self) -> dict[str, str]:
        """What the trial says about threads and processes without rows of their own."""
        facts = {}
        counts = [
            seen.times.count
            for process in self._processes
            if process.count == 1
            for seen in process.threads
            if seen.times.count
        ]
        if counts:
            facts["taupy.health.threads_added"] = threads_added(sum(counts), len(counts))
        if counts := [process.count for process in self._processes if process.count > 1]:
            facts[CHILDREN_ADDED] = children_added(
                sum(counts), len(counts), "process that forked them"
            )
        return facts

    def profile(self, pid: int, started_at: float, duration_ns: int, masking: Masking) -> Profile:
        """The profile of process `pid` and of those below it.

        Raises:
            ValueError: nothing was seen.
        """
        if not self._processes:
            raise ValueError("no thread ran any Python")
        self._widen()
        folders = {library_folder(file) for file, _, _ in self._codes}
        processes = sorted(self._processes, key=lambda process: process.pid != pid)
        begin = int(processes[0].pid != pid)  # nothing was seen of the first one
        facts = _Facts() if begin else processes[0].facts
        settings = _settings(facts, started_at, sorted(filter(None, folders)))
        names = FileNames(settings)
        timers = Timers()
        placed = [
            timers.place(_timer(code, names)) for code in self._codes
        ]  # in the order of their numbers
        profile = Profile(
            uuid=new_uuid(),
            application=settings.application,
            experiment="default",
            started_at=started_at,
            duration_ns=duration_ns,
            timers=timers.timers,
            threads=[],
            metrics=[TIME],
        )
        seen_threads = list[_Looked]()
        for node, process in enumerate(processes, begin):
            profile.node_metadata[node] = process.metadata()
            rows = sorted(process.threads, key=lambda seen: seen.native_id != process.pid)
            seen_threads += rows
            for number, seen in enumerate(rows):
                thread = self._thread(process, seen, node, number)
                profile.threads.append(_measured(seen, thread, placed, timers))
        own = {*own_codes(profile, range(len(timers.timers)))}
        for measured, seen in zip(profile.threads, seen_threads, strict=True):
            measured.lines = _lines(seen, placed, own)
        unseen = (
            f"; {several(self.unseen, 'thread')} came and went between two looks, for which those "
            "that were seen stand"
            if self.unseen
            else ""
        )
        profile.metadata = {
            "Command Line": shlex.join(settings.arguments),
            "taupy.lines": f"{self.looks} looks, {self.torn} torn{unseen}",
            "taupy.health.attached": (
                f"sampled: {self.looks} looks from outside, while it ran; times are estimates, "
                f"calls are unknown{unseen}"
            ),
            **self._added_up(),
        }
        masking.mask(profile)
        profile.sources = read_sources(profile, settings, masking)
        add_texts(profile, masking)
        return profile


def _timer(code: _Code, names: FileNames) -> Timer:
    file, name, line = code
    return Timer(name, names.shown(file), line if line > 0 else None, path=names.absolute(file))


def _measured(seen: _Looked, thread: Thread, placed: list[int], timers: Timers) -> ThreadProfile:
    """The profile of a thread, without lines."""
    stacks = Stacks()
    states: dict[tuple[int, str], _Sums] = defaultdict(_Sums)
    for (state, stack), sums in seen.stacks.items():
        row = 0
        for code, _ in stack:
            row = stacks.below(row, placed[code])
        stacks.add(row, sums.ns)
        if state != ACTIVE:  # else it is not known whether it ran
            states[row, SEEN[state_of(state)]].add(sums)
    tree = stacks.tree(TIME, timers)
    above = len(stacks.timer) - len(tree)  # rows above the first frame
    events = [
        Statistics(of.looks, ABSENT, ABSENT, of.ns, ABSENT).event(name, "ns", row - above)
        for (row, name), of in states.items()
    ]
    return ThreadProfile(thread, tree, events)


def _lines(seen: _Looked, placed: list[int], own: set[int]) -> list[LineTime]:
    """The times of the lines of the program's own routines, the longest first."""
    sums: dict[tuple[int, int | None, Position, int], _Sums] = defaultdict(_Sums)
    for (state, stack), of_stack in seen.stacks.items():
        for at in range(len(stack) - 1, -1, -1):
            code, position = stack[at]
            if placed[code] in own:
                callee = None if at == len(stack) - 1 else placed[stack[-1][0]]
                if position is not None:
                    sums[placed[code], callee, position, state].add(of_stack)
                break
    lines = [
        LineTime(timer, callee, *position, STATES[state], of.looks, of.ns, of.ns, of.squares)
        for (timer, callee, position, state), of in sums.items()
    ]
    return sorted(lines, key=lambda line: (-line.time_ns, line.timer, line.line, line.column))


class _Facts(NamedTuple):
    """What /proc says of a process."""

    words: tuple[str, ...] = ()
    cwd: str = ""
    name: str = ""
    parent: int = 0


def _facts(pid: int) -> _Facts | None:
    with suppress(OSError, ValueError):
        words, name = (
            contents(f"/proc/{pid}/{fact}", 1 << 16).decode("utf-8", "replace")
            for fact in ("cmdline", "comm")
        )
        return _Facts(
            tuple(words.rstrip("\0").split("\0")),
            os.readlink(f"/proc/{pid}/cwd"),
            name.strip(),
            parent(pid),
        )
    return None


def _settings(facts: _Facts, started_at: float, libraries: list[str]) -> RunSettings:
    """As of a run of the process's program, as far as names and source files need them."""
    from taupy.model import command_line

    words = list(facts.words[1:])
    program = command_line.split(words)[1] if words else []
    first = program[0] if program else ""
    stem = os.path.basename(program[1] if first == "-m" and len(program) > 1 else first)
    return RunSettings(
        application=stem.removesuffix(".py").lstrip("-") or "attached",
        arguments=program,
        cwd=facts.cwd or "/",
        program_folder=os.path.dirname(os.path.join(facts.cwd or "/", first)),
        library_folders=libraries,
        engine_options={},
        launched_at=started_at,
    )
