"""Python calls whose return was not recorded, in traces of torch.profiler."""

from __future__ import annotations

import random

from tests.unit.formats import chrome_files as made
from tests.unit.formats.test_chrome import notes, trace
from tests.unit.formats.test_nsys import paths

LOST = "was not recorded: cut off where their caller ends, or calls next"


def call(name, start, end, id, caller, tid=made.PID):
    args = {"Python id": id, "Python parent id": caller}
    return made.slice_("python_function", name, start, end, tid, **args)


def test_a_call_without_a_return_is_cut_off_where_its_caller_ends(tmp_path):
    """`recv` lasts to the end of the trace; the steps are those of the module all the same."""
    events = [
        call("a.py(1): <module>", 0, 1000, 1, None),
        call("a.py(5): load", 100, 200, 2, 1),
        call("<built-in method recv of PyCapsule object at 0x7f00>", 150, 1000, 3, 2),
        call("a.py(9): step", 300, 400, 4, 1),
        made.slice_("cpu_op", "aten::mm", 310, 350),
        call("a.py(9): step", 500, 600, 5, 1),
    ]
    random.Random(1).shuffle(events)
    profile = trace(tmp_path, *events)
    assert paths(profile, (0, 0, 0)) == {
        "<module>": (1, 1000, 700),
        "<module> > load": (1, 100, 50),
        "<module> > load > <built-in method recv of PyCapsule>": (1, 50, 50),
        "<module> > step": (2, 200, 160),
        "<module> > step > aten::mm": (1, 40, 40),
    }
    assert f"the return of 1 Python call {LOST}" in notes(profile)


def test_a_call_without_a_return_is_cut_off_where_its_caller_calls_next(tmp_path):
    """Its caller lasts to the end, too; what it called itself stays below it."""
    profile = trace(
        tmp_path,
        call("a.py(1): loop", 0, 1000, 1, None),
        call("<built-in function next>", 100, 1000, 2, 1),
        call("b.py(2): read", 110, 1000, 3, 2),
        call("b.py(3): parse", 120, 140, 4, 3),
        call("a.py(9): step", 300, 400, 5, 1),
        call("nn.Module: Net_0", 320, 380, 6, 5),
        call("<built-in function next>", 500, 520, 7, 1),
        call("a.py(1): other", 0, 900, 8, None, tid=9),
    )
    assert paths(profile, (0, 0, 0)) == {
        "loop": (1, 1000, 680),
        "loop > <built-in function next>": (2, 220, 30),
        "loop > <built-in function next> > read": (1, 190, 170),
        "loop > <built-in function next> > read > parse": (1, 20, 20),
        "loop > step": (1, 100, 40),
        "loop > step > nn.Module: Net_0": (1, 60, 60),
    }
    assert f"the return of 2 Python calls {LOST}" in notes(profile)


def test_calls_that_nest_as_their_numbers_say_are_not_cut_off(tmp_path):
    """Rounded by 2 ns; a caller that the file does not have; no numbers at all."""
    profile = trace(
        tmp_path,
        call("a.py(1): f", 0, 1000, 1, 77),
        call("a.py(2): g", 100, 500, 2, 1),
        call("a.py(2): h", 300, 502, 9, 2),
        call("a.py(2): g", 502, 1001, 3, 1),
        call("a.py(1): f", 1001, 1300, 4, 77),
        call("a.py(4): i", 1002, 1302, 5, 4),
        made.slice_("python_function", "a.py(6): k", 1010, 1020),
    )
    found = paths(profile, (0, 0, 0))
    assert {name: calls for name, (calls, _, _) in found.items()} == {
        "f": 2,
        "f > g": 2,
        "f > g > h": 1,
        "f > i": 1,
        "f > i > k": 1,
    }
    assert LOST not in notes(profile)
