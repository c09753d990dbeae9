"""Host and GPU on one clock: how long a run on a GPU would take without a part of its work.

The main thread's time T (without imports) consists of its waits for the GPU, its calls of CUDA and
everything else; the GPU is busy for B. The slower of the two limits the run:

    T >= max(host without waits, B)

B is the time in which any stream of the device worked, if a trace has the times of all its work.
Otherwise it is the sum over the streams: concurrent work counts more than once, so T - B is a lower
bound of the GPU's idle time, and findings never overstate it.

Time in which the host waits for something else than the GPU, allocates, loads code or loads data is
no work of the host that could be done faster: `filled_ns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from taupy.analysis.findings.calls import Sum, around, phase
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import is_wait as is_library_wait
from taupy.model.question import LAUNCHES, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Table

BLOCKS_NS = 50_000
"""Mean time from which calls that copy are considered blocking: an asynchronous copy, like a
launch, returns in some 10 us; one that takes five times as long on average has waited."""

_ALLOCATIONS = (
    "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaHostUnregister",
    "cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemCreate", "cuMemMap", "cuMemUnmap",
    "cuMemRelease", "hipMalloc", "hipFree", "hipHostMalloc", "hipHostFree", "hipMemCreate",
    "hipMemMap", "hipMemUnmap", "hipMemRelease",
)  # fmt: skip
_WITHOUT_WAIT = (
    "cudaMallocAsync", "cudaFreeAsync", "cuMemAllocAsync", "cuMemFreeAsync", "hipMallocAsync",
    "hipFreeAsync",
)  # fmt: skip
_CODE = (
    "cuModuleLoad", "cuModuleUnload", "cuLibraryLoad", "cuLibraryUnload", "cuLink",
    "cudaLibraryLoad",
    "cuModuleGet", "cuLibraryGet", "cudaGetFuncBySymbol", "cudaFuncGetAttributes", "hipModuleLoad",
    "hipModuleGet", "hipLibraryLoad", "hipFuncGetAttributes", "nvrtc", "hiprtc",
    "cudaGetDeviceProperties",
)  # fmt: skip
_DATA = re.compile(r"enumerate\(DataLoader\)|DataLoader\w*\.__next__|dataloader\.py.*__next__")
_LOADER = "dataloader.py"
_WAITERS = (
    "threading.py",
    "queue.py",
    "selectors.py",
    "subprocess.py",
    "connection.py",
    "popen_fork.py",
)
_WAITING = {
    "wait", "wait_for", "join", "get", "acquire", "select", "poll", "recv", "communicate",
    "_wait_for_tstate_lock",
}  # fmt: skip
_BLOCKING = {"sleep", "acquire", "select", "poll", "epoll", "wait", "waitpid", "recv"}


def is_wait(timer: TimerRow) -> bool:
    """Whether it waits for the GPU: also in traces of tools that only name their calls."""
    groups = timer.groups.split("|")
    return "GPU_SYNC" in groups or ("CUDA_API" in groups and "Synchronize" in timer.short_name)


def is_code_loading(timer: TimerRow) -> bool:
    return is_call(timer) and timer.short_name.startswith(_CODE)


def is_data_loading(timer: TimerRow) -> bool:
    """Whether it fetches the next batch, known by its phase or by PyTorch's name for it."""
    if phase("data")(timer) or _DATA.search(timer.short_name):
        return True
    return (timer.file or "").endswith(_LOADER) and timer.short_name.endswith("__next__")


def is_other_wait(timer: TimerRow) -> bool:
    """Whether it waits for a thread, a process, a lock or time."""
    if is_library_wait(timer):
        return True
    own = timer.short_name.rpartition(".")[2]
    if timer.file is None:  # a C function: `time.sleep`, `<built-in method time.sleep>`
        words = re.findall(r"[\w.]+", timer.short_name)
        return bool(words) and words[-1].rpartition(".")[2] in _BLOCKING and len(words) <= 4
    return own in _WAITING and timer.file.endswith(_WAITERS)


def is_call(timer: TimerRow) -> bool:
    return "CUDA_API" in timer.groups.split("|")


def is_copy(timer: TimerRow) -> bool:
    return is_call(timer) and "memcpy" in timer.short_name.lower()


def is_allocation(timer: TimerRow) -> bool:
    """Whether it allocates or frees GPU memory: such a call waits until the device is idle."""
    name = timer.short_name
    return is_call(timer) and name.startswith(_ALLOCATIONS) and not name.startswith(_WITHOUT_WAIT)


def is_launch(timer: TimerRow) -> bool:
    return is_call(timer) and "launch" in timer.short_name.lower()


@dataclass
class GpuClock:
    """A process and its GPU.

    Attributes:
        main: the process's main thread.
        device: node and context.
        wall_ns: T of the module's docstring.
        busy_ns: B.
        launches: the trial's launches by device, timer and call path.
        exact: whether B is the union over the streams.
    """

    trial: Trial
    main: ThreadRow
    device: tuple[int, int]
    wall_ns: float
    busy_ns: float
    launches: Table
    exact: bool = False

    def of_host(self, meant: Callable[[TimerRow], bool]) -> Sum:
        """The main thread's time in these timers."""
        calls = self.trial.calls
        return calls.by_thread(calls.outermost(meant)).get(self.main, Sum())

    @cached_property
    def waits_ns(self) -> float:
        """Time in calls that wait for the GPU."""
        waiting = self.of_host(lambda timer: is_wait(timer) or is_allocation(timer)).ns
        return waiting + self.blocking_copies.ns

    @cached_property
    def blocking_copies(self) -> Sum:
        """The main thread's copies that wait for their end."""
        calls = self.trial.calls
        rows = [
            row
            for row in calls.rows(is_copy)
            if calls.thread[row] == self.main
            and calls.inclusive[row] >= BLOCKS_NS * max(calls.calls[row], 1)
        ]
        return calls.by_thread(rows).get(self.main, Sum())

    @cached_property
    def slow_launches_ns(self) -> float:
        """Time of launches that took so long that they loaded code, or waited for room in the
        GPU's queue."""
        calls = self.trial.calls
        rows = [
            row
            for row in calls.rows(is_launch)
            if calls.thread[row] == self.main
            and calls.inclusive[row] >= BLOCKS_NS * max(calls.calls[row], 1)
        ]
        return calls.by_thread(rows).get(self.main, Sum()).ns

    @cached_property
    def filled_ns(self) -> float:
        """Time in which the host did nothing that it could do faster between launches."""
        others = self.of_host(
            lambda timer: is_allocation(timer) or is_code_loading(timer)
            or is_data_loading(timer) or is_other_wait(timer)
        ).ns  # fmt: skip
        # Waits for the GPU end when it is idle, so only what exceeds its work fills a gap.
        excess = max(0.0, self.of_host(is_wait).ns + self.blocking_copies.ns - self.busy_ns)
        return others + self.slow_launches_ns + excess

    @property
    def host_bound_ns(self) -> float:
        """Lower bound of the idle time that nothing of this fills."""
        return max(0.0, self.idle_ns - self.filled_ns)

    @property
    def host_ns(self) -> float:
        """Time in which the host did not wait for the GPU."""
        return self.wall_ns - self.waits_ns

    @property
    def idle_ns(self) -> float:
        """Lower bound of the time in which the GPU was idle."""
        return max(0.0, self.wall_ns - self.busy_ns)

    def saved_ns(self, host: float = 0, gpu: float = 0, waits: float = 0) -> float:
        """Upper bound of the time saved by removing this much host, GPU and waiting time.

        The host waits while the GPU works, so only the longer of `gpu` and `waits` counts.
        """
        least = max(self.host_ns - host, self.busy_ns - gpu)
        return max(0.0, min(self.wall_ns - least, host + max(gpu, waits)))


def gpu_clock(trial: Trial) -> GpuClock | None:
    """The clock of the process whose main thread took longest; None if no process has both GPU
    work and a measured main thread."""
    launches = trial.ask(
        Question((trial.id,), (), ("device", "timer", "callpath"), values=LAUNCHES)
    )
    if not len(launches):
        return None
    devices = launches.by("device")
    busy = dict(zip(devices.row_labels("device"), devices.column("launch.time"), strict=True))
    exact = trial.union_ns()
    busy |= exact
    lives = trial.calls.life_ns()
    others = trial.calls.by_thread(trial.calls.outermost(around))
    clocks = [
        GpuClock(
            trial, thread, device, life - others.get(thread, Sum()).ns, busy[device] or 0,
            launches, device in exact,
        )
        for thread, life in lives.items()
        for device in busy
        if device[0] == thread.node and thread.context == 0 and thread.thread == 0
    ]  # fmt: skip
    return max(clocks, key=lambda clock: clock.wall_ns, default=None)
