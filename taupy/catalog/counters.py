"""Our short names for hardware counters, and how NVIDIA spells each on each chip.

A counter is a sum over a kernel's launches. Its spelling is one or several PerfWorks metrics with
weights: `flop_fp32` is adds + multiplies + 2 x fused ones. `recorded.py` lists the metrics of each
chip, taken from NVIDIA's own database (CUPTI) by `scripts/record_counters.py`; tests compare both,
so every name exists on some chip.

`spelling.py` parses spellings. A counter's `caution` says what it does not count.
"""

from __future__ import annotations

from typing import NamedTuple


class Counter(NamedTuple):
    """One of taupy's counters.

    Attributes:
        spellings: sums of PerfWorks metrics, `A + 2*B`; a chip uses the first one whose metrics it
            has.
        description: what it counts.
        caution: what it does not count, or how to read it; empty if the description says it all.
        legacy: names of nvprof, of CUPTI's old events and of TAU for the same.
        missing: why some chips do not have it; empty if all do.
    """

    name: str
    unit: str
    spellings: tuple[str, ...]
    description: str
    caution: str = ""
    legacy: tuple[str, ...] = ()
    missing: str = ""


def _sass(operation: str) -> str:
    return f"sm__sass_thread_inst_executed_op_{operation}_pred_on.sum"


def _tensor(*sources: str) -> str:
    return " + ".join(f"sm__ops_path_tensor_src_{source}.sum" for source in sources)


_NO_TENSOR = "this chip's tensor cores do not compute this type, or it has none"
_OPERATIONS = "operations of tensor cores, a fused multiply-add is 2"
_NO_DRAM = "a chip that shares its memory with the CPU has no counters of it"

_FP16 = f"2*{_sass('hadd')} + 2*{_sass('hmul')} + 4*{_sass('hfma')}"
_FP32 = f"{_sass('fadd')} + {_sass('fmul')} + 2*{_sass('ffma')}"
_FP32_PACKED = f"{_FP32} + 2*{_sass('fadd2')} + 2*{_sass('fmul2')} + 4*{_sass('ffma2')}"
_FLOAT_TENSOR = (  # from the newest chips to the oldest
    _tensor("fp64", "tf32_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "bf16_dst_fp32",
            "fp8_dst_fp16", "fp8_dst_fp32", "fp4_fp6_dst_fp16", "fp4_fp6_dst_fp32",
            "fp4_dst_fp32"),
    _tensor("fp64", "tf32_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "bf16_dst_fp32",
            "fp4_fp6_fp8_dst_fp16", "fp4_fp6_fp8_dst_fp32", "fp4_dst_fp32"),
    _tensor("fp64", "tf32_dst_fp32", "fp16", "bf16_dst_fp32", "fp8"),
    _tensor("fp64", "tf32_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "bf16_dst_fp32", "fp8"),
    _tensor("fp64", "tf32_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "bf16_dst_fp32"),
    _tensor("fp16_dst_fp16", "fp16_bf16_tf32_dst_fp32"),
    _tensor("fp16_dst_fp16", "fp16_dst_fp32"),
)  # fmt: skip

COUNTERS = (
    # Instructions and warps.
    Counter(
        "inst_executed", "inst", ("sm__inst_executed.sum",),
        "warp instructions that were executed",
        legacy=("instructions_executed",),
    ),
    Counter(
        "inst_issued", "inst", ("sm__inst_issued.sum",),
        "warp instructions that were issued, including replays",
        
    ),
    Counter(
        "thread_inst_executed", "inst", ("smsp__thread_inst_executed.sum",),
        "instructions times the threads that took part in them",
        
    ),
    Counter(
        "warps_launched", "warp", ("smsp__warps_launched.sum",),
        "warps that were launched",
        
    ),
    Counter(
        "warps_active", "warp*cycle", ("sm__warps_active.sum",),
        "warps on an SM, added up over its cycles",
        legacy=("active_warps",),
    ),
    Counter(
        "warp_slots", "warp*cycle", ("sm__warps_active.sum.peak_sustained_active",),
        "warps that the SMs could have held while they held any: occupancy is warps_active / "
        "warp_slots",
    ),
    # Cycles and time.
    Counter(
        "cycles_elapsed", "cycle", ("sm__cycles_elapsed.avg",),
        "cycles of the SMs' clock from the beginning of a launch to its end",
        "of one SM, averaged over them: not summed over SMs as cycles_active is",
        legacy=("elapsed_cycles_sm", "elapsed_cycles"),
    ),
    Counter(
        "cycles_active", "cycle", ("sm__cycles_active.sum",),
        "cycles in which an SM held a warp, summed over the SMs",
        legacy=("active_cycles",),
    ),
    Counter(
        "counted_time", "ns", ("gpu__time_duration.sum",),
        "time of the launches that were counted",
        "the kernel runs alone, once per pass, at the GPU's clock at that moment: compare such "
        "times with each other only, and use `time` for the program's run time",
        legacy=("gpu_time_duration",),
    ),
    # Branches.
    Counter(
        "branch", "branch", ("smsp__sass_branch_targets.sum",),
        "branch targets, counted with modified machine code: one more, slow pass",
        
    ),
    Counter(
        "divergent_branch", "branch", ("smsp__sass_branch_targets_threads_divergent.sum",),
        "of these, those at which a warp's threads diverged",
        
    ),
    # Global memory.
    Counter(
        "gld", "inst", ("smsp__inst_executed_op_global_ld.sum",),
        "global load instructions of warps (LDG)",
        "counts LDG only: not LDGSTS (cp.async), not TMA, not generic LD (generic_ld). Kernels "
        "since Ampere load much data that way, so gld/inst is low on modern matrix products",
        legacy=("gld_request", "global_load", "inst_executed_global_loads"),
    ),
    Counter(
        "gst", "inst", ("smsp__inst_executed_op_global_st.sum",),
        "global store instructions of warps (STG)",
        "counts STG only: not TMA stores, reductions or generic ST (generic_st)",
        legacy=("gst_request", "global_store", "inst_executed_global_stores"),
    ),
    Counter(
        "generic_ld", "inst", ("smsp__inst_executed_op_generic_ld.sum",),
        "load instructions of warps through generic pointers",
        legacy=("generic_load",),
    ),
    Counter(
        "generic_st", "inst", ("smsp__inst_executed_op_generic_st.sum",),
        "store instructions of warps through generic pointers",
        legacy=("generic_store",),
    ),
    Counter(
        "ldgsts", "inst", ("smsp__inst_executed_op_ldgsts.sum",),
        "asynchronous copies from global to shared memory (LDGSTS, cp.async), by warps",
        missing="came with Ampere",
    ),
    Counter(
        "tma_ld", "inst", ("smsp__inst_executed_op_tma_ld.sum",),
        "loads by the tensor memory accelerator: instructions, each of a whole tile",
        missing="came with Hopper",
    ),
    Counter(
        "tma_st", "inst", ("smsp__inst_executed_op_tma_st.sum",),
        "stores by the tensor memory accelerator: instructions, each of a whole tile",
        missing="came with Hopper",
    ),
    Counter(
        "gld_requests", "request", ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
        "global loads that reached the L1 cache",
        "gld as memory sees it: LDG only",
        
    ),
    Counter(
        "gst_requests", "request", ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
        "global stores that reached the L1 cache",
        
    ),
    Counter(
        "gld_sectors", "sector", ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
        "32-byte sectors that global loads touched in the L1 cache",
        legacy=("gld_transactions",),
    ),
    Counter(
        "gst_sectors", "sector", ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
        "32-byte sectors that global stores touched in the L1 cache",
        legacy=("gst_transactions",),
    ),
    Counter(
        "gred", "inst", ("smsp__inst_executed_op_global_red.sum",),
        "reductions on global memory (RED), by warps",
        legacy=("gred_count", "inst_executed_global_reductions"),
    ),
    Counter(
        "gatom", "inst", ("sm__sass_inst_executed_op_global_atom.sum",),
        "atomic operations on global memory, by warps; counted with modified machine code",
        legacy=("atom_count", "inst_executed_global_atomics"),
    ),
    # Traffic.
    Counter(
        "bytes_l1", "B", ("l1tex__t_bytes.sum",),
        "bytes requested from the L1 cache: its tag stage's requests, by sectors of 32 bytes",
        "neither shared memory nor TMA traffic; NVIDIA's newer rooflines count the data stage "
        "(128 B a writeback) instead and show up to 16 % more",
    ),
    Counter(
        "bytes_l2", "B", ("lts__t_bytes.sum",),
        "bytes that passed the L2 cache's tag stage, from all its users",
    ),
    Counter(
        "bytes_dram", "B", ("dram__bytes.sum",),
        "bytes read from and written to device memory",
        "counting leaves the caches alone: it depends on what the L2 cache holds, from the launch "
        "before or from an earlier pass. ncu empties them unless told --cache-control none",
        missing=_NO_DRAM,
    ),
    Counter(
        "dram_read_bytes", "B", ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
        "bytes read from device memory: a part of bytes_dram", missing=_NO_DRAM,
    ),
    Counter(
        "dram_write_bytes", "B", ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
        "bytes written to device memory: a part of bytes_dram", missing=_NO_DRAM,
    ),
    # Floating point, by threads.
    Counter(
        "flop_fp64", "flop", (f"{_sass('dadd')} + {_sass('dmul')} + 2*{_sass('dfma')}",),
        "double-precision operations of threads, a fused multiply-add is 2",
        "without tensor cores: flop_tensor_fp64",
        legacy=("flop_count_dp", "flops_dp"),
    ),
    Counter(
        "flop_fp32", "flop", (_FP32_PACKED, _FP32),
        "single-precision operations of threads, a fused multiply-add is 2",
        "adds, multiplies and fused ones only: a division or square root counts as those it is "
        "made of, a comparison or conversion not at all",
        legacy=("flop_count_sp", "flops_sp"),
    ),
    Counter(
        "flop_fp16", "flop", (_FP16,),
        "half-precision operations of threads",
        "each instruction is taken as packed (HADD2, HMUL2, HFMA2: 2, 2 and 4 operations), as "
        "NVIDIA's sections do; the papers of 2020 and LIKWID count 1, 1 and 2",
        legacy=("flop_count_hp", "flops_hp"),
    ),
    # Tensor cores, by source type.
    Counter(
        "flop_tensor", "flop", _FLOAT_TENSOR,
        f"floating-point {_OPERATIONS}; all types",
        "without integers (flop_tensor_int8); structured-sparse products are in it as NVIDIA "
        "counts them; one pass or more for each type",
        missing=_NO_TENSOR,
    ),
    Counter(
        "flop_tensor_fp64", "flop", (_tensor("fp64"),),
        f"double-precision {_OPERATIONS}", missing=_NO_TENSOR,
    ),
    Counter(
        "flop_tensor_tf32", "flop", (_tensor("tf32_dst_fp32"),),
        f"TF32 {_OPERATIONS}", missing=_NO_TENSOR,
    ),
    Counter(
        "flop_tensor_fp16", "flop",
        (
            _tensor("fp16_dst_fp16", "fp16_dst_fp32"),
            _tensor("fp16"),
            _tensor("fp16_dst_fp16", "fp16_bf16_tf32_dst_fp32"),
        ),
        f"half-precision {_OPERATIONS}",
        missing=_NO_TENSOR,
    ),
    Counter(
        "flop_tensor_bf16", "flop", (_tensor("bf16_dst_fp32"),),
        f"bfloat16 {_OPERATIONS}", missing=_NO_TENSOR,
    ),
    Counter(
        "flop_tensor_fp8", "flop",
        (
            _tensor("fp8_dst_fp16", "fp8_dst_fp32"),
            _tensor("fp8"),
            _tensor("fp4_fp6_fp8_dst_fp16", "fp4_fp6_fp8_dst_fp32"),
        ),
        f"8-bit floating-point {_OPERATIONS}",
        "on GB100, GB102 and GB10B one counter holds fp8, fp6 and mixed fp4 together",
        missing=_NO_TENSOR,
    ),
    Counter(
        "flop_tensor_fp4", "flop",
        (
            _tensor("fp4_fp6_dst_fp16", "fp4_fp6_dst_fp32", "fp4_dst_fp32"),
            _tensor("fp4_dst_fp32"),
        ),
        f"4- and 6-bit floating-point {_OPERATIONS}",
        "on GB100, GB102 and GB10B fp6 counts with fp8",
        missing=_NO_TENSOR,
    ),
    Counter(
        "flop_tensor_int8", "flop", (_tensor("int8"),),
        f"8-bit integer {_OPERATIONS}", "no part of flop_tensor", missing=_NO_TENSOR,
    ),
    Counter(
        "inst_tensor", "inst",
        ("sm__inst_executed_pipe_tensor_v2.sum", "sm__inst_executed_pipe_tensor.sum"),
        "instructions of warps on the tensor pipe",
        "HFMA2 runs there, too, on some chips: it does not count matrix products. 512 operations "
        "each is right on Volta only",
    ),
)  # fmt: skip
"""In the order in which they are listed."""

BY_NAME = {counter.name: counter for counter in COUNTERS}

COUNTED_LAUNCHES = "counted_launches"
"""The metric that says how many launches were counted, beside every set of counters."""
