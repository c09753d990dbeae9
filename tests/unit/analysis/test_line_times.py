"""Sums of the times of lines and their errors, worked out by hand."""

import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from taupy.analysis.line_times import LineRow, estimates, place_of
from taupy.model.profile import LineTime
from taupy.model.rows import ThreadRow, TimerRow

MAIN = ThreadRow(0, 0, 0, "host", "MainThread")
OTHER = ThreadRow(0, 0, 1, "host", "other")
F = TimerRow("f [{p.py}{1}]", "f", "p.py", 1, "PYTHON")
LINE = LineTime(0, None, 2, 2, 0, 9, "cpu", 0, 0, 0, 0.0)


def row(line, looks, weights, time_ns, thread=MAIN, state="cpu", timer=F):
    seen, squares = sum(weights), float(sum(weight**2 for weight in weights))
    here = replace(
        LINE, line=line, state=state, looks=looks, time_ns=time_ns, seen_ns=seen, squares=squares
    )
    return LineRow(thread, timer, None, here)


def test_a_line_has_the_time_and_looks_of_all_its_rows_and_threads():
    rows = [
        row(2, 3, [10] * 3, 300), row(2, 1, [10], 100, state="wait"),
        row(2, 6, [10] * 6, 900, OTHER), row(3, 6, [10] * 6, 600),
    ]  # fmt: skip
    two, three = estimates(rows, place_of).values()
    assert (two.time_ns, two.looks, two.is_shown) == (1300, 10, True)
    assert (three.time_ns, three.looks, three.is_shown) == (600, 6, False)
    assert two.parts(lambda row: row.line.state) == [("cpu", 1200, 9), ("wait", 100, 1)]


def test_the_error_of_equal_looks_is_that_of_a_share():
    """40 of 100 looks, and one of each kind added: p = 41/102."""
    rows = [row(2, 40, [10] * 40, 400), row(3, 60, [10] * 60, 600)]
    two = estimates(rows, place_of)["p.py", 2]
    p = 41 / 102
    assert two.error_ns == pytest.approx(1000 * math.sqrt(p * (1 - p) / 102))


@pytest.mark.parametrize("threads", [1, 4])
def test_the_time_before_the_first_look_is_a_look_of_its_own(threads):
    """100 looks of 5 ns stand for 1000 ns: nobody has seen the half of it."""
    thread = MAIN._replace(threads=threads)
    rows = [row(2, 40, [5] * 40, 400, thread), row(3, 60, [5] * 60, 600, thread)]
    two = estimates(rows, place_of)["p.py", 2]
    p = 41 / 102
    variance = 1000**2 * p * (1 - p) / 102 + 500**2 * p * (1 - p) / threads
    assert two.error_ns == pytest.approx(math.sqrt(variance))


def test_a_line_that_had_all_looks_is_not_certain():
    (only,) = estimates([row(2, 20, [50] * 20, 1000)], place_of).values()
    assert 0 < only.error_ns < 100


def test_errors_of_threads_add_as_independent_ones_do():
    one = [row(2, 40, [10] * 40, 400), row(3, 60, [10] * 60, 600)]
    both = one + [LineRow(OTHER, *each[1:]) for each in one]
    single, double = (estimates(rows, place_of)["p.py", 2].error_ns for rows in (one, both))
    assert double == pytest.approx(math.sqrt(2) * single)


def test_the_error_is_that_of_looks_of_unequal_weights():
    """In a thousand samplings of a known program, at two rates, as many lie within two standard
    errors as a normal distribution has, 95.4 %: 930 is nearly four standard deviations below."""
    chance = random.Random(11)
    true, weights = 0.3, [1] * 200 + [4] * 150
    within = 0
    for _ in range(1000):
        mine = [chance.random() < true for _ in weights]
        seen = {
            hit: [w for w, at in zip(weights, mine, strict=True) if at == hit] for hit in (0, 1)
        }
        whole = sum(weights)
        rows = [row(2 + hit, len(ws), ws, sum(ws)) for hit, ws in seen.items()]
        found = estimates(rows, place_of)["p.py", 3]
        within += abs(found.time_ns - whole * true) <= 2 * found.error_ns
    assert 930 <= within <= 985, Counter(within=within)
