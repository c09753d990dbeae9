"""Trials of a database side by side: every kind of row, measured and derived metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taupy.analysis.compare import Rows
from taupy.analysis.match import NameTable
from taupy.answers import compare
from taupy.comparison import comparison, path_names
from taupy.comparison.comparison import ComparisonOptions
from taupy.comparison.sides import both_sided, facts_of, obstacles, order_notes, sides
from taupy.comparison.trial_values import TrialValues
from taupy.errors import MissingMetric, NoSuchTrial, UsageError
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, database_at, event, gpu_profile, host, profile_of, wide_profile
from tests.growth import events_of

UUID = "01900000-0000-7000-8000-{:012d}"


@pytest.fixture
def db(tmp_path):
    with database_at(tmp_path / "taupy.db") as opened:
        yield opened


def python(name, line, file="app.py", **more):
    return Timer(name, file, line, **more)


def program(number, *, f=100, g=50, line=3, **more):
    """main 10 [ f [ g ], g ] on thread 0, f 7 on thread 1; times in ns."""
    main, slow, leaf = python("<module>", 1), python("f", line), python("g", 20, "lib/g.py")
    first = call(main, 1, 10, [call(slow, 2, f, [call(leaf, 4, g)]), call(leaf, 1, 5)],
                 events=[event("loss", [1.0, 3.0], "nat")])  # fmt: skip
    second = call(main, 1, 0, [call(slow, 1, 7)])
    given = {"uuid": UUID.format(number), "application": "app", **more}
    return profile_of(host(first), host(second, thread=1), **given)


def asked(db, texts, **question):
    found = sides(db, texts)
    return comparison.answers(db, found, ComparisonOptions(**question))


def values(answer):
    """Name -> the sides' values."""
    return {answer.keys[row.key].timer: row.values for row in answer.comparison.rows}


@pytest.fixture
def pair(db):
    add_profile(db, program(1))
    add_profile(db, program(2, f=130, g=40))
    return db


# --- sides ---------------------------------------------------------------------


def test_every_text_is_a_side_and_one_text_alone_is_taken_apart(pair):
    add_profile(pair, program(3, application="other"))
    assert [[t.id for t in side.trials] for side in sides(pair, ["app", "other"])] == [[1, 2], [3]]
    assert [[t.id for t in side.trials] for side in sides(pair, ["app"])] == [[1], [2]]


def test_facts_of_many_trials_take_as_many_statements_as_those_of_two(db, monkeypatch):
    asked = []
    rows = ProfileDB.rows
    for number in range(1, 6):
        add_profile(db, program(number, metadata={"n": str(number)}))
    monkeypatch.setattr(ProfileDB, "rows", lambda self, *sql: asked.append(sql) or rows(self, *sql))
    count = []
    for trials in (["1", "2"], ["1", "2", "3", "4", "5"]):
        of_sides = sides(db, trials)
        asked.clear()
        facts = facts_of(db, of_sides)
        count.append(len(asked))
    assert count[0] == count[1]
    assert [fact["n"] for (fact,) in facts] == ["1", "2", "3", "4", "5"]
    assert {fact["Threads"] for (fact,) in facts} == {"2"}


def test_a_baseline_comes_first_and_brings_trials_of_the_same_application(pair):
    add_profile(pair, program(3, application="other"))
    for trial in (1, 3):
        pair.tag(trial, "base")
    found = sides(pair, ["2"], "tag:base")
    assert [(side.letter, [t.id for t in side.trials]) for side in found] == [
        ("A", [1]),
        ("B", [2]),
    ]


def test_latest_is_all_runs_that_were_repeated_together(db):
    for number in range(1, 5):
        repeat = {} if number == 1 else {"repeat": "r", "repeat.run": f"{number - 1} of 3"}
        add_profile(db, program(number, metadata=repeat))
    found = sides(db, ["1", "latest"])
    assert [[t.id for t in side.trials] for side in found] == [[1], [2, 3, 4]]
    assert [t.id for t in sides(db, ["1", "runs:3"])[1].trials] == [2, 3, 4]
    assert [t.id for t in sides(db, ["1", "3"])[1].trials] == [3]


def test_one_trial_is_no_comparison(pair):
    with pytest.raises(UsageError, match="at least two trials"):
        sides(pair, ["1"])
    with pytest.raises(NoSuchTrial):
        sides(pair, ["1", "nothing"])


def test_a_trial_on_both_sides_is_seen(pair):
    assert both_sided(sides(pair, ["1", "app"])) == [1]


# --- rows ----------------------------------------------------------------------


def test_routines_over_all_threads(pair):
    (answer,) = asked(pair, ["1", "2"])
    assert values(answer) == {
        "f [{app.py}{3}]": (107, 137),
        "g [{lib/g.py}{20}]": (55, 45),
        "<module> [{app.py}{1}]": (10, 10),
    }
    assert answer.comparison.whole.values == (172, 192)
    first = answer.comparison.rows[0]
    assert (first.difference(1), first.impact) == (30, 30)
    assert answer.comparison.share(first, 0) == pytest.approx(100 * 107 / 172)
    assert answer.calls[first.key] == (3, 3)


@pytest.mark.parametrize(
    ("value", "f"),
    [
        ("inclusive", (157, 177)),
        ("calls", (3, 3)),
        ("subroutines", (4, 4)),
        ("exclusive-per-call", (107 / 3, 137 / 3)),
        ("inclusive-per-call", (157 / 3, 177 / 3)),
    ],
)
def test_other_values_of_routines(pair, value, f):
    (answer,) = asked(pair, ["1", "2"], value=value)
    assert values(answer)["f [{app.py}{3}]"] == f


@pytest.mark.parametrize(("over", "f", "whole"), [("mean", 53.5, 86.0), ("max", 100.0, 165.0)])
def test_threads_may_be_averaged_or_the_busiest_taken(pair, over, f, whole):
    (answer,) = asked(pair, ["1", "2"], over=over)
    assert values(answer)["f [{app.py}{3}]"][0] == f
    assert answer.comparison.whole.values[0] == whole


def test_files_modules_and_groups(pair):
    (files,) = asked(pair, ["1", "2"], by="file")
    assert values(files) == {"app.py": (117, 147), "lib/g.py": (55, 45)}
    (modules,) = asked(pair, ["1", "2"], by="module")
    assert values(modules)["lib.g"] == (55, 45)
    (groups,) = asked(pair, ["1", "2"], by="group", value="calls")
    assert values(groups) == {"PYTHON": (10, 10)}


def test_inclusive_of_a_file_counts_each_moment_once(pair):
    (files,) = asked(pair, ["1", "2"], by="file", value="inclusive")
    # Thread 0: main 10 + f 100 + g 50 + g 5, thread 1: f 7; g of lib runs under app.
    assert values(files) == {"app.py": (172, 192), "lib/g.py": (55, 45)}


def test_call_paths(pair):
    (answer,) = asked(pair, ["1", "2"], by="callpath")
    found = values(answer)
    main, f, g = "<module> [{app.py}{1}]", "f [{app.py}{3}]", "g [{lib/g.py}{20}]"
    assert found[f"{main} => {f}"] == (107, 137)
    assert found[f"{main} => {f} => {g}"] == (50, 40)
    assert found[f"{main} => {g}"] == (5, 5)
    assert answer.calls[answer.comparison.rows[0].key] == (3, 3)


def test_only_call_paths_that_are_shown_become_rows(db, monkeypatch):
    for number in (1, 2):
        add_profile(db, wide_profile(300, timers=40, number=number, seed=number))
    row_at, made = Rows.__getitem__, []

    def counted(rows, at):
        row = row_at(rows, at)
        if isinstance(at, int):
            made.append(at)
        return row

    monkeypatch.setattr(Rows, "__getitem__", counted)
    chosen = compare.Options(by="callpath", limit=3)
    *_, view = compare.compared(db, ["1", "2"], chosen).views()
    assert len(view.rows) == 4
    assert len(made) == 3


def test_call_trees_are_read_only_where_a_routine_is_called_otherwise(db, monkeypatch):
    for number in (1, 2):
        add_profile(db, wide_profile(300, timers=40, number=number))
    add_profile(db, program(3, line=3))
    add_profile(db, program(4, line=9))
    values_of, read = path_names.values, []
    monkeypatch.setattr(
        path_names,
        "values",
        lambda db, question: read.append(question.trials) or values_of(db, question),
    )
    (answer,) = asked(db, ["1", "2"], by="callpath")
    assert len(answer.comparison.rows) == 300
    assert all(answer.keys[row.key].timer for row in answer.comparison.rows[:5])
    assert not read
    asked(db, ["3", "4"], by="callpath")
    assert read == [(3,), (4,)]


def test_call_paths_are_named_without_a_statement_for_each(tmp_path):
    statements = []
    for paths in (50, 500):
        with database_at(tmp_path / f"{paths}.db") as db:
            for number in (1, 2):
                add_profile(db, wide_profile(paths, timers=40, number=number, seed=number))
            ran = []
            db.connection.set_trace_callback(ran.append)
            (answer,) = asked(db, ["1", "2"], by="callpath")
            assert answer.calls
            rows = answer.comparison.rows
            of_rows = [(answer.keys[row.key].timer, answer.calls[row.key]) for row in rows]
            db.connection.set_trace_callback(None)
            statements.append(len(ran))
        assert len(dict(of_rows)) == paths
        assert all(None not in calls for _, calls in of_rows)
    assert statements[0] == statements[1]


def test_call_paths_match_when_a_routine_has_moved(db):
    add_profile(db, program(1, line=3))
    add_profile(db, program(2, line=9, f=130))
    (answer,) = asked(db, ["1", "2"], by="callpath")
    main, f, g = "<module> [{app.py}{1}]", "f [{app.py}{3}]", "g [{lib/g.py}{20}]"
    assert values(answer) == {
        main: (10, 10),
        f"{main} => {f}": (107, 137),
        f"{main} => {f} => {g}": (50, 50),
        f"{main} => {g}": (5, 5),
    }


def test_user_events(pair):
    add_profile(pair, profile_of(host(call("main", 1, 1)), number=9))
    (answer,) = asked(pair, ["1", "2", "3"], by="event", value="mean")
    assert values(answer) == {"loss": (2.0, 2.0, None)}
    (answer,) = asked(pair, ["1", "2"], by="event", value="sum")
    assert values(answer) == {"loss": (4.0, 4.0)}


def test_only_the_routines_that_were_asked_for_and_shares_of_the_whole(pair):
    (answer,) = asked(pair, ["1", "2"], filter=("g",))
    assert set(values(answer)) == {"g [{lib/g.py}{20}]"}
    assert answer.comparison.whole.values == (172, 192)
    with pytest.raises(UsageError, match="no routine matches"):
        asked(pair, ["1", "2"], filter=("nothing",))


def test_a_table_of_patterns_joins_routines(pair):
    (answer,) = asked(pair, ["1", "2"], table=NameTable({"all of it": ["f *", "g *"]}))
    assert values(answer) == {"all of it": (162, 182), "<module> [{app.py}{1}]": (10, 10)}


def test_a_value_that_does_not_go_with_the_rows_is_refused(pair):
    with pytest.raises(UsageError, match="rows by routine have no value 'mean'"):
        asked(pair, ["1", "2"], value="mean")
    with pytest.raises(UsageError, match="rows by event have no value 'exclusive'"):
        asked(pair, ["1", "2"], by="event", value="exclusive")


# --- GPUs and derived metrics --------------------------------------------------


@pytest.fixture
def gpus(db):
    """Two trials; on the second one gemm has another template argument and half the flop."""
    add_profile(db, gpu_profile(uuid=UUID.format(1)))
    other = gpu_profile(uuid=UUID.format(2))
    other.timers[5] = other.timers[5]._replace(name="void gemm<float, 64>(float*, int)")
    stream = other.threads[1].tree
    for columns in (stream.inclusive, stream.exclusive):
        columns["flop_fp32"][4] = 2e6
    add_profile(db, other)
    return db


def test_kernels_stand_in_a_table_of_their_own(gpus):
    on_host, on_gpu = asked(gpus, ["1", "2"])
    assert (on_host.where, on_gpu.where) == ("host", "gpu")
    assert not set(values(on_host)) & set(values(on_gpu))
    assert values(on_gpu) == {
        "gemm": (5000, 5000),
        "relu(float*)": (800, 800),
        "Memcpy HtoD": (2000, 2000),
    }
    assert on_gpu.comparison.whole.values == (7800, 7800)
    (alone,) = asked(gpus, ["1", "2"], by="kernel")
    assert values(alone) == values(on_gpu)


def test_a_kernel_without_the_counter_has_no_row_and_no_zero(gpus):
    (answer,) = asked(gpus, ["1", "2"], metric="flop_fp32")
    assert values(answer) == {"gemm": (4e6, 2e6)}


def test_a_derived_metric_is_that_of_the_sums(gpus):
    (answer,) = asked(gpus, ["1", "2"], metric="flop_rate")
    # flop over ns, in flop/s; of the whole only kernels that were counted.
    assert values(answer)["gemm"] == (pytest.approx(8e11), pytest.approx(4e11))
    assert answer.metric.unit == "flop/s"
    assert not answer.comparison.additive and answer.comparison.totals == ()


def test_a_metric_that_one_trial_lacks_is_an_error_that_names_it(gpus):
    add_profile(gpus, program(3))
    with pytest.raises(MissingMetric, match="trial 3 has no metric 'flop_fp32'"):
        asked(gpus, ["1", "3"], metric="flop_fp32")
    with pytest.raises(MissingMetric, match="no GPU was measured"):
        asked(gpus, ["3", "3"], by="kernel")


def test_trials_without_the_metric_are_omitted_and_named_while_a_side_has_others(gpus):
    add_profile(gpus, program(3))
    question = compare.Options(metric="flop_fp32")
    some = compare.compared(gpus, ["1", "*/*"], question, lenient=True)
    assert [[trial.id for trial in side.trials] for side in some.sides] == [[1], [1, 2]]
    assert some.notes()[0] == "1 of 3 trials of B has no flop_fp32: 3"
    assert [len(runs) for runs in some.answers[0].comparison.totals] == [1, 2]
    none_left = compare.compared(gpus, ["1", "3"], question, lenient=True)
    with pytest.raises(MissingMetric, match="trial 3 has no metric 'flop_fp32'"):
        none_left.tables()


# --- conditions of measurement -------------------------------------------------


def test_what_differs_between_the_trials_is_found(gpus):
    add_profile(gpus, program(3, metadata={"batch size": "64", "GPU Name": "NVIDIA A100"}))
    compared = sides(gpus, ["1", "3"])
    apart, inside = obstacles(compared, facts_of(gpus, compared))
    assert [(one.kind, one.name) for one in apart] == [
        ("arguments", "Application"),
        ("input", "batch size"),
        ("machine", "GPU Name"),
        ("machine", "GPUs"),
    ]
    assert inside == []


def test_runs_that_did_not_alternate_are_reported(db):
    for number in range(1, 5):
        add_profile(db, program(number, started_at=1.7e9 + number))
    apart = sides(db, ["1", "2", "3", "4"])
    a, b, c, d = (side.trials[0] for side in apart)

    def notes(first, second):
        return order_notes([replace(apart[0], trials=first), replace(apart[1], trials=second)])

    (note,) = notes((a, b), (c, d))
    assert "did not alternate" in note
    assert notes((a, c), (b, d)) == []


def test_any_dimension_groups_a_comparison(gpus):
    (kinds,) = asked(gpus, ["1", "2"], by="kind")
    assert values(kinds) == {"host": (500, 500), "gpu": (7800, 7800)}
    (devices,) = asked(gpus, ["1", "2"], by="device", value="inclusive")
    assert values(devices)["0.1"] == (7800, 7800)
    (ranks,) = asked(gpus, ["1", "2"], by="rank", metric="flop_fp32")
    assert values(ranks) == {"0": (4e6, 2e6)}


def test_the_values_of_one_trial_take_no_call_for_each_of_its_call_paths(db):
    ids = [add_profile(db, wide_profile(1_000, number=number)) for number in (1, 2)]

    def events(trials):
        values = TrialValues.of(db, trials, "time")
        (answer,) = values.answers("callpath")
        keys = answer.table.row_labels("callpath")
        values.runs(answer, keys)  # it computes the columns once
        return events_of(lambda: values.runs(answer, keys))

    assert events(ids[:1]) < 1_000
    assert events(ids) > 2_000
