"""What ran on GPUs, as it is read back: kernels, launch sites, busy time."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.errors import TaupyError
from taupy.model.gpu import NO_OWNER, Launch
from taupy.model.profile import Thread, Timer
from taupy.model.streams import StreamBuilder
from taupy.profiledb import gpu_query
from taupy.profiledb.gpu_query import _Spans
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, small_profile

STEP = "step [{train.py}{5}]"


def test_kernels_are_summed_over_configurations(db):
    rows = gpu_query.kernels(gpu_query.launched(db, add_profile(db, gpu_profile())))
    assert [(row.context, row.short_name, row.calls, row.time_ns) for row in rows] == [
        (1, "gemm", 10, 5000),
        (1, "Memcpy HtoD", 10, 2000),
        (1, "relu", 10, 800),
    ]
    gemm = rows[0]
    assert gemm.timer == "void gemm<float, 128>(float*, int)"
    assert (gemm.minimum_ns, gemm.maximum_ns, gemm.mean_ns) == (290, 600, 500.0)
    assert gemm.stddev_ns == pytest.approx(math.sqrt((2_424_000 + 180_200) / 10 - 500**2))
    assert (gemm.configurations, gemm.occupancy, gemm.limiter) == (2, 0.5, "registers")
    assert (gemm.routine, gemm.routines) == (STEP, 1)
    assert sum(row.percent for row in rows) == pytest.approx(100)
    assert rows[1].bytes == 40_960


def test_a_launch_site_has_its_whole_call_path(db):
    sites = gpu_query.sites(gpu_query.launched(db, add_profile(db, gpu_profile())))
    first = next(site for site in sites if site.short_name == "gemm")
    assert first.callpath == f"<module> [{{train.py}}{{1}}] => {STEP} => cudaLaunchKernel"
    assert first.routine == STEP
    assert (first.grid, first.block, first.registers) == ((128, 1, 1), (256, 1, 1), 64)
    assert (first.node, first.context, first.thread) == (0, 1, 0)


def test_work_that_nobody_owns_and_nobody_timed_is_shown_as_such(db):
    profile = gpu_profile()
    builder = StreamBuilder(profile.timers)
    lost = Timer("lost", groups=("GPU_KERNEL",))
    stream = Thread(0, 1, 2, "stream", "stream 20", 20)
    builder.add(
        stream,
        None,
        lost,
        Launch(
            count=3, time_ns=200, minimum_ns=90, maximum_ns=110, sum_squares_ns2=20_200.0, untimed=1
        ),
    )
    profile.threads += builder.threads()
    trial = add_profile(db, profile)
    launches = gpu_query.launched(db, trial)
    sites = gpu_query.sites(launches)
    row = next(row for row in gpu_query.kernels(launches) if row.short_name == "lost")
    assert (row.routine, row.calls, row.untimed, row.mean_ns) == (NO_OWNER, 3, 1, 100.0)
    assert next(site for site in sites if site.short_name == "lost").callpath == NO_OWNER
    (busy,) = gpu_query.busy(db, trial, launches)
    assert busy.without_owner_ns == 200


def test_a_kernel_of_which_nothing_was_timed_has_no_mean(db):
    profile = gpu_profile()
    launch = replace(profile.threads[1].launches[2], time_ns=0, untimed=10, sum_squares_ns2=0.0)
    profile.threads[1].launches[2] = launch
    rows = gpu_query.kernels(gpu_query.launched(db, add_profile(db, profile)))
    relu = next(row for row in rows if row.short_name == "relu")
    assert math.isnan(relu.mean_ns)
    assert math.isnan(relu.stddev_ns)


def test_a_trial_without_a_gpu_says_how_to_get_one(db):
    with pytest.raises(TaupyError, match=r"nothing of trial 1 ran on a GPU; .*\(`taupy doctor`"):
        gpu_query.launched(db, add_profile(db, small_profile()))


def test_devices_come_with_their_facts(db):
    (device,) = gpu_query.devices(db, add_profile(db, gpu_profile()))
    assert (device.name, device.uuid, device.compute_capability) == (
        "NVIDIA H200", "GPU-0123", "9.0",
    )  # fmt: skip
    assert [(fact.name, fact.value, fact.unit) for fact in device.facts] == [
        ("Multiprocessors", 132, ""),
        ("Memory", 150_754_820_096, "B"),
    ]


def test_busy_time_is_the_union_of_the_activities(db):
    trial = add_profile(db, gpu_profile())
    (busy,) = gpu_query.busy(db, trial, gpu_query.launched(db, trial))
    assert busy.device == "NVIDIA H200"
    assert (busy.kernel_ns, busy.copy_ns) == (5800, 2000)
    # 20 kernels, one each microsecond: 500 and 80 ns by turns.
    assert (busy.busy_ns, busy.span_ns, busy.gaps) == (5800, 19_080, 19)
    assert busy.longest_gap_ns == 920
    assert busy.overlap_ns == 0


def test_without_stamps_busy_time_is_absent_and_not_zero(db):
    profile = gpu_profile()
    for thread in profile.threads:
        thread.activities = []
    trial = add_profile(db, profile)
    (busy,) = gpu_query.busy(db, trial, gpu_query.launched(db, trial))
    assert (busy.kernel_ns, busy.busy_ns, busy.overlap_ns, busy.gaps) == (5800, None, None, None)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_joined_spans_agree_with_counting_every_nanosecond(seed):
    random = Random(seed)
    spans = sorted(
        (start, start + random.randrange(0, 12), random.random() < 0.5)
        for start in (random.randrange(60) for _ in range(random.randrange(1, 15)))
    )
    joined = _Spans(spans[0][0], spans[0][0])
    for start, end, is_kernel in spans:
        joined.add(is_kernel, start, end)
    kernels = {at for start, end, is_kernel in spans if is_kernel for at in range(start, end)}
    copies = {at for start, end, is_kernel in spans if not is_kernel for at in range(start, end)}
    assert joined.first == spans[0][0]
    assert joined.until == max(end for _, end, _ in spans)
    assert joined.busy == len(kernels | copies)
    assert joined.overlap == len(kernels & copies)
    idle = sorted(set(range(joined.first, joined.until)) - kernels - copies)
    assert (joined.longest == 0) == (joined.gaps == 0)
    assert joined.longest <= len(idle)
