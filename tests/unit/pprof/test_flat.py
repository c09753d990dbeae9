"""TAU's tables and summaries, with numbers worked out by hand.

Two threads, in milliseconds (exclusive / inclusive):

    main thread                       worker
      main   1 call    10 / 100         read   2 calls  30 / 40
      f     10 calls   30 / 90          f      2 calls  10 / 10
      g     20 calls   60 / 60
"""

import math
from dataclasses import replace

import pytest

from taupy.model.profile import TIME, Metric
from taupy.model.rows import ThreadRow
from taupy.pprof import flat
from taupy.pprof.figures import SORT_KEYS
from taupy.pprof.view import View
from tests.unit.pprof.build import answer, thread
from tests.unit.pprof.build import flat as row

MS = 1_000_000
THREADS = [thread(0, 0, 0, "MainThread"), thread(0, 0, 1)]
ROWS = [
    row("main", 1, 10, 10 * MS, 100 * MS),
    row("f", 10, 20, 30 * MS, 90 * MS),
    row("g", 20, 0, 60 * MS, 60 * MS, groups="PYTHON_C"),
    row("read", 2, 2, 30 * MS, 40 * MS, place=(0, 0, 1)),
    row("f", 2, 0, 10 * MS, 10 * MS, place=(0, 0, 1)),
]


def tables(rows=ROWS, threads=THREADS, metric=TIME, meant=None, **choice):
    """Title -> {timer: cells from %Time to Name}."""
    views = flat.views(answer(rows, metric), threads, flat.FlatOptions(**choice), meant)
    return {view.title: {line[11]: line[5:11] for line in view.rows} for view in views}


def names(rows=ROWS, threads=THREADS, **choice):
    view, *_ = flat.views(answer(rows), threads, flat.FlatOptions(**choice))
    return [line[11] for line in view.rows]


def test_every_thread_has_a_table_and_then_come_total_and_mean():
    assert list(tables()) == [
        "NODE 0;CONTEXT 0;THREAD 0: MainThread",
        "NODE 0;CONTEXT 0;THREAD 1:",
        "FUNCTION SUMMARY (total):",
        "FUNCTION SUMMARY (mean):",
    ]
    assert list(tables(ROWS[:3], THREADS[:1])) == ["NODE 0;CONTEXT 0;THREAD 0: MainThread"]
    assert list(tables(ROWS[:3], THREADS[:1], summary_only=True)) == [
        "FUNCTION SUMMARY (total):",
        "FUNCTION SUMMARY (mean):",
    ]
    assert list(tables(summaries=("max",)))[2:] == ["FUNCTION SUMMARY (max):"]


def test_shares_are_of_the_largest_inclusive_of_the_same_table():
    made = tables()
    assert made["NODE 0;CONTEXT 0;THREAD 0: MainThread"]["f"] == (
        90.0, 30 * MS, 90 * MS, 10, 20, 9 * MS
    )  # fmt: skip
    assert made["NODE 0;CONTEXT 0;THREAD 1:"]["f"] == (25.0, 10 * MS, 10 * MS, 2, 0, 5 * MS)
    assert made["FUNCTION SUMMARY (total):"]["f"] == (
        100.0, 40 * MS, 100 * MS, 12, 20, 100 * MS / 12
    )  # fmt: skip


def test_the_mean_divides_by_all_threads_also_those_without_the_routine():
    mean = tables()["FUNCTION SUMMARY (mean):"]
    assert mean["read"] == (40.0, 15 * MS, 20 * MS, 1, 1, 20 * MS)
    assert mean["main"] == (100.0, 5 * MS, 50 * MS, 0.5, 5, 100 * MS)


def test_least_most_and_deviation_over_threads():
    made = tables(summary_only=True, summaries=("min", "max", "stddev"))
    assert made["FUNCTION SUMMARY (min):"]["f"] == (100.0, 10 * MS, 10 * MS, 2, 0, 5 * MS)
    assert made["FUNCTION SUMMARY (min):"]["main"][:5] == (0.0, 0, 0, 0, 0)
    assert made["FUNCTION SUMMARY (max):"]["f"] == (90.0, 30 * MS, 90 * MS, 10, 20, 9 * MS)
    # f: 30 and 10 are each 10 from their mean, 90 and 10 are 40, 9 and 5 are 2.
    assert made["FUNCTION SUMMARY (stddev):"]["f"] == (
        None, 10 * MS, 40 * MS, 4, 10, 2 * MS
    )  # fmt: skip
    # main: 10 and 0.
    assert made["FUNCTION SUMMARY (stddev):"]["main"][1] == 5 * MS


def test_a_thread_that_was_not_measured_in_this_metric_does_not_count():
    stream = thread(0, 1, 7, kind="stream")
    made = tables(threads=[*THREADS, stream])
    assert "NODE 0;CONTEXT 1;THREAD 7:" not in made
    assert made["FUNCTION SUMMARY (mean):"]["main"][1] == 5 * MS


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("inclusive", ["main", "f", "g"]),
        ("exclusive", ["g", "f", "main"]),
        ("calls", ["g", "f", "main"]),
        ("subroutines", ["f", "main", "g"]),
        ("exclusive-per-call", ["main", "f", "g"]),  # 10, then 3 and 3: by name
        ("inclusive-per-call", ["main", "f", "g"]),  # 100, 9, 3
        ("stddev", ["g", "f", "main"]),  # 60 and 0: 30; 30 and 10: 10; 10 and 0: 5
        ("name", ["f", "g", "main"]),
    ],
)
def test_every_order_has_the_largest_first_and_ties_by_name(sort, order):
    assert sort in SORT_KEYS
    assert names(sort=sort) == order
    if sort != "exclusive-per-call":
        assert names(sort=sort, reverse=True) == order[::-1]
    else:
        assert names(sort=sort, reverse=True) == ["f", "g", "main"]


def test_the_default_order_is_taus():
    assert names() == ["main", "f", "g"]


def test_a_limit_sums_the_others_but_not_their_inclusive():
    made = tables(limit=1)
    assert made["NODE 0;CONTEXT 0;THREAD 0: MainThread"] == {
        "main": (100.0, 10 * MS, 100 * MS, 1, 10, 100 * MS),
        "-others-": (None, 90 * MS, None, 30, 20, None),
    }
    assert list(tables(limit=3)["NODE 0;CONTEXT 0;THREAD 0: MainThread"]) == ["main", "f", "g"]
    # Least values of different routines do not add up to anything.
    least = tables(limit=1, summary_only=True, summaries=("min",))
    assert list(least["FUNCTION SUMMARY (min):"]) == ["f"]
    assert list(tables(limit=0)["NODE 0;CONTEXT 0;THREAD 1:"]) == ["-others-"]


def test_a_filter_leaves_shares_of_the_whole():
    made = tables(meant=lambda line: "PYTHON_C" in line.groups)
    assert made["NODE 0;CONTEXT 0;THREAD 0: MainThread"] == {
        "g": (60.0, 60 * MS, 60 * MS, 20, 0, 3 * MS)
    }
    assert made["FUNCTION SUMMARY (total):"]["g"][0] == 60.0


def test_equal_names_at_different_places_are_never_summed():
    rows = [
        row("<module> [{a.py}{1}]", 1, 1, 1, 3),
        row("<module> [{b.py}{1}]", 1, 0, 2, 2),
    ]
    assert names(rows, THREADS[:1]) == ["<module> [{a.py}{1}]", "<module> [{b.py}{1}]"]


def test_a_value_that_is_no_number_stands_last_and_spoils_nothing_else():
    rows = [row("a", 1, 0, 1, math.nan), row("b", 1, 0, 2, 5), row("c", 0, 0, 0, 0)]
    made = tables(rows, THREADS[:1])["NODE 0;CONTEXT 0;THREAD 0: MainThread"]
    assert list(made) == ["b", "c", "a"]
    assert made["b"][0] == 100.0
    assert made["c"][5] is None


def test_the_metrics_unit_stands_above_and_in_the_names_of_columns():
    (view,) = flat.views(answer(ROWS[:3], Metric("bytes_dram", "byte")), THREADS[:1])
    columns = {column.name: column for column in view.columns}
    assert view.title == "NODE 0;CONTEXT 0;THREAD 0: MainThread (metric bytes_dram)"
    assert columns["exclusive_byte"].heading == "Exclusive\nbyte"
    assert columns["inclusive_byte_per_call"].kind == "tau_count"
    (view,) = flat.views(answer(ROWS[:3], Metric("PAPI", "")), THREADS[:1])
    assert {"exclusive", "inclusive_per_call"} <= {column.name for column in view.columns}
    (view,) = flat.views(answer(ROWS[:3]), THREADS[:1], flat.FlatOptions(plain=True))
    assert {column.kind for column in view.columns if column.name == "exclusive_ns"} == {
        "milliseconds"
    }


def test_user_events_stand_under_their_threads_table():
    events = {(0, 0, 1): View("USER EVENTS", [], [])}
    made = flat.views(answer(ROWS), THREADS, flat.FlatOptions(), None, events)
    assert [view.title for view in made][:4] == [
        "NODE 0;CONTEXT 0;THREAD 0: MainThread",
        "NODE 0;CONTEXT 0;THREAD 1:",
        "USER EVENTS",
        "FUNCTION SUMMARY (total):",
    ]


def test_all_routines_are_listed_once_by_name():
    view = flat.names(ROWS, None)
    assert view.title == "4 ROUTINES:"
    assert [line[0] for line in view.rows] == ["f", "g", "main", "read"]
    assert [line[0] for line in flat.names(ROWS, lambda line: line.timer == "g").rows] == ["g"]


def test_of_many_routines_only_those_shown_have_a_mean_and_none_a_sum_of_one(monkeypatch):
    rows = [row(f"f{n:03}", n, 0, n * MS, n * MS) for n in range(1, 301)]
    mean, shown, summed = flat._Over.mean, [], []
    monkeypatch.setattr(
        flat._Over, "mean", lambda self, total: shown.append(1) or mean(self, total)
    )
    monkeypatch.setattr(flat._Over, "_value", lambda *arguments: summed.append(1))
    made = tables(rows, THREADS[:1], summary_only=True, limit=2)["FUNCTION SUMMARY (mean):"]
    assert [*made] == ["f300", "f299", "-others-"]
    assert made["-others-"][1] == sum(range(299)) * MS
    assert (len(shown), summed) == (3, [])


@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("sort", SORT_KEYS)
def test_a_limit_shows_the_first_of_all_that_would_be_shown(sort, reverse):
    rows = [row(f"f{n:02}", n % 3, n % 5, n % 4 * MS, n % 7 * MS) for n in range(40)]
    listed = names(rows, THREADS[:1], sort=sort, reverse=reverse)
    assert names(rows, THREADS[:1], sort=sort, reverse=reverse, limit=9) == [
        *listed[:9],
        "-others-",
    ]


class _Ids:
    """Names of timers by number, noted when they are asked for."""

    def __init__(self, timers):
        self.of_id, self.asked = timers, []

    def timers(self, ids):
        self.asked += ids
        return [self.of_id[id] for id in ids]

    def alike(self, ids):
        return [self.of_id[id].timer for id in ids]


@pytest.mark.parametrize("summary_only", (False, True))
def test_only_routines_that_are_shown_are_named(summary_only):
    rows = [row(f"f{n:03}", n, 0, n * MS, n * MS) for n in range(300)]
    named = answer(rows)
    naming = _Ids(named.table.labels["timer"])
    numbers = {**named.table.labels, "timer": range(300)}
    numbered = replace(named, table=replace(named.table, labels=numbers))
    choice = flat.FlatOptions(limit=2, summary_only=summary_only)
    views = flat.views(numbered, THREADS[:1], choice, naming=naming)
    assert views == flat.views(named, THREADS[:1], choice)
    assert {*naming.asked} == {298, 299}


def test_equal_names_in_different_groups_are_one_routine_over_threads():
    """As they are where all names are known."""
    rows = [row("f", 1, 0, 5 * MS, 5 * MS), row("f", 2, 0, 7 * MS, 7 * MS, groups="PHASE")]
    assert tables(rows, THREADS[:1], summaries=("total",), limit=1) == {
        "NODE 0;CONTEXT 0;THREAD 0: MainThread": {
            "f": (100, 7 * MS, 7 * MS, 2, 0, 3.5 * MS),
            "-others-": (None, 5 * MS, None, 1, 0, None),
        },
        "FUNCTION SUMMARY (total):": {"f": (100, 12 * MS, 12 * MS, 3, 0, 4 * MS)},
    }


def test_threads_that_were_added_up_count_in_the_statistics_with_their_number():
    """Main took 10 ms; three took 60 ms, of which 45 in f."""
    several = ThreadRow(0, 0, 1, "host", "threads 2 to 4 of f", 3, 5 * MS, 40 * MS)
    main = thread(name="MainThread")
    rows = [
        row("main", 1, 0, 10 * MS, 10 * MS),
        row("main", 3, 3, 15 * MS, 60 * MS, place=(0, 0, 1)),
        row("f", 3, 0, 45 * MS, 45 * MS, place=(0, 0, 1)),
    ]
    of_rows = answer(rows)
    of_rows.table.labels["thread"][1] = several
    statistics = ("mean", "min", "max", "stddev")
    views = flat.views(of_rows, [main, several], flat.FlatOptions(summaries=statistics))
    _, sums, mean, least, most, spread = views
    assert sums.title == (
        "NODE 0;CONTEXT 0;THREAD 1: threads 2 to 4 of f (3 threads of 5.00 ms to 40.0 ms each)"
    )
    exclusive = {
        view.title: {line[11]: line[6] for line in view.rows}
        for view in (mean, least, most, spread)
    }
    assert exclusive == {
        "FUNCTION SUMMARY (mean):": {"main": 25 * MS / 4, "f": 45 * MS / 4},
        "FUNCTION SUMMARY (min):": {"main": 5 * MS, "f": 0},
        "FUNCTION SUMMARY (max):": {"main": 10 * MS, "f": 15 * MS},
        "FUNCTION SUMMARY (stddev):": pytest.approx(
            {"main": MS * (3 * 1.25**2 / 4 + 3.75**2 / 4) ** 0.5,
             "f": MS * (3 * 3.75**2 / 4 + 11.25**2 / 4) ** 0.5}
        ),
    }  # fmt: skip
