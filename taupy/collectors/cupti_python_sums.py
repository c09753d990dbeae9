"""Sum up cupti-python's activity records: the debugging counterpart of `_native/cupti_sums.c`.

Each record is an object of NVIDIA's, with the fields of CUPTI's structures as attributes
(`correlation_id`, `grid_x`, ...). One row for what was launched, from where, with which
configuration, in the order of `GpuWork`'s fields. Nothing is folded: rows are as many as there
are distinct launches.

Runs inside the measured process: no Python routines of others are called (so `tuple.__new__`
in place of named tuples' own).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taupy.collectors.gpu_layout import DRIVER, IN_GRAPH, KERNEL, MEMORY, RUNTIME, DeviceFacts, Live

MEMCPY, MEMSET, OLD_KERNEL, DEVICE, MEMCPY_PEER = 1, 2, 3, 8, 22
UNIFIED_MEMORY, SYNCHRONIZATION, MEMORY_POOL = 25, 38, 50
CONTEXT, OVERHEAD, STREAM, EXTERNAL = 9, 17, 37, 39
_PASSED_OVER = (CONTEXT, OVERHEAD, STREAM, EXTERNAL)
_POOL_SIZE, _POOL_USED = 100, 101
_NEVER = (1 << 64) - 1
_NO_CONFIGURATION = (0,) * 12

Key = tuple[int, ...]
"""node, kind, name, device, context, stream, peers, then grid, block, registers, static,
dynamic, local and executed shared memory, launch type: 19 numbers."""


class Sums:
    """What the records of a process amount to.

    Args:
        node_of: correlation id -> address of the call path that launched, 0 where it has
            none; None where nobody saw the launch.
        trace: keep single activities.

    Attributes:
        rows: key -> [number, count, untimed, time, minimum, maximum, bytes, squares, first,
            last, flags, slot, least bytes, most bytes, squares of bytes].
        names: text of a kernel's name -> its id.
        spans: with a trace, slot -> activities that nobody has written yet.
        counters: of `GpuCounters`, those that records tell.
    """

    def __init__(self, node_of: Callable[[int], int | None], trace: bool) -> None:
        self.node_of = node_of
        self.rows: dict[Key, list[Any]] = {}
        self.names: dict[str, int] = {}
        self.slots: dict[tuple[int, ...], int] = {}  # of (device, context, stream)
        self.spans: dict[int, list[tuple[int, ...]]] | None = {} if trace else None
        self.devices: list[DeviceFacts] = []
        self.memory: dict[tuple[int, int, int], list[int]] = {}
        self.counters = dict.fromkeys(("records", "kernels", "untimed", "lost", "unknown"), 0)

    def add(self, record: Any) -> None:
        """Take in one record of cupti-python's."""
        kind = record.kind
        self.counters["records"] += 1
        if kind in (KERNEL, OLD_KERNEL):
            self._kernel(record)
        elif kind in (MEMCPY, MEMCPY_PEER, MEMSET):
            self._copy(record, kind)
        elif kind in (RUNTIME, DRIVER):
            node = self.node_of(record.correlation_id) or 0
            if node:
                self._span((node, kind, record.cbid, 0, 0, 0, 0, *_NO_CONFIGURATION), record)
        elif kind == SYNCHRONIZATION:
            node = self.node_of(record.correlation_id) or 0
            stream = (0, record.context_id, record.stream_id)
            self._span((node, kind, record.type, *stream, 0, *_NO_CONFIGURATION), record)
        elif kind == MEMORY:
            self._memory(record)
        elif kind == MEMORY_POOL:
            number = record.address >> 8 & 0xFFFFFFFF | 1
            self._live(record.device_id, _POOL_SIZE, number, record.size_)
            self._live(record.device_id, _POOL_USED, number, record.utilized_size)
        elif kind == UNIFIED_MEMORY:
            place = (record.src_id, record.dst_id, 0)
            key = (0, kind, record.counter_kind, *place, 0, *_NO_CONFIGURATION)
            self._value(key, record.value, record.start)
        elif kind == DEVICE:
            self._device(record)
        elif kind not in _PASSED_OVER:
            self.counters["unknown"] += 1

    def work(self) -> list[tuple[float, ...]]:
        """Rows as `GpuWork` has them, in the order in which they were first met."""
        return [(*key, *row[1:]) for key, row in list(self.rows.items())]

    def live(self) -> list[Live]:
        return [tuple.__new__(Live, (*key, *values)) for key, values in list(self.memory.items())]

    def take_spans(self) -> dict[int, list[tuple[int, ...]]]:
        """The activities of the trace since the last time."""
        if not self.spans:
            return {}
        spans, self.spans = self.spans, {}
        return spans

    def _node(self, record: Any) -> int:
        node = self.node_of(record.correlation_id)
        if node is None:
            self.counters["lost"] += 1
            return 0
        return node

    def _kernel(self, record: Any) -> None:
        self.counters["kernels"] += 1
        text = record.name
        name = self.names.setdefault(text, len(self.names) + 1) if text else 0
        key = (
            self._node(record), KERNEL, name,
            record.device_id, record.context_id, record.stream_id, 0,
            record.grid_x, record.grid_y, record.grid_z,
            record.block_x, record.block_y, record.block_z,
            record.registers_per_thread, record.static_shared_memory,
            record.dynamic_shared_memory, record.local_memory_per_thread,
            record.shared_memory_executed, record.launch_type,
        )  # fmt: skip
        self._span(key, record, 0, record.graph_node_id, IN_GRAPH if record.graph_id else 0)

    def _copy(self, record: Any, kind: int) -> None:
        peers = 0
        if kind == MEMSET:
            name = record.memory_kind << 8 | (record.flags_ & 1) << 24
        else:
            name = record.copy_kind | record.src_kind << 8 | record.dst_kind << 16
            name |= (record.flags_ & 1) << 24
        if kind == MEMCPY_PEER:
            peers = (record.src_device_id << 16 | record.dst_device_id & 0xFFFF) & 0xFFFFFFFF
        stream = (record.device_id, record.context_id, record.stream_id)
        key = (self._node(record), kind, name, *stream, peers, *_NO_CONFIGURATION)
        flags = IN_GRAPH if record.graph_id else 0
        self._span(key, record, record.bytes, record.graph_node_id, flags)

    def _row(self, key: Key) -> list[Any]:
        row = self.rows.get(key)
        if row is None:
            slot = self.slots.setdefault(key[3:6], len(self.slots))
            row = [len(self.rows), 0, 0, 0, _NEVER, 0, 0, 0.0, 0, 0, 0, slot, _NEVER, 0, 0.0]
            self.rows[key] = row
        return row

    def _span(
        self, key: Key, record: Any, size: int = 0, graph_node: int = 0, flags: int = 0
    ) -> None:
        row = self._row(key)
        start, end = record.start, record.end
        row[1] += 1
        row[6] += size
        row[10] |= flags
        row[12] = min(row[12], size)
        row[13] = max(row[13], size)
        row[14] += float(size) * size
        if start == 0 or end < start:  # the GPU had no room for its stamps
            row[2] += 1
            self.counters["untimed"] += 1
            return
        took = end - start
        row[3] += took
        row[4] = min(row[4], took)
        row[5] = max(row[5], took)
        row[7] += float(took) * took
        row[8] = min(row[8] or start, start)
        row[9] = max(row[9], end)
        if self.spans is not None:
            span = (start, end, size, graph_node, row[0], record.correlation_id)
            self.spans.setdefault(row[11], []).append(span)

    def _value(self, key: Key, value: int, when: int) -> None:
        """Something that is no time: bytes of an allocation, page faults."""
        row = self._row(key)
        row[1] += 1
        row[3] += value
        row[4] = min(row[4], value)
        row[5] = max(row[5], value)
        row[7] += float(value) * value
        row[8] = row[8] or when
        row[9] = when
        row[12] = 0

    def _memory(self, record: Any) -> None:
        node = self.node_of(record.correlation_id) or 0
        operation = record.memory_operation_type
        pool = record.memory_pool_config.memory_pool_type & 0xFF
        name = record.memory_kind | operation << 8 | pool << 16
        key = (node, MEMORY, name, record.device_id, 0, 0, 0, *_NO_CONFIGURATION)
        self._value(key, record.bytes, record.timestamp)
        change = record.bytes if operation == 1 else -record.bytes
        known = self.memory.get((record.device_id, record.memory_kind, 0), (0, 0))
        self._live(record.device_id, record.memory_kind, 0, known[0] + change)

    def _live(self, device: int, kind: int, pool: int, now: int) -> None:
        live = self.memory.setdefault((device, kind, pool), [0, 0])
        live[0] = now
        live[1] = max(live[1], now)

    def _device(self, record: Any) -> None:
        facts = (
            record.id, record.compute_capability_major, record.compute_capability_minor,
            record.num_multiprocessors, record.num_memcpy_engines,
            record.global_memory_size, record.global_memory_bandwidth,
            record.constant_memory_size, record.l2cache_size,
            record.num_threads_per_warp, record.core_clock_rate,
            record.max_warps_per_multiprocessor, record.max_blocks_per_multiprocessor,
            record.max_shared_memory_per_multiprocessor,
            record.max_registers_per_multiprocessor, record.max_registers_per_block,
            record.max_shared_memory_per_block, record.max_threads_per_block,
            record.ecc_enabled, bytes(record.uuid.bytes), record.is_mig_enabled,
            record.name or "",
        )  # fmt: skip
        self.devices.append(tuple.__new__(DeviceFacts, facts))
