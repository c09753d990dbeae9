"""Read a part: what one process has measured, whole or cut off.

Two kinds of part exist: the compiled engine's mapped file (`*.part`, layout in
`_native/part.h`) and the plain-Python engine's marshalled snapshot (`*.pypart`). Both
come out as a `Part`: the same columns, in nanoseconds.
"""

from __future__ import annotations

import marshal
import os
import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taupy.errors import FormatError

MAGIC = b"TAUPYPRT"
VERSION = 1
THROTTLED = 2  # flag of a routine
_COUNTER_FAULTS = {  # as in _native/counters.h
    1: "they did not count all the time: others used the processor's counters, too",
    2: "they could not be read any more: the program has closed their descriptors",
    4: "they gave values that no program reaches",
}
_NODE_BYTES = 64
_BLOCK_BYTES = 64
_CHUNKS_AT_MOST = 512
NODES, THREAD, ROUTINE, METADATA, EVENT, SAMPLES = 1, 2, 3, 4, 5, 6
RUNNING, ENDED, EXEC, SNAPSHOT = 0, 1, 2, 3
KIND_NAMES = ("python", "c", "timer")

_HEADER = struct.Struct("<8sII QQQ qq QQ qQ Q QQQ qqq q qq qqqqq q QQQQQQQQQQQ".replace(" ", ""))
_HEADER_FIELDS = (  # noqa: SIM905
    "magic version header_size chunk_count used mapped pid parent_pid process_start state "
    "exit_status has_exit_status uses_tsc early_ticks start_ticks end_ticks early_ns start_ns "
    "end_ns start_epoch_ns cpu_user_ns cpu_system_ns peak_resident_kib minor_faults major_faults "
    "voluntary_switches involuntary_switches node forked repairs unmatched overlaps "
    "calls_over_limit unmapped_bytes helper greenlets last_ticks greenlets_untraced profile_taken"
).split()


@dataclass(frozen=True, slots=True)
class Routine:
    """What a part calls a routine; `kind` is "python", "c" or "timer"."""

    name: str
    file: str
    line: int
    kind: str
    group: str
    throttled: bool = False


@dataclass(slots=True)
class Sampled:
    """A user event as a part holds it; `row` is None for the thread as a whole."""

    name: str
    unit: str
    row: int | None
    count: int
    minimum: float
    maximum: float
    total: float
    sum_squares: float


@dataclass(slots=True)
class PartThread:
    """Columns of one thread's tree; row 0 is the root, whose routine is -1."""

    native_id: int
    name: str
    cpu_ns: int
    routine: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    resumes: list[int] = field(default_factory=list)
    inclusive: list[int] = field(default_factory=list)
    cpu_time: list[int] | None = None
    samples: list[Sampled] = field(default_factory=list)
    counters: list[list[int]] = field(default_factory=list)  # a column a metric, inclusive
    counted: list[bool] | None = None  # rows with counters; None: all of them
    native: bool = False  # never ran Python: only its counters are known
    refused: str | None = None  # why its counters are not to be believed


@dataclass(slots=True)
class Places:
    """Where call paths lay in the measured process: their addresses, in stretches.

    Columns in the order of `address`: a stretch of `rows` call paths, `step` bytes each, of a
    thread (position in `Part.threads`) from a row of its on.
    """

    address: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    row: list[int] = field(default_factory=list)

    def find(self, address: int) -> tuple[int, int] | None:
        """(thread, row) of the call path at an address; None if there is none."""
        at = bisect_right(self.address, address) - 1
        if at < 0:
            return None
        row, odd = divmod(address - self.address[at], self.step[at])
        if odd or row >= self.rows[at]:
            return None
        return self.thread[at], self.row[at] + row

    def sort(self) -> None:
        order = sorted(range(len(self.address)), key=self.address.__getitem__)
        for name in ("address", "rows", "step", "thread", "row"):
            column = getattr(self, name)
            setattr(self, name, [column[at] for at in order])


@dataclass(slots=True)
class Part:
    """One process's measurement."""

    path: Path
    engine: str
    pid: int
    parent_pid: int
    process_start: int
    state: int
    forked: bool
    started_at: float  # epoch seconds
    start_ns: int
    end_ns: int
    exit_status: int | None
    routines: list[Routine]
    threads: list[PartThread]
    metadata: dict[str, str]
    health: dict[str, str]
    node: int | None = None
    start_ticks: int = 0
    ns_per_tick: float = 1.0
    places: Places | None = None

    @property
    def complete(self) -> bool:
        """Did the process end where we could see it?"""
        return self.state in (ENDED, EXEC, SNAPSHOT)


def read_part(path: Path, clock_now: tuple[int, int] | None = None) -> Part | None:
    """Decode a part; None if nothing was recorded in it.

    Args:
        path: the part.
        clock_now: ticks and CLOCK_MONOTONIC of now, if the part was made since this
            host was booted: it tells a tick's length for a process that was killed.

    Raises:
        FormatError: the file is no part, or damaged.
    """
    data = path.read_bytes()
    if not data.strip(b"\0"):
        return None
    if path.suffix in (".pypart", ".pysnapshot"):
        return _read_python_part(path, data)
    return _NativePart(path, data).decode(clock_now)


def peek_process(path: Path) -> tuple[int, int, bool, bool]:
    """(pid, its start time, has it closed the part?, is it a helper?), not decoding more.

    A helper is a process of multiprocessing's own: its part is no node of the trial.

    Raises:
        FormatError: the file is no part.
    """
    if path.suffix == ".pypart":
        try:
            values = marshal.loads(path.read_bytes())
            start = values.get("process_start", 0)
            closed = values["state"] != "running"
            return values["pid"], start, closed, bool(values.get("helper"))
        except (EOFError, ValueError, TypeError, KeyError) as problem:
            raise FormatError(f"{path} is no part of a run ({problem})") from None
    with open(path, "rb") as file:
        header = _header(path, file.read(_HEADER.size))
    closed = header["state"] in (ENDED, EXEC, SNAPSHOT)
    return header["pid"], header["process_start"], closed, bool(header["helper"])


def _header(path: Path, data: bytes) -> dict[str, Any]:
    if len(data) < _HEADER.size or data[:8] != MAGIC:
        raise FormatError(f"{path} is no part of a run: it does not begin with {MAGIC.decode()}")
    header = dict(zip(_HEADER_FIELDS, _HEADER.unpack_from(data), strict=True))
    if header["version"] != VERSION:
        raise FormatError(
            f"{path} is a part of version {header['version']}, this taupy reads version {VERSION}"
        )
    return header


def _text(data: bytes | memoryview) -> str:
    return bytes(data).decode("utf-8", "backslashreplace")


class _NativePart:
    """Decoding of one mapped file."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data
        self.header = _header(path, data)
        (self.metric_count,) = struct.unpack_from("<Q", data, _HEADER.size)
        count = self.header["chunk_count"]
        if not 0 < count <= _CHUNKS_AT_MOST or len(data) < _HEADER.size + 8 + 16 * count:
            raise FormatError(f"{path} is a damaged part: it tells of {count} chunks")
        chunks = struct.unpack_from(f"<{2 * count}Q", data, _HEADER.size + 8)
        self.chunk_addresses, self.chunk_offsets = chunks[::2], chunks[1::2]
        self.stride = 2 if self.metric_count else 1
        self.places = Places()
        self.native_threads: set[int] = set()  # by where their blocks begin
        self.refused: dict[int, str] = {}
        self.at_calls = False  # are counters read at every call?
        self.cpu_time = False

    def address_of(self, offset: int) -> int:
        """Where a byte of the file was in the measured process."""
        at = bisect_right(self.chunk_offsets, offset) - 1
        return int(self.chunk_addresses[at] + offset - self.chunk_offsets[at])

    def blocks(self) -> list[tuple[int, int, int, int]]:
        """(kind, thread, payload start, payload end) of every whole block."""
        found = []
        at, end = self.header["header_size"], min(self.header["used"], len(self.data))
        while at + _BLOCK_BYTES <= end:
            kind, thread, size = struct.unpack_from("<IIQ", self.data, at)
            if size < _BLOCK_BYTES or at + size > end:
                # Cut off in the making, or a chunk that never reached the file.
                following = bisect_right(self.chunk_offsets, at)
                if following == len(self.chunk_offsets):
                    break
                at = self.chunk_offsets[following]
                continue
            found.append((kind, thread, at + _BLOCK_BYTES, at + size))
            at += size
        return found

    def describe_thread(self, start: int) -> None:
        """What the header of a thread's block says of its counters."""
        native, faults, number = struct.unpack_from("<QQQ", self.data, start - 48)
        if native:
            self.native_threads.add(start)
        if number:
            self.refused[start] = f"they could not be opened: {os.strerror(number)}"
        for bit, why in _COUNTER_FAULTS.items():
            if faults & bit:
                self.refused[start] = why
                break

    def decode(self, clock_now: tuple[int, int] | None) -> Part | None:
        header, data = self.header, self.data
        blocks = self.blocks()
        routines: list[Routine] = []
        routine_at: dict[int, int] = {}
        events: dict[int, tuple[str, str]] = {}
        metadata: dict[str, str] = {}
        node_blocks: dict[int, list[tuple[int, int]]] = {}
        sample_blocks: dict[int, list[int]] = {}
        thread_blocks: list[tuple[int, int]] = []
        for kind, thread, start, end in blocks:
            if kind == ROUTINE:
                key, what, flags, line, n, f, g = struct.unpack_from("<QIIqQQQ", data, start)
                text = start + 48
                if key == 0 or text + n + f + g > end:
                    continue
                group = _text(data[text + n + f + 2 : text + n + f + 2 + g])
                routine_at[key] = len(routines)
                routines.append(
                    Routine(
                        _text(data[text : text + n]),
                        _text(data[text + n + 1 : text + n + 1 + f]),
                        line,
                        KIND_NAMES[what] if what < 3 else "python",
                        group,
                        bool(flags & THROTTLED),
                    )
                )
            elif kind == NODES:
                node_blocks.setdefault(thread, []).append((start, end))
            elif kind == THREAD:
                thread_blocks.append((thread, start))
                self.describe_thread(start)
            elif kind == METADATA:
                n, v = struct.unpack_from("<QQ", data, start)
                text = start + 16
                if n and text + n + v <= end:
                    metadata[_text(data[text : text + n])] = _text(
                        data[text + n + 1 : text + n + 1 + v]
                    )
            elif kind == EVENT:
                number, n, u = struct.unpack_from("<QQQ", data, start)
                text = start + 24
                events[number] = (
                    _text(data[text : text + n]),
                    _text(data[text + n + 1 : text + n + 1 + u]),
                )
            elif kind == SAMPLES:
                sample_blocks.setdefault(thread, []).append(start)
        if not thread_blocks:
            return None
        counters_at = metadata.pop("taupy.counters.at", None)
        self.cpu_time = self.metric_count > 0 and counters_at is None
        counters_at = counters_at or metadata.pop("taupy.counters.after_cpu_time", None)
        self.at_calls = counters_at == "calls"
        closed = header["state"] in (ENDED, EXEC, SNAPSHOT)
        end_ticks = header["end_ticks"] if closed else self.last_ticks(thread_blocks, node_blocks)
        per_tick = self.ns_per_tick(closed, clock_now)
        threads = [
            self.thread(
                position,
                start,
                node_blocks.get(index, []),
                routine_at,
                routines,
                end_ticks,
                per_tick,
                [self.sample(at, events) for at in sample_blocks.get(index, [])],
            )
            for position, (index, start) in enumerate(
                sorted(thread_blocks, key=lambda block: (block[1] in self.native_threads, block))
            )
        ]
        start_ns = header["start_ns"]
        end_ns = (
            header["end_ns"]
            if closed
            else start_ns + int(max(0, end_ticks - header["start_ticks"]) * per_tick)
        )
        metadata.update(self.usage(closed))
        self.places.sort()
        return Part(
            path=self.path,
            engine="native",
            pid=header["pid"],
            parent_pid=header["parent_pid"],
            process_start=header["process_start"],
            state=header["state"],
            forked=bool(header["forked"]),
            started_at=header["start_epoch_ns"] / 1e9,
            start_ns=start_ns,
            end_ns=end_ns,
            exit_status=header["exit_status"] if header["has_exit_status"] else None,
            routines=routines,
            threads=threads,
            metadata=metadata,
            health=self.health(),
            node=header["node"] if header["node"] >= 0 else None,
            start_ticks=header["start_ticks"],
            ns_per_tick=per_tick,
            places=self.places,
        )

    def ns_per_tick(self, closed: bool, clock_now: tuple[int, int] | None) -> float:
        header = self.header
        if not header["uses_tsc"]:
            return 1.0
        ticks, ns = header["end_ticks"], header["end_ns"]
        if not closed:
            ticks, ns = clock_now or (header["start_ticks"], header["start_ns"])
        if ticks <= header["early_ticks"] or ns <= header["early_ns"]:
            raise FormatError(f"{self.path}: its clock readings do not rise")
        return float((ns - header["early_ns"]) / (ticks - header["early_ticks"]))

    def last_ticks(
        self,
        thread_blocks: list[tuple[int, int]],
        node_blocks: dict[int, list[tuple[int, int]]],
    ) -> int:
        """The last moment that a killed process has left a trace of."""
        last: int = max(self.header["last_ticks"], self.header["start_ticks"])
        for _, start in thread_blocks:
            last = max(last, struct.unpack_from("<Q", self.data, start + 24)[0])
        view = memoryview(self.data)
        for blocks in node_blocks.values():
            for start, end in blocks:
                last = max(last, max(view[start:end].cast("Q")[3 :: 8 * self.stride], default=0))
        return last

    def sample(self, start: int, events: dict[int, tuple[str, str]]) -> tuple[int, Sampled]:
        event, _, node, count, low, high, total, squares = struct.unpack_from(
            "<QQQQdddd", self.data, start
        )
        name, unit = events.get(event, (f"event {event}", ""))
        return node, Sampled(name, unit, None, count, low, high, total, squares)

    def thread(
        self,
        position: int,
        start: int,
        blocks: list[tuple[int, int]],
        routine_at: dict[int, int],
        routines: list[Routine],
        end_ticks: int,
        per_tick: float,
        samples: list[tuple[int, Sampled]],
    ) -> PartThread:
        data = self.data
        root = struct.unpack_from("<8Q", data, start)
        hidden_parent = struct.unpack_from("<Q", data, start + 128 + 8)[0]
        cursor, _, _, native_id, ended, cpu_start, cpu = struct.unpack_from(
            "<QQQQQqq", data, start + 256
        )
        name = data[start + 328 : start + 392].split(b"\0", 1)[0]
        root_address = self.address_of(start)
        hidden_address = root_address + 128
        end = ended or end_ticks
        view = memoryview(data)
        step = 8 * self.stride
        keys, parents, t0s, ticks, calls, resumes = [0], [0], [root[3]], [0], [1], [0]
        pairs = 64 + 8  # of the root: its metrics' inclusive values
        further = [
            [struct.unpack_from("<Q", data, start + pairs + 16 * number)[0]]
            for number in range(self.metric_count)
        ]
        regions = [True]
        first_address: list[int] = []
        first_row: list[int] = []
        self.place(root_address, 1, _NODE_BYTES, position, 0)
        for block_start, block_end in blocks:
            first_address.append(self.address_of(block_start))
            first_row.append(len(keys))
            whole = (block_end - block_start) // (8 * step) * (8 * step)
            columns = view[block_start : block_start + whole].cast("Q")
            block_keys = columns[0::step].tolist()
            used = block_keys.index(0) if 0 in block_keys else len(block_keys)
            self.place(first_address[-1], used, _NODE_BYTES * self.stride, position, len(keys))
            keys += block_keys[:used]
            parents += columns[1::step].tolist()[:used]
            t0s += columns[3::step].tolist()[:used]
            ticks += columns[4::step].tolist()[:used]
            calls += columns[5::step].tolist()[:used]
            resumes += columns[6::step].tolist()[:used]
            for at, column in enumerate(further):
                column += columns[9 + 2 * at :: step].tolist()[:used]
            if self.metric_count:
                regions += [word >> 32 & 0xFFFF != 0 for word in columns[7::step].tolist()[:used]]
        node_bytes = _NODE_BYTES * self.stride

        # Chunks may lie in any order in memory.
        order = sorted(range(len(first_address)), key=first_address.__getitem__)
        sorted_addresses = [first_address[at] for at in order]

        def row_of(address: int) -> int:
            if address == root_address:
                return 0
            at = bisect_right(sorted_addresses, address) - 1
            row = -1
            if at >= 0:
                row = first_row[order[at]] + (address - sorted_addresses[at]) // node_bytes
            if not 0 <= row < len(keys):
                raise FormatError(f"{self.path}: a call path hangs under none of its thread")
            return row

        parent_rows = [-1]
        seen: dict[int, int] = {root_address: 0}
        for row in range(1, len(keys)):
            address = parents[row]
            found = seen.get(address)
            if found is None:
                found = seen[address] = row_of(address)
            if found >= row:
                raise FormatError(f"{self.path}: a call path stands before its parent")
            parent_rows.append(found)
        # Frames still open count up to the end.
        if cursor == hidden_address:
            cursor = hidden_parent
        at = row_of(cursor) if cursor else 0
        while at > 0:
            ticks[at] += max(0, end - t0s[at])
            at = parent_rows[at]
        ticks[0] = max(0, end - t0s[0])
        cpu_ns = max(0, cpu - cpu_start)
        thread = PartThread(native_id, _text(name), cpu_ns)
        unknown = -2
        for row, key in enumerate(keys):
            if row == 0:
                thread.routine.append(-1)
                continue
            number = routine_at.get(key & ~4)
            if number is None:  # its record did not fit
                if unknown == -2:
                    unknown = len(routines)
                    routines.append(Routine("<unknown>", "", 0, "python", "PYTHON"))
                number = unknown
            thread.routine.append(number)
        thread.parent = parent_rows
        thread.calls = calls
        thread.resumes = resumes
        thread.inclusive = [int(value * per_tick) for value in ticks]
        if self.cpu_time:
            thread.cpu_time = further.pop(0)
        thread.counters = further
        thread.counted = regions if further and not self.at_calls else None
        thread.native = start in self.native_threads
        thread.refused = self.refused.get(start)
        for address, sampled in samples:
            sampled.row = row_of(address) if address else None
            thread.samples.append(sampled)
        return thread

    def place(self, address: int, rows: int, step: int, thread: int, row: int) -> None:
        self.places.address.append(address)
        self.places.rows.append(rows)
        self.places.step.append(step)
        self.places.thread.append(thread)
        self.places.row.append(row)

    def usage(self, closed: bool) -> dict[str, str]:
        header = self.header
        if not closed:
            return {}
        return {
            "CPU Time User (s)": f"{header['cpu_user_ns'] / 1e9:.6f}",
            "CPU Time System (s)": f"{header['cpu_system_ns'] / 1e9:.6f}",
            "Peak Resident Memory (KiB)": str(header["peak_resident_kib"]),
            "Page Faults Minor": str(header["minor_faults"]),
            "Page Faults Major": str(header["major_faults"]),
            "Context Switches Voluntary": str(header["voluntary_switches"]),
            "Context Switches Involuntary": str(header["involuntary_switches"]),
        }

    def health(self) -> dict[str, str]:
        header = self.header
        found = {}
        if count := header["calls_over_limit"]:
            found["callpaths"] = (
                f"{count} calls on call paths beyond the limit, and all calls below them, were "
                "folded into their callers; "
                "raise it with --max-callpaths"
            )
        if count := header["overlaps"]:
            found["timers"] = (
                f"{count} timers were stopped out of order or without having been started"
            )
        if header["greenlets_untraced"]:
            found["greenlets"] = (
                "the program traces greenlets itself: call paths across their switches are mixed"
            )
        if header["profile_taken"]:
            found["c_calls"] = (
                "the program set a profile function of its own: calls of C functions are missing "
                "from then on"
            )
        if count := header["unmapped_bytes"]:
            found["part"] = f"{count} bytes had no room in the run folder and were kept in memory"
        return found


def _read_python_part(path: Path, data: bytes) -> Part:
    try:
        values = marshal.loads(data)
        if values["format"] != "taupy-part" or values["version"] != 1:
            raise ValueError("another format or version")
        routines = [
            Routine(
                name,
                file or "",
                line or 0,
                "timer" if kind in ("timer", "phase") else kind,
                group or {"c": "PYTHON_C", "python": "PYTHON", "phase": "PHASE"}.get(kind, "USER"),
                bool(throttled),
            )
            for name, file, line, kind, group, throttled in map(_six, values["routines"])
        ]
        threads = []
        for item in values["threads"]:
            thread = PartThread(
                item["native_id"],
                item["name"],
                item.get("cpu_ns", 0),
                item["routine"],
                item["parent"],
                item["calls"],
                item["resumes"],
                item["inclusive_ns"],
            )
            for name, unit, row, count, low, high, mean, squares in item["events"]:
                thread.samples.append(
                    Sampled(name, unit, row, count, low, high, mean * count, squares)
                )
            threads.append(thread)
        return Part(
            path=path,
            engine="python",
            pid=values["pid"],
            parent_pid=values["ppid"],
            process_start=values.get("process_start", 0),
            state=ENDED if values["state"] == "ended" else RUNNING,
            forked=bool(values.get("forked")),
            started_at=values["started_at"],
            start_ns=values["start_ns"],
            end_ns=values["end_ns"],
            exit_status=values.get("exit_status"),
            routines=routines,
            threads=threads,
            metadata=dict(values["metadata"]),
            health=dict(values["health"]),
            node=values.get("node"),
        )
    except (EOFError, ValueError, TypeError, KeyError) as problem:
        raise FormatError(f"{path} is no part of a run ({problem})") from None


def _six(routine: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*routine, None, None)[:6] if len(routine) < 6 else routine
