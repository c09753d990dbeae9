"""Which routines a pattern selects."""

from __future__ import annotations

import ctypes
import ctypes.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.instrument.selection import Selection, matches, problem

FORWARD = ("Net.forward", "/home/ann/mnist.py", 42, "__main__")
LEN = ("builtins.len", None, None, "builtins")


@pytest.mark.parametrize(
    ("pattern", "selects"),
    [
        ("Net.forward", True),
        ("Net.*", True),
        ("net.*", False),
        ("forward", False),
        ("mnist.py", True),
        ("/home/*", True),
        ("*{mnist.py}{42}]", False),
        ("Net.forward [[]{/home/ann/mnist.py}{42}]", True),
        ("name:Net.?orward", True),
        ("name:mnist.py", False),
        ("file:mnist.py", True),
        ("file:/home/*/mnist.py", True),
        ("file:Net.forward", False),
        ("module:__main__", True),
        ("module:numpy*", False),
    ],
)
def test_a_pattern_matches_by_its_kind(pattern, selects):
    assert Selection([pattern], []).selected(*FORWARD) is selects
    assert Selection([], [pattern]).selected(*FORWARD) is not selects


def test_without_patterns_everything_is_selected():
    assert Selection([], []).selected(*FORWARD)
    assert Selection([], []).selected(*LEN)


def test_what_is_excluded_is_out_even_if_it_is_included():
    selection = Selection(["file:mnist.py"], ["*.forward"])
    assert not selection.selected(*FORWARD)
    assert selection.selected("Net.backward", "/home/ann/mnist.py", 50, "__main__")
    assert not selection.selected("loads", "/usr/lib/python3.11/json/__init__.py", 1, "json")


def test_c_functions_are_selected_by_name_and_module():
    assert Selection(["builtins.*"], []).selected(*LEN)
    assert Selection(["module:builtins"], []).selected(*LEN)
    assert not Selection(["file:*.py"], []).selected(*LEN)


@pytest.mark.parametrize(
    ("glob", "text", "matched"),
    [
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("**a**", "bab", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[!a-c]x", "dx", True),
        ("[]]", "]", True),
        ("[a-]", "-", True),
        ("[", "[", True),
        ("a[b", "a[b", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("<listcomp>", "<listcomp>", True),
    ],
)
def test_globs(glob, text, matched):
    assert matches(glob, text) is matched


@given(st.text("ab*?[]!-", max_size=8), st.text("ab]-!", max_size=8))
def test_globs_mean_what_they_mean_to_the_compiled_engine(glob, text):
    libc = ctypes.CDLL(ctypes.util.find_library("c"))
    expected = libc.fnmatch(glob.encode(), text.encode(), 0) == 0
    assert matches(glob, text) is expected


def test_a_glob_of_many_stars_is_no_trap():
    assert not matches("*a" * 30 + "b", "a" * 2000)


@pytest.mark.parametrize(
    ("pattern", "word"),
    [("", "empty"), ("name:", "no glob"), ("fiel:x.py", "unknown kind")],
)
def test_a_useless_pattern_is_reported_with_a_remedy(pattern, word):
    assert word in problem(pattern)


@pytest.mark.parametrize("pattern", ["Net.*", "file:*.py", "<frozen importlib>:x", "C:/x"])
def test_good_patterns_have_no_problem(pattern):
    assert problem(pattern) is None
