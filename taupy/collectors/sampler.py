"""The timeline of GPUs: counters sampled by a process beside the program.

Before the run, `prepare` spells what was asked for and refuses what one pass cannot take;
`begin` starts the process and hears from it what is sampled. It ends with the program, or
when the file STOP appears: `timelines` asks for it, before a trial is stored, and reads what
was kept. A long run stays small: when there are too many points, neighbours become one.
"""

from __future__ import annotations

import os
import select
import sys
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any

from taupy import units
from taupy.catalog import timeline
from taupy.catalog.spelling import Term
from taupy.catalog.timeline import Channel
from taupy.collectors.cupti_counters import chips_here
from taupy.collectors.cupti_host import PM_SAMPLING, CuptiError, CuptiHost, CuptiUnavailable
from taupy.collectors.cupti_sampling import Sample, Sampling, problem_of
from taupy.cuda import driver
from taupy.cuda.driver import CudaError
from taupy.errors import TaupyError
from taupy.model.processes import is_alive, process_start
from taupy.model.profile import Samples, UserEvent
from taupy.state import values
from taupy.state.folder import Folder, open_run
from taupy.state.shape import fits
from taupy.watch import beside

SETTINGS = "sampling"
KEPT = "sampled"
STOP = "sampling.stop"
_RUNS = "sampling.runs"  # pid and start of the sampler, gone when all is written

MOST_POINTS = 32_768

_PAUSE_S = 0.05
_LOOK_S = 0.5  # for one GPU, so that none waits long for another
_REST_S = 2.0  # the same when all ends
_SAVE_EVERY_S = 10.0
_BEGIN_S = 20.0
_END_S = 20.0
_OTHER_CLOCK_NS = 3600 * 1_000_000_000
_DEVICES_AT_MOST = 64


# --- before the run ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the sampler is told.

    Attributes:
        settings: content of the file SETTINGS; empty if nothing can be sampled.
        notes: what was left out, a line each.
        said: what is sampled, a line a chip.
    """

    settings: bytes
    notes: list[str]
    said: list[str] = field(default_factory=list)


def prepare(
    names: Sequence[str],
    interval_ns: int,
    optional: Collection[str] = (),
    open_host: Callable[[], CuptiHost] = CuptiHost.open,
) -> Prepared:
    """Spell channels for the GPUs of this machine.

    Args:
        names: as `timeline.names_of` gives them.
        optional: those of them that a chip may lack without a word.
        open_host: given by tests.

    Raises:
        TaupyError: they take more than one pass; says which fit.
    """
    try:
        host = open_host()
        if not host.can_sample:
            raise CuptiUnavailable(
                f"CUPTI {host.version_text} ({host.path}) cannot sample; that of CUDA 12.6 and "
                "later can"
            )
        chips = chips_here(host)
    except (CuptiUnavailable, CuptiError) as problem:
        return Prepared(b"", [f"GPUs are not sampled: {problem}"])
    plans: dict[str, Any] = {}
    notes: list[str] = []
    said: list[str] = []
    for chip in chips:
        try:
            plan = planned(host, chip, names)
        except CuptiError as problem:
            notes.append(f"{chip} is not sampled: {_refused(chip, problem)}")
            continue
        if missing := [missed for missed in plan.missing if missed[0] not in optional]:
            notes.append(f"{chip}: not sampled: " + _listed(missing))
        if plan.channels:
            plans[chip] = (list(plan.metrics), [tuple(channel) for channel in plan.channels])
            number, every = len(plan.channels), units.duration(interval_ns)
            what = "1 value is" if number == 1 else f"{number} values are"
            said.append(
                f"{chip}: {what} sampled every {every}, of the whole GPU; its clocks may be "
                "fixed meanwhile"
            )
    if not plans:
        return Prepared(b"", [*notes, "no GPU here can sample any of this"])
    told = {"interval_ns": interval_ns, "chips": _plain(plans)}
    return Prepared(values.dumps(told), notes, said)


def planned(host: CuptiHost, chip: str, names: Iterable[str]) -> timeline.Plan:
    """What is sampled on a chip, if one pass takes it all.

    Raises:
        TaupyError: it takes more; says which of them fit.
        CuptiError: the chip cannot sample, or is unknown.
    """
    with host.chip(chip, PM_SAMPLING) as chip_metrics:
        alone: dict[str, bool] = {}

        def can_sample(metric: str) -> bool:
            if metric not in alone:
                alone[metric] = chip_metrics.passes([metric]) == 1
            return alone[metric]

        plan = timeline.plan(names, chip, can_sample)
        passes = chip_metrics.passes(plan.metrics) if plan.metrics else 1
        if passes == 1:
            return plan
        fit = set(timeline.fitting(plan.metrics, chip_metrics.passes))
    fitting = [
        channel.name for channel in plan.channels if {t.metric for t in channel.terms} <= fit
    ]
    others = [channel.name for channel in plan.channels if channel.name not in fitting]
    raise TaupyError(
        f"{chip} samples in one pass only, and these take {passes or 'more'}: together fit "
        f"{', '.join(fitting)}; leave out {', '.join(others)}"
    )


def _refused(chip: str, problem: CuptiError) -> str:
    if problem.code == 27:
        return "Turing and later can be (compute capability 7.5)"
    return problem_of(chip, problem)


def _listed(missing: Iterable[tuple[str, str]]) -> str:
    reasons: dict[str, list[str]] = {}
    for name, why in missing:
        reasons.setdefault(why, []).append(name)
    return "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())


def _plain(plans: dict[str, Any]) -> dict[str, Any]:
    """Tuples of tuples, as a record takes them."""
    return {
        chip: (
            metrics,
            [(name, unit, [tuple(term) for term in terms], rate)
             for name, unit, terms, rate in channels],
        )
        for chip, (metrics, channels) in plans.items()
    }  # fmt: skip


def begin(folder: Folder, prepared: Prepared, pid: int, start: int) -> tuple[int, list[str]]:
    """Start the sampler, and wait until it samples: how many GPUs, and what went wrong, a line
    each."""
    (folder / SETTINGS).write_bytes(prepared.settings)
    answer = beside.begin(__name__, [folder.path, str(pid), str(start)])
    if answer is None:
        return 0, ["GPUs are not sampled: no process could be started"]
    text = _heard(answer, _BEGIN_S)
    if not text.endswith("\n\n"):
        return 0, ["GPUs are not sampled: the sampler did not begin"]
    number, *lines = text.rstrip("\n").split("\n")
    return int(number), lines


def _heard(descriptor: int, seconds: float) -> str:
    """All that is said until the other side closes, or the time is up."""
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


# --- the sampler -------------------------------------------------------------


@dataclass(slots=True)
class Points:
    """Samples of some channels, at most `most` points: then each two neighbours become one.

    Attributes:
        sums: of all samples, by channel: count, least, largest, sum, sum of squares.
        gaps_ns: time between samples that follow each other, where some are missing.
    """

    channels: int
    most: int = MOST_POINTS
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    count: array[int] = field(default_factory=lambda: array("q"))
    mean: list[array[float]] = field(default_factory=list)
    low: list[array[float]] = field(default_factory=list)
    high: list[array[float]] = field(default_factory=list)
    sums: list[list[float]] = field(default_factory=list)
    gaps_ns: int = 0
    samples_a_point: int = 1

    def __post_init__(self) -> None:
        for columns in (self.mean, self.low, self.high):
            columns += [array("d") for _ in range(self.channels)]
        self.sums += [[0, float("inf"), float("-inf"), 0.0, 0.0] for _ in range(self.channels)]

    def add(self, start: int, end: int, values: Sequence[float]) -> None:
        """Take one sample; it begins where the last one ended, or later."""
        for sums, value in zip(self.sums, values, strict=True):
            if value == value:  # not a number: nothing was counted
                sums[0] += 1
                sums[1] = min(sums[1], value)
                sums[2] = max(sums[2], value)
                sums[3] += value
                sums[4] += value * value
        if self.end and start - self.end[-1] > (end - start) // 2:
            self.gaps_ns += start - self.end[-1]
        if self.count and self.count[-1] < self.samples_a_point:
            self._append(start, end, 1, values, values, values)
            self._join(len(self.count) - 2)
            return
        if len(self.count) >= self.most:
            self._halve()
        self._append(start, end, 1, values, values, values)

    def _append(
        self,
        start: int,
        end: int,
        count: int,
        mean: Sequence[float],
        low: Sequence[float],
        high: Sequence[float],
    ) -> None:
        self.start.append(start)
        self.end.append(end)
        self.count.append(count)
        for columns, numbers in ((self.mean, mean), (self.low, low), (self.high, high)):
            for column, value in zip(columns, numbers, strict=True):
                column.append(value)

    def _join(self, at: int) -> None:
        """The last point becomes part of the one at `at`, the one before it."""
        for channel in range(self.channels):
            two = [self.mean[channel].pop(), self.mean[channel][at]]
            lengths = [self.end[-1] - self.start[-1], self.end[at] - self.start[at]]
            self.mean[channel][at] = _mean(two, lengths)
            for columns, chosen in ((self.low, min), (self.high, max)):
                value = columns[channel].pop()
                columns[channel][at] = _either(chosen, value, columns[channel][at])
        self.start.pop()
        self.end[at] = self.end.pop()
        self.count[at] += self.count.pop()

    def _halve(self) -> None:
        self.samples_a_point *= 2
        old = Points(self.channels, self.most, self.start, self.end, self.count)
        old.mean, old.low, old.high = self.mean, self.low, self.high
        self.start, self.end, self.count = array("q"), array("q"), array("q")
        self.mean, self.low, self.high = (
            [array("d") for _ in range(self.channels)] for _ in range(3)
        )
        for at in range(len(old.count)):
            mean, low, high = (
                [column[at] for column in columns] for columns in (old.mean, old.low, old.high)
            )
            self._append(old.start[at], old.end[at], old.count[at], mean, low, high)
            if at % 2:
                self._join(len(self.count) - 2)


def _mean(values: list[float], lengths: list[int]) -> float:
    """By time; of those that are numbers."""
    weighted = [(value, length) for value, length in zip(values, lengths, strict=True)
             if value == value]  # fmt: skip
    total = sum(length for _, length in weighted)
    if not total:
        return weighted[0][0] if weighted else float("nan")
    return sum(value * length for value, length in weighted) / total


def _either(chosen: Callable[..., float], first: float, other: float) -> float:
    return (
        chosen(first, other)
        if first == first and other == other
        else (first if first == first else other)
    )


class Sampled:
    """One GPU that the sampler looks at."""

    def __init__(self, host: CuptiHost, ordinal: int, told: Any, interval_ns: int) -> None:
        self.metrics, channels = told
        self.channels = [
            Channel(name, unit, tuple(Term(*term) for term in terms), rate)
            for name, unit, terms, rate in channels
        ]
        self.ordinal = ordinal
        self.uuid = driver.Gpu(ordinal).uuid
        self.points = Points(len(self.channels))
        self.said: list[str] = []
        self.shift_ns: int | None = None
        self.sampling: Sampling | None = Sampling(host, ordinal, self.metrics, interval_ns)
        self.facts = (self.sampling.chip, self.sampling.interval, self.sampling.unit)
        self.notes = self.sampling.notes

    def look(self, *, last: bool = False) -> None:
        """Take what has been sampled since; a GPU that refuses is left alone from then on."""
        if self.sampling is None:
            return
        try:
            samples = self.sampling.stop(_REST_S) if last else self.sampling.drain(_LOOK_S)
            for sample in samples:
                self._add(sample)
        except CuptiError as problem:
            self.said.append(f"sampling ended early: {problem_of(self.facts[0], problem)}")
            last = True
        if last:
            self._judge(self.sampling.overflows, self.sampling.behind)
            self.sampling = None

    def _add(self, sample: Sample) -> None:
        if self.shift_ns is None:
            # Documented as times of the CPU, like those of kernels: nanoseconds since the epoch.
            away = time.time_ns() - sample.end
            self.shift_ns = away if abs(away) > _OTHER_CLOCK_NS else 0
            if self.shift_ns:
                self.said.append("CUPTI's stamps are of another clock: moments are a guess")
        counted = dict(zip(self.metrics, sample.values, strict=True))
        start, end = sample.start + self.shift_ns, sample.end + self.shift_ns
        values = [channel.value(counted, end - start) for channel in self.channels]
        finite = [value if isfinite(value) else nan for value in values]
        if end > start and (not self.points.end or start >= self.points.end[-1]):
            self.points.add(start, end, finite)

    def _judge(self, overflows: int, behind: bool) -> None:
        points = self.points
        if behind:
            self.said.append("the last samples were too many to be read: take a longer interval")
        if overflows:
            self.said.append(
                f"the hardware's buffer of samples was full {overflows} times: take a longer "
                "--pm-interval"
            )
        span = points.end[-1] - points.start[0] if points.end else 0
        if points.gaps_ns * 1000 > span:
            self.said.append(
                f"{units.duration(points.gaps_ns)} of {units.duration(span)} have no samples"
            )

    def kept(self) -> dict[str, Any]:
        """All of it, as a record takes it."""
        points = self.points
        return {
            "uuid": self.uuid,
            "ordinal": self.ordinal,
            "facts": self.facts,
            "said": list(self.said),
            "channels": [(channel.name, channel.unit) for channel in self.channels],
            "samples_a_point": points.samples_a_point,
            "sums": points.sums,
            **{name: getattr(points, name).tobytes() for name in ("start", "end", "count")},
            **{
                name: [column.tobytes() for column in getattr(points, name)]
                for name in ("mean", "low", "high")
            },
        }


def watch(folder: Folder, pid: int, start: int, say: Callable[[str], None]) -> None:
    """Sample until the process is gone, STOP is there, or the run folder is not.

    Args:
        say: called once, with the number of GPUs and a line for each thing that went wrong.
    """
    told = values.loads((folder / SETTINGS).read_record())
    gpus, said = _begun(told)
    (folder / KEPT).write_bytes(values.dumps([]))
    say("\n".join([str(len(gpus)), *said]))
    saved = time.monotonic()
    while gpus:
        last = not is_alive(pid, start) or (folder / STOP).exists() or folder.is_gone()
        for gpu in gpus:
            gpu.look(last=last)
        if last or time.monotonic() - saved > _SAVE_EVERY_S:
            with suppress(OSError):  # the program comes first
                (folder / KEPT).write_bytes(values.dumps([gpu.kept() for gpu in gpus]))
            saved = time.monotonic()
        if last:
            return
        time.sleep(_PAUSE_S)


def _begun(told: Any) -> tuple[list[Sampled], list[str]]:
    """The GPUs that are being sampled now, and why the others are not."""
    gpus: list[Sampled] = []
    said: list[str] = []
    try:
        host = CuptiHost.open()
    except CuptiUnavailable as problem:
        return [], [f"GPUs are not sampled: {problem}"]
    for ordinal in range(min(driver.device_count(), _DEVICES_AT_MOST)):
        chip = ""
        try:
            chip = host.device_chip(ordinal)
            if chip in told["chips"]:
                gpus.append(Sampled(host, ordinal, told["chips"][chip], told["interval_ns"]))
                said += [f"GPU {ordinal}: {note}" for note in gpus[-1].notes]
        except (CuptiError, CudaError) as problem:
            said.append(f"GPU {ordinal} is not sampled: {problem_of(chip, problem)}")
    return gpus, said


def main(arguments: Sequence[str]) -> None:
    """The sampler's command line: FOLDER PID START."""
    folder, pid, start = open_run(arguments[0]), int(arguments[1]), int(arguments[2])
    runs = folder / _RUNS
    runs.write_bytes(values.dumps((os.getpid(), process_start(os.getpid()))))

    def say(text: str) -> None:
        os.write(beside.ANSWER, f"{text}\n\n".encode())
        os.close(beside.ANSWER)

    try:
        watch(folder, pid, start, say)
    finally:
        runs.unlink(missing_ok=True)


# --- afterwards --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuTimeline:
    """What was sampled of one GPU.

    Attributes:
        facts: chip, interval, and its unit, "ns" or "cycles".
        said: what is missing, a line each.
        events: statistics of all samples; names as NVML's, `GPU[0] sm_active`.
        samples: the same over time.
        samples_a_point: as many samples became one point.
    """

    uuid: str
    ordinal: int
    facts: tuple[str, int, str]
    said: list[str]
    events: list[UserEvent]
    samples: list[Samples]
    samples_a_point: int


def timelines(folder: Folder, ordinals: dict[str, int] | None) -> list[GpuTimeline] | None:
    """End the sampler of this run and read what it has kept.

    Args:
        folder: the run folder.
        ordinals: UUID -> CUDA's number in the program, of the GPUs to keep; None for all.

    Returns:
        None if no GPU could be sampled, which was said before the run.

    Raises:
        TaupyError: something was sampled and cannot be read.
    """
    _end(folder)
    try:
        kept = values.loads((folder / KEPT).read_bytes())
        if not fits(kept, list[dict[str, Any]]) or not all(map(_is_kept, kept)):
            raise values.Damaged("they are not as they should be")
        timelines = [
            _read(gpu, ordinals) for gpu in kept if ordinals is None or gpu["uuid"] in ordinals
        ]
    except FileNotFoundError:
        raise TaupyError("the sampler of GPUs failed: no timeline is kept") from None
    except (OSError, ValueError) as problem:
        raise TaupyError(f"the samples of GPUs cannot be read ({problem})") from None
    return timelines if kept else None


def _end(folder: Folder) -> None:
    (folder / STOP).write_bytes(b"")
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        try:
            runs = values.loads((folder / _RUNS).read_record())
        except (OSError, values.Damaged):
            return
        if not fits(runs, tuple[int, int]) or not is_alive(*runs):
            return
        time.sleep(0.01)


_KEPT_FIELDS: dict[str, Any] = {
    "uuid": str,
    "ordinal": int,
    "facts": tuple[str, int, str],
    "said": list[str],
    "channels": list[tuple[str, str]],
    "samples_a_point": int,
    "sums": list[Any],
    "start": bytes,
    "end": bytes,
    "count": bytes,
    "mean": list[bytes],
    "low": list[bytes],
    "high": list[bytes],
}


def _is_kept(gpu: dict[str, Any]) -> bool:
    """Is it what `Sampled.kept` gives, with columns of one length?"""
    if any(not fits(gpu.get(name), hint) for name, hint in _KEPT_FIELDS.items()):
        return False
    columns = [gpu["mean"], gpu["low"], gpu["high"]]
    lists = [gpu["sums"], *columns]
    sizes = {len(gpu[name]) for name in ("start", "end", "count")}
    sizes |= {len(data) for column in columns for data in column}
    return (
        all(len(column) == len(gpu["channels"]) for column in lists)
        and len(sizes) == 1
        and sizes.pop() % 8 == 0
        and all(fits(sums, list[Any]) and len(sums) == 5 for sums in gpu["sums"])
    )


def _read(kept: dict[str, Any], ordinals: dict[str, int] | None) -> GpuTimeline:
    ordinal = kept["ordinal"] if ordinals is None else ordinals[kept["uuid"]]
    events: list[UserEvent] = []
    samples: list[Samples] = []
    for number, (channel, unit) in enumerate(kept["channels"]):
        count, low, high, total, squares = kept["sums"][number]
        if not count:
            continue
        name = f"GPU[{ordinal}] {channel}"
        events.append(UserEvent(name, unit, int(count), low, high, total / count, squares))
        start, end, points = (array("q", kept[column]) for column in ("start", "end", "count"))
        mean, low_at, high_at = (
            array("d", kept[column][number]) for column in ("mean", "low", "high")
        )
        samples.append(Samples(name, unit, start, end, points, mean, low_at, high_at))
    return GpuTimeline(
        kept["uuid"], ordinal, kept["facts"], kept["said"], events, samples,
        kept["samples_a_point"],
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
