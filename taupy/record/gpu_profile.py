"""Add GPU parts to a profile.

Kernels and copies go onto streams under the host call paths that launched them, CUDA API
calls into the trees of the threads that made them, memory into user events. Anything
missing is reported. A function passed in locates call paths in the profile: this module
does not know the engine.
"""

from __future__ import annotations

import re
import uuid
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from taupy.catalog import gpu_calls
from taupy.collectors import gpu_layout
from taupy.collectors.gpu_layout import Live, Work
from taupy.model.gpu import Device, Fact, Module
from taupy.model.host_calls import HostCalls
from taupy.model.kernel_names import kernel_timer
from taupy.model.kinds import ActivityKind
from taupy.model.names import in_packages
from taupy.model.profile import (
    ROOT_TIMER,
    CallTree,
    Profile,
    Statistics,
    Thread,
    ThreadProfile,
    Timer,
    UserEvent,
)
from taupy.model.streams import FindPath, Owner, StreamBuilder, merged_events
from taupy.record.gpu_activities import Activities, Together
from taupy.record.gpu_health import health
from taupy.record.gpu_part import GpuPart, Trace
from taupy.record.gpu_work import (
    MEMORY,
    bytes_events,
    copy_timer,
    kernel_launch,
    launch_of,
)

_UNIFIED = {
    1: ("Unified memory moved from Host to Device", "bytes"),
    2: ("Unified memory moved from Device to Host", "bytes"),
    3: ("Unified memory page faults of the CPU", "count"),
    4: ("Unified memory page faults of GPUs", "count"),
    8: ("Unified memory moved from Device to Device", "bytes"),
}
_POOL_SIZE, _POOL_USED = 100, 101
_VERSION = re.compile(r"(_pt[sd]z)?(_v\d+)?(_pt[sd]z)?\Z")


def api_name(name: str) -> str:
    """The documented name of a function: `cudaLaunchKernel_ptsz_v7000` is cudaLaunchKernel."""
    return _VERSION.sub("", name.lstrip("_"))


@dataclass(slots=True)
class _Node:
    """One process whose GPU part is being added."""

    profile: Profile
    number: int
    part: GpuPart
    find: FindPath
    ns_per_tick: float
    streams: StreamBuilder
    calls: HostCalls = field(default_factory=HostCalls)
    timers: dict[Timer, int] = field(default_factory=dict)
    bare_threads: dict[int, ThreadProfile] = field(default_factory=dict)
    call_rows: dict[tuple[int, int, int], tuple[ThreadProfile, int]] = field(default_factory=dict)
    bare_rows: dict[tuple[int, int], list[tuple[ThreadProfile, int]]] = field(default_factory=dict)
    placeless: int = 0
    ranges: dict[int, int] = field(default_factory=dict)
    range_tree: CallTree | None = None

    def timer(self, timer: Timer) -> int:
        """The timer's position in the profile; it is added if missing."""
        if not self.timers:
            self.timers = {timer: at for at, timer in enumerate(self.profile.timers)}
        if timer not in self.timers:
            self.timers[timer] = len(self.profile.timers)
            self.profile.timers.append(timer)
        return self.timers[timer]

    def host_threads(self) -> list[ThreadProfile]:
        return [
            measured
            for measured in self.profile.threads
            if measured.thread.node == self.number and measured.thread.kind == "host"
        ]


def add_gpu_part(
    profile: Profile, node: int, part: GpuPart, find: FindPath, ns_per_tick: float
) -> dict[str, str]:
    """Add what a process did on its GPUs to its node of the profile.

    Args:
        profile: with the node's host threads.
        node: of the process.
        part: its GPU part.
        find: locates a call path of that process in the profile.
        ns_per_tick: of the engine's clock in that process.

    Returns:
        What is missing or degraded: name of the health metadata -> message.
    """
    taken = _Node(profile, node, part, find, ns_per_tick, StreamBuilder(profile.timers))
    profile.devices += _devices(part, node)
    profile.modules += _modules(part, node)
    _drop_own_threads(taken)
    _add_calls(taken)
    streams = _add_work(taken)
    _add_memory(taken, streams)
    profile.threads += streams
    facts = {
        "CUPTI Library": part.notes.get("cupti.library", ""),
        "CUPTI API Version": part.notes.get("cupti.version", ""),
    }
    for name, text in facts.items():
        if text and text != "0":
            profile.node_metadata.setdefault(node, {})[name] = text
    return health(part, taken.placeless)


def _drop_own_threads(taken: _Node) -> None:
    """Drop the debugging collector's threads: they run Python and so were measured, but are not
    the program's."""
    own = {int(number) for number in taken.part.notes.get("backend.threads", "").split()}
    hosts = taken.host_threads() if own else []
    dropped = [host for host in hosts if host.thread.native_id in own and len(host.tree) == 1]
    if not dropped:
        return
    taken.profile.threads = [
        host for host in taken.profile.threads if not any(host is other for other in dropped)
    ]
    for number, measured in enumerate(taken.host_threads()):
        measured.thread = replace(measured.thread, thread=number)


def _devices(part: GpuPart, node: int) -> Iterator[Device]:
    for _, device in sorted(part.devices.items()):
        facts = (
            Fact("Multiprocessors", device.multiprocessors),
            Fact("Memory Size", device.memory_bytes, "bytes"),
            Fact("L2 Cache Size", device.l2_bytes, "bytes"),
        )
        yield Device(
            node,
            device.ordinal,
            device.name,
            uuid=f"GPU-{uuid.UUID(bytes=device.uuid)}" if any(device.uuid) else "",
            compute_capability=f"{device.major}.{device.minor}" if device.major else "",
            facts=tuple(fact for fact in facts if fact.value),
        )


def _modules(part: GpuPart, node: int) -> Iterator[Module]:
    for module in part.modules:
        hashed = module.flags & gpu_layout.MODULE_HASHED
        yield Module(
            node,
            sha256=module.hash.hex() if hashed else None,
            bytes=module.size,
            loads=module.loads,
            loaded_ns=module.loaded,
            kept=bool(module.flags & gpu_layout.MODULE_KEPT),
        )


# --------------------------------------------------------------------- calls of the API


def _add_calls(taken: _Node) -> None:
    part = taken.part
    for call in sorted(part.calls, key=lambda call: call[:3]):
        name = part.call_names.get((call.domain, call.callback_id))
        name = api_name(name) if name else f"CUDA API {call.domain}.{call.callback_id}"
        groups = ("CUDA_API", "GPU_SYNC") if gpu_calls.waits(name) else ("CUDA_API",)
        timer = taken.timer(Timer(name, groups=groups))
        time_ns = round(call.ticks * taken.ns_per_tick)
        if call.place < 1000:
            measured = _bare_thread(taken, call.place)
            for column in (measured.tree.inclusive, measured.tree.exclusive):
                column["time"][0] += time_ns
            at = taken.calls.add(measured.tree, 0, timer, call.calls, time_ns)
            taken.bare_rows.setdefault((call.domain, call.callback_id), []).append((measured, at))
            continue
        path = taken.find(call.place)
        if path is None or "time" not in path.measured.tree.inclusive:
            taken.placeless += call.calls
            continue
        measured, row = path
        at = taken.calls.add(measured.tree, row, timer, call.calls, time_ns)
        taken.call_rows[call.place, call.domain, call.callback_id] = measured, at


def _bare_thread(taken: _Node, number: int) -> ThreadProfile:
    """The thread profile of a thread that called CUDA but never ran Python (such as autograd's)."""
    bare = taken.bare_threads.get(number)
    if bare is not None:
        return bare
    native_id, name = taken.part.threads.get(number, (0, ""))
    following = 1 + max((host.thread.thread for host in taken.host_threads()), default=-1)
    root = Timer(ROOT_TIMER, groups=("TAUPY",))
    tree = CallTree(
        timer=array("q", [taken.timer(root)]),
        parent=array("q", [-1]),
        calls=array("q", [1]),
        subroutines=array("q", [0]),
        inclusive={"time": array("q", [0])},
        exclusive={"time": array("q", [0])},
    )
    thread = Thread(taken.number, 0, following, "host", f"native {name}".strip(), native_id)
    measured = taken.bare_threads[number] = ThreadProfile(thread, tree)
    taken.profile.threads.append(measured)
    return measured


# --------------------------------------------------------------------- kernels and copies


def _add_work(taken: _Node) -> list[ThreadProfile]:
    part, builder = taken.part, taken.streams
    threads = _stream_threads(part, taken.number)
    kernel_timer_of = cache(lambda name: kernel_timer(part.names.get(name) or "(unnamed kernel)"))
    capability = {
        ordinal: f"{device.major}.{device.minor}" for ordinal, device in part.devices.items()
    }
    rows: dict[int, tuple[Thread, int, ActivityKind]] = {}
    for number, work in enumerate(part.work):
        if work.kind not in _KINDS:
            continue
        thread = threads[work.device, work.context, work.stream]
        owner = _owner(taken, work.node)
        if work.kind == gpu_layout.KERNEL:
            timer = kernel_timer_of(work.name)
            launch = kernel_launch(work, capability.get(work.device, ""))
        else:
            timer = copy_timer(work)
            launch = replace(launch_of(work), bytes=work.bytes)
        row = builder.add(thread, owner, timer, launch)
        rows[number] = thread, row, _KINDS[work.kind]
        builder.add_user_events(thread, bytes_events(work, row))
    streams = builder.threads()
    if part.trace is not None:
        _add_activities(taken, streams, rows)
    return streams


def _owner(taken: _Node, node: int) -> Owner | None:
    """The call path of a launch; for threads without call paths, the NVTX ranges around it."""
    if node >> 6 in taken.part.ranges:
        return _ranges(taken, node >> 6)
    path = taken.find(node) if node else None
    return None if path is None else path.owner


def _ranges(taken: _Node, number: int) -> Owner:
    if taken.range_tree is None:
        taken.range_tree = _range_tree(taken)
    return Owner(taken.range_tree, taken.ranges[number])


def _range_tree(taken: _Node) -> CallTree:
    """A call tree of ranges, each below the call path in which the outermost was pushed; sets
    `taken.ranges` to their rows."""
    tree = CallTree()
    rows: dict[tuple[int, int], int] = {}

    def row_of(above: int, timer: int) -> int:
        if (above, timer) not in rows:
            rows[above, timer] = len(tree)
            tree.timer.append(timer)
            tree.parent.append(above)
            tree.calls.append(0)
            tree.subroutines.append(0)
        return rows[above, timer]

    taken.ranges[0] = row_of(-1, taken.timer(Timer(ROOT_TIMER, groups=("TAUPY",))))
    for number, (outer, name) in sorted(taken.part.ranges.items()):
        above = taken.ranges.get(outer, 0)
        place = taken.part.range_places.get(number)
        if place is not None and (path := taken.find(place)) is not None:
            owner, chain = path.owner, []
            row = owner.row
            while row > 0:
                chain.append(owner.tree.timer[row])
                row = owner.tree.parent[row]
            for timer in reversed(chain):
                above = row_of(above, timer)
        pushed = _range_timer(name)
        if source := taken.part.range_sources.get(number):
            pushed = _located(pushed, source, taken.profile)
        taken.ranges[number] = row_of(above, taken.timer(pushed))
    return tree


_OF_ONE_RUN = ("program_id=", "unique_hlo_op_id=")


def _range_timer(name: str) -> Timer:
    """The timer of a range that was pushed without the interpreter. One of XLA's for an operation
    (`Thunk:#name=fusion.1,...#`) is an operator. Numbers that differ in each run are cut."""
    kind, mark, rest = name.partition(":#")
    if mark and rest.endswith("#"):
        pairs = [pair for pair in rest[:-1].split(",") if not pair.startswith(_OF_ONE_RUN)]
        name = f"{kind}:#{','.join(pairs)}#"
    is_operator = mark and kind == "Thunk"
    return Timer(name, groups=("OPERATOR" if is_operator else "PHASE", "NVTX"))


_FRAME = re.compile(r"(?P<depth>-+) (?P<file>.+?):(?P<line>[1-9]\d{0,8})(?=[:\[ ]|\Z)")
"""A frame of XLA's source locations: `-- /train.py:12:3[loss] add`; more deeply, what it called."""


def _located(timer: Timer, source: str, profile: Profile) -> Timer:
    """With the innermost frame of the first of its source locations, if one is understood."""
    frames = [match for text in source.splitlines() if (match := _FRAME.match(text))]
    if not frames:
        return timer
    depths = [len(frame["depth"]) for frame in frames]
    turn = next((at for at in range(1, len(depths)) if depths[at] <= depths[at - 1]), len(depths))
    path = frames[turn - 1]["file"].replace("&lt;", "<").replace("&gt;", ">")
    shown = next((routine.file for routine in profile.timers if routine.path == path), None)
    file = shown or in_packages(path) or path
    return timer._replace(file=file, line=int(frames[turn - 1]["line"]), path=path)


_KINDS: dict[int, ActivityKind] = {
    gpu_layout.KERNEL: "kernel",
    gpu_layout.MEMCPY: "copy",
    gpu_layout.MEMCPY_PEER: "copy",
    gpu_layout.MEMSET: "memset",
}


def _stream_threads(part: GpuPart, node: int) -> dict[tuple[int, int, int], Thread]:
    """One thread per stream, numbered on its device by CUDA context and CUPTI's stream number."""
    streams = sorted(
        {(work.device, work.context, work.stream) for work in part.work if work.kind in _KINDS}
    )
    contexts: dict[int, set[int]] = {}
    for device, context, _ in streams:
        contexts.setdefault(device, set()).add(context)
    threads = {}
    numbers: dict[int, int] = {}
    for device, context, stream in streams:
        number = numbers[device] = numbers.get(device, -1) + 1
        name = f"stream {stream}"
        if len(contexts[device]) > 1:
            name += f" (CUDA context {context})"
        threads[device, context, stream] = Thread(node, 1 + device, number, "stream", name, stream)
    return threads


# --------------------------------------------------------------------- single activities


def _add_activities(
    taken: _Node,
    streams: list[ThreadProfile],
    rows: dict[int, tuple[Thread, int, ActivityKind]],
) -> None:
    part = taken.part
    assert part.trace is not None
    trace = Trace(part.trace)
    of_thread: dict[Thread, dict[int, tuple[int, ActivityKind]]] = {}
    slots: dict[Thread, set[int]] = {}
    for number, (thread, row, kind) in rows.items():
        of_thread.setdefault(thread, {})[number] = row, kind
        slots.setdefault(thread, set()).add(part.work[number].slot)
    for measured in streams:
        measured.activities = Activities(trace, slots[measured.thread], of_thread[measured.thread])
    host_rows: dict[Thread, dict[int, tuple[int, ActivityKind]]] = {}
    host_slots: dict[Thread, set[int]] = {}
    threads: dict[Thread, ThreadProfile] = {}
    for number, work in enumerate(part.work):
        if work.kind not in (gpu_layout.RUNTIME, gpu_layout.DRIVER):
            continue
        domain = 1 if work.kind == gpu_layout.DRIVER else 2
        place = taken.call_rows.get((work.node, domain, work.name))
        # A call of autograd's thread has the call path of the backward pass, where its thread has
        # none. A record does not say which thread it was.
        bare = taken.bare_rows.get((domain, work.name), [])
        if place is None and len(bare) == 1:
            place = bare[0]
        if place is None:
            continue
        measured, row = place
        is_wait = "GPU_SYNC" in taken.profile.timers[measured.tree.timer[row]].groups
        host_rows.setdefault(measured.thread, {})[number] = row, "sync" if is_wait else "api"
        host_slots.setdefault(measured.thread, set()).add(work.slot)
        threads[measured.thread] = measured
    for thread, measured in threads.items():
        calls = Activities(trace, host_slots[thread], host_rows[thread])
        measured.activities = Together((measured.activities, calls))


# --------------------------------------------------------------------- memory


def _add_memory(taken: _Node, streams: list[ThreadProfile]) -> None:
    part = taken.part
    hosts = taken.host_threads()
    if not hosts:
        return
    for work in part.work:
        if work.kind == gpu_layout.UNIFIED_MEMORY and work.name in _UNIFIED:
            name, unit = _UNIFIED[work.name]
            hosts[0].user_events.append(_value_event(name, unit, work, None))
        elif work.kind == gpu_layout.MEMORY:
            kind = MEMORY.get(work.name & 0xFF, "unknown")
            what = "freed" if work.name >> 8 & 0xFF == 2 else "allocated"
            pool = " from a pool" if work.name >> 16 & 0xFF else ""
            owner = taken.find(work.node) if work.node else None
            measured, row = owner if owner is not None else (hosts[0], 0)
            measured.user_events.append(
                _value_event(f"GPU memory {what}, {kind}{pool}", "bytes", work, row or None)
            )
    for measured in hosts:
        measured.user_events = merged_events(measured.user_events)
    for live in part.live:
        on_device = [stream for stream in streams if stream.thread.context == 1 + live.device]
        where = on_device[0] if on_device else hosts[0]
        where.user_events += _live_events(live)


def _value_event(name: str, unit: str, work: Work, row: int | None) -> UserEvent:
    sums = Statistics(work.launches, work.minimum, work.maximum, work.time, work.squares)
    return sums.event(name, unit, row)


def _live_events(live: Live) -> list[UserEvent]:
    if live.kind in (_POOL_SIZE, _POOL_USED):
        what = "size of a memory pool" if live.kind == _POOL_SIZE else "in use of a memory pool"
        names = {f"GPU memory, {what}, peak": live.peak}
    else:
        kind = MEMORY.get(live.kind, "unknown")
        names = {
            f"GPU memory in use, {kind}, peak": live.peak,
            f"GPU memory in use, {kind}, at the end": live.live,
        }
    return [UserEvent.once(name, "bytes", value) for name, value in names.items()]
