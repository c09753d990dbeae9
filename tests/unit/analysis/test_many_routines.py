"""Rules look closely at the routines that may matter, however many others there are."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from taupy.analysis import places
from taupy.analysis.findings import judged
from taupy.analysis.findings.calls import Calls
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import Either, Grouped, Known, OneOf, Worded, among
from taupy.analysis.trees import Tree
from taupy.answers.own_code import kinds
from taupy.answers.places import GroupPlaces, hottest
from taupy.model import rows, timer_columns
from taupy.model.profile import Timer
from taupy.model.rows import ThreadRow, TimerRow
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report.evidence import trial_of
from taupy.report.strip import strip
from tests.builders import call, host, profile_of, wide_profile

JOIN = "threading.py:Thread.join"


@pytest.fixture
def trial(tmp_path):
    """Makes the input of rules from a profile."""
    with ExitStack() as opened:

        def made(profile):
            path = tmp_path / f"{len(profile.timers)}.db"
            db = opened.enter_context(ProfileDB.open(path, create=True))
            add_profile(db, profile)
            return trial_of(db, db.latest())

        yield made


def _sums(trial, monkeypatch):
    """How often rules add up call paths of routines."""
    by_thread, asked = Calls.by_thread, []
    monkeypatch.setattr(
        Calls, "by_thread", lambda self, rows: asked.append(1) or by_thread(self, rows)
    )
    assert judged(trial)
    monkeypatch.undo()
    return len(asked)


def test_sums_of_routines_that_took_no_time_are_not_made(trial, monkeypatch):
    few, many = (trial(wide_profile(2 * timers, timers=timers)) for timers in (200, 1600))
    assert _sums(many, monkeypatch) < 2 * _sums(few, monkeypatch)


def test_rules_do_not_ask_of_every_routine_whose_it_is(trial, monkeypatch):
    few, many = (trial(wide_profile(2 * timers, timers=timers)) for timers in (200, 1600))
    asked = []
    is_own = Trial.is_own
    monkeypatch.setattr(Trial, "is_own", lambda *of: asked.append(of[0]) or is_own(*of))
    assert judged(few) and judged(many)
    assert sum(of is many for of in asked) <= sum(of is few for of in asked) + 10


def test_a_choice_of_routines_is_searched_for_as_each_of_them_is(trial):
    looked_at = []

    class Noting(OneOf):
        def __call__(self, timer):
            looked_at.append(timer.short_name)
            return super().__call__(timer)

    join, load = Timer("Thread.join", "threading.py", 9), Timer("load", groups=frozenset({"DATA"}))
    below = [call(Timer(f"f{n}", "a.py", n + 1), 1, 5) for n in range(300)]
    profile = profile_of(host(call("main", 1, 1, [*below, call(join, 3, 7), call(load, 2, 4)])))
    calls = trial(profile).calls
    seventh = next(timer for timer in calls.timers if timer.short_name == "f7")
    grouped = Grouped(lambda groups: groups == "DATA")
    assert calls.matching(Noting((seventh,))) == [seventh]
    assert looked_at == ["f7"]
    for choice in ((among((JOIN,)), grouped, OneOf((seventh,))), (grouped, grouped)):
        either = Either(choice)
        assert calls.rows(either) == [row for row, timer in enumerate(calls.timer) if either(timer)]
    assert calls.rows(Grouped(grouped.passes, lambda name: name != "load")) == []


def test_a_known_routine_is_searched_for_by_its_name_alone(trial):
    looked_at = []

    class Noting(Known):
        def __call__(self, timer):
            looked_at.append(timer.short_name)
            return super().__call__(timer)

    join, other = Timer("Thread.join", "threading.py", 9), Timer("Thread.join", "mine.py", 9)
    below = [call(Timer(f"f{n}", "a.py", n + 1), 1, 5) for n in range(300)]
    profile = profile_of(host(call("main", 1, 1, [*below, call(join, 3, 7), call(other, 2, 4)])))
    calls = trial(profile).calls
    (row,) = calls.rows(Noting(among((JOIN,)).files))
    assert calls.timer[row].file == "threading.py"
    assert looked_at == ["Thread.join"] * 2


def test_a_routine_with_a_word_in_its_name_or_file_is_searched_for_by_that(trial):
    looked_at = []

    def noting(timer):
        looked_at.append(timer.short_name)
        return timer.short_name != "reload"

    timers = [Timer("preload", "b.py", 3), Timer("reload"), Timer("next", "torch/loader.py", 4)]
    below = [call(Timer(f"f{n}", "a.py", n + 1), 1, 5) for n in range(300)]
    below += [call(timer, 1, 2) for timer in timers]
    calls = trial(profile_of(host(call("main", 1, 1, below)))).calls
    found = calls.matching(Worded(noting, ("load", "nothing"), "loader.py"))
    assert sorted(timer.short_name for timer in found) == ["next", "preload"]
    assert sorted(looked_at) == ["next", "preload", "reload"]


def test_places_of_equal_times_are_ordered_by_name_where_they_are_asked_for(monkeypatch):
    timers = [TimerRow(name, name, "/u/a.py", 1, "") for name in "hgfedcba"]
    times = [5, 9, 7, 7, 5, 9, 5, 5]
    tree = Tree([ThreadRow(0, 0, 0, "host", "")], [0] * 8, timers, range(8), [-1] * 8, [1] * 8,
                times)  # fmt: skip
    settled, settle = [], places._InOrder._settle

    def noting(self, at):
        settled.append(at)
        return settle(self, at)

    monkeypatch.setattr(places._InOrder, "_settle", noting)
    (of_group,) = places.places(tree, ["main thread"], {}).values()
    assert [place.timer.timer for place in of_group[:2]] == ["c", "g"]
    assert max(settled) == 1
    assert [timer.timer for timer in of_group.timers] == [*"cgef", *"abdh"]
    assert [place.timer for place in of_group] == of_group.timers


def test_groups_are_tested_once_for_all_routines_that_have_them(trial):
    tested = []
    loads = [Timer(f"import m{n}", groups=frozenset({"IMPORT"})) for n in range(3)]
    below = [call(Timer(f"f{n}", "a.py", n + 1), 1, 5) for n in range(300)]
    calls = trial(
        profile_of(host(call("main", 1, 1, [*below, *(call(t, 1, 2) for t in loads)])))
    ).calls
    rows = calls.rows(Grouped(lambda groups: tested.append(groups) or groups == "IMPORT"))
    assert sorted(calls.timer[row].short_name for row in rows) == [
        "import m0",
        "import m1",
        "import m2",
    ]
    assert sorted(tested) == ["IMPORT", "PYTHON"]


def test_what_call_paths_add_to_places_is_decided_once_for_each_step(monkeypatch):
    def decided(paths):
        tree, files = places.Tree.of_profile(wide_profile(paths, timers=40))
        step, steps = places._Tally._step, []
        monkeypatch.setattr(
            places._Tally, "_step", lambda *arguments: steps.append(1) or step(*arguments)
        )
        assert places.places(tree, ["main thread"], files)
        monkeypatch.undo()
        return len(steps)

    assert decided(16_000) < 2 * decided(2_000)


def test_only_the_places_that_are_looked_at_are_made(monkeypatch):
    """Of hundreds of thousands of routines people see a few."""
    tree, files = places.Tree.of_profile(wide_profile(3_000, timers=2_000))
    own, made = places._Tally._own, []
    monkeypatch.setattr(places._Tally, "_own", lambda *at: made.append(at[2]) or own(*at))
    (of_group,) = places.places(tree, ["main thread"], files).values()
    group = GroupPlaces("main thread", 1, of_group)
    assert hottest([group])[1] is of_group[0]
    bands = strip({}, [group], with_c=True)
    assert [*of_group.largest(5, 0.0)] == of_group[:5]
    assert len(made) == 5 < len(of_group)
    assert sum(band.ns for band in bands) == sum(place.ns for place in of_group)
    assert kinds([group]) == {"own": sum(of_group.ns)}


def test_of_many_routines_those_that_matter_become_rows(trial, monkeypatch):
    """The others stay columns: of each file there is one that tells whose it is."""
    made = []
    row = rows.TimerRow
    monkeypatch.setattr(timer_columns, "TimerRow", lambda *of: made.append(of) or row(*of))
    asked = trial(wide_profile(3_200, timers=1_600))
    table = asked.calls.table
    (of_group,) = places.places(Tree.of(table, asked.calls.parent), ["main"], {}).values()
    assert of_group[:5] and judged(asked)
    files = {*table.labels["timer"].files}
    assert len(files) <= len(made) < 2 * len(files) < 200


def test_routines_that_lasted_are_those_with_such_a_sum_in_one_thread(trial):
    f, g = Timer("f", "a.py", 1), Timer("g", "a.py", 5)
    calls = trial(
        profile_of(
            host(call("main", 1, 1, [call(f, 1, 30), call(g, 1, 20)])),
            host(call(f, 1, 40, [call(g, 1, 20), call(g, 1, 25)]), thread=1),
        )
    ).calls
    for least in (0, 30, 31, 45, 46, 85, 86):
        assert {timer.short_name for timer in calls.lasting(least)} == {
            timer.short_name
            for timer in calls.timers
            if max(sums.ns for sums in calls.of_timer(timer).values()) >= least
        }
    assert {timer.short_name for timer in calls.lasting(46)} == {"f", "main"}
