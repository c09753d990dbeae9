"""What was not counted is unknown, is named, and leads to no conclusion."""

from __future__ import annotations

import pytest

from taupy.errors import UsageError
from taupy.model.profile import UserEvent
from taupy.roofline import numbers
from taupy.roofline.placement import place
from taupy.roofline.points import points
from taupy.roofline.stated import stated, statement
from taupy.roofline.verdict import sentence
from tests.unit.roofline.build import Kernel, Partly, gpu_trial, phases_trial
from tests.unit.roofline.test_placement import roofs

ALL = {"flop_fp64": 0, "flop_fp32": 8e9, "flop_fp16": 0, "flop_tensor": 0, "bytes_dram": 1e8}


def test_a_kernel_has_all_its_flop_where_every_precision_was_counted(work):
    (point,) = points(work(gpu_trial(Kernel("k", 1, 1000, ALL))), "kernel")
    assert (point.uncounted, point.flop_tier, point.total_flop) == ((), "measured", 8e9)


@pytest.mark.parametrize(
    ("values", "uncounted"),
    [
        ({"flop_fp32": 8e9}, ("fp64", "fp16", "tensor")),
        ({"flop_fp64": 1, "flop_fp32": 8e9, "flop_fp16": 0}, ("tensor",)),
        (
            {"flop_fp64": 1, "flop_fp32": 8e9, "flop_fp16": 0, "flop_tensor_bf16": 0},
            ("other types of tensor cores",),
        ),
        ({"flop": 8e9}, ()),
    ],
)
def test_precisions_that_were_not_counted_are_named(work, values, uncounted):
    (point,) = points(work(gpu_trial(Partly("k", 1, 1000, {**values, "bytes_dram": 1}))), "kernel")
    assert point.uncounted == uncounted
    assert point.total_flop >= 8e9
    assert point.flop_tier == "measured"


def test_no_flop_of_one_precision_is_not_no_flop(work):
    """A counter of bf16 products alone, which is 0: all else may be anything."""
    (point,) = points(
        work(gpu_trial(Partly("k", 1, 1000, {"flop_tensor_bf16": 0, "bytes_dram": 1e6}))), "kernel"
    )
    assert (point.flop_tier, point.is_known, point.idle) == ("unknown", False, False)
    assert point.uncounted == ("fp64", "fp32", "fp16", "other types of tensor cores")
    record = numbers.record(place(point, roofs()), 1)
    assert (record["total_flop"], record["performance"]) == (None, None)


def test_a_level_that_was_counted_of_some_launches_only_is_left_out(work):
    found = points(
        work(
            gpu_trial(
                Kernel("a", 1, 1000, {**ALL, "bytes_l2": 5e8}),
                Kernel("b", 3, 1000, ALL),
            )
        ),
        "program",
    )
    assert found[0].bytes == {"DRAM": 2e8}
    assert "L2 bytes omitted: not counted for 3 of 4 launches" in found[0].notes


def test_no_tensor_instruction_is_no_tensor_flop(work):
    none = {**ALL, "inst_tensor": 0}
    some = {**ALL, "inst_tensor": 5}
    del none["flop_tensor"], some["flop_tensor"]
    (point, other) = points(
        work(gpu_trial(Partly("idle", 1, 2000, none), Partly("busy", 1, 1000, some))), "kernel"
    )
    assert (point.name, point.uncounted) == ("idle", ())
    assert other.uncounted == ("tensor",)


def test_partial_flop_lead_to_no_verdict(work):
    """1 % of the roof by what was counted: nothing is known of what holds it back."""
    values = {"flop_fp64": 0, "flop_fp32": 1.5e8, "flop_fp16": 0, "bytes_dram": 1e6}
    (point,) = points(work(gpu_trial(Partly("k", 1, 1_000_000, values))), "kernel")
    placed = place(point, roofs())
    assert placed.roof_share == pytest.approx(0.01, rel=0.02)
    assert (placed.bound_by, placed.nearest) == ("", "compute")
    said = sentence(placed)
    assert said.startswith("no verdict: tensor not counted; at least 1.0 % of its roof")
    assert "latency" not in said and "bound by" not in said


def test_a_phase_with_few_of_its_launches_counted_has_no_verdict(work):
    trial = gpu_trial(Kernel("gemm", 1, 5_000_000, ALL), Kernel("other", 19, 95_000_000))
    (phase,) = points(work(trial), "phase")
    assert phase.uncounted == ("19 of 20 launches",)
    assert sentence(place(phase, roofs())).startswith("no verdict: 19 of 20 launches not counted")


@pytest.mark.parametrize("of", ["phase", "program"])
def test_work_by_shapes_in_part_of_the_time_has_no_verdict(work, of):
    profile = phases_trial({"backward": 0.2, "read": 0.6})
    profile.metadata["taupy.option.analytic"] = "BLAS"
    for name, unit in (("flop_fp32", "flop"), ("bytes_dram", "B")):
        profile.threads[0].user_events.append(
            UserEvent(name, unit, 1, 1e9, 1e9, 1e9, 1e18, row=2)  # in "backward"
        )
    for point in points(work(profile), of):
        assert point.uncounted == (
            "operations other than BLAS calls",
            "work in 75.0 % of the run time",
        )
        assert sentence(place(point, roofs())).startswith("no verdict: operations other than")


def test_operations_without_a_formula_leave_no_verdict(work):
    profile = phases_trial({"backward": 0.2})
    profile.metadata["Counted Operations"] = "1"
    profile.metadata["Operations Not Counted"] = "convolution_backward"
    for name, unit in (("flop_fp32", "flop"), ("bytes_dram", "B")):
        profile.threads[0].user_events.append(UserEvent(name, unit, 1, 1e9, 1e9, 1e9, 1e18, row=2))
    (phase,) = points(work(profile), "phase")
    assert "operations without a formula" in phase.uncounted


# --- stated ------------------------------------------------------------------


def test_stated_flop_are_of_each_launch_and_analytic(work):
    there = work(gpu_trial(Partly("gemm_128", 10, 2_000_000, {"bytes_dram": 1e9}),
                           metadata={"M": "64", "N": "128", "K": "32"}))  # fmt: skip
    found = points(there, "kernel")
    asked = [statement("flop", "gemm*=2*M*N*K, tensor fp16")]
    (gemm,) = stated(found, asked, there.metadata)
    assert gemm.flop == {"tensor fp16": 10 * 2 * 64 * 128 * 32}
    assert (gemm.flop_tier, gemm.bytes_tier, gemm.uncounted) == ("analytic", "measured", ())
    assert gemm.notes[-1] == "flop of each launch stated: 2*M*N*K = 524288"


def test_a_kernel_of_which_nothing_was_counted_can_be_stated(work):
    there = work(gpu_trial(Kernel("saxpy", 4, 8_000)))
    found = points(there, "kernel", uncounted=True)
    asked = [statement("flop", "saxpy=2*1000"), statement("bytes", "saxpy=12*1000")]
    (saxpy,) = stated(found, asked, {})
    assert (saxpy.total_flop, saxpy.bytes, saxpy.time) == (8_000, {"DRAM": 48_000}, 8e-6)
    assert (saxpy.counted, saxpy.flop_tier, saxpy.bytes_tier) == (4, "analytic", "analytic")
    assert saxpy.intensity("DRAM") == pytest.approx(1 / 6)


def test_what_was_counted_in_full_stays(work):
    found = points(work(gpu_trial(Kernel("gemm", 1, 1000, ALL))), "kernel")
    (gemm,) = stated(found, [statement("flop", "gemm=1"), statement("bytes", "gemm=1")], {})
    assert (gemm.total_flop, gemm.bytes["DRAM"], gemm.flop_tier) == (8e9, 1e8, "measured")
    assert gemm.notes == ("--flop ignored: it was counted", "--bytes ignored: it was counted")


@pytest.mark.parametrize(
    ("quantity", "text", "said"),
    [
        ("flop", "gemm", "--flop takes 'KERNEL=EXPRESSION'"),
        ("flop", "gemm=2*Q", "metadata has no number 'Q' (it has: K, M)"),
        ("flop", "other*=2", "no point 'other*' (there are: gemm)"),
        ("flop", "gemm=2*/3", "is not understood"),
        ("bytes", "gemm=1/0", "division by 0"),
        ("flop", "gemm=2*M, fp99", "is not understood"),
    ],
)
def test_a_statement_that_cannot_be_is_refused(work, quantity, text, said):
    there = work(gpu_trial(Kernel("gemm", 1, 1000, ALL), metadata={"M": "1", "K": "2", "a": "b"}))
    with pytest.raises(UsageError) as refused:
        stated(points(there, "kernel"), [statement(quantity, text)], there.metadata)
    assert said in str(refused.value)
