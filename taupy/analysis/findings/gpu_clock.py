"""Host and GPU on one clock: how long a loop on a GPU would take without a part of its work.

Judged is the loop that launches the GPU's work, not what a program does once before and after it:
to create a CUDA context takes half a second on an H100, in which every GPU is idle. The main
thread's time H in the loop consists of its waits for the GPU, its calls of CUDA and everything
else; the GPU is busy for B. The slower of the two limits the loop, which ends when both are done:

    T = max(H, B) >= max(H without waits, B)

B is the time in which any stream of the device worked, if a trace has the times of all its work.
Otherwise it is the sum over the streams: concurrent work counts more than once, so H - B is a lower
bound of the GPU's idle time, and findings never overstate it. Work that was launched outside the
loop is part of B, too.

Time in which the host waits for something else than the GPU, allocates, loads code or loads data is
no work of the host that could be done faster: `filled_ns`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf

from taupy.analysis.findings.calls import Calls, Sum, around, phase, place
from taupy.analysis.findings.health import is_counted
from taupy.analysis.findings.trial import Trial
from taupy.analysis.gpu_conclusion import causes
from taupy.analysis.known_routines import Either, Matches, Worded
from taupy.analysis.known_routines import is_wait as is_library_wait
from taupy.catalog import gpu_calls
from taupy.dataclass import NamedTuple
from taupy.model.gpu_rows import launched_times
from taupy.model.gpu_time import Cause, GpuTime
from taupy.model.question import LAUNCHES, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Table

LAUNCH_NS = 2_000
"""No launch took the host less on an H100 or H200; 3.1 us were the least mean."""

BLOCKS_NS = 50_000
"""Mean time from which calls that copy are considered blocking: an asynchronous copy, like a
launch, returns in some 10 us; one that takes five times as long on average has waited."""

_ASKS = tuple(
    f"{maker}{what}"
    for maker in ("cuda", "hip")
    for what in ("FuncGetAttributes", "GetDeviceProperties")
)
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
    if "GPU_SYNC" in timer.groups.split("|"):
        return True
    return is_call(timer) and gpu_calls.waits(timer.short_name)


def is_code_loading(timer: TimerRow) -> bool:
    """Whether it loads code, or asks for properties of a kernel or device, whose first time loads
    code or takes milliseconds."""
    name = timer.short_name
    return is_call(timer) and (gpu_calls.loads_code(name) or name.startswith(_ASKS))


def _loads_data(timer: TimerRow) -> bool:
    return gpu_calls.loads_data(timer.short_name, timer.file)


_LOADER = gpu_calls.LOADER_FILE
is_data_loading: Matches = Either(
    (phase("data"), Worded(_loads_data, ("DataLoader", _LOADER), _LOADER))
)
"""What fetches the next batch, known by its phase or by PyTorch's name for it."""


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
    return is_call(timer) and gpu_calls.copies(timer.short_name)


def is_allocation(timer: TimerRow) -> bool:
    """Whether it allocates or frees GPU memory: such a call waits until the device is idle."""
    return is_call(timer) and gpu_calls.allocates(timer.short_name)


def is_launch(timer: TimerRow) -> bool:
    return is_call(timer) and gpu_calls.launches(timer.short_name)


_OF_THE_HOST: tuple[Cause, ...] = (
    "host", "nothing recorded on the host", "launch latency", "synchronisation", "data loading",
    "launch not seen",
)  # fmt: skip
"""Causes of idle time that a faster host may shorten. A wait for the GPU hides what comes after it;
launches that were not seen may have been late."""

_MOST, _ONCE = 0.9, 2
"""A loop has this share of a thread's launches; what is called up to twice is not repeated."""


class Loop(NamedTuple):
    """The loop of a thread that launches most of its GPU work.

    Attributes:
        top: the call path in which it stands: most of the thread's launches are below it, and it
            calls what launches them more than twice.
        rows: the call paths that are part of it: `top`, and all of what it calls as often as that,
            but imports.
    """

    top: int
    rows: frozenset[int]


def loop_of(calls: Calls, thread: ThreadRow) -> Loop:
    """The loop that launches; all call paths of a thread without launches."""
    launches = [0.0] * len(calls)
    for row in calls.rows(lambda timer: is_launch(timer) or is_copy(timer)):
        number, above = calls.calls[row], row
        while above >= 0 and calls.thread[row] == thread:
            launches[above] += number
            above = calls.parent[above]
    top = next(row for row in calls.roots if calls.thread[row] == thread)
    while launches[top]:
        below = calls.children(top)
        most = max(below, key=launches.__getitem__, default=-1)
        if most < 0 or is_call(calls.timer[most]) or launches[most] < _MOST * launches[top]:
            break
        if calls.calls[most] > _ONCE * calls.calls[top]:
            break
        top = most
    least = _ONCE * calls.calls[top] if launches[top] else 0
    often = [
        calls.calls[row]
        for row in calls.children(top)
        if launches[row] and not is_call(calls.timer[row]) and calls.calls[row] > least
    ]
    rows = {top}
    for row in calls.children(top):
        called = is_call(calls.timer[row])
        if calls.calls[row] > least and (called or 2 * calls.calls[row] >= max(often, default=0)):
            rows.update(calls.below(row))
    imports = {below for row in calls.rows(around) for below in calls.below(row)}
    return Loop(top, frozenset(rows - imports))


@dataclass
class GpuClock:
    """A process and its GPU.

    Attributes:
        main: the process's main thread.
        device: node and context.
        busy_ns: B.
        launches: the trial's launches by device, timer and call path.
        launched_ns: the time of each row of `launches`; an estimate where some are not timed.
        exact: whether B is the union over the streams.
        counted: whether kernels were counted, so that the host waited for each: H is not known.
    """

    trial: Trial
    main: ThreadRow
    device: tuple[int, int]
    busy_ns: float
    launches: Table
    launched_ns: list[float]
    exact: bool = False
    counted: bool = False

    @cached_property
    def loop(self) -> Loop:
        return loop_of(self.trial.calls, self.main)

    @cached_property
    def loop_ns(self) -> float:
        """H, without waits for a processor, as the watch samples them; 0 if it is not known."""
        if self.counted:
            return 0.0
        whole = sum(self.trial.calls.exclusive[row] for row in self.loop.rows)
        return whole * (1 - (self.trial.runnable(self.main) or 0.0))

    @property
    def where(self) -> str:
        """The loop as it appears in a sentence."""
        calls = self.trial.calls
        if calls.parent[self.loop.top] < 0:
            return "the run outside imports"
        timer = calls.timer[self.loop.top]
        if not self.trial.is_own(timer):
            timer = self.trial.caller(self.loop.top) or timer
        return f"the loop in {place(timer)}"

    @property
    def wall_ns(self) -> float:
        """T."""
        return max(self.loop_ns, self.busy_ns)

    def host_calls(self, matches: Callable[[TimerRow], bool]) -> Sum:
        """The main thread's time in these timers, in the loop."""
        calls = self.trial.calls
        rows = [row for row in calls.outermost(matches) if row in self.loop.rows]
        return calls.by_thread(rows).get(self.main, Sum())

    @cached_property
    def _above(self) -> dict[int, int | None]:
        """Call paths -> the one above each."""
        table = self.trial.ask(Question((self.trial.id,), by=("callpath", "parent")))
        return dict(zip(table.row_labels("callpath"), table.row_labels("parent"), strict=True))

    @cached_property
    def once(self) -> frozenset[int]:
        """The call paths of work that the main thread started outside the loop."""
        calls = self.trial.calls
        paths = calls.table.row_labels("callpath")
        mine = {row for row in range(len(calls)) if calls.thread[row] == self.main}
        outside = {paths[row] for row in mine - self.loop.rows}
        return frozenset(path for path, above in self._above.items() if above in outside)

    def loop_rows(self, matches: Callable[[TimerRow], bool]) -> set[int]:
        """The loop's call paths of these timers."""
        return set(self.loop.rows.intersection(self.trial.calls.rows(matches)))

    def made_ns(self, rows: set[int]) -> float:
        """The time of these calls of CUDA, and of the Python that makes them: of a routine's own
        time, their share of all of its calls of CUDA."""
        calls = self.trial.calls
        chosen_calls, every_call = Counter[int](), Counter[int]()
        for chosen, sums in ((rows, chosen_calls), (self.loop_rows(is_call) | rows, every_call)):
            for row in chosen:
                sums[calls.parent[row]] += int(calls.calls[row])
        own = sum(
            calls.exclusive[row] * number / every_call[row]
            for row, number in chosen_calls.items()
            if number
        )
        return own + sum(calls.inclusive[row] for row in rows)

    def starts(self, work: Iterable[int], matches: Callable[[TimerRow], bool]) -> list[int]:
        """The main thread's calls of this sort that started this work, given by its call paths.

        Work stands below the routine that started it, beside the call; in profiles of some other
        tools below the call.
        """
        calls = self.trial.calls
        paths = calls.table.row_labels("callpath")
        above = {self._above.get(path) for path in work}
        return [
            row
            for row in calls.rows(matches)
            if calls.thread[row] == self.main
            and (paths[row] in above or paths[calls.parent[row]] in above)
        ]

    def _slow(self, matches: Callable[[TimerRow], bool]) -> Sum:
        """The main thread's calls in the loop that take `BLOCKS_NS` or more on average."""
        calls = self.trial.calls
        rows = [
            row
            for row in self.loop_rows(matches)
            if calls.inclusive[row] >= BLOCKS_NS * max(calls.calls[row], 1)
        ]
        return calls.by_thread(rows).get(self.main, Sum())

    @cached_property
    def waits_ns(self) -> float:
        """Time in calls that wait for the GPU."""
        waiting = self.host_calls(lambda timer: is_wait(timer) or is_allocation(timer)).ns
        return waiting + self._slow_copies.ns

    @cached_property
    def _slow_copies(self) -> Sum:
        """The main thread's copies that wait for their end, though their names do not say so."""
        return self._slow(lambda timer: is_copy(timer) and not is_wait(timer))

    @cached_property
    def blocking_copies(self) -> Sum:
        """The main thread's copies that wait for their end."""
        return self._slow_copies.plus(
            self.host_calls(lambda timer: is_copy(timer) and is_wait(timer))
        )

    @cached_property
    def slow_launches_ns(self) -> float:
        """Time of launches that took so long that they loaded code, or waited for room in the
        GPU's queue."""
        return self._slow(is_launch).ns

    @cached_property
    def filled_ns(self) -> float:
        """Time in which the host did nothing that it could do faster between launches."""
        others = self.host_calls(
            lambda timer: is_allocation(timer) or is_code_loading(timer)
            or is_data_loading(timer) or is_other_wait(timer)
        ).ns  # fmt: skip
        # Waits for the GPU end when it is idle, so only what exceeds its work fills a gap.
        excess = max(0.0, self.host_calls(is_wait).ns + self._slow_copies.ns - self.busy_ns)
        return others + self.slow_launches_ns + excess

    @property
    def host_bound_ns(self) -> float:
        """Lower bound of the idle time that nothing of this fills."""
        return max(0.0, min(self.idle_ns - self.filled_ns, self.host_caused_ns))

    @property
    def host_ns(self) -> float:
        """Lower bound of the time in which the host did not wait for the GPU.

        Launches wait for room in the GPU's queue, which does not show: of each, only the least
        time is the host's own.
        """
        return max(0.0, self.loop_ns - self.waits_ns - self._beyond(self.main) - self._elsewhere_ns)

    def _beyond(self, thread: ThreadRow) -> float:
        """The time of a thread's launches beyond the least that they need."""
        calls = self.trial.calls
        rows = [row for row in calls.rows(is_launch) if calls.thread[row] == thread]
        if thread == self.main:
            rows = [row for row in rows if row in self.loop.rows]
        return sum(max(0.0, calls.inclusive[row] - LAUNCH_NS * calls.calls[row]) for row in rows)

    @property
    def _elsewhere_ns(self) -> float:
        """The time in backward passes in which the thread that computes them waits for the GPU."""
        calls = self.trial.calls
        others = [
            thread for thread in calls.threads
            if thread != self.main and thread[:2] == self.main[:2]
        ]  # fmt: skip
        waits = (row for row in calls.rows(is_wait) if calls.thread[row] in others)
        waited = sum(map(self._beyond, others)) + sum(calls.inclusive[row] for row in waits)
        return min(self.host_calls(phase("backward")).ns, waited)

    @cached_property
    def time(self) -> GpuTime | None:
        """What the GPU's time went to in the whole trace; None without one."""
        return self.trial.gpu_times().get(self.device)

    @property
    def why_idle(self) -> str:
        """The causes of its idle time in the whole trace, in brackets; "" without one."""
        return f" ({causes(self.time)})" if self.time is not None and self.time.idle else ""

    @property
    def host_caused_ns(self) -> float:
        """Upper bound of the time that a faster host saves, as far as a trace tells: what it did
        between works, and what lies before the first and after the last."""
        if self.time is None:
            return inf
        outside = max(0.0, self.trial.wall_ns - self.time.span_ns)
        return outside + self.time.of(*_OF_THE_HOST)

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
    launched_ns = launched_times(launches)
    busy: dict[tuple[int, int], float] = {}
    for device, ns in zip(launches.row_labels("device"), launched_ns, strict=True):
        busy[device] = busy.get(device, 0.0) + ns
    exact = trial.union_ns()
    busy |= exact
    clocks = [
        GpuClock(
            trial,
            main=thread,
            device=device,
            busy_ns=busy[device],
            launches=launches,
            launched_ns=launched_ns,
            exact=device in exact,
            counted=is_counted(trial),
        )
        for thread in trial.calls.life_ns()
        for device in busy
        if device[0] == thread.node and thread.context == 0 and thread.thread == 0
    ]
    return max(clocks, key=lambda clock: clock.wall_ns, default=None)
