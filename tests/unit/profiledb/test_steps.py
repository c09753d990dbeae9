"""`taupy steps` with steps whose times are known."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from taupy.commands import main
from taupy.model.question import Condition, Question
from taupy.model.sampled import CUDA_ALLOCATED, KIB, RESIDENT, on_gpu
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import database_at, samples, small_profile, steps


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    profile = small_profile()
    times = [9_000_000, *[1_000_000] * 30, 3_000_000, *[1_000_000] * 20]
    profile.threads[0].steps = [steps(times), steps([500_000], "validation")]
    with database_at("taupy.db") as db:
        add_profile(db, profile)
        add_profile(db, small_profile(2))

    def ask(*arguments: str) -> str:
        assert main(["steps", *arguments]) == 0
        return capsys.readouterr().out

    return ask


def test_people_see_the_first_and_last_steps_and_what_is_unusual(ask):
    text = ask("1", "--kind", "training")
    numbers = [line.split()[0] for line in text.splitlines() if line[:4].strip().isdigit()]
    assert numbers == ["1", "2", "3", "32", "50", "51", "52"]
    assert [line.split()[-1] for line in text.splitlines() if line[:4].strip() in ("1", "32")] == [
        "warm-up",
        "outlier",
    ]
    assert "52 steps in 62.0 ms: median 1.00 ms, 95 % within 1.00 ms; 962.3 steps/s" in text
    assert "without 1 of warm-up; outliers: 1" in text
    assert "7 of 52 rows shown; --all shows them all" in text
    assert "VALIDATION" not in text
    assert len(ask("1", "--kind", "training", "--all").splitlines()) == 52 + 6


def test_files_have_every_step(ask):
    rows = list(csv.DictReader(ask("1", "--csv", "--kind", "training").splitlines()))
    assert len(rows) == 52
    assert rows[0]["time_ns"] == "9000000" and rows[0]["data_ns"] == "900000"
    assert rows[0]["other_ns"] == "8100000"
    assert (rows[0]["loss"], rows[1]["loss"]) == ("1.0", "")
    assert float(rows[0]["samples_per_second"]) == pytest.approx(8 / 9e-3)
    assert rows[1]["samples_per_second"] == ""


def test_the_whole_time_is_not_repeated_as_other_where_no_phase_is_known(ask):
    with database_at("taupy.db") as db:
        profile = small_profile(3)
        profile.threads[0].steps = [replace(steps([4_000_000]), phases={})]
        add_profile(db, profile)
    assert "Other" in ask("1") and "Other" not in ask("3")
    assert '"other_ns": 4000000' in ask("3", "--json")


def test_a_trial_without_steps_says_what_to_do(ask, capsys):
    assert main(["steps", "2"]) != 0
    assert "trial 2 has no steps: no optimizer" in capsys.readouterr().err


def test_steps_of_two_trials_are_compared_one_by_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with database_at("taupy.db") as db:
        for seed, times in ((1, [9_000_000, 1_000_000]), (2, [9_000_000, 3_000_000, 5_000_000])):
            profile = small_profile(seed)
            profile.threads[0].steps = [steps(times), steps([500_000], "validation")]
            add_profile(db, profile)
    assert main(["compare", "1", "2", "--by", "step", "--csv"]) == 0
    rows = {row["timer"]: row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert {*rows} == {"1", "2", "3", "validation 1"}
    assert float(rows["2"]["ratio"]) == 3 and float(rows["1"]["ratio"]) == 1
    assert (rows["3"]["a_ns"], float(rows["3"]["b_ns"])) == ("", 5_000_000)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["compare", "1", "1", "--by", "step", "--filter", "f"], "cannot be divided by routine"),
        (["compare", "1", "1", "--by", "step", "--metric", "flop"], "no metric 'flop'"),
        (["compare", "1", "1", "--by", "step", "--metric", "calls"], "no metric 'calls'"),
        (["pprof", "1", "--metric", "run_delay"], "no metric 'run_delay'"),
        (["steps", "1", "--metric", "misses"], "'misses' was not measured step by"),
        (["pivot", "--by", "step,phase", "--cell", "cpu_time"], "known of whole steps only"),
        (
            ["pivot", "1", "--by", "step", "--cell", "misses"],
            "only time, cpu_time, run_delay; nothing",
        ),
        (["candidates", "1", "--by", "step", "--group", "x"], "steps are not in groups"),
        (["pivot", "--by", "step,layer"], "cannot be divided by layer"),
        (["pivot", "2", "--by", "step"], "these trials have no steps"),
        (["candidates", "2", "--by", "step"], "has no steps: see docs/steps.md"),
        (["compare", "2", "2", "--by", "step"], "these trials have no steps"),
        (["pprof", "1", "--by", "step"], "--by step is `taupy steps`"),
        (["steps", "1", "--metric", "nonsense"], "no metric 'nonsense'"),
    ],
)
def test_what_is_not_known_of_steps_is_refused(ask, capsys, line, said):
    assert main(line) != 0
    assert said in capsys.readouterr().err


def shown(capsys, *line):
    assert main([*line, "--csv"]) == 0
    return list(csv.DictReader(capsys.readouterr().out.splitlines()))


def test_what_steps_used_answers_questions(ask, capsys):
    """A quarter of a step's time is CPU time; only the last step's run delay is known."""
    of_pivot = shown(capsys, "pivot", "1", "--by", "step", "--cell", "cpu_time", "--csv")
    assert of_pivot[0]["step"] == "1" and float([*of_pivot[0].values()][-1]) == 9_000_000 / 4
    assert len(of_pivot) == 53
    rows = shown(capsys, "compare", "1", "1", "--by", "step", "--metric", "run_delay", "--csv")
    assert {(row["timer"], row["a_ns"]) for row in rows} == {
        ("52", "1000"),
        ("validation 1", "1000"),
    }
    (first, *_) = shown(capsys, "candidates", "1", "--by", "step", "--metric", "cpu_time", "--csv")
    assert (first["timer"], first["value"], first["time_ns"]) == ("1", "2250000", "9000000")
    assert shown(capsys, "steps", "1", "--metric", "cpu_time")[0]["cpu_time_ns"] == "2250000"
    assert csv_row(ask("1", "--csv"), 51)["run_delay_ns"] == "1000"
    assert csv_row(ask("1", "--csv"), 50)["run_delay_ns"] == ""


def csv_row(text, at):
    return list(csv.DictReader(text.splitlines()))[at]


def test_a_question_about_steps_may_combine_metrics(tmp_path):
    """Steps of 8 and 4 us: a ratio counts those of which both sums are known."""
    profile = small_profile()
    profile.threads[0].steps = [steps([8000, 4000])]
    with database_at(tmp_path / "t.db") as db:
        trial = add_profile(db, profile)
        metrics = ("time", "cpu_time", "run_delay", "first(run_delay, cpu_time)")
        apart = values(db, Question((trial,), metrics, ("step",)))
        whole = values(db, Question((trial,), ("cpu_time", "run_delay"), ("thread",),
                       (Condition("step", ("1", "2")),), together=True))  # fmt: skip
    assert apart.row_labels("step") == ["1", "2"]
    found = [apart.column("exclusive", name) for name in metrics]
    assert found == [[8000, 4000], [2000, 1000], [None, 1000], [2000, 1000]]
    assert whole.column("exclusive", "cpu_time") == [1000]


def test_a_pivot_has_steps_in_their_order_and_their_phases(ask, capsys):
    rows = shown(capsys, "pivot", "1", "--by", "step", "--columns", "phase")
    assert [row["step"] for row in rows] == [*map(str, range(1, 53)), "validation 1"]
    assert (rows[0]["data"], rows[0]["(no phase)"]) == ("900000.0", "8100000.0")
    assert main(["pivot", "1", "--by", "step", "--limit", "2"]) == 0
    assert "51 more steps: --limit N or --all shows them" in capsys.readouterr().out


def test_the_step_that_takes_longest_is_a_candidate(ask, capsys):
    rows = shown(capsys, "candidates", "1", "--by", "step", "--limit", "3")
    assert [(row["timer"], row["time_ns"]) for row in rows[:2]] == [
        *(("1", "9000000"), ("32", "3000000")),
    ]


def test_a_step_has_the_memory_that_was_seen_during_it(tmp_path, monkeypatch, capsys):
    """Looks of a microsecond each, and steps of 1.5: the third step has begun after the last."""
    monkeypatch.chdir(tmp_path)
    profile = small_profile()
    main_thread = profile.threads[0]
    main_thread.steps = [steps([1500, 1500, 1500])]
    main_thread.samples = [
        samples(RESIDENT, KIB, [100.0, 300.0, 200.0]),
        samples(on_gpu(CUDA_ALLOCATED, 0), KIB, [10.0, 20.0]),
        samples(on_gpu(CUDA_ALLOCATED, 1), KIB, [1.0, 2.0]),
    ]
    with database_at("taupy.db") as db:
        add_profile(db, profile)
    rows = shown(capsys, "steps", "1")
    assert [row["memory_bytes"] for row in rows] == [str(301 * 1024), str(301 * 1024), ""]
    assert [row["gpu_memory_bytes"] for row in rows] == [str(24 * 1024), str(24 * 1024), ""]
    assert main(["steps", "1"]) == 0
    assert "GPU memory" in capsys.readouterr().out
    rows = shown(capsys, "memory", "1", "--by", "step", "--gpu")
    assert [(row["step"], row["gpu_memory_bytes"], row["growth_bytes"]) for row in rows] == [
        *(("1", str(24 * 1024), ""), ("2", str(24 * 1024), "0"), ("3", "", "")),
    ]
