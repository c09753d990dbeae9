"""Conditions of --fail-on: how they are written, and what comes of them."""

from __future__ import annotations

import pytest

from taupy.errors import UsageError
from taupy.study.conditions import FAILED, UNDECIDED, RowRuns, judged, outcome, parse

BASE = (100.0, 101.0, 99.0, 100.5, 99.5)


def times(factor, runs=5):
    return tuple(value * factor for value in BASE[:runs])


def verdicts(text, rows, unit="ns", **more):
    return {one.name: one.verdict for one in judged(parse(text), rows, unit, **more)}


# --- the grammar ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time > +5%", {"metric": "time", "scope": "all", "amount": 0.05, "percent": True}),
        ("time>5%", {"metric": "time", "amount": 0.05, "change": True}),
        ("total time > +5%", {"scope": "total"}),
        ("each time > +5%", {"scope": "each"}),
        ("time of Net.forward > +5%", {"pattern": "Net.forward", "scope": "each", "value": None}),
        ("exclusive time of *gemm* > 1e1%", {"value": "exclusive", "amount": 0.1}),
        ("flop_tensor < -5%", {"rises": False, "amount": -0.05}),
        ("calls of load > +0", {"metric": "calls", "change": True, "percent": False}),
        ("time of step > 20 ms", {"change": False, "unit": "ms", "amount": 20.0}),
        ("time of step > +.5s", {"change": True, "unit": "s", "amount": 0.5}),
        ('"PAPI L2" of "a > b" > +1%', {"metric": "PAPI L2", "pattern": "a > b"}),
        ("warps/inst of sconv > +3%", {"metric": "warps/inst", "pattern": "sconv"}),
        ("time of /^a|b$/ > +3%", {"pattern": "/^a|b$/"}),
        ("time of f > +3%", {"of_event": False, "counted": False}),
        ("maximum of Resident Memory > +10%", {"of_event": True, "pattern": "Resident Memory"}),
        ("samples of loss > +0", {"of_event": True, "counted": True}),
        ('"sum" of f > +5%', {"of_event": False, "metric": "sum"}),
    ],
)
def test_a_condition_is_read(text, expected):
    condition = parse(text)
    assert {name: getattr(condition, name) for name in expected} == expected


@pytest.mark.parametrize(
    "text",
    ["", "time", "time > ", "> +5%", "time = 5%", "time > five", "time > +5% or so", "of f > 5%"],
)
def test_what_is_no_condition_says_how_one_is_written(text):
    with pytest.raises(UsageError, match="'time > \\+5%', 'time of forward > \\+2 ms'"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "better"), [("time > -5%", r"write > \+5%"), ("flop < +2", "write < -2")]
)
def test_a_change_in_the_wrong_direction_is_refused(text, better):
    with pytest.raises(UsageError, match=better):
        parse(text)


def test_the_total_is_of_no_routine():
    with pytest.raises(UsageError, match="use either `total` or a routine"):
        parse("total time of f > 5%")


@pytest.mark.parametrize("text", ["duration of f > +5%", "inclusive duration > 5%"])
def test_a_duration_is_of_no_routine(text):
    with pytest.raises(UsageError, match="only trials have a duration"):
        parse(text)


def test_user_events_are_neither_inclusive_nor_exclusive():
    with pytest.raises(UsageError, match="remove 'inclusive'"):
        parse("inclusive mean of loss > +5%")


def test_amounts_in_units():
    assert parse("maximum of memory > +2 MiB").in_unit("KiB") == 2048
    assert parse("mean of wait > 5 ms").in_unit("s") == 0.005
    assert parse("mean of loss > 0.5").in_unit("nat") == 0.5
    assert parse("time > +2 ms").in_unit("ns") == 2e6
    assert parse("bytes_dram > +1 GiB").in_unit("B") == 2**30
    assert parse("inst > +7").in_unit("inst") == 7
    assert parse("inst > +7 inst").in_unit("inst") == 7
    assert parse("time > +0").in_unit("ns") == 0
    for text in ("time > +2", "time > +2 kg"):
        with pytest.raises(UsageError, match="time is in ns, us, ms, s, min, %"):
            parse(text).in_unit("ns")


# --- verdicts ------------------------------------------------------------------


def test_an_interval_wholly_beyond_the_limit_fails_and_one_wholly_within_passes():
    rows = [
        RowRuns("same", BASE, times(1.001)),
        RowRuns("slower", BASE, times(1.2)),
        RowRuns("faster", BASE, times(0.8)),
        RowRuns("a little slower", BASE, times(1.02)),
        RowRuns("at the limit", BASE, times(1.05)),
    ]
    assert verdicts("time > +5%", rows) == {
        "same": "passes",
        "slower": "fails",
        "faster": "passes",
        "a little slower": "passes",
        "at the limit": "undecided",
    }
    assert verdicts("time < -5%", rows)["faster"] == "fails"
    rulings = judged(parse("time > +5%"), rows, "ns")
    assert rulings[0].name == "slower"  # what fails comes first
    assert rulings[0].change == pytest.approx(0.2)
    assert rulings[0].interval.low > 1.1


def test_a_limit_within_the_interval_is_undecided():
    rows = [RowRuns("noisy", (50.0, 200, 90, 150, 80), (60.0, 90, 220, 160, 140))]
    (ruling,) = judged(parse("time > +5%"), rows, "ns")
    assert ruling.second > ruling.first * 1.05
    assert ruling.interval.low < 1.05 < ruling.interval.high
    assert (ruling.verdict, ruling.why) == (
        "undecided",
        "the limit is inside the interval; more runs narrow it",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time > +2 ms", "fails"),
        ("time > +4 ms", "passes"),
        ("time > +3 ms", "undecided"),
        ("time < -1 ms", "passes"),
    ],
)
def test_a_change_in_the_metrics_own_unit_is_judged_by_its_interval(text, expected):
    # The differences of all pairs lie from 2.8 to 3.2 ms.
    first = tuple(10e6 + 0.05e6 * run for run in range(5))
    rows = [RowRuns("f", first, tuple(value + 3e6 for value in first))]
    assert verdicts(text, rows) == {"f": expected}


def test_a_row_of_zeros_is_judged_by_its_difference():
    rows = [RowRuns("f", (0.0,) * 5, (0.0, 1e6, 2e6, 1e6, 2e6))]
    (ruling,) = judged(parse("time > +5%"), rows, "ns")
    assert (ruling.verdict, ruling.interval, ruling.change) == ("undecided", None, None)
    rows = [RowRuns("f", (0.0,) * 5, tuple(map(float, range(10, 15))))]
    assert verdicts("time > +5%", rows) == {"f": "fails"}


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_too_few_runs_are_undecided_whatever_they_show(runs):
    rows = [RowRuns("f", times(1, runs), times(9, runs))]
    (ruling,) = judged(parse("time > +5%"), rows, "ns")
    assert ruling.verdict == "undecided"
    assert f"the smallest achievable p-value of {runs} against {runs} is" in ruling.why
    assert "make 5 per side" in ruling.why


def test_counts_on_which_all_runs_agree_need_no_repetition():
    rows = [RowRuns("f", (7.0,), (8.0,)), RowRuns("g", (7.0,), (7.0,))]
    assert verdicts("calls > +0", rows, "call") == {"f": "fails", "g": "passes"}
    assert verdicts("calls > +20%", rows, "call") == {"f": "passes", "g": "passes"}


def test_counts_that_vary_are_tested_like_times():
    rows = [RowRuns("f", (7.0, 9.0), (8.0, 11.0))]
    assert verdicts("calls > +0", rows, "call") == {"f": "undecided"}


def test_a_limit_on_the_value_itself_needs_no_baseline():
    rows = [RowRuns("f", (1.0,), (25e6,)), RowRuns("g", (99e6,), (19e6,))]
    assert verdicts("time > 20 ms", rows) == {"f": "fails", "g": "passes"}


def test_several_conditions_share_the_chance_of_a_false_alarm():
    rows = [RowRuns("f", BASE, times(1.2))]  # p = 0.0079
    assert verdicts("time > +5%", rows, families=6) == {"f": "fails"}
    (ruling,) = judged(parse("time > +5%"), rows, "ns", families=7)
    assert ruling.verdict == "undecided"  # 0.05 / 7 is out of reach of five runs per side
    assert "make 6 per side" in ruling.why


def test_the_exit_code():
    good = judged(parse("time > +5%"), [RowRuns("f", BASE, BASE)], "ns")
    bad = judged(parse("time > +5%"), [RowRuns("f", BASE, times(2))], "ns")
    open_ = judged(parse("time > +5%"), [RowRuns("f", BASE[:1], BASE[:1])], "ns")
    assert outcome(good) == 0
    assert outcome(good + open_) == UNDECIDED == 4
    assert outcome(good + open_ + bad) == FAILED == 3


@pytest.mark.slow
def test_a_thousand_comparisons_of_a_program_with_itself():
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(11)
    condition = parse("time > +0%")  # so that nothing but the test holds alarms back
    alarms = 0
    for _ in range(1000):
        times = numpy.exp(random.normal(0, 0.03, (40, 10)) + random.normal(0, 0.02, (1, 10)))
        times *= numpy.where(random.random((40, 10)) < 0.3, 1.1, 1.0)  # two speeds
        rows = [RowRuns(f"r{at}", tuple(row[:5]), tuple(row[5:])) for at, row in enumerate(times)]
        alarms += any(one.verdict == "fails" for one in judged(condition, rows, "ns"))
    # 5 % were promised: 50, and three standard deviations of chance. Slower ones are about half.
    assert alarms <= 50 + 3 * (1000 * 0.05 * 0.95) ** 0.5
    assert alarms > 5  # the test is not asleep
