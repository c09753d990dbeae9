"""Counters in a Chrome trace: values over time, and CUPTI's counts for individual kernels.

Kineto's range profiler (`cuda_profiler_range`) runs every kernel several times and writes a slice
with its counters for each. These slices are in launch order, but their times are artificial (the
profiled span is divided evenly), so the kernels become launches without a duration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from taupy.formats import limits
from taupy.formats.chrome import values
from taupy.formats.nsight.ncu_metrics import Counted, CountedLaunches
from taupy.model.gpu import Launch
from taupy.model.kernel_names import kernel_timer
from taupy.model.profile import Metric, Statistics, Thread, ThreadProfile, Timer
from taupy.model.streams import Owner, StreamBuilder
from taupy.units import several

LAUNCH: Final = re.compile(r"(?:cuda|cu|hip)(?:Module|Ext)?Launch(?:Cooperative)?Kernel")
"""Calls that launch a single kernel."""


class _Range(NamedTuple):
    start: int
    kernel: str
    counted: dict[str, float]


class KernelCounters:
    """The kernels' counters, by device."""

    def __init__(self) -> None:
        self._ranges: dict[int, list[_Range]] = {}
        self._counted = CountedLaunches()
        self.notes: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    @property
    def devices(self) -> set[int]:
        return set(self._ranges)

    @property
    def metrics(self) -> list[Metric]:
        return [Metric(name, unit) for name, unit in sorted(self._counted.units.items())]

    def add(self, event: dict[str, Any], name: str, start: int, args: dict[str, Any]) -> None:
        """Keep one kernel's counters."""
        device = values.integer(args.get("device", event.get("pid"))) or 0
        counted = {
            metric[: limits.TRACE_NAME]: number
            for metric, value in args.items()
            if "__" in metric and (number := values.real(value)) is not None and number >= 0
        }
        ranges = self._ranges.setdefault(max(0, min(device, limits.DEVICES)), [])
        ranges.append(_Range(start, name[: limits.TRACE_NAME] or "(unnamed)", counted))

    def threads(
        self,
        timers: list[Timer],
        node: int,
        capabilities: Mapping[int, str],
        launches: Sequence[Owner],
        used: Mapping[int, int],
    ) -> list[ThreadProfile]:
        """A thread for each device.

        Args:
            capabilities: device -> compute capability, if the trace has it.
            launches: the calls that launched a kernel, in time order.
            used: device -> number of streams that it already has.
        """
        builder = StreamBuilder(timers)
        number = sum(map(len, self._ranges.values()))
        is_matched = len(self._ranges) == 1 and number == len(launches)
        self.notes.append(
            f"{several(number, 'kernel')} counted individually (cuda_profiler_range), without times"
        )
        if not is_matched:
            self.notes.append(
                f"{number} counted kernels and {len(launches)} launches: the launching call paths "
                "are unknown"
            )
        for device, ranges in sorted(self._ranges.items()):
            place = used.get(device, 0)
            thread = Thread(node, 1 + device, place, "stream", "counted kernels")
            samples: dict[tuple[int, str], Statistics] = {}
            for at, kernel_range in enumerate(
                sorted(ranges, key=lambda kernel_range: kernel_range.start)
            ):
                launch = Launch(count=1, time_ns=0, untimed=1)
                owner = launches[at] if is_matched else None
                row = builder.add(thread, owner, kernel_timer(kernel_range.kernel), launch)
                counted = Counted(
                    kernel_range.kernel,
                    device=device,
                    capability=capabilities.get(device, ""),
                    values=kernel_range.counted,
                )
                builder.add_values(thread, row, self._counted.counts(counted).values)
                for name, value in kernel_range.counted.items():
                    if not name.endswith(".sum"):
                        samples.setdefault((row, name), Statistics()).add(value)
            builder.add_user_events(
                thread, [sample.event(name, "", row) for (row, name), sample in samples.items()]
            )
        return builder.threads()
