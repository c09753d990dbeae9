"""The sources of `taupy avail`: CUPTI if it is installed, otherwise `catalog/recorded.py`.

A chip is requested by name, or is that of a GPU of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple, Protocol

from taupy.catalog import architectures, recorded, spelling
from taupy.collectors.cupti_counters import gpus_here
from taupy.collectors.cupti_host import (
    PM_SAMPLING,
    ChipMetrics,
    CuptiError,
    CuptiHost,
    CuptiUnavailable,
)
from taupy.errors import UsageError

if TYPE_CHECKING:
    from taupy.collectors.perf_events import Counter as CpuCounter


class MetricSource(Protocol):
    """Answers about one chip."""

    name: str
    title: str
    notes: tuple[str, ...]

    def has(self, metric: str) -> bool:
        """Whether the chip has this PerfWorks metric."""

    def passes_of(self, name: str, metrics: Sequence[str]) -> int | None:
        """Number of passes of one of our counters or sets, given its metrics; None if unknown."""

    def together(self, names: Sequence[str], metrics: Sequence[str]) -> str:
        """A line about the passes of several of them together."""

    def can_sample(self, metric: str) -> bool:
        """Whether this PerfWorks metric alone can be sampled in one pass."""

    def sampled_together(self, names: Sequence[str]) -> None:
        """Raise TaupyError, with the names that fit, if one pass cannot sample all of these."""

    def near(self, metric: str) -> list[str]:
        """PerfWorks metrics with similar names."""

    def raw(self) -> Iterator[tuple[str, str, str, str]]:
        """NVIDIA's own metrics: name, kind, unit, description."""


class Sources(NamedTuple):
    """The sources for the requested chips, and notes on how the chips were determined."""

    chips: list[MetricSource]
    notes: list[str]


def chips(wanted: str | None) -> Sources:
    """The chip with that name, or the chips of this machine's GPUs.

    Raises:
        UsageError: no chip has this name.
    """
    try:
        host: CuptiHost | None = CuptiHost.open()
        problem = ""
    except CuptiUnavailable as unavailable:
        host, problem = None, str(unavailable)
    if wanted is not None:
        return Sources([_source(host, problem, _chip_name(wanted, host))], [])
    if host is None or not host.has_driver:
        return Sources([], ["no NVIDIA GPU responds here; --chip H100 shows those of a chip"])
    try:
        names = [*gpus_here(host)]
    except CuptiError:
        return Sources([], ["there is no NVIDIA GPU here; --chip H100 shows those of a chip"])
    return Sources([_source(host, problem, name) for name in names], [])


def cpu_counters() -> list[CpuCounter]:
    """Counters of this machine's CPU."""
    from taupy.collectors import perf_events

    return perf_events.available()


def _chip_name(wanted: str, host: CuptiHost | None) -> str:
    """The chip's name; a newer CUPTI may support chips that the catalogue lacks."""
    if host is not None and wanted.upper() in host.chips():
        return wanted.upper()
    return architectures.chip(wanted).name


def _source(host: CuptiHost | None, problem: str, name: str) -> MetricSource:
    if host is not None:
        try:
            return _Asked(host, host.chip(name))
        except CuptiError as refused:
            problem = str(refused)
    if name in recorded.UNANSWERED:
        raise UsageError(
            f"{name} is in CUPTI's list of chips, but CUPTI has no metrics for it; `taupy avail "
            "--chips` lists others"
        )
    return _Recorded(name, problem)


def _title(name: str) -> str:
    for chip in architectures.CHIPS:
        if chip.name == name:
            return f"{chip.architecture}, {chip.compute_capability}"
    return "unknown to this taupy"


def _general_notes(name: str) -> tuple[str, ...]:
    for chip in architectures.CHIPS:
        old = chip.compute_capability in architectures.WITHOUT_RANGE_PROFILER
        if chip.name == name and old:
            return (
                f"{name} is too old for counting in process: count with Nsight Compute and "
                "import its file",
            )
    return ()


class _Asked:
    """NVIDIA's own answers, from CUPTI."""

    def __init__(self, host: CuptiHost, chip: ChipMetrics) -> None:
        self._host = host
        self._chip = chip
        self._sampling: ChipMetrics | None = None
        self.name = chip.chip
        self.title = _title(chip.chip)
        origin = f"as CUPTI {host.version_text} answers ({host.path})"
        self.notes = (*_general_notes(chip.chip), origin)

    def has(self, metric: str) -> bool:
        return self._chip.has(metric)

    def passes_of(self, name: str, metrics: Sequence[str]) -> int | None:
        return self._chip.passes(metrics)

    def together(self, names: Sequence[str], metrics: Sequence[str]) -> str:
        return f"all together: {self._chip.passes(metrics)} passes"

    def can_sample(self, metric: str) -> bool:
        if self._sampling is None:
            try:
                self._sampling = self._host.chip(self.name, PM_SAMPLING)
            except CuptiError:
                raise UsageError(
                    f"{self.name} cannot be sampled: Turing and later can (compute capability 7.5)"
                ) from None
        return self._sampling.passes([metric]) == 1

    def sampled_together(self, names: Sequence[str]) -> None:
        from taupy.collectors import sampling_plan

        sampling_plan.planned(self._host, self.name, names)

    def near(self, metric: str) -> list[str]:
        base, _, rest = metric.partition(".")
        bases = get_close_matches(base, self._chip.base_metrics(), n=3, cutoff=0.7)
        rest = f".{rest}"
        names = []
        for name in bases:
            submetrics = self._chip.submetrics(name)
            names.append(name + (rest if rest in submetrics or not submetrics else submetrics[0]))
        return [name for name in dict.fromkeys(names) if name != metric]

    def raw(self) -> Iterator[tuple[str, str, str, str]]:
        for base in self._chip.base_metrics():
            properties = self._chip.properties(base)
            if properties is not None:
                yield base, properties.kind, properties.unit, properties.description


class _Recorded:
    """The recorded answers of CUPTI."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.title = _title(name)
        self._problem = problem
        self.notes = (*_general_notes(name), f"as recorded from {recorded.SOURCE}: {problem}")

    def has(self, metric: str) -> bool:
        return metric not in recorded.METRICS or spelling.has(self.name, metric)

    def passes_of(self, name: str, metrics: Sequence[str]) -> int | None:
        return spelling.recorded_passes(spelling.canonical(name) or name, self.name)

    def together(self, names: Sequence[str], metrics: Sequence[str]) -> str:
        passes = [self.passes_of(name, ()) or 1 for name in names]
        return f"all together: at least {max(passes)} passes; only CUPTI can tell how many"

    def can_sample(self, metric: str) -> bool:
        raise UsageError(f"only CUPTI knows what a chip can sample: {self._problem}")

    def sampled_together(self, names: Sequence[str]) -> None:
        self.can_sample("")

    def near(self, metric: str) -> list[str]:
        return get_close_matches(metric, recorded.METRICS, n=3, cutoff=0.7)

    def raw(self) -> Iterator[tuple[str, str, str, str]]:
        raise UsageError(f"NVIDIA's own metrics come from CUPTI: {self._problem}")
