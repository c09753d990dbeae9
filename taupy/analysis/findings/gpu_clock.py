"""Host and GPU on one clock: how long a run on a GPU would take without a part of its work.

The main thread's time T (without imports) is made of its waits for the GPU, its calls of CUDA and
everything else; the GPU is busy for B. Neither can be faster than the other lets it:

    T >= max(host without waits, B)

B is the sum over the streams of one device. Work that ran side by side counts twice in it, so
that the time in which a GPU was idle is at least T - B, and no finding rests on too much of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from taupy.analysis.findings.calls import Sum, phase
from taupy.analysis.findings.trial import Trial
from taupy.model.question import LAUNCHES, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Table

BLOCKS_NS = 50_000
"""A copy that does not wait returns in some 10 us, as a launch does; one that takes five times as
long on average has waited."""

_ALLOCATIONS = ("cudaMalloc", "cudaFree", "cuMemAlloc", "cuMemFree")
_WITHOUT_WAIT = ("cudaMallocAsync", "cudaFreeAsync", "cuMemAllocAsync", "cuMemFreeAsync")


def is_wait(timer: TimerRow) -> bool:
    return "GPU_SYNC" in timer.groups.split("|")


def is_call(timer: TimerRow) -> bool:
    return "CUDA_API" in timer.groups.split("|")


def is_copy(timer: TimerRow) -> bool:
    return is_call(timer) and "memcpy" in timer.short_name.lower()


def is_allocation(timer: TimerRow) -> bool:
    """Such a call waits until the device is idle."""
    name = timer.short_name
    return is_call(timer) and name.startswith(_ALLOCATIONS) and not name.startswith(_WITHOUT_WAIT)


def is_launch(timer: TimerRow) -> bool:
    return is_call(timer) and "launch" in timer.short_name.lower()


@dataclass
class GpuClock:
    """One process and its GPU.

    Attributes:
        main: the process's main thread.
        device: node and context.
        wall_ns: T. busy_ns: B.
    """

    trial: Trial
    main: ThreadRow
    device: tuple[int, int]
    wall_ns: float
    busy_ns: float
    launches: Table

    def of_host(self, meant: Callable[[TimerRow], bool]) -> Sum:
        """The main thread's time in these timers."""
        calls = self.trial.calls
        return calls.by_thread(calls.outermost(meant)).get(self.main, Sum())

    @cached_property
    def waits_ns(self) -> float:
        """In calls that wait for the GPU."""
        waiting = self.of_host(lambda timer: is_wait(timer) or is_allocation(timer)).ns
        return waiting + self.blocking_copies.ns

    @cached_property
    def blocking_copies(self) -> Sum:
        """Of the main thread: calls that copy and wait."""
        calls = self.trial.calls
        rows = [
            row
            for row in calls.rows(is_copy)
            if calls.thread[row] == self.main
            and calls.inclusive[row] >= BLOCKS_NS * max(calls.calls[row], 1)
        ]
        return calls.by_thread(rows).get(self.main, Sum())

    @property
    def host_ns(self) -> float:
        """In which the host did not wait for the GPU."""
        return self.wall_ns - self.waits_ns

    @property
    def idle_ns(self) -> float:
        """In which the GPU did nothing, at least."""
        return max(0.0, self.wall_ns - self.busy_ns)

    def saved_ns(self, host: float = 0, gpu: float = 0, waits: float = 0) -> float:
        """Most that is saved if this much of the host's, the GPU's and the waiting time goes.

        The host waits while the GPU works, so of these two the longer one counts.
        """
        least = max(self.host_ns - host, self.busy_ns - gpu)
        return max(0.0, min(self.wall_ns - least, host + max(gpu, waits)))


def gpu_clock(trial: Trial) -> GpuClock | None:
    """That of the process whose main thread took longest; None: no GPU and host together."""
    launches = trial.ask(
        Question((trial.id,), (), ("device", "timer", "callpath"), values=LAUNCHES)
    )
    if not len(launches):
        return None
    devices = launches.by("device")
    busy = dict(zip(devices.row_labels("device"), devices.column("launch.time"), strict=True))
    lives = trial.calls.life_ns()
    imports = trial.calls.by_thread(trial.calls.outermost(phase("import")))
    clocks = [
        GpuClock(
            trial, thread, device, life - imports.get(thread, Sum()).ns, busy[device] or 0,
            launches,
        )
        for thread, life in lives.items()
        for device in busy
        if device[0] == thread.node and thread.context == 0 and thread.thread == 0
    ]  # fmt: skip
    return max(clocks, key=lambda clock: clock.wall_ns, default=None)
