"""`torch.profiler.record_function` is a phase under both engines; the program sees nothing.

Here with a stand-in that lies where PyTorch's lies; against PyTorch itself at the end.
"""

from __future__ import annotations

import pytest

STAND_IN = """
import contextlib
class record_function(contextlib.ContextDecorator):
    def __init__(self, name, args=None):
        self.name = name
        self.args = args
        self.record = None
    def __enter__(self):
        if self.name == "refused":
            raise OSError
        self.record = object()
        return self
    def __exit__(self, exc_type, exc_value, traceback):
        if self.record is None:
            raise AssertionError("not entered")
        callbacks(self)
def callbacks(recorded):
    pass
"""
HEAD = """
import os, sys, threading, time
from torch.autograd.profiler import record_function
def work(): pass
"""


SLOW = pytest.mark.slow


@pytest.fixture
def run(runner, native):
    folder = runner.folder / "torch" / "autograd"
    folder.mkdir(parents=True)
    for package in (folder, folder.parent):
        (package / "__init__.py").write_text("")
    (folder / "profiler.py").write_text(STAND_IN)

    def run(source: str, *options: str, **keywords):
        return runner.run(HEAD + source, native, *options, **keywords)

    return run


def below(trial, name: str) -> dict[str, int]:
    """Call paths under a routine of the program -> calls, without record_function's own rows."""
    found: dict[str, int] = {}
    for path in trial.paths():
        if name not in path.names[1:]:
            continue
        names = path.names[path.names.index(name) :]
        if not any(one in names[-1] for one in ("callbacks", "Decorator", "record_function.")):
            text = " > ".join(one for one in names if "Decorator" not in one)
            if path.calls:
                found[text] = found.get(text, 0) + path.calls
    return found


def test_a_block_is_a_phase_where_it_stands(run):
    trial = run(
        """
def train():
    for i in range(3):
        with record_function("step"):
            work()
            with record_function("loss") as it:
                assert it.name == "loss"
                work()
            work()
        work()
train()
"""
    )
    assert below(trial, "train") == {
        "train": 1,
        "train > step": 3,
        "train > step > work": 6,
        "train > step > loss": 3,
        "train > step > loss > work": 3,
        "train > work": 3,
    }
    assert trial.under("train", "step").groups == ("PHASE", "RECORD_FUNCTION")
    # Its own methods stay what they are: beside the phase that they begin and end.
    for method in ("__init__", "__enter__", "__exit__"):
        assert trial.under("train", f"record_function.{method}").calls == 3
        assert trial.under("train", "step", f"record_function.{method}").calls == 3
    assert trial.under("train", "record_function.__exit__", "callbacks").calls == 3
    health = {name for name in trial.metadata() if name.startswith("taupy.health")}
    assert health <= {"taupy.health.plain_engine"}


@SLOW
def test_time_in_the_block_is_the_phases(run):
    trial = run(
        """
def train():
    with record_function("asleep"):
        time.sleep(0.3)
    time.sleep(0.01)
train()
"""
    )
    train, phase = trial.under("train"), trial.under("train", "asleep")
    assert 300e6 <= phase.exclusive <= phase.inclusive
    assert 10e6 <= train.exclusive <= train.inclusive - phase.inclusive


def test_exceptions_end_the_phase_they_leave(run):
    trial = run(
        """
def train():
    for error in (KeyError, ValueError):
        try:
            with record_function("outer"), record_function("inner"):
                work()
                raise error
        except error:
            work()
    try:
        with record_function("refused"):
            work()
    except OSError:
        work()
train()
"""
    )
    assert below(trial, "train") == {
        "train": 1,
        "train > outer": 2,
        "train > outer > inner": 2,
        "train > outer > inner > work": 2,
        "train > work": 3,
    }


@pytest.mark.slow
def test_a_decorated_function_that_calls_itself(run):
    trial = run(
        """
@record_function("decorated")
def repeat(n):
    work()
    if n: repeat(n - 1)
    work()
def train():
    repeat(1)
    work()
train()
"""
    )
    inner = "train > decorated > repeat"
    assert below(trial, "train") == {
        "train": 1,
        "train > decorated": 1,
        inner: 1,
        f"{inner} > work": 2,
        f"{inner} > decorated": 1,
        f"{inner} > decorated > repeat": 1,
        f"{inner} > decorated > repeat > work": 2,
        "train > work": 1,
    }


@pytest.mark.slow
def test_a_generators_block_and_its_consumer(run):
    trial = run(
        """
def batches():
    with record_function("load"):
        work()
        yield 1
        work()
    work()
def other(): pass
def train():
    for _ in batches(): other()
    for _ in batches():
        other()
        break
    work()
train()
"""
    )
    assert below(trial, "train") == {
        "train": 1,
        "train > batches": 2,
        "train > batches > load": 2,
        "train > batches > load > work": 3,
        "train > batches > work": 1,
        "train > other": 2,
        "train > work": 1,
    }


@pytest.mark.slow
def test_wrappers_of_the_programs_own(run):
    trial = run(
        """
import contextlib
@contextlib.contextmanager
def scope(name):
    with record_function(name):
        yield
class Profiler:
    def start(self): self.it = record_function("manual"); self.it.__enter__()
    def stop(self): self.it.__exit__(None, None, None)
def train():
    with scope("wrapped"):
        work()
    work()
    profiler = Profiler()
    profiler.start()
    work()
    profiler.stop()
    work()
train()
"""
    )
    assert {path: n for path, n in below(trial, "train").items() if "work" in path} == {
        "train > wrapped > work": 1,
        "train > manual > work": 1,
        "train > work": 2,
    }
    assert trial.under("train", "wrapped").calls == trial.under("train", "manual").calls == 1


@pytest.mark.slow
def test_a_phase_that_is_never_left_ends_with_the_routine_it_began_in(run):
    trial = run(
        """
def begin():
    it = record_function("open")
    it.__enter__()
    work()
def train():
    begin()
    work()
    begin()
    kept = record_function("kept")
    kept.__enter__()
    work()
train()
work()
"""
    )
    assert below(trial, "train") == {
        "train": 1,
        "train > begin": 2,
        "train > begin > open": 2,
        "train > begin > open > work": 2,
        "train > work": 1,
        "train > kept": 1,
        "train > kept > work": 1,
    }
    assert trial.under("<module>", "work").calls == 1


@SLOW
def test_threads_each_have_their_own(run):
    trial = run(
        """
shared = record_function("shared")
def one(number):
    for i in range(50):
        with record_function(f"of {number}"), shared:
            work()
threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
elsewhere = record_function("elsewhere")
def train():
    elsewhere.__enter__()
    thread = threading.Thread(target=elsewhere.__exit__, args=(None, None, None))
    thread.start(); thread.join()
    work()
train()
work()
"""
    )
    for number in range(3):
        found = [p for p in trial.paths() if p.names[-4:-1] == ("one", f"of {number}", "shared")]
        assert [p.calls for p in found if p.names[-1] == "work"] == [50]
    assert trial.under("<module>", "work").calls == 1


@pytest.mark.slow
def test_a_fork_inside_of_a_phase(run):
    trial = run(
        """
def train():
    with record_function("step"):
        child = os.fork()
        work()
        if child: os.waitpid(child, 0)
    work()
train()
"""
    )
    for node in (0, 1):
        calls = {p.names[-2:]: p.calls for p in trial.paths() if p.node == node}
        assert calls["step", "work"] == calls["train", "work"] == 1


@SLOW
def test_timers_of_the_in_code_api_between(run):
    trial = run(
        """
import taupy
def train():
    with taupy.phase("outer"), record_function("middle"), taupy.timer("inner"):
        work()
    with record_function("around"):
        taupy.timer("left").start()
        work()
    work()
train()
"""
    )
    found = below(trial, "train")
    assert found["train > outer > middle > inner > work"] == 1
    assert found["train > around > left > work"] == 1
    assert found["train > work"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--c-calls",),
        ("--exclude", "file:*torch*"),
        pytest.param(("--include", "name:work"), marks=SLOW),
        pytest.param(("--throttle",), marks=SLOW),
    ],
)
def test_whatever_else_is_recorded_phases_are(run, options):
    trial = run(
        """
def train():
    for i in range(3):
        with record_function("step"):
            work()
        work()
train()
""",
        *options,
    )
    phase = [path for path in trial.paths() if path.names[-1] == "step"]
    assert [path.calls for path in phase] == [3]
    inside = [path.calls for path in trial.paths() if path.names[-2:] == ("step", "work")]
    assert inside == [3]
    if "--exclude" in options:
        assert not [path for path in trial.paths() if "record_function" in path.names[-1]]


@SLOW
def test_depth_and_disabled_groups_leave_the_tree_whole(run):
    source = """
def train():
    with record_function("step"):
        with record_function("deep"):
            work()
    work()
for i in range(3): train()
"""
    trial = run(source, "--depth", "3")
    assert trial.under("train", "step").calls == 3
    assert trial.under("train").calls == 3
    assert not [path for path in trial.paths() if path.names[-1] == "deep"]
    trial = run("import taupy\ntaupy.disable('PHASE')\n" + source)
    assert trial.under("train", "work").calls == 6
    assert not [path for path in trial.paths() if path.names[-1] in ("step", "deep")]
    trial = run(
        f"""
import taupy
{source}
taupy.disable('PYTHON')
train()
with record_function('block'): train()
taupy.enable('PYTHON')
train()
"""
    )
    assert trial.under("train").calls == 4
    assert trial.under("<module>", "block").calls == 1


@pytest.mark.slow
def test_what_is_no_record_function_is_left_alone(run, runner):
    (runner.folder / "profiler.py").write_text(STAND_IN)
    trial = run(
        """
import profiler
class record_functions(record_function):
    @property
    def name(self): raise RuntimeError("code of the program")
    @name.setter
    def name(self, name): pass
    def __getattribute__(self, name): return object.__getattribute__(self, name)
    def __enter__(self): return self
    def __exit__(self, *error): pass
class nameless(record_function):
    def __init__(self): pass
def train():
    with profiler.record_function("not torch's"): work()
    with record_functions("its own"): work()
    with record_function(b"bytes"), record_function("caf\\u00e9 \\udc80\\0x"): work()
train()
"""
    )
    found = {path.names[-2] for path in trial.paths() if path.names[-1] == "work"}
    assert found == {"train", "caf\u00e9 \\udc80"}


@pytest.mark.slow
def test_the_program_sees_nothing(run):
    trial = run(
        """
import gc
died = []
class Mine(record_function):
    def __del__(self): died.append(self.name)
def count():
    it = Mine("counted")
    references = sys.getrefcount(it)
    it.__enter__()
    assert sys.getrefcount(it) == references
    it.__exit__(None, None, None)
count()
print(died, [name for name in sys.modules if name.startswith("taupy")])
""",
        "--quiet",
    )
    assert trial.stdout == "['counted'] []\n"


@SLOW
def test_pytorchs_own(runner, native):
    pytest.importorskip("torch", reason="PyTorch is not installed here")
    trial = runner.run(
        """
import torch
from torch.profiler import profile, record_function
def step(x):
    with record_function("forward"):
        y = (x @ x).sum()
    with torch.autograd.profiler.record_function("backward"):
        y.backward()
@record_function("whole")
def train(x):
    for i in range(3): step(x)
x = torch.ones(8, 8, requires_grad=True)
train(x)
with profile() as profiled:
    train(x)
counted = {event.key: event.count for event in profiled.key_averages()}
assert counted["forward"] == counted["backward"] == 3 and counted["whole"] == 1
""",
        native,
    )
    calls: dict[str, int] = {}
    for path in trial.paths():
        if "RECORD_FUNCTION" in path.groups:
            calls[path.names[-1]] = calls.get(path.names[-1], 0) + path.calls
    assert {name: calls[name] for name in ("forward", "backward", "whole")} == {
        "forward": 6,
        "backward": 6,
        "whole": 2,
    }
