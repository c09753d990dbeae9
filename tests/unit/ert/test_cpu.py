"""The CPU's ceilings: what is measured where, and that it holds together."""

from __future__ import annotations

import sys

import pytest

from taupy.ert import cpu
from taupy.ert.windows import Windows

micro = pytest.importorskip("taupy._native.micro", reason="built without a C compiler")

SUBJECT = cpu.Subject("01900000", "host", "a CPU", "2026-01-01T00:00:00Z")
MB = 1 << 20


def test_windows_keep_the_best_and_say_how_steady_it_was():
    seen = Windows.of([4.0, 1.0, 2.0, 3.0, 5.0])
    assert (seen.best, seen.median, seen.samples) == (5.0, 3.0, 5)
    assert seen.spread == pytest.approx((4.5 - 1.5) / 3)
    assert Windows.of([3.0, 1.0], lowest=True).best == 1.0
    assert Windows.of([7.0]) == Windows(7.0, 7.0, 0.0, 1)


def write_cache(root, index, level, kind, size, shared):
    folder = root / "cpu0" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, value in (
        ("level", level),
        ("type", kind),
        ("size", size),
        ("shared_cpu_list", shared),
    ):
        (folder / name).write_text(f"{value}\n")


def test_caches_are_read_from_the_system(tmp_path):
    write_cache(tmp_path, 0, 1, "Data", "48K", "0,8")
    write_cache(tmp_path, 1, 1, "Instruction", "32K", "0,8")
    write_cache(tmp_path, 3, 3, "Unified", "32M", "0-7,16-23")
    write_cache(tmp_path, 2, 2, "Unified", "1024K", "0")
    assert cpu.caches(0, tmp_path) == [
        cpu.Cache(1, 48 << 10, 2),
        cpu.Cache(2, 1 << 20, 1),
        cpu.Cache(3, 32 << 20, 16),
    ]
    assert cpu.caches(1, tmp_path) == []


def test_working_sets_lie_in_one_level_and_no_nearer_one():
    found = [cpu.Cache(1, 48 << 10, 1), cpu.Cache(2, MB, 1), cpu.Cache(3, 32 * MB, 8)]
    assert cpu.working_sets(found, 1, 64 << 30) == {
        "L1": 24 << 10, "L2": MB // 2, "L3": 16 * MB, "DRAM": 256 * MB,
    }  # fmt: skip
    # Eight threads share the L3: 4 MB each, half of it is twice the L2.
    assert cpu.working_sets(found, 8, 64 << 30)["L3"] == 2 * MB
    # 16 threads on a smaller one have no room beside their L2.
    small = [*found[:2], cpu.Cache(3, 16 * MB, 16)]
    assert "L3" not in cpu.working_sets(small, 16, 64 << 30)
    assert cpu.working_sets(found, 1, 600 * MB)["DRAM"] == 100 * MB
    assert set(cpu.working_sets([], 1, 64 << 30)) == {"DRAM"}


def test_a_kernel_gives_one_rate_a_window_and_stops_when_it_gets_no_better():
    rates = micro.measure("chain int64 scalar", (0,), 0, 1e-4, 50, 5)
    assert 6 <= len(rates) <= 50
    assert min(rates) > 0
    assert len(micro.measure("chain int64 scalar", (0,), 0, 1e-4, 3, 99)) == 3


def test_every_kernel_that_is_listed_runs():
    assert len(micro.kernels()) >= 5
    for kernel in micro.kernels():
        (rate,) = micro.measure(kernel, (0,), 4096, 1e-5, 1, 1)
        assert rate > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no such", (0,), 0, 1e-4, 1, 1), "no kernel 'no such'"),
        (("chain int64 scalar", (), 0, 1e-4, 1, 1), "1 window or more"),
        (("chain int64 scalar", (0,), 0, 1e-4, 0, 1), "1 window or more"),
        (("chain int64 scalar", (-1,), 0, 1e-4, 1, 1), "no CPU -1"),
        (("read bytes 128", (0,), 0, 1e-4, 1, 1), "256 bytes or more"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        micro.measure(*arguments)


def test_wider_vectors_and_lower_precision_are_never_slower():
    """By how much is the machine's affair; half the speed of the narrower would be a slip."""
    wide = {name: max(micro.measure(name, (0,), 0, 2e-4, 40, 20)) for name in micro.kernels()
            if name.startswith("fma")}  # fmt: skip
    assert wide["fma fp64 128"] > wide["fma fp64 scalar"]
    assert wide["fma fp32 128"] > 1.3 * wide["fma fp64 128"]


def test_all_ceilings_of_this_machine_in_one_go(monkeypatch):
    monkeypatch.setattr(cpu, "_MOST_WINDOWS", 3)
    monkeypatch.setattr(cpu, "_DRAM_PASSES", 1)
    monkeypatch.setattr(cpu, "_WINDOW_S", 1e-4)
    monkeypatch.setattr(cpu, "_memory_bytes", lambda: 96 * MB)
    told = []
    found = list(cpu.characterize(SUBJECT, told.append))
    assert len(found) == len(told)
    keys = {(one.kind, one.name, one.pattern, one.threads) for one in found}
    assert len(keys) == len(found)
    assert {one.threads for one in found} == {1, len(cpu.allowed_cpus())}
    assert {one.name for one in found} >= {"fp64", "fp32", "L1", "DRAM"}
    for one in found:
        assert one.value >= one.median > 0
        assert one.clock_hz > 1e8
        assert one.source == "measured"
        assert (one.bytes is not None) == (one.kind == "bandwidth")


def test_without_the_compiled_kernels_numpy_gives_lower_bounds_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "taupy._native.micro", None)
    monkeypatch.delattr("taupy._native.micro", raising=False)
    monkeypatch.setattr(cpu, "_memory_bytes", lambda: 96 * MB)
    found = list(cpu.characterize(SUBJECT, lambda text: None))
    assert {one.name for one in found} >= {"fp64", "fp32", "DRAM"}
    assert all("lower bound" in one.pattern for one in found)
