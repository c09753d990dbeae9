"""The page of two sides: what the comparison takes for the same, its verdicts, its tables."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from taupy.comparison.comparison import Medians
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.study import conditions as gate
from taupy.study import versus
from tests.builders import call, host, profile_of, wide_profile
from tests.in_process import taupy


def routine(name: str, line: int, groups: tuple[str, ...] = ("PYTHON",)) -> Timer:
    return Timer(name, "app.py", line, groups=groups)


def run(number: int, down: int, slow: int, more: int = 0):
    """A program whose lines stand `down` further down: `f` takes `slow`, `g` always the same."""
    f = call(routine("f", 3 + down), 2, slow + more, [call(routine("leaf", 9 + down), 4, 100_000)])
    layer = call(routine("net", 20 + down, ("LAYER", "PYTHON")), 1, 200_000 + more)
    phase = call(routine("data", 25 + down, ("PHASE", "PHASE_DATA")), 1, 300_000 + more)
    g = call(routine("g", 6 + down), 1, 1_000_000 + more)
    root = call(routine("main", 1 + down), 1, 50_000, [f, g, layer, phase])
    return profile_of(host(root), number=number)


def contents_of(path, runs: int, fail_on=()):
    """Two sides of that many runs; the second has a line more on top, and a slower `f`."""
    with ProfileDB.open(path, create=True) as db:
        for number in range(runs):
            noise = 1_000 * (number % 3)
            for side in (0, 1):
                profile = run(number * 2 + side, side, 2_000_000 * (1 + side), noise)
                name = "ab"[side]
                uuid = f"01900000-0000-7000-8000-0000000000{number}{side}"
                add_profile(db, replace(profile, experiment=name, uuid=uuid))
        return versus.of_sides(db, "experiment=a", "experiment=b", fail_on)


def test_routines_that_moved_are_one_box(tmp_path):
    contents, _ = contents_of(tmp_path / "a.db", 1)
    names = [entry["name"] for entry in contents.forest.names]
    assert sorted(names) == ["data", "f", "g", "leaf", "main", "net"]
    timers = list(contents.forest.columns["timer"])
    assert sorted(timers[:6]) == sorted(timers[6:])
    assert [thread["side"] for thread in contents.forest.threads] == [0, 1]


def test_of_routines_that_moved_the_noise_is_known(tmp_path):
    contents, _ = contents_of(tmp_path / "a.db", 5)
    forest = contents.forest
    own = {entry["name"]: entry["verdict"] for entry in forest.names}
    assert (own["f"], own["g"], own["main"]) == (2, 1, 1)
    for half in (slice(0, 6), slice(6, 12)):
        names = [forest.names[timer]["name"] for timer in forest.columns["timer"][half]]
        by_path = dict(zip(names, forest.columns["verdict"][half], strict=True))
        assert by_path == {"main": 2, "f": 2, "g": 1, "leaf": 1, "net": 1, "data": 1}
    assert forest.judged


@pytest.mark.parametrize("runs", [1, 5])
def test_the_overview_draws_what_changed(tmp_path, runs):
    contents, _ = contents_of(tmp_path / "a.db", runs)
    (part,) = [part for part in contents.sections[0].parts if part.bars]
    assert ("beyond noise" in part.title) == (runs == 5)
    first, second = part.bars[:2]
    assert first.name.startswith("f [") and first.note.startswith("+2.00 ms, ")
    assert [bar.parts[0][1] for bar in (first, second)] == ["A", "B"]
    assert len(part.bars) == 2  # `g` and others take the same


def test_a_routine_of_one_side_is_a_change(tmp_path):
    """The largest change of a mended program is often that a routine is gone."""
    g = call(routine("g", 6), 1, 1_000_000)
    gone = call(routine("gone", 3), 9, 3_000_000)
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        for number, callees in enumerate(([g, gone], [g])):
            add_profile(
                db, profile_of(host(call(routine("main", 1), 1, 50_000, callees)), number=number)
            )
        contents, _ = versus.of_sides(db, "1", "2")
    (part,) = [part for part in contents.sections[0].parts if part.bars]
    assert [bar.note for bar in part.bars] == ["-3.00 ms, only in A", ""]
    assert part.bars[0].name.startswith("gone [")
    (routines,) = (section for section in contents.sections if section.name == "routines")
    assert routines.parts[0].views[0].columns[0].name == "name"


def test_with_too_few_runs_nothing_is_judged(tmp_path):
    contents, _ = contents_of(tmp_path / "a.db", 1)
    assert not contents.forest.judged
    assert set(contents.forest.columns["verdict"]) == {0}
    (part,) = [part for part in contents.sections[0].parts if part.title == "Remarks"]
    assert part.lines[0].startswith("one run per side")
    assert part.lines[-1] == "nothing is grey in the flame graph, because noise is unknown"


@pytest.mark.parametrize("runs", [1, 5])
def test_the_page_notes_what_compare_notes(tmp_path, runs):
    """Of a side whose runs differ, too."""
    path = tmp_path / "a.db"
    with ProfileDB.open(path, create=True) as db:
        odd = replace(run(99, 0, 2_000_000), experiment="a", metadata={"Python Version": "3.11"})
        add_profile(db, odd)
    contents, _ = contents_of(path, runs)
    arguments = ("compare", "--db", str(path), "experiment=a", "experiment=b", "--json")
    printed = [note for view in json.loads(taupy(*arguments).stdout) for note in view["notes"]]
    parts = [part for name in (0, -2) for part in contents.sections[name].parts]
    shown = [line for part in parts for line in part.lines]
    shown += [note for part in parts for view in part.views for note in view.notes]
    assert {*printed} <= {*shown}
    assert any(note.startswith("the trials of side A differ: ") for note in printed)


def test_phases_and_layers_stand_side_by_side(tmp_path):
    contents, _ = contents_of(tmp_path / "a.db", 1)
    tables = {section.name: section.parts[0].views[0] for section in contents.sections[1:3]}
    assert list(tables) == ["phases", "layers"]
    for name, row in (("phases", "data"), ("layers", "net")):
        view = tables[name]
        columns = [column.name for column in view.columns]
        cells = {line[columns.index("name")]: line for line in view.rows}
        assert cells[row][columns.index("a_ns")] == cells[row][columns.index("b_ns")] > 0


def test_without_phases_and_layers_there_are_no_such_tabs(tmp_path):
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        for number in (1, 2):
            add_profile(db, profile_of(host(call("main", 1, 10)), number=number))
        contents, _ = versus.of_sides(db, "1", "2")
    assert [section.name for section in contents.sections] == ["overview", "routines", "facts"]


@pytest.mark.parametrize(
    ("condition", "word", "code"),
    [("time of f > +5%", "FAILED", 3), ("time of g > +5%", "PASSED", 0)],
)
def test_the_gate_is_on_the_page(tmp_path, condition, word, code):
    contents, found = contents_of(tmp_path / "a.db", 5, [gate.parse(condition)])
    assert found == code
    assert contents.sections[0].parts[0].views[0].title == f"GATE {word}: {condition}"


def test_only_a_condition_that_is_asked_for_decides_the_exit_code(tmp_path):
    contents_of(tmp_path / "a.db", 1)
    words = ("report", "1", "2", "-o", tmp_path / "a.html", "--db", tmp_path / "a.db")
    assert taupy(*words).returncode == 0
    assert taupy(*words, "--fail-on", "time of f > +5%").returncode == 4  # one run each
    refused = taupy("report", "1", "--fail-on", "time > +5%", "--db", tmp_path / "a.db")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1


def test_a_table_of_many_rows_does_not_go_through_all_of_them_for_each(tmp_path, monkeypatch):
    passes = []
    through = Medians.__iter__
    monkeypatch.setattr(Medians, "__iter__", lambda self: passes.append(1) or through(self))
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        for number in (1, 2):
            add_profile(db, wide_profile(300, timers=200, number=number))
        contents, _ = versus.of_sides(db, "1", "2")
    assert len(contents.sections[1].parts[0].views[0].rows) > 100
    assert len(passes) < 20
