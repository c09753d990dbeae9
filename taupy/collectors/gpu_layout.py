"""The layout of a GPU part (`_native/gpu_part.h`), described once for all Python that needs it.

`tests/unit/record/test_gpu_layout.py` compares it with the header, using the C compiler's offsets.

`record/gpu_part.py` reads such parts.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from taupy.state.container import Layout

MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL = 1, 2, 4, 5, 10
MEMCPY_PEER, UNIFIED_MEMORY, SYNCHRONIZATION, MEMORY = 22, 25, 38, 49
DEVICE_RECORD, MEMORY_POOL = 8, 50
IN_GRAPH, FOLDED = 1, 2
STARTING, RUNNING, FAILED, ENDED = 0, 1, 2, 3

COUNTERS, NAME, WORK, CALLS, CALL_NAME, THREADS, DEVICE, NOTE, LIVE, RANGE, MODULE = range(16, 27)
RANGE_PLACE, RANGE_SOURCE = 27, 28
WORK_ITEM = struct.Struct("<Q 6I 6i 6I 6Q d QQ II QQ d Q".replace(" ", ""))
CALL = struct.Struct("<QQQQ")
THREAD = struct.Struct("<Q24s")
DEVICE_ITEM = struct.Struct("<Q IIII QQ IIII II II IIII 16s II 128s".replace(" ", ""))
LIVE_ITEM = struct.Struct("<IIIIqq")
MODULE_ITEM = struct.Struct("<32sQQQQ")
MODULE_HASHED, MODULE_KEPT = 1, 2
TRACE_HEAD = struct.Struct("<IIQ")
TRACE_ITEM = struct.Struct("<QQQQII")
TRACE_MAGIC = 0x45434152
COUNTER_NAMES = (  # noqa: SIM905
    "state records buffers launches kernels untimed dropped lost unknown refused calls_lost "
    "folded flush_timed_out trace_lost walk_errors realtime_start monotonic_start realtime_end "
    "monotonic_end told lent lendings expected arrived converted"
).split()
COUNTER_VALUES = struct.Struct(f"<{len(COUNTER_NAMES)}q")
LAYOUT = Layout(
    b"TAUPYGPU",
    2,
    "GPU part",
    {
        COUNTERS: COUNTER_VALUES.size,
        NAME: 16,
        CALL_NAME: 16,
        DEVICE: DEVICE_ITEM.size,
        NOTE: 16,
        RANGE: 16,
        RANGE_PLACE: 16,
        RANGE_SOURCE: 16,
        MODULE: MODULE_ITEM.size,
    },
)


class Work(NamedTuple):
    """Launches of one kernel or copy with one configuration from one call path, summed up.

    Times are nanoseconds; for memory and counters, `time`, `minimum` and `maximum` are values.
    `node` is an address in the measured process, 0 if the launch was not seen; `name` is the id of
    a kernel's name, or bits for the kind of copy.
    """

    node: int
    kind: int
    name: int
    device: int
    context: int
    stream: int
    peers: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    static_shared: int
    dynamic_shared: int
    local: int
    shared_executed: int
    launch_type: int
    launches: int
    untimed: int
    time: int
    minimum: int
    maximum: int
    bytes: int
    squares: float
    first: int
    last: int
    flags: int
    slot: int
    least_bytes: int
    most_bytes: int
    bytes_squares: float


class Call(NamedTuple):
    """Calls of one function of CUDA's API from one place: a node's address, or the number
    (below 1000) of a thread that has no routines of its own. Time in ticks."""

    place: int
    domain: int
    callback_id: int
    calls: int
    ticks: int


class DeviceFacts(NamedTuple):
    """CUPTI's facts about a device; sizes in bytes, clock in kHz, bandwidth in KiB/s."""

    ordinal: int
    major: int
    minor: int
    multiprocessors: int
    memcpy_engines: int
    memory_bytes: int
    bandwidth_kib_s: int
    constant_bytes: int
    l2_bytes: int
    warp_threads: int
    core_clock_khz: int
    warps_per_multiprocessor: int
    blocks_per_multiprocessor: int
    shared_per_multiprocessor: int
    registers_per_multiprocessor: int
    registers_per_block: int
    shared_per_block: int
    threads_per_block: int
    ecc: int
    uuid: bytes
    mig: int
    name: str


class Live(NamedTuple):
    """Memory in use: of a kind of memory on a device, or of one pool (kind 100, 101)."""

    device: int
    kind: int
    pool: int
    live: int
    peak: int


class LoadedModule(NamedTuple):
    """Code that was loaded onto a GPU; first so many nanoseconds since the epoch."""

    hash: bytes
    size: int
    loads: int
    loaded: int
    flags: int


class Span(NamedTuple):
    """One activity of a trace; stamps are nanoseconds since the epoch."""

    work: int
    start: int
    end: int
    bytes: int
    graph_node: int
    correlation: int
