"""Turn a sum into a point: flop by precision, bytes by level, and what was not counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from taupy.model.work import (
    BLAS_ALONE,
    COUNTED_OPERATIONS,
    GPU_PRECISIONS,
    LEVEL_OF,
    PRECISION_OF,
    UNCOUNTED,
    Tier,
    TrialWork,
)
from taupy.roofline.gathering import Sum
from taupy.roofline.point import Of, Point
from taupy.units import duration, verb

_WITHOUT_FORMULA = "operations without a formula"

_MOSTLY = 0.95
"""Share of the time above which counted launches represent a whole phase."""


def gpu_point(work: TrialWork, of: Of, total: Sum) -> Point:
    """Launches on a GPU; rates refer to the counted ones."""
    notes = []
    if total.counted < total.launches and not total.rated:
        notes.append(
            f"{total.counted} of {total.launches} launches {verb(total.counted, 'were')} counted"
        )
    seconds = total.time_ns / 1e9
    values: Mapping[str, float] = total.values
    alone = total.rated > 0 and not seconds > 0
    if alone:
        seconds = 1.0
        values = {name: rate / total.rated for name, rate in total.per_second.items()}
        if total.rated > 1:
            notes.append(f"mean of the rates of {total.rated} launches without known durations")
    bytes_of = _bytes(values)
    for level in [level for level in bytes_of if level in total.lacking]:
        del bytes_of[level]
        notes.append(
            f"{level} bytes omitted: not counted for {total.lacking[level]} of {total.counted} "
            "launches"
        )
    flop = _flop(values)
    uncounted = tuple(_uncounted(total, flop)) if flop else ()
    if of not in ("kernel", "launch") and total.uncounted_ns > (1 - _MOSTLY) * total.run_ns:
        uncounted = (*uncounted, f"{total.launches - total.counted} of {total.launches} launches")
    if total.lacks_formulas:
        uncounted = (*uncounted, _WITHOUT_FORMULA)
    rates = _Rates(values, flop, bytes_of, uncounted, alone)
    where = _Where(work.gpus, total.run_ns / 1e9, seconds, notes)
    return _point(work, of, total, rates, where)


def _uncounted(total: Sum, flop: Mapping[str, float]) -> Iterator[str]:
    """Names of precisions that were not counted for all launches."""
    some_types = any(name.startswith("tensor ") for name in flop)
    for name in GPU_PRECISIONS:
        if name in total.lacking:
            yield "other types of tensor cores" if name == "tensor" and some_types else name


def host_point(work: TrialWork, of: Of, total: Sum) -> Point:
    """Work of a CPU. Threads run in parallel, so the time is that of the longest thread."""
    seconds = max(total.thread_ns.values(), default=0.0) / 1e9
    notes = []
    if len(total.thread_ns) > 1:
        whole = sum(total.thread_ns.values())
        note = (
            f"{total.place.short}: on {len(total.thread_ns)} threads; the time is the longest one's"
        )
        if seconds > 0:
            note += (
                f", assuming that they overlap; run one after another they take "
                f"{duration(whole)}, and rates are {whole / 1e9 / seconds:.3g}x lower"
            )
        notes.append(note)
    analytic = "analytic" in {_tier([name], work) for name in total.values}
    uncounted: tuple[str, ...] = ()
    if analytic and BLAS_ALONE in work.metadata:
        library = work.metadata[BLAS_ALONE]
        uncounted = (f"operations other than {library} calls",)
        notes.append(
            f"analytic: {library} calls from their shapes; other operations "
            "(element-wise ones, convolutions) are not counted"
        )
    elif total.lacks_formulas or (
        analytic and COUNTED_OPERATIONS in work.metadata and UNCOUNTED in work.metadata
    ):
        uncounted = (_WITHOUT_FORMULA,)
    if "bytes_dram_read" in total.values:
        notes.append("DRAM bytes are cache lines read (also for writing), without write-backs")
    values = total.values
    rates = _Rates(values, _flop(values), _bytes(values), uncounted)
    return _point(work, of, total, rates, _Where([work.processor], seconds, seconds, notes))


@dataclass(frozen=True, slots=True)
class _Rates:
    """What was counted in a point.

    Attributes:
        values: counts by metric.
        flop: flop by precision.
        bytes: bytes by level.
        uncounted, alone: as in `Point` (`rates_alone`).
    """

    values: Mapping[str, float]
    flop: dict[str, float]
    bytes: dict[str, float]
    uncounted: tuple[str, ...]
    alone: bool = False


@dataclass(frozen=True, slots=True)
class _Where:
    """The processors that a point ran on, its times [s], and remarks."""

    processors: Sequence[str]
    run_time: float
    time: float
    notes: Sequence[str]


def _point(work: TrialWork, of: Of, total: Sum, rates: _Rates, where: _Where) -> Point:
    flop, values = rates.flop, rates.values
    flop_tier = _tier([name for name in values if name in PRECISION_OF], work)
    if rates.uncounted and not any(flop.values()):
        flop, flop_tier = {}, "unknown"  # the counted operations are zero, others are unknown
    return Point(
        name=total.place.name,
        short=total.place.short,
        of=of,
        trial=work.trial_id,
        trial_name=work.name,
        processor=" + ".join(where.processors),
        calls=total.calls,
        launches=total.launches,
        counted=total.counted,
        run_time=where.run_time,
        time=where.time,
        flop=flop,
        bytes=rates.bytes,
        flop_tier=flop_tier,
        bytes_tier=_tier([name for name in values if name in LEVEL_OF], work),
        uncounted=rates.uncounted,
        rates_alone=rates.alone,
        notes=tuple(where.notes),
    )


def _tier(metrics: Sequence[str], work: TrialWork) -> Tier:
    if not metrics:
        return "unknown"
    stated = {noted.metric for noted in work.noted} - set(work.metrics)
    return "analytic" if stated.intersection(metrics) else "measured"


def _bytes(values: Mapping[str, float]) -> dict[str, float]:
    return {
        LEVEL_OF[name]: values[name]
        for name in LEVEL_OF
        if name in values and not (name == "bytes_dram_read" and "bytes_dram" in values)
    }


def _flop(values: Mapping[str, float]) -> dict[str, float]:
    """Flop by precision; tensor flop of unknown precision are "tensor"."""
    by_precision = {
        PRECISION_OF[name]: values[name]
        for name in PRECISION_OF
        if name in values and name != "flop_tensor"
    }
    if "flop_tensor" in values:
        # Integer operations are not flop, so they are not part of it.
        with_precision = sum(
            value
            for name, value in by_precision.items()
            if name.startswith("tensor ") and name != "tensor int8"
        )
        rest = values["flop_tensor"] - with_precision
        # Counts of two passes differ in their last digits.
        if rest > 1e-6 * values["flop_tensor"] or not with_precision:
            by_precision["tensor"] = max(rest, 0.0)
    if "any" in by_precision and len(by_precision) > 1:
        del by_precision["any"]  # the same operations, not split by precision
    return by_precision
