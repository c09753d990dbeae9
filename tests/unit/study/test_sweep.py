"""A sweep from the database to tables, frames and pictures."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from array import array
from itertools import product

import pytest

from taupy.commands import main
from taupy.errors import TaupyError, UsageError
from taupy.model.profile import ROOT_TIMER, Timer
from taupy.notebook import Database
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.study.sweep import PARTS, Sweep, SweepOptions
from tests.builders import call, database_at, gpu_profile, host, profile_of, small_profile, steps
from tests.unit.comparison.test_operators import Trace

WORK = Timer("work", "p.py", 3)
MM = Timer("aten::mm", groups=("OPERATOR",))
EPOCH = Timer("epoch", groups=("PHASE",))


def trial(number, threads, each, serial=100, **metadata):
    """`threads` workers of `each` ns below a main thread that takes `serial` itself."""
    main_thread = call("main", 1, serial, [call(EPOCH, 1, max(each, default=0))])
    workers = [
        host(call("run", 1, 0, [call(WORK, 2, value)]), thread=place)
        for place, value in enumerate(each, 1)
    ]
    return profile_of(
        host(main_thread),
        *workers,
        number=number,
        metadata={name: str(value) for name, value in metadata.items()},
        exit_code=metadata.get("code", 0),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TAUPY_DB", raising=False)


def fill(*profiles):
    with database_at("taupy.db") as db:
        for profile in profiles:
            add_profile(db, profile)


def sweep(*trials, **how):
    return Database("taupy.db").sweep(*trials, **how)


@pytest.fixture
def strong():
    """1, 2 and 4 workers share 1200 ns; three runs of the last."""
    fill(
        trial(1, 1, [1200], n=1),
        trial(2, 2, [800, 400], n=2),
        trial(3, 4, [300, 300, 300, 300], n=4),
        trial(4, 4, [310, 300, 300, 290], n=4),
        trial(5, 4, [900, 100, 100, 100], n=4),
    )


def test_totals_are_those_of_the_longest_thread(strong):
    rows = sweep(over="n", scaling="strong").totals()
    # main: serial 100 + the epoch, as long as the longest worker
    assert [(r.value, r.runs, r.median, r.minimum, r.maximum) for r in rows] == [
        ("1", 1, 1300, 1300, 1300),
        ("2", 1, 900, 900, 900),
        ("4", 3, 410, 400, 1000),
    ]
    assert [r.speedup for r in rows] == pytest.approx([1, 1300 / 900, 1300 / 410])
    assert [r.efficiency for r in rows] == pytest.approx([1, 1300 / 1800, 1300 / 1640])


def test_routines_follow_their_longest_thread_their_mean_or_their_sum(strong):
    def work(across):
        rows = sweep(over="n", across=across).routines()
        return [r.median for r in rows if r.timer == WORK.full_name]

    assert work("max") == [1200, 800, 310]
    assert work("mean") == [1200, 600, 300]
    assert work("total") == [1200, 1200, 1200]


def test_phases_are_inclusive(strong):
    rows = sweep(over="n").phases()
    assert [(r.timer, r.value, r.median) for r in rows] == [
        ("epoch", "1", 1200),
        ("epoch", "2", 800),
        ("epoch", "4", 310),
    ]
    assert rows[0].share == pytest.approx(1200 / 1300)


def phased(number, batch):
    """Two kinds of phases, one below a routine, and a worker that is in none."""
    backward = Timer("Tensor.backward", "torch/_tensor.py", 1, ("PYTHON", "PHASE_BACKWARD"))
    forward = Timer("Net.forward", "net.py", 2, ("PYTHON", "PHASE_FORWARD"))
    inner = call(WORK, 3, 20 * batch)
    step = call("step", 2, 5, [call(backward, 2, 40 * batch)])
    main_thread = call("main", 1, 50, [call(forward, 2, 10 * batch, [inner]), step])
    return profile_of(
        host(main_thread), host(call("run", 1, 900), thread=1), number=number,
        metadata={"batch": str(batch)},
    )  # fmt: skip


def test_phases_of_trainings_are_those_of_the_command_phases(capsys):
    fill(phased(1, 1), phased(2, 4))
    rows = sweep(over="batch").phases()
    assert [(r.timer, r.value, r.calls, r.median) for r in rows] == [
        ("backward", "1", 2, 40), ("backward", "4", 2, 160),
        ("forward", "1", 2, 30), ("forward", "4", 2, 120),
    ]  # fmt: skip
    assert main(["phases", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (table, *_) = shown if isinstance(shown, list) else [shown]
    told = {row["phase"]: row["time_ns"] for row in table["rows"]}
    assert (told["backward"], told["forward"]) == (160, 120)
    assert all(r.timer != "backward" for r in sweep(over="batch").routines())


def test_steps_of_trainings_are_those_of_the_command_steps(capsys):
    profiles = [phased(1, 1), phased(2, 4), phased(3, 4)]
    for profile, time in zip(profiles, (1000, 2000, 4000), strict=True):
        taken = steps([time] * 4)
        taken.samples = array("q", [8] * 4)
        profile.threads[0].steps = [taken, steps([9_000_000], "validation")]
    fill(*profiles)
    per_second = [8e9 / 1000, (8e9 / 2000 + 8e9 / 4000) / 2]
    rows = sweep(over="batch").steps()
    assert [(r.value, r.runs, r.steps, r.step) for r in rows] == [
        ("1", 1, 4, 1000),
        ("4", 2, 4, 3000),
    ]
    assert [r.samples_per_second for r in rows] == pytest.approx(per_second)
    assert main(["sweep", "--by", "batch"]) == 0
    assert "8,000,000" in capsys.readouterr().out


def test_shares_of_the_top_add_up_to_one(strong):
    rows = [r for r in sweep(over="n").top(None) if r.value == "2"]
    assert rows[-1].cumulative == pytest.approx(1)
    assert [(r.rank, r.timer) for r in rows[:2]] == [(1, WORK.full_name), (2, "epoch")]
    assert rows[0].share == pytest.approx(1200 / 2100)


def test_imbalance_is_of_the_middle_run(strong):
    rows = sweep(over="n").imbalance()
    (two,) = [r for r in rows if (r.value, r.timer) == ("2", WORK.full_name)]
    assert (two.over, two.parts, two.mean, two.maximum, two.lost) == ("threads", 2, 600, 800, 200)
    assert two.imbalance == pytest.approx(1 / 3)
    assert {r.trial for r in rows if r.value == "4"} == {4}  # totals 400, 410, 1000


def test_threads_and_gpus_are_counted(strong):
    rows = sweep(over="threads").totals()
    assert [r.value for r in rows] == ["2", "3", "5"]
    assert rows[2].efficiency == pytest.approx(1300 / 410 / 2.5)  # strong by itself
    fill(gpu_profile(9, experiment="x"))
    with pytest.raises(TaupyError, match="all 1 trials have gpus = 1"):
        sweep(over="gpus")


def test_nodes_share_what_they_do():
    fill(
        *(
            profile_of(
                *(
                    host(call("main", 1, value), node=node)
                    for node, value in enumerate([100 * node + 100 for node in range(nodes)])
                ),
                number=nodes,
            )
            for nodes in (1, 2, 4)
        )
    )
    found = sweep(over="nodes", scaling="weak")
    assert [(r.median, r.efficiency) for r in found.totals()] == [
        (100, 1),
        (200, 0.5),
        (400, 0.25),
    ]
    row = next(r for r in found.imbalance() if (r.value, r.over, r.timer) == ("4", "nodes", "main"))
    assert (row.parts, row.mean, row.maximum) == (4, 250, 400)


def test_failed_trials_and_those_without_the_parameter_are_left_out_and_named():
    fill(trial(1, 1, [10], n=1), trial(2, 1, [20], n=2), trial(3, 1, [1], n=2, code=1))
    fill(small_profile(4), trial(5, 1, [1], n=2, **{"taupy.snapshot": "half"}))
    found = sweep("*/*", over="n")
    assert [r.median for r in found.totals()] == [110, 120]
    assert found.notes == [
        "1 trial without n left out",
        "1 trial taken while a program ran left out (snapshots)",
        "1 trial that failed or are incomplete left out (3)",
    ]
    with ProfileDB.open("taupy.db") as db:
        assert Sweep(db, question=SweepOptions("n", failed=True)).totals()[1].runs == 3


def test_all_routines_do_not_bring_failed_trials(capsys):
    fill(trial(1, 1, [10], n=1), trial(2, 1, [20], n=2), trial(3, 1, [1], n=2, code=1))
    runs = {}
    for word in ("--all", "--failed"):
        assert main(["sweep", "*/*", "--by", "n", "--show", "totals", "--csv", word]) == 0
        runs[word] = [row["runs"] for row in csv.DictReader(capsys.readouterr().out.splitlines())]
    assert runs == {"--all": ["1", "1"], "--failed": ["1", "2"]}


@pytest.mark.slow
def test_the_last_sweep_is_taken_and_its_other_parameters_are_series():
    swept = {"sweep.over": "n, mode"}
    fill(trial(1, 1, [999], n=1, sweep="old", **swept))
    fill(
        *(
            trial(2 + place, 1, [value], n=n, mode=mode, sweep="new", **swept)
            for place, (n, mode, value) in enumerate(
                [(1, "a", 100), (1, "b", 200), (2, "a", 300), (2, "b", 800)]
            )
        )
    )
    found = sweep(over="n")
    assert [(r.series, r.value, r.median, r.speedup) for r in found.totals()] == [
        ("mode=a", "1", 200, 1),
        ("mode=a", "2", 400, 0.5),
        ("mode=b", "1", 300, 1),
        ("mode=b", "2", 900, pytest.approx(1 / 3)),
    ]
    assert "1 trials of others left out" in found.notes[0]
    assert "mode=b" in main_output("sweep", "--over", "n")
    assert main_output("sweep") == main_output("sweep", "--over", "n")


def test_different_programs_are_no_sweep():
    fill(trial(1, 1, [5]), small_profile(2, application="other"))
    with pytest.raises(TaupyError, match="no application and experiment has two values of n"):
        fill(trial(3, 1, [5], n=1), small_profile(4, application="other", metadata={"n": "2"}))
        sweep("*/*", over="n")


def test_another_parameter_that_only_names_the_value_makes_no_series():
    swept = {"sweep": "s", "sweep.over": "workers"}
    fill(*(trial(n, n, [60 // n] * n, workers=n, **swept) for n in (1, 2, 3)))
    rows = sweep(over="threads").totals()
    assert [(r.series, r.value, r.median) for r in rows] == [
        ("", "2", 160),
        ("", "3", 130),
        ("", "4", 120),
    ]


def test_trials_of_several_experiments_are_series_of_their_own():
    for number, (experiment, n, value) in enumerate([("a", 1, 10), ("a", 2, 20), ("b", 1, 5)], 1):
        one = trial(number, 1, [value], serial=0, n=n)
        one.experiment = experiment
        fill(one)
    rows = sweep("app", over="n").totals()
    assert [(r.series, r.value, r.median) for r in rows] == [
        ("a", "1", 10),
        ("a", "2", 20),
        ("b", "1", 5),
    ]


def test_other_gpus_are_series_of_their_own():
    fill(
        *(
            trial(number, 1, [1000 * n], n=n, **{"GPU 0 Name": gpu})
            for number, (n, gpu) in enumerate(product((1, 2), ("V100", "A100")), 1)
        )
    )
    found = [(row.series, row.value, row.runs) for row in sweep(over="n").totals()]
    assert sorted(found) == [
        ("A100", "1", 1), ("A100", "2", 1), ("V100", "1", 1), ("V100", "2", 1),
    ]  # fmt: skip


def test_differing_runs_at_one_value_are_reported():
    fill(
        *(
            trial(number, 1, [1000 * n], n=n, library=library, loss=0.1 * number)
            for number, (n, library) in enumerate(product((1, 2), ("torch", "jax")), 1)
        )
    )
    (note,) = sweep(over="n").notes
    assert "trials with the same n differ in library (jax, torch)" in note
    assert sweep("meta.library=jax", over="n").notes == []


def main_output(*arguments):
    shown = subprocess.run(
        [sys.executable, "-m", "taupy", *arguments], capture_output=True, text=True, timeout=240
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_correlation_finds_the_parameter_and_leaves_words_for_it_out(strong):
    rows = sweep(over="n").correlation()
    assert rows[0].fact == "n"
    assert {row.fact for row in rows} == {"n"}
    (row,) = [r for r in rows if r.quantity == "(total)"]
    assert row.trials == 5 and row.pearson < -0.5


def test_other_metrics_are_correlated_too():
    fill(
        *(
            profile_of(
                host(call("f", 1, {"time": 10 + n % 2, "inst": 100 * n})),
                number=n,
                metadata={"n": str(n)},
            )
            for n in range(1, 6)
        )
    )
    rows = {row.quantity: row for row in sweep(over="n").correlation() if row.fact == "n"}
    assert rows["total inst [count]"].pearson == pytest.approx(1)
    assert rows["(total)"].pearson == pytest.approx(0)


def test_an_outlying_run_and_thread_are_found():
    fill(
        *(trial(number, 1, [100 + number], n=1) for number in range(1, 8)),
        trial(8, 1, [900], n=1),
        trial(9, 7, [100, 101, 102, 103, 104, 105, 400], n=2),
    )
    rows = sweep(over="n").outliers()
    assert [(r.value, r.trial, r.what, r.among) for r in rows] == [
        ("1", 8, "run", 8),
        ("2", 9, "thread 0.0.7", 7),
    ]


def test_metrics_that_some_trials_lack_and_ratios():
    fill(
        profile_of(host(call("f", 1, {"time": 10, "inst": 100})), number=1, metadata={"n": "1"}),
        profile_of(host(call("f", 1, {"time": 10, "inst": 300})), number=2, metadata={"n": "2"}),
        profile_of(host(call("f", 1, {"time": 10})), number=3, metadata={"n": "3"}),
    )
    found = sweep(over="n", metric="inst")
    assert [(r.value, r.median, r.speedup) for r in found.totals()] == [
        ("1", 100, 1),
        ("2", 300, pytest.approx(1 / 3)),
    ]
    assert found.notes == ["omitted 1 trial without inst (3)"]
    with pytest.raises(TaupyError, match="no metric 'nothing'"):
        sweep(over="n", metric="nothing")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name the parameter"),
        (("--by", "m"), "no trial has metadata 'm' (what differs between them: n;"),
        (("--by", "n", "--baseline", "3"), "no trial has n = 3 for a baseline (values: 1, 2, 4)"),
        (("--by", "n", "1"), "all 1 trials have n = 1"),
        (("--by", "n", "nothing"), "no trial matches 'nothing'"),
        (("--by", "n", "--show", "x"), "--show takes"),
        (("--by", "n", "--limit", "0"), "at least 1"),
        (("--by", "n", "--plot", "x.html"), "must end in .png or .svg"),
        (("--by", "n", "--plot", "no/x.png"), "no/x.png cannot be written"),
    ],
)
def test_what_cannot_be_answered_is_reported_in_one_line(strong, capsys, arguments, words):
    assert main(["sweep", *arguments]) in (1, 2)
    complaint = capsys.readouterr().err
    assert words in complaint and complaint.count("\n") == 1


@pytest.mark.parametrize("part", PARTS)
def test_every_table_has_every_form_and_a_frame(strong, capsys, part):
    assert main(["sweep", "--over", "n", "--show", part]) == 0
    assert main(["sweep", "--over", "n", "--show", part, "--markdown"]) == 0
    capsys.readouterr()
    assert main(["sweep", "--over", "n", "--show", part, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    found = sweep(over="n")
    assert len(rows) == len(getattr(found, part)())
    pandas = pytest.importorskip("pandas")
    frame = found.frame(part)
    assert len(frame) == len(rows)
    if "value" in frame and len(frame):
        assert pandas.api.types.is_numeric_dtype(frame["value"])
        assert {type(row["value"]) for row in rows} == {int}


def test_tables_import_no_heavy_library(strong):
    code = (
        "import sys; from taupy.commands import main; main(['sweep', '--over', 'n', '--show', "
        "'all']); print([m for m in ('pandas', 'numpy', 'matplotlib', 'scipy', 'rich') "
        "if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
def test_pictures_are_drawn_alike_and_names_are_text(strong, tmp_path):
    pytest.importorskip("matplotlib")
    odd = Timer("_a$b$ <script>alert(1)</script>\x1b[31m", "p.py", 1)
    fill(profile_of(host(call(odd, 1, 5000)), number=7, metadata={"n": "8"}))
    found = sweep(over="n", scaling="strong")
    for name in ("a.png", "a.svg", "again.svg"):
        found.plot(name)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    picture = (tmp_path / "a.svg").read_text()
    assert "<script>alert" not in picture and "\x1b" not in picture
    assert "work [{p.py}{3}]" in picture


@pytest.mark.slow
def test_a_cut_axis_clips_lines_but_no_marker(tmp_path):
    pytest.importorskip("matplotlib")
    from taupy.study.sweep_plot import figure

    routines = [Timer("steady", "p.py", 1), Timer("gone", "p.py", 2)]
    for n, times in enumerate([(8000, 4_000_000), (4000, 2_000_000), (2000, 1)], 1):
        calls = [call(timer, 1, time) for timer, time in zip(routines, times, strict=True)]
        root = call("main", 1, 0, calls)
        fill(profile_of(host(root), number=n, metadata={"n": str(n)}))
    drawn = figure(sweep(over="n"))
    axes = drawn.axes[3]
    assert "cut at" in axes.get_title()
    low, high = axes.get_ylim()
    shown, hidden = [], 0
    for line in axes.get_lines():
        heights = [float(y) for y in line.get_ydata()]
        if line.get_marker() not in ("", "None"):
            assert not line.get_clip_on()
            assert all(low <= height <= high for height in heights)
            shown += heights
        elif len(heights) == 3:
            assert line.get_clip_on()
            hidden += sum(not low <= height <= high for height in heights)
    assert hidden == 1
    assert len(shown) == 5
    with_lowest = [line for line in drawn.axes[0].get_lines() if line.get_marker() != "None"]
    assert with_lowest and not any(line.get_clip_on() for line in with_lowest)


@pytest.mark.slow
def test_words_and_series_are_drawn_too(tmp_path):
    pytest.importorskip("matplotlib")
    fill(
        *(
            trial(n, 1, [n], over=word, mode=n % 2, **{"sweep.over": "over, mode", "sweep": "s"})
            for n, word in enumerate(["a", "a", "b", "b"], 1)
        )
    )
    sweep(over="over").plot("a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_the_database_gives_sweeps(strong):
    import taupy

    found = taupy.open("taupy.db").sweep("app", over="n", scaling="strong")
    assert repr(found) == "<sweep over n: 5 trials, 3 values, time [ns]>"
    totals = found.frame("totals")
    assert totals["median_ns"].tolist() == [1300, 900, 410]
    notes = totals.attrs.pop("notes")
    assert totals.attrs == {"over": "n", "metric": "time", "unit": "ns"}
    assert notes[0].startswith("the longest thread of each run; speed-up: median at n=1 divided by")


@pytest.mark.parametrize("part", PARTS)
def test_a_frame_is_the_table_of_the_command(strong, capsys, part):

    import taupy
    from taupy.commands import main

    found = taupy.open("taupy.db").sweep("app", over="n", scaling="strong").frame(part)
    arguments = ["sweep", "app", "--by", "n", "--scaling", "strong", "--show", part, "--csv"]
    assert main([*arguments, "--all"]) == 0
    header, *rows = csv.reader(capsys.readouterr().out.splitlines())
    assert [*found.columns] == header and len(rows) == len(found)
    assert [_cells(row) for row in rows] == [
        _cells(row) for row in found.itertuples(index=False, name=None)
    ]


def _cells(row):
    """Numbers as numbers; "" for what is absent."""
    cells = []
    for cell in row:
        try:
            cells.append("" if float(cell) != float(cell) else float(cell))
        except (TypeError, ValueError):
            cells.append(cell or "")
    return cells


def with_gpus(number, count):
    """The work of `gpu_profile` on that many GPUs, each as busy as its number."""
    from dataclasses import replace

    profile = gpu_profile(number)
    host_thread, first, *_ = profile.threads
    profile.threads = [host_thread]
    for ordinal in range(count):
        copied = gpu_profile(number).threads[1]
        copied.thread = replace(first.thread, context=1 + ordinal)
        for column in (copied.tree.exclusive["time"], copied.tree.inclusive["time"]):
            for row in range(len(column)):
                column[row] *= ordinal + 1
        profile.threads.append(copied)
    return profile


def test_gpus_are_counted_and_share_their_kernels():
    fill(*(with_gpus(count, count) for count in (1, 2, 4)))
    found = sweep(over="gpus", scaling="weak")
    assert found.values == ["1", "2", "4"]
    gemm = [r for r in found.routines() if r.timer.startswith("void gemm")]
    assert [(r.where, r.value, r.median, r.calls) for r in gemm] == [
        ("gpu", "1", 5000, 10),
        ("gpu", "2", 10_000, 20),
        ("gpu", "4", 20_000, 40),
    ]
    assert [r.efficiency for r in gemm] == [1, 0.5, 0.25]
    row = next(r for r in found.imbalance() if r.value == "4" and r.timer.startswith("void gemm"))
    assert (row.over, row.parts, row.mean, row.maximum) == ("gpus", 4, 12_500, 20_000)
    assert {r.over for r in found.imbalance()} == {"gpus"}


# --- a part of the program -----------------------------------------------------

IMPORT = Timer("_find_and_load", "<frozen importlib._bootstrap>", 1349)
SETUP = Timer("<module>", "torch/__init__.py", 1)
TRAIN = Timer("train_epoch", "p.py", 7)


def training(number, epoch, n, imports=5000):
    """main 30 [ import 100 [ torch ], train_epoch [ work 40, train_epoch 1 ] ] below a root."""
    inner = [call(WORK, 2, 40), call(TRAIN, 1, 1)]
    program = [call(IMPORT, 1, 100, [call(SETUP, 1, imports)]), call(TRAIN, 1, epoch, inner)]
    root = call(ROOT_TIMER, 1, 700, [call("main", 1, 30, program)])
    return profile_of(host(root), number=number, metadata={"n": str(n)})


@pytest.fixture
def trained():
    fill(training(1, 1000, 1, imports=9000), training(2, 500, 2, imports=2000))


def medians(rows):
    return [row.median for row in rows]


def test_imports_and_start_up_are_left_out_of_a_sweep(trained):
    found = sweep(over="n")
    # main 30 + train_epoch 1000 or 500 + 41; neither the root's 700 nor the import.
    assert medians(found.totals()) == [1071, 571]
    assert {row.timer for row in found.routines()} == {
        "main", "train_epoch [{p.py}{7}]", "work [{p.py}{3}]"
    }  # fmt: skip
    assert any("without imports and start-up" in note for note in found.notes)
    whole = sweep(over="n", of="program")
    assert medians(whole.totals()) == [700 + 30 + 9100 + 1041, 700 + 30 + 2100 + 541]
    assert not whole.notes


def test_a_sweep_of_a_routine_is_of_all_that_it_calls(trained):
    found = sweep(over="n", of="train_epoch")
    assert medians(found.totals()) == [1041, 541]  # the inner call lies within the outer one
    rows = {(row.timer, row.value): (row.median, row.calls) for row in found.routines()}
    assert rows == {
        ("train_epoch [{p.py}{7}]", "1"): (1001, 2), ("train_epoch [{p.py}{7}]", "2"): (501, 2),
        ("work [{p.py}{3}]", "1"): (40, 2), ("work [{p.py}{3}]", "2"): (40, 2),
    }  # fmt: skip
    with pytest.raises(UsageError, match="no routine matches 'validate'"):
        sweep(over="n", of="validate")


def test_trials_without_the_routine_are_left_out_of_its_sweep(trained):
    fill(trial(3, 1, [10], n=3))
    found = sweep("1", "2", "3", over="n", of="train_epoch")
    assert found.values == ["1", "2"]
    assert "omitted 1 trial without train_epoch (3)" in found.notes


def test_operators_over_a_parameter_are_those_of_the_gpu(tmp_path, capsys):
    """Convolutions have another operator at the second value; the nearest one counts."""

    for number, batch, conv, took in ((1, 8, "cudnn", 100), (2, 16, "miopen", 150)):
        trace = Trace("NVIDIA H200")
        trace.operator(["aten::linear", "aten::addmm"], ("gemm", 2 * took), ("split", 10))
        trace.operator(["aten::conv2d", f"aten::{conv}"], (f"{conv}_kernel", took))
        trace.operator([], ("copy", 5))
        file = trace.written(tmp_path / f"{number}.json")
        file.write_text(json.dumps({**json.loads(file.read_text()), "traceName": str(batch)}))
        assert main(["import", str(file), "--app", "vision"]) == 0
    rows = sweep(over="trace traceName").operators()
    assert [(r.timer, r.where, r.value, r.calls, r.median) for r in rows] == [
        ("aten::addmm", "gpu", "8", 1, 210),
        ("aten::addmm", "gpu", "16", 1, 310),
        ("aten::conv2d: aten::cudnn = aten::miopen", "gpu", "8", 1, 100),
        ("aten::conv2d: aten::cudnn = aten::miopen", "gpu", "16", 1, 150),
        ("(no operator)", "gpu", "8", 0, 5),
        ("(no operator)", "gpu", "16", 0, 5),
    ]
    capsys.readouterr()
    assert main(["sweep", "--by", "trace traceName", "--show", "operators"]) == 0
    shown = capsys.readouterr().out
    assert (
        "OPERATORS, exclusive time over trace traceName" in shown and "aten::addmm (GPU)" in shown
    )


def test_operators_of_a_value_without_gpu_work_are_those_of_the_host():
    fill(
        *(
            profile_of(host(call("main", 1, 10, [call(MM, number, 100 * number)])),
                       number=number, metadata={"n": str(number)})
            for number in (1, 2)
        )
    )  # fmt: skip
    rows = sweep(over="n").operators()
    assert [(r.timer, r.where, r.value, r.calls, r.median, r.speedup) for r in rows] == [
        ("aten::mm", "host", "1", 1, 100, 1),
        ("aten::mm", "host", "2", 2, 200, 0.5),
        ("(no operator)", "host", "1", 1, 10, 1),
        ("(no operator)", "host", "2", 1, 10, 1),
    ]
