"""Rule: matrix products without tensor cores, although their data types allow them.

The names of NVIDIA's kernels show this: `ampere_sgemm_128x64_tn` and
`sm80_xmma_gemm_f32f32_f32f32_f32_nn_..._ffma_...` use FP32 units, `ampere_fp16_s16816gemm_fp16_...`
matrix instructions of 16 x 8 x 16. `cutlass_75_tensorop_f16_s1688gemm_f16_256x128_nn_align1` uses
those, too, but loads elements one by one, since rows are not aligned: on an H100 it takes five
times as long as one that need not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taupy.analysis.findings import kernels
from taupy.analysis.findings.calls import largest_part
from taupy.analysis.findings.gpu_clock import GpuClock, gpu_clock
from taupy.analysis.findings.trial import Trial
from taupy.catalog.datasheets import datasheet
from taupy.dataclass import NamedTuple
from taupy.model.finding import Finding
from taupy.units import duration, percent

KIND = "tensor cores unused"
NEEDS = ("host", "gpu")

_GEMM = re.compile(r"gemm|implicit_convolve|scudnn|_conv", re.IGNORECASE)
_BY_MATRICES = re.compile(
    r"[sdhi]\d{3,}|tensorop|xmma|wgmma|tf32|hmma|imma|bf16|sm(90|100|120)", re.IGNORECASE
)
_BY_SINGLE = re.compile(r"_ffma_|f32f32_f32f32_f32", re.IGNORECASE)
_UNALIGNED = re.compile(r"f16.*_align[12]\b", re.IGNORECASE)
_HALF = re.compile(r"fp16|f16|half|hgemm", re.IGNORECASE)
_SINGLE = re.compile(r"sgemm|fp32|f32|simt|scudnn", re.IGNORECASE)


class _Type(NamedTuple):
    """A data type: the units that were used, and those that it could use."""

    name: str
    how: str
    used: str
    allowed: str
    since: float
    attempt: str


_TYPES = {
    "half": _Type("half precision", "without tensor cores, or for rows that are not aligned",
                  "fp16", "tensor fp16", 7.0,
                  "make widths, heads and batches multiples of 8, and let cuBLAS choose"),
    "single": _Type("FP32", "without tensor cores", "fp32", "tensor tf32", 8.0,
                    "torch.set_float32_matmul_precision('high') allows TF32; torch.autocast "
                    "allows bfloat16"),
}  # fmt: skip


def find(trial: Trial) -> Iterator[Finding]:
    clock = gpu_clock(trial)
    if clock is None:
        return
    capability = _capability(clock)
    for name, kind in _TYPES.items():
        plain = [kernel for kernel in kernels.kernels(clock)
                 if type_without(kernel.timer.timer) == name]  # fmt: skip
        if not plain or capability < kind.since:
            continue
        gpu = sum(kernel.ns for kernel in plain)
        gone = gpu * (1 - _ratio(clock, kind))
        yield Finding(
            KIND,
            f"products in {kind.name} take {duration(gpu)} of the GPU, "
            f"{percent(100 * gpu / clock.busy_ns)} % of its time, {kind.how}"
            f"{largest_part(plain[0].timer.short_name, plain[0].ns, gpu)}",
            saved_ns=clock.saved_ns(gpu=gone),
            wall_ns=trial.wall_ns,
            evidence=(kernels.evidence(trial, plain),),
            confidence="medium",
            attempt=kind.attempt,
            refuted_by="the products need all of FP32's bits, or are limited by memory and not by "
            "arithmetic",
        )


def type_without(name: str) -> str | None:
    """The data type of a matrix product that does not use tensor cores, or not well; None for any
    other kernel."""
    if not _GEMM.search(name):
        return None
    if _UNALIGNED.search(name):
        return "half"
    if _BY_SINGLE.search(name):
        return "single"
    if _BY_MATRICES.search(name):
        return None
    if _HALF.search(name):
        return "half"
    return "single" if _SINGLE.search(name) else None


def _capability(clock: GpuClock) -> float:
    for device in clock.trial.devices:
        if (device.node, device.ordinal + 1) == clock.device:
            try:
                return float(device.compute_capability)
            except ValueError:  # an imported file's text
                return 0.0
    return 0.0


def _ratio(clock: GpuClock, kind: _Type) -> float:
    """Share of the time that would remain at the tensor cores' peak; 0 if the peaks are unknown."""
    for device in clock.trial.devices:
        sheet = datasheet(device.name)
        if sheet and kind.used in sheet.peaks and kind.allowed in sheet.peaks:
            return sheet.peaks[kind.used] / sheet.peaks[kind.allowed]
    return 0.0
