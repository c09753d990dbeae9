"""taupy's counters for one launch, computed from Nsight Compute's metrics.

Sums are used directly. NVIDIA's roofline sections contain rates only (operations per cycle, bytes
per second); with a duration they are converted to sums, otherwise they remain rates. Nothing is
guessed: tensor-core operations come from counters of operations only, since counts of instructions
on the tensor pipe show neither their shape nor how many of them are HFMA2.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from taupy.catalog import architectures, spelling
from taupy.catalog.counters import BY_NAME, COUNTERS
from taupy.formats import limits

DURATION: Final = "gpu__time_duration.sum"

# A level's bytes, if not counted directly: the first of these sums that the file has.
_BYTES: Final = {
    "bytes_dram": (
        (("dram__bytes_read.sum", 1), ("dram__bytes_write.sum", 1)),
        (("dram__bytes_op_read.sum", 1), ("dram__bytes_op_write.sum", 1)),
        (("dram__sectors_read.sum", 32), ("dram__sectors_write.sum", 32)),
        (("dram__sectors_op_read.sum", 32), ("dram__sectors_op_write.sum", 32)),
    ),
    "bytes_l2": ((("lts__t_sectors.sum", 32),),),
    "bytes_l1": ((("l1tex__t_sectors.sum", 32),),),
}

# NVIDIA's hierarchical rooflines use the bytes delivered by the caches instead.
_HANDED_OUT: Final = {
    "bytes_l2": ("derived__lts__lts2xbar_bytes.sum",),
    "bytes_l1": (
        "derived__l1tex__lsu_writeback_bytes_mem_lg.sum",
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum",
    ),
}

_RATE: Final = re.compile(
    r"(?P<unit>\w+?)__(?P<rest>[^.]+)\.sum\.(?P<per>per_second|per_cycle_elapsed)"
)

# Counts of elapsed cycles, with the clock rates that may accompany them.
_CYCLES: Final = tuple(
    (f"{unit}__cycles_elapsed.{part}", f"{clock}__cycles_elapsed.avg.per_second")
    for part in ("avg", "max")
    for unit in ("sm", "smsp", "gpc")
    for clock in dict.fromkeys((unit, "sm", "smsp", "gpc"))
)

_SPARSE: Final = re.compile(
    r"(sm__ops_path_tensor_src_\w+?)_sparsity_off\.sum(|\.per_second|\.per_cycle_elapsed)"
)

# If one of these is 0, the tensor pipe was idle. Averages and percentages do not show this, since
# they are rounded.
_TENSOR_PIPE: Final = re.compile(
    r"sm(?:sp)?__(?:inst_executed_pipe_tensor(?:_v2)?|pipe_tensor_cycles_active)\.(?:sum|max)"
)
_MMA: Final = tuple(
    tuple(f"{unit}__inst_executed_pipe_tensor_op_{kind}.sum" for unit in ("sm", "smsp"))
    for kind in ("hmma", "dmma")
)


class Counters(NamedTuple):
    """taupy's counters for one launch; missing ones were not counted.

    Attributes:
        sums: sums over the launch, including `counted_time` [ns] if the duration is known.
        per_second: flop and bytes per second of a launch without a duration, by counter
            name.
        time_ns: its duration; None if the file lacks it.
        from_rates: whether sums were computed from rates and the duration.
        handed_out: whether a cache's bytes are those delivered, not those requested.
        tensor_unknown: whether instructions ran on the tensor pipe whose operations were not
            counted.
    """

    sums: dict[str, float]
    per_second: dict[str, float]
    time_ns: float | None
    from_rates: bool
    handed_out: bool
    tensor_unknown: bool


def counters(values: Mapping[str, float], capability: str = "") -> Counters:
    """taupy's counters for a launch.

    Args:
        values: values by metric, in base units (B, ns, Hz, 1).
        capability: the chip's compute capability, such as "9.0"; it determines the data types of
            its tensor cores, the sum of which is `flop_tensor`. Empty if unknown.
    """
    time_ns = duration_ns(values)
    counted = _with_sparsity(values)
    idle = _tensor_cores_idle(values, capability)
    sums, handed_out = _sums(counted, capability, idle)
    rates = _from_rates(counted, 1e9 if time_ns is None else time_ns)
    per_second: dict[str, float] = {}
    before = len(sums)
    if rates and time_ns is None:
        sums_of_rates, _ = _sums(rates, capability, idle)
        per_second = {
            name: sums_of_rates[name]
            for name in sums_of_rates
            if name.startswith(("flop", "bytes"))
        }
    elif rates:
        sums, handed_out = _sums({**rates, **counted}, capability, idle)
    from_rates = len(sums) > before
    if time_ns is not None:
        sums["counted_time"] = time_ns
    unknown = idle is False and "flop_tensor" not in {*sums, *per_second}
    return Counters(sums, per_second, time_ns, from_rates, handed_out, unknown)


def duration_ns(values: Mapping[str, float]) -> float | None:
    """The duration; if missing, cycles divided by their rate, which agrees to 1e-6."""
    duration = values.get(DURATION)
    if duration is None:
        for cycles, rate in _CYCLES:
            if cycles in values and values.get(rate):
                duration = values[cycles] / values[rate] * 1e9
                break
    return duration if duration is not None and 0 <= duration < limits.SLICE_NS else None


@functools.lru_cache(maxsize=1024)
def of_ours_alone(names: frozenset[str]) -> frozenset[str]:
    """The metrics that are equal to one of these taupy counters."""
    metrics: set[str] = set()
    for name in names:
        for text in BY_NAME[name].spellings:
            terms = spelling.terms(text)
            if len(terms) == 1 and terms[0].weight == 1:
                metrics.update(_alike(terms[0].metric))
    return frozenset(metrics)


def _sums(
    counted: Mapping[str, float], capability: str, idle: bool | None
) -> tuple[dict[str, float], bool]:
    """taupy's counters computed from sums, and whether some bytes are those delivered by a cache.

    Args:
        idle: whether the tensor cores were idle; None if unknown.
    """
    sums = {
        recipe.name: value
        for recipe in _recipes(frozenset(_SPELLED.intersection(counted)), capability)
        if (value := recipe.value(counted)) is not None
    }
    for level, ways in _BYTES.items():
        for parts in ways if level not in sums else ():
            if all(name in counted for name, _ in parts):
                sums[level] = sum(counted[name] * weight for name, weight in parts)
                break
    handed_out = {
        level: counted[name]
        for level, names in _HANDED_OUT.items()
        for name in names
        if level not in sums and name in counted
    }
    sums |= handed_out
    if idle:
        sums.setdefault("flop_tensor", 0)
    return sums, bool(handed_out)


def _tensor_cores_idle(values: Mapping[str, float], capability: str) -> bool | None:
    """Whether the tensor cores were idle; None if no counter shows it.

    False only means that their pipe was in use, since Ampere possibly for HFMA2 only.
    """
    text = capability.partition(".")[0]
    major = int(text) if text.isdecimal() and len(text) < 4 else 0
    if 0 < major < 7:
        return True  # there were none before Volta
    if major in (10, 11):
        return None  # tcgen05 has a separate pipe
    pipe = [value for name, value in values.items() if _TENSOR_PIPE.fullmatch(name)]
    if pipe:
        return not all(pipe)
    by_kind = [next((values[name] for name in names if name in values), None) for names in _MMA]
    if any(by_kind):
        return False
    return True if None not in by_kind else None


def _alike(metric: str) -> tuple[str, ...]:
    """The metric, and the one with the same value: sums over sm and smsp are equal."""
    unit, _, rest = metric.partition("__")
    if unit in ("sm", "smsp") and rest.endswith(".sum"):
        return metric, f"{'smsp' if unit == 'sm' else 'sm'}__{rest}"
    return (metric,)


_SPELLED: Final = frozenset(
    alike
    for counter in COUNTERS
    for text in counter.spellings
    for term in spelling.terms(text)
    for alike in _alike(term.metric)
)
"""All metrics from which taupy's counters are computed."""


@functools.lru_cache(maxsize=1024)
def _recipes(names: frozenset[str], capability: str) -> tuple[spelling.Recipe, ...]:
    """How to compute taupy's counters from these metrics; sums over SMs and over their partitions
    are equal."""
    recipes = []
    for counter in COUNTERS:
        for wanted in _spellings(counter.name, capability):
            if terms := _in_file(wanted, names):
                recipes.append(spelling.Recipe(counter.name, counter.unit, terms))
                break
    return tuple(recipes)


def _in_file(
    wanted: Sequence[spelling.Term], names: frozenset[str]
) -> tuple[spelling.Term, ...] | None:
    """The terms with metrics of the file; None if it lacks one."""
    terms = []
    for term in wanted:
        name = next((alike for alike in _alike(term.metric) if alike in names), None)
        if name is None:
            return None
        terms.append(spelling.Term(term.weight, name))
    return tuple(terms)


def _spellings(name: str, capability: str) -> list[tuple[spelling.Term, ...]]:
    """The possible formulas of a counter. A sum over data types of tensor cores must include all
    types that the chip has; for an unknown chip, at least Ampere's."""
    every = [spelling.terms(text) for text in BY_NAME[name].spellings]
    if not name.startswith("flop_tensor"):
        return every
    chip = architectures.of_compute_capability(capability)
    if chip is not None:
        own = spelling.spelled(name, chip.name)
        return [] if own is None else [own]
    if name != "flop_tensor":
        return every
    return [terms for terms in every if any("src_bf16" in term.metric for term in terms)]


def _with_sparsity(values: Mapping[str, float]) -> Mapping[str, float]:
    """Add up the operations of dense and sparse products if they were counted separately."""
    added = {}
    for name, value in values.items():
        match = _SPARSE.fullmatch(name)
        if match is not None:
            sparse = values.get(f"{match[1]}_sparsity_on.sum{match[2]}")
            whole = f"{match[1]}.sum{match[2]}"
            if sparse is not None and whole not in values:
                added[whole] = value + sparse
    return {**values, **added} if added else values


def _from_rates(values: Mapping[str, float], time_ns: float) -> dict[str, float]:
    """Sums of metrics that the file has only as rates, as in NVIDIA's roofline sections."""
    totals = {}
    for name, value in values.items():
        rate = _rate(name)
        if rate is None or rate.total in values:
            continue
        if rate.per_cycle:
            hertz = _clock(values, rate.unit)
            if hertz is not None:
                totals[rate.total] = value * hertz * time_ns / 1e9
        else:
            totals[rate.total] = value * time_ns / 1e9
    return totals


class _Rate(NamedTuple):
    """A metric that is a rate: the name of its sum, its unit of the chip, and whether it is per
    cycle of that unit."""

    total: str
    unit: str
    per_cycle: bool


@functools.lru_cache(maxsize=4096)
def _rate(name: str) -> _Rate | None:
    match = _RATE.fullmatch(name)
    if match is None or "cycles_elapsed" in name:
        return None
    total = f"{match['unit']}__{match['rest']}.sum"
    return _Rate(total, match["unit"], match["per"] != "per_second")


def _clock(values: Mapping[str, float], unit: str) -> float | None:
    units = (unit, "smsp" if unit == "sm" else "sm") if unit in ("sm", "smsp") else (unit,)
    for clock in units:
        if f"{clock}__cycles_elapsed.avg.per_second" in values:
            return values[f"{clock}__cycles_elapsed.avg.per_second"]
    return None
