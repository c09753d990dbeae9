"""The kernels of a trial's GPU, for several rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taupy.analysis.findings.gpu_clock import GpuClock, of_all
from taupy.analysis.findings.trial import Trial
from taupy.model.finding import Evidence
from taupy.model.question import Condition
from taupy.model.rows import TimerRow


class Kernel(NamedTuple):
    """All launches of one kernel on the clock's device.

    Attributes:
        timed: launches whose time is known; where some are not, `ns` is an estimate by the mean.
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
    table = clock.launches.by("device", "timer")
    rows = zip(
        *(table.row_labels("device"), table.row_labels("timer")),
        *map(table.column, ("launch.count", "launch.untimed", "launch.time")),
        strict=True,
    )
    kernels = [
        Kernel(timer, count, count - untimed, of_all(count, untimed, ns))
        for device, timer, count, untimed, ns in rows
        if device == clock.device and "GPU_KERNEL" in timer.groups.split("|")
    ]
    return sorted(kernels, key=lambda kernel: (-kernel.ns, kernel.timer.timer))


def evidence(trial: Trial, kernels: Sequence[Kernel]) -> Evidence:
    """The launches of these kernels."""
    where = (Condition("timer", tuple(kernel.timer.timer for kernel in kernels)),)
    return trial.evidence(("device", "timer"), where, ("launch.time", "launch.count"), ())
