"""Steps as points of a roofline."""

from __future__ import annotations

import csv
import math
from array import array
from dataclasses import replace

import pytest

from taupy.commands import main
from taupy.model.profile import Thread
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import steps
from tests.unit.roofline.build import Kernel, cpu_trial, gpu_trial

MS = 1_000_000


def counted(flop, moved, kind="training"):
    """Steps of 100 ms with these counts; NaN: unknown."""
    series = steps([100 * MS] * len(flop), kind)
    series.metrics = {"flop": array("d", flop), "bytes_dram_read": array("d", moved)}
    return series


@pytest.fixture
def roofline(tmp_path, monkeypatch, capsys):
    """Run `taupy roofline --by step` on these profiles: its status, output and errors."""
    monkeypatch.chdir(tmp_path)

    def roofline(*profiles, options=("--csv",)):
        with ProfileDB.open("taupy.db", create=True) as db:
            for profile in profiles:
                add_profile(db, profile)
        status = main(["roofline", "1", "--by", "step", *options])
        return status, *capsys.readouterr()

    return roofline


def with_steps(profile, *series):
    profile.threads[0].steps = list(series)
    return profile


def rows(text):
    return {row["name"]: row for row in csv.DictReader(text.splitlines())}


def test_each_step_with_counts_is_a_point(roofline):
    training = counted([2e8, math.nan, 4e8], [1e8, math.nan, 1e8])
    series = training, counted([1e8], [1e8], "validation")
    status, text, _ = roofline(with_steps(cpu_trial(), *series))
    found = rows(text)
    assert status == 0 and set(found) == {"step 1", "step 3", "validation step 1"}
    assert float(found["step 3"]["counted_time_s"]) == pytest.approx(0.1)
    assert float(found["step 3"]["flop"]) == 4e8 and found["step 3"]["calls"] == "1"


def test_steps_of_several_threads_are_told_apart(roofline):
    profile = with_steps(cpu_trial(), counted([2e8], [1e8]))
    other = replace(profile.threads[0], thread=Thread(0, 0, 1, name="second"))
    other.steps = [counted([3e8], [1e8])]
    profile.threads.append(other)
    assert set(rows(roofline(profile)[1])) == {"step 1, 0.0", "step 1, 0.1 second"}


def test_work_of_threads_without_steps_is_named(roofline):
    profile = with_steps(cpu_trial(), counted([2e8], [1e8]))
    profile.threads.append(replace(profile.threads[0], thread=Thread(0, 0, 1), steps=[]))
    _, text, _ = roofline(profile, options=())
    assert "work of 1 other thread" in text


def test_times_may_be_those_of_another_trial(roofline):
    plain = with_steps(cpu_trial(2), steps([50 * MS]))
    counting = with_steps(cpu_trial(1), counted([2e8], [1e8]))
    _, text, _ = roofline(counting, plain, options=("--csv", "--timing", "2"))
    assert float(rows(text)["step 1"]["run_time_s"]) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (cpu_trial(), "trial 1 has no steps: see docs/steps.md"),
        (with_steps(cpu_trial(), steps([5])), "no step whose flop or bytes were counted (its"),
        (
            with_steps(gpu_trial(Kernel("gemm", 1, 5, {"flop_fp32": 1e9})), steps([5])),
            "counted: kernels of GPUs are not counted step by step; use --by kernel",
        ),
    ],
)
def test_without_counts_no_point_is_drawn(roofline, profile, said):
    status, _, err = roofline(profile)
    assert status != 0 and said in err
