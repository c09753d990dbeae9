"""Read a part, complete or cut off: what one process measured.

Two kinds of part exist: the compiled engine's mapped file (`*.part`, a container with the
blocks of `_native/part.h`) and the plain-Python engine's snapshot (`*.pypart`, a record). Both
are decoded to a `Part` with the same columns, in nanoseconds. A part may be cut off anywhere,
damaged, or crafted by hand; any impossible content raises FormatError.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from taupy.errors import FormatError
from taupy.model.profile import LayerFacts, Statistics, UserEvent
from taupy.record import plain_part
from taupy.record.engine_layout import (
    COLLECTIVE,
    COLLECTIVE_SUM,
    COMMUNICATOR,
    HIDDEN_BYTES,
    MEASURED_NODE,
    NODE,
    OPERATION_BYTES,
    SPAN,
    STEP,
    STRETCH,
    Array,
)
from taupy.record.engine_layout import THREAD as THREAD_LAYOUT
from taupy.record.part_blocks import (
    COLLECTIVE_SUMS,
    COLLECTIVES,
    COMMUNICATORS,
    LAYOUT,
    OPERATIONS,
    STAMPED,
    STRETCHES,
    Blocks,
    Rows,
)
from taupy.record.part_check import LARGEST, check
from taupy.record.part_data import (
    ENDED,
    EXEC,
    SNAPSHOT,
    CallMetric,
    Part,
    PartThread,
    Places,
    Routine,
)
from taupy.state import container
from taupy.state.container import Block, Container

if TYPE_CHECKING:  # few parts have them, and the prompt waits for every import
    from taupy.record.part_collectives import PartCollectives
    from taupy.record.part_spans import PartSpans
    from taupy.record.part_steps import Clock, PartSteps

UNKNOWN = "<unknown>"
"""The routine of call paths whose routine is missing: it did not fit, or is too recent."""
_COUNTER_FAULTS = {  # as in _native/counters.h
    1: "they did not count all the time: others used the processor's counters, too",
    2: "they could no longer be read: the program has closed their descriptors",
    4: "they gave impossible values",
}
_SAMPLE = struct.Struct("<4Q4d")
_METRICS_AT_MOST = 4  # as in _native/calltree.h
_PLAIN_SUFFIX = ".pypart"


class Readable(Protocol):
    """A file that may contain a part."""

    @property
    def name(self) -> str: ...

    def read_bytes(self, *, first: int = -1) -> bytes: ...


def read_part(
    file: Readable, clock_now: tuple[int, int] | None = None, *, is_changing: bool = False
) -> Part | None:
    """Decode a part; None if nothing was recorded in it.

    Args:
        file: the part.
        clock_now: current ticks and CLOCK_MONOTONIC, if the part was made since this
            host booted: they give the length of a tick if the process was killed.
        is_changing: the process may still be writing, so the end may be missing.

    Raises:
        FormatError: the file is not a part, or damaged.
        OSError: it cannot be read, or is not trusted.
    """
    data = file.read_bytes()
    name = file.name
    with _refusing(name):
        if name.endswith(_PLAIN_SUFFIX):
            part = plain_part.read(name, data)
        else:
            held = container.read(name, data, LAYOUT)
            part = None if held is None else _NativePart(held, is_changing).decode(clock_now)
        if part is not None:
            check(part)
    return part


def peek_process(file: Readable) -> tuple[int, int, bool, bool]:
    """(pid, start time, whether it closed the part, whether it is a helper), decoding nothing else.

    A helper is one of multiprocessing's own processes: its part is not a node of the trial.

    Raises:
        FormatError: the file is not a part.
        OSError: it cannot be read, or is not trusted.
    """
    name = file.name
    with _refusing(name):
        if name.endswith(_PLAIN_SUFFIX):
            return plain_part.peek(name, file.read_bytes())
        head = container.header(name, file.read_bytes(first=container.HEADER_BYTES), LAYOUT)
        closed = head.state in (ENDED, EXEC, SNAPSHOT)
        return head.pid, head.process_start, closed, bool(head.helper)


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn errors from damage that no check anticipated into FormatError."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as problem:
        why = f"{type(problem).__name__}: {problem}"
        raise FormatError(f"{name} is damaged ({why})") from problem


class _NativePart:
    """Decodes one mapped file."""

    def __init__(self, file: Container, is_changing: bool = False) -> None:
        self.file = file
        self.is_partial = is_changing or file.lost_bytes > 0  # what it names may be missing
        self.name = file.name
        self.data = file.data
        self.header = file.header
        self.metric_count = file.header.metric_count
        if self.metric_count > _METRICS_AT_MOST:
            raise FormatError(f"{self.name} is damaged: it claims {self.metric_count} metrics")
        self.layout = MEASURED_NODE if self.metric_count else NODE
        self.places = Places()
        self.at_calls = False  # counters are read at every call
        self.metrics: list[CallMetric] = []
        self.end_ticks = 0
        self.ns_per_tick = 1.0
        self.traced_until: tuple[int, int] | None = None

    def decode(self, clock_now: tuple[int, int] | None) -> Part | None:
        header = self.header
        blocks = Blocks.of(self.file)
        metadata = blocks.metadata
        if not blocks.threads:
            return None
        self.at_calls = metadata.pop("taupy.counters.at", None) == "calls"
        described = [line.split() for line in metadata.pop("taupy.metrics", "").splitlines()]
        self.metrics = [CallMetric(name, unit, at == "calls") for name, unit, at in described]
        closed = header.state in (ENDED, EXEC, SNAPSHOT)
        self.end_ticks = header.end_ticks if closed else self.last_ticks(blocks)
        self.ns_per_tick = self.tick(closed, clock_now)
        self.routines = _Routines(blocks)
        self.traced_until = _timeline_until(blocks)
        threads = sorted(
            blocks.threads, key=lambda block: (_is_native(block), block.thread, block.start)
        )
        decoded = [self.thread(position, block, blocks) for position, block in enumerate(threads)]
        start_ns = header.start_ns
        ran = int(max(0, self.end_ticks - header.start_ticks) * self.ns_per_tick)
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
            end_ns=header.end_ns if closed else start_ns + ran,
            exit_status=header.exit_status if header.has_exit_status else None,
            routines=blocks.routines,
            threads=decoded,
            metadata=metadata,
            layers=self.layers(blocks),
            health=self.health(blocks),
            node=header.node if header.node >= 0 else None,
            start_ticks=header.start_ticks,
            ns_per_tick=self.ns_per_tick,
            places=self.places,
            lost_bytes=self.file.lost_bytes,
            used_bytes=header.used,
            collectives=self.collectives(blocks.collectives) if blocks.collectives else None,
        )

    def tick(self, closed: bool, clock_now: tuple[int, int] | None) -> float:
        """The length of a tick in nanoseconds."""
        header = self.header
        if not header.uses_tsc:
            return 1.0
        ticks, ns = header.end_ticks, header.end_ns
        if not closed:
            ticks, ns = clock_now or (header.start_ticks, header.start_ns)
        if ticks <= header.early_ticks or ns <= header.early_ns:
            raise FormatError(f"{self.name}: its clock readings do not increase")
        return float((ns - header.early_ns) / (ticks - header.early_ticks))

    def last_ticks(self, blocks: Blocks) -> int:
        """The last moment recorded by a killed process."""
        last: int = max(self.header.last_ticks, self.header.start_ticks)
        for block in blocks.threads:
            (thread,) = np.frombuffer(self.data, THREAD_LAYOUT, 1, block.start)
            last = max(last, int(thread["root"]["t0"]))
        for block in (block for of_thread in blocks.nodes.values() for block in of_thread):
            count = (block.end - block.start) // self.layout.itemsize
            nodes = np.frombuffer(self.data, self.layout, count, block.start)
            last = max(last, int(nodes["t0"].max(initial=0)))
        return last

    def thread(self, position: int, block: Block, blocks: Blocks) -> PartThread:
        (own,) = np.frombuffer(self.data, THREAD_LAYOUT, 1, block.start)
        root = self.file.address_of(block.start)
        rows = Rows.of(self.file, root, blocks.nodes[block.thread], self.layout)
        self.place(rows, position)
        parent = self.parents(rows)
        inclusive, open_rows = self.times(own, rows, parent)
        thread = PartThread(
            int(own["native_id"]),
            container.text(own["name"].split(b"\0", 1)[0]),
            max(0, int(own["cpu_ns"]) - int(own["cpu_start_ns"])),
            routine=_behind(-1, self.routines.numbers(rows.nodes["key"])),
            parent=parent,
            calls=_behind(1, rows.nodes["calls"]),
            resumes=_behind(0, rows.nodes["resumes"]),
            inclusive=inclusive,
            native=_is_native(block),
            refused=_refusal(block),
            open=open_rows,
            ended=int(own["ended_ticks"]) != 0,
        )
        further = [
            _behind(own["root"]["metrics"][number, 1], rows.nodes["metrics"][:, number, 1])
            for number in range(self.metric_count)
        ]
        first = len(self.metrics)
        if not thread.native:  # it has counters only
            thread.metrics = dict(zip(self.metrics, further[:first], strict=True))
        thread.counters = further[first:]
        if (thread.counters and not self.at_calls) or not all(of.at_calls for of in self.metrics):
            thread.counted = _behind(1, rows.nodes["region"]) != 0
        thread.samples = self.samples(rows, block.thread, blocks)
        thread.steps = self.steps(block.thread, blocks)
        until = int(own["ended_ticks"]) or self.end_ticks
        thread.spans = self.spans(rows, block, blocks, [row for row, _ in open_rows], until)
        return thread

    def place(self, rows: Rows, thread: int) -> None:
        """Note the addresses of a thread's call paths."""
        for address, row, count in [(rows.root, 0, 1), *rows.stretches]:
            self.places.address.append(address)
            self.places.rows.append(count)
            self.places.step.append(self.layout.itemsize)
            self.places.thread.append(thread)
            self.places.row.append(row)

    def parents(self, rows: Rows) -> Array:
        """The row of each row's parent."""
        parent = _behind(-1, rows.at(rows.nodes["parent"]))
        if (parent >= np.arange(len(parent))).any():
            raise FormatError(f"{self.name}: a call path precedes its parent")
        return parent

    def row_at(self, rows: Rows, address: int) -> int | None:
        """The row of a call path; None if that is newer than what was read, or was lost."""
        try:
            return int(rows.at(np.array([address], "u8"))[0])
        except FormatError:
            if not self.is_partial:
                raise
            return None

    def times(self, own: Any, rows: Rows, parent: Array) -> tuple[Array, list[tuple[int, int]]]:
        """Inclusive times in nanoseconds, with open frames counted up to the end; and the open
        frames."""
        end = int(own["ended_ticks"]) or self.end_ticks
        ticks = _behind(0, rows.nodes["inclusive"])
        cursor = int(own["cursor"])
        if cursor == rows.root + HIDDEN_BYTES:
            cursor = int(own["hidden"]["parent"])
        at = 0
        if cursor and cursor != rows.root:  # the thread had not returned from all its calls
            at = self.row_at(rows, cursor) or 0
        open_rows = []
        while at > 0:
            entered = int(rows.nodes["t0"][at - 1])
            ticks[at] = int(ticks[at]) + max(0, end - entered)
            open_rows.append((at, self.moment(entered)))
            at = int(parent[at])
        ticks[0] = max(0, end - int(own["root"]["t0"]))
        times = np.maximum(ticks, 0) * self.ns_per_tick
        if not (times <= LARGEST).all():
            raise FormatError(f"{self.name} is damaged: impossible times")
        return times.astype("i8"), open_rows

    def moment(self, ticks: int) -> int:
        """A moment in ns of CLOCK_MONOTONIC."""
        since = max(0, ticks - self.header.start_ticks)
        return int(self.header.start_ns + since * self.ns_per_tick)

    def samples(self, rows: Rows, index: int, blocks: Blocks) -> list[UserEvent]:
        """User events; a killed process may have allocated one without filling it."""
        sampled = []
        for start in blocks.samples[index]:
            record = _SAMPLE.unpack_from(self.data, start)
            event, _, node, count, least, most, total, squares = record
            name, unit = blocks.events.get(event, (f"event {event}", ""))
            if count:
                row = self.row_at(rows, node) if node else None
                sums = Statistics(count, least, most, total, squares)
                sampled.append(sums.event(name, unit, row))
        return sampled

    def rows(self, layout: np.dtype[Any], blocks: list[Block]) -> Iterator[Array]:
        """The complete rows of each block."""
        for block in blocks:
            count = (block.end - block.start) // layout.itemsize
            yield np.frombuffer(self.data, layout, count, block.start)

    def clock(self) -> Clock:
        from taupy.record.part_steps import Clock

        header = self.header
        return Clock(header.start_ticks, header.start_epoch_ns, self.ns_per_tick)

    def collectives(self, blocks: dict[int, list[Block]]) -> PartCollectives:
        from taupy.record.part_collectives import Communicator, PartCollectives

        held = PartCollectives(self.clock())
        for rows in self.rows(COMMUNICATOR, blocks[COMMUNICATORS]):
            record = rows[0]
            held.communicators[int(record["place"])] = Communicator(
                name=_text(record["name"]),
                ranks=_text(record["ranks"]),
                size=int(record["size"]),
                begun=int(record["begun"]),
                stride=int(record["stride"]),
            )
        names = self.rows(np.dtype(f"S{OPERATION_BYTES}"), blocks[OPERATIONS])
        held.operations = [_text(name) for stretch in names for name in stretch if name]
        for rows in self.rows(COLLECTIVE, blocks[COLLECTIVES]):
            held.rows.append(rows[(rows["is_used"] == 1) & (rows["number"] > 0)])
        for rows in self.rows(COLLECTIVE_SUM, blocks[COLLECTIVE_SUMS]):
            held.sums.append(rows[rows["count"] > 0])
        for rows in self.rows(STRETCH, blocks[STRETCHES]):
            held.stretches.append(rows[rows["is_used"] == 1])
        return held

    def layers(self, blocks: Blocks) -> list[LayerFacts]:
        if not blocks.layers:
            return []
        from taupy.record import part_layers

        layers = (part_layers.facts(self.data, at, blocks.routine_at) for at in blocks.layers)
        return [layer for layer in layers if layer is not None]

    def steps(self, index: int, blocks: Blocks) -> list[PartSteps]:
        if not blocks.steps[index]:
            return []
        from taupy.record import part_steps

        stretches: dict[int, list[Array]] = defaultdict(list)
        for block, rows in zip(
            blocks.steps[index], self.rows(STEP, blocks.steps[index]), strict=True
        ):
            stretches[block.words[0]].append(rows)
        return [
            part_steps.series(kind, np.concatenate(pieces), self.clock(), blocks.step_values)
            for kind, pieces in sorted(stretches.items())
        ]

    def spans(
        self, rows: Rows, block: Block, blocks: Blocks, at_work: list[int], until: int
    ) -> PartSpans | None:
        """The spans of a thread's layers and phases, including open ones, which end with it."""
        if not blocks.spans[block.thread] and not at_work:
            return None
        stretches = self.rows(SPAN, blocks.spans[block.thread])
        pieces = [stretch[stretch["node"] != 0] for stretch in stretches]
        last = self.traced_until or (LARGEST, 0)
        open_nodes = rows.nodes[np.array(at_work, "i8") - 1]
        is_kept = (open_nodes["flags"] & STAMPED != 0) & (open_nodes["t0"] < last[0])
        began = open_nodes["t0"][is_kept]
        ended = np.concatenate([np.empty(0, SPAN), *pieces])
        if self.is_partial:
            ended = ended[rows.find(ended["node"]) >= 0]
        if not len(ended) and not len(began):
            return None
        from taupy.record.part_spans import PartSpans

        spans = PartSpans(
            self.clock(),
            np.concatenate([rows.at(ended["node"]), np.array(at_work, "i8")[is_kept]]),
            np.concatenate([ended["start"], began]),
            np.concatenate([ended["end"], np.maximum(began, np.uint64(until))]),
            np.arange(len(ended) + len(began)) >= len(ended),
        )
        spans.check()
        return spans

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

    def health(self, blocks: Blocks) -> dict[str, str]:
        header = self.header
        health = {}
        if until := self.traced_until:
            from taupy.record import part_spans

            after_ns = self.moment(until[0]) - header.start_ns
            health["trace"] = part_spans.cut_off(until[1], after_ns)
        if count := header.calls_over_limit:
            health["callpaths"] = (
                f"{count} calls on call paths beyond the limit or without memory, and all calls "
                "below them, were folded into their callers; raise the limit with --max-callpaths"
            )
        if count := header.overlaps:
            health["timers"] = _timers(count, blocks.metadata.pop("taupy.timers.cut", ""))
        if header.greenlets_untraced:
            health["greenlets"] = (
                "the program traces greenlets itself: call paths across their switches are mixed"
            )
        if header.profile_taken:
            health["c_calls"] = (
                "the program set its own profile function: calls of C functions are missing "
                "from then on"
            )
        return health


def _text(value: Any) -> str:
    return bytes(value).split(b"\0", 1)[0].decode("utf-8", "replace")


def _behind(first: int, column: Array) -> Array:
    """The root's number followed by those of the other rows, as signed integers; `check` rejects
    numbers too large for that."""
    whole = np.empty(len(column) + 1, "i8")
    whole[0] = min(int(first), LARGEST + 1)
    whole[1:] = np.minimum(column, LARGEST + 1) if column.dtype == "u8" else column
    return whole


class _Routines:
    """The routines of a part by their keys, in the order of the keys."""

    def __init__(self, blocks: Blocks) -> None:
        self.routines = blocks.routines
        self.noted = np.array(sorted(blocks.routine_at), "u8")
        self.position = np.array([blocks.routine_at[key] for key in self.noted.tolist()], "i8")

    def numbers(self, keys: Array) -> Array:
        """The routine of each key; an extra routine represents those whose record did not fit."""
        keys = keys & ~np.uint64(4)
        at = np.searchsorted(self.noted, keys)
        if len(self.noted):
            at[at == len(self.noted)] = 0
            missing = self.noted[at] != keys
            numbers = self.position[at]
        else:
            missing = np.ones(len(keys), bool)
            numbers = np.zeros(len(keys), "i8")
        if missing.any():
            numbers[missing] = len(self.routines)
            self.routines.append(Routine(UNKNOWN, "", 0, "python", "PYTHON"))
        return numbers


def _timeline_until(blocks: Blocks) -> tuple[int, int] | None:
    """When the process stopped keeping spans, in ticks, and why."""
    noted = [(block.words[3], block.words[4]) for block in blocks.threads if block.words[4]]
    return min(noted) if noted else None


def _is_native(block: Block) -> bool:
    """Whether the thread of this block never ran Python."""
    return bool(block.words[0])


def _refusal(block: Block) -> str | None:
    """Why the counters of a thread are unreliable; None if they are reliable."""
    _, faults, number, *_ = block.words
    for bit, why in _COUNTER_FAULTS.items():
        if faults & bit:
            return why
    return f"they could not be opened: {os.strerror(number)}" if number else None


def _timers(count: int, cut: str) -> str:
    """About timers whose time is not that between their start and stop.

    Args:
        cut: the first one, and where; "" if it is not known.
    """
    first = f"; the first is {cut}" if cut else ""
    return (
        f"{count} timers were stopped out of order or without having been started, or ended with "
        f"the thread's work or task that began them{first}"
    )
