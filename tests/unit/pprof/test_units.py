import pytest

from taupy import units

US, MS, S = 1_000, 1_000_000, 1_000_000_000


@pytest.mark.parametrize(
    ("ns", "cell"),
    [
        (0, "0"),
        (44, "4.4E-05"),
        (447, "0.000447"),
        (218 * US, "0.218"),
        (90 * US, "0.09"),
        (999 * US, "0.999"),
        (999_900, "1"),  # three digits round it up to a whole ms
        (1 * MS, "1"),
        (34_076 * US, "34"),  # TAU cuts, it does not round
        (999_999_999, "999"),
        (1 * S, "1,000"),
        (1_234_567_890, "1,234"),
        (59_999_999_999, "59,999"),
        (61 * S + 4 * MS, "1:01.004"),
        (3_661 * S + 234 * MS, "1:01:01.234"),
        (100 * 3600 * S, "100:00:00.000"),
        (-34_076 * US, "-34"),
    ],
)
def test_a_time_cell_is_taus(ns, cell):
    assert units.tau_time(ns) == cell


@pytest.mark.parametrize(
    ("ns", "cell"),
    [(0, "0"), (442_000, "442"), (10_000, "10"), (1_777, "1.78"), (447, "0.447"), (9_999, "10")],
)
def test_a_short_time_per_call_keeps_its_digits(ns, cell):
    assert units.tau_per_call(ns) == cell


@pytest.mark.parametrize(
    ("value", "cell"),
    [(77824.0, "7.782E+04"), (6.02e23, "6.02E+23"), (0.1798869828571841, "0.1799"), (0, "0")],
)
def test_what_is_no_time_has_four_digits_as_in_tau(value, cell):
    assert units.tau_count(value) == cell


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (417, "417 ns"),
        (999, "999 ns"),
        (1_000, "1.00 us"),
        (999_600, "1.00 ms"),
        (1_234_000, "1.23 ms"),
        (12_340_000, "12.3 ms"),
        (59_940_000_000, "59.9 s"),
        (59_960_000_000, "1 min 00 s"),
        (123 * S, "2 min 03 s"),
        (3_600 * S, "1 h 00 min"),
        (-1_234_000, "-1.23 ms"),
        (float("inf"), "inf"),
    ],
)
def test_a_duration_reads_in_its_own_unit(ns, text):
    assert units.duration(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1024**2 - 1, "1.0 MiB"),
     (3 * 1024**5, "3.0 PiB"), (2048 * 1024**5, "2048.0 PiB"), (-512, "-512 B")],
)  # fmt: skip
def test_a_size_reads_in_its_own_unit(count, text):
    assert units.size(count) == text


def test_whole_numbers_have_no_point_and_others_six_digits():
    assert [units.number(value) for value in (2.0, 0.5, 1 / 3, 1e20)] == [
        "2",
        "0.5",
        "0.333333",
        "1e+20",
    ]
    assert units.count(1234567) == "1,234,567"
    assert units.percent(12.34) == "12.3"
    assert units.milliseconds(40_229_000_001) == "40229.000001"


@pytest.mark.parametrize(("value", "text"), [(0, "0 trials"), (1, "1 trial"), (12, "12 trials")])
def test_so_many_of_something(value, text):
    assert units.several(value, "trial") == text


def test_one_thing_has_the_verb_of_one():
    said = [f"{units.several(n, 'launch')} {units.verb(n, 'were')} lost" for n in (0, 1, 2)]
    assert said == ["0 launches were lost", "1 launch was lost", "2 launches were lost"]
    assert [units.verb(1, plural) for plural in ("are", "have")] == ["is", "has"]
