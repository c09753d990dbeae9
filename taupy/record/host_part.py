"""Read a part: what one process has measured, whole or cut off.

Two kinds of part exist: the compiled engine's mapped file (`*.part`, a container with the
blocks of `_native/part.h`) and the plain-Python engine's snapshot (`*.pypart`, a record). Both
come out as a `Part`: the same columns, in nanoseconds. A part may have been cut off anywhere,
or damaged, or made by hand; what cannot be is a FormatError, whatever it is.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from taupy.errors import FormatError
from taupy.record import plain_part
from taupy.record.part_data import (
    ENDED,
    EXEC,
    SNAPSHOT,
    Part,
    PartThread,
    Places,
    Routine,
    Sampled,
)
from taupy.state import container
from taupy.state.container import Block, Container, Layout

THROTTLED = 2  # flag of a routine
_COUNTER_FAULTS = {  # as in _native/counters.h
    1: "they did not count all the time: others used the processor's counters, too",
    2: "they could not be read any more: the program has closed their descriptors",
    4: "they gave values that no program reaches",
}
_NODE_BYTES = 64
_SAMPLE = struct.Struct("<4Q4d")
_METRICS_AT_MOST = 4  # as in _native/calltree.h
NODES, THREAD, ROUTINE, METADATA, EVENT, SAMPLES = 1, 2, 3, 4, 5, 6
KIND_NAMES = ("python", "c", "timer")
LAYOUT = Layout(
    b"TAUPYPRT",
    2,
    "part of a run",
    {THREAD: 392, ROUTINE: 48, METADATA: 16, EVENT: 24, SAMPLES: 64},
)
_PLAIN_SUFFIXES = (".pypart", ".pysnapshot")


class Readable(Protocol):
    """A file that a part may stand in."""

    @property
    def name(self) -> str: ...

    def read_bytes(self, *, first: int = -1) -> bytes: ...


def read_part(file: Readable, clock_now: tuple[int, int] | None = None) -> Part | None:
    """Decode a part; None if nothing was recorded in it.

    Args:
        file: the part.
        clock_now: ticks and CLOCK_MONOTONIC of now, if the part was made since this
            host was booted: it tells a tick's length for a process that was killed.

    Raises:
        FormatError: the file is no part, or damaged.
        OSError: it cannot be read, or is not trusted.
    """
    data = file.read_bytes()
    name = file.name
    with _refusing(name):
        if name.endswith(_PLAIN_SUFFIXES):
            part = plain_part.read(name, data)
        else:
            found = container.read(name, data, LAYOUT)
            part = None if found is None else _NativePart(found).decode(clock_now)
        if part is not None:
            _check(part)
    return part


def peek_process(file: Readable) -> tuple[int, int, bool, bool]:
    """(pid, its start time, has it closed the part?, is it a helper?), not decoding more.

    A helper is a process of multiprocessing's own: its part is no node of the trial.

    Raises:
        FormatError: the file is no part.
        OSError: it cannot be read, or is not trusted.
    """
    name = file.name
    with _refusing(name):
        if name.endswith(_PLAIN_SUFFIXES):
            return plain_part.peek(name, file.read_bytes())
        head = container.header(name, file.read_bytes(first=container.HEADER_BYTES), LAYOUT)
        closed = head.state in (ENDED, EXEC, SNAPSHOT)
        return head.pid, head.process_start, closed, bool(head.helper)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Damage that no check has thought of."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise FormatError(f"{name} is damaged ({why})") from problem
    except MemoryError:
        raise FormatError(f"{name} is too large for this machine's memory") from None


def _check(part: Part) -> None:
    """Numbers that no process can have measured would break what is computed from them.

    Raises:
        FormatError: there is one.
    """
    for thread in part.threads:
        rows = len(thread.routine)
        columns = [thread.calls, thread.resumes, thread.inclusive, *thread.counters]
        if thread.cpu_time is not None:
            columns.append(thread.cpu_time)
        if not rows or any(len(column) != rows for column in (thread.parent, *columns)):
            raise FormatError(f"{part.name} is damaged: its columns differ in length")
        # Sums over rows are stored, and must fit as well.
        if any(min(column) < 0 or sum(column) > _LARGEST for column in columns):
            raise FormatError(f"{part.name} is damaged: counts or times that cannot be")
        if not -1 <= min(thread.routine) <= max(thread.routine) < len(part.routines):
            raise FormatError(f"{part.name} is damaged: a call path of no routine")
        if thread.parent[0] != -1 or any(
            not 0 <= parent < row for row, parent in enumerate(thread.parent) if row
        ):
            raise FormatError(f"{part.name} is damaged: a call path stands before its parent")
        if not 0 <= thread.cpu_ns <= _LARGEST:
            raise FormatError(f"{part.name} is damaged: a CPU time that cannot be")
        for sampled in thread.samples:
            values = (sampled.minimum, sampled.maximum, sampled.total, sampled.sum_squares)
            if not 0 < sampled.count <= _LARGEST or any(value != value for value in values):
                raise FormatError(f"{part.name} is damaged: a user event that cannot be")
            if sampled.row is not None and not 0 <= sampled.row < rows:
                raise FormatError(f"{part.name} is damaged: a user event at no call path")
    moments = (part.start_ns, part.end_ns, part.started_at * 1e9)
    if any(not 0 <= moment <= _LARGEST for moment in moments):
        raise FormatError(f"{part.name} is damaged: a moment that cannot be")
    if any(abs(routine.line) > _LARGEST for routine in part.routines):
        raise FormatError(f"{part.name} is damaged: a line that cannot be")


_LARGEST = (1 << 62) - 1


class _NativePart:
    """Decoding of one mapped file."""

    def __init__(self, found: Container) -> None:
        self.found = found
        self.name = found.name
        self.data = found.data
        self.header = found.header
        self.metric_count = found.header.metric_count
        if self.metric_count > _METRICS_AT_MOST:
            raise FormatError(f"{self.name} is damaged: it tells of {self.metric_count} metrics")
        self.stride = 2 if self.metric_count else 1
        self.places = Places()
        self.native_threads: set[int] = set()  # by where their blocks begin
        self.refused: dict[int, str] = {}
        self.at_calls = False  # are counters read at every call?
        self.cpu_time = False

    def describe_thread(self, block: Block) -> None:
        """What the header of a thread's block says of its counters."""
        native, faults, number, *_ = block.words
        if native:
            self.native_threads.add(block.start)
        if number:
            self.refused[block.start] = f"they could not be opened: {os.strerror(number)}"
        for bit, why in _COUNTER_FAULTS.items():
            if faults & bit:
                self.refused[block.start] = why
                break

    def decode(self, clock_now: tuple[int, int] | None) -> Part | None:
        header, data = self.header, self.data
        routines: list[Routine] = []
        routine_at: dict[int, int] = {}
        events: dict[int, tuple[str, str]] = {}
        metadata: dict[str, str] = {}
        node_blocks: dict[int, list[tuple[int, int]]] = {}
        sample_blocks: dict[int, list[int]] = {}
        thread_blocks: list[tuple[int, int]] = []
        for block in self.found.blocks:
            kind, thread, start, end, _ = block
            if kind == ROUTINE:
                key, what, flags, line, *sizes = struct.unpack_from("<QIIqQQQ", data, start)
                if key == 0:
                    continue
                name, file, group = self.found.texts(start + 48, end, *sizes)
                routine_at[key] = len(routines)
                kind_name = KIND_NAMES[what] if what < 3 else "python"
                throttled = bool(flags & THROTTLED)
                routines.append(Routine(name, file, line, kind_name, group, throttled))
            elif kind == NODES:
                node_blocks.setdefault(thread, []).append((start, end))
            elif kind == THREAD:
                thread_blocks.append((thread, start))
                self.describe_thread(block)
            elif kind == METADATA:
                sizes = list(struct.unpack_from("<QQ", data, start))
                if sizes[0]:
                    name, value = self.found.texts(start + 16, end, *sizes)
                    metadata[name] = value
            elif kind == EVENT:
                number, *sizes = struct.unpack_from("<QQQ", data, start)
                name, unit = self.found.texts(start + 24, end, *sizes)
                events[number] = name, unit
            elif kind == SAMPLES:
                sample_blocks.setdefault(thread, []).append(start)
        if not thread_blocks:
            return None
        counters_at = metadata.pop("taupy.counters.at", None)
        self.cpu_time = self.metric_count > 0 and counters_at is None
        counters_at = counters_at or metadata.pop("taupy.counters.after_cpu_time", None)
        self.at_calls = counters_at == "calls"
        closed = header.state in (ENDED, EXEC, SNAPSHOT)
        end_ticks = header.end_ticks if closed else self.last_ticks(thread_blocks, node_blocks)
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
        start_ns = header.start_ns
        end_ns = (
            header.end_ns
            if closed
            else start_ns + int(max(0, end_ticks - header.start_ticks) * per_tick)
        )
        metadata.update(self.usage(closed))
        self.places.sort()
        return Part(
            name=self.name,
            engine="native",
            pid=header.pid,
            parent_pid=header.parent_pid,
            process_start=header.process_start,
            state=header.state,
            forked=bool(header.forked),
            started_at=header.start_epoch_ns / 1e9,
            start_ns=start_ns,
            end_ns=end_ns,
            exit_status=header.exit_status if header.has_exit_status else None,
            routines=routines,
            threads=threads,
            metadata=metadata,
            health=self.health(),
            node=header.node if header.node >= 0 else None,
            start_ticks=header.start_ticks,
            ns_per_tick=per_tick,
            places=self.places,
            lost_bytes=self.found.lost_bytes,
            used_bytes=header.used,
        )

    def ns_per_tick(self, closed: bool, clock_now: tuple[int, int] | None) -> float:
        header = self.header
        if not header.uses_tsc:
            return 1.0
        ticks, ns = header.end_ticks, header.end_ns
        if not closed:
            ticks, ns = clock_now or (header.start_ticks, header.start_ns)
        if ticks <= header.early_ticks or ns <= header.early_ns:
            raise FormatError(f"{self.name}: its clock readings do not rise")
        return float((ns - header.early_ns) / (ticks - header.early_ticks))

    def last_ticks(
        self,
        thread_blocks: list[tuple[int, int]],
        node_blocks: dict[int, list[tuple[int, int]]],
    ) -> int:
        """The last moment that a killed process has left a trace of."""
        last: int = max(self.header.last_ticks, self.header.start_ticks)
        for _, start in thread_blocks:
            last = max(last, struct.unpack_from("<Q", self.data, start + 24)[0])
        view = memoryview(self.data)
        for blocks in node_blocks.values():
            for start, end in blocks:
                last = max(last, max(view[start:end].cast("Q")[3 :: 8 * self.stride], default=0))
        return last

    def sample(self, start: int, events: dict[int, tuple[str, str]]) -> tuple[int, Sampled]:
        event, _, node, count, low, high, total, squares = _SAMPLE.unpack_from(self.data, start)
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
        root_address = self.found.address_of(start)
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
            first_address.append(self.found.address_of(block_start))
            first_row.append(len(keys))
            whole = (block_end - block_start) // (8 * step) * (8 * step)
            columns = view[block_start : block_start + whole].cast("Q")
            signed = view[block_start : block_start + whole].cast("q")
            block_keys = columns[0::step].tolist()
            used = block_keys.index(0) if 0 in block_keys else len(block_keys)
            self.place(first_address[-1], used, _NODE_BYTES * self.stride, position, len(keys))
            keys += block_keys[:used]
            parents += columns[1::step].tolist()[:used]
            t0s += columns[3::step].tolist()[:used]
            ticks += signed[4::step].tolist()[:used]
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
                raise FormatError(f"{self.name}: a call path hangs under none of its thread")
            return row

        parent_rows = [-1]
        seen: dict[int, int] = {root_address: 0}
        for row in range(1, len(keys)):
            address = parents[row]
            found = seen.get(address)
            if found is None:
                found = seen[address] = row_of(address)
            if found >= row:
                raise FormatError(f"{self.name}: a call path stands before its parent")
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
        thread = PartThread(native_id, container.text(name), cpu_ns)
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
        thread.inclusive = [int(max(0, value) * per_tick) for value in ticks]
        if self.cpu_time:
            thread.cpu_time = further.pop(0)
        thread.counters = further
        thread.counted = regions if further and not self.at_calls else None
        thread.native = start in self.native_threads
        thread.refused = self.refused.get(start)
        for address, sampled in samples:
            if sampled.count:  # a killed process may have made room, and no more
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
            "CPU Time User (s)": f"{header.cpu_user_ns / 1e9:.6f}",
            "CPU Time System (s)": f"{header.cpu_system_ns / 1e9:.6f}",
            "Peak Resident Memory (KiB)": str(header.peak_resident_kib),
            "Page Faults Minor": str(header.minor_faults),
            "Page Faults Major": str(header.major_faults),
            "Context Switches Voluntary": str(header.voluntary_switches),
            "Context Switches Involuntary": str(header.involuntary_switches),
        }

    def health(self) -> dict[str, str]:
        header = self.header
        found = {}
        if count := header.calls_over_limit:
            found["callpaths"] = (
                f"{count} calls on call paths beyond the limit, and all calls below them, were "
                "folded into their callers; "
                "raise it with --max-callpaths"
            )
        if count := header.overlaps:
            found["timers"] = (
                f"{count} timers were stopped out of order or without having been started"
            )
        if header.greenlets_untraced:
            found["greenlets"] = (
                "the program traces greenlets itself: call paths across their switches are mixed"
            )
        if header.profile_taken:
            found["c_calls"] = (
                "the program set a profile function of its own: calls of C functions are missing "
                "from then on"
            )
        return found
