"""Points are sums of what was counted, and know what was not."""

from __future__ import annotations

import pytest

from taupy.errors import MissingMetric, UsageError
from taupy.model.profile import ROOT_TIMER, TIME, Metric, Timer, UserEvent
from taupy.roofline import points as module
from taupy.roofline.points import points
from tests.builders import call, event, host, profile_of
from tests.unit.roofline.build import Kernel, cpu_trial, gpu_trial, phases_trial


def worked(point):
    """Its flop where there are some, by precision."""
    return {precision: flop for precision, flop in point.flop.items() if flop}


def named(found, name):
    (one,) = [point for point in found if name in (point.name, point.short)]
    return one


GEMM = {"flop_fp32": 8e9, "bytes_dram": 1e8, "bytes_l2": 4e8, "bytes_l1": 8e8}


def test_a_kernel_of_two_phases_is_one_point_of_sums(work):
    trial = gpu_trial(
        Kernel("gemm", 10, 1_000_000, {"flop_fp32": 8e9, "bytes_dram": 1e8}, "forward"),
        Kernel("gemm", 30, 5_000_000, {"flop_fp32": 1e9, "bytes_dram": 7e8}, "backward"),
    )
    (gemm,) = points(work(trial), "kernel")
    assert (gemm.calls, gemm.launches, gemm.counted) == (40, 40, 40)
    assert gemm.total_flop == 9e9
    assert gemm.time == pytest.approx(6e-3)
    # Not the mean of 80 and 1.43 flop/B, nor of 8 and 0.2 Tflop/s:
    assert gemm.intensity("DRAM") == pytest.approx(9e9 / 8e8)
    assert gemm.performance == pytest.approx(1.5e12)
    assert gemm.processor == "Tesla V100-SXM2-16GB"
    assert (gemm.flop_tier, gemm.bytes_tier) == ("measured", "measured")


def test_work_of_imports_is_no_routines_but_the_programs(work):
    stated = [event("flop", [4.0], "flop"), event("bytes_dram", [4.0], "B")]
    body = call(Timer("<module> [{b.py}{1}]"), 1, 10, events=stated)
    imported = call(Timer("import b", groups=("IMPORT",)), 1, 10, [body])
    f = call(Timer("f [{a.py}{1}]"), 1, 30, [imported], stated)
    there = work(profile_of(host(call(ROOT_TIMER, 1, 50, [f]))))
    assert [point.short for point in points(there, "routine")] == ["f [{a.py}{1}]"]
    (program,) = points(there, "program")
    assert program.total_flop == 8


def test_phases_hold_what_was_launched_in_them_and_the_program_all(work):
    there = work(
        gpu_trial(
            Kernel("gemm", 10, 1_000_000, GEMM, "forward"),
            Kernel("relu", 10, 500_000, {**GEMM, "flop_fp32": 0}, "forward"),
            Kernel("gemm", 5, 500_000, GEMM, "backward"),
        )
    )
    phases = points(there, "phase")
    forward = named(phases, "forward")
    assert (forward.calls, forward.launches) == (1, 20)
    assert forward.total_flop == 8e9
    assert forward.bytes == {"L1": 16e8, "L2": 8e8, "DRAM": 2e8}
    assert forward.share == pytest.approx(0.75)
    (program,) = points(there, "program")
    assert (program.launches, program.total_flop) == (25, 16e9)
    assert program.run_time == pytest.approx(2e-3)
    assert program.share == pytest.approx(1)


def test_kernels_count_for_the_nearest_routine_or_for_all_above(work):
    there = work(gpu_trial(Kernel("gemm", 10, 1_000_000, GEMM, "forward")))
    assert [point.short for point in points(there, "routine")] == ["forward"]
    all_above = points(there, "routine", inclusive=True)
    assert {point.short for point in all_above} == {"forward", "<module>"}
    assert {point.total_flop for point in all_above} == {8e9}


def test_rates_are_of_the_counted_launches_and_shares_of_all(work):
    values = {**GEMM, "counted_launches": 2, "counted_time": 300_000}
    there = work(gpu_trial(Kernel("gemm", 10, 1_000_000, values), Kernel("rest", 1, 1_000_000)))
    gemm = named(points(there, "kernel"), "gemm")
    assert gemm.counted == 2
    assert gemm.time == pytest.approx(3e-4)
    assert gemm.run_time == pytest.approx(1e-3)
    assert gemm.performance == pytest.approx(8e9 / 3e-4)
    assert gemm.share == pytest.approx(0.5)
    assert gemm.notes == ("2 of 10 launches were counted",)


def test_counted_launches_without_their_time_take_their_part_of_it(work):
    there = work(gpu_trial(Kernel("gemm", 10, 1_000_000, {**GEMM, "counted_launches": 4})))
    assert points(there, "kernel")[0].time == pytest.approx(4e-4)


def test_a_kernel_without_flop_is_kept_and_one_that_was_not_counted_is_unknown(work):
    there = work(
        gpu_trial(
            Kernel("gemm", 1, 1000, GEMM),
            Kernel("copy", 1, 3000, {**GEMM, "flop_fp32": 0}),
            Kernel("missed", 1, 1000),
        )
    )
    found = points(there, "kernel")
    copy, missed = named(found, "copy"), named(found, "missed")
    assert copy.total_flop == 0
    assert copy.intensity("DRAM") == 0
    assert copy.performance == 0
    assert copy.share == pytest.approx(0.6)
    assert (missed.flop_tier, missed.bytes_tier, missed.is_known) == ("unknown", "unknown", False)
    assert missed.intensity("DRAM") is None


def test_tensor_flop_are_distinguished_as_far_as_they_were_counted(work):
    there = work(
        gpu_trial(
            Kernel("a", 1, 10, {"flop_tensor": 8e9, "flop_tensor_bf16": 6e9, "bytes_dram": 1}),
            Kernel("b", 1, 9, {"flop_tensor": 8e9, "flop_tensor_bf16": 8e9, "bytes_dram": 1}),
            Kernel("c", 1, 8, {"flop_tensor": 8e9, "bytes_dram": 1}),
        )
    )
    first, second, third = points(there, "kernel")
    assert worked(first) == {"tensor bf16": 6e9, "tensor": 2e9}
    assert worked(second) == {"tensor bf16": 8e9}
    assert worked(third) == {"tensor": 8e9}
    assert {point.total_flop for point in (first, second, third)} == {8e9}


def test_run_times_come_from_the_timing_trial(work):
    counted = work(gpu_trial(Kernel("gemm", 10, 2_000_000, GEMM)))
    timing = work(gpu_trial(Kernel("gemm", 20, 2_000_000), number=2))
    (gemm,) = points(counted, "kernel", timing=timing)
    assert gemm.time == pytest.approx(1e-3)  # 10 of the 20 launches that took 2 ms
    assert gemm.performance == pytest.approx(8e12)
    assert "20 in the timing trial" in gemm.notes[0]


def test_a_short_name_finds_its_times_where_it_is_unique(work):
    counted = work(gpu_trial(Kernel("void gemm<float, (int)4>()", 2, 9000, GEMM, short="gemm")))
    spelled = Kernel("void gemm<float, 4>()", 2, 4000, short="gemm")
    (gemm,) = points(counted, "kernel", timing=work(gpu_trial(spelled, number=2)))
    assert gemm.time == pytest.approx(4e-6)
    twice = gpu_trial(spelled, Kernel("void gemm<float, 8>()", 2, 1, short="gemm"), number=3)
    with pytest.raises(UsageError, match="a run of the same program"):
        points(counted, "kernel", timing=work(twice))


def test_a_timing_trial_may_lack_some_kernels_but_not_all(work):
    counted = work(gpu_trial(Kernel("gemm", 10, 2_000_000, GEMM), Kernel("relu", 1, 1000, GEMM)))
    partly = work(gpu_trial(Kernel("relu", 1, 500), number=2))
    gemm = named(points(counted, "kernel", timing=partly), "gemm")
    assert gemm.time == pytest.approx(2e-3)
    assert "not in the timing trial" in gemm.notes[0]
    other = work(gpu_trial(Kernel("other", 1, 1000), number=3))
    with pytest.raises(UsageError, match="a run of the same program"):
        points(counted, "kernel", timing=other)


def test_host_routines_count_what_they_did_themselves(work):
    there = work(cpu_trial())
    found = points(there, "routine")
    matmul = named(found, "matmul")
    assert (matmul.flop, matmul.bytes, matmul.time) == ({"any": 2e9}, {"DRAM": 1e8}, 1.0)
    assert named(found, "<module>").total_flop == 1e6
    whole = named(points(there, "routine", inclusive=True), "<module> [{cpu.py}{1}]")
    assert whole.total_flop == 2_001_000_000
    assert whole.share == pytest.approx(1)
    (program,) = points(there, "program")
    assert (program.total_flop, program.time) == (2_001_000_000, pytest.approx(1.6))
    assert "without write-backs" in program.notes[0]


def test_flop_that_the_program_states_are_analytic(work):
    profile = phases_trial({"conv filters=64": 0.25})
    tree = profile.threads[0]
    for name, unit, value in (("flop_fp32", "flop", 3e9), ("bytes_dram", "B", 5e8)):
        tree.user_events.append(
            UserEvent(name, unit, 2, value, value, value, 2 * value * value, row=2)
        )
    (phase,) = points(work(profile), "phase")
    assert phase.flop == {"fp32": 6e9}
    assert phase.bytes == {"DRAM": 1e9}
    assert (phase.flop_tier, phase.bytes_tier) == ("analytic", "analytic")
    assert phase.time == pytest.approx(0.25)


def layer(name, *below):
    return call(Timer(name, groups=("LAYER",)), 2, COUNTED | {"time": 1000}, below)


COUNTED = {"flop": 0, "bytes_dram_read": 0}


def test_a_layer_holds_the_layers_in_it_and_backward_is_apart(work):
    product = call(
        Timer("linear", groups=("PYTHON_C",)),
        2,
        {"time": 10**9, "flop": 2 * 10**9, "bytes_dram_read": 10**8},
    )
    gradient = call(
        Timer("backward of head [Linear]", groups=("LAYER", "PHASE_BACKWARD")),
        2,
        {"time": 2 * 10**9, "flop": 4 * 10**9, "bytes_dram_read": 10**8},
    )
    inside = [layer("Net [Net]", layer("head [Linear]", product)), gradient]
    main = call(ROOT_TIMER, 1, COUNTED | {"time": 0}, inside)
    profile = profile_of(
        host(main),
        metrics=[Metric("bytes_dram_read", "B"), Metric("flop", "flop"), TIME],
        metadata={"CPU Type": "AMD EPYC"},
    )
    found = {point.name: (point.total_flop, point.time) for point in points(work(profile), "layer")}
    assert found == {
        "Net [Net]": (2e9, pytest.approx(1.000002)),
        "head [Linear]": (2e9, pytest.approx(1.000001)),
        "backward of head [Linear]": (4e9, pytest.approx(2)),
    }


def test_kernels_count_for_the_layers_that_launched_them(work):
    profile = gpu_trial(Kernel("gemm", 10, 4_000_000, {"flop_fp32": 1e9, "bytes_dram": 1e8}))
    for place, timer in enumerate(profile.timers):
        if "PHASE" in timer.groups:
            profile.timers[place] = timer._replace(name="head [Linear]", groups=("LAYER",))
    (head,) = points(work(profile), "layer")
    assert (head.launches, head.total_flop, head.time) == (10, 1e9, pytest.approx(4e-3))
    assert points(work(profile), "phase") == []


def test_without_layers_the_message_says_so(work):
    with pytest.raises(MissingMetric, match="no layers of a network were recorded; use --by rou"):
        points(work(cpu_trial()), "layer")


@pytest.mark.parametrize("of", ["kernel", "routine", "phase", "layer", "program"])
def test_a_trial_without_counters_is_an_error_that_names_the_remedy(work, of):
    there = work(gpu_trial(Kernel("gemm", 1, 1000)))
    with pytest.raises(MissingMetric, match=r"its metrics: time.*taupy run --metrics roofline"):
        points(there, of)


@pytest.mark.parametrize(
    ("values", "lacking"),
    [({"flop_fp32": 1e9}, "no bytes at any level"), ({"bytes_dram": 1e9}, "no flop in any")],
)
def test_half_of_the_counters_is_an_error_too(work, values, lacking):
    there = work(gpu_trial(Kernel("gemm", 1, 1000, values)))
    with pytest.raises(MissingMetric, match=lacking):
        module.require(points(there, "kernel"), there)


def test_events_of_such_names_in_other_units_are_something_else(work):
    profile = phases_trial({"step": 0.5})
    for name, unit in (("flop", "coins"), ("bytes_dram", "KiB"), ("counted_time", "B")):
        event = UserEvent(name, unit, 1, 1e9, 1e9, 1e9, 1e18, row=2)
        profile.threads[0].user_events.append(event)
    with pytest.raises(MissingMetric):
        points(work(profile), "phase")


def test_stated_flop_that_kernels_did_take_the_kernels_time(work):
    profile = gpu_trial(Kernel("gemm", 10, 4_000_000, phase="forward"))
    for name, unit in (("flop_fp32", "flop"), ("bytes_dram", "B")):
        event = UserEvent(name, unit, 1, 1e9, 1e9, 1e9, 1e18, row=2)
        profile.threads[0].user_events.append(event)
    (phase,) = points(work(profile), "phase")
    assert (phase.launches, phase.time) == (10, pytest.approx(4e-3))
    assert phase.processor == "Tesla V100-SXM2-16GB"
    assert phase.flop_tier == "analytic"


def test_counts_of_blas_calls_say_that_they_are_not_all(work):
    profile = phases_trial({"step": 0.5})
    profile.metadata["taupy.option.analytic"] = "BLAS"
    for name, unit in (("flop_fp32", "flop"), ("bytes_dram", "B")):
        event = UserEvent(name, unit, 1, 1e9, 1e9, 1e9, 1e18, row=2)
        profile.threads[0].user_events.append(event)
    (phase,) = points(work(profile), "phase")
    assert phase.notes[0].startswith("analytic: BLAS calls from their shapes; other operations")
    assert phase.covered == pytest.approx(1)


@pytest.mark.parametrize("of", ["routine", "phase", "program"])
def test_analytic_trials_show_what_share_of_the_time_was_counted(work, of):
    profile = phases_trial({"solve": 0.2, "read": 0.6})
    profile.metadata["taupy.option.analytic"] = "BLAS"
    for name, unit in (("flop_fp32", "flop"), ("bytes_dram", "B")):
        profile.threads[0].user_events.append(
            UserEvent(name, unit, 1, 1e9, 1e9, 1e9, 1e18, row=2)  # in "solve"
        )
    for point in points(work(profile), of):
        assert point.covered == pytest.approx(0.25)


def test_threads_may_have_run_one_after_another(work):
    def step(number, seconds):
        work = {"flop_fp32": 10**9, "bytes_dram": 10**8, "time": round(seconds * 1e9)}
        return host(call("root", 1, 0, [call(Timer("step"), 1, work)]), thread=number)

    metrics = [TIME, Metric("flop_fp32", "flop"), Metric("bytes_dram", "B")]
    profile = profile_of(step(0, 0.3), step(1, 0.1), step(2, 0.2), metrics=metrics)
    (point,) = [one for one in points(work(profile), "routine") if one.name == "step"]
    assert (point.total_flop, point.time) == (3e9, 0.3)
    assert point.notes[0].startswith("step: on 3 threads; the time is the longest one's")
    assert "run one after another they take 600 ms, and rates are 2x lower" in point.notes[0]


def test_what_counters_counted_is_all_there_is(work):
    assert {point.covered for point in points(work(cpu_trial()), "routine")} == {None}
