"""Export points as CSV with every number, or in the CSV format of Nsight Compute."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from taupy.roofline import numbers
from taupy.roofline.point import Point

_INSTRUCTIONS = {
    "fp64": "sm__sass_thread_inst_executed_op_d",
    "fp32": "sm__sass_thread_inst_executed_op_f",
    "fp16": "sm__sass_thread_inst_executed_op_h",
}
_TENSOR = {
    "tensor": "fp16_dst_fp32",
    "tensor fp64": "fp64",
    "tensor tf32": "tf32_dst_fp32",
    "tensor fp16": "fp16_dst_fp32",
    "tensor bf16": "bf16_dst_fp32",
    "tensor fp8": "fp8_dst_fp32",
    "tensor fp4": "fp4_dst_fp32",
    "tensor int8": "int8",
}
# A sum over all types is known only if each of them was counted, even if the count is zero.
_TENSOR_PATHS = (
    *("fp64", "tf32_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "bf16_dst_fp32"),
    *("fp8_dst_fp16", "fp8_dst_fp32", "fp4_fp6_dst_fp16", "fp4_fp6_dst_fp32", "fp4_dst_fp32"),
    "int8",
)
_BYTES = {"L1": "l1tex__t_bytes.sum", "L2": "lts__t_bytes.sum", "DRAM": "dram__bytes.sum"}
_BY_LEVEL = ("bytes", "intensity", "bandwidth", "ideal_level_times")
_NCU_COLUMNS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "Section Name"),
    *("Metric Name", "Metric Unit", "Metric Value"),
)


def table_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Every number of a chart's points, one row per point; empty where not measured."""
    levels, precisions = numbers.levels_and_precisions(records)
    names = (
        *("rank", "name", "short", "of", "trial", "trial_name", "processor", "series", "parameter"),
        *("calls", "launches", "counted_launches", "run_time_s", "counted_time_s", "share"),
        *("covered", "flop_tier", "bytes_tier", "uncounted", "flop"),
        *(numbers.column_name("flop", precision) for precision in precisions),
        *(numbers.column_name(number, level) for level in levels for number in _BY_LEVEL),
        *("flop_s", "ideal_compute_time_s", "launch_overhead_s", "peak_flop_s", "roof_share"),
        *("bound_by", "notes"),
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in map(numbers.by_column, records):
        writer.writerow([_safe(row.get(name)) for name in names])
    return text.getvalue()


def _safe(value: Any) -> Any:
    """Prefix text that a spreadsheet would interpret as a formula with `'`."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def ncu_csv(points: Iterable[Point]) -> str:
    """Kernels in the long form of `ncu --csv`: one "launch" per kernel, holding its sums.

    Flop are written as add instructions, so that add + mul + 2 fma gives them exactly.
    Half-precision instructions count as two flop (packed), as in NVIDIA's own section. Tensor
    flop are operations of the tensor path. Only counted quantities are written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(_NCU_COLUMNS)
    for number, point in enumerate(points):
        start = [number, 0, "taupy", "127.0.0.1", point.name, 1, 7]
        start += ["(1, 1, 1)", "(1, 1, 1)", 0, "", "Command line profiler metrics"]
        for metric, unit, value in _metrics(point):
            shown = str(int(value)) if value == int(value) else repr(value)
            writer.writerow([*start, metric, unit, shown])
    return text.getvalue()


def _metrics(point: Point) -> Iterable[tuple[str, str, float]]:
    yield "gpu__time_duration.sum", "nsecond", point.time * 1e9
    if point.flop_tier != "unknown":
        for precision, stem in _INSTRUCTIONS.items():
            if precision not in point.flop:
                continue
            packed = 2 if precision == "fp16" else 1
            yield f"{stem}add_pred_on.sum", "inst", point.flop[precision] / packed
            yield f"{stem}mul_pred_on.sum", "inst", 0
            yield f"{stem}fma_pred_on.sum", "inst", 0
        if any(precision in point.flop for precision in _TENSOR):
            paths = dict.fromkeys(_TENSOR_PATHS, 0.0)
            for precision, path in _TENSOR.items():
                paths[path] += point.flop.get(precision, 0.0)
            for path, flop in paths.items():
                yield f"sm__ops_path_tensor_src_{path}.sum", "", flop
    for level, metric in _BYTES.items():
        if level in point.bytes:
            yield metric, "byte", point.bytes[level]
