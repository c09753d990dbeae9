"""The plain engine's numbers, worked out by hand under a clock that is given."""

from __future__ import annotations

import sys

import pytest

from taupy.instrument.engine_routines import Routines, start_offset
from taupy.record.host_part import read_part
from taupy.state import values
from taupy.state.folder import open_run


def test_inclusive_time_holds_the_callees_and_nothing_else(measure):
    done = measure("""
def outer():
    clock.now += 100
    inner()
    clock.now += 20
def inner():
    clock.now += 3
outer()
clock.now += 5000
outer()
""")
    assert done.last.all() == {
        "": (1, 0, 5246),
        "<module>": (1, 0, 5246),
        "<module> > outer": (2, 0, 246),
        "<module> > outer > inner": (2, 0, 6),
    }


def test_recursion_makes_paths_so_that_no_time_counts_twice(measure):
    done = measure("""
def down(n):
    clock.now += 10
    if n: down(n - 1)
    clock.now += 1
down(2)
import _taupy_engine
flat = {row[0]: row[1:4] for row in _taupy_engine.flat()}
print(flat["down"])
""")
    inclusive = done.last.inclusive()
    assert inclusive["<module> > down"] == 33
    assert inclusive["<module> > down > down"] == 22
    assert inclusive["<module> > down > down > down"] == 11
    assert done.stdout == "(3, 33, 33)\n"


def test_mutual_recursion_counts_the_outermost_of_each_routine(measure):
    done = measure("""
def a(n):
    clock.now += 10
    if n: b(n - 1)
def b(n):
    clock.now += 1
    if n: a(n - 1)
a(3)
import _taupy_engine
flat = {row[0]: row[1:4] for row in _taupy_engine.flat()}
print(flat["a"], flat["b"])
""")
    # a(3) > b(2) > a(1) > b(0): a has 2 calls, 22 in all, 20 of its own; b 12 and 2.
    assert done.stdout == "(2, 22, 20) (2, 12, 2)\n"


def test_a_generator_spends_time_only_while_it_runs(measure):
    done = measure("""
def numbers():
    clock.now += 1
    yield 1
    clock.now += 2
    yield 2
    clock.now += 4
def use():
    for _ in numbers():
        clock.now += 1000
use()
""")
    assert done.last.all()["<module> > use > numbers"] == (1, 2, 7)
    assert done.last.all()["<module> > use"] == (1, 0, 2007)


def test_a_generator_resumed_elsewhere_has_no_call_there(measure):
    done = measure("""
def numbers():
    while True:
        clock.now += 1
        yield
def first(g): next(g)
def second(g): next(g); next(g)
g = numbers()
first(g); second(g)
""")
    assert done.last.all()["<module> > first > numbers"] == (1, 0, 1)
    assert done.last.all()["<module> > second > numbers"] == (0, 2, 2)


@pytest.mark.parametrize("way", ["g.close()", "g.throw(ValueError)", "del g"])
def test_a_generator_that_never_began_is_no_call(measure, way):
    done = measure(f"""
def numbers():
    yield 1
g = numbers()
try:
    {way}
except ValueError:
    pass
def after(): pass
after()
""")
    assert done.last.calls() == {"": 1, "<module>": 1, "<module> > after": 1}


def test_an_exception_ends_the_routines_it_passes_through(measure):
    done = measure("""
def one():
    clock.now += 1
    two()
def two():
    clock.now += 2
    raise KeyError
try: one()
except KeyError: clock.now += 400
one2 = one
try: one2()
except KeyError: pass
""")
    assert done.last.all()["<module> > one > two"] == (2, 0, 4)
    assert done.last.all()["<module> > one"] == (2, 0, 6)
    assert done.last.inclusive()["<module>"] == 406


def test_open_routines_count_up_to_now_and_go_on_undisturbed(measure):
    done = measure("""
def outer():
    clock.now += 10
    inner()
    clock.now += 100
def inner():
    clock.now += 1
    parts.append(part())
    clock.now += 2
outer()
""")
    early, last = (rows.inclusive() for rows in done.parts)
    assert (early["<module> > outer"], early["<module> > outer > inner"]) == (11, 1)
    assert (last["<module> > outer"], last["<module> > outer > inner"]) == (113, 3)
    assert [rows.part["state"] for rows in done.parts] == ["running", "ended"]


def test_what_we_spend_on_writing_is_nobodys_time(measure):
    done = measure("""
import _taupy_engine
def outer():
    clock.now += 10
    tree = _taupy_engine._engine.first_thread
    clock.now += 500   # as if the part were being written
    tree.shift(500)
    clock.now += 1
outer()
""")
    assert done.last.inclusive()["<module> > outer"] == 11
    assert done.last.inclusive()["<module>"] == 11


SLOW_WRITES = """
import _taupy_engine
engine, write = _taupy_engine._engine.state, _taupy_engine.engine_part.write
def slowly(*arguments):
    clock.now += 100_000
    return write(*arguments)
_taupy_engine.engine_part.write = slowly
"""


def assert_a_tree_of_times(thread):
    inclusive = thread["inclusive_ns"]
    assert min(inclusive) >= 0
    own = inclusive.copy()
    for row, parent in enumerate(thread["parent"]):
        if row:
            own[parent] -= inclusive[row]
    assert min(own) >= 0


def test_the_part_is_not_written_in_the_middle_of_a_timers_end(measure):
    done = measure(
        SLOW_WRITES
        + """
clock.step = 1
for n in range(80):
    engine.due[0] = clock.now + n  # due at every reading of the clock in turn
    _taupy_engine.timer_enter(f"timer {n}", "USER")
    _taupy_engine.timer_leave(f"timer {n}", "USER")
    _taupy_engine._engine.save_every_ns = 1
clock.step = 0
"""
    )
    assert_a_tree_of_times(done.last.part["threads"][0])


def test_a_part_written_as_a_thread_ends_takes_nothing_from_the_thread(measure):
    done = measure(
        SLOW_WRITES
        + """
import threading
def work(n):
    clock.step = 1
    engine.due[0] = clock.now + n
for n in range(20):
    thread = threading.Thread(target=work, args=(n,))
    thread.start(); thread.join()
    clock.step = 0
"""
    )
    assert len(done.last.part["threads"]) == 21
    for thread in done.last.part["threads"]:
        assert_a_tree_of_times(thread)


def test_excluded_time_is_the_callers_and_the_callees_go_to_the_caller(measure):
    done = measure(
        """
def a():
    clock.now += 1
    b()
def b():
    clock.now += 10
    c()
def c():
    clock.now += 100
a()
""",
        exclude=["b"],
    )
    assert done.last.inclusive() == {
        "": 111,
        "<module>": 111,
        "<module> > a": 111,
        "<module> > a > c": 100,
    }


def test_deeper_than_the_limit_is_the_callers_time(measure):
    done = measure(
        """
def a():
    clock.now += 1
    b()
def b():
    clock.now += 10
    c()
def c():
    clock.now += 100
a()
""",
        depth=2,
    )
    assert done.last.inclusive() == {"": 111, "<module>": 111, "<module> > a": 111}


def test_throttling_follows_taus_rule(measure):
    done = measure(
        """
def cheap(): clock.now += 9
def dear(): clock.now += 10
for _ in range(8):
    cheap(); dear()
""",
        throttle=True,
        throttle_calls=5,
        throttle_ns_per_call=10,
    )
    # More than 5 calls and less than 10 ns a call: the sixth is the last that is recorded.
    assert done.last.all()["<module> > cheap"] == (6, 0, 54)
    assert done.last.all()["<module> > dear"] == (8, 0, 80)
    routines = done.last.part["routines"]
    flags = {name: n in routines["throttled"] for n, name in enumerate(routines["name"])}
    assert flags == {"<module>": False, "cheap": True, "dear": False}


def test_timers_are_paths_and_a_routine_ends_those_it_began(measure):
    done = measure("""
import _taupy_engine as engine
def work(): clock.now += 5
def step():
    engine.timer_enter("t", "USER")
    clock.now += 1
    work()
    engine.timer_enter("left open", "USER")
    work()
step()
clock.now += 1000
print(engine.timer_leave("t", "USER"))
""")
    assert done.last.inclusive()["<module> > step > t"] == 11
    assert done.last.inclusive()["<module> > step > t > work"] == 5
    assert done.last.inclusive()["<module> > step > t > left open"] == 5
    assert done.stdout == "False\n"
    assert done.last.health["timers"].startswith("1 timers")


def test_a_timer_ends_while_its_routine_goes_on(measure):
    done = measure("""
import _taupy_engine as engine
def step():
    engine.timer_enter("t", "USER")
    clock.now += 1
    print(engine.timer_leave("t", "USER"))
    clock.now += 100
step()
""")
    assert done.last.all()["<module> > step > t"] == (1, 0, 1)
    assert done.last.all()["<module> > step"] == (1, 0, 101)
    assert done.stdout == "True\n"
    assert "timers" not in done.last.health


def test_user_events_are_summed_where_they_are_sampled(measure):
    done = measure("""
import _taupy_engine as engine
def step(value): engine.event("loss", "nat", value)
for value in (1, 5, 3): step(value)
""")
    assert done.last.events() == [("loss", "nat", "<module> > step", 3, 1.0, 5.0, 3.0, 35.0)]


def test_equal_routines_of_different_code_objects_are_one(measure):
    done = measure("""
for _ in range(3):
    exec(compile("def f(): clock.now += 2\\nf()", "made.py", "exec"))
""")
    assert done.last.all()["<module> > <module> > f"] == (3, 0, 6)
    routines = done.last.part["routines"]
    names = list(zip(routines["name"], routines["file"], routines["line"], strict=True))
    assert names.count(("f", "made.py", 1)) == 1


def test_an_exception_inside_the_hook_reaches_the_program_without_our_frames(measure):
    # A signal handler may run anywhere, also in our callback: here the clock plays one.
    done = measure("""
import gc, traceback
real = clock.__class__
class Stop(Exception): pass
class Broken:
    @property
    def now(self):
        clock.__class__ = real
        raise Stop
def f(): pass
def g():
    clock.__class__ = Broken
    f()
try:
    g()
except Stop as stop:
    trace = traceback.extract_tb(stop.__traceback__)
    print([entry.name for entry in trace if entry.name != "<module>"])
def missed(): pass
missed()  # the interpreter has removed a function that raised; 3.12 tells when that is over
gc.collect()
def after(): f()
after()
""")
    # `now` stands for the handler.
    assert done.stdout == "['g', 'f', 'now']\n"
    assert done.last.calls()["<module> > after > f"] == 1
    assert ("<module> > missed" in done.last.calls()) == (sys.version_info >= (3, 12))
    assert "replaced or removed 1 times" in done.last.health["profile_hook"]


def test_a_child_of_fork_begins_with_the_open_path_and_no_calls(measure):
    done = measure("""
import os
from taupy.state import values
def work(): clock.now += 7
def both():
    clock.now += 1000
    work()
    if os.fork() == 0:
        work(); work()
        open("child", "wb").write(values.dumps(part()))
        os._exit(0)
    os.wait()
both()
parts.append(values.loads(open("child", "rb").read()))
""")
    child = done.parts[0]
    assert child.all() == {
        "": (1, 0, 14),
        "<module>": (0, 0, 14),
        "<module> > both": (0, 0, 14),
        "<module> > both > work": (2, 0, 14),
    }
    assert child.part["forked"] and not done.last.part["forked"]
    assert child.part["pid"] != done.last.part["pid"] == child.part["ppid"]


def test_nothing_is_written_after_the_last_part(measure):
    done = measure("""
from taupy.instrument import engine_part
write = engine_part.write
def write_until_the_next_is_due(state, threads, path, status):
    written = write(state, threads, path, status)
    state.due[0] = 0  # for the very return of this function
    return written
engine_part.write = write_until_the_next_is_due
""")
    assert done.last.part["state"] == "ended"


def test_a_child_of_fork_never_writes_its_parents_part(measure):
    done = measure("""
import os
from taupy.state import values
from taupy.instrument import engine, engine_part
engine._engine.save()
find_start = engine_part.process_start_time
def a_part_is_due():
    engine._engine.state.due[0] = 0
    return find_start()
engine_part.process_start_time = a_part_is_due
path = engine._engine.path
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
print(values.loads(open(path, "rb").read())["pid"] == os.getpid())
""")
    assert done.stdout == "True\n"


def test_a_thread_begins_where_threading_begins_it(measure):
    done = measure("""
import threading
def work(): clock.now += 3
t = threading.Thread(target=work, name="worker")
t.start(); t.join()
""")
    assert done.last.threads == ["MainThread", "worker"]
    path = "Thread._bootstrap > Thread._bootstrap_inner > Thread.run > work"
    assert done.last.all(1)[path] == (1, 0, 3)
    assert done.last.calls(1)["Thread._bootstrap"] == 1


def test_threads_that_we_cannot_reach_are_counted(measure):
    done = measure("""
import _thread, time
lock = _thread.allocate_lock(); lock.acquire()
_thread.start_new_thread(lock.release, ())
lock.acquire()
""")
    assert done.last.health["threads"].startswith("1 threads")


def test_a_greenlets_switch_keeps_both_call_paths(measure):
    pytest.importorskip("greenlet")
    done = measure("""
from greenlet import greenlet
def ping():
    for _ in range(2):
        clock.now += 1
        tick()
        other.switch()
def pong():
    for _ in range(2):
        clock.now += 10
        tock()
        one.switch()
def tick(): pass
def tock(): pass
one, other = greenlet(ping), greenlet(pong)
def start(): one.switch()
start()
def after(): pass
after()
""")
    calls = done.last.calls()
    assert (calls["ping > tick"], calls["pong > tock"]) == (2, 2)
    assert calls["<module> > after"] == 1
    assert done.last.inclusive()["<module> > start"] == 0
    assert "greenlets" in done.last.health


def test_code_that_began_before_us_is_ignored_when_it_returns(measure):
    done = measure("""
import threading, _taupy_engine as engine
def f(): clock.now += 1
engine._engine.by_ident.clear()           # as if this thread had never been seen
engine.timer_enter("t", "USER")
f()
engine.timer_leave("t", "USER")
""")
    assert len(done.last.part["threads"]) == 2
    assert done.last.calls(1) == {"": 1, "t": 1}


def test_the_part_is_read_back_as_it_was_written(measure, tmp_path):
    measure("def f(): clock.now += 5\nf()\n")
    final = values.loads((tmp_path / "part").read_bytes())[-1]
    (tmp_path / "x.pypart").write_bytes(values.dumps(final))
    part = read_part(open_run(str(tmp_path)) / "x.pypart")
    assert part.complete and part.engine == "python"
    assert [routine.name for routine in part.routines] == ["<module>", "f"]
    assert part.threads[0].inclusive.tolist() == [5, 5, 5]
    assert part.threads[0].parent.tolist() == [-1, 0, 1]


def test_starting_twice_is_refused(measure):
    done = measure("""
import _taupy_engine as engine
try: engine.start({})
except RuntimeError as problem: print(problem)
""")
    assert done.stdout == "the engine is running already\n"


def generator():
    yield 1


def closure(value):
    def inside():
        nonlocal value
        yield value

    return inside


async def coroutine():
    return 1


@pytest.mark.parametrize(
    "make",
    [generator, closure(1), lambda: (n for n in (1, 2))],
    ids=["plain", "closure", "expression"],
)
def test_the_body_of_a_generator_begins_behind_its_making(make):
    made = make()
    code = made.gi_code
    assert made.gi_frame.f_lasti < start_offset(code)
    next(made)
    assert made.gi_frame.f_lasti > start_offset(code)


class Metaclass(type):
    def __getattribute__(cls, name):
        raise AssertionError(f"{name} of a class of the program was looked up")


class Sealed(list, metaclass=Metaclass):
    def __getattribute__(self, name):
        raise AssertionError(f"{name} of an object of the program was looked up")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (len, "builtins.len"),
        ([].append, "list.append"),
        (dict.fromkeys, "dict.fromkeys"),
        ("".join, "str.join"),
        (object.__new__, "object.__new__"),
        (__import__("math").sqrt, "math.sqrt"),
        (__import__("re").compile("a").match, "re.Pattern.match"),
        (__import__("collections").deque().append, "collections.deque.append"),
        (list.append.__get__(list.__new__(Sealed)), "list.append"),
    ],
)
def test_a_c_function_is_named_for_where_it_is_defined(function, name):
    routines = Routines(None)
    assert routines.name_of_c_function(function) == name
    assert routines.name_of_c_function(function) == name  # also the second time
