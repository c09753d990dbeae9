"""Records: what was written is read back, and nothing else is read at all."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.state.shape import fits
from taupy.state.values import MAGIC, Damaged, dumps, loads
from tests.fuzz.mutations import mutated

INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)
TEXTS = st.text(st.characters(exclude_categories=()))
PLAIN = st.one_of(
    st.none(), st.booleans(), INTEGERS, st.floats(allow_nan=False), TEXTS, st.binary()
)
VALUES = st.recursive(
    st.one_of(PLAIN, st.lists(INTEGERS), st.lists(TEXTS)),
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(TEXTS, inner),
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(VALUES)
def test_what_was_written_is_read_back(value):
    assert loads(dumps(value)) == value


def test_the_layout_is_what_the_docstring_says():
    value = {"a": [1, -2], "é": ["x", ""], "b": (None, True, 2.5, b"\0", 7)}
    assert dumps(value) == (
        MAGIC + b"m3:s1:a" + b"c5:1, -2s2:\xc3\xa9" + b"xc4:1, 0s1:xs1:b" + b"u5:ntd2.5;b1:\0i7;"
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "does not begin with TAUPYVAL1"),
        (b"{0", "does not begin"),  # what marshal wrote
        (MAGIC, "no value at byte 10|no number"),
        (MAGIC + b"n!", "continues after its end"),
        (MAGIC + b"i12", "no number"),
        (MAGIC + b"ix;", "invalid literal"),
        (MAGIC + b"i99999999999999999999;", "more than 64 bits"),
        (MAGIC + b"i" + b"9" * 5000 + b";", "no number"),
        (MAGIC + b"s5:abc", "5 do not fit"),
        (MAGIC + b"s-1:abc", "-1 do not fit"),
        (MAGIC + b"s1:\xff", "can't decode"),
        (MAGIC + b"l999999999:", "999999999 do not fit"),
        (MAGIC + b"u1000000000000:", "do not fit"),
        (MAGIC + b"l1:" * 17 + b"n", "more than 16 nested values"),
        (MAGIC + b"x" * 100_000, "more than 16 nested values"),
        (MAGIC + b"m1:i1;n", "a key that is not a text"),
        (MAGIC + b"m2:s1:ans1:an", "comes twice"),
        (MAGIC + b"xc4:2, 9s2:ab", "wrong lengths"),
        (MAGIC + b"xc5:3, -1s2:ab", "wrong lengths"),
        (MAGIC + b"xi1;s1:a", "no texts"),
        (MAGIC + b"c3:1,,", "invalid literal"),
        (MAGIC + b"z", "no number at byte 11|no value"),
    ],
)
def test_what_is_no_record_is_refused(data, words):
    with pytest.raises(Damaged, match=words):
        loads(data)


@pytest.mark.slow
def test_ten_thousand_damaged_records_are_values_or_damaged_and_take_little_memory():
    random = Random(1)
    sound = dumps({
        "columns": [list(range(50)), ["a", "bc"] * 10], "deep": [[[[(1, 2.5)]]]], "b": b"x" * 99,
    })  # fmt: skip
    tracemalloc.start()
    for _ in range(10_000):
        try:
            loads(mutated(sound, random))
        except Damaged:
            continue
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("value", [{1: 2}, object(), {"a": {1}}, 1j])
def test_what_a_record_cannot_hold_is_not_written(value):
    with pytest.raises(TypeError):
        dumps(value)


def test_records_and_folders_need_built_in_modules_only():
    source = (
        "import sys; before = set(sys.modules)\n"
        "import taupy.state.values, taupy.state.folder\n"
        "print(sorted(n for n in set(sys.modules) - before if not n.startswith('taupy')\n"
        "             and n not in sys.builtin_module_names))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{source}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("value", "hint", "answer"),
    [
        (1, int, True),
        (True, int, False),
        (1 << 63, int, False),
        (1, float, True),
        (float("inf"), float, False),
        ([1, 2], list[int], True),
        ([1, True], list[int], False),
        ([], list[int], True),
        (["a"], list[int], False),
        ({"a": 1}, dict[str, int], True),
        ({"a": "b"}, dict[str, int], False),
        ((1, "a"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        ([(1, "a")], list[tuple[int, str]], True),
        (None, int | None, True),
        ("a", int | None, False),
        (None, None, True),
    ],
)
def test_a_value_has_the_type_that_was_annotated(value, hint, answer):
    assert fits(value, hint) is answer


def test_replaced_built_ins_do_not_reach_a_record():
    source = """
import builtins, os
from taupy.state.values import dumps, loads
write, leave = os.write, os._exit
for name in ("len", "list", "map", "int", "type", "repr", "bytes", "isinstance", "set", "str"):
    setattr(builtins, name, None)
data = dumps({"a": [1, 2], "b": ["x"], "c": b"y", "d": 1})
write(1, b"same" if loads(data) == {"a": [1, 2], "b": ["x"], "c": b"y", "d": 1} else b"other")
leave(0)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("same", "")
