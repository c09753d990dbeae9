"""Collapsed stacks, the input of flame graphs: one line per call path, `main;f;g 417`.

taupy writes the exclusive time in nanoseconds; the first frame names the thread and the unit:
`thread 0.0.1 worker [ns];main;f 417`. For a trial without times it writes samples, or the first
metric: `[inuse_space B]`. Any such file can be read. Files of other tools do not say what they
count; their numbers become the metric `samples`, which is exported unchanged.

Python's sampling profiler (Tachyon) begins each stack with its thread, `tid:140001`, and writes
frames as `file:routine:line`, with the line that was running: lines of one routine are one timer.
So are those of py-spy (`py_spy.py`). difffolded.pl writes two numbers, of two trials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from math import isfinite
from pathlib import Path

from taupy.escaping import visible
from taupy.formats import limits, py_spy, reading, registry
from taupy.formats.capabilities import SAMPLES, one_metric
from taupy.formats.py_spy import Place
from taupy.formats.reading import refusal
from taupy.formats.registry import Format
from taupy.formats.stacks import (
    Stacks,
    nothing_to_write,
    profile_of,
    refuse_depth,
    routine_timer,
    unsummed,
    walk,
)
from taupy.model.profile import (
    ROOT_TIMER,
    TIME,
    CallTree,
    Metric,
    Profile,
    Thread,
    ThreadProfile,
    Timer,
)
from taupy.model.progress import Progress
from taupy.model.timers import Timers

_BLOCK = 100
"""Lines that are written at once: a line may have thousands of frames."""
_ROOT = Timer(ROOT_TIMER, groups=("TAUPY",))

_NUMBER = rb"([0-9]{1,18}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_LINE = re.compile(rb"\S.*[ \t]" + _NUMBER + rb"\s*")
_TWO = re.compile(rb"\S.*[ \t]" + _NUMBER + rb"[ \t]+" + _NUMBER + rb"\s*")
_TACHYON_THREAD = re.compile(r"tid:([0-9]{1,18})", re.ASCII)
_TACHYON_FRAME = re.compile(r"(.+):([^:]+):([0-9]{1,9})", re.ASCII | re.DOTALL)
_THREAD = re.compile(
    r"thread ([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?: (.*))? \[(?:ns|(.+) (\S+))\]",
    re.ASCII | re.DOTALL,
)


def recognises(path: Path, first_bytes: bytes) -> bool:
    """Whether all lines end in a number, except comments and a last line that may be cut off."""
    if b"\0" in first_bytes:
        return False
    lines = first_bytes.split(b"\n")
    whole = lines[:-1] if len(first_bytes) >= 65_536 else lines
    whole = [line for line in whole if not _is_comment(line)]
    if not whole or not all(_LINE.fullmatch(line) for line in whole):
        return False
    stacked = any(b";" in line for line in whole)
    return stacked or path.suffix in (".collapsed", ".folded", ".stacks")


def _is_comment(line: bytes) -> bool:
    """An empty line, one that begins with `#`, or one that begins with `//` and is no stack."""
    text = line.strip()
    return not text or text[:1] == b"#" or (text[:2] == b"//" and not _LINE.fullmatch(line))


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    """The trial of a file, or the two that difffolded.pl compared in it."""
    first = registry.first_bytes(source) if source.stat().st_size else b""
    columns = 2 if _has_two_columns(first) else 1
    line_of = (_LINE, _TWO)[columns - 1]
    trials = [_Trial() for _ in range(columns)]
    with closing(reading.lines(source, progress)) as lines:
        for number, line in enumerate(lines, 1):
            if _is_comment(line):
                continue
            match = line_of.fullmatch(line)
            if match is None:
                what = "a number" if columns == 1 else "two numbers, as before it"
                raise refusal(source, f"line {number}", f"expected a stack followed by {what}")
            frames = line[: match.start(1)].strip().decode("utf-8", "backslashreplace").split(";")
            if len(frames) > limits.FRAMES:
                raise refusal(source, f"line {number}", f"{len(frames)} frames in one stack")
            for trial, text in zip(trials, match.groups(), strict=True):
                weight = float(text) if not text.isdigit() else int(text)
                if not isfinite(weight) or weight > 1 << 62:
                    raise refusal(source, f"line {number}", "the number is too large")
                if weight or columns == 1:
                    trial.add(frames, weight)
    if not any(trial.threads for trial in trials):
        raise refusal(source, "", "contains no stack")
    for number, trial in enumerate(trials, 1):
        if trial.threads:
            profile = trial.profile(source)
            if columns == 2:
                profile.uuid, profile.name = str(number), ("before", "after")[number - 1]
            yield profile


def _has_two_columns(first_bytes: bytes) -> bool:
    """Whether all stacks are followed by two numbers, as difffolded.pl writes them."""
    lines = first_bytes.split(b"\n")
    whole = lines[:-1] if len(first_bytes) >= registry.FIRST_BYTES else lines
    whole = [line for line in whole if not _is_comment(line)]
    return any(b";" in line for line in whole) and all(_TWO.fullmatch(line) for line in whole)


class _Trial:
    """The stacks of one trial, by thread."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.threads: dict[str | Place, Stacks] = {}
        self._placed: dict[Callable[[str], Timer], dict[str, int]] = {}

    def add(self, frames: list[str], weight: float) -> None:
        place: str | Place = ""
        timer_of: Callable[[str], Timer] = routine_timer
        if _TACHYON_THREAD.fullmatch(frames[0]):
            place, first, timer_of = frames[0], 1, _tachyon_timer
        elif _THREAD.fullmatch(frames[0]):
            place, first = frames[0], 1
        else:
            of_py_spy, first = py_spy.place(frames)
            place, timer_of = of_py_spy if first else "", py_spy.timer
        stacks = self.threads.get(place)
        if stacks is None:
            stacks = self.threads[place] = Stacks()
        placed = self._placed.setdefault(timer_of, {})
        row = 0
        for frame in frames[first:] if first else frames:
            timer = placed.get(frame)
            if timer is None:
                timer = placed[frame] = self.timers.place(timer_of(frame))
            row = stacks.below(row, timer)
        stacks.add(row, weight)

    def profile(self, source: Path) -> Profile:
        metrics = {_metric(place) for place in self.threads}
        if len(metrics) > 1:
            self.threads = {"": self._merged()}
        metric = metrics.pop() if len(metrics) == 1 else SAMPLES
        of_py_spy = py_spy.Threads()
        threads = [
            ThreadProfile(_thread(place, number, of_py_spy), stacks.tree(metric, self.timers))
            for number, (place, stacks) in enumerate(self.threads.items())
        ]
        profile = profile_of(source, self.timers.timers, threads, [metric])
        profile.node_metadata = of_py_spy.facts
        return profile

    def _merged(self) -> Stacks:
        """One tree of all lines, in which names of threads are ordinary frames: the lines differ in
        their metric, because only some of them name a thread and its unit."""
        whole = self.threads.pop("", Stacks())
        for place, stacks in self.threads.items():
            name = place if isinstance(place, str) else place.name or place.thread
            whole.hang(self.timers.place(routine_timer(name)), stacks)
        return whole


def _metric(place: str | Place) -> Metric:
    match = _THREAD.fullmatch(place) if isinstance(place, str) else None
    if match is None:
        return SAMPLES
    return Metric(match[5], match[6]) if match[5] else TIME


def _tachyon_timer(frame: str) -> Timer:
    match = _TACHYON_FRAME.fullmatch(frame)
    if match is None or match[1].startswith("<"):  # <GC>, <native>
        return routine_timer(match[2] if match else frame)
    return routine_timer(match[2], match[1])


def _thread(place: str | Place, number: int, of_py_spy: py_spy.Threads) -> Thread:
    if isinstance(place, Place):
        return of_py_spy.thread(place)
    if of_tachyon := _TACHYON_THREAD.fullmatch(place):
        return Thread(0, 0, number, native_id=int(of_tachyon[1]))
    match = _THREAD.fullmatch(place)
    if match is None:
        return Thread(0, 0, number)
    node, context, thread = (int(match[number]) for number in (1, 2, 3))
    kind = "stream" if context else "host"
    return Thread(node, context, thread, kind, match[4] or "")  # type: ignore[arg-type]


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    metric = one_metric(profile)
    if metric is None:
        raise nothing_to_write("collapsed stacks hold values above 0", profile)
    refuse_depth(profile)
    names = [_frame(timer.full_name) for timer in profile.timers]
    unit = "ns" if metric == TIME else _frame(f"{metric.name} {metric.unit or 'count'}")
    without = lines = 0
    with open(target, "wb") as out:
        for measured in profile.threads:
            tree, thread = measured.tree, measured.thread
            exclusive = tree.exclusive.get(metric.name)
            if exclusive is None:
                without += 1
                continue
            name = f" {_frame(thread.name)}" if thread.name else ""
            first = f"thread {thread.node}.{thread.context}.{thread.thread}{name} [{unit}];"
            top = -1  # a stack has the frames below this row
            if metric == SAMPLES and thread == Thread(0, 0, 0) and len(profile.threads) == 1:
                first = ""  # like the imported file of another tool
                top = 0 if len(tree) and profile.timers[tree.timer[0]] == _ROOT else -1
            stacks = _lines(tree, exclusive, top, names, first)
            while block := list(islice(stacks, _BLOCK)):
                out.write("".join(block).encode("utf-8", "backslashreplace"))
                lines += len(block)
            progress.advance(len(tree))
    if not lines:
        raise nothing_to_write("collapsed stacks hold values above 0", profile)
    lost = unsummed(profile, metric.name, "exclusive")
    if without:
        lost.append(f"{without} threads without the metric {metric.name}")
    return lost


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _lines(
    tree: CallTree, values: Sequence[float], top: int, names: list[str], first: str
) -> Iterator[str]:
    """The line of each row with a value above 0: its frames below row `top`.

    A stack is the caller's text and one more frame: only one text is kept, with the places where
    its frames end.
    """
    timer = tree.timer
    below = [f";{name}" for name in names]
    text, ends = first, list[int]()
    for (kept, new), value in zip(walk(tree, top), values, strict=True):
        text = text[: ends[kept - 1]] if kept else first
        del ends[kept:]
        for row in new:
            text += below[timer[row]] if ends else names[timer[row]]
            ends.append(len(text))
        if value > 0:
            number = value if type(value) is int else _number(value)
            yield f"{text} {number}\n"


def _frame(name: str) -> str:
    """A name as a frame, without semicolons, which separate frames, and line breaks, which
    separate stacks."""
    return visible(name.replace(";", ":"))


FORMAT = Format(
    name="collapsed",
    title="collapsed stacks",
    suffixes=(".collapsed", ".folded"),
    recognises=recognises,
    read=read,
    write=write,
    holds=frozenset(("routines", "call paths", "threads", "streams")),
    folds=True,
)
