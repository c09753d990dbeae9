"""What py-spy writes in its stacks: processes, threads, routines with their current line.

    process 100:"python a.py";process 101:"python b.py";thread (7): io;read (b.py:12) 5

Each process is that of the next, and the last one that of the stack. A frame has the line that was
running, or with `--function` the first one of its routine; the file does not say which. The line is
dropped, so that all samples of a routine count for one timer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from taupy.formats.stacks import routine_timer
from taupy.model.profile import Thread, Timer

EXPORTER: Final = "py-spy"

_PROCESS: Final = re.compile(r'process ([0-9]{1,10}):"(.*)"', re.ASCII | re.DOTALL)
_THREAD: Final = re.compile(
    r"thread \((0x[0-9a-fA-F]{1,16}|[0-9]{1,19})\)(?:: (.*))?", re.ASCII | re.DOTALL
)
_PROFILE: Final = re.compile(
    r'(?:Process ([0-9]{1,10}) )?Thread (0x[0-9a-fA-F]{1,16}|[0-9]{1,19}) "(.*)"',
    re.ASCII | re.DOTALL | re.IGNORECASE,
)
_FRAME: Final = re.compile(r"(.+) \(([^()]+(?:\([^()]*\)[^()]*)*):([0-9]{1,9})\)", re.DOTALL)
_WITHOUT_LINE: Final = re.compile(
    r"(.+) \((<[^()]+>|[^()]*[^()/\\]\.(?:py|pyx|pxd|so[.0-9]*|dll|dylib))\)", re.DOTALL
)


class Place(NamedTuple):
    """Where a stack was.

    Attributes:
        pid: 0 if the file does not say.
        command: of the process.
        thread: its number as the file has it, "" if it has none.
        name: of the thread.
    """

    pid: int = 0
    command: str = ""
    thread: str = ""
    name: str = ""


def place(frames: Sequence[str]) -> tuple[Place, int]:
    """The process and thread that a stack begins with, and how many frames that takes. A command
    may hold semicolons, which separate frames elsewhere."""
    where, used = Place(), 0
    at = 0
    while at < len(frames) and frames[at].startswith("process "):
        text = frames[at]
        at += 1
        while not (match := _PROCESS.fullmatch(text)) and at < len(frames):
            text += ";" + frames[at]
            at += 1
        if match is None:
            break
        where, used = Place(int(match[1]), match[2]), at
    if used < len(frames) and (match := _THREAD.fullmatch(frames[used])):
        where = where._replace(thread=match[1], name=match[2] or "")
        used += 1
    return where, used


def place_of_profile(title: str) -> Place | None:
    """The process and thread that a profile of a speedscope file is named by."""
    match = _PROFILE.fullmatch(title)
    return Place(int(match[1] or 0), "", match[2], match[3]) if match else None


def timer(frame: str) -> Timer:
    """The timer of a frame."""
    match = _FRAME.fullmatch(frame) or _WITHOUT_LINE.fullmatch(frame)
    return routine_timer(match[1], match[2]) if match else routine_timer(frame)


class Threads:
    """Numbers processes and threads in the order of their appearance."""

    def __init__(self) -> None:
        self._nodes: dict[int, int] = {}
        self._count: dict[int, int] = {}
        self.facts: dict[int, dict[str, str]] = {}

    def thread(self, place: Place) -> Thread:
        """The next thread of the place's process."""
        node = self._nodes.setdefault(place.pid, len(self._nodes))
        number = self._count[node] = self._count.get(node, -1) + 1
        if place.pid:
            facts = self.facts.setdefault(node, {"PID": str(place.pid)})
            if place.command:
                facts.setdefault("Process Name", place.command[:1000])
        native = int(place.thread, 0) if place.thread else 0
        is_native = 0 < native < 1 << 62 and not place.thread.lower().startswith("0x")
        return Thread(node, 0, number, "host", place.name, native if is_native else 0)
