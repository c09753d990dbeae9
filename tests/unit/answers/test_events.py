import math

from taupy.answers import events
from taupy.model.rows import EventRow
from taupy.model.sampled import PEAK, RESIDENT
from tests.unit.pprof.build import thread

THREADS = [thread(), thread(0, 0, 1, "worker")]


def event(name, count, low, high, mean, stddev, *, callpath=None, unit="", number=0):
    return EventRow(0, 0, number, name, unit, callpath, count, low, high, mean, stddev)


def test_every_thread_with_events_has_a_table():
    made = events.by_thread([event("loss", 2, 1.0, 3.0, 2.0, 1.0, number=1)], THREADS)
    assert list(made) == [(0, 0, 1)]
    view = made[0, 0, 1]
    assert view.title == "USER EVENTS Profile :NODE 0, CONTEXT 0, THREAD 1"
    assert view.rows == [
        ("event", 0, 0, 1, "worker", 2, 3.0, 1.0, 2.0, 1.0, "loss", "loss", "", None)
    ]


def test_events_of_other_threads_and_other_names_are_left_out():
    rows = [event("loss", 1, 0, 0, 0, 0), event("bytes", 1, 0, 0, 0, 0)]
    made = events.by_thread(rows, THREADS)
    assert [line[-3] for line in made[0, 0, 0].rows] == ["loss", "bytes"]
    assert events.by_thread(rows, THREADS[1:]) == {}


def test_an_event_is_named_with_its_unit_and_the_end_of_its_call_path():
    spelled = [
        events.row_name(event("heap", 1, 0, 0, 0, 0, unit="KiB", callpath=path))
        for path in (None, "a => b => c", "a => b => c => d")
    ]
    assert spelled == ["heap (KiB)", "heap (KiB) : a => b => c", "heap (KiB) : ... => b => c => d"]


def test_over_call_paths_the_spread_is_that_of_all_values():
    # 1, 3 in one place and 10 in another: mean 14/3, squares 1 + 9 + 100.
    rows = [
        event("loss", 2, 1.0, 3.0, 2.0, 1.0, callpath="a"),
        event("loss", 1, 10.0, 10.0, 10.0, 0.0, callpath="b"),
        event("loss", 0, 0.0, 0.0, 0.0, 0.0, callpath="c"),
        event("loss", 1, 7.0, 7.0, 7.0, 0.0, number=1),
    ]
    first, second = events.over_callpaths(rows)
    assert (first.count, first.minimum, first.maximum, first.callpath) == (3, 1.0, 10.0, None)
    assert math.isclose(first.mean, 14 / 3)
    assert math.isclose(first.stddev, math.sqrt(110 / 3 - (14 / 3) ** 2))
    assert second == rows[3]


def test_what_is_of_a_process_stands_at_its_first_thread_once():
    rows = [
        event(RESIDENT, 2, 10.0, 30.0, 20.0, 10.0, callpath="a"),
        event(RESIDENT, 1, 50.0, 50.0, 50.0, 0.0, number=1),
        event(PEAK, 1, 60.0, 60.0, 60.0, 0.0, callpath="a => b"),
        event(PEAK, 1, 61.0, 61.0, 61.0, 0.0, callpath="c", number=1),
        event("loss", 1, 7.0, 7.0, 7.0, 0.0, number=1),
    ]
    made = {(row.thread, row.event): row for row in events.over_callpaths(rows)}
    assert {*made} == {(0, RESIDENT), (0, PEAK), (1, "loss")}
    assert (made[0, RESIDENT].count, made[0, RESIDENT].maximum) == (3, 50)
    assert math.isclose(made[0, RESIDENT].mean, 30)
    assert (made[0, PEAK].count, made[0, PEAK].maximum) == (1, 61)
