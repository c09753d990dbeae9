"""Peaks in Nsight Compute's files: the GPU's limits at the clock rates of the measurement.

For each launch, its roofline sections contain the peak of a unit per cycle (`.sum.peak_sustained`)
and the unit's clock rate; their product is the roof of that launch. Peaks become facts of the
device, which `model.machine.reported` turns into ceilings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from taupy.model.gpu import Fact
from taupy.model.machine import CLOCK_FACT, ROOF_FACT

_PEAK: Final = ".sum.peak_sustained"
_PEAK_RATE: Final = ".sum.peak_sustained_elapsed.per_second"


class _Way(NamedTuple):
    """One formula for a roof: a metric per cycle, its weight, and the unit whose cycles count."""

    metric: str
    weight: int
    unit: str


def _vector(letter: str, operations: int) -> tuple[_Way, ...]:
    """Fused multiply-adds: 2 operations each, or 4 for packed fp16."""
    name = f"sass_thread_inst_executed_op_{letter}fma_pred_on"
    return (
        _Way(f"sm__{name}", operations, "sm"),
        _Way(f"smsp__{name}", operations, "sm"),
        _Way(f"derived__sm__{name}_x{operations}", 1, "sm"),
    )


def _tensor(*sources: str) -> tuple[_Way, ...]:
    return tuple(
        _Way(f"sm__ops_path_tensor_src_{source}{sparsity}", 1, "sm")
        for source in sources
        for sparsity in ("", "_sparsity_off")
    )


# The first formula counts whose metrics the file has; for tensor cores, the one with the highest
# rate.
_COMPUTE: Final = {
    "fp64": _vector("d", 2),
    "fp32": _vector("f", 2),
    "fp16": _vector("h", 4),
    "tensor fp64": _tensor("fp64"),
    "tensor tf32": _tensor("tf32_dst_fp32"),
    "tensor bf16": _tensor("bf16_dst_fp32"),
    "tensor fp16": _tensor("fp16", "fp16_dst_fp16", "fp16_dst_fp32", "fp16_bf16_tf32_dst_fp32"),
    "tensor fp8": _tensor("fp8", "fp8_dst_fp16", "fp8_dst_fp32"),
    "tensor int8": _tensor("int8"),
}

_MEMORY: Final = {
    "L1": (
        _Way("derived__l1tex__lsu_writeback_bytes_mem_lgds", 1, "sm"),
        _Way("derived__l1tex__lsu_writeback_bytes_mem_lg", 1, "sm"),
        _Way("l1tex__lsu_writeback_active_mem_lgds", 128, "sm"),
        _Way("l1tex__lsu_writeback_active_mem_lg", 128, "sm"),
    ),
    "L2": (
        _Way("derived__lts__lts2xbar_bytes", 1, "lts"),
        _Way("lts__lts2xbar_cycles_active", 32, "lts"),
        _Way("l1tex__m_xbar2l1tex_read_bytes", 1, "lts"),
    ),
    "DRAM": (_Way("dram__bytes", 1, "dram"),),
}

# The clocks that may be used for a unit: SMs, their partitions and their caches share one.
_CLOCKS: Final = {"sm": ("sm", "smsp", "l1tex"), "lts": ("lts",), "dram": ("dram",)}


class Peaks:
    """The highest roofs over the launches of one device."""

    def __init__(self) -> None:
        self._best: dict[str, tuple[float, str]] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """Add the peaks of one launch, given by metric in base units."""
        for name, unit, value in _peaks_in(values):
            if 0 < value < float("inf") and value > self._best.get(name, (0.0, ""))[0]:
                self._best[name] = value, unit

    def facts(self) -> tuple[Fact, ...]:
        """The peaks as facts of the device, in flop/s, op/s, B/s and Hz."""
        return tuple(Fact(name, value, unit) for name, (value, unit) in self._best.items())


def _peaks_in(values: Mapping[str, float]) -> Iterator[tuple[str, str, float]]:
    for name, ways in (*_COMPUTE.items(), *_MEMORY.items()):
        rates = [rate for way in ways if (rate := _rate(values, way)) is not None]
        if rates:
            unit = "B/s" if name in _MEMORY else "op/s" if name.endswith("int8") else "flop/s"
            yield ROOF_FACT + name, unit, max(rates) if "tensor" in name else rates[0]
    clock = _clock(values, "sm")
    if clock is not None:
        yield CLOCK_FACT, "Hz", clock


def _rate(values: Mapping[str, float], way: _Way) -> float | None:
    """The peak rate of a unit; None if the file does not contain it."""
    if way.metric + _PEAK_RATE in values:
        return way.weight * values[way.metric + _PEAK_RATE]
    derived = way.metric if way.metric.startswith("derived__sm__") else ""
    peak = values.get(way.metric + _PEAK, values.get(derived))
    clock = _clock(values, way.unit)
    return None if peak is None or clock is None else way.weight * peak * clock


def _clock(values: Mapping[str, float], unit: str) -> float | None:
    """The clock rate of a unit, in Hz; None if the file does not contain it."""
    for clock in _CLOCKS[unit]:
        if f"{clock}__cycles_elapsed.avg.per_second" in values:
            return values[f"{clock}__cycles_elapsed.avg.per_second"]
    return None
