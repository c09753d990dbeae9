"""The kernels of a trial's GPU, for several rules."""

from __future__ import annotations

from collections.abc import Sequence

from taupy.analysis.findings.gpu_clock import GpuClock
from taupy.analysis.findings.trial import Trial
from taupy.dataclass import NamedTuple
from taupy.model.finding import Evidence
from taupy.model.question import Condition
from taupy.model.rows import TimerRow


class Kernel(NamedTuple):
    """All launches of one kernel on the clock's device.

    Attributes:
        timed: launches whose time is known; where some are not, `ns` is an estimate.
    """

    timer: TimerRow
    launches: int
    timed: int
    ns: float

    @property
    def mean_ns(self) -> float:
        return self.ns / self.launches if self.launches else 0.0


def kernels(clock: GpuClock) -> list[Kernel]:
    """The kernels, the one with the longest time first."""
    table = clock.launches
    rows = zip(
        *map(table.row_labels, ("device", "timer")),
        *map(table.column, ("launch.count", "launch.untimed")),
        clock.launched_ns,
        strict=True,
    )
    sums: dict[TimerRow, Kernel] = {}
    for device, timer, count, untimed, ns in rows:
        if device == clock.device and "GPU_KERNEL" in timer.groups.split("|"):
            so_far = sums.get(timer, Kernel(timer, 0, 0, 0.0))
            launches, timed = so_far.launches + count, so_far.timed + count - untimed
            sums[timer] = Kernel(timer, launches, timed, so_far.ns + ns)
    return sorted(sums.values(), key=lambda kernel: (-kernel.ns, kernel.timer.timer))


def evidence(trial: Trial, kernels: Sequence[Kernel]) -> Evidence:
    """The launches of these kernels."""
    where = (Condition("timer", tuple(kernel.timer.timer for kernel in kernels)),)
    return trial.evidence(("device", "timer"), where, ("launch.time", "launch.count"), ())
