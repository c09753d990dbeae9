"""What can be sampled on a GPU while a program runs: names, spellings, units.

PM sampling reads counters of the whole GPU at a fixed interval, in one pass. A *channel* is one
value over time: a percentage of the chip's maximum, or a rate per second. A name is one of those
below, one of our counters (`counters.py`), which becomes a rate, or a PerfWorks metric.

plan(["timeline"], "GH100", sampled)       metrics to sample, channels made of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from taupy.catalog.sets import expanded, sets
from taupy.catalog.spelling import Term, is_perfworks, near, unit_of
from taupy.catalog.spelling import plan as counter_plan
from taupy.errors import UsageError


class Sampled(NamedTuple):
    """A name for sampling only; a chip uses the first spelling that it supports."""

    name: str
    unit: str
    spellings: tuple[str, ...]
    description: str


_OF_ELAPSED = "pct_of_peak_sustained_elapsed"

SAMPLED = (
    Sampled("sm_active", "%", (f"sm__cycles_active.avg.{_OF_ELAPSED}",),
            "time in which SMs held a warp, averaged over the SMs"),
    Sampled("sm_occupancy", "%", (f"sm__warps_active.avg.{_OF_ELAPSED}",),
            "warps that the SMs held, of all that they could hold"),
    Sampled("tensor_active", "%", (f"sm__pipe_tensor_cycles_active.avg.{_OF_ELAPSED}",),
            "time in which the tensor cores were at work"),
    Sampled("gpu_active", "%", (f"gr__cycles_active.sum.{_OF_ELAPSED}",),
            "time in which the compute engine had work, on however few SMs"),
    Sampled("pcie_rx_bytes", "B/s", ("pcie__read_bytes.sum.per_second",),
            "bytes that the GPU received through PCIe"),
    Sampled("pcie_tx_bytes", "B/s", ("pcie__write_bytes.sum.per_second",),
            "bytes that the GPU sent through PCIe"),
    Sampled("nvlink_rx_bytes", "B/s", ("nvlrx__bytes.sum.per_second",),
            "bytes that the GPU received through NVLink"),
    Sampled("nvlink_tx_bytes", "B/s", ("nvltx__bytes.sum.per_second",),
            "bytes that the GPU sent through NVLink"),
    Sampled("sm_clock", "Hz", ("gpc__cycles_elapsed.avg.per_second",),
            "clock of the SMs"),
)  # fmt: skip

BY_NAME = {channel.name: channel for channel in SAMPLED}

TIMELINE = "timeline"
"""The set for a first overview; it takes one pass on every chip that supports sampling."""

TIMELINE_NAMES = (
    "sm_active", "sm_occupancy", "tensor_active", "gpu_active", "dram_read_bytes",
    "dram_write_bytes", "bytes_l2", "pcie_rx_bytes", "pcie_tx_bytes", "nvlink_rx_bytes",
    "nvlink_tx_bytes", "sm_clock",
)  # fmt: skip


class Channel(NamedTuple):
    """One value over time.

    Attributes:
        per_second: the count of a sample is divided by the sample's duration.
    """

    name: str
    unit: str
    terms: tuple[Term, ...]
    per_second: bool

    def value(self, sampled: Mapping[str, float], duration_ns: int) -> float:
        """The value computed from one sample's PerfWorks values; NaN if one of them is NaN."""
        total = sum(term.weight * sampled[term.metric] for term in self.terms)
        if not self.per_second:
            return total
        return total * 1e9 / duration_ns if duration_ns > 0 else float("nan")


class Plan(NamedTuple):
    """What is sampled on a chip.

    Attributes:
        metrics: PerfWorks metrics, each once.
        missing: names that cannot be sampled there, with the reason.
    """

    metrics: tuple[str, ...]
    channels: tuple[Channel, ...]
    missing: tuple[tuple[str, str], ...]


def names_of(names: Iterable[str], project: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """The names of channels for names and sets, without duplicates.

    Args:
        project: [tool.taupy.sets] of pyproject.toml.

    Raises:
        UsageError: a name is unknown; the message lists close ones.
    """
    chosen: dict[str, None] = {}
    for name in (text.strip() for text in names):
        if name == TIMELINE and name not in (project or {}):
            chosen.update(dict.fromkeys(TIMELINE_NAMES))
        elif name in BY_NAME:
            chosen[name] = None
        elif name in (project or {}):
            inner = {key: value for key, value in (project or {}).items() if key != name}
            chosen.update(dict.fromkeys(names_of(sets(project)[name].counters, inner)))
        elif name:
            try:
                chosen.update(dict.fromkeys(expanded([name], project)))
            except UsageError:
                close = near(name, (*BY_NAME, TIMELINE, *sets(project)))
                more = f"; near it: {', '.join(close)}" if close else ""
                raise UsageError(
                    f"there is nothing '{name}' to sample{more}; `taupy avail --sampling` lists "
                    "the available ones"
                ) from None
    return tuple(chosen)


def plan(names: Iterable[str], chip: str, can_sample: Callable[[str], bool]) -> Plan:
    """What must be sampled for these names on this chip.

    Args:
        names: as `names_of` gives them.
        can_sample: whether the chip samples a PerfWorks metric, by itself in one pass.
    """
    channels: list[Channel] = []
    missing: list[tuple[str, str]] = []
    for name in names:
        channel = BY_NAME.get(name)
        if channel is not None:
            spelling = next((metric for metric in channel.spellings if can_sample(metric)), None)
            if spelling is None:
                missing.append((name, "this GPU does not have it, or not in one pass"))
            else:
                channels.append(Channel(name, channel.unit, (Term(1, spelling),), False))
            continue
        counted = counter_plan([name], chip)
        missing += counted.missing
        for recipe in counted.recipes:
            if all(can_sample(term.metric) for term in recipe.terms):
                channels.append(_channel(recipe.name, recipe.unit, recipe.terms))
            else:
                missing.append((recipe.name, "it is counted kernel by kernel only (--metrics)"))
    metrics = dict.fromkeys(term.metric for channel in channels for term in channel.terms)
    return Plan(tuple(metrics), tuple(channels), tuple(missing))


def _channel(name: str, unit: str, terms: tuple[Term, ...]) -> Channel:
    """The channel of a counter or PerfWorks metric; values that add up over time become rates."""
    if is_perfworks(name) and not adds_up(name):
        return Channel(name, unit_of(name), terms, False)
    return Channel(name, "ratio" if unit == "ns" else f"{unit}/s", terms, True)


def adds_up(metric: str) -> bool:
    """Whether values of successive samples can be added, according to the metric's name.

    This is true of `dram__bytes.sum`, and of `sm__cycles_active.avg`, an average over the SMs, but
    not of shares, ratios and rates (`.pct`, `.ratio`, `.per_second`, `.per_cycle_active`,
    `.peak_sustained`).
    """
    base, _, rest = metric.partition(".")
    if base.endswith("_throughput") or any(
        word in rest for word in ("pct", "ratio", "per_second", "per_cycle", "max_rate")
    ):
        return False
    return not rest.endswith("peak_sustained")


def fitting(
    metrics: Iterable[str], passes: Callable[[tuple[str, ...]], int | None]
) -> tuple[str, ...]:
    """The metrics that fit into one pass, chosen in this order."""
    kept: tuple[str, ...] = ()
    for metric in metrics:
        if passes((*kept, metric)) == 1:
            kept = (*kept, metric)
    return kept
