"""A profile from looks at processes that run already (`taupy attach`).

Each look at a thread counts for the time since the previous one. A call path's time is thus
estimated, and calls are unknown; lines are those that were seen. `watch/foreign.py` reads the
frames.
"""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from contextlib import suppress
from typing import NamedTuple

from taupy.formats.places import library_folder
from taupy.formats.stacks import Stacks
from taupy.instrument.runfolder import RunSettings, new_uuid
from taupy.model.masking import Masking
from taupy.model.processes import contents
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
from taupy.record.host_profile import FileNames
from taupy.record.line_table import Position, position_at, positions
from taupy.record.lines import add_texts
from taupy.record.source_files import own_codes, read_sources
from taupy.state.lines import ACTIVE, STATES
from taupy.units import several
from taupy.watch.foreign import Frame
from taupy.watch.looks import state_of

_PLACES_AT_MOST = 1_000_000
"""Stacks with their lines that are told apart; of later ones, the lines are dropped."""

_Code = tuple[str, str, int]
_Place = tuple[int, Position | None]


class _Sums:
    """Of looks: their number, and of the times that they stand for, sum [ns] and sum of squares."""

    __slots__ = ("looks", "ns", "squares")

    def __init__(self) -> None:
        self.looks, self.ns, self.squares = 0, 0, 0.0


class _Looked(NamedTuple):
    """What was seen of one thread: by state and stack, which begins with the outermost frame."""

    name: str
    stacks: defaultdict[tuple[int, tuple[_Place, ...]], _Sums]


class Looks:
    """All looks at a process and those that it started.

    Attributes:
        unseen: threads that began and ended between two looks.
    """

    def __init__(self) -> None:
        self.looks = self.torn = self.unseen = 0
        self.threads: dict[tuple[int, int], _Looked] = {}
        self.facts: dict[int, _Facts] = {}  # as long as there is something to read
        self._codes: dict[_Code, int] = {}
        self._places = 0
        self._positions: dict[tuple[bytes, int], list[Position | None]] = {}

    def add(
        self, pid: int, native_id: int, name: str, state: int, frames: list[Frame], took_ns: int
    ) -> None:
        """Count one look at a thread, for the time since the previous one."""
        thread = self.threads.get((pid, native_id))
        if thread is None:
            thread = self.threads[pid, native_id] = _Looked(name, defaultdict(_Sums))
            self.facts[pid] = _facts(pid) or self.facts.get(pid, _Facts())
        keeps = self._places < _PLACES_AT_MOST
        stack = tuple(
            (self._code(frame), self._position(frame) if keeps else None)
            for frame in reversed(frames)
        )
        before = len(thread.stacks)
        sums = thread.stacks[state, stack]
        self._places += len(thread.stacks) - before
        sums.looks += 1
        sums.ns += took_ns
        sums.squares += float(took_ns) * took_ns
        self.looks += 1

    def _code(self, frame: Frame) -> int:
        key = frame.file, frame.name, frame.first_line
        return self._codes.setdefault(key, len(self._codes))

    def _position(self, frame: Frame) -> Position | None:
        key = frame.table, frame.first_line  # routines of one shape have equal tables
        units = self._positions.get(key)
        if units is None:
            units = self._positions[key] = positions(*key)
        return position_at(units, frame.instruction)

    def profile(self, pid: int, started_at: float, duration_ns: int, masking: Masking) -> Profile:
        """The profile of process `pid` and of those below it.

        Raises:
            ValueError: nothing was seen.
        """
        if not self.threads:
            raise ValueError("no thread ran any Python")
        facts = self.facts
        folders = {library_folder(file) for file, _, _ in self._codes}
        settings = _settings(facts.get(pid, _Facts()), started_at, sorted(filter(None, folders)))
        names = FileNames(settings)
        timers = Timers()
        placed = [
            timers.place(_timer(code, names)) for code in self._codes
        ]  # in the order of their numbers
        first = (pid, pid)  # the main thread
        self.threads = dict(sorted(self.threads.items(), key=lambda item: item[0] != first))
        nodes = {process: node for node, process in enumerate(dict.fromkeys([pid, *facts]))}
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
        count = dict.fromkeys(nodes.values(), 0)
        for (process, native_id), seen in self.threads.items():
            node = nodes[process]
            stacks = Stacks()
            states: dict[tuple[int, str], _Sums] = defaultdict(_Sums)
            for (state, stack), sums in seen.stacks.items():
                row = 0
                for code, _ in stack:
                    row = stacks.below(row, placed[code])
                stacks.add(row, sums.ns)
                if state != ACTIVE:  # else it is not known whether it ran
                    of_state = states[row, SEEN[state_of(state)]]
                    of_state.looks += sums.looks
                    of_state.ns += sums.ns
            tree = stacks.tree(TIME, timers)
            above = len(stacks.timer) - len(tree)  # rows above the first frame
            events = [
                Statistics(of.looks, ABSENT, ABSENT, of.ns, ABSENT).event(name, "ns", row - above)
                for (row, name), of in states.items()
            ]
            thread = Thread(node, 0, count[node], "host", seen.name, native_id)
            count[node] += 1
            profile.threads.append(ThreadProfile(thread, tree, events))
        own = {*own_codes(profile, range(len(timers.timers)))}
        for measured, seen in zip(profile.threads, self.threads.values(), strict=True):
            measured.lines = _lines(seen, placed, own)
        for process, node in nodes.items():
            if process in facts:
                profile.node_metadata[node] = facts[process].metadata(process)
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
        }
        masking.mask(profile)
        profile.sources = read_sources(profile, settings, masking)
        add_texts(profile, masking)
        return profile


def _timer(code: _Code, names: FileNames) -> Timer:
    file, name, line = code
    return Timer(name, names.shown(file), line if line > 0 else None, path=names.absolute(file))


def _lines(seen: _Looked, placed: list[int], own: set[int]) -> list[LineTime]:
    """The times of the lines of the program's own routines, the longest first."""
    sums: dict[tuple[int, int | None, Position, int], _Sums] = defaultdict(_Sums)
    for (state, stack), of_stack in seen.stacks.items():
        for at in range(len(stack) - 1, -1, -1):
            code, position = stack[at]
            if placed[code] in own:
                callee = None if at == len(stack) - 1 else placed[stack[-1][0]]
                if position is not None:
                    of_line = sums[placed[code], callee, position, state]
                    of_line.looks += of_stack.looks
                    of_line.ns += of_stack.ns
                    of_line.squares += of_stack.squares
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

    def metadata(self, pid: int) -> dict[str, str]:
        return (
            {"PID": str(pid), "Process Name": os.path.basename(self.words[0])[:1000]}
            if (self.words)
            else {"PID": str(pid)}
        )


def _facts(pid: int) -> _Facts | None:
    with suppress(OSError):
        words = contents(f"/proc/{pid}/cmdline", 1 << 16).decode("utf-8", "replace")
        return _Facts(tuple(words.rstrip("\0").split("\0")), os.readlink(f"/proc/{pid}/cwd"))
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
