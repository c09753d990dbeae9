"""No time of the plain engine is below 0, whatever happens between two readings of the clock."""

from __future__ import annotations

import pytest


def test_a_greenlet_that_returns_at_once_has_not_run_backwards(measure):
    pytest.importorskip("greenlet")
    done = measure("""
import greenlet
main = greenlet.getcurrent()
def leave(): main.switch()
def elsewhere(): pass
left = greenlet.greenlet(leave)
left.switch()
elsewhere()
clock.meanwhile = clock.double
left.switch()
clock.meanwhile = None
""")
    assert min(done.last.inclusive().values()) >= 0


def test_a_timer_that_ends_right_after_a_switch_has_not_run_backwards(measure):
    pytest.importorskip("greenlet")
    done = measure("""
import greenlet
from _taupy_engine import timer_enter, timer_leave
main = greenlet.getcurrent()
def time_it():
    timer_enter("timer", "USER")
    main.switch()
    clock.meanwhile = clock.double
    timer_leave("timer", "USER")
    clock.meanwhile = None
def elsewhere(): pass
timed = greenlet.greenlet(time_it)
timed.switch()
elsewhere()
timed.switch()
""")
    assert min(done.last.inclusive().values()) >= 0


def test_a_timer_begun_while_the_part_is_written_is_not_begun_later(measure):
    done = measure("""
import sys
from _taupy_engine import _engine, timer_enter, timer_leave
def begin_timer(event, arguments):
    global is_due
    if event == "open" and is_due:
        is_due = False
        clock.now += 1000
        timer_enter("timer", "USER")
        clock.now += 10
is_due = False
sys.addaudithook(begin_timer)
def work(): pass
is_due = True
_engine.state.due[0] = 0
work()
clock.now += 5
timer_leave("timer", "USER")
""")
    assert [time for path, time in done.last.inclusive().items() if "timer" in path] == [5]


def test_a_timer_begun_by_a_handler_as_a_routine_returns_has_not_run_backwards(measure):
    done = measure("""
from _taupy_engine import timer_enter
def handler():
    clock.meanwhile = None
    clock.now += 100
    timer_enter("timer", "USER")
def outer():
    clock.now += 7
    inner()
def inner():
    clock.meanwhile = handler
outer()
""")
    assert min(done.last.inclusive().values()) >= 0


def test_a_child_forked_outside_python_does_not_begin_later_than_now(measure):
    done = measure("""
import ctypes, os
from _taupy_engine import _engine
fork = ctypes.PyDLL(None).fork
def work(): pass
def forked():
    child = fork()
    if child:
        return child
    clock.step = 1000
    _engine.state.due[0] = 0
    work()
    clock.step = 0
    return 0
child = forked()
if not child:
    print(min(part()["threads"][0]["inclusive_ns"]) >= 0, flush=True)
    os._exit(0)
os.waitpid(child, 0)
""")
    assert done.stdout == "True\n"
