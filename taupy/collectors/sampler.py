"""The timeline of GPUs: counters sampled by a process beside the program.

`begin` starts the process with the settings of `sampling_plan.py`; the process reports what it
samples. It ends with the program, or when the file STOP appears. `sampled_timelines.py` reads its
results, points of `sampled_points.py`.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple
from math import isfinite, nan
from typing import Any

from taupy import units
from taupy.catalog.spelling import Term
from taupy.catalog.timeline import Channel
from taupy.collectors.cupti_host import CuptiError, CuptiHost, CuptiUnavailable
from taupy.collectors.cupti_sampling import Sample, Sampling, problem_of
from taupy.collectors.sampled_points import Points
from taupy.collectors.sampled_timelines import KEPT, RUNS, SETTINGS, STOP
from taupy.collectors.sampling_plan import Prepared
from taupy.cuda import driver
from taupy.cuda.driver import CudaError
from taupy.model.processes import is_alive, process_start
from taupy.state import values
from taupy.state.folder import Folder, open_run
from taupy.watch import beside

_PAUSE_S = 0.05
_LOOK_S = 0.5  # time limit for reading one GPU, so that none waits long for another
_REST_S = 2.0  # the same at the end of sampling
_SAVE_EVERY_S = 10.0
_BEGIN_S = 20.0
_OTHER_CLOCK_NS = 3600 * 1_000_000_000
_DEVICES_AT_MOST = 64


def begin(folder: Folder, prepared: Prepared, pid: int, start: int) -> tuple[int, list[str]]:
    """Start the sampler, and wait until it samples. Returns the number of sampled GPUs, and
    problems, one line each."""
    (folder / SETTINGS).write_bytes(prepared.settings)
    answer = beside.begin(__name__, [folder.path, str(pid), str(start)])
    if answer is None:
        return 0, ["GPUs are not sampled: no process could be started"]
    text = _heard(answer, _BEGIN_S)
    if not text.endswith("\n\n"):
        return 0, ["GPUs are not sampled: the sampler did not start"]
    number, *lines = text.rstrip("\n").split("\n")
    return int(number), lines


def _heard(descriptor: int, seconds: float) -> str:
    """Everything that is written until the other side closes or the time is up."""
    until = time.monotonic() + seconds
    heard = b""
    try:
        while (left := until - time.monotonic()) > 0:
            if select.select([descriptor], [], [], left)[0]:
                more = os.read(descriptor, 65536)
                heard += more
                if not more:
                    break
    finally:
        os.close(descriptor)
    return heard.decode("utf-8", "replace")


class Sampled:
    """One GPU that is sampled."""

    def __init__(self, host: CuptiHost, ordinal: int, plan: Any, interval_ns: int) -> None:
        self.metrics, channels = plan
        self.channels = [
            Channel(name, unit, tuple(Term(*term) for term in terms), rate)
            for name, unit, terms, rate in channels
        ]
        self.ordinal = ordinal
        self.uuid = driver.Gpu(ordinal).uuid
        self.points = Points(len(self.channels))
        self.problems: list[str] = []
        self.shift_ns: int | None = None
        self.sampling: Sampling | None = Sampling(host, ordinal, self.metrics, interval_ns)
        self.facts = (self.sampling.chip, self.sampling.interval, self.sampling.unit)
        self.notes = self.sampling.notes

    def look(self, *, last: bool = False) -> None:
        """Read the samples since the last time; a GPU that fails is not read again."""
        if self.sampling is None:
            return
        try:
            samples = self.sampling.stop(_REST_S) if last else self.sampling.drain(_LOOK_S)
            for sample in samples:
                self._add(sample)
        except CuptiError as problem:
            self.problems.append(f"sampling ended early: {problem_of(self.facts[0], problem)}")
            last = True
        if last:
            self._judge(self.sampling.overflows, self.sampling.behind)
            self.sampling = None

    def _add(self, sample: Sample) -> None:
        if self.shift_ns is None:
            # Documented as CPU time stamps, like those of kernels: nanoseconds since the epoch.
            away = time.time_ns() - sample.end
            self.shift_ns = away if abs(away) > _OTHER_CLOCK_NS else 0
            if self.shift_ns:
                self.problems.append(
                    "CUPTI's timestamps are from another clock: times are estimates"
                )
        counted = dict(zip(self.metrics, sample.values, strict=True))
        start, end = sample.start + self.shift_ns, sample.end + self.shift_ns
        values = [channel.value(counted, end - start) for channel in self.channels]
        finite = [value if isfinite(value) else nan for value in values]
        if end > start and (not self.points.end or start >= self.points.end[-1]):
            self.points.add(start, end, finite)

    def _judge(self, overflows: int, behind: bool) -> None:
        points = self.points
        if behind:
            self.problems.append("the last samples were too many to be read: use a longer interval")
        if overflows:
            self.problems.append(
                f"the hardware's sample buffer overflowed {overflows} times: use a longer "
                "--pm-interval"
            )
        span = points.end[-1] - points.start[0] if points.end else 0
        if points.gaps_ns * 1000 > span:
            self.problems.append(
                f"{units.duration(points.gaps_ns)} of {units.duration(span)} have no samples"
            )

    def kept(self) -> dict[str, Any]:
        """All results, as plain values for a record."""
        points = self.points
        return {
            "uuid": self.uuid,
            "ordinal": self.ordinal,
            "facts": self.facts,
            "said": list(self.problems),
            "channels": [(channel.name, channel.unit) for channel in self.channels],
            "samples_a_point": points.samples_a_point,
            "sums": [[*astuple(sums)] for sums in points.sums],
            **{name: getattr(points, name).tobytes() for name in ("start", "end", "count")},
            **{
                name: [column.tobytes() for column in getattr(points, name)]
                for name in ("mean", "low", "high")
            },
        }


def watch(folder: Folder, pid: int, start: int, say: Callable[[str], None]) -> None:
    """Sample until the process is gone, STOP appears, or the run folder is gone.

    Args:
        say: called once, with the number of GPUs and one line per problem.
    """
    plan = values.loads((folder / SETTINGS).read_record())
    gpus, lines = _begun(plan)
    (folder / KEPT).write_bytes(values.dumps([]))
    say("\n".join([str(len(gpus)), *lines]))
    saved = time.monotonic()
    while gpus:
        last = not is_alive(pid, start) or (folder / STOP).exists() or folder.is_gone()
        for gpu in gpus:
            gpu.look(last=last)
        if last or time.monotonic() - saved > _SAVE_EVERY_S:
            with suppress(OSError):  # for the program's sake
                (folder / KEPT).write_bytes(values.dumps([gpu.kept() for gpu in gpus]))
            saved = time.monotonic()
        if last:
            return
        time.sleep(_PAUSE_S)


def _begun(plan: Any) -> tuple[list[Sampled], list[str]]:
    """Begin to sample; returns the sampled GPUs, and why the others are not sampled."""
    gpus: list[Sampled] = []
    lines: list[str] = []
    try:
        host = CuptiHost.open()
    except CuptiUnavailable as problem:
        return [], [f"GPUs are not sampled: {problem}"]
    for ordinal in range(min(driver.device_count(), _DEVICES_AT_MOST)):
        chip = ""
        try:
            chip = host.device_chip(ordinal)
            if chip in plan["chips"]:
                gpus.append(Sampled(host, ordinal, plan["chips"][chip], plan["interval_ns"]))
                lines += [f"GPU {ordinal}: {note}" for note in gpus[-1].notes]
        except (CuptiError, CudaError) as problem:
            lines.append(f"GPU {ordinal} is not sampled: {problem_of(chip, problem)}")
    return gpus, lines


def main(arguments: Sequence[str]) -> None:
    """The sampler's command line: FOLDER PID START."""
    folder, pid, start = open_run(arguments[0]), int(arguments[1]), int(arguments[2])
    runs = folder / RUNS
    runs.write_bytes(values.dumps((os.getpid(), process_start(os.getpid()))))

    def say(text: str) -> None:
        os.write(beside.ANSWER, f"{text}\n\n".encode())
        os.close(beside.ANSWER)

    try:
        watch(folder, pid, start, say)
    finally:
        runs.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
