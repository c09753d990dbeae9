"""Austin's samples: collapsed stacks with a header that says what they count.

    # austin: 3.4.0
    # mode: wall
    P8374;T8374;<frozen zipimport>:find_spec:61;app.py:main:12 1034

A line begins with process and thread; a frame is file, routine and current line. The line is
dropped, so that all samples of a routine count for one timer. The modes wall and cpu give
microseconds. Memory mode and full mode (`austin -m`, `-f`) are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from taupy.formats import limits, reading
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.formats.stacks import Stacks, profile_of, routine_timer
from taupy.model.metric import CPU_TIME
from taupy.model.profile import TIME, Profile, Thread, ThreadProfile, Timer
from taupy.model.progress import Progress
from taupy.model.timers import Timers
from taupy.units import several

_HEADER = re.compile(rb"# ([A-Za-z_ -]{1,40}): ?(.*)")
_LINE = re.compile(rb"(P[^;]*;T[^; ]*)(?:;(.*))? (-?[0-9]{1,17})")
_FRAME = re.compile(r"(.+):([^:]+):[0-9]+", re.DOTALL)
_METRICS = {"wall": TIME, "cpu": CPU_TIME}
_MICROSECOND_NS = 1000


def recognises(path: Path, first_bytes: bytes) -> bool:
    return first_bytes.startswith(b"# austin: ")


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    timers = Timers()
    threads: dict[str, Stacks] = {}
    facts: dict[str, str] = {}
    negative = 0
    with closing(reading.lines(source, progress)) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if line.startswith(b"#"):
                if (fact := _HEADER.fullmatch(line.rstrip())) and len(facts) < limits.AUSTIN_FACTS:
                    facts.setdefault(fact[1].decode(), fact[2].decode("utf-8", "replace"))
                continue
            if facts.get("mode") not in _METRICS:
                raise refusal(source, f"line {number}", _not_read(facts.get("mode", "")))
            match = _LINE.fullmatch(line.rstrip())
            if match is None:
                raise refusal(
                    source, f"line {number}", "expected process, thread, stack and number"
                )
            if match[3].startswith(b"-"):
                negative += 1
                continue
            frames = match[2].decode("utf-8", "backslashreplace").split(";") if match[2] else []
            if len(frames) > limits.FRAMES:
                raise refusal(source, f"line {number}", f"{len(frames)} frames in one stack")
            stacks = threads.setdefault(match[1].decode("utf-8", "replace"), Stacks())
            row = 0
            for frame in frames or ["(no Python frame)"]:
                row = stacks.below(row, timers.place(_timer(frame)))
            stacks.add(row, int(match[3]) * _MICROSECOND_NS)
    if not threads:
        raise refusal(source, "", "contains no stack")
    metric = _METRICS[facts["mode"]]
    thread_profiles = [
        ThreadProfile(thread, stacks.tree(metric, timers))
        for thread, stacks in zip(_threads(threads), threads.values(), strict=True)
    ]
    profile = profile_of(source, timers.timers, thread_profiles, [metric])
    if negative:
        profile.metadata[IMPORT_NOTES] = f"omitted: {several(negative, 'sample')} of negative time"
    profile.metadata |= {f"austin {name}": value for name, value in facts.items()}
    yield profile


def _not_read(mode: str) -> str:
    return f"austin mode '{mode[:40]}' is not supported; use wall or cpu (austin, austin -c)"


def _timer(frame: str) -> Timer:
    if match := _FRAME.fullmatch(frame):
        return routine_timer(match[2], match[1])
    return routine_timer(frame)


def _threads(places: dict[str, Stacks]) -> Iterator[Thread]:
    """Processes become nodes, in order of appearance; threads keep their names from the file."""
    nodes: dict[str, int] = {}
    seen: dict[int, int] = {}
    for place in places:
        process, _, thread = place.partition(";")
        node = nodes.setdefault(process, len(nodes))
        number = seen[node] = seen.get(node, -1) + 1
        yield Thread(node, 0, number, "host", f"{process} {thread}")


FORMAT = Format(
    name="austin",
    title="Austin samples",
    suffixes=(".austin",),
    recognises=recognises,
    read=read,
)
