"""Points under roofs: which one bounds them, how far they are, what was assumed."""

from __future__ import annotations

import pytest

from taupy.errors import UsageError
from taupy.profiledb.ceilings import best_of
from taupy.roofline.placement import place
from taupy.roofline.point import Point
from taupy.roofline.roofs import roofs_of
from taupy.roofline.verdict import sentence, verdict
from tests.unit.roofline.build import ceiling

V100 = "V100"
CEILINGS = [
    ceiling("compute", "fp32", 15.16e12, V100),
    ceiling("compute", "fp16", 29.18e12, V100),
    ceiling("compute", "tensor fp16", 107.47904e12, V100),
    ceiling("bandwidth", "DRAM", 828.8e9, V100),
    ceiling("bandwidth", "L2", 2996.8e9, V100),
    ceiling("latency", "launch", 4.2e-6, V100, pattern="event pair"),
]


def roofs(rule="precision", found=CEILINGS):
    return roofs_of(V100, lambda kind, name: best_of(found, kind, name), rule=rule)


def point(flop, moved, time=1e-3, launches=1, **more):
    given = {
        "name": "kernel",
        "short": "kernel",
        "of": "kernel",
        "trial": 1,
        "trial_name": "a/b/1",
        "processor": V100,
        "calls": launches,
        "launches": launches,
        "counted": launches,
        "run_time": time,
        "time": time,
        "flop": flop,
        "bytes": moved,
        "flop_tier": "measured",
        "bytes_tier": "measured",
        "share": 1.0,
    }
    return Point(**{**given, **more})


def test_the_longest_ideal_time_bounds_a_point():
    placed = place(point({"fp32": 15.16e9 / 2}, {"DRAM": 828.8e6 / 4, "L2": 1e3}), roofs())
    assert placed.compute == pytest.approx(0.5e-3)
    assert placed.levels["DRAM"] == pytest.approx(0.25e-3)
    assert (placed.bound_by, placed.limiter) == ("compute", "compute (fp32)")
    assert placed.roof_share == pytest.approx(0.5)
    assert place(point({"fp32": 1e6}, {"DRAM": 8e8, "L2": 29e8}), roofs()).bound_by == "L2"


def test_each_precision_counts_against_its_own_peak():
    """Half of the ideal time in tensor cores, half in FP32: the peak is their blend."""
    flop = {"tensor fp16": 107.47904e9 / 4, "fp32": 15.16e9 / 4}
    placed = place(point(flop, {"DRAM": 1.0}), roofs())
    assert placed.compute == pytest.approx(0.5e-3)
    assert placed.peak == pytest.approx((107.47904e12 + 15.16e12) / 2)


def test_the_papers_rule_holds_all_flop_against_one_peak():
    """FP32 at AI 81.3: bandwidth-bound under tensor cores' balance 129.68, with an
    efficiency of 0.091; compute-bound under FP32's own 18.29, with 0.404."""
    flop = 0.404 * 15.16e12 * 1e-3
    strided = point({"fp32": flop}, {"DRAM": flop / 81.3})
    own, paper = place(strided, roofs()), place(strided, roofs("tensor fp16"))
    assert (own.bound_by, paper.bound_by) == ("compute", "DRAM")
    assert own.roof_share == pytest.approx(0.404)
    assert paper.roof_share == pytest.approx(0.091, abs=5e-4)


def test_a_peak_that_is_not_there_is_an_error_that_lists_those_that_are():
    with pytest.raises(UsageError, match=r"no peak 'fp64'.*tensor fp16, fp16, fp32"):
        roofs("fp64")


def test_flop_without_bytes_have_no_share_of_a_roof():
    placed = place(point({"fp32": 1e9}, {}), roofs())
    assert (placed.roof_share, placed.bound_by) == (None, "")
    assert sentence(placed) == "bytes not counted"


def test_a_kernel_without_flop_is_bound_by_its_bytes():
    placed = place(point({"fp32": 0.0}, {"DRAM": 828.8e6 * 0.8}), roofs())
    assert placed.bound_by == "DRAM"
    assert placed.roof_share == pytest.approx(0.8)
    assert placed.times("DRAM") == (0.0, 1e-3)
    assert sentence(placed).startswith("no flop; bound by DRAM, at 80.0 % of its roof")


def test_launches_that_take_longer_than_the_kernels_bound_them():
    placed = place(point({"fp32": 1e6}, {"DRAM": 1e5}, time=100e-6, launches=36), roofs())
    assert placed.overhead == pytest.approx(151.2e-6)
    assert placed.bound_by == "launch"
    assert "36 launches x 4.20 us = 151 us against 100 us" in sentence(placed)


def test_unknown_precisions_are_held_against_a_roof_that_is_not_lower_and_say_so():
    placed = place(point({"any": 1e9, "tensor": 1e9}, {"DRAM": 1.0}), roofs())
    assert placed.compute == pytest.approx(1e9 / 15.16e12 + 1e9 / 107.47904e12)
    assert placed.assumed == (
        "flop of unknown precision compared with the fp32 peak",
        "tensor flop of unknown type compared with the tensor fp16 peak",
    )


def test_a_point_above_its_roof_is_reported():
    placed = place(point({"fp32": 16e9}, {"DRAM": 1.0}), roofs())
    assert placed.above_roof
    assert "above its roof" in sentence(placed)
    assert not place(point({"fp32": 15.3e9}, {"DRAM": 1.0}), roofs()).above_roof


def test_without_roofs_nothing_is_claimed():
    placed = place(point({"fp32": 16e9}, {"DRAM": 1.0}), roofs(found=[]))
    assert (placed.compute, placed.roof_share, placed.bound_by) == (None, None, "")
    assert sentence(placed) == "no roof known for its flop or bytes"
    assert placed.times("DRAM") is None


def test_a_kernel_far_from_all_roofs_is_not_called_bound():
    placed = place(point({"fp32": 1e8}, {"DRAM": 1e6}), roofs())
    assert sentence(placed).startswith("far from every roof (0.7 % of its roof")


def test_the_verdict_adds_up_idle_kernels_and_launches():
    placed = [
        place(point({"fp32": 7e9}, {"DRAM": 1e6}, 0.6e-3, 100, share=0.6), roofs()),
        place(point({"fp32": 0.0}, {"DRAM": 3e8}, 0.4e-3, 100, share=0.4), roofs()),
    ]
    lines = verdict(placed, wall=2e-3)
    assert lines[2] == (
        "without flop (copies, conversions, layout): 1 of 2 kernels, 40.0 % of the time in kernels"
    )
    assert lines[3].startswith("launching: 200 x 4.20 us (event pair, measured) = 840 us, 84.0 % ")
    assert lines[3].endswith("and 42.0 % of the run time 2.00 ms")


def test_analytic_bytes_above_the_roof_may_have_come_from_a_cache():
    moved = place(point({"fp32": 1e3}, {"DRAM": 1e9}, 1e-6, bytes_tier="analytic"), roofs())
    assert moved.above_roof
    assert "may have come from a cache" in sentence(moved)
    counted = place(point({"fp32": 1e3}, {"DRAM": 1e9}, 1e-6), roofs())
    assert "a wrong count" in sentence(counted)
    reckoned = place(point({"fp32": 1e12}, {"DRAM": 1e3}, 1e-6, bytes_tier="analytic"), roofs())
    assert "a wrong count" in sentence(reckoned)
