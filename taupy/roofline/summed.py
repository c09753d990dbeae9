"""Turn a sum into a point: flop by precision, bytes by level, and what was not counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from taupy.model.work import (
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
from taupy.units import duration

BLAS_ALONE = "taupy.option.analytic"
"""Metadata that names the library whose calls were counted."""

_MOSTLY = 0.95
"""Share of the time above which counted launches represent a whole phase."""


def gpu_point(work: TrialWork, of: Of, one: Sum) -> Point:
    """Launches on a GPU; rates refer to the counted ones."""
    notes = []
    if one.counted < one.launches and not one.rated:
        notes.append(f"{one.counted} of {one.launches} launches were counted")
    seconds = one.time_ns / 1e9
    values: Mapping[str, float] = one.values
    alone = one.rated > 0 and not seconds > 0
    if alone:
        seconds = 1.0
        values = {name: rate / one.rated for name, rate in one.per_second.items()}
        if one.rated > 1:
            notes.append(f"mean of the rates of {one.rated} launches without known durations")
    bytes_of = _bytes(values)
    for level in [level for level in bytes_of if level in one.lacking]:
        del bytes_of[level]
        notes.append(
            f"{level} bytes omitted: not counted for {one.lacking[level]} of {one.counted} launches"
        )
    flop = _flop(values)
    uncounted = tuple(_uncounted(one, flop)) if flop else ()
    if of not in ("kernel", "launch") and one.uncounted_ns > (1 - _MOSTLY) * one.run_ns:
        uncounted = (*uncounted, f"{one.launches - one.counted} of {one.launches} launches")
    return _point(
        work,
        of,
        one,
        processor=_joined(work.gpus),
        run_time=one.run_ns / 1e9,
        time=seconds,
        values=values,
        flop=flop,
        bytes_of=bytes_of,
        uncounted=uncounted,
        notes=notes,
        rates_alone=alone,
    )


def _uncounted(one: Sum, flop: Mapping[str, float]) -> Iterator[str]:
    """Names of precisions that were not counted for all launches."""
    some_types = any(name.startswith("tensor ") for name in flop)
    for name in GPU_PRECISIONS:
        if name in one.lacking:
            yield "other types of tensor cores" if name == "tensor" and some_types else name


def host_point(work: TrialWork, of: Of, one: Sum) -> Point:
    """Work of a CPU. Threads run in parallel, so the time is that of the longest thread."""
    seconds = max(one.thread_ns.values(), default=0.0) / 1e9
    notes = []
    if len(one.thread_ns) > 1:
        whole = sum(one.thread_ns.values())
        note = f"{one.place.short}: on {len(one.thread_ns)} threads; the time is the longest one's"
        if seconds > 0:
            note += (
                f", assuming that they overlap; run one after another they take "
                f"{duration(whole)}, and rates are {whole / 1e9 / seconds:.3g}x lower"
            )
        notes.append(note)
    analytic = "analytic" in {_tier([name], work) for name in one.values}
    uncounted: tuple[str, ...] = ()
    if analytic and BLAS_ALONE in work.metadata:
        library = work.metadata[BLAS_ALONE]
        uncounted = (f"operations other than {library} calls",)
        notes.append(
            f"analytic: {library} calls from their shapes; other operations "
            "(element-wise ones, convolutions) are not counted"
        )
    elif analytic and COUNTED_OPERATIONS in work.metadata and UNCOUNTED in work.metadata:
        uncounted = ("operations without a formula",)
    if "bytes_dram_read" in one.values:
        notes.append("DRAM bytes are cache lines read (also for writing), without write-backs")
    return _point(
        work,
        of,
        one,
        processor=work.processor,
        run_time=seconds,
        time=seconds,
        values=one.values,
        flop=_flop(one.values),
        bytes_of=_bytes(one.values),
        uncounted=uncounted,
        notes=notes,
    )


def _point(
    work: TrialWork,
    of: Of,
    one: Sum,
    *,
    processor: str,
    run_time: float,
    time: float,
    values: Mapping[str, float],
    flop: dict[str, float],
    bytes_of: dict[str, float],
    uncounted: tuple[str, ...],
    notes: Sequence[str],
    rates_alone: bool = False,
) -> Point:
    flop_tier = _tier([name for name in values if name in PRECISION_OF], work)
    if uncounted and not any(flop.values()):
        flop, flop_tier = {}, "unknown"  # none of what was counted, and the rest is not known
    return Point(
        name=one.place.name,
        short=one.place.short,
        of=of,
        trial=work.trial_id,
        trial_name=work.name,
        processor=processor,
        calls=one.calls,
        launches=one.launches,
        counted=one.counted,
        run_time=run_time,
        time=time,
        flop=flop,
        bytes=bytes_of,
        flop_tier=flop_tier,
        bytes_tier=_tier([name for name in values if name in LEVEL_OF], work),
        uncounted=uncounted,
        rates_alone=rates_alone,
        notes=tuple(notes),
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
    found = {
        PRECISION_OF[name]: values[name]
        for name in PRECISION_OF
        if name in values and name != "flop_tensor"
    }
    if "flop_tensor" in values:
        # Integer operations are no flop, and not part of it.
        told = sum(
            value
            for name, value in found.items()
            if name.startswith("tensor ") and name != "tensor int8"
        )
        rest = values["flop_tensor"] - told
        # Counts of two passes differ in their last digits.
        if rest > 1e-6 * values["flop_tensor"] or not told:
            found["tensor"] = max(rest, 0.0)
    if "any" in found and len(found) > 1:
        del found["any"]  # the same operations, not told apart
    return found


def _joined(names: Sequence[str]) -> str:
    return " + ".join(names)
