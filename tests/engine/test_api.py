"""The in-code API: the same rows under both engines, and nothing without one."""

from __future__ import annotations

import subprocess
import sys

import pytest


def names(trial) -> dict[str, int]:
    """Short name -> calls of all that is named by the program itself."""
    return {
        path.names[-1]: path.calls
        for path in trial.paths()
        if path.files[-1] is None
        and path.calls
        and path.groups not in (("TAUPY",), ("IMPORT",), ("EXIT",))
    }


def events(trial, name: str):
    return trial.sql(
        """SELECT value.count, value.minimum, value.maximum, value.mean, value.sum_squares,
                  (SELECT short_name FROM timer JOIN callpath ON timer.id = timer_id
                    WHERE callpath.id = value.callpath_id)
             FROM user_event_value AS value JOIN user_event AS event
               ON event.id = value.user_event_id
            WHERE event.name = ? AND trial_id = 1""",
        name,
    )


def test_a_timer_is_a_row_under_the_routine_that_uses_it(runner, native):
    trial = runner.run(
        """
import taupy
def work(): pass
def step():
    with taupy.timer("load"):
        work()
        with taupy.timer("decode", group="IO"):
            work(); work()
    work()
for _ in range(3):
    step()
""",
        native,
    )
    assert trial.under("step", "load").calls == 3
    assert trial.under("step", "load").subroutines == 6
    assert trial.under("step", "load", "work").calls == 3
    assert trial.under("step", "load", "decode", "work").calls == 6
    assert trial.under("step", "work").calls == 3
    assert trial.under("load").groups == ("USER",)
    assert trial.under("decode").groups == ("IO",)
    assert "taupy.health.timers" not in trial.metadata()


def test_the_apis_own_functions_are_not_in_the_profile(runner, native):
    trial = runner.run(
        """
from taupy import metadata, phase, timer, timer_values, user_event
def use():
    with phase("p", dynamic=True):
        user_event("e").sample(1)
    timer("a").start()
    metadata("x", 1)
    timer("a").stop()
    timer_values("a")
use()
""",
        native,
        "--c-calls",
    )
    assert trial.under("<module>", "use").subroutines == 2
    below = [path.names[path.names.index("use") :] for path in trial.paths() if "use" in path.names]
    assert sorted(below) == [("use",), ("use", "a"), ("use", "p 1")]


@pytest.mark.slow
def test_a_decorated_function_is_timed_and_keeps_its_name(runner, native):
    trial = runner.run(
        """
import taupy
@taupy.timer("area")
def area(w, *, h=2):
    "width times height"
    return w * h
class Net:
    @taupy.timer("forward")
    def forward(self): return 1
    @staticmethod
    @taupy.timer("static")
    def static(): raise KeyError
assert area(3, h=3) == 9 and area(1) == 2
assert (area.__name__, area.__doc__) == ("area", "width times height")
Net().forward()
try: Net.static()
except KeyError: pass
""",
        native,
    )
    assert names(trial) == {"area": 2, "forward": 1, "static": 1}
    assert trial.under("area", "area").calls == 2
    assert trial.under("<module>", "static", "Net.static").calls == 1


@pytest.mark.slow
def test_a_dynamic_phase_is_another_one_every_time(runner, native):
    trial = runner.run(
        """
import taupy
def batch(): pass
for epoch in range(3):
    with taupy.phase("epoch", dynamic=True):
        for _ in range(2):
            with taupy.phase("batch"):
                batch()
""",
        native,
    )
    assert names(trial)["epoch 1"] == names(trial)["epoch 2"] == names(trial)["epoch 3"] == 1
    assert trial.under("epoch 2", "batch", "batch").calls == 2
    assert trial.under("epoch 2").groups == ("PHASE",)


@pytest.mark.slow
def test_a_user_event_belongs_to_the_call_path_it_is_sampled_in(runner, native):
    trial = runner.run(
        """
import taupy
loss = taupy.user_event("loss", unit="nat")
def step(value): loss.sample(value)
for value in (4, 2, 3): step(value)
loss.trigger(10)
""",
        native,
    )
    rows = {row[-1]: row[:-1] for row in events(trial, "loss")}
    assert rows == {"step": (3, 2.0, 4.0, 3.0, 29.0), "<module>": (1, 10.0, 10.0, 10.0, 100.0)}
    assert trial.sql("SELECT unit FROM user_event WHERE name = 'loss'") == [("nat",)]


@pytest.mark.slow
def test_values_that_are_not_finite_are_left_out_and_reported(runner, native):
    trial = runner.run(
        """
import taupy
event = taupy.user_event("e")
for value in (1, "x", None, float("nan"), float("inf"), 10 ** 400, 2):
    event.sample(value)
""",
        native,
    )
    assert [row[0] for row in events(trial, "e")] == [2]
    assert "'e'" in trial.metadata()["taupy.health.user_event"]


@pytest.mark.slow
def test_a_value_with_a_gradient_is_detached_and_a_file_is_not(runner, native):
    """PyTorch's tensors warn on stderr where one with a gradient becomes a number."""
    trial = runner.run(
        """
import io, taupy
class Tensor:
    def __init__(self, value, requires_grad):
        self.value, self.requires_grad = value, requires_grad
    def detach(self):
        return Tensor(self.value, False)
    def __float__(self):
        if self.requires_grad:
            raise RuntimeError("Consider using tensor.detach() first")
        return self.value
file = io.TextIOWrapper(io.BytesIO())
loss = taupy.user_event("loss")
for value in (Tensor(3.0, True), Tensor(4.0, False), file):
    loss.sample(value)
file.write("still open")
""",
        native,
    )
    assert [row[:4] for row in events(trial, "loss")] == [(2, 3.0, 4.0, 3.5)]


@pytest.mark.slow
def test_metadata_of_the_program_stands_in_the_trial(runner, native):
    trial = runner.run(
        "from taupy import metadata\n"
        "metadata('batch size', 32)\nmetadata('note', 'a\\0b \\udc80 é')\n",
        native,
    )
    metadata = trial.metadata()
    assert metadata["batch size"] == "32"
    assert metadata["note"] == "a\\0b \\udc80 é"


@pytest.mark.slow
def test_a_disabled_group_is_not_recorded(runner, native):
    trial = runner.run(
        """
import taupy
def work(): pass
def use(group):
    with taupy.timer("t", group=group):
        work()
use("A"); use("B")
taupy.disable("A")
use("A"); use("B")
taupy.enable("A")
use("A")
""",
        native,
    )
    calls = {path.groups: path.calls for path in trial.paths() if path.names[-1] == "t"}
    assert calls == {("A",): 2, ("B",): 2}
    assert trial.under("<module>", "use", "work").calls == 1


@pytest.mark.slow
def test_disabling_python_leaves_out_routines_until_it_is_enabled(runner, native):
    trial = runner.run(
        """
import taupy
def inner(): pass
def work(): inner()
work()
taupy.disable("PYTHON")
work(); work()
taupy.enable("PYTHON")
work()
""",
        native,
    )
    assert trial.calls("prog.py") == {"<module>": 1, "work": 2, "inner": 2}


HELPERS = """
import contextlib, taupy
def work(): pass
timer = taupy.timer("helpers")
def begin(): timer.start()
def end(): timer.stop()
@contextlib.contextmanager
def section(name):
    with taupy.timer(name):
        yield
def main():
    begin(); work(); end()
    work()
    with section("own"): work()
    work()
    with contextlib.ExitStack() as stack:
        stack.enter_context(taupy.timer("stack")); work()
    work()
    with section("outer"), section("inner"): work()
    work()
main()
work()
"""


@pytest.mark.slow
def test_a_timer_lasts_until_it_is_stopped_whichever_routine_began_it(runner):
    trial = runner.run(HELPERS, "native")
    for name in ("helpers", "own", "stack"):
        assert names(trial)[name] == 1
        assert trial.under("main", name, "work").calls == 1
    assert trial.under("main", "outer", "inner", "work").calls == 1
    assert trial.under("main", "work").calls == 4
    assert trial.under("<module>", "work").calls == 1
    assert "taupy.health.timers" not in trial.metadata()


TASKS = """
import asyncio, contextlib, taupy, time
elapsed = []
def work(): pass
async def nap():
    await asyncio.sleep(0.005)
    work()
class Helper:
    def __init__(self, name): self.timer = taupy.timer(name)
    def begin(self): self.timer.start()
    def end(self): self.timer.stop()
    async def async_begin(self):
        self.begin()
        await nap()
    async def async_end(self):
        await nap()
        self.end()
@contextlib.contextmanager
def section(timer):
    with timer: yield
@contextlib.asynccontextmanager
async def slow_section(timer):
    with timer:
        await nap()
        yield
async def block(timer):
    with timer:
        await nap()
        with taupy.timer("inner"):
            await nap()
            work()
    work()
async def helped():
    helper.begin(); await nap(); work(); helper.end(); work()
async def async_helped():
    await async_helper.async_begin(); work(); await async_helper.async_end(); work()
async def managed(timer):
    with section(timer):
        await nap(); work()
    work()
async def async_managed(timer):
    async with slow_section(timer):
        await nap(); work()
    work()
async def stacked(timer):
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(timer)
        await nap(); work()
    work()
async def cancelled():
    with taupy.timer("cancelled"):
        await asyncio.sleep(600)
async def timed(task):
    began = time.perf_counter_ns()
    await task
    elapsed.append(time.perf_counter_ns() - began)
helper, async_helper = Helper("helped"), Helper("async_helped")
numbered = taupy.phase("numbered", dynamic=True)
async def main():
    for _ in range(2):
        task = asyncio.ensure_future(cancelled())
        await asyncio.gather(*[made for _ in range(2) for made in (
            timed(block(taupy.timer("block"))), helped(), async_helped(),
            managed(taupy.phase("managed")), async_managed(taupy.timer("async_managed")),
            stacked(taupy.timer("stacked")), managed(numbered))])
        task.cancel()
        await asyncio.wait([task])
    work()
asyncio.run(main())
taupy.metadata("elapsed", sum(elapsed))
"""


@pytest.mark.slow
def test_timers_and_phases_whose_body_awaits_follow_their_task(runner):
    trial = runner.run(TASKS, "native")
    counted = {name: calls for name, calls in names(trial).items() if "numbered" not in name}
    assert counted == dict.fromkeys(
        ("block", "inner", "helped", "async_helped", "managed", "async_managed", "stacked"), 4
    ) | {"cancelled": 2}
    assert {f"numbered {n}" for n in range(1, 5)} <= set(names(trial))
    worked = [p for p in trial.paths() if p.names[-1] == "work"]
    for name in ("helped", "async_helped", "managed", "async_managed", "stacked"):
        of_name = [p for p in worked if p.names[-2] == name]
        assert [p.calls for p in of_name if p.names[-3] == name] == [4]  # in the timer
        assert [p.calls for p in of_name if p.names[-3] != name] == [4 + 4 * (name == "managed")]
    assert trial.under("block", "block", "inner", "work").calls == 4
    assert trial.under("block", "block", "inner", "nap", "work").calls == 4
    assert trial.under("main", "work").calls == 1
    for name in ("block", "helped", "async_helped", "managed", "async_managed", "stacked"):
        count, minimum, _, mean, *_ = events(trial, f"{name} (elapsed, with awaits)")[0]
        assert count == 4 and minimum >= 5e6
        assert 0 < trial.under(name, name).inclusive < count * mean
        within = [p.names[p.names.index(name) :] for p in trial.paths() if name in p.names]
        assert not any("BaseEventLoop._run_once" in names for names in within)
    count, _, _, mean, _, _ = events(trial, "block (elapsed, with awaits)")[0]
    own = int(trial.metadata()["elapsed"])
    assert 4 * 2 * 5e6 <= count * mean <= own
    assert "taupy.health.timers" not in trial.metadata()


@pytest.mark.slow
def test_a_timer_that_cannot_be_followed_is_named_with_its_place(runner):
    trial = runner.run(
        """
import asyncio, taupy
def work(): pass
async def forgets():
    taupy.timer("forgotten").start()
    await asyncio.sleep(0)
async def main():
    await asyncio.gather(forgets(), forgets())
    work()
asyncio.run(main())
def wrong():
    taupy.timer("never begun").stop()
wrong()
""",
        "native",
    )
    assert trial.under("main", "work").calls == 1
    said = trial.metadata()["taupy.health.timers"]
    assert said.startswith("3 timers") and "forgotten in forgets, line 4 of" in said


@pytest.mark.slow
def test_a_coroutines_stop_leaves_its_callers_timer_alone(runner):
    trial = runner.run(
        """
import asyncio, taupy
def work(): pass
async def task():
    with taupy.timer("t"):
        await asyncio.sleep(0)
    work()
def main():
    with taupy.timer("t"):
        asyncio.run(task())
        work()
main()
""",
        "native",
    )
    assert trial.under("main", "t", "work").calls == 1


def test_an_unmeasured_program_says_once_how_to_be_measured(tmp_path):
    (tmp_path / "prog.py").write_text(
        "import taupy\nfor _ in range(2):\n    with taupy.phase('x'): taupy.snapshot('y')\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "prog.py", "3"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert "not being profiled" in line and line.endswith("taupy run prog.py 3")


def test_the_module_lists_what_it_offers():
    import taupy

    names = dir(taupy)
    assert {"timer", "phase", "region", "user_event", "metadata", "step", "snapshot"} <= {*names}
    assert [name for name in names if name.startswith("_")] == ["__version__"]


@pytest.mark.slow
def test_a_timer_that_is_never_stopped_lasts_to_the_end(runner):
    trial = runner.run(
        """
import taupy
def begin():
    taupy.timer("open").start()
def after(): pass
begin()
after()
""",
        "native",
    )
    assert trial.under("<module>", "open", "after").calls == 1


@pytest.mark.slow
def test_stopping_an_outer_timer_stops_the_inner_ones(runner, native):
    trial = runner.run(
        """
import taupy
def work(): pass
outer, inner = taupy.timer("outer"), taupy.timer("inner")
outer.start(); inner.start(); work()
outer.stop(); work()
inner.stop(); work()
""",
        native,
    )
    assert trial.under("<module>", "outer", "inner", "work").calls == 1
    assert trial.under("<module>", "work").calls == 2
    assert "taupy.health.timers" in trial.metadata()


def test_a_routine_can_stop_its_callers_timer(runner, native):
    trial = runner.run(
        """
import taupy
def work(): pass
def stop(timer):
    timer.stop(); work()
def use():
    timer = taupy.timer("t"); timer.start()
    stop(timer)
    work()
use()
""",
        native,
    )
    assert trial.under("use", "stop", "work").calls == 1
    assert trial.under("use", "work").calls == 1


@pytest.mark.slow
def test_a_timer_may_be_inside_itself(runner, native):
    trial = runner.run(
        """
import taupy, time
def down(n):
    with taupy.timer("t"):
        time.sleep(0.01)
        if n: down(n - 1)
began = time.perf_counter_ns()
down(2)
elapsed = time.perf_counter_ns() - began
values = taupy.timer_values("t")
assert values.calls == 3, values
assert 30e6 <= values.inclusive_ns <= elapsed, (values, elapsed)
assert 30e6 <= values.exclusive_ns <= values.inclusive_ns, values
""",
        native,
    )
    assert trial.under("down", "t", "down", "t", "down", "t").calls == 1


@pytest.mark.slow
def test_a_program_can_ask_for_its_own_values(runner, native):
    trial = runner.run(
        """
import taupy
def work(): pass
for _ in range(3): work()
with taupy.timer("t"):
    assert taupy.timer_values("t").calls == 1
values = taupy.timer_values("work")
print(values.calls, values.inclusive_ns == values.exclusive_ns > 0)
print(taupy.timer_values("nobody"), "t" in taupy.timer_names(), "work" in taupy.timer_names())
""",
        native,
    )
    assert trial.stdout == "3 True\nNone True True\n"


@pytest.mark.slow
def test_a_timer_and_routines_of_one_name_are_distinguished(runner, native):
    trial = runner.run(
        """
import taupy, time
def load(deeper=None):
    time.sleep(0.01)
    if deeper: deeper()
space = {"time": time}
exec(compile("def load(): time.sleep(0.01)", "other.py", "exec"), space)
began = time.perf_counter_ns()
for epoch in range(3):
    with taupy.timer("load"): load()
elapsed = time.perf_counter_ns() - began
load(space["load"])
timer = taupy.timer_values("load")
assert timer.calls == 3, timer
assert 30e6 <= timer.inclusive_ns <= elapsed, (timer, elapsed)
assert timer.exclusive_ns <= timer.inclusive_ns - 30e6, timer
with taupy.timer("load", group="IO"):
    with taupy.timer("load"): time.sleep(0.01)
again, elapsed = taupy.timer_values("load"), time.perf_counter_ns() - began
assert again.calls == 5 and 40e6 <= again.inclusive_ns <= elapsed, (again, elapsed)
assert again.exclusive_ns <= again.inclusive_ns - 30e6, again
named = [name for name in taupy.timer_names() if name.startswith("load")]
plain, mine, others = sorted(named, key=lambda name: ("other.py" in name, name))
assert plain == "load" and mine.endswith("{3}]") and others == "load [{other.py}{1}]", named
mine, others = taupy.timer_values(mine), taupy.timer_values(others)
assert (mine.calls, others.calls) == (4, 1)
assert 50e6 <= mine.inclusive_ns <= elapsed, (mine, elapsed)
# Each is rounded to a nanosecond.
assert 40e6 <= mine.exclusive_ns <= mine.inclusive_ns - others.inclusive_ns + 1, (mine, others)
print("done")
""",
        native,
    )
    assert trial.stdout == "done\n"


@pytest.mark.slow
def test_routines_of_one_name_count_inclusive_time_once(runner, native):
    trial = runner.run(
        """
import taupy, time
def load(deeper=None):
    time.sleep(0.01)
    if deeper: deeper()
space = {"time": time}
exec(compile("def load(): time.sleep(0.01)", "other.py", "exec"), space)
began = time.perf_counter_ns()
load(space["load"])
elapsed = time.perf_counter_ns() - began
both = taupy.timer_values("load")
assert both.calls == 2, both
assert 20e6 <= both.exclusive_ns <= both.inclusive_ns <= elapsed, (both, elapsed)
assert taupy.timer_values("load [{other.py}{1}]").calls == 1
assert sum(name.startswith("load") for name in taupy.timer_names()) == 1
print("done")
""",
        native,
    )
    assert trial.stdout == "done\n"


@pytest.mark.slow
def test_threads_have_timers_of_their_own(runner, native):
    trial = runner.run(
        """
import taupy, threading
def work():
    with taupy.timer("t"):
        leaf()
def leaf(): pass
threads = [threading.Thread(target=work, name=f"w{i}") for i in range(3)]
for t in threads: t.start(); t.join()
work()
""",
        native,
    )
    assert [(p.thread_name, p.calls) for p in trial.paths() if p.names[-1] == "t"] == [
        ("MainThread", 1),
        ("w0", 1),
        ("w1", 1),
        ("w2", 1),
    ]


@pytest.mark.slow
def test_a_timer_around_an_await_harms_nothing(runner, native):
    trial = runner.run(
        """
import asyncio, taupy
async def task(n):
    with taupy.timer(f"t{n}"):
        step()
        await asyncio.sleep(0.001 * n)
        step()
def step(): pass
async def main():
    await asyncio.gather(*[task(n) for n in range(4)])
asyncio.run(main())
def after(): pass
after()
""",
        native,
    )
    assert trial.calls()["step"] == 8
    assert trial.under("<module>", "after").calls == 1
    assert all(path.exclusive >= 0 for path in trial.paths())
    assert {name: calls for name, calls in names(trial).items() if name[0] == "t"} == {
        f"t{n}": 1 for n in range(4)
    }


@pytest.mark.slow
def test_the_program_can_name_its_node(runner, native):
    trial = runner.run("import taupy\ntaupy.set_node(5)\n", native)
    assert trial.sql("SELECT DISTINCT node FROM thread") == [(5,)]


@pytest.mark.slow
def test_the_latest_trial_is_the_run_and_not_its_snapshot(runner):
    from taupy.profiledb import selector
    from taupy.profiledb.database import ProfileDB

    trial = runner.run("import taupy\ntaupy.snapshot('mid')\n", "native")
    with ProfileDB.open(trial.database) as db:
        assert [row.name for row in db.trials()] == ["1", "1@mid"]
        for text in ("latest", "prog,latest"):
            assert selector.trial(db, text).name == "1"
        assert selector.trial(db, "prog/default/1@mid").id == 2


@pytest.mark.slow
def test_a_snapshot_keeps_the_profile_as_it_was(runner, native):
    trial = runner.run(
        """
import taupy
def work(): pass
work(); work()
taupy.snapshot("early")
work()
taupy.snapshot("late")
work()
""",
        native,
    )
    assert trial.calls("prog.py")["work"] == 4
    counted = trial.sql(
        """SELECT call.trial_id, sum(call.calls) FROM call
             JOIN callpath ON callpath.id = call.callpath_id
             JOIN timer ON timer.id = callpath.timer_id
            WHERE timer.short_name = 'work' GROUP BY 1 ORDER BY 1"""
    )
    assert [calls for _, calls in counted] == [4, 2, 3]


MISUSE = """
import taupy
def told(call, *arguments):
    try:
        call(*arguments)
    except (TypeError, ValueError) as problem:
        print(type(problem).__name__, problem)
    else:
        print("fine")
async def coroutine(): pass
def generator(): yield 1
told(taupy.timer("t"), coroutine)
told(taupy.timer("t"), generator)
told(taupy.phase("p", True), int)
told(taupy.set_node, -1)
told(taupy.timer, 5)
told(taupy.timer("t").stop)
told(taupy.user_event("e").sample, "no number")
told(taupy.metadata, "k", object())
"""


@pytest.mark.slow
def test_misuse_is_reported_equally_with_and_without_profiling(runner, native):
    trial = runner.run(MISUSE, native)
    plain = subprocess.run(
        [sys.executable, "prog.py"],
        cwd=runner.folder,
        env=runner.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert trial.stdout == plain.stdout
    assert plain.stdout.count("TypeError") == 3 and plain.stdout.count("ValueError") == 1


@pytest.mark.parametrize("module", ["taupy.instrument.engine", "threading", "json", "re"])
def test_the_api_imports_nothing_heavy(runner, module):
    source = (
        "import sys; before = set(sys.modules); import taupy\n"
        "with taupy.timer('t'): taupy.user_event('e').sample(1)\n"
        "print(sorted(set(sys.modules) - before))"
    )
    root = runner.environment["PYTHONPATH"]
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {root!r})\n{source}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert module not in done.stdout
    assert "taupy" in done.stdout
