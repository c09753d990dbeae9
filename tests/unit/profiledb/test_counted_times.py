"""Times of a counting run: helpers pass their time on, what notes is nobody's."""

from __future__ import annotations

from taupy.model.profile import ROOT_TIMER, Timer
from taupy.model.question import Question
from taupy.profiledb.counted_times import counted_times
from taupy.profiledb.values import values
from taupy.profiledb.writer import add_profile
from tests.builders import call, host, profile_of

COUNT = "/lib/taupy/count.py"
TORCH = "/lib/taupy/count_torch.py"


def helper(name, own, children=(), file=COUNT):
    return call(Timer(name, file, 1), 1, own, list(children))


def times_of(db, *threads):
    trial = add_profile(db, profile_of(*threads))
    paths = values(db, Question((trial,), by=("thread", "callpath", "parent", "timer")))
    times = counted_times(paths)
    columns = (times.column(value, "time") for value in ("inclusive", "exclusive"))
    names = (timer.short_name for timer in times.row_labels("timer"))
    return dict(zip(names, zip(*columns, strict=True), strict=True))


def test_operations_count_for_their_routine_and_notes_for_nobody(db):
    noting = helper("_note_numpy", 500, [call("event", 3, 70)])
    wrapped = helper("call", 30, [call("numpy.mean", 1, 200, [call("_mean", 1, 5)])])
    layer = call("forward", 4, 10, [helper("binary", 100, [noting]), wrapped])
    finder = helper("_Finder.find_spec", 900, [call("import", 1, 80)])
    program = helper("main", 7, [call("program", 1, 20, [layer]), finder])
    found = times_of(db, host(call(ROOT_TIMER, 1, 0, [helper("<module>", 3, [program])])))
    assert found == {
        "forward": (10 + 100 + 30 + 205, 140),
        "numpy.mean": (205, 200),
        "_mean": (5, 5),
        "program": (365, 20),
        ROOT_TIMER: (365 + 10, 10),
    }


def test_what_a_dispatch_works_out_in_python_is_left_out(db):
    name = "watch.<locals>.Counting.__torch_dispatch__"
    dispatch = helper(name, 40, [call("tree_leaves", 2, 300), helper("_note", 90)], TORCH)
    found = times_of(db, host(call(ROOT_TIMER, 1, 1, [call("linear", 1, 5, [dispatch])])))
    assert found == {"linear": (45, 45), ROOT_TIMER: (46, 1)}


def test_a_recursive_routine_has_its_time_once(db):
    inner = call("walk", 2, 3, [helper("binary", 4)])
    found = times_of(db, host(call(ROOT_TIMER, 1, 0, [call("walk", 1, 1, [inner])])))
    assert found["walk"] == (8, 8)


def test_what_pytorch_puts_around_a_dispatch_mode_costs_nobody_anything(db):
    name = "watch.<locals>.Counting.__torch_dispatch__"
    dispatch = helper(name, 40, [helper("_note", 90)], TORCH)
    inner = call(Timer("DisableContext._fn", "torch/_dynamo/eval_frame.py", 1), 1, 600, [dispatch])
    outer = call(Timer("_disable_dynamo.inner", "torch/_compile.py", 1), 1, 700, [inner])
    found = times_of(db, host(call(ROOT_TIMER, 1, 1, [call("linear", 1, 5, [outer])])))
    assert found == {"linear": (45, 45), ROOT_TIMER: (46, 1)}


def test_an_operator_that_pytorch_runs_through_python_keeps_its_time(db):
    name = "watch.<locals>.Counting.__torch_dispatch__"
    own = call(Timer("my_operator", "model.py", 9), 1, 7)
    run = call(Timer("OpOverload.__call__", "torch/_ops.py", 1), 1, 1000, [own])
    dispatch = helper(name, 40, [run, call("tree_leaves", 2, 300)], TORCH)
    plain = call(Timer("OpOverload.__call__", "torch/_ops.py", 1), 1, 11)
    linear = call("linear", 1, 5, [dispatch, plain])
    found = times_of(db, host(call(ROOT_TIMER, 1, 1, [linear])))
    assert found == {
        "linear": (5 + 40 + 1000 + 7 + 11, 5 + 40 + 1000),
        "my_operator": (7, 7),
        "OpOverload.__call__": (11, 11),
        ROOT_TIMER: (1064, 1),
    }
