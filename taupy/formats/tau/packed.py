"""ParaProf's packed profiles (.ppk): all threads and metrics of a TAU trial in one file.

The format is Java's DataOutputStream, big-endian and gzipped: the six bytes of "PPK" in 16-bit
characters, the version and the lowest compatible version, then tables, each preceded by its size:
metadata of trial and threads, metrics, groups, functions with their groups, user events, and the
values of each thread. Strings are 16-bit lengths followed by Java's modified UTF-8.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from taupy.formats import reading
from taupy.formats.reading import refusal
from taupy.formats.registry import Format
from taupy.formats.tau import names as tau_names
from taupy.formats.tau import thread as tau_thread
from taupy.formats.tau.rows import Rows
from taupy.formats.tau.text import Event
from taupy.formats.tau.thread import Place
from taupy.formats.tau.tree import TauTimers
from taupy.model.profile import Metric, Profile, ThreadProfile
from taupy.model.progress import CountedFile, Progress

MAGIC = "PPK".encode("utf-16-be")
NEWEST_COMPATIBLE = 2
_CHUNK = 1 << 20
_INT = Struct(">i")
_SHORT = Struct(">H")
_PLACE = Struct(">iii")
_EVENT = Struct(">iidddd")


def recognises(path: Path, first_bytes: bytes) -> bool:
    return first_bytes.startswith(MAGIC)


class _Data:
    """The decompressed file, read sequentially."""

    def __init__(self, path: Path, source: Any) -> None:
        self.path = path
        self._source = source
        self._buffer = b""
        self._at = 0
        self._before = 0  # bytes that have left the buffer

    def take(self, size: int) -> bytes:
        """The next `size` bytes.

        Raises:
            FormatError: the file is truncated, or its compression is damaged.
        """
        end = self._at + size
        if end > len(self._buffer):
            self._more(size)
            end = self._at + size
        data = self._buffer[self._at : end]
        self._at = end
        return data

    def _more(self, size: int) -> None:
        pieces = [self._buffer[self._at :]]
        available = len(pieces[0])
        self._before += self._at
        self._at = 0
        try:
            while available < size:
                piece = self._source.read(_CHUNK)
                if not piece:
                    raise self.refusal("the file ends in the middle of a value")
                pieces.append(piece)
                available += len(piece)
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise self.refusal(reading.gzip_fault(self.path, problem)) from None
        self._buffer = b"".join(pieces)

    def skip(self, size: int) -> None:
        while size > 0:
            size -= len(self.take(min(size, _CHUNK)))

    def count(self, what: str) -> int:
        (number,) = _INT.unpack(self.take(4))
        if number < 0:
            raise self.refusal(f"{number} {what}")
        return int(number)

    def text(self) -> str:
        (size,) = _SHORT.unpack(self.take(2))
        data = self.take(size)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return _from_java(data)

    def index(self, below: int, what: str) -> int:
        (number,) = _INT.unpack(self.take(4))
        if not 0 <= number < below:
            raise self.refusal(f"{what} {number} of {below}")
        return int(number)

    def names(self, what: str) -> list[str]:
        names: dict[str, None] = {}
        for _ in range(self.count(what)):
            name = self.text()
            if name in names:
                raise self.refusal(f"the name '{name[:100]}' twice among the {what}")
            names[name] = None
        return list(names)

    def refusal(self, reason: str) -> Exception:
        return refusal(self.path, f"unpacked byte {self._before + self._at}", reason)


def _from_java(data: bytes) -> str:
    """Decode Java's UTF-8: NUL is two bytes, characters beyond 16 bits are surrogate pairs."""
    try:
        halves = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return halves.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace")


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    """The trial, one profile for each node."""
    with CountedFile(source, progress) as file, open(source, "rb") as other:
        raw: Any = file
        packed = other.read(2) == b"\x1f\x8b"
        yield from _profiles(_Data(source, gzip.GzipFile(fileobj=raw) if packed else raw))


def _profiles(data: _Data) -> Iterator[Profile]:
    if data.take(len(MAGIC)) != MAGIC:
        raise data.refusal("not a packed profile: it does not begin with PPK")
    version, compatible = data.count("version"), data.count("version")
    if compatible > NEWEST_COMPATIBLE:
        raise data.refusal(f"version {compatible} of packed profiles is not supported: too new")
    common, metadata = _metadata(data) if version >= 2 else ({}, {})
    if version < 2:
        data.skip(data.count("bytes of header"))
    metrics = _metrics(data.names("metrics"), common.pop(tau_thread.METRIC, ""))
    whole = _Whole(data.path, metrics, common, metadata)
    groups = data.names("groups")
    functions = _functions(data, groups)
    events = data.names("user events")
    done: set[int] = set()
    node, timers, threads = -1, TauTimers(), list[ThreadProfile]()
    for _ in range(data.count("threads")):
        place: Place = _PLACE.unpack(data.take(12))
        if place[0] != node and threads:
            yield whole.node(node, timers, threads)
            timers, threads = TauTimers(), []
        if place[0] in done and place[0] != node:
            raise data.refusal(f"threads of node {place[0]} in several places")
        node = place[0]
        done.add(node)
        rows = Rows(list(metrics.values()))
        _function_rows(data, rows, functions)
        threads.append(
            tau_thread.thread_profile(
                place, rows, _user_events(data, events), metadata.get(place, {}), timers
            )
        )
    if threads:
        yield whole.node(node, timers, threads)


@dataclass(frozen=True, slots=True)
class _Whole:
    """Data that apply to all nodes of a file.

    Attributes:
        metrics: metrics by their names in the file.
        common: metadata of the trial.
        metadata: metadata of each thread.
    """

    path: Path
    metrics: dict[str, Metric]
    common: dict[str, str]
    metadata: dict[Place, dict[str, str]]

    def node(self, node: int, timers: TauTimers, threads: list[ThreadProfile]) -> Profile:
        of_node = {place: facts for place, facts in self.metadata.items() if place[0] == node}
        together, by_node = tau_thread.separated(of_node)
        facts = {node: {**together, **by_node.get(node, {})}}
        metrics = self.metrics.values()
        return tau_thread.profile(self.path, metrics, timers, threads, self.common, facts)


def _metadata(data: _Data) -> tuple[dict[str, str], dict[Place, dict[str, str]]]:
    """The metadata of the trial, and of each thread."""
    data.count("bytes of header")
    data.skip(data.count("bytes of a later version"))
    common = {}
    for _ in range(data.count("metadata")):
        name = data.text()
        common[name] = data.text()
    threads: dict[Place, dict[str, str]] = {}
    for _ in range(data.count("threads")):
        place: Place = _PLACE.unpack(data.take(12))
        facts = threads.setdefault(place, {})
        for _ in range(data.count("metadata")):
            name = data.text()
            facts[name] = data.text()
    return common, threads


def _metrics(names: list[str], ours: str) -> dict[str, Metric]:
    """The metrics by their names in the file; `ours`: names and units written by taupy's export."""
    lines = ours.split("\n")
    if len(lines) != len(names) or not all(line.endswith("]") and " [" in line for line in lines):
        return {name: tau_names.metric(name) for name in names}
    listed = [Metric(*line[:-1].rsplit(" [", 1)) for line in lines]
    return dict(zip(names, listed, strict=True))


def _functions(data: _Data, groups: list[str]) -> list[tuple[str, str]]:
    """Names and groups."""
    groups_of: dict[str, str] = {}
    count = data.count("functions")
    for _ in range(count):
        name = data.text()
        if name in groups_of:
            raise data.refusal(f"the name '{name[:100]}' twice among the functions")
        of_this = [groups[data.index(len(groups), "group")] for _ in range(data.count("groups"))]
        groups_of[name] = "|".join(of_this) or "TAU_DEFAULT"
        if tau_names.ARROW in name and "TAU_CALLPATH_DERIVED" in of_this:
            groups_of[name] = f"{tau_names.CALLPATH_GROUP}|{groups_of[name]}"
    return list(groups_of.items())


def _function_rows(data: _Data, rows: Rows, functions: list[tuple[str, str]]) -> None:
    metrics = range(len(rows.metrics))
    layout = Struct(f">idd{2 * len(rows.metrics)}d")
    for _ in range(data.count("function profiles")):
        id, calls, subroutines, *values = layout.unpack(data.take(layout.size))
        if not 0 <= id < len(functions):
            raise data.refusal(f"function {id} of {len(functions)}")
        name, groups = functions[id]
        try:
            whole = round(calls), round(subroutines)
            if max(map(abs, whole)) >= 1 << 63:
                raise OverflowError
            for metric in metrics:
                exclusive = rows.value(metric, values[2 * metric])
                inclusive = rows.value(metric, values[2 * metric + 1])
                rows.add(name, groups, (metric, *whole, exclusive, inclusive))
        except (ValueError, OverflowError):
            raise data.refusal(f"a value of '{name[:100]}' is not a finite number") from None


def _user_events(data: _Data, events: list[str]) -> list[Event]:
    listed = []
    for _ in range(data.count("user events")):
        id, count, minimum, maximum, mean, squares = _EVENT.unpack(data.take(_EVENT.size))
        if not 0 <= id < len(events):
            raise data.refusal(f"user event {id} of {len(events)}")
        listed.append(
            Event(
                name=events[id],
                count=count,
                maximum=maximum,
                minimum=minimum,
                mean=mean,
                sum_squares=squares,
            )
        )
    return listed


FORMAT = Format(
    name="tau-packed",
    title="TAU packed profile (ParaProf .ppk)",
    suffixes=(".ppk",),
    recognises=recognises,
    read=read,
)
