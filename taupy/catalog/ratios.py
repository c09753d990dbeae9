"""Derived metrics that are always available: TAU's ratios of 2017, rates and intensities.

Expressions over the names of `counters.py`; they are computed on demand, from the
sums of a trial. Counters of launches are combined with the time of the same launches.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Better = Literal["high", "low", ""]


class Ratio(NamedTuple):
    """One predefined derived metric.

    Attributes:
        legacy: its names in other tools.
        better: whether high or low values are better; "" if neither.
    """

    name: str
    expression: str
    description: str
    legacy: tuple[str, ...] = ()
    better: Better = ""


RATIOS = (
    # TAU on CUDA deep-learning networks, 2017.
    Ratio(
        "warps_per_inst",
        "warps_launched / inst_issued",
        "warps launched per issued instruction (TAU's warps/inst; lower is better: long warps)",
        ("warps/inst", "warps/ins"),
        better="low",
    ),
    Ratio(
        "inst_per_gmem",
        "inst_issued / (gld + gst)",
        "issued instructions per global memory operation (higher: fewer accesses)",
        ("inst/gmem",),
        better="high",
    ),
    Ratio(
        "warps_per_gmem",
        "warps_launched / (gld + gst)",
        "warps launched per global memory instruction",
        ("warps/gmem",),
        better="high",
    ),
    Ratio(
        "gld_per_inst",
        "gld / inst_executed",
        "global loads per executed instruction; see gld for what it does not count",
        ("gld/inst", "gld/ins"),
        better="low",
    ),
    Ratio(
        "gst_per_inst",
        "gst / inst_executed",
        "global stores per executed instruction",
        ("gst/inst", "gst/ins"),
        better="low",
    ),
    Ratio(
        "gmem_per_inst",
        "(gld + gst) / inst_executed",
        "global loads and stores per executed instruction",
        ("gmem/inst",),
        better="low",
    ),
    Ratio(
        "ipc",
        "inst_executed / cycles_active",
        "executed instructions per cycle in which an SM had a warp, of one SM",
        ("inst/cycle", "executed_ipc"),
        better="high",
    ),
    Ratio(
        "issued_ipc",
        "inst_issued / cycles_active",
        "issued instructions per cycle in which an SM had a warp, of one SM",
        better="high",
    ),
    # Execution.
    Ratio(
        "occupancy",
        "warps_active / warp_slots",
        "achieved occupancy: warps on an SM, as a share of what it could hold, while it had any",
        ("achieved_occupancy",),
        better="high",
    ),
    Ratio(
        "divergence",
        "divergent_branch / branch",
        "share of the branch targets' threads that took another way than the rest of their warp",
        better="low",
    ),
    Ratio(
        "threads_per_inst",
        "thread_inst_executed / inst_executed",
        "threads that took part in a warp's instruction, 32 at most (warp execution efficiency)",
        better="high",
    ),
    Ratio(
        "gld_sectors_per_request",
        "gld_sectors / gld_requests",
        "32-byte sectors a global load touches: 4 is a full, ordered load of 4 bytes a thread",
        ("gld_transactions_per_request",),
        better="low",
    ),
    Ratio(
        "gst_sectors_per_request",
        "gst_sectors / gst_requests",
        "32-byte sectors that a global store touches",
        ("gst_transactions_per_request",),
        better="low",
    ),
    # Work and traffic.
    Ratio(
        "flop_total",
        "sum(flop, flop_fp64, flop_fp32, flop_fp16, flop_tensor)",
        "floating-point operations of all precisions that were measured",
    ),
    Ratio("flop_rate", "flop_total / time", "floating-point operations per second", better="high"),
    Ratio(
        "intensity_dram",
        "flop_total / bytes_dram",
        "operations per byte of device memory",
        ("arithmetic_intensity",),
        better="high",
    ),
    Ratio(
        "intensity_l2",
        "flop_total / bytes_l2",
        "operations per byte that passed the L2 cache",
        better="high",
    ),
    Ratio(
        "intensity_l1",
        "flop_total / bytes_l1",
        "operations per byte that passed the L1 cache",
        better="high",
    ),
    Ratio("bandwidth_dram", "bytes_dram / time", "device memory traffic", better="high"),
    Ratio("bandwidth_l2", "bytes_l2 / time", "L2 cache traffic", better="high"),
    Ratio("bandwidth_l1", "bytes_l1 / time", "L1 cache traffic", better="high"),
    Ratio("sm_clock", "cycles_elapsed / time", "the SMs' clock while kernels ran"),
    Ratio("time_per_call", "time / calls", "mean time of a call or launch", better="low"),
    # CPU.
    Ratio("cpu_ipc", "instructions / cycles", "CPU instructions per cycle", better="high"),
    Ratio("cpu_clock", "cycles / time", "CPU cycles per second of elapsed time"),
    Ratio(
        "cache_miss_rate",
        "cache_misses / instructions",
        "cache misses per CPU instruction",
        better="low",
    ),
    Ratio(
        "branch_miss_rate",
        "branch_misses / instructions",
        "branch misses per CPU instruction",
        better="low",
    ),
    Ratio(
        "bandwidth_dram_read",
        "bytes_dram_read / time",
        "main memory read by the CPU",
        better="high",
    ),
    Ratio(
        "intensity_dram_read",
        "flop / bytes_dram_read",
        "CPU operations per byte read",
        better="high",
    ),
)
"""In the order in which they are listed. Units follow from the counters' units."""
