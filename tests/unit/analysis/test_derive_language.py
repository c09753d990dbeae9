"""The language of derived metrics: what it understands, and its units."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.errors import UsageError
from taupy.model import dimension
from taupy.model.dimension import Dimension
from taupy.model.expression import (
    DEEPEST,
    LONGEST,
    Binary,
    Function,
    Name,
    Number,
    names,
    parse,
    written,
)
from taupy.model.formula import bound, degree
from taupy.model.table import Column, Table

UNITS = {
    "warps": "warp",
    "inst": "inst",
    "other_inst": "inst",
    "cycles": "cycle",
    "time": "ns",
    "wall": "us",
    "flop": "flop",
    "bytes": "B",
    "kib": "KiB",
    "share": "%",
}


def value(text, **values):
    return of_formula(bound(parse(text), UNITS), **values)


def of_formula(formula, **values):
    """The formula's value; None where what it needs was not measured."""
    columns = {}
    for one in formula.sums:
        there = [name for name in one.metrics if values.get(name, math.nan) == values.get(name)]
        there = there[:1] if one.function == "first" else there
        summed = sum(values[name] for name in there) if there else None
        columns[Column("exclusive", one.text, UNITS[one.metrics[0]])] = [summed]
    table = Table({}, {}, columns, 1)
    if not all(formula.is_measured(table, "exclusive")):
        return None if formula.sums else formula.evaluate(())
    return formula.values(table, "exclusive")[0]


# --- parsing -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("8 / 4 / 2", 1),
        ("8 - 4 - 2", 2),
        ("-2 * -3", 6),
        ("--2", 2),
        ("- (1 + 2)", -3),
        ("2e3 + .5", 2000.5),
        ("min(3, 1, 2) + max(3, 1, 2)", 4),
    ],
)
def test_arithmetic_is_as_everywhere(text, expected):
    assert value(text) == expected


def test_names_may_be_anything_in_quotes():
    node = parse('"CUDA.Tesla_P100-PCIE-16GB.domain_d.inst" / dram__bytes.sum')
    assert list(names(node)) == ["CUDA.Tesla_P100-PCIE-16GB.domain_d.inst", "dram__bytes.sum"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "at character 1 is the end"),
        ("a +", "at character 4 is the end instead of a metric"),
        ("a + * b", "at character 5 is '*'"),
        ("a b", "at character 3 is 'b' instead of an operator"),
        ("(a", "instead of )"),
        ("a)", "at character 2 is ')'"),
        ("3x", "at character 1 is '3'"),
        ("1e999", "a computer can hold"),
        ("a ** b", "at character 4 is '*'"),
        ("__import__('os')", "no function '__import__'"),
        ("exec(a)", "no function 'exec' in expressions (known: min, max, sum, first)"),
        ("sum(a, 1)", "sum() takes metrics only"),
        ("min()", "is ')'"),
        ("a; b", "is ';'"),
    ],
)
def test_what_is_no_expression_is_refused_where_it_goes_wrong(text, part):
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert part in str(refused.value)
    assert "\n" not in str(refused.value)


def test_expressions_have_limits_and_no_traceback():
    for text in ("(" * (DEEPEST + 1) + "a" + ")" * (DEEPEST + 1), "a" * (LONGEST + 1)):
        with pytest.raises(UsageError, match="at most"):
            parse(text)
    deepest = "(" * (DEEPEST - 1) + "a" + ")" * (DEEPEST - 1)
    assert parse(deepest) == Name("a")


NODES = st.recursive(
    st.sampled_from(["a", "b.sum", "x-y", "min"]).map(Name)
    | st.floats(0, 1e12, allow_nan=False).map(Number)
    | st.just(Number(32.0, "B/sector")),
    lambda inner: (
        st.builds(Binary, st.sampled_from("+-*/"), inner, inner)
        | st.builds(Function, st.sampled_from(["min", "max"]), st.tuples(inner, inner))
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(NODES)
def test_an_expression_that_is_written_down_is_read_as_the_same(node):
    assert parse(written(node)) == node


# --- units -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("warps / inst", "warp/inst"),
        ("flop / time", "flop/s"),
        ("flop / bytes", "flop/B"),
        ("inst / other_inst", "ratio"),
        ("time * warps / inst", "ns*warp/inst"),
        ("time + wall", "ns"),
        ("cycles / time", "cycle/s"),
        ("time / time", "ratio"),
        ("1 / time", "1/s"),
        ("1 / time / time", "1/s^2"),
        ("512[flop/inst] * inst", "flop"),
        ("inst * inst / warps", "inst^2/warp"),
        ("kib + bytes", "B"),
        ("share", "ratio"),
        ("min(time, wall)", "ns"),
        ("sum(inst, other_inst)", "inst"),
    ],
)
def test_units_are_carried(text, unit):
    assert bound(parse(text), UNITS).unit == unit


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("warps + inst", "'warps + inst' mixes units: warps is in warp, inst in inst"),
        ("inst - 1", "inst is in inst, 1 in ratio"),
        ("max(time, flop)", "time is in ns, flop in flop"),
        ("sum(inst, warps)", "inst is in inst, warps in warp"),
        ("flop / (time + cycles)", "'time + cycles' mixes units"),
    ],
)
def test_different_units_do_not_add(text, part):
    with pytest.raises(UsageError) as refused:
        bound(parse(text), UNITS)
    assert part in str(refused.value)


def test_a_rate_is_per_second_and_times_of_several_units_go_together():
    assert value("flop / time", flop=4e6, time=5000) == 8e11  # 5 us
    assert value("time + wall", time=500, wall=2) == 2500
    assert value("kib + bytes", kib=2, bytes=1) == 2049
    assert value("share * time", share=50, time=10) == 5


def test_a_wanted_unit_is_reached_or_refused():
    formula = bound(parse("time / flop"), UNITS, "us/flop")
    assert (formula.unit, of_formula(formula, time=3000, flop=2)) == ("us/flop", 1.5)
    with pytest.raises(UsageError, match="not in flop"):
        bound(parse("time"), UNITS, "flop")


@pytest.mark.parametrize("text", ["weird unit!", "a//b", "/s", "x^0", "ÄÖ"])
def test_a_unit_that_cannot_be_taken_apart_is_one_word(text):
    assert dimension.dimension(text) == Dimension(((text, 1),))


@given(
    st.dictionaries(
        st.sampled_from(["inst", "warp", "B", "ns", "flop"]),
        st.sampled_from([-2, -1, 1, 2]),
        max_size=4,
    )
)
def test_a_unit_that_is_spelled_means_the_same(powers):
    found = Dimension(tuple(sorted(powers.items())))
    text, factor = dimension.spelled(found)
    again = dimension.dimension(text)
    assert again.powers == found.powers
    assert math.isclose(again.scale * factor, 1)


# --- values ------------------------------------------------------------------


def test_division_by_zero_gives_no_number():
    assert math.isnan(value("warps / inst", warps=5, inst=0))
    assert math.isnan(value("warps / (inst - other_inst)", warps=5, inst=3, other_inst=3))
    assert math.isnan(value("1e300 * inst * inst", inst=1e300))


def test_what_was_not_measured_is_absent_and_not_zero():
    assert value("warps / inst", warps=5) is None
    assert value("warps / inst", warps=5, inst=math.nan) is None
    assert value("sum(inst, other_inst)", inst=5) == 5
    assert value("sum(inst, other_inst)", inst=5, other_inst=2) == 7
    assert value("sum(inst, other_inst)") is None
    assert value("first(inst, other_inst)", other_inst=2) == 2
    assert value("first(inst, other_inst)", inst=0, other_inst=2) == 0


@pytest.mark.parametrize(
    ("text", "additive", "grows"),
    [
        ("inst", True, 1),
        ("2 * inst + other_inst / 4", True, 1),
        ("sum(inst, other_inst)", True, 1),
        ("warps / inst", False, 0),
        ("warps / inst * time", False, 1),
        ("inst * inst", False, 2),
        ("inst + warps / cycles", False, None),
        ("max(inst, other_inst)", False, 1),
        ("min(inst)", True, 1),
        ("5", False, 0),
    ],
)
def test_sums_are_distinguished_from_ratios(text, additive, grows):
    units = dict.fromkeys(UNITS, "inst")
    assert degree(parse(text)) == grows
    if "+ warps" not in text:
        assert bound(parse(text), units).additive == additive


def table(**columns):
    """Sums of metrics, a row each; None where nothing was measured."""
    (size,) = {len(column) for column in columns.values()}
    named = {Column("exclusive", name, UNITS[name]): sums for name, sums in columns.items()}
    return Table({"row": range(size)}, {"row": range(size)}, named, size)


def test_ratios_add_up_by_their_sums():
    formula = bound(parse("warps / inst"), UNITS)
    sums = table(warps=[1, None, 30, 4], inst=[2, 7, 10, 0])
    assert formula.values(sums, "exclusive")[::2] == [0.5, 3.0]
    assert formula.values(sums.taken([0, 2]).by(), "exclusive") == [31 / 12]  # not 3.5, not 1.75
    nothing, by_zero = formula.values(sums, "exclusive")[1::2]
    assert math.isnan(nothing) and math.isnan(by_zero)
    assert formula.is_measured(sums, "exclusive") == [True, False, True, True]
    assert formula.values(sums.taken([0, 3]).by(), "exclusive") == [2.5]  # (1 + 4) / 2


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 10**12)), min_size=1))
def test_a_sum_of_ratios_does_not_hang_on_the_order(parts):
    formula = bound(parse("warps / inst"), UNITS)
    warps, inst = zip(*parts, strict=True)
    (whole,) = formula.values(table(warps=warps, inst=inst).by(), "exclusive")
    assert whole == sum(warps) / sum(inst)
