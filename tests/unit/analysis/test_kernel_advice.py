"""What a kernel's code proposes, and how much that can save at most."""

from __future__ import annotations

import pytest

from taupy.analysis.kernel_advice import advice, conflicts, efficiency, ranked
from taupy.model.kernel_code import MULTIPLY_ADD, Loop
from tests.kernel_codes import access, code, count, spill


def of(rule, *arguments, **more):
    return [proposal for proposal in advice(*arguments, **more) if proposal.rule == rule]


def test_a_kernel_with_nothing_to_tune_gets_no_advice():
    assert advice(code(accesses=(access(), access("store"))), block=256) == []


def test_a_larger_block_lifts_occupancy():
    # 32 threads: 32 blocks of 1 warp are half of 64 warps; 64 threads fill all.
    (block,) = of("occupancy", code(), block=32)
    assert block.finding == "occupancy 0.50 could be 1.00 on 8.0"
    assert block.change == "64 threads per block"
    assert block.saved == 0.5


def test_fewer_registers_lift_occupancy():
    # 128 registers: 4096 a warp, 4 warps in each of 4 partitions, 16 of 64 warps. 80 registers
    # are 2560: 6 warps in 16,384, 24 warps, 3 blocks of 8: 0.375.
    (registers,) = of("occupancy", code(registers=128), block=256)
    assert registers.finding == "occupancy 0.25 could be 0.38 on 8.0"
    assert registers.change.startswith("at most 80 registers instead of 128 (__launch_bounds__(256")
    assert registers.saved == pytest.approx(1 / 3)


def test_the_chip_decides_what_fits():
    # 9.0 as 8.0, but 12.0 has 48 warps: 24 blocks of 1 warp are half.
    assert of("occupancy", code(), block=32, chip="12.0")[0].finding.endswith("1.00 on 12.0")


def test_the_bound_of_spills_knows_that_they_may_reach_memory():
    """On an H100, a kernel 65 % of whose loop spilled took 1.4 % of its time without."""
    kernel = code(
        counts=(count("fp32", 60, 1), count("load", 40, 1, "local 4"), count("move", 100)),
        accesses=(spill(40, depth=1),),
    )
    (spills,) = of("spills", kernel)
    assert spills.finding == "40 instructions spill 160 bytes per thread, 40 of them in a loop"
    assert spills.saved == pytest.approx(160 * 0.4 / (160 * 0.4 + 0.6))


def test_few_spills_have_no_bound():
    kernel = code(counts=(count("fp32", 200, 1), count("load", 4, 1, "local 4")),
                  accesses=(spill(4, depth=1),))  # fmt: skip
    (spills,) = of("spills", kernel)
    assert spills.saved is None


@pytest.mark.parametrize(
    ("stride", "width", "ways"),
    [(4, 4, 1), (8, 4, 2), (12, 4, 1), (128, 4, 32), (64, 4, 16), (132, 4, 1), (0, 4, 1),
     (8, 8, 1), (16, 8, 2), (16, 16, 1), (-4, 4, 1)],
)  # fmt: skip
def test_bank_conflicts_are_counted(stride, width, ways):
    assert conflicts(stride, width) == ways


@pytest.mark.parametrize(
    ("stride", "width", "used"),
    [(4, 4, 1.0), (8, 4, 0.5), (32, 4, 0.125), (4096, 4, 0.125), (64, 16, 0.5), (2, 1, 0.5)],
)
def test_sectors_that_are_moved_for_nothing_are_counted(stride, width, used):
    assert efficiency(stride, width) == used


def test_strided_and_narrow_accesses_of_the_innermost_loop_are_named():
    kernel = code(accesses=(
        access(pattern="strided", stride=8, depth=1),
        access(pattern="strided", stride=400),  # outside the loop: runs once
        access("store", bytes=1, depth=1),
        access("load", "shared", pattern="strided", stride=128, depth=1),
    ))  # fmt: skip
    proposed = [*of("access", kernel), *of("width", kernel)]
    assert {proposal.finding: proposal.saved for proposal in proposed} == {
        "1 load of 4 bytes from global memory, 8 bytes apart: 50% of the traffic is used": 1
        - 0.5 / 3,
        "1 store of 1 byte to global memory: narrow": 1 - 1 / 16,
        "1 load of 4 bytes from shared memory: 32 threads share a bank": 1 - 1 / 32,
    }


def test_barriers_in_short_loops_are_named_without_a_bound():
    (barriers,) = of("barriers", code(loops=(Loop(64, 1, 40, 2, "a.cu:7"),)))
    assert barriers.finding == "2 barriers for 40 instructions of a loop (a.cu:7)"
    assert barriers.saved is None
    assert of("barriers", code(loops=(Loop(64, 1, 400, 2),))) == []


def test_a_product_without_tensor_instructions_is_named_where_types_would_allow_them():
    parts = {
        "counts": (
            count("fp32", 16, 2, MULTIPLY_ADD),
            count("load", 8, 2, "shared 16"),
            count("integer", 4, 2),
        ),
        "accesses": (access("load", "shared", 16, depth=2, number=8),),
        "loops": (Loop(0, 1, 60, 2), Loop(64, 2, 28, 0)),
    }
    (tensor,) = of("tensor", code(**parts))
    # A100: 156 Tflop/s of TF32 on tensor cores, 19.5 of FP32.
    assert "tensor cores multiply tf32 8 times as fast on 8.0" in tensor.change
    assert tensor.saved == 1 - 1 / 8
    assert of("tensor", code(chip="7.5", **parts)) == []  # no TF32 there
    sums = (count("fp32", 16, 2), *parts["counts"][1:])  # additions, as of a reduction
    assert of("tensor", code(**{**parts, "counts": sums})) == []
    with_mma = {**parts, "counts": (*parts["counts"], count("tensor", 1, 2, "HMMA.1688.F32.TF32"))}
    assert of("tensor", code(**with_mma)) == []


def test_block_sizes_are_ranked_by_occupancy_then_size():
    order = [fit.block for fit in ranked(code(registers=128), (64, 1024, 128, 512, 384))]
    assert order == [64, 128, 512, 384, 1024]
