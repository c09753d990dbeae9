"""The in-code API of a program that is not being profiled: nothing, quickly."""

from __future__ import annotations

import time

import pytest

import taupy
from taupy.instrument import annotate


def test_without_an_engine_nothing_is_active():
    assert annotate.active() is None
    assert taupy.timer_names() == []
    assert taupy.timer_values("anything") is None


def test_everything_can_be_used_and_does_nothing():
    with taupy.timer("t") as timer, taupy.phase("p", dynamic=True):
        timer.start()
        timer.stop()
    taupy.user_event("e", unit="B").sample("not even a number")
    taupy.user_event("e").trigger(1)
    taupy.metadata("k", object())
    taupy.snapshot("label")
    taupy.disable("USER")
    taupy.enable("USER")
    taupy.set_node(3)


def test_a_decorated_function_is_the_function_itself():
    def area(w, h):
        return w * h

    assert taupy.timer("area")(area) is area
    assert taupy.phase("area", dynamic=True)(area) is area


def test_exceptions_pass_through():
    with pytest.raises(KeyError), taupy.timer("t"):
        raise KeyError


async def coroutine():
    pass


def generator():
    yield


@pytest.mark.parametrize("function", [coroutine, generator, int, len, staticmethod(len)])
def test_what_one_timer_cannot_hold_is_refused(function):
    with pytest.raises(TypeError):
        taupy.timer("t")(function)


def test_a_negative_node_is_refused():
    with pytest.raises(ValueError, match="-1"):
        taupy.set_node(-1)


def test_a_timer_costs_no_more_than_a_few_calls():
    def loop(body) -> float:
        best = 1.0
        for _ in range(5):
            start = time.thread_time()
            for _ in range(10_000):
                body()
            best = min(best, time.thread_time() - start)
        return best

    def three_calls():
        abs(1), abs(2), abs(3)

    def timed():
        with taupy.timer("t"):
            pass

    assert loop(timed) < 12 * loop(three_calls)


class Engine:
    """Stands in for an engine, and notes what it is asked."""

    def __init__(self):
        self.asked = []

    def active(self):
        return True

    def __getattr__(self, name):
        return lambda *arguments: self.asked.append((name, *arguments))


@pytest.fixture
def engine(monkeypatch):
    engine = Engine()
    monkeypatch.setattr(annotate, "_engine", engine)
    monkeypatch.setattr(annotate, "_numbers", {})
    return engine


def test_a_dynamic_phase_inside_itself_leaves_in_the_right_order(engine):
    phase = annotate.phase("step", dynamic=True)
    with phase, phase:
        pass
    with annotate.phase("step", dynamic=True):
        pass
    assert engine.asked == [
        ("timer_enter", "step 1", "PHASE"),
        ("timer_enter", "step 2", "PHASE"),
        ("timer_leave", "step 2", "PHASE"),
        ("timer_leave", "step 1", "PHASE"),
        ("timer_enter", "step 3", "PHASE"),
        ("timer_leave", "step 3", "PHASE"),
    ]


def test_names_that_no_file_can_hold_are_escaped(engine):
    annotate.timer("a\0b\udc80").start()
    annotate.metadata(5, None)
    assert engine.asked == [
        ("timer_enter", "a\\0b\\udc80", "USER"),
        ("set_metadata", "5", "None"),
    ]


def test_a_timer_is_left_when_its_function_raises(engine):
    @annotate.timer("t")
    def fail():
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [name for name, *_ in engine.asked] == ["timer_enter", "timer_leave"]
    assert fail.__wrapped__.__name__ == fail.__name__ == "fail"
