"""Names of metrics on Nsight Compute's pages: labels of the details page, names of columns."""

from __future__ import annotations

import re
from typing import Final

from taupy.formats import limits

METRIC: Final = re.compile(r"[a-z]\w*__\w+(?:\.\w+)*")
"""A metric's own name, such as `dram__bytes.sum.per_second`."""

_LABELS: Final = {
    "Duration": "gpu__time_duration.sum",
    "Registers Per Thread": "launch__registers_per_thread",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "SM Frequency": "smsp__cycles_elapsed.avg.per_second",
    "DRAM Bandwidth": "dram__bytes.sum.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "L2 Cache Frequency": "lts__cycles_elapsed.avg.per_second",
    "Theoretical DRAM Bytes Accessible": "dram__bytes.sum.peak_sustained",
    "Theoretical L2 Cache Bytes Accessible": "derived__lts__lts2xbar_bytes.sum.peak_sustained",
    "Theoretical L1/TEX Cache Bytes Accessible": (
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained"
    ),
    **{
        f"Theoretical Predicated-On {name}FMA Operations": (
            f"derived__sm__sass_thread_inst_executed_op_{name.lower()}fma_pred_on_x{factor}"
        )
        for name, factor in (("D", 2), ("F", 2), ("H", 4))
    },
    **{
        f"Theoretical Predicated-On {name}FMA Thread Instructions Executed": (
            f"sm__sass_thread_inst_executed_op_{name.lower()}fma_pred_on.sum.peak_sustained"
        )
        for name in "DFH"
    },
    **{
        f"Predicated-On {name} Thread Instructions Executed Per Cycle": (
            f"smsp__sass_thread_inst_executed_op_{name.lower()}_pred_on.sum.per_cycle_elapsed"
        )
        for kind in "DFH"
        for name in (f"{kind}ADD", f"{kind}MUL", f"{kind}FMA")
    },
}


def metric_name(name: str, label: str = "") -> str:
    """The metric of a name on a page; empty if there is no name.

    Args:
        label: label of the section's part that contains the name ("Body Item Label").
    """
    name = name.strip()[: limits.LONGEST_NAME]
    if not name or "__" in name:
        return name
    return _LABELS.get(name, f"{label}: {name}" if label else name)


def is_metric(name: str) -> bool:
    """Whether a column of this name contains a known metric."""
    return METRIC.fullmatch(name.strip()) is not None or name.strip() in _LABELS
