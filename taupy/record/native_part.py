"""Decode a part of the compiled engine: what does not depend on how many call paths it has.

`small_part.py` decodes the rows of threads one by one, `wide_part.py` whole columns with NumPy,
whose import takes longer than an empty program: the prompt waits for it.
"""

from __future__ import annotations

import _struct as struct
import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from taupy.dataclass import NamedTuple
from taupy.errors import FormatError
from taupy.model.profile import LayerFacts, Statistics, UserEvent
from taupy.record.part_blocks import Blocks
from taupy.record.part_check import LARGEST
from taupy.record.part_data import (
    ENDED,
    EXEC,
    SNAPSHOT,
    CallMetric,
    Part,
    PartThread,
    Places,
    ThreadSums,
)
from taupy.state.container import Block, Container
from taupy.units import count as counted
from taupy.units import several, verb

TYPE_CHECKING = False
if TYPE_CHECKING:  # few parts have them
    from taupy.record.part_collectives import PartCollectives
    from taupy.record.part_steps import Clock

UNKNOWN = "<unknown>"
"""The routine of call paths whose routine is missing: it did not fit, or is too recent."""
_COUNTER_FAULTS = {  # as in _native/counters.h
    1: "they did not count all the time: others used the processor's counters, too",
    2: "they could no longer be read: the program has closed their descriptors",
    4: "they gave impossible values",
}
_SAMPLE = struct.Struct("<4Q4d")
_THREAD_ROW = struct.Struct("<6Q2qdQ")
METRICS_AT_MOST = 4  # as in _native/calltree.h


class UsageNumber(NamedTuple):
    """What the kernel says of a process at its end: a field of the part's header.

    Attributes:
        scale: what the field is divided by.
        is_most: of several processes the largest counts, not the sum.
    """

    field: str
    scale: float = 1
    is_most: bool = False

    def text(self, value: float) -> str:
        return f"{value:.0f}" if self.scale == 1 else f"{value:.6f}"


USAGE = {
    "CPU Time User (s)": UsageNumber("cpu_user_ns", 1e9),
    "CPU Time System (s)": UsageNumber("cpu_system_ns", 1e9),
    "Peak Resident Memory (KiB)": UsageNumber("peak_resident_kib", is_most=True),
    "Page Faults Minor": UsageNumber("minor_faults"),
    "Page Faults Major": UsageNumber("major_faults"),
    "Context Switches Voluntary": UsageNumber("voluntary_switches"),
    "Context Switches Involuntary": UsageNumber("involuntary_switches"),
}
"""Metadata of a process that closed its part."""


class NativePart(ABC):
    """Decodes one mapped file."""

    def __init__(self, file: Container, blocks: Blocks, is_changing: bool = False) -> None:
        self.file = file
        self.blocks = blocks
        self.is_partial = is_changing or file.lost_bytes > 0  # what it names may be missing
        self.name = file.name
        self.data = file.data
        self.header = file.header
        self.metric_count = file.header.metric_count
        if self.metric_count > METRICS_AT_MOST:
            raise FormatError(f"{self.name} is damaged: it claims {self.metric_count} metrics")
        self.places = Places()
        self.at_calls = False  # counters are read at every call
        self.metrics: list[CallMetric] = []
        self.end_ticks = 0
        self.ns_per_tick = 1.0
        self.traced_until = _timeline_until(blocks)

    def decode(self, clock_now: tuple[int, int] | None) -> Part | None:
        header = self.header
        blocks = self.blocks
        metadata = blocks.metadata
        if not blocks.threads:
            return None
        self.at_calls = metadata.pop("taupy.counters.at", None) == "calls"
        described = [line.split() for line in metadata.pop("taupy.metrics", "").splitlines()]
        self.metrics = [CallMetric(name, unit, at == "calls") for name, unit, at in described]
        closed = header.state in (ENDED, EXEC, SNAPSHOT)
        self.end_ticks = header.end_ticks if closed else self.last_ticks(blocks)
        self.ns_per_tick = self.tick(closed, clock_now)
        threads = sorted(
            blocks.threads, key=lambda block: (is_native(block), block.thread, block.start)
        )
        decoded = [self.thread(position, block, blocks) for position, block in enumerate(threads)]
        for block, thread in zip(threads, decoded, strict=True):
            thread.index = block.thread
        start_ns = header.start_ns
        ran = int(max(0, self.end_ticks - header.start_ticks) * self.ns_per_tick)
        metadata.update(self.usage(closed))
        self.places.sort()
        for thread in decoded:
            if (at := blocks.thread_rows.get(thread.index)) is not None and not thread.native:
                self.add_row(thread, at)
        health = self.health(blocks)
        if rows := [thread.several for thread in decoded if thread.several is not None]:
            health["threads_added"] = threads_added(sum(row.threads for row in rows), len(rows))
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
            health=health,
            node=header.node if header.node >= 0 else None,
            start_ticks=header.start_ticks,
            ns_per_tick=self.ns_per_tick,
            places=self.places,
            keys=blocks.keys,
            lost_bytes=self.file.lost_bytes,
            used_bytes=header.used,
            collectives=self.collectives(blocks.collectives) if blocks.collectives else None,
        )

    @abstractmethod
    def last_ticks(self, blocks: Blocks) -> int:
        """The last moment recorded by a killed process."""

    @abstractmethod
    def thread(self, position: int, block: Block, blocks: Blocks) -> PartThread:
        """A thread; its place among the threads of the part is `position`."""

    @abstractmethod
    def collectives(self, blocks: dict[int, list[Block]]) -> PartCollectives: ...

    def add_row(self, thread: PartThread, at: int) -> None:
        """Note of how many threads this one is the sum."""
        numbers = _THREAD_ROW.unpack_from(self.data, at)
        count, apart, first, last, least, most, *cpu, squares, start = numbers
        if not 1 < count <= LARGEST:
            return  # it was about to become such a row
        place = self.places.find(start)
        routine = int(thread.routine[place[1]]) if place is not None else -1
        total = float(thread.cpu_ns)
        thread.calls[0] = count
        thread.several = ThreadSums(
            count,
            apart,
            first,
            last,
            self.duration(least),
            self.duration(most),
            Statistics(count, float(cpu[0]), float(cpu[1]), total, squares),
            routine if routine >= 0 else None,
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

    def moment(self, ticks: int) -> int:
        """A moment in ns of CLOCK_MONOTONIC."""
        since = max(0, ticks - self.header.start_ticks)
        return int(self.header.start_ns + since * self.ns_per_tick)

    def duration(self, ticks: int) -> int:
        """A time in ns."""
        return int(ticks * self.ns_per_tick)

    def samples(self, row_at: Callable[[int], int | None], index: int) -> list[UserEvent]:
        """User events; a killed process may have allocated one without filling it."""
        sampled = []
        for start in self.blocks.samples[index]:
            record = _SAMPLE.unpack_from(self.data, start)
            event, _, node, count, least, most, total, squares = record
            name, unit = self.blocks.events.get(event, (f"event {event}", ""))
            if count:
                row = row_at(node) if node else None
                sums = Statistics(count, least, most, total, squares)
                sampled.append(sums.event(name, unit, row))
        return sampled

    def place(self, stretches: list[tuple[int, int, int]], thread: int, step: int) -> None:
        """Note the addresses of a thread's call paths: address, first row and number of rows."""
        for address, row, count in stretches:
            self.places.address.append(address)
            self.places.rows.append(count)
            self.places.step.append(step)
            self.places.thread.append(thread)
            self.places.row.append(row)

    def clock(self) -> Clock:
        from taupy.record.part_steps import Clock

        header = self.header
        return Clock(header.start_ticks, header.start_epoch_ns, self.ns_per_tick)

    def layers(self, blocks: Blocks) -> list[LayerFacts]:
        if not blocks.layers:
            return []
        from taupy.record import part_layers

        layers = (part_layers.facts(self.data, at, blocks.routine_at) for at in blocks.layers)
        return [layer for layer in layers if layer is not None]

    def usage(self, closed: bool) -> dict[str, str]:
        header = self.header
        if not closed:
            return {}
        return {
            name: number.text(getattr(header, number.field) / number.scale)
            for name, number in USAGE.items()
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
                f"{several(count, 'call')} on call paths beyond the limit or without memory, and "
                "all calls below, were folded into their callers; raise the limit "
                "with --max-callpaths"
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


def _timeline_until(blocks: Blocks) -> tuple[int, int] | None:
    """When the process stopped keeping spans, in ticks, and why."""
    noted = [(block.words[3], block.words[4]) for block in blocks.threads if block.words[4]]
    return min(noted) if noted else None


def is_native(block: Block) -> bool:
    """Whether the thread of this block never ran Python."""
    return bool(block.words[0])


def refusal(block: Block) -> str | None:
    """Why the counters of a thread are unreliable; None if they are reliable."""
    _, faults, number, *_ = block.words
    for bit, why in _COUNTER_FAULTS.items():
        if faults & bit:
            return why
    return f"they could not be opened: {os.strerror(number)}" if number else None


def threads_added(threads: int, rows: int) -> str:
    """What the trial says about threads without rows of their own."""
    return (
        f"{counted(threads)} threads that had ended are shown as {rows}, one for each routine that "
        "they began in, with their times added up; --threads all keeps them apart"
    )


def _timers(count: int, cut: str) -> str:
    """About timers whose time is not that between their start and stop.

    Args:
        cut: the first one, and where; "" if it is not known.
    """
    first = f"; the first is {cut}" if cut else ""
    return (
        f"{several(count, 'timer')} {verb(count, 'were')} stopped out of order or without having "
        f"been started, or ended with the thread's work or task around{first}"
    )
