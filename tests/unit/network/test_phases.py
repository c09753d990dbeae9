"""Which timers are phases of a training, and whose time it is."""

from __future__ import annotations

import importlib.util
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from taupy.answers import phases
from taupy.answers.answer import Nothing
from taupy.model.profile import Timer
from taupy.model.question import Question
from taupy.network import phase_sums
from taupy.network import phases as known
from taupy.network import torch as pytorch
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import call, host, profile_of, steps

MS = 1_000_000


@pytest.mark.parametrize(
    ("name", "file", "groups", "group"),
    [
        ("Tensor.backward", "torch/_tensor.py", (), "PHASE_BACKWARD"),
        ("Tensor.backward", "/lib/site-packages/torch/_tensor.py", (), "PHASE_BACKWARD"),
        ("Tensor.backward", "mytorch/_tensor.py", (), None),
        ("backward", "train.py", (), None),
        ("Optimizer.step#AdamW.step", "", ("PHASE", "RECORD_FUNCTION"), "PHASE_OPTIMIZER"),
        ("Optimizer.step#AdamW.step", "", ("PHASE",), None),
        ("enumerate(DataLoader)#_Iter.__next__", "", ("RECORD_FUNCTION",), "PHASE_DATA"),
        ("mine", "", ("PHASE", "RECORD_FUNCTION"), None),
    ],
)
def test_a_timer_is_known_by_its_name_and_the_end_of_its_file(name, file, groups, group):
    assert known.group_of(name, file, groups) == group


@pytest.mark.parametrize(
    ("groups", "kind"),
    [
        ("PHASE_BACKWARD|PYTHON", "backward"),
        ("IMPORT", "import"),
        ("LAYER", "forward"),
        ("PHASE", None),
        ("", None),
    ],
)
def test_the_kind_stands_in_the_groups(groups, kind):
    assert known.kind_of(groups) == kind


def _row(name, calls, own_ms, *below, group="PYTHON"):
    return call(Timer(name, groups=(group,)), calls, own_ms * MS, below)


def _training(tmp_path, *series):
    """Two steps in 300 ms, with an import and a recomputation."""
    layer = _row("layer", 4, 35, group="PHASE_FORWARD")
    loss = _row("loss", 2, 10, group="PHASE_LOSS")
    again = _row("layer", 2, 20, group="PHASE_FORWARD")
    root = _row(
        ".taupy application",
        1,
        90,
        _row("setup", 1, 10, _row("import torch", 1, 40, group="IMPORT")),
        _row("model", 2, 15, layer, loss, group="PHASE_FORWARD"),
        _row("backward", 2, 40, _row("node", 2, 10, again), group="PHASE_BACKWARD"),
        _row("Optimizer.step#SGD.step", 2, 30, group="PHASE_OPTIMIZER"),
    )
    profile = profile_of(host(root))
    profile.threads[0].steps = [*series]
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, profile)
        by_phase = values(db, Question((trial,), by=("phase",), values=("exclusive",)))
        return phases.views(db, trial, phases.Options()), dict(
            zip(by_phase.row_labels("phase"), by_phase.column("exclusive", "time"), strict=True)
        )


def test_each_moment_belongs_to_the_nearest_phase(tmp_path):
    (view,), by_phase = _training(tmp_path)
    assert "(2 steps)" in view.title
    kind = [column.name for column in view.columns].index("phase")
    rows = {row[kind]: row[2 : kind - 2] for row in view.rows}
    assert by_phase == {None if k == "(no phase)" else k: row[1] for k, row in rows.items()}
    assert all(row[kind - 2 : kind] == (None, None) for row in view.rows)
    assert rows == {  # share, time, calls, per step
        "forward": (pytest.approx(100 / 6), 50 * MS, 2, 25 * MS),
        "loss": (pytest.approx(100 / 30), 10 * MS, 2, 5 * MS),
        "backward": (pytest.approx(100 / 6), 50 * MS, 2, 25 * MS),
        "recompute": (pytest.approx(100 / 15), 20 * MS, 2, 10 * MS),
        "optimizer": (pytest.approx(10), 30 * MS, 2, 15 * MS),
        "import": (pytest.approx(40 / 3), 40 * MS, 1, 20 * MS),
        "(no phase)": (pytest.approx(100 / 3), 100 * MS, None, 50 * MS),
    }


def test_percentiles_are_of_the_time_in_a_step(tmp_path):
    times = [100 * MS] * 19 + [300 * MS] * 2
    (view,), _ = _training(tmp_path, steps(times), steps([MS], "validation"))
    assert "(21 steps)" in view.title
    names = [column.name for column in view.columns]
    rows = {row[names.index("phase")]: row[names.index("p50_ns") :][:2] for row in view.rows}
    assert rows["(no phase)"] == (90 * MS, 270 * MS)
    assert rows["forward"] == (None, None)  # of no step, as is known of this series


def test_steps_of_which_no_phase_is_known_have_no_time_outside_of_phases(tmp_path):
    """As in traces of other tools: the forward passes of the thread are in them nevertheless."""
    imported = replace(steps([100 * MS]), phases={})
    (view,), _ = _training(tmp_path, imported, steps([MS], "validation"))
    assert "(1 step)" in view.title
    names = [column.name for column in view.columns]
    rows = {row[names.index("phase")]: row[names.index("p50_ns") :][:2] for row in view.rows}
    assert rows["(no phase)"] == (None, None)


def _forward(own_ms):
    return call(".taupy application", 1, 0, [_row("model", 1, own_ms, group="PHASE_FORWARD")])


@pytest.mark.parametrize(
    ("by", "forward"),
    [
        ("thread", {"THREAD 0.0.0": 10, "THREAD 0.0.1": 20, "THREAD 1.0.0": 70}),
        ("node", {"NODE 0": 30, "NODE 1": 70}),
        ("rank", {"RANK 0": 30, "RANK 1": 70}),
        ("trial", {"TRIAL 1": 100}),
        ("phase", {"TRIAL 1": 100}),
    ],
)
def test_tables_are_of_the_dimension_that_was_asked_for(tmp_path, by, forward):
    profile = profile_of(
        host(_forward(10)), host(_forward(20), thread=1), host(_forward(70), node=1)
    )
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, profile)
        views = phases.views(db, trial, phases.Options(by))
    shown = {
        view.title.partition(":" if by == "thread" else " (")[0]: {
            row[-1]: row[[column.name for column in view.columns].index("time_ns")]
            for row in view.rows
        }["forward"]
        for view in views
    }
    assert shown == {label: time * MS for label, time in forward.items()}
    assert [*shown] == sorted(shown, key=lambda label: -shown[label])


def test_the_phases_of_a_layer_begin_where_the_layer_does(tmp_path):
    """A validation around a network: its forward pass is validation in the layers, too."""
    head = _row("head", 4, 20, _row("relu", 4, 5), group="LAYER")
    net = _row("net", 2, 10, _row("loss", 2, 3, group="PHASE_LOSS"), head, group="LAYER")
    root = _row("app", 1, 1, _row("validate", 1, 7, net, group="PHASE_VALIDATION"), net)
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, profile_of(host(root)))
        views = phases.views(db, trial, phases.Options("layer"))
    assert {view.title: {row[-1]: row[2:4] for row in view.rows} for view in views} == {
        "LAYER head (no steps: no optimizer of a known framework was called)": {
            "validation": (25 * MS, 4),
            "forward": (25 * MS, 4),
        },
        "LAYER net (no steps: no optimizer of a known framework was called)": {
            "validation": (13 * MS, 2),
            "forward": (10 * MS, 2),
            "loss": (3 * MS, 2),
        },
        "LAYER (no layer) (no steps: no optimizer of a known framework was called)": {
            "validation": (7 * MS, 1),
            "(no phase)": (1 * MS, None),
        },
    }


def test_the_phases_of_a_step_add_up_to_its_time(tmp_path):
    profile = profile_of(host(_forward(10)))
    series = steps([100 * MS] * 20)
    series.count[:2] = array("q", [2, 2])
    series.phases["import"] = array("q", [0, 90 * MS, *[0] * 18])
    profile.threads[0].steps = [series, steps([MS], "validation")]
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, profile)
        training, validation = phases.views(db, trial, phases.Options("step", True))
        (shown, _) = phases.views(db, trial, phases.Options("step", False))
    assert [row[3:] for row in training.rows[:5]] == [
        [1, 2, pytest.approx(10), 10 * MS, 5 * MS, "data"],
        [1, 2, pytest.approx(90), 90 * MS, 45 * MS, "(no phase)"],
        [2, 2, pytest.approx(10), 10 * MS, 5 * MS, "data"],
        [2, 2, pytest.approx(90), 90 * MS, 45 * MS, "import"],
        [3, 1, pytest.approx(10), 10 * MS, 10 * MS, "data"],
    ]
    assert [[*row] for row in validation.rows] == [
        [0, 0, "validation", 1, pytest.approx(10), MS / 10, "data"],
        [0, 0, "validation", 1, pytest.approx(90), MS * 9 / 10, "(no phase)"],
    ]
    assert [row[3] for row in shown.rows[::2]] == [1, 2, 3, 18, 19, 20]
    assert shown.notes == ["6 of 20 rows of steps shown; --all shows them all"]


def test_a_thread_without_phases_has_no_table(tmp_path):
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        trial = add_profile(db, profile_of(host(call(".taupy application", 10))))
        with pytest.raises(Nothing, match="no known phases"):
            phases.views(db, trial, phases.Options())


def test_all_kinds_are_known():
    kinds = {*pytorch.ROUTINES, *pytorch.RANGES.values()}
    assert kinds <= {*known.KINDS}


def _names(code):
    yield code.co_qualname
    for constant in code.co_consts:
        if hasattr(constant, "co_qualname"):
            yield from _names(constant)


def test_pytorch_has_the_routines_of_the_table():
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("PyTorch is not installed: pip install torch==2.13.0")
    folder = Path(found.origin).parent.parent
    missing = []
    for places in pytorch.ROUTINES.values():
        for place in places:
            file, name = place.split(":")
            code = compile((folder / file).read_text(), file, "exec")
            if name not in set(_names(code)):
                missing.append(place)
    assert not missing


def test_the_times_of_phases_are_read_without_other_columns(tmp_path):
    class Unread(list):
        """A column of what the table of phases does not show."""

        def __getitem__(self, row):
            raise AssertionError("read")

    data = Timer("data", "a.py", 3, groups=frozenset({"PHASE_DATA"}))
    f = Timer("f", "a.py", 9)
    profile = profile_of(
        host(call("main", 1, 5, [call(data, 2, 7, [call(f, 3, 10)]), call(f, 1, 4)]))
    )
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        add_profile(db, profile)
        columns = ("calls", "inclusive", "exclusive")
        table = values(db, replace(phase_sums.question(1), values=columns))
    inclusive = table.named("inclusive", "time")
    unread = replace(table, columns={**table.columns, inclusive: Unread(table.columns[inclusive])})
    sums, steps_there = phase_sums.by_kind(unread)
    assert sums == {"data": (17, 2), phase_sums.NO_PHASE: (9, None)}
    assert steps_there == 0
