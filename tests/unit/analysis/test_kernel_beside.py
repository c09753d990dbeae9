"""Code beside measurement: what agrees, what is scaled, what cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taupy.analysis.kernel_beside import Measured, beside, disagreements, error_of_estimate
from taupy.catalog.datasheets import candidates
from tests.kernel_codes import access, code, count, spill

# 20 instructions: 2 loads, 1 store, 1 multiply-add; nothing loops.
STRAIGHT = code(
    registers=32,
    instructions=20,
    shared_bytes=4096,
    counts=(count("fp32", 1), count("load", 2, detail="global 4", pipe="lsu"),
            count("store", 1, detail="global 4", pipe="lsu"), count("control", 16, pipe="cbu")),
    accesses=(access(number=2), access("store")),
)  # fmt: skip

# 10 launches of 100 blocks of 256 threads: 8 warps a block, 8000 warps, 160,000 instructions.
RUN = Measured(
    threads=256, grid=100, registers=32, shared_static=4096, shared_dynamic=0, local=0,
    occupancy=1.0, mean_ns=5000.0, reached=0.9,
    counters={"inst_executed": 160_000, "warps_launched": 8000, "gld": 16_000, "gst": 8000,
              "flop_fp32": 512_000, "divergent_branch": 0},
)  # fmt: skip


def row(rows, what):
    return next(one for one in rows if one.what == what)


def test_code_that_ran_agrees_in_everything():
    rows = beside(STRAIGHT, RUN)
    assert disagreements(rows) == []
    assert row(rows, "instructions of a warp")[2:5] == (20, None, 20)
    # 2 of 20 instructions are loads: a tenth of 160,000.
    assert row(rows, "load global")[2:5] == (2, 16_000, 16_000)
    # 32 registers and 4 + 1 KiB: 8 blocks of 8 warps, 64.
    assert row(rows, "occupancy, theoretical")[2:5] == (1.0, None, 1.0)


@pytest.mark.parametrize("counter", ["smsp__inst_executed_op_local_ld.sum",
                                     "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum"])  # fmt: skip
def test_spills_stand_beside_the_counted_traffic_of_local_memory(counter):
    run = replace(RUN, counters={**RUN.counters, counter: 16_000})
    spilling = replace(
        STRAIGHT,
        stack_bytes=16,
        counts=(*STRAIGHT.counts[:-1], count("control", 14, pipe="cbu"),
                count("load", 2, detail="local 4", pipe="lsu")),
        accesses=(*STRAIGHT.accesses, spill(2)),
    )  # fmt: skip
    assert row(beside(spilling, run), "load local")[2:] == (2, 16_000, 16_000, "")
    assert "load local: the code has none" in disagreements(beside(STRAIGHT, run))


@pytest.mark.parametrize(
    ("code_", "run", "says"),
    [
        (STRAIGHT, replace(RUN, registers=40), "registers: another module or compiler"),
        (STRAIGHT, replace(RUN, local=64), "local memory of a thread: the code has no stack"),
        (
            STRAIGHT,
            replace(RUN, counters={**RUN.counters, "inst_executed": 200_000}),
            "instructions of a warp: the code has fewer, and no loop",
        ),
        (
            STRAIGHT,
            replace(RUN, counters={**RUN.counters, "flop_fp64": 5}),
            "fp64: the code has none",
        ),
        (
            STRAIGHT,
            replace(RUN, counters={**RUN.counters, "gld": 0}),
            "load global: the code has them on every path",
        ),
        (
            STRAIGHT,
            replace(RUN, counters={**RUN.counters, "divergent_branch": 3}),
            "branches that split a warp: the code has no branch that could",
        ),
        (replace(STRAIGHT, registers=255), replace(RUN, registers=255),
         "occupancy, counted: more than fits"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_pointed_out(code_, run, says):
    assert any(one.startswith(says) for one in disagreements(beside(code_, run)))


def test_branches_and_loops_leave_room_for_other_counts():
    looping = replace(STRAIGHT, branches=1, loops=((0, 1, 5, 0, None),))
    more = replace(RUN, counters={**RUN.counters, "inst_executed": 900_000, "gld": 0})
    assert disagreements(beside(looping, more)) == []


def test_what_was_not_measured_is_absent():
    empty = Measured(*[None] * 8, counters={})
    rows = beside(replace(STRAIGHT, accesses=(spill(3),)), empty)
    assert {one.measured for one in rows} == {None}
    assert row(rows, "bytes spilled by a thread").code == 12
    assert not any("occupancy" in one.what for one in rows)


def test_a_time_below_the_bound_cannot_be():
    (sheet,) = candidates("A100 SXM4 80 GB")
    # 20 instructions x 25,600 threads / (128 a clock x 100 blocks x 1.41 GHz) = 28.4 ns.
    right = row(beside(STRAIGHT, replace(RUN, gpu=sheet)), 
                "time of a launch, each loop run once: an estimate")  # fmt: skip
    assert right.code == pytest.approx(28.37, abs=0.01) and not right.disagrees
    wrong = beside(STRAIGHT, replace(RUN, gpu=sheet, mean_ns=10.0))
    assert any("less than its code needs" in text for text in disagreements(wrong))


def test_the_estimate_is_shown_with_its_error_and_idle_multiprocessors():
    (sheet,) = candidates("A100 PCIe 40GB")[:1]
    rows = beside(STRAIGHT, replace(RUN, gpu=sheet))
    least = row(rows, "time of a launch, each loop run once: an estimate").code
    assert error_of_estimate(rows) == (
        f"a launch took {5000 / least:.3g} times the estimate, which is a lower bound"
    )
    # One block runs on one multiprocessor: a hundred need no longer than it does.
    alone = beside(STRAIGHT, replace(RUN, gpu=sheet, grid=1))
    assert row(alone, "time of a launch, each loop run once: an estimate").code == least
    assert error_of_estimate(beside(STRAIGHT, RUN)) is None
