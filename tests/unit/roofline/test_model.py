"""The formulas, to the digits that the papers print, and the laws that they obey."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.roofline import model

V100_TENSOR = 80 * 8 * 1.312e9 * 64 * 2
V100_HBM = 828.8e9
LATENCY = 4.2e-6

positive = st.floats(1e-12, 1e15, allow_nan=False)
seconds = st.floats(1e-9, 1e6, allow_nan=False)


def test_the_peak_of_volta_tensor_cores():
    assert pytest.approx(107_479.04e9) == V100_TENSOR


@pytest.mark.parametrize(
    ("peak", "bandwidth", "balance"),
    [
        (V100_TENSOR, V100_HBM, 129.6803),
        (15.16e12, V100_HBM, 18.2915),
        (29.18e12, V100_HBM, 35.2075),
        (15.7e12, 900e9, 17.4444),
        (19.5e12, 1555e9, 12.5402),
        (56 * 64 * 2 * 1.3285e9, 732.16e9, 13.006),
    ],
)
def test_machine_balances(peak, bandwidth, balance):
    assert model.ridge(peak, bandwidth) == pytest.approx(balance, abs=6e-4)


def test_the_ridge_printed_in_seed_003():
    assert round(model.ridge(107479, 828.8), 2) == 129.68


def test_the_overhead_box_of_one_launch():
    assert model.overhead_box(1, LATENCY, 1.06e14, V100_HBM).flop == pytest.approx(0.4452e9)
    box = model.overhead_box(1, LATENCY, V100_TENSOR, V100_HBM)
    assert box.flop == pytest.approx(4.51412e8, rel=1e-6)
    assert box.bytes == pytest.approx(3.48096e6)


@pytest.mark.parametrize(("launches", "microseconds"), [(36, 151.2), (277, 1163.4), (243, 1020.6)])
def test_the_overhead_of_the_lstm_forward_pass(launches, microseconds):
    box = model.overhead_box(launches, LATENCY, V100_TENSOR, V100_HBM)
    assert box.seconds * 1e6 == pytest.approx(microseconds)


def test_the_box_of_36_launches_holds_16_gflop():
    box = model.overhead_box(36, LATENCY, V100_TENSOR, V100_HBM)
    assert box.flop == pytest.approx(16.2508e9, rel=1e-5)


def test_the_bound_of_gpp_on_v100():
    """nw = 1 is under the slope: AI x W = 2142.16 Gflop/s, 97.4 % of it reached."""
    bound = min(7068.86e9, 2.584785579 * 828.758e9)  # Williams et al., 2009
    assert bound == pytest.approx(2142.16e9, rel=1e-5)
    time = 1.0
    flop = 0.97367 * bound * time
    ideals = (flop / 7068.86e9, flop / 2.584785579 / 828.758e9)
    assert model.efficiency(time, ideals) == pytest.approx(0.97367)
    assert model.ridge(7068.86, 828.758) == pytest.approx(8.5295, abs=5e-5)


def test_fp32_against_its_own_and_against_the_tensor_peak():
    """Seed 003's strided backward pass, AI 81.3: left of one balance, right of the other."""
    assert model.ridge(15.16e12, V100_HBM) < 81.3 < model.ridge(V100_TENSOR, V100_HBM)


@given(seconds, positive, positive, st.floats(1e9, 1e16), st.floats(1e9, 1e14))
def test_the_larger_time_is_the_run_time(time, flop, moved, peak, bandwidth):
    times = model.times(time, flop / peak, moved / bandwidth)
    assert max(times) == time
    assert min(times) >= 0


@given(seconds, positive, positive, st.floats(1e9, 1e16), st.floats(1e9, 1e14))
def test_the_open_symbol_lies_on_its_own_diagonal(time, flop, moved, peak, bandwidth):
    times = model.times(time, flop / peak, moved / bandwidth)
    if min(times) < 1e-250:
        return
    x, y = times.bandwidth * bandwidth, times.compute * peak
    assert y / x == pytest.approx(flop / moved, rel=1e-9)


@given(seconds, positive, positive, st.floats(1e9, 1e16), st.floats(1e9, 1e14))
def test_open_over_closed_is_one_over_efficiency(time, flop, moved, peak, bandwidth):
    ideals = (flop / peak, moved / bandwidth)
    times = model.times(time, *ideals)
    efficiency = model.efficiency(time, ideals)
    if not 1e-200 < efficiency < 1e200 or min(times) < 1e-250:
        return
    assert times.bandwidth * bandwidth / moved == pytest.approx(1 / efficiency, rel=1e-9)
    assert times.compute * peak / flop == pytest.approx(1 / efficiency, rel=1e-9)


@given(seconds, positive, positive, st.floats(1e9, 1e16), st.floats(1e9, 1e14))
def test_efficiency_is_performance_over_attainable(time, flop, moved, peak, bandwidth):
    efficiency = model.efficiency(time, (flop / peak, moved / bandwidth))
    roof = min(peak, flop / moved * bandwidth)
    assert efficiency == pytest.approx(flop / time / roof, rel=1e-9)


@given(st.integers(1, 10**6), st.floats(1e-7, 1e-4), st.floats(1e9, 1e16), st.floats(1e9, 1e14))
def test_the_box_has_its_corner_on_the_machine_balance(launches, latency, peak, bandwidth):
    box = model.overhead_box(launches, latency, peak, bandwidth)
    assert box.flop / box.bytes == pytest.approx(model.ridge(peak, bandwidth))


def test_without_flop_all_time_is_bandwidth_time_and_the_other_way():
    assert model.times(2.0, 0.0, 0.5) == (0.0, 2.0)
    assert model.times(2.0, 0.5, 0.0) == (2.0, 0.0)
    assert model.times(2.0, 0.0, 0.0) is None


def test_the_equations_as_printed_hold_no_run_time():
    """Equation 2 with AI = F/B: both arms are F/P. Ours have the time in them."""
    flop, moved, peak = 3e9, 1e9, 1e13
    intensity = flop / moved
    assert min(flop / peak, moved * intensity / peak) == flop / peak
    slow, fast = (model.times(time, flop / peak, moved / 1e12) for time in (2.0, 1.0))
    assert slow.compute == 2 * fast.compute


def test_no_time_has_no_efficiency():
    assert math.isnan(model.efficiency(0.0, (1.0,)))
