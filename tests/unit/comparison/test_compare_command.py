"""`taupy compare`: tables, the gate and its exit codes, forms, errors."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from taupy.commands import main
from taupy.model.profile import Timer
from taupy.profiledb.writer import add_profile
from tests.builders import call, database_at, event, gpu_profile, host, profile_of

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
UUID = "01900000-0000-7000-8000-{:012d}"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TAUPY_DB", raising=False)


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a command on ./taupy.db; gives exit code, output, errors."""

    def command(*arguments):
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def store(*profiles):
    with database_at("taupy.db") as db:
        for profile in profiles:
            add_profile(db, profile)


def runs(experiment, count, seed, factors=None, noise=0.01, routines=12, first=1, **more):
    """Repeated runs of a program whose routines take about 1, 2, 3 ... ms."""
    random = Random(seed)
    made = []
    for number in range(first, first + count):
        children = [
            call(
                Timer(f"r{at}", "app.py", at + 1),
                10,
                round(
                    1e6 * (at + 1) * (factors or {}).get(at, 1) * random.lognormvariate(0, noise)
                ),
            )
            for at in range(routines)
        ]
        made.append(
            profile_of(
                host(call(Timer("main", "app.py", 100), 1, 1000, children)),
                uuid=UUID.format(number + 100 * seed),
                experiment=experiment,
                started_at=1.7e9 + number * 10 + seed,  # in turns with the other seeds
                **more,
            )
        )
    return made


@pytest.fixture
def repeated():
    store(*runs("base", 5, 1), *runs("same", 5, 2), *runs("slow", 5, 3, {7: 1.3}))


def rows(text):
    """JSON: title's first word -> rows."""
    return {view["title"].split()[0].rstrip(":"): view["rows"] for view in json.loads(text)}


# --- tables --------------------------------------------------------------------


def test_the_whole_page(run):
    before, after = Timer("f", "app.py", 3), Timer("f", "app.py", 9)
    gone, new = Timer("gone", "app.py", 30), Timer("new", "app.py", 40)
    store(
        profile_of(host(call("main", 1, 1_000_000, [call(before, 3, 5_000_000),
                                                      call(gone, 1, 250_000)])), number=1),
        profile_of(host(call("main", 1, 1_000_000, [call(after, 4, 6_000_000),
                                                      call(new, 2, 125_000)])), number=2,
                   metadata={"Hostname": "node7"}),
    )  # fmt: skip
    code, out, err = run("compare", "1", "2")
    assert (code, err) == (0, "")
    assert out == (GOLDEN / "compare.txt").read_text("utf-8")


def test_repeated_runs_give_medians_intervals_and_verdicts(run, repeated):
    code, out, _ = run("compare", "app/base", "app/slow", "--json")
    assert code == 0
    found = {row["short_name"]: row for row in rows(out)["ROUTINES"]}
    slow = found["r7"]
    assert slow["verdict"] == "slower" and slow["p_adjusted"] <= 0.05
    assert slow["ratio_low"] < 1.3 < slow["ratio_high"]
    assert slow["ratio_low"] <= slow["ratio"] <= slow["ratio_high"]
    assert (slow["runs_a"], slow["runs_b"]) == (5, 5)
    assert slow["a_ns"] == pytest.approx(8e6, rel=0.03)
    assert {found[f"r{at}"]["verdict"] for at in range(12) if at != 7} <= {"same", "unclear"}


def test_the_largest_rows_are_shown_and_the_others_summed_up(run, repeated):
    _, out, _ = run("compare", "app/base", "app/slow", "--limit", "3")
    assert "-others- (10 rows)" in out
    _, everything, _ = run("compare", "app/base", "app/slow", "--all")
    assert "-others-" not in everything and everything.count("[{app.py}") == 13


@pytest.mark.parametrize(
    ("sort", "first"), [("name", "main"), ("value", "r11"), ("difference", "r7"), ("ratio", "r7")]
)
def test_other_orders(run, repeated, sort, first):
    _, out, _ = run("compare", "app/base", "app/slow", "--sort", sort, "--json")
    assert rows(out)["ROUTINES"][0]["short_name"] == first


def test_csv_is_one_table_and_says_the_rest_beside_it(run):
    store(*runs("x", 1, 1), *runs("y", 1, 2, metadata={"batch size": "3"}))
    code, out, err = run("compare", "1", "2", "--csv")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 1 + 13
    assert lines[0].startswith("table,in,match,a_ns,b_ns,difference_ns,ratio,ratio_low,ratio_high")
    assert "other input: batch size was (none), is 3" in err
    assert "one run per side" in err


def test_metadata_side_by_side(run):
    store(*runs("x", 1, 1, metadata={"a": "1", "b": "2"}), *runs("y", 1, 2, metadata={"a": "1"}))
    _, out, _ = run("compare", "1", "2", "--by", "metadata", "--json")
    found = {row["name"]: (row["a"], row["b"], row["same"]) for row in rows(out)["METADATA"]}
    assert found["b"] == ("2", None, "no")
    assert {name for name, (*_, same) in found.items() if same == "no"} == {"b"}
    assert found["a"] == ("1", "1", "yes") and {"Application", "State"} <= found.keys()
    _, out, _ = run("compare", "1", "2", "--by", "metadata", "--markdown")
    assert [line.split("|")[1].strip() for line in out.splitlines() if "| no" in line] == ["b"]
    assert "| yes" not in out


def test_kernels_of_two_gpus(run):
    store(gpu_profile(uuid=UUID.format(1)), gpu_profile(uuid=UUID.format(2)))
    _, out, _ = run("compare", "1", "2", "--by", "kernel", "--metric", "flop_rate")
    assert "ON THE GPU: exclusive flop_rate [flop/s], by difference" in out


def test_a_table_of_patterns_from_the_project_or_a_file(run, tmp_path):
    store(*runs("x", 1, 1), *runs("y", 1, 2))
    (tmp_path / "pyproject.toml").write_text('[tool.taupy.match]\n"all" = "r*"\n')
    _, out, _ = run("compare", "1", "2", "--json")
    assert {row["timer"] for row in rows(out)["ROUTINES"]} == {"all", "main [{app.py}{100}]"}
    (tmp_path / "m.toml").write_text('[match]\neverything = ["*"]\n')
    _, out, _ = run("compare", "1", "2", "--match-table", "m.toml", "--json")
    assert [row["timer"] for row in rows(out)["ROUTINES"]] == ["everything"]


# --- the gate ------------------------------------------------------------------


def test_a_planted_regression_fails_the_gate(run, repeated):
    code, out, _ = run("compare", "--baseline", "app/base", "app/slow", "--fail-on", "time > +5%",
                       "--markdown")  # fmt: skip
    assert code == 3
    assert out.startswith("### GATE FAILED: time \\> \\+5%") or "GATE FAILED" in out.splitlines()[0]
    failed = [line for line in out.splitlines() if line.startswith("| FAILED")]
    assert len(failed) == 1 and "r7" in failed[0]


def test_runs_of_one_program_pass_it(run, repeated):
    code, out, _ = run("compare", "--baseline", "app/base", "app/same", "--fail-on", "time > +5%")
    assert code == 0
    assert out.startswith("GATE PASSED: time > +5%")
    assert "note: judged 13: 0 failed, 0 undecided, 13 passed" in out


def test_a_baseline_by_its_tag(run, repeated):
    assert run("trials", "tag", "app/base", "main")[0] == 0
    code, out, _ = run("compare", "--baseline", "tag:main", "app/slow", "--fail-on",
                       "exclusive time of r7 > +20%", "--json")  # fmt: skip
    assert code == 3
    (ruling,) = rows(out)["GATE"]
    assert ruling["verdict"] == "FAILED" and ruling["name"] == "r7 [{app.py}{8}]"
    assert ruling["change"] == pytest.approx(0.3, abs=0.05)


def test_a_limit_that_the_change_does_not_reach_passes(run, repeated):
    arguments = ("compare", "app/base", "app/slow", "--fail-on")
    assert run(*arguments, "time of r7 > +50%")[0] == 0
    assert run(*arguments, "total time > +20%")[0] == 0
    assert run(*arguments, "time of r7 > +1 ms")[0] == 3
    assert run(*arguments, "duration > +1%")[0] == 0


def test_too_few_runs_are_reported_and_have_an_exit_code_of_their_own(run):
    store(*runs("x", 3, 1), *runs("y", 3, 2))
    code, out, _ = run("compare", "app/x", "app/y", "--fail-on", "time > +5%")
    assert code == 4
    assert out.startswith("GATE UNDECIDED")
    assert "the smallest achievable p-value of 3 against 3 is 0.1; make 5 per side" in out


def test_what_an_undecided_gate_counts_as_can_be_chosen(run):
    store(*runs("x", 3, 1), *runs("y", 3, 2))
    arguments = ("compare", "app/x", "app/y", "--fail-on", "time > +5%", "--undecided")
    code, out, _ = run(*arguments, "pass")
    assert code == 0
    assert out.startswith("GATE UNDECIDED (counts as pass: --undecided pass)")
    assert run(*arguments, "fail")[0] == 3


def test_calls_need_no_repetition(run):
    store(*runs("x", 1, 1), *runs("y", 1, 2))
    assert run("compare", "1", "2", "--fail-on", "calls > +0")[0] == 0


def test_trials_that_are_not_comparable_decide_nothing_unless_that_is_allowed(run):
    store(*runs("x", 5, 1), *runs("y", 5, 2, metadata={"OMP_NUM_THREADS": "4"}))
    arguments = ("compare", "app/x", "app/y", "--fail-on", "time > +5%")
    code, out, _ = run(*arguments)
    assert code == 4
    assert "not comparable: other machine: OMP_NUM_THREADS was (none), is 4" in out
    assert "--allow machine" in out
    assert run(*arguments, "--allow", "machine")[0] == 0
    assert run(*arguments, "--allow", "clocks,machine")[0] == 0
    assert run(*arguments, "--allow", "clocks")[0] == 4
    assert run(*arguments, "--allow", "all")[0] == 0


def test_runs_of_different_things_on_one_side_are_no_gate(run):
    store(
        *runs("x", 3, 1),
        *runs("x", 2, 3, metadata={"batch size": "64"}),
        *runs("y", 5, 2),
    )
    code, out, _ = run("compare", "app/x", "app/y", "--fail-on", "time > +5%")
    assert code == 4
    assert "the trials of A differ: other input: batch size was (none), is 64" in out


def on_a_cpu(profiles, share, interrupted=None):
    """The same runs whose main thread had this share of a CPU, give or take 1 %."""
    for at, profile in enumerate(profiles):
        thread = profile.threads[0]
        elapsed = int(thread.tree.inclusive["time"][0])
        used = elapsed * share * (1 + (at - 2) / 200)
        thread.user_events.append(event("Thread CPU Time", [used], "ns"))
        profile.duration_ns = elapsed
        if interrupted is not None:
            profile.metadata["Context Switches Involuntary"] = str(interrupted + at)
    return profiles


def later(profiles, seconds=1000):
    for profile in profiles:
        profile.started_at += seconds
    return profiles


SLOWER = dict.fromkeys(range(12), 1.9)


def test_a_busier_machine_leaves_the_gate_undecided(run):
    before, after = runs("x", 6, 1), later(runs("y", 6, 2, SLOWER))
    store(*on_a_cpu(before, 0.95), *on_a_cpu(after, 0.49))
    code, out, _ = run("compare", "app/x", "app/y", "--fail-on", "time > +5%")
    assert code == 4
    assert "CPU time / elapsed time is 0.95 in A and 0.49 in B: the machine was busier for B" in out
    assert "other machine" not in out
    # Less work on a busier machine can only be less work.
    assert run("compare", "app/y", "app/x", "--fail-on", "time < -5%")[0] == 4
    assert run("compare", "app/x", "app/y", "--fail-on", "time < -5%")[0] == 4
    assert run("compare", "app/x", "app/y", "--fail-on", "calls > +0")[0] == 0


def test_a_busy_baseline_excuses_nothing(run):
    store(*on_a_cpu(runs("x", 6, 1, SLOWER), 0.49), *on_a_cpu(later(runs("y", 6, 2)), 0.95))
    code, out, _ = run("compare", "app/x", "app/y", "--fail-on", "time > +5%")
    assert code == 4
    assert "the machine was busier for A" in out


def test_a_program_that_waits_more_is_told_from_a_busier_machine_by_alternating_runs(run):
    store(
        *on_a_cpu(runs("x", 6, 1), 0.95, interrupted=20),
        *on_a_cpu(runs("waits", 6, 2, SLOWER), 0.5, interrupted=20),
        *on_a_cpu(runs("busy", 6, 3, SLOWER), 0.5, interrupted=200),
    )
    assert run("compare", "app/x", "app/waits", "--fail-on", "time > +5%")[0] == 3
    assert run("compare", "app/x", "app/busy", "--fail-on", "time > +5%")[0] == 4


def test_what_a_slightly_smaller_share_cannot_explain_fails(run):
    store(*on_a_cpu(runs("x", 6, 1), 0.95), *on_a_cpu(later(runs("y", 6, 2, SLOWER)), 0.90))
    assert run("compare", "app/x", "app/y", "--fail-on", "time > +5%")[0] == 3
    # Within the spread of the runs, the share says nothing.
    store(*on_a_cpu(later(runs("z", 6, 3, SLOWER)), 0.945))
    assert run("compare", "app/x", "app/z", "--fail-on", "time > +5%")[0] == 3


def test_the_share_of_cpu_time_is_that_of_the_measured_threads(run):
    """The whole process uses CPU time before the first and after the last routine."""
    process = {"CPU Time User (s)": "9", "CPU Time System (s)": "0"}
    store(
        *on_a_cpu(runs("x", 5, 1, metadata=process), 0.04),
        *on_a_cpu(runs("y", 5, 2, metadata=process), 0.02),
    )
    _, out, _ = run("compare", "app/x", "app/y")
    assert "CPU time / elapsed time is 0.04 in A and 0.02 in B" in out


def test_a_condition_that_judges_nothing_is_not_passed(run):
    old = [Timer("inner", "old.py", 3), Timer("work", "old.py", 7)]
    new = [Timer("other", "new.py", 3), Timer("job", "new.py", 7)]
    for name, (leaf, top) in {"x": old, "y": new}.items():
        of_side = runs(name, 5, 1 if name == "x" else 2, routines=0)
        for profile in of_side:
            made = host(call(top, 1, 1000, [call(leaf, 5, 2_000_000)]))
            store(profile_of(made, uuid=profile.uuid, experiment=name,
                             started_at=profile.started_at))  # fmt: skip
    arguments = ("compare", "app/x", "app/y", "--fail-on")
    code, out, _ = run(*arguments, "time of inner > +5%")
    assert code == 4
    assert "GATE UNDECIDED" in out and "note: judged 0: 0 failed, 1 undecided, 0 passed" in out
    assert run(*arguments, "time of inner > +5%", "--undecided", "pass")[0] == 0
    code, _, err = run(*arguments, "time of nowhere > +5%")
    assert (code, "no routine or kernel matches 'nowhere'" in err) == (2, True)


@pytest.mark.parametrize("counts", [(1, 1), (5, 1), (1, 5), (5, 5)])
def test_the_columns_of_machines_do_not_depend_on_the_number_of_runs(run, counts):
    store(*runs("x", counts[0], 1), *runs("y", counts[1], 2))
    _, out, _ = run("compare", "app/x", "app/y", "--csv")
    heading, first, *_ = csv.reader(out.splitlines())
    assert {"ratio_low", "p_adjusted", "verdict", "untested", "runs_a", "runs_b"} <= {*heading}
    row = dict(zip(heading, first, strict=True))
    assert (row["verdict"] != "") == (counts == (5, 5))
    assert (row["runs_a"], row["runs_b"]) == tuple(map(str, counts))


def test_a_row_without_a_verdict_says_why(run):
    small = {0: 0.001}  # of a whole of 78
    store(*runs("x", 5, 1, small), *runs("y", 4, 2, small), *runs("y", 1, 3, small, routines=11))
    _, out, _ = run("compare", "app/x", "app/y", "--csv")
    said = {row["short_name"]: (row["verdict"], row["untested"])
            for row in csv.DictReader(out.splitlines())}  # fmt: skip
    assert said["r0"] == ("", "below 1 %")
    assert said["r11"] == ("", "not in every run")
    assert said["r5"][0] and not said["r5"][1]
    assert "(below 1 %)" in run("compare", "app/x", "app/y")[1]


def test_the_rulings_are_written_as_a_junit_report(run, repeated, tmp_path):
    def suite(*words):
        code = run("compare", *words, "--junit", "gate.xml")[0]
        root = ElementTree.parse("gate.xml").getroot()[0]
        counts = tuple(int(root.attrib[name]) for name in ("failures", "errors", "skipped"))
        return code, counts, [case for case in root if case.tag == "testcase"]

    condition = ("--fail-on", "time of r7 > +5%")
    code, counts, cases = suite("app/base", "app/slow", *condition)
    assert (code, counts, len(cases)) == (3, (1, 0, 0), 1)
    assert cases[0].attrib == {"classname": "time of r7 > +5%", "name": "r7 [{app.py}{8}]"}
    assert "ratio" in cases[0][0].attrib["message"]
    assert suite("app/base", "app/same", *condition)[:2] == (0, (0, 0, 0))
    code, counts, _ = suite("app/base", "1", *condition)  # the same trial on both sides
    assert (code, counts) == (4, (0, 1, 0))
    assert suite("app/base", "1", *condition, "--undecided", "pass")[:2] == (0, (0, 0, 1))
    code, _, err = run("compare", "app/base", "app/same", "--junit", "gate.xml")
    assert (code, "add a condition" in err) == (2, True)
    code, _, err = run("compare", "app/base", "app/same", *condition, "--junit", "no/gate.xml")
    assert (code, "cannot be written" in err) == (2, True)


def test_the_change_is_the_estimate_that_belongs_to_its_interval(run):
    """The ratio of the medians is 100/100, the median of all ratios is not."""
    first, second = [100, 100, 100, 130, 131], [100, 100, 100.5, 160, 161]
    for name, values in (("x", first), ("y", second)):
        store(*with_memory(name, 1 if name == "x" else 2, ("held", "KiB", values)))
    _, out, _ = run("compare", "app/x", "app/y", "--fail-on", "maximum of held > +90%", "--json")
    gate = next(view for view in json.loads(out) if view["title"].startswith("GATE"))
    (row,) = gate["rows"]
    ratios = sorted(y / x for x in first for y in second)
    assert row["change"] == pytest.approx(ratios[12] - 1)
    assert row["ratio_low"] <= 1 + row["change"] <= row["ratio_high"]


def with_memory(experiment, seed, *values, **more):
    """Five runs, each with these user events: name, unit and the runs' values."""
    made = runs(experiment, 5, seed, routines=2)
    for name, unit, numbers in values:
        for profile, number in zip(made, numbers, strict=True):
            profile.threads[0].user_events.append(event(name, [number / 2, number], unit))
    return made


@pytest.mark.slow
def test_user_events_have_conditions_too(run):
    before, after = [100, 101, 102, 99, 100], [130, 131, 129, 132, 130]
    store(
        *with_memory("x", 1, ("held", "KiB", before), ("loss", "", before)),
        *with_memory("y", 2, ("held", "KiB", after), ("loss", "", before)),
    )
    arguments = ("compare", "app/x", "app/y", "--fail-on")
    code, out, _ = run(*arguments, "maximum of held > +10%")
    assert code == 3
    assert "GATE FAILED: maximum of held > +10%" in out
    assert "100.0 KiB 130.0 KiB" in out
    assert run(*arguments, "maximum of held > +34 KiB")[0] == 0
    assert run(*arguments, "maximum of held > +30 KiB")[0] == 4  # of all pairs, 27 to 33
    assert run(*arguments, "mean of held > 90 KiB")[0] == 3
    assert run(*arguments, "samples of held > +0")[0] == 0
    assert run(*arguments, "maximum of loss > +10%")[0] == 0
    code, out, _ = run(*arguments, "maximum of * > +10%", "--json")
    gate = next(view for view in json.loads(out) if view["title"].startswith("GATE"))
    assert [(row["name"], row["verdict"], row["unit"]) for row in gate["rows"]] == [
        ("held", "FAILED", "KiB"),
        ("loss", "passed", ""),
    ]
    code, _, err = run(*arguments, "maximum of hold > +10%")
    assert (code, "no user event matches 'hold' (near it: held" in err) == (2, True)
    code, _, err = run(*arguments, "maximum of * > +10 KiB")
    assert (code, "these user events are in KiB, no unit" in err) == (2, True)


def test_limits_take_no_chance_of_a_false_alarm(run, repeated):
    """0.05 / 7 would be out of reach of five runs per side."""
    limits = [word for at in range(6) for word in ("--fail-on", f"time of r{at} > 1 min")]
    code, out, _ = run("compare", "app/base", "app/slow", "--fail-on", "time > +5%", *limits)
    assert (code, "1 failed, 0 undecided" in out) == (3, True)


def test_what_is_gone_is_named(run):
    profiles = [*runs("x", 5, 1, routines=3), *runs("y", 5, 2, routines=2)]
    store(*profiles)
    _, out, _ = run("compare", "app/x", "app/y", "--fail-on", "time < -50%")
    assert "not judged, because not in every run: r2" in out


def test_a_trial_against_itself_is_no_gate(run):
    store(*runs("x", 5, 1))
    code, out, _ = run("compare", "app/x", "app/x", "--fail-on", "time > +5%")
    assert code == 4 and "trial 1 is on both sides" in out


def test_a_pattern_that_names_nothing_is_an_error(run, repeated):
    code, _, err = run("compare", "app/base", "app/slow", "--fail-on", "time of r77 > +5%")
    assert code == 2
    assert "no routine or kernel matches 'r77' (near it: r7" in err


def test_what_is_not_in_every_run_is_reported(run):
    store(*runs("x", 5, 1), *runs("y", 5, 2, routines=13))
    code, out, _ = run("compare", "app/x", "app/y", "--fail-on", "time > +50%")
    assert code == 0
    assert "'time > +50%': not judged, because not in every run: r12 [{app.py}{13}]" in out


# --- errors --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("1",), 2, "a comparison needs at least two trials"),
        (("1", "9"), 1, "no trial matches '9'"),
        (("1", "2", "--metric", "nope"), 1, "trial 1 has no metric 'nope'"),
        (("1", "2", "--fail-on", "soon"), 2, "'soon' is not a condition"),
        (("1", "2", "--fail-on", "nope > +5%"), 2, "trial 1 has no metric 'nope'"),
        (("1", "2", "--by", "event"), 2, "no user event"),
        (("1", "2", "--by", "kernel"), 1, "no GPU was measured"),
        (("1", "2", "--match-table", "none.toml"), 2, "none.toml cannot be read"),
        (("1", "2", "--by", "metadata", "--fail-on", "time > +5%"), 2, "compares none"),
    ],
)
def test_errors_are_one_line(run, arguments, code, complaint):
    store(*runs("x", 2, 1))
    found, out, err = run("compare", *arguments)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert complaint in err


@pytest.mark.parametrize("option", ["--alpha=2", "--min-effect=-1", "--allow=moon", "--limit=x"])
def test_options_out_of_range_are_refused(run, option, capsys):
    assert main(["compare", "1", "2", option]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_two_trials_are_compared_without_pandas_and_numpy(tmp_path):
    store(*runs("x", 1, 1), *runs("y", 1, 2))
    program = (
        "import sys; from taupy.commands import main; main(['compare', '1', '2', '--csv']);"
        "main(['pivot', '--csv']);"
        "print(sorted({'numpy', 'pandas', 'scipy', 'matplotlib', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_imports_are_left_out_of_routines_unless_they_are_asked_for(run):
    imported = Timer("import torch", "", None, ("PYTHON", "IMPORT"))
    store(
        *(
            profile_of(
                host(call("main", 1, 10, [call(imported, 1, 1000 * n), call("work", 1, 100)])),
                uuid=UUID.format(n),
            )
            for n in (1, 2)
        )
    )
    shown = run("compare", "1", "2")[1]
    assert "work" in shown and "import torch" not in shown and "without imports" in shown
    assert "import torch" in run("compare", "1", "2", "--group", "IMPORT")[1]
    assert "import torch" in run("compare", "1", "2", "--filter", "import*")[1]
    assert "import torch" in run("compare", "1", "2", "--fail-on", "time of import torch > +5%")[1]
    assert "import torch" not in run("candidates", "2")[1]
    assert "import torch" in run("candidates", "2", "--group", "IMPORT")[1]
