"""Host threads of an nsys SQLite file: ranges, API calls, backtraces, CPU samples.

Call paths are built in one pass over all slices, sorted by thread and start. The call paths of API
calls are kept by correlation id, for the GPU work that is placed under them.
"""

from __future__ import annotations

import json
import posixpath
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from taupy.analysis.gpu_idle import HostSlices
from taupy.formats.foreign_sqlite import is_indexed, quoted
from taupy.formats.gpu_records import api_timer, root_timer
from taupy.formats.launchers import Launchers
from taupy.formats.nsight.nsys_tables import GPU_TABLES, Tables
from taupy.formats.operator_inputs import UNKNOWN, OperatorInputs, signature_of
from taupy.formats.places import shown_file
from taupy.formats.slices import Timeline, overlaps
from taupy.model.forest import inclusive
from taupy.model.profile import CallTree, Thread, ThreadProfile, Timer, UserEvent
from taupy.model.progress import Progress
from taupy.model.streams import Owner
from taupy.model.timers import Timers
from taupy.network import operators
from taupy.units import several

_RUNTIME: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_NVTX: Final = "NVTX_EVENTS"
_CHAINS: Final = "CUDA_CALLCHAINS"
_RESOLVED: Final = "EXTRAP_RESOLVED_CALLPATHS"  # Extra-P adds it to nsys files
_NO_CALLS: Final = {_NVTX, _RESOLVED, "PROFILER_OVERHEAD", "SCHED_EVENTS", "NVTX_PAYLOAD_SCHEMAS"}

_RANGES: Final = "59, 60, 70, 71"
"""NVTX event types of ranges, both push/pop and start/end."""

_CODE_BITS: Final = 40
_OPEN: Final = (1 << 61) - 1

_OF_TORCH: Final = re.compile(
    r"(?P<name>.*?)(?P<more>, (?:seq|op_id|stashed seq|seq_id|sizes|input_op_ids) = [-\d(\[].*)",
    re.DOTALL,
)
"""A range of torch.autograd.profiler.emit_nvtx: its name, and what differs for each call."""

_SIZES: Final = re.compile(r", sizes = (\[[\d\[\], -]*\])(?:, |\Z)")

_VERSION: Final = re.compile(r"_v\d{4,6}(?:_pt[sd]z)?$")

_GROUPS: Final = {
    "OSRT_API": "OS_API",
    "CUBLAS_EVENTS": "CUDA_LIBRARY",
    "CUDNN_EVENTS": "CUDA_LIBRARY",
}


class Hosts:
    """The host threads of a file."""

    def __init__(self, tables: Tables, notes: list[str], base_ns: int = 0) -> None:
        self._base_ns = base_ns
        self._kept: list[HostSlices] = []
        self.slices: dict[Thread, HostSlices] = {}  # once `threads` has been called
        self._tables = tables
        self._notes = notes
        self.timers: list[Timer] = [root_timer()]
        self._place = Timers(self.timers).place
        self.codes = Launchers()
        self.inputs = OperatorInputs()
        self._operators: set[int] = set()
        self._signatures: dict[tuple[int, Any], int] = {}
        self.nodes: dict[int, int] = {}
        self.span: tuple[int, int] | None = None
        self._timelines: list[tuple[int, Timeline]] = []  # globalTid
        self._frames = _Frames(tables, self._place)
        self._thread_names = _thread_names(tables)
        self._numbers: dict[int, int] = {}
        self._profiles: dict[int, ThreadProfile] = {}

    def tables(self) -> list[str]:
        """The tables with host slices: ranges first, then every table of API calls."""
        tables = [_NVTX] if self._tables.has(_NVTX, "start", "end", "globalTid") else []
        for table in sorted(self._tables.columns):
            named = self._tables.has(table, "nameId") or self._tables.has(table, "textId")
            timed = self._tables.has(table, "start", "end", "globalTid")
            if named and timed and table not in _NO_CALLS:
                tables.append(table)
        return tables

    def node(self, process: int) -> int:
        """The node of a process, added if it is new."""
        return self.nodes.setdefault(process, len(self.nodes))

    def owner(self, code: int) -> Owner:
        return self._timelines[code >> _CODE_BITS][1].owner(code & ((1 << _CODE_BITS) - 1))

    def read(self, progress: Progress) -> None:
        tables = self.tables()
        if not tables:
            return
        self._order_processes(tables)
        places: dict[tuple[int, Any], int] = {}
        unclosed = taken = 0
        has_work, base_ns = any(table in self._tables for table in GPU_TABLES), self._base_ns
        rows = self._tables.connection.execute(self._query(tables))
        for thread, slices in groupby(rows, key=lambda row: row[0]):
            process = thread & ~0xFFFFFF
            timeline = Timeline(0)
            self.inputs.begin_thread()
            base = len(self._timelines) << _CODE_BITS
            self._timelines.append((thread, timeline))
            place, note = timeline.place, self.codes.note
            kept = HostSlices()
            self._kept.append(kept)
            first, last, done = 0, 0, 0
            for _, start, end, which, name, correlation, chain in slices:
                done += 1
                taken += 1
                if end == _OPEN:
                    unclosed += 1
                    end = self._last(tables)
                    if end < start:
                        continue
                timer = places.get((which, name))
                if timer is None:
                    timer = places[which, name] = self._timer(tables[which], name)
                    if tables[which] == _NVTX:
                        self._note_operator((which, name), timer)
                if correlation is None:
                    row = place(start, end, timer)
                    if self.inputs and timer in self._operators:
                        signature = self._signatures.get((which, name), UNKNOWN)
                        self.inputs.operator(start, end, base | row, signature)
                else:
                    frames = self._frames.of(correlation, chain) if self._frames else ()
                    row = place(start, end, timer, frames)
                    note(process, correlation, base | row)
                    if self.inputs:
                        self.inputs.call(start, process, correlation)
                if has_work:
                    number = -1 if correlation is None else correlation
                    kept.add(base_ns + start, base_ns + end, row, number)
                first = start if done == 1 else first
                last = max(last, end)
                if not done & 0x3FFF:
                    progress.advance(0x4000)
            timeline.finish()
            self._notes += overlaps(timeline)
            if done:
                span = self.span or (first, last)
                self.span = (min(span[0], first), max(span[1], last))
        lost = sum(self._slices_of(table) for table in tables) - taken
        if lost:
            self._notes.append(
                f"left out: {several(lost, 'slice')} without usable stamps or thread"
            )
        if unclosed:
            self._notes.append(
                f"{several(unclosed, 'NVTX range')} open at the end of the recording"
            )

    def _note_operator(self, key: tuple[int, Any], timer: int) -> None:
        """Note what the name of a range says about an operator."""
        if operators.GROUP in self.timers[timer].groups:
            self._operators.add(timer)
            if match := _SIZES.search(self._tables.text(key[1], "")):
                with suppress(ValueError):
                    text = signature_of(json.loads(match[1]))
                    if text is not None:
                        self._signatures[key] = self.inputs.number(text)

    def add_inputs(self) -> None:
        """Add the inputs of operators to their threads, once all GPU work has been read."""
        for number, own in self.inputs.rows(_CODE_BITS):
            self._profiles[id(self._timelines[number][1])].inputs.append(own)

    def threads(self) -> list[ThreadProfile]:
        """The host threads, by node, main threads first."""
        threads: list[ThreadProfile] = []
        by_main = sorted(
            zip(self._timelines, self._kept, strict=True),
            key=lambda entry: (self.node(entry[0][0] & ~0xFFFFFF), not _is_main(entry[0][0])),
        )
        for (thread, timeline), kept in by_main:
            profile = ThreadProfile(self._thread(thread), timeline.tree)
            self.slices[profile.thread] = kept
            self._profiles[id(timeline)] = profile
            threads.append(profile)
        return threads

    def add_events(self, events: Iterator[tuple[int, UserEvent]]) -> None:
        """Add user events to the calls with these codes; `threads` must have been called before."""
        for code, event in events:
            timeline = self._timelines[code >> _CODE_BITS][1]
            row = code & ((1 << _CODE_BITS) - 1)
            self._profiles[id(timeline)].user_events.append(replace(event, row=row))

    def sampled_threads(self) -> list[ThreadProfile]:
        """CPU samples by call path, in a separate thread for each sampled thread; their metric is
        `samples`."""
        tables = self._tables
        if not tables.has("SAMPLING_CALLCHAINS", "id", "symbol", "stackDepth"):
            return []
        if not tables.has("COMPOSITE_EVENTS", "id", "globalTid"):
            return []
        module = tables.column("SAMPLING_CALLCHAINS", "module")
        rows = tables.connection.execute(
            f"SELECT c.id, e.globalTid, c.symbol, c.{module} FROM SAMPLING_CALLCHAINS AS c"
            " JOIN COMPOSITE_EVENTS AS e ON e.id = c.id WHERE typeof(e.globalTid) = 'integer'"
            " ORDER BY c.id, c.stackDepth DESC"
            if module != "NULL"
            else "SELECT c.id, e.globalTid, c.symbol, NULL FROM SAMPLING_CALLCHAINS AS c"
            " JOIN COMPOSITE_EVENTS AS e ON e.id = c.id WHERE typeof(e.globalTid) = 'integer'"
            " ORDER BY c.id, c.stackDepth DESC"
        )
        trees: dict[int, _Samples] = {}
        for (_, thread), chain in groupby(rows, key=lambda row: row[:2]):
            samples = trees.get(thread)
            if samples is None:
                samples = trees[thread] = _Samples()
            samples.add([self._frames.timer(symbol, where) for _, _, symbol, where in chain])
        threads = []
        for thread, samples in sorted(trees.items()):
            place = self._thread(thread, " (CPU samples)")
            threads.append(ThreadProfile(place, samples.tree()))
        return threads

    def _thread(self, thread: int, what: str = "") -> Thread:
        node = self.node(thread & ~0xFFFFFF)
        number = self._numbers.get(node, 0)
        self._numbers[node] = number + 1
        name = self._thread_names.get(thread, "")
        return Thread(node, 0, number, "host", (name + what).strip(), thread & 0xFFFFFF)

    def _order_processes(self, tables: Sequence[str]) -> None:
        """Assign nodes to processes, in order of their first slice."""
        began: dict[int, int] = {}
        for table in tables:
            for process, start in self._tables.connection.execute(
                f"SELECT {self._tables.process(table)}, min(start) FROM {quoted(table)}"
                " WHERE typeof(start) = 'integer' AND typeof(globalTid) = 'integer' GROUP BY 1"
            ):
                began[process] = min(start, began.get(process, start))
        for process in sorted(began, key=lambda process: (began[process], process)):
            self.node(process)

    def _query(self, tables: Sequence[str]) -> str:
        """All slices: thread, start, end, table number, name, correlation, chain."""
        parts = []
        for number, table in enumerate(tables):
            column = self._tables.column
            end, condition = quoted("end"), self._tables.sane(table)
            correlation = chain = "NULL"
            if table == _NVTX:
                name = f"coalesce({column(table, 'text')}, {column(table, 'textId')})"
                end = f"ifnull({end}, {_OPEN})"
                kinds = _RANGES if self._tables.has(table, "eventType") else ""
                condition = (
                    f"({condition} OR ({quoted('end')} IS NULL AND typeof(start) = 'integer'"
                )
                condition += (
                    f" AND abs(start) < {_OPEN} AND eventType IN (59, 60)))" if kinds else "))"
                )
                condition += f" AND eventType IN ({kinds})" if kinds else ""
            else:
                has_name = self._tables.has(table, "nameId")
                name = column(table, "nameId" if has_name else "textId")
            if table == _RUNTIME:
                correlation = self._tables.integer(table, "correlationId")
                chain = column(table, "callchainId")
            parts.append(
                f"SELECT globalTid, start, {end}, {number}, {name}, {correlation}, {chain}"
                f" FROM {quoted(table)} WHERE typeof(globalTid) = 'integer' AND {condition}"
                f" AND {end} >= start"
            )
        return " UNION ALL ".join(parts) + " ORDER BY 1, 2, 3 DESC, 4"

    def _slices_of(self, table: str) -> int:
        """The number of slices in a table."""
        query = f"SELECT count(*) FROM {quoted(table)}"
        if table == _NVTX and self._tables.has(table, "eventType"):
            query += f" WHERE eventType IN ({_RANGES})"
        return int(self._tables.connection.execute(query).fetchone()[0])

    def _last(self, tables: Sequence[str]) -> int:
        """The latest end of all slices on the host."""
        ends = []
        for table in tables:
            query = f"SELECT max({quoted('end')}) FROM {quoted(table)} WHERE"
            (last,) = next(self._tables.connection.execute(f"{query} {self._tables.sane(table)}"))
            ends.append(last or 0)
        self._last = lambda tables: max(ends)  # type: ignore[method-assign]  # queried only once
        return max(ends)

    def _timer(self, table: str, name: Any) -> int:
        text = self._tables.text(name, "(unnamed)")
        if table == _NVTX:
            return self._place(_range_timer(text))
        if table == _RUNTIME:
            return self._place(api_timer(text))
        group = _GROUPS.get(table) or table.removesuffix("_EVENTS").removesuffix("_API")
        return self._place(Timer(text, groups=(group,)))


class _Frames:
    """The frames above API calls, if the file has backtraces or resolved call paths."""

    def __init__(self, tables: Tables, place: Any) -> None:
        self._tables = tables
        self._place = place
        self._frames_of: dict[Any, tuple[int, ...]] = {}
        self._resolved: dict[int, str] = {}
        if tables.has(_RESOLVED, "correlationId", "callpath"):
            self._resolved = {
                key: path
                for key, path in tables.select(_RESOLVED, "correlationId", "callpath")
                if isinstance(key, int) and isinstance(path, str)
            }
        self._chains = tables.has(_CHAINS, "id", "symbol", "stackDepth") and is_indexed(
            tables.connection, _CHAINS, "id"
        )

    def __bool__(self) -> bool:
        return bool(self._resolved) or self._chains

    def of(self, correlation: int, chain: Any) -> tuple[int, ...]:
        """Timers from the outermost frame to the one that made the call."""
        if self._resolved and chain is not None:
            path = self._resolved.get(correlation)
            if path is not None:
                frames = self._frames_of.get(path)
                if frames is None:
                    frames = self._frames_of[path] = tuple(
                        self.timer(name, None) for name in _without_call(path.split("->"))
                    )
                return frames
        if not isinstance(chain, int) or not self._chains:
            return ()
        rows = tuple(
            self._tables.select(_CHAINS, "symbol", "module", "unresolved",
                                more=f"WHERE id = {chain} ORDER BY stackDepth DESC LIMIT 1000")
        )  # fmt: skip
        frames = self._frames_of.get(rows)
        if frames is None:
            frames = self._frames_of[rows] = self._chain(rows)
        return frames

    def _chain(self, rows: Sequence[tuple[Any, ...]]) -> tuple[int, ...]:
        """Only Python's frames if there are any, else all that have a name."""
        text = self._tables.text
        named = [
            (text(symbol, ""), module)
            for symbol, module, unresolved in rows
            if not unresolved and not text(symbol, "0x").startswith("0x")
        ]
        python = [frame for frame in named if _is_python(text(frame[1], ""))]
        names = python or [(name, None) for name in _without_call([symbol for symbol, _ in named])]
        return tuple(self.timer(symbol, module) for symbol, module in names)

    def timer(self, symbol: Any, module: Any) -> int:
        """The timer of a frame: a Python routine by its file, else a native one."""
        name = self._tables.text(symbol, "(unknown)")
        file = self._tables.text(module, "") if module is not None else ""
        if name.startswith("0x") and file:
            name = f"[{posixpath.basename(file)}]"  # without a symbol, the address is useless
        if _is_python(file):
            return int(self._place(Timer(name, file=shown_file(file), path=file)))
        return int(self._place(Timer(name, groups=("NATIVE",))))


class _Samples:
    """Counts the sampled stacks of one thread."""

    def __init__(self) -> None:
        self._timer = [0]
        self._parent = [-1]
        self._own = [0]
        self._children: dict[tuple[int, int], int] = {}

    def add(self, stack: Sequence[int]) -> None:
        row = 0
        for timer in stack:
            below = self._children.get((row, timer))
            if below is None:
                below = self._children[row, timer] = len(self._timer)
                self._timer.append(timer)
                self._parent.append(row)
                self._own.append(0)
            row = below
        self._own[row] += 1

    def tree(self) -> CallTree:
        exclusive = array("q", self._own)
        none = array("q", [0] * len(exclusive))
        return CallTree(
            array("q", self._timer),
            array("q", self._parent),
            none,
            none[:],
            {"samples": inclusive(self._parent, exclusive)},
            {"samples": exclusive},
        )


def _range_timer(text: str) -> Timer:
    """The timer of an NVTX range. PyTorch's are operators, except for those of `record_function`,
    which have neither a sequence number nor a namespace."""
    match = _OF_TORCH.fullmatch(text)
    if match is None:
        return Timer(text, groups=("PHASE",))
    is_operator = "seq" in match["more"] or "::" in match["name"]
    return Timer(match["name"], groups=(operators.GROUP if is_operator else "PHASE",))


def _without_call(path: list[str]) -> list[str]:
    """A path without the API call at its end, which is a slice itself."""
    call = _VERSION.sub("", path[-1]) if path else ""
    end = len(path)
    while end and path[end - 1] == call:
        end -= 1
    return path[:end]


def _is_python(file: str) -> bool:
    return file.endswith((".py", ".pyx")) or file.startswith("<frozen ")


def _is_main(thread: int) -> bool:
    return (thread >> 24) & 0xFFFFFF == thread & 0xFFFFFF


def _thread_names(tables: Tables) -> dict[int, str]:
    rows: Iterator[tuple[Any, ...]] = tables.select("ThreadNames", "globalTid", "nameId")
    return {thread: tables.text(name, "") for thread, name in rows if isinstance(thread, int)}
