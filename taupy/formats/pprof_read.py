"""Read pprof profiles: samples with stacks become call paths of threads."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from taupy.formats import limits, reading
from taupy.formats import protowire as wire
from taupy.formats.protowire import WireError
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES
from taupy.model.forest import inclusive
from taupy.model.kernel_names import kernel_timer
from taupy.model.kinds import ThreadKind
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

_TIMES: Final = {
    **dict.fromkeys(("ns", "nsec", "nanosecond"), 1),
    **dict.fromkeys(("us", "usec", "microsecond"), 10**3),
    **dict.fromkeys(("ms", "msec", "millisecond"), 10**6),
    **dict.fromkeys(("s", "sec", "second"), 10**9),
    **dict.fromkeys(("min", "minute"), 60 * 10**9),
    **dict.fromkeys(("h", "hr", "hour"), 3600 * 10**9),
}
_SIZES: Final = {
    **dict.fromkeys(("b", "byte"), 1),
    **dict.fromkeys(("kb", "kib", "kilobyte"), 1 << 10),
    **dict.fromkeys(("mb", "mib", "megabyte"), 1 << 20),
    **dict.fromkeys(("gb", "gib", "gigabyte"), 1 << 30),
}
"""As Go's pprof has them: powers of 1024."""
_PREFERRED: Final = ("time", "wall", "cpu", "delay", "lock")
_THREAD_LABELS: Final = (
    *("thread", "thread id", "tid", "goroutine"),
    *("thread native id", "native thread id"),
)
_NATIVE_LABELS: Final = ("thread native id", "native thread id", "thread id", "tid")
_PROCESS_LABELS: Final = ("process id", "pid")
_NAME_LABELS: Final = ("thread name",)
_MU = str.maketrans("\u00b5\u03bc", "uu")  # micro sign, Greek mu


@dataclass(slots=True)
class _Tables:
    """What samples refer to."""

    strings: list[str] = field(default_factory=list)
    types: list[tuple[int, int]] = field(default_factory=list)
    functions: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # name, file, line
    locations: dict[int, tuple[int, tuple[tuple[int, int], ...], int]] = field(default_factory=dict)
    mappings: dict[int, int] = field(default_factory=dict)  # file name
    unnumbered: list[tuple[int, int, int]] = field(default_factory=list)  # functions without id
    comments: list[int] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    samples: int = 0


def read(path: Path, progress: Progress) -> Iterator[Profile]:
    """The one trial of a profile.

    Raises:
        FormatError: it is not a profile, or contradicts itself.
    """
    data = reading.whole(path, progress, limits.PPROF_BYTES, "a pprof profile")
    try:
        tables = _tables(path, data)
        if not tables.types:
            raise refusal(path, "sample_type", "missing: not a pprof profile")
        if not tables.samples:
            raise refusal(path, "sample", "missing: nothing was sampled")
        reader = _Reader(path, tables)
        number = 0
        for which, _, value in wire.fields(data):
            if which == 2 and isinstance(value, bytes):
                reader.sample(number, value)
                number += 1
    except WireError as problem:
        raise refusal(path, f"byte {problem.at}", f"not a protocol buffer: {problem}") from None
    yield reader.profile()


def _tables(path: Path, data: bytes) -> _Tables:
    tables = _Tables()
    for number, kind, value in wire.fields(data):
        if number == 2:
            tables.samples += 1
        elif number in (9, 10, 12, 14) and isinstance(value, int):
            tables.numbers[number] = value
        elif number == 13:
            tables.comments += wire.numbers(kind, value)[:10_000]
        elif isinstance(value, int):
            continue
        elif number == 6:
            tables.strings.append(value.decode("utf-8", "replace")[: limits.LONGEST_NAME])
        elif number == 1:
            fields = _numbers(value)
            tables.types.append((fields.get(1, 0), fields.get(2, 0)))
        elif number == 3:
            fields = _numbers(value)
            tables.mappings[fields.get(1, 0)] = fields.get(5, 0)
        elif number == 5:
            fields = _numbers(value)
            function = fields.get(2, 0), fields.get(4, 0), fields.get(5, 0)
            if fields.get(1):
                tables.functions[fields[1]] = function
            else:
                tables.unnumbered.append(function)
        elif number == 4:
            fields = _numbers(value)
            lines = tuple(
                (line.get(1, 0), line.get(2, 0))
                for which, _, text in wire.fields(value)
                if which == 4 and isinstance(text, bytes)
                for line in (_numbers(text),)
            )
            tables.locations[fields.get(1, 0)] = (fields.get(3, 0), lines, fields.get(2, 0))
        for table in (
            tables.strings,
            tables.types,
            tables.functions,
            tables.unnumbered,
            tables.locations,
            tables.comments,
        ):
            if len(table) > limits.PPROF_ENTRIES:
                raise refusal(
                    path, "", f"more than {limits.PPROF_ENTRIES} entries in one of its tables"
                )
    if tables.unnumbered:
        _number_functions(tables)
    if len(tables.types) > 1000:
        raise refusal(path, "sample_type", f"{len(tables.types)} of them")
    return tables


def _number_functions(tables: _Tables) -> None:
    """Number the functions of profiles by .NET, which have no ids: the n-th is that of the n-th
    location, as Pyroscope repairs them."""
    if tables.functions or len(tables.unnumbered) != len(tables.locations):
        tables.functions.setdefault(0, tables.unnumbered[-1])
        return
    tables.functions = dict(enumerate(tables.unnumbered, 1))
    for number, (id, (mapping, lines, address)) in enumerate(tables.locations.items(), 1):
        if len(lines) == 1:
            tables.locations[id] = (mapping, ((number, lines[0][1]),), address)


def _numbers(message: bytes) -> dict[int, int]:
    """The numbers of a message by field; of a repeated field, the last."""
    return {number: value for number, _, value in wire.fields(message) if isinstance(value, int)}


def _loosely(label: str) -> str:
    """A label's name without case, and with blanks for `_`, `-`, `.` and between `threadId`."""
    apart = re.sub("(?<=[a-z])(?=[A-Z])", " ", label)
    return apart.lower().translate(dict.fromkeys(map(ord, "_-."), " "))


def _unit(text: str) -> str:
    """A known unit, whatever its case and number, or the text."""
    unit = text.translate(_MU).strip().lower()
    unit = unit.removesuffix("s") if len(unit) > 2 else unit
    return unit if unit in _TIMES or unit in _SIZES else text


def _first(labels: dict[str, str | int], names: tuple[str, ...]) -> str | int | None:
    return next((labels[name] for name in names if name in labels), None)


def _number(value: str | int | None) -> int:
    """An operating system's number, which some writers store as text; 0 if it is none."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0
    return value if value is not None and 0 < value < 1 << 62 else 0


def _is_kind(name: str, part: str) -> bool:
    """Whether a sample type is of this kind: `wall`, `Wall time`, `wall-time`."""
    return name == part or _loosely(name).startswith(part + " ")


class _Paths:
    """The call paths of one thread; row 0 is above all of them."""

    def __init__(self, values: int) -> None:
        self.timer = [-1]
        self.parent = [-1]
        self.calls = [0]
        self.values: list[list[int]] = [[0] for _ in range(values)]
        self._children: dict[tuple[int, int], int] = {}
        self.name = ""
        self.kind: ThreadKind = "host"
        self.native = 0

    def below(self, row: int, timer: int) -> int:
        child = self._children.get((row, timer))
        if child is None:
            child = self._children[row, timer] = len(self.timer)
            self.timer.append(timer)
            self.parent.append(row)
            self.calls.append(0)
            for column in self.values:
                column.append(0)
        return child


class _Reader:
    def __init__(self, path: Path, tables: _Tables) -> None:
        self._path = path
        self._tables = tables
        self._timers = Timers()
        self._stacks: dict[int, tuple[int, ...]] = {}
        self._threads: dict[tuple[str, str], _Paths] = {}  # by process and thread
        self._calls = -1
        self._visited = 0
        self._metrics: list[tuple[int, Metric, int]] = []
        self._notes: list[str] = []
        self._metadata: dict[str, str] = {}
        self._zeros: set[int] = set()  # sample types that are 0 everywhere
        self._choose_metrics()

    def _text(self, number: int) -> str:
        strings = self._tables.strings
        if number >= len(strings) and number:
            raise refusal(self._path, f"string {number}", f"there are {len(strings)} strings")
        return strings[number] if number else ""

    def _choose_metrics(self) -> None:
        """Choose the sample type that is the time, and name the others."""
        names = [(self._text(kind), _unit(self._text(unit))) for kind, unit in self._tables.types]
        times = [name for name, unit in names if unit in _TIMES]
        default = self._text(self._tables.numbers.get(14, 0))
        usual = [name for part in _PREFERRED for name in times if _is_kind(name, part)]
        wanted = next((name for name in (*usual, default, *times) if name in times), None)
        used: set[str] = set()
        for number, (name, unit) in enumerate(names):
            if name == "calls" and self._calls < 0:
                self._calls = number
                continue
            if name == wanted and unit in _TIMES and "time" not in used:
                metric, factor = TIME, _TIMES[unit]
                if name != "time":
                    self._metadata["pprof time"] = name
            elif unit in _TIMES:
                metric, factor = Metric(name or "value", "ns"), _TIMES[unit]
            elif unit in _SIZES:
                metric, factor = Metric(name or "value", "B"), _SIZES[unit]
            else:
                metric, factor = Metric(name or "value", unit), 1
            while metric.name in used:
                metric = Metric(f"{metric.name} {number}", metric.unit)
            used.add(metric.name)
            self._metrics.append((number, metric, factor))

    def sample(self, number: int, message: bytes) -> None:
        """Add one sample to the paths of its thread."""
        locations: list[int] = []
        values: list[int] = []
        labels: dict[str, str | int] = {}
        for which, kind, value in wire.fields(message):
            if which == 1:
                locations += wire.numbers(kind, value)
            elif which == 2:
                values += wire.numbers(kind, value)
            elif which == 3 and isinstance(value, bytes):
                label = _numbers(value)
                text = self._text(label.get(2, 0))
                key = _loosely(self._text(label.get(1, 0)))
                labels[key] = text or wire.signed(label.get(3, 0))
        place = f"sample[{number}]"
        if len(values) != len(self._tables.types):
            counts = f"{len(values)} values and {len(self._tables.types)} sample types"
            raise refusal(self._path, place, counts)
        if len(locations) > limits.PPROF_DEPTH:
            raise refusal(self._path, place, f"a stack of {len(locations)} locations")
        self._visited += len(locations)
        if self._visited > limits.PPROF_VISITED:
            raise refusal(
                self._path, place, f"more than {limits.PPROF_VISITED} frames in all stacks"
            )
        paths = self._paths(labels)
        if len(paths.timer) * len(self._tables.types) > limits.PPROF_CELLS:
            counts = f"{len(paths.timer)} call paths with {len(self._tables.types)} sample types"
            raise refusal(self._path, place, f"{counts}: too many for a profile")
        row = 0
        for location in reversed(locations):
            stack = self._stacks.get(location)
            if stack is None:
                stack = self._stacks[location] = self._frames(location, place)
            for timer in stack:
                row = paths.below(row, timer)
        if self._calls >= 0:
            paths.calls[row] += max(0, wire.signed(values[self._calls]))
        for column, (which, _, factor) in zip(paths.values, self._metrics, strict=True):
            column[row] += wire.signed(values[which]) * factor

    def _paths(self, labels: dict[str, str | int]) -> _Paths:
        """The call paths of a sample's thread. Its labels are spelled as `_loosely` does."""
        thread = _first(labels, _THREAD_LABELS)
        process = _first(labels, _PROCESS_LABELS)
        name = str(_first(labels, _NAME_LABELS) or "")
        key = (str(process or ""), str(name if thread is None else thread))
        paths = self._threads.get(key)
        if paths is None:
            paths = self._threads[key] = _Paths(len(self._metrics))
            paths.name = name
            paths.kind = "stream" if labels.get("thread kind") == "stream" else "host"
            native = next(
                (number for label in _NATIVE_LABELS if (number := _number(labels.get(label)))), 0
            )
            paths.native = native
        return paths

    def _frames(self, location: int, place: str) -> tuple[int, ...]:
        """The timers of a location, callers of inlined functions first."""
        described = self._tables.locations.get(location)
        if described is None:
            raise refusal(self._path, place, f"location {location} does not exist")
        address, lines, mapping = described
        group = self._text(self._tables.mappings.get(mapping, 0))
        groups = tuple(group[len("group ") :].split(",")) if group.startswith("group ") else ()
        timers = []
        for function, _ in reversed(lines):
            if function not in self._tables.functions:
                raise refusal(self._path, place, f"function {function} does not exist")
            name, file, line = self._tables.functions[function]
            timers.append(self._timer(self._text(name), self._text(file), line, groups))
        if not timers:
            timers.append(self._timer(f"0x{address:x}", "", 0, groups))
        return tuple(timers)

    def _timer(self, name: str, file: str, line: int, groups: tuple[str, ...]) -> int:
        name = name or "(unnamed)"
        if "GPU_KERNEL" in groups:
            timer = kernel_timer(name)
        elif not file:
            timer = Timer(name, groups=groups or ("SAMPLE",))
        else:
            python = file.endswith(".py") or file.startswith("<")
            own_groups = groups or (("PYTHON",) if python else ("SAMPLE",))
            number = line if 0 < line < 1 << 31 else None
            timer = Timer(name, file, number, own_groups, path=file)
        return self._timers.place(timer)

    def _leave_out_unnamed(self) -> None:
        """Leave out sample types without name, unit and value, such as Parca's first."""
        for number, _, _ in list(self._metrics):
            unnamed = self._tables.types[number] == (0, 0)
            if unnamed and len(self._metrics) > 1 and not self._counted(number):
                place = [which for which, _, _ in self._metrics].index(number)
                for paths in self._threads.values():
                    del paths.values[place]
                del self._metrics[place]

    def _counted(self, number: int) -> bool:
        """Whether any sample has a value of this sample type."""
        place = [which for which, _, _ in self._metrics].index(number)
        return any(any(paths.values[place]) for paths in self._threads.values())

    def profile(self) -> Profile:
        self._leave_out_unnamed()
        self._zeros = {number for number, _, _ in self._metrics if not self._counted(number)}
        threads = [self._thread(place, paths) for place, paths in self._placed()]
        numbers = self._tables.numbers
        times = (measured.tree.inclusive.get("time") for measured in threads)
        longest = int(min(max((column[0] for column in times if column), default=0), limits.SUM))
        facts = dict(
            self._text(comment).partition(" = ")[::2]
            for comment in self._tables.comments
            if " = " in self._text(comment)
        )
        application = facts.pop("application", "") or self._main() or self._stem()
        if self._notes:
            self._metadata[IMPORT_NOTES] = "\n".join(self._notes)
        return Profile(
            uuid="",
            application=application,
            experiment=facts.pop("experiment", "") or "default",
            started_at=wire.signed(numbers.get(9, 0)) // 1000 / 1e6,
            duration_ns=min(max(0, wire.signed(numbers.get(10, 0))), limits.SUM) or longest,
            timers=self._timers.timers,
            threads=threads,
            metrics=[metric for _, metric, _ in self._metrics],
            source="pprof",
            metadata={**facts, **self._metadata},
        )

    def _stem(self) -> str:
        name = self._path.name
        for suffix in (".gz", ".pb", ".pprof"):
            name = name.removesuffix(suffix)
        return name or self._path.name

    def _main(self) -> str:
        """The program: the first mapping."""
        first = self._tables.mappings.get(1, 0)
        name = self._text(first).rpartition("/")[2]
        return "" if name.startswith("group ") else name[:1000]

    def _placed(self) -> list[tuple[Thread, _Paths]]:
        """Threads by the labels of our own exports, otherwise numbered host threads of a node for
        each process."""
        placed: list[tuple[Thread, _Paths]] = []
        taken: set[tuple[int, int, int]] = set()
        nodes: dict[str, int] = {}
        for (process, key), paths in self._threads.items():
            node = nodes.setdefault(process, len(nodes))
            parts = key.split(".")
            place = (node, 0, 0)
            ours = len(parts) == 3 and all(p.isdigit() and len(p) < 10 for p in parts)
            if ours:
                place = (int(parts[0]), int(parts[1]), int(parts[2]))
            if not ours or place in taken:
                free = 0
                while (node, 0, free) in taken:
                    free += 1
                place = (node, 0, free)
            taken.add(place)
            name = paths.name or (key if not ours else "")
            placed.append((Thread(*place, paths.kind, name, paths.native), paths))
        return sorted(placed, key=lambda pair: pair[0])

    def _thread(self, thread: Thread, paths: _Paths) -> ThreadProfile:
        alone = paths.parent.count(0) == 1 and not paths.calls[0]
        skip = int(alone and not any(column[0] for column in paths.values))
        timer = array("q", paths.timer[skip:])
        if not skip:
            timer[0] = self._timers.place(Timer(ROOT_TIMER, groups=("TAUPY",)))
        parent = array("q", [above - skip for above in paths.parent[skip:]])
        parent[0] = -1
        calls = array("q", [min(call, limits.SUM) for call in paths.calls[skip:]])
        subroutines = array("q", [0] * len(timer))
        for row in range(1, len(timer)):
            total = subroutines[parent[row]] + calls[row]
            subroutines[parent[row]] = min(total, limits.SUM)
        tree = CallTree(timer, parent, calls, subroutines)
        for values, (number, metric, _) in zip(paths.values, self._metrics, strict=True):
            own = values[skip:]
            if any(own) or number in self._zeros:
                tree.exclusive[metric.name], tree.inclusive[metric.name] = _columns(own, parent)
        if not tree.exclusive:
            empty = array("q", [0] * len(timer))
            tree.exclusive["time"], tree.inclusive["time"] = empty, empty[:]
        return ThreadProfile(thread, tree)


def _columns(own: list[int], parent: array[int]) -> tuple[array[int], array[int]]:
    """Exclusive and inclusive values; doubles if a sum does not fit 64 bits."""
    total = inclusive(parent, own)
    if max(map(abs, [*own, *total])) <= limits.SUM:
        return array("q", own), array("q", total)
    return array("d", own), array("d", total)  # type: ignore[return-value]
