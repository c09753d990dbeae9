"""Decode a part with few call paths row by row, without NumPy: importing it would take longer than
the program of most such parts, and the prompt waits. `wide_part.py` decodes all others; a test
compares the two.
"""

from __future__ import annotations

from _bisect import bisect_right
from _struct import Struct
from array import array

from taupy.errors import FormatError
from taupy.record.native_part import UNKNOWN, NativePart, is_native, refusal
from taupy.record.part_blocks import SOME_STAMPED, Blocks
from taupy.record.part_check import LARGEST
from taupy.record.part_data import PartThread, Routine
from taupy.state import container
from taupy.state.container import Block, Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

ROWS = 2_000
"""Parts with more call paths than this are decoded faster with NumPy, with its import."""
_NODE = Struct("<QQ8xQqQQ5xBxx")
"""As NODE in `engine_layout.py`: key, parent, t0, inclusive, calls, resumes, flags."""
_THREAD = Struct("<24xQ104xQ112xQ16xQQqq16x64s")
"""As THREAD: t0 of the root, parent of the hidden node, cursor, native_id, ended_ticks,
cpu_start_ns, cpu_ns, name."""
_HIDDEN_BYTES = 128


class NotSmall(Exception):
    """The part has what only `wide_part.py` decodes."""


def is_small(file: Container, blocks: Blocks) -> bool:
    """Whether a part has few call paths, and nothing but them and user events."""
    if file.header.metric_count or blocks.collectives or any(map(len, blocks.steps.values())):
        return False
    if blocks.lines or any(map(len, blocks.spans.values())):
        return False
    nodes = (block for of_thread in blocks.nodes.values() for block in of_thread)
    return sum(block.end - block.start for block in nodes) <= ROWS * _NODE.size


class SmallPart(NativePart):
    """Decodes one mapped file; raises `NotSmall` as well."""

    def last_ticks(self, blocks: Blocks) -> int:
        last: int = max(self.header.last_ticks, self.header.start_ticks)
        for block in blocks.threads:
            last = max(last, _THREAD.unpack_from(self.data, block.start)[0])
        for of_thread in blocks.nodes.values():
            for block in of_thread:
                last = max(last, *(row[2] for row in _NODE.iter_unpack(self._whole(block))), 0)
        return last

    def _whole(self, block: Block) -> bytes:
        size = (block.end - block.start) // _NODE.size * _NODE.size
        return self.data[block.start : block.start + size]

    def thread(self, position: int, block: Block, blocks: Blocks) -> PartThread:
        own = _THREAD.unpack_from(self.data, block.start)
        root_t0, above_hidden, cursor, native_id, ended_ticks, cpu_start_ns, cpu_ns, name = own
        root = self.file.address_of(block.start)
        nodes: list[tuple[int, ...]] = []
        stretches = [(root, 0, 1)]
        for chunk in blocks.nodes[block.thread]:
            address, first = self.file.address_of(chunk.start), 1 + len(nodes)
            for node in _NODE.iter_unpack(self._whole(chunk)):
                if node[0] == 0:
                    break
                nodes.append(node)
            stretches.append((address, first, len(nodes) + 1 - first))
        self.place(stretches, position, _NODE.size)
        in_order = sorted(stretches[1:])  # chunks may lie in any order in memory
        starts = [address for address, _, _ in in_order]

        def row_of(address: int) -> int:
            """The row of the call path at an address; negative if there is none."""
            if address == root:
                return 0
            at = bisect_right(starts, address) - 1
            row = in_order[at][1] + (address - starts[at]) // _NODE.size if at >= 0 else -1
            return row if row <= len(nodes) else -1

        def row_at(address: int) -> int | None:
            if (row := row_of(address)) >= 0:
                return row
            if not self.is_partial:
                _refuse(f"{self.name}: a call path has no parent in its thread")
            return None

        parent = array("q", [-1])
        for row, node in enumerate(nodes, 1):
            above = row_of(node[1])
            if above < 0:
                _refuse(f"{self.name}: a call path has no parent in its thread")
            if above >= row:
                _refuse(f"{self.name}: a call path precedes its parent")
            parent.append(above)
        end = ended_ticks or self.end_ticks
        ticks = array("q", [0, *(node[3] for node in nodes)])
        if cursor == root + _HIDDEN_BYTES:
            cursor = above_hidden
        at = (row_at(cursor) or 0) if cursor else 0
        open_rows = []
        stops_ns = (self.traced_until or (LARGEST, 0))[0]
        while at > 0:
            entered = nodes[at - 1][2]
            if nodes[at - 1][6] & SOME_STAMPED and entered < stops_ns:
                raise NotSmall
            ticks[at] += max(0, end - entered)
            open_rows.append((at, self.moment(entered)))
            at = parent[at]
        ticks[0] = max(0, end - root_t0) if root_t0 else 0  # 0: it was about to begin
        times = [max(0, count) * self.ns_per_tick for count in ticks]
        if not all(time <= float(LARGEST) for time in times):
            _refuse(f"{self.name} is damaged: impossible times")
        thread = PartThread(
            native_id,
            container.text(name.split(b"\0", 1)[0]),
            max(0, cpu_ns - cpu_start_ns),
            routine=self._numbers([node[0] & ~4 for node in nodes]),
            parent=parent,
            calls=array("q", [1, *(min(node[4], LARGEST + 1) for node in nodes)]),
            resumes=array("q", [0, *(min(node[5], LARGEST + 1) for node in nodes)]),
            inclusive=array("q", map(int, times)),
            native=is_native(block),
            refused=refusal(block),
            open=open_rows,
            ended=ended_ticks != 0,
        )
        thread.samples = self.samples(row_at, block.thread)
        if waits := self.blocks.suspensions.get(block.thread):
            from taupy.record.suspensions import suspensions

            thread.suspensions = suspensions(self, row_at, waits, end)
        if notes := self.blocks.growth.get(block.thread):
            from taupy.record.growth import growth

            thread.growth = growth(self, row_at, notes)
        return thread

    def _numbers(self, keys: list[int]) -> array[int]:
        """The root, and the routine of each key; an extra routine represents those whose record did
        not fit."""
        routine_at, routines = self.blocks.routine_at, self.blocks.routines
        if any(key not in routine_at for key in keys):
            routines.append(Routine(UNKNOWN, "", 0, "python", "PYTHON"))
        return array("q", [-1, *(routine_at.get(key, len(routines) - 1) for key in keys)])

    def collectives(self, blocks: dict[int, list[Block]]) -> NoReturn:
        raise NotSmall


def _refuse(why: str) -> NoReturn:
    raise FormatError(why)
