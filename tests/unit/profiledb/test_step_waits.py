"""`taupy waiting --by step`: computed, waited for a processor, waited otherwise."""

from __future__ import annotations

import csv
from array import array

import pytest

from taupy.commands import main
from taupy.model.profile import Steps
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile, steps

US = 1000


@pytest.fixture
def waiting(tmp_path, monkeypatch, capsys):
    """Run `taupy waiting --by step` on a trial with these steps: its status, output, errors."""
    monkeypatch.chdir(tmp_path)

    def waiting(series: list[Steps], *options: str) -> tuple[int, str, str]:
        profile = small_profile()
        profile.threads[0].steps = series
        with ProfileDB.open("taupy.db", create=True) as db:
            add_profile(db, profile)
        status = main(["waiting", "--by", "step", *options])
        return status, *capsys.readouterr()

    return waiting


def used(cpu: list[float], delay: list[float]) -> Steps:
    """Steps of 100 us each with these CPU times and run delays [us]."""
    series = steps([100 * US] * len(cpu))
    series.metrics = {
        "cpu_time": array("d", [time * US for time in cpu]),
        "run_delay": array("d", [time * US for time in delay]),
    }
    return series


NAN = float("nan")


def test_a_steps_time_is_divided_into_three(waiting):
    # Of the second step nothing is known, of the third no delay; the fourth has more CPU time than
    # time, because the two are read one after the other.
    series = used([60, NAN, 70, 101], [10, NAN, NAN, 1])
    _, text, _ = waiting([series, steps([8 * US], "validation")], "--csv")
    rows = list(csv.DictReader(text.splitlines()))
    parts = [(row["on_cpu_ns"], row["runnable_ns"], row["waiting_ns"]) for row in rows]
    assert parts == [
        ("60000", "10000", "30000"),
        ("", "", ""),
        ("70000", "", "30000"),
        ("100000", "0", "0"),
        ("2000", "1000", "5000"),
    ]
    assert rows[-1]["kind"] == "validation"


def test_people_are_told_what_was_measured(waiting):
    status, text, _ = waiting([used([60] * 20, [10] * 20)])
    assert status == 0 and "On CPU  Runnable   Waiting" in text
    assert "20 steps in 2.00 ms: 60.0 % on a CPU, 10.0 % runnable, 30.0 % waiting" in text
    assert "exact, not sampled" in text and "6 of 20 rows shown" in text


def test_a_kernel_without_run_delays_is_named(waiting):
    _, text, _ = waiting([used([60, 60], [NAN, NAN])])
    assert "Runnable" not in text.split("note:")[0] and "Waiting includes it" in text


def test_steps_without_cpu_times_are_refused(waiting):
    bare = steps([100])
    bare.metrics = {}
    status, _, said = waiting([bare])
    assert status != 0 and "trial 1 has no CPU time of its steps" in said


def test_a_trial_without_steps_is_refused(waiting):
    status, _, said = waiting([])
    assert status != 0 and "trial 1 has no steps: see docs/steps.md" in said
