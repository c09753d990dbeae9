"""The plain engine's numbers, worked out by hand under a clock that is given."""

from __future__ import annotations

import pytest

from taupy.instrument.engine import _start_offset
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


def test_equal_routines_of_different_code_objects_are_one(measure):
    done = measure("""
for _ in range(3):
    exec(compile("def f(): clock.now += 2\\nf()", "made.py", "exec"))
""")
    assert done.last.all()["<module> > <module> > f"] == (3, 0, 6)
    assert done.last.routines.count(("f", "made.py", 1)) == 1


def test_a_routine_keeps_its_count_when_its_code_is_gone(measure):
    """Code that is made and dropped gets the address of what came before it."""
    done = measure("""
import weakref
gone = []
for n in range(50):
    code = compile(f"def f{n}(): clock.now += {n}\\nf{n}()", "made.py", "exec")
    weakref.finalize(code, gone.append, n)
    exec(code, {"clock": clock})
    del code
print(gone == list(range(50)))
""")
    assert done.stdout == "True\n"  # nothing of the program is kept alive
    above = "<module> > <module> > f"
    made = {path: ns for path, ns in done.last.inclusive().items() if path.startswith(above)}
    assert made == {f"{above}{n}": n for n in range(50)}


def test_a_module_is_excluded_though_another_has_the_same_routine(measure):
    done = measure(
        """
for name in ("kept", "left", "kept"):
    exec(compile("def f(): clock.now += 2\\nf()", "made.py", "exec"),
         {"__name__": name, "clock": clock})
""",
        exclude=["module:left"],
    )
    assert done.last.all()["<module> > <module> > f"] == (2, 0, 4)


def test_what_writing_takes_is_nobodys_time(measure):
    done = measure("""
write = engine.engine_part.write
def slowly(*arguments):
    clock.now += 500
    return write(*arguments)
engine.engine_part.write = slowly
def outer():
    clock.now += 10
    engine._engine.due = 0
    inner()
    clock.now += 1
def inner(): clock.now += 3
outer()
engine.engine_part.write = write
""")
    assert done.last.inclusive()["<module> > outer"] == 14
    assert done.last.inclusive()["<module>"] == 14


def test_the_part_is_written_at_the_first_call_and_once_a_second(measure):
    done = measure("""
import posix
writes = []
write = engine.engine_part.write
def noted(*arguments):
    writes.append(clock.now)
    return write(*arguments)
print(len([n for n in posix.listdir(".") if n.endswith(".pypart")]))
engine.engine_part.write = noted
began = clock.now
def tenth(): clock.now += 100_000_000
for _ in range(35): tenth()
engine.engine_part.write = write
print([round((at - began) / 1e9, 1) for at in writes])
""")
    assert done.stdout == "1\n[1.1, 2.2, 3.3]\n"


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
    assert done.last.missed["threads"] == 1


def test_the_part_is_read_back_as_it_was_written(measure, tmp_path):
    measure("def f(): clock.now += 5\nf()\n")
    final = values.loads((tmp_path / "parts").read_bytes())[-1]
    (tmp_path / "x.pypart").write_bytes(values.dumps(final))
    part = read_part(open_run(str(tmp_path)) / "x.pypart")
    assert part.complete and part.engine == "python"
    assert [routine.name for routine in part.routines] == ["<module>", "f"]
    assert part.threads[0].inclusive.tolist() == [5, 5, 5]
    assert part.threads[0].parent.tolist() == [-1, 0, 1]


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
    assert made.gi_frame.f_lasti < _start_offset(code)
    next(made)
    assert made.gi_frame.f_lasti > _start_offset(code)
