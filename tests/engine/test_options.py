"""What is recorded, and what is not, when the user asks for less or for more."""

from __future__ import annotations

import pytest

LAYERS = """
def one():
    two()
def two():
    three(); three()
def three():
    four()
def four(): pass
one()
"""

C_CALLS = """
import functools
def key(x): return -x
class Mine(list):
    def append(self, x): super().append(x)
def use():
    a = []
    for i in range(5):
        a.append(i)
    len(a); len("x")
    sorted([3, 1, 2], key=key)
    try:
        len(3)
    except TypeError:
        pass
    Mine().append(1)
    "-".join(["a", "b"])
    dict.fromkeys([1])
    list(map(key, [1, 2]))
use()
"""


def test_c_functions_are_not_recorded_unless_asked_for(runner, native):
    calls = runner.run(C_CALLS, native).calls()
    assert "builtins.len" not in calls
    assert calls["key"] == 5


def test_c_functions_are_counted_under_the_routine_that_calls_them(runner, native):
    trial = runner.run(C_CALLS, native, "--c-calls")
    used = {path.names[-1]: path for path in trial.paths() if path.names[-2:-1] == ("use",)}
    calls = {name: path.calls for name, path in used.items()}
    assert calls["builtins.len"] == 3
    assert calls["list.append"] == 5
    assert calls["builtins.sorted"] == 1
    assert calls["str.join"] == 1
    assert calls["dict.fromkeys"] == 1
    assert used["builtins.len"].groups == ("PYTHON_C",)
    assert used["builtins.len"].files[-1] is None


@pytest.mark.slow
def test_a_c_function_of_a_base_class_bears_the_base_classs_name(runner, native):
    trial = runner.run(C_CALLS, native, "--c-calls")
    assert trial.under("use", "Mine.append", "list.append").calls == 1


@pytest.mark.slow
def test_callbacks_stand_under_the_c_function_that_calls_them(runner, native):
    trial = runner.run(C_CALLS, native, "--c-calls")
    assert trial.under("use", "builtins.sorted", "key").calls == 3


@pytest.mark.slow
def test_a_c_function_that_raises_is_left(runner, native):
    trial = runner.run(
        """
def fail():
    for _ in range(3):
        try: int("x"); len(1)
        except (TypeError, ValueError): after()
        try: len(1)
        except TypeError: after()
def after(): pass
fail()
""",
        native,
        "--c-calls",
    )
    assert trial.under("<module>", "fail", "after").calls == 6
    assert trial.under("<module>", "fail", "builtins.len").subroutines == 0


@pytest.mark.slow
def test_what_is_excluded_counts_as_its_caller_and_its_callees_stay(runner, native):
    trial = runner.run(LAYERS, native, "--exclude", "two")
    assert trial.calls("prog.py") == {"<module>": 1, "one": 1, "three": 2, "four": 2}
    assert trial.under("<module>", "one", "three", "four").calls == 2


@pytest.mark.slow
def test_an_include_that_matches_nothing_is_reported(runner, native):
    trial = runner.run("def f(): pass\nf()\n", native, "--include", "g", "--include", "file:x*")
    assert trial.calls() == {".taupy application": 1} or not trial.calls()
    said = trial.metadata()["taupy.health.include"]
    assert said.startswith("no routine that ran matches --include g, file:x*: nothing was")


@pytest.mark.slow
def test_only_what_is_included_is_recorded(runner, native):
    trial = runner.run(LAYERS, native, "--include", "name:t*", "--include", "four")
    assert trial.calls() == {".taupy application": 1, "two": 1, "three": 2, "four": 2}
    assert trial.under("two", "three", "four").calls == 2


@pytest.mark.slow
def test_a_file_may_be_selected(runner, native):
    trial = runner.run(
        "import json\ndef f(): json.dumps([])\nf()\n", native, "--include", "file:*prog.py"
    )
    assert trial.calls() == {".taupy application": 1, "<module>": 1, "f": 1}


@pytest.mark.slow
def test_a_module_may_be_excluded(runner, native):
    source = "import json\ndef f(): return json.dumps([])\nf()\nf()\n"
    trial = runner.run(source, native, "--exclude", "module:json*")
    assert not [path for path in trial.paths() if path.files[-1] and "json/" in path.files[-1]]
    assert trial.calls("prog.py") == {"<module>": 1, "f": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (1, {"<module>": 1}),
        (3, {"<module>": 1, "one": 1, "two": 1}),
        (5, {"<module>": 1, "one": 1, "two": 1, "three": 2, "four": 2}),
    ],
)
def test_deeper_calls_count_as_their_caller(runner, native, depth, expected):
    assert runner.run(LAYERS, native, "--depth", str(depth)).calls("prog.py") == expected


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["--depth", "--max-callpaths"])
def test_the_plain_engine_measures_all_paths_and_says_so(runner, limit):
    trial = runner.run(LAYERS, "python", limit, "1")
    assert trial.calls("prog.py") == {"<module>": 1, "one": 1, "two": 1, "three": 2, "four": 2}
    assert limit in trial.metadata()["taupy.health.options"]


@pytest.mark.slow
def test_deep_recursion_under_a_depth_limit_comes_back_to_the_right_place(runner, native):
    trial = runner.run(
        "def down(n):\n  if n: down(n - 1)\n  else: return\ndef after(): pass\n"
        "for _ in range(3):\n  down(50); after()\n",
        native,
        "--depth",
        "4",
    )
    assert trial.under("<module>", "after").calls == 3
    assert trial.calls("prog.py") == {"<module>": 1, "down": 9, "after": 3}


@pytest.mark.slow
def test_a_throttled_routine_says_that_its_count_is_a_lower_bound(runner, native):
    trial = runner.run(
        "def tiny(): pass\ndef few(): tiny()\nfor _ in range(500): tiny()\n"
        "for _ in range(5): few()\n",
        native,
        "--throttle",
        "--throttle-calls",
        "100",
        "--throttle-usec",
        "1000",
    )
    calls = trial.calls("prog.py")
    assert calls == {"<module>": 1, "tiny": 101, "few": 5}
    assert "THROTTLED" in trial.under("<module>", "tiny").groups
    assert "THROTTLED" not in trial.under("<module>", "few").groups
    assert "tiny" in trial.metadata()["taupy.health.throttled"]


@pytest.mark.slow
def test_a_routine_that_takes_its_time_is_not_throttled(runner, native):
    trial = runner.run(
        "import time\ndef slow(): time.sleep(0.002)\nfor _ in range(30): slow()\n",
        native,
        "--throttle",
        "--throttle-calls",
        "10",
        "--throttle-usec",
        "100",
    )
    assert trial.calls("prog.py")["slow"] == 30
    assert "taupy.health.throttled" not in trial.metadata()


@pytest.mark.slow
def test_an_open_recursion_is_not_throttled(runner, native):
    trial = runner.run(
        "def down(n):\n  if n: down(n - 1)\ndown(300)\n",
        native,
        "--throttle",
        "--throttle-calls",
        "10",
        "--throttle-usec",
        "1000000",
    )
    assert trial.calls("prog.py")["down"] == 301


@pytest.mark.slow
def test_call_paths_beyond_the_limit_are_reported(runner, native):
    trial = runner.run(
        "def down(n):\n  if n: down(n - 1)\ndown(300)\ndef after(): pass\n",
        native,
        "--max-callpaths",
        "100",
    )
    assert len(trial.paths()) <= 101
    assert "call paths" in trial.metadata()["taupy.health.callpaths"]
