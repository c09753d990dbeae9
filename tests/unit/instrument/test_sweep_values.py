"""What --sweep asks for: values, their product, and where they go."""

from __future__ import annotations

import pytest

from taupy.errors import UsageError
from taupy.instrument.sweep import parameters, settings


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16,32, 64", ["16", "32", "64"]),
        ("1..4", ["1", "2", "3", "4"]),
        ("3..1", ["3", "2", "1"]),
        ("-1..1", ["-1", "0", "1"]),
        ("2^0..2^6", ["1", "2", "4", "8", "16", "32", "64"]),
        ("10^3..10^2", ["1000", "100"]),
        ("1..2,2^3..2^4,x", ["1", "2", "8", "16", "x"]),
        ("0.5,1e-3", ["0.5", "1e-3"]),
        ("a=b,c", ["a=b", "c"]),
        ("1...3", ["1...3"]),
        ("../data,..", ["../data", ".."]),
    ],
)
def test_values_are_spelled_out(text, values):
    (parameter,) = parameters([f"n={text}"], ["{n}"])
    assert list(parameter.values) == values


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["n"], "NAME=VALUE"),
        (["=1"], "NAME=VALUE"),
        (["n="], "empty value"),
        (["n=1,,2"], "empty value"),
        (["n=1,1"], "has 1 twice"),
        (["n=1..3,2"], "has 2 twice"),
        (["n=1", "n=2"], "is given twice"),
        (["m=1"], r"no argument of the program contains \{m\}"),
        (["n=2^1..3^4"], "two bases"),
        (["n=2^1..2^9999"], "too large"),
        (["n=1..99999999999999999"], "more than 10000 values"),
        (["n=1..200", "env:k=1..200"], "40000 runs"),
    ],
)
def test_what_cannot_be_swept_is_refused(texts, words):
    with pytest.raises(UsageError, match=words):
        parameters(texts, ["{n}"])


def test_the_product_varies_the_last_parameter_fastest():
    swept = parameters(["a=1,2", "env:b=x,y"], ["{a}"])
    assert [setting.metadata for setting in settings(swept)] == [
        {"a": "1", "b": "x"},
        {"a": "1", "b": "y"},
        {"a": "2", "b": "x"},
        {"a": "2", "b": "y"},
    ]
    assert settings(swept)[1].environment == {"b": "y"}
    assert [str(setting) for setting in settings([])] == [""]


def test_only_the_named_braces_are_replaced():
    swept = parameters(["n=7", "m.x={n}"], ["{n}", "{m.x}"])
    (setting,) = settings(swept)
    given = ["s.py", "--n={n}", "{m.x}{n}", "{other}", "{}", "{{n}}", "{'n': {n}}", "{N}", "n"]
    assert setting.arguments(given) == [
        "s.py",
        "--n=7",
        "{n}7",  # a value is not looked through again
        "{other}",
        "{}",
        "{7}",
        "{'n': 7}",
        "{N}",
        "n",
    ]
