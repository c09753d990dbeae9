"""Layers step by step, from spans whose times are known."""

from __future__ import annotations

import csv
from array import array
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.answers import layer_steps, layers
from taupy.answers.layer_sums import Layers
from taupy.commands import main
from taupy.model.gpu import Activity, Launch
from taupy.model.profile import Thread, Timer
from taupy.model.step_spans import NO_STEP
from taupy.model.streams import Owner, StreamBuilder
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.stamped import StepRows, stamped
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import SAMPLED_FROM_NS, call, host, profile_of, small_profile, steps
from tests.unit.profiledb.test_layers import backward_of, layer

ROWS = ("data", "Net", "body.0", "body.1", "engine", "backward", "again", "optimizer")
"""Call paths of the first thread, from its second row on."""
SPANS = {
    "data": [(0, 10), (98, 112)],
    "Net": [(10, 50), (120, 140), (210, 220)],
    "body.0": [(15, 30), (125, 135)],
    "body.1": [(30, 45)],
    "backward": [(60, 80)],
    "again": [(65, 70)],
    "optimizer": [(85, 95)],
}
"""Two steps of 100 ns from 0 on; the second batch is fetched 2 ns before its step."""


def phase(name: str) -> Timer:
    return Timer(name, groups=(f"PHASE_{name.upper()}",))


def training(number: int = 1, **more):
    body = [call(layer("body.0", "Linear"), 2, 25), call(layer("body.1", "Linear"), 1, 15)]
    again = call(layer("body.0", "Linear"), 1, 5)
    backward = call("_engine_run_backward", 1, 0, [call(backward_of("Net", "Net"), 1, 15, [again])])
    rows = [
        call(phase("data"), 2, 24),
        call(layer("Net", "Net"), 3, 30, body),
        backward,
        call(phase("optimizer"), 1, 10),
    ]
    other = call("other", 1, 0, [call(backward_of("body.1", "Linear"), 2, 30)])
    profile = profile_of(
        host(call("main", 1, 96, rows)), host(other, thread=1), number=number, **more
    )
    profile.threads[0].steps = [steps([100, 100])]
    profile.threads[0].activities = [
        spanned(1 + ROWS.index(name), *span) for name, spans in SPANS.items() for span in spans
    ]
    profile.threads[1].activities = [spanned(1, 50, 60), spanned(1, 150, 170)]
    return profile


def spanned(row: int, start: int, end: int) -> Activity:
    return Activity(row, "range", SAMPLED_FROM_NS + start, SAMPLED_FROM_NS + end)


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def ask(profile, *options: str, code: int = 0):
        with ProfileDB.open("taupy.db", create=True) as db:
            add_profile(db, profile)
        assert main(["layers", "--by", "step", *options]) == code
        output = capsys.readouterr()
        if code or "--csv" not in options:
            return output.err if code else output.out
        return [*csv.DictReader(output.out.splitlines())]

    return ask


def by_step(rows, thread: str = "0"):
    """(step, layer) -> own, forward, backward, recompute, calls."""
    names = ("own_ns", "forward_ns", "backward_ns", "recompute_ns", "calls")
    return {
        (row["step"], row["layer"]): tuple(int(row[name] or 0) for name in names)
        for row in rows
        if row["thread"] == thread
    }


def test_a_moment_belongs_to_the_innermost_layer_and_to_its_step(ask):
    rows = ask(training(), "--csv")
    assert by_step(rows) == {
        ("1", "Net"): (25, 40, 15, 0, 1),
        ("1", "body.0"): (20, 15, 0, 5, 2),
        ("1", "(no layer)"): (18, 0, 0, 0, 0),
        ("1", "body.1"): (15, 15, 0, 0, 1),
        ("1", "(data)"): (12, 0, 0, 0, 0),
        ("1", "(optimizer)"): (10, 0, 0, 0, 0),
        ("2", "(no layer)"): (68, 0, 0, 0, 0),
        ("2", "(data)"): (12, 0, 0, 0, 0),
        ("2", "Net"): (10, 20, 0, 0, 1),
        ("2", "body.0"): (10, 10, 0, 0, 1),
        ("", "Net"): (10, 10, 0, 0, 1),
    }
    assert [*by_step(rows)][:3] == [("1", "Net"), ("1", "body.0"), ("1", "(no layer)")]
    assert {row["kind"] for row in rows if row["step"]} == {"training"}


def test_a_thread_without_steps_has_those_of_its_process(ask):
    assert by_step(ask(training(), "--csv"), "1") == {
        ("1", "body.1"): (10, 0, 10, 0, 0),
        ("2", "body.1"): (20, 0, 20, 0, 0),
    }


def test_gpu_time_belongs_to_the_step_and_layers_of_the_launch(ask):
    """Kernels of `body.0` and the optimizer that run after the last step."""
    profile = training()
    measured, stream = profile.threads[0], Thread(0, 1, 0, "stream", "stream 7", 7)
    builder, activities = StreamBuilder(profile.timers), []
    gemm = Timer("gemm", groups=("GPU_KERNEL",))
    for row, launched, took in ((3, 16, 20), (3, 126, 30), (8, 90, 5)):
        owner = Owner(measured.tree, row)
        kernel = builder.add(stream, owner, gemm, Launch.of_times([took], 1))
        begin = SAMPLED_FROM_NS + 300 + launched
        activity = Activity(kernel, "kernel", begin, begin + took, launched)
        activities.append(activity)
        call = SAMPLED_FROM_NS + launched
        measured.activities.append(Activity(row, "api", call, call + 1, launched))
    (on_stream,) = builder.threads()
    on_stream.activities = activities
    profile.threads.append(on_stream)
    rows = ask(profile, "--csv")
    on_gpu = {(row["step"], row["layer"]): row["gpu_ns"] for row in rows if row["thread"] == "0"}
    assert {key: time for key, time in on_gpu.items() if time} == {
        ("1", "Net"): "20",
        ("1", "body.0"): "20",
        ("1", "(optimizer)"): "5",
        ("2", "Net"): "30",
        ("2", "body.0"): "30",
    }


CHOICES = [layers.Options(), layers.Options("layer_type"), layers.Options(depth=1)]


@pytest.mark.parametrize("choice", CHOICES)
def test_the_steps_add_up_to_the_run(tmp_path, choice):
    """Except for the time outside of layers and steps, which has no spans."""
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, training())
        table = values(db, layers.question(trial))
        whole = layers.views(db, trial, choice)
        divided = layer_steps.views(
            table, stamped(db, trial), lambda part: Layers(part, choice.by, choice.depth)
        )
    assert len(whole) == len(divided) == 2
    for run, parts in zip(whole, divided, strict=True):
        assert totals(run) == totals(parts)


def totals(view):
    names = [column.name for column in view.columns]
    sums = {}
    for row in view.rows:
        of_row = dict(zip(names, row, strict=True))
        if row[-1] != "(no layer)":
            mine = sums.setdefault(row[-1], [0] * 5)
            for at, name in enumerate(("own", "forward", "backward", "recompute", "calls")):
                mine[at] += of_row.get(f"{name}_ns", of_row.get(name)) or 0
    return sums


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_spans_are_cut_as_if_each_nanosecond_were_counted(seed):
    random = Random(seed)
    bounds = sorted(random.sample(range(60), 2 * random.randrange(1, 8)))
    begin, end = (np.array(bounds[first::2], "i8") for first in (0, 1))
    rows = StepRows(begin, end, np.arange(len(begin)))
    starts = np.array([random.randrange(60) for _ in range(5)], "i8")
    ends = starts + np.array([random.randrange(40) for _ in range(5)], "i8")
    step_of = rows.at(np.arange(100)).tolist()
    assert step_of == [
        next((at for at in range(len(begin)) if begin[at] <= moment < end[at]), NO_STEP)
        for moment in range(100)
    ]
    counted = Counter(
        (span, step_of[moment])
        for span, (start, stop) in enumerate(zip(starts, ends, strict=True))
        for moment in range(start, stop)
    )
    pieces = zip(*(column.tolist() for column in rows.pieces(starts, ends)), strict=True)
    assert {(span, step): length for span, step, length in pieces if length} == counted


def test_steps_after_a_trace_was_full_are_not_known(ask):
    """The last span begins in the second step: later ones of it may be missing."""
    profile = training(metadata={"taupy.health.trace": "the timeline ends: it was full"})
    for thread in profile.threads:
        thread.activities = [each for each in thread.activities
                             if each.start_ns < SAMPLED_FROM_NS + 130]  # fmt: skip
    text = ask(profile)
    assert {line.split()[0] for line in text.splitlines() if line[:1].isdigit()} == {"1"}
    assert "note: steps from 2 on are not known: the timeline ends: it was full" in text


def test_rows_of_several_steps_last_until_the_next_row(ask):
    """Two steps of 40 ns with a pause of 20, in which a batch is fetched; then a validation."""
    profile = training()
    series = steps([80, 60])
    series.start_ns[1] = SAMPLED_FROM_NS + 100
    series.count[0] = 2
    series.number[1] = 3
    validation = steps([40], "validation")
    validation.start_ns[0] = SAMPLED_FROM_NS + 160
    profile.threads[0].steps = [series, validation]
    rows = ask(profile, "--csv")
    assert by_step(rows)["1", "(optimizer)"] == (10, 0, 0, 0, 0)
    assert by_step(rows)["1", "(data)"] == (12, 0, 0, 0, 0)
    other = [(row["kind"], row["step"], row["own_ns"]) for row in rows if row["thread"] == "1"]
    assert other == [("training", "1", "10"), ("training", "3", "10"), ("validation", "1", "10")]


def test_two_trainings_at_once_do_not_share_their_other_threads(ask):
    profile = training()
    again = profile_of(host(call("main")), host(call("b")), host(call("c"), thread=2))
    profile.threads.append(again.threads[2])
    profile.threads[2].tree.timer = array("q", [0])
    profile.threads[2].steps = [steps([150])]
    rows = ask(profile, "--csv")
    assert by_step(rows, "1") == {("", "body.1"): (30, 0, 30, 0, 0)}
    assert by_step(rows)["2", "body.0"] == (10, 10, 0, 0, 1)


def test_people_see_the_largest_layers_of_the_first_and_last_steps(ask):
    profile = training()
    profile.threads[0].steps = [steps([10] * 20)]
    profile.threads[1].activities = []
    text = ask(profile, "-n", "1")
    assert "note: threads without a trace: 0.0.1" in text
    shown = [line.split()[0] for line in text.splitlines() if line[:1].isdigit()]
    assert shown[:6] == ["1", "2", "3", "18", "19", "20"]
    assert "6 of 20 rows of steps shown" in text and "at most 1 layer of each step" in text


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (small_profile(), "trial 1 has no steps: see docs/steps.md"),
        (
            training(),
            "trial 1 has sums over the run, not over each step: `taupy run --trace=host` stamps",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_line(ask, profile, said):
    for thread in profile.threads:
        thread.activities = []
    error = ask(profile, code=2)
    assert said in error and error.count("\n") == 1
