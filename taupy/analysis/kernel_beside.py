"""A kernel's code beside its measurements, and contradictions between them.

Expected counts are a kind's share of the code times the number of executed instructions. They are
exact without loops and branches, and an estimate otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from taupy.analysis import kernel_bound, kernel_occupancy
from taupy.catalog.datasheets import Datasheet
from taupy.model.kernel_code import KernelCode

WARP_THREADS = 32


@dataclass(frozen=True)
class Measured:
    """A kernel's launches with the same configuration; None for anything not measured.

    Attributes:
        threads, grid: threads per block; blocks in the grid.
        occupancy: theoretical occupancy of that launch, 0 to 1.
        counters: sums over the kernel's launches, by taupy's names.
        reached: occupancy measured by counters, 0 to 1.
    """

    threads: int | None
    grid: int | None
    registers: int | None
    shared_static: int | None
    shared_dynamic: int | None
    local: int | None
    occupancy: float | None
    mean_ns: float | None
    counters: Mapping[str, float]
    reached: float | None = None
    gpu: Datasheet | None = None


class Beside(NamedTuple):
    """One quantity.

    Attributes:
        expected: from the code, scaled by the number of executed instructions.
        disagrees: why code and measurement contradict each other, or are not of the same code.
    """

    what: str
    unit: str
    code: float | None
    expected: float | None
    measured: float | None
    disagrees: str = ""


# The counters of each kind of instruction: kind, memory, alternative counters.
_COUNTED = (
    ("fp64", "", ("flop_fp64",)),
    ("fp32", "", ("flop_fp32",)),
    ("fp16", "", ("flop_fp16",)),
    ("tensor", "", ("inst_tensor", "flop_tensor")),
    ("load", "global", ("gld",)),
    ("store", "global", ("gst",)),
    ("atomic", "global", ("gred", "gatom")),
    ("load", "local", ("smsp__inst_executed_op_local_ld.sum",
                       "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum")),
    ("store", "local", ("smsp__inst_executed_op_local_st.sum",
                        "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum")),
)  # fmt: skip
_NOT_INSTRUCTIONS = {"flop_fp64", "flop_fp32", "flop_fp16", "flop_tensor"}

COUNTERS = (
    "inst_executed", "warps_launched", "divergent_branch",
    *(name for _, _, names in _COUNTED for name in names),
)  # fmt: skip
"""The names in `Measured.counters`: taupy's, and NVIDIA's for local memory."""


def beside(code: KernelCode, measured: Measured) -> list[Beside]:
    """Every quantity known from code or measurement."""
    rows = [*_resources(code, measured), *_occupancies(code, measured)]
    rows += _executed(code, measured)
    if (time := _time(code, measured)) is not None:
        rows.append(time)
    return [row for row in rows if (row.code, row.measured) != (None, None)]


def _resources(code: KernelCode, measured: Measured) -> list[Beside]:
    rows = []
    for what, unit, own, measured_value in (
        ("registers", "", code.registers, measured.registers),
        ("shared memory, static", "B", code.block_shared_bytes, measured.shared_static),
    ):
        other = own is not None and measured_value is not None and own != measured_value
        why = "another module or compiler made the code that ran" if other else ""
        rows.append(Beside(what, unit, own, None, measured_value, why))
    stack = code.stack_bytes
    why = "the code has no stack" if stack == 0 and measured.local else ""
    rows.append(Beside("local memory of a thread", "B", stack, None, measured.local, why))
    rows.append(Beside("bytes spilled by a thread", "B", code.spill_bytes, None, None))
    return rows


def _occupancies(code: KernelCode, measured: Measured) -> list[Beside]:
    if not measured.threads:
        return []
    fit = kernel_occupancy.at(code, measured.threads, dynamic=measured.shared_dynamic or 0)
    share = fit.share if fit else None
    why = ""
    if share is not None and measured.reached is not None and measured.reached > share + 0.01:
        why = "more than fits"
    return [
        Beside("occupancy, theoretical", "ratio", share, None, measured.occupancy),
        Beside("occupancy, counted", "ratio", share, None, measured.reached, why),
    ]


def _executed(code: KernelCode, measured: Measured) -> list[Beside]:
    counters = measured.counters
    executed, warps = counters.get("inst_executed"), counters.get("warps_launched")
    rows = []
    if executed is not None and warps:
        of_warp = executed / warps
        straight = not (code.loops or code.calls or code.indirect or code.irreducible)
        why = ""
        if straight and of_warp > code.instructions * 1.001:
            why = "the code has fewer, and no loop"
        rows.append(Beside("instructions of a warp", "inst", code.instructions, None, of_warp, why))
    for kind, space, names in _COUNTED:
        for name in names:
            if name in counters:
                rows.append(_of_kind(code, kind, space, name, counters))
                break
    if "divergent_branch" in counters and code.divergent is not None:
        split = counters["divergent_branch"]
        why = "the code has no branch that could" if split and not code.divergent else ""
        rows.append(Beside("branches that split a warp", "", code.divergent, None, split, why))
    return rows


def _of_kind(
    code: KernelCode, kind: str, space: str, name: str, counters: Mapping[str, float]
) -> Beside:
    own = sum(
        part.number for part in code.counts if part.kind == kind and part.detail.startswith(space)
    )
    counted = counters[name]
    expected = None
    if name not in _NOT_INSTRUCTIONS and (executed := counters.get("inst_executed")):
        expected = own / code.instructions * executed
    why = ""
    if counted and not own and not (code.calls or code.number("unknown")):
        why = "the code has none"
    elif own and not counted and not code.branches:
        why = "the code has them on every path"
    return Beside(f"{kind} {space}".strip(), name, own, expected, counted, why)


def _time(code: KernelCode, measured: Measured) -> Beside | None:
    """The lower bound of the time with every loop run once, beside the mean time."""
    if not (measured.gpu and measured.grid and measured.threads and measured.mean_ns):
        return None
    threads = measured.grid * measured.threads
    bound = kernel_bound.estimate(code, measured.gpu, threads, blocks=measured.grid)
    if bound is None or not bound.by:
        return None
    # Cached data needs no DRAM, so only the other bounds always hold.
    least = max((time for name, time in bound.by if not name.startswith("dram")), default=0.0)
    why = "less than its code needs" if measured.mean_ns < least else ""
    return Beside(_ESTIMATE, "ns", least, None, measured.mean_ns, why)


_ESTIMATE = "time of a launch, each loop run once: an estimate"


def error_of_estimate(rows: Sequence[Beside]) -> str | None:
    """The ratio of measured time and estimate; None if one of them is absent."""
    row = next((row for row in rows if row.what == _ESTIMATE), None)
    if row is None or not row.code or row.measured is None:
        return None
    return f"a launch took {row.measured / row.code:.3g} times the estimate, which is a lower bound"


def disagreements(rows: Sequence[Beside]) -> list[str]:
    """The contradictions, one line each."""
    return [f"{row.what}: {row.disagrees}" for row in rows if row.disagrees]
