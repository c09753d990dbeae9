"""`taupy run --operators` records the operators that torch.profiler sees, where they are called.

With a library that plays the one which is built for PyTorch, and at the end with PyTorch itself.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from taupy.instrument.torch_library import OPERATORS, Torch
from tests.engine.conftest import ROOT, Trial, has_native

HERE = Path(__file__).parent
TRAININGS = HERE / "operator_trainings.py"
HEAD = """
import ctypes, os, sys, threading
import torch
_LIBRARY = next(line.split()[-1] for line in open("/proc/self/maps") if "operators-" in line)
_C = ctypes.CDLL(_LIBRARY)
_INSIDE = ctypes.CFUNCTYPE(None)
def op(name, inside=None, inputs=None):
    problems = []
    def call():
        try:
            inside()
        except BaseException as problem:
            problems.append(problem)
    text = None if inputs is None else inputs.encode()
    _C.played_with(name.encode(), text, _INSIDE(call) if inside else _INSIDE())
    for problem in problems:
        raise problem
"""
compiler = shutil.which("c++") or shutil.which("g++")
pytestmark = [
    pytest.mark.skipif(not has_native, reason="the compiled engine is not built"),
    pytest.mark.skipif(compiler is None, reason="no C++ compiler"),
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with a package `torch`, and a state folder with the library for it."""
    folder = tmp_path_factory.mktemp("installed")
    torch = folder / "torch"
    (torch / "lib").mkdir(parents=True)
    (torch / "lib" / "libtorch_cpu.so").write_bytes(b"played")
    (torch / "version.py").write_text("__version__ = '2.99.0'\n")
    (torch / "_C.py").write_text("")
    (torch / "__init__.py").write_text("from torch import _C\n")
    state = folder / "state"
    state.mkdir(mode=0o700)
    library = state / f"{Torch(str(torch)).name(OPERATORS)}.so"
    source = ["-I", ROOT / "taupy" / "_native", HERE / "played_operators.cc", "-o", library]
    subprocess.run([compiler, "-std=c++17", "-shared", "-fPIC", "-pthread", *source], check=True)
    library.chmod(0o700)
    return folder


@pytest.fixture
def run(runner, installed):
    ours = {"PYTHONPATH": f"{installed}:{ROOT}", "TAUPY_STATE_DIR": str(installed / "state")}
    runner.environment |= ours

    def run(source: str, *options: str, engine: str = "native"):
        return runner.run(HEAD + source, engine, "--operators", *options)

    return run


@cache
def call_paths(trial) -> dict[int, tuple[int | None, str, bool]]:
    """Call path -> the one above it, its name, whether it is that of an operator."""
    return {
        number: (parent, name, "OPERATOR" in groups.split("|"))
        for number, parent, name, groups in trial.sql(
            """SELECT callpath.id, callpath.parent_id, timer.short_name,
                      (SELECT group_concat(name, '|') FROM timer_group WHERE timer_id = timer.id)
                 FROM callpath JOIN timer ON timer.id = callpath.timer_id"""
        )
    }


def nesting(trial, routine: str) -> dict[str, int]:
    """The names of nested operators below a routine -> how often the first process ran them."""
    above, found = call_paths(trial), Counter[str]()
    for number, calls in trial.sql(
        "SELECT callpath_id, calls FROM call JOIN thread ON thread.id = thread_id"
        " WHERE calls > 0 AND node = 0"
    ):
        at, names, is_below = number if above[number][2] else None, [], False
        while at is not None:
            at, name, is_operator = above[at]
            is_below |= name == routine
            names += [name] if is_operator else []
        if is_below:
            found[" > ".join(reversed(names))] += calls
    return dict(found)


def test_operators_lie_below_their_callers_and_in_one_another(run):
    trial = run(
        """
def inner():
    op("aten::transpose")
def main():
    for _ in range(3):
        op("aten::linear", lambda: (op("aten::t", inner), op("aten::addmm")))
    op("autograd::engine::evaluate_function: MmBackward0", lambda: op("aten::mm"))
main()
op("aten::empty")
"""
    )
    linear = "aten::linear"
    assert nesting(trial, "main") == {
        linear: 3, f"{linear} > aten::t": 3, f"{linear} > aten::t > aten::transpose": 3,
        f"{linear} > aten::addmm": 3, "aten::mm": 1,
    }  # fmt: skip
    assert nesting(trial, "inner") == {f"{linear} > aten::t > aten::transpose": 3}
    assert trial.calls()["aten::empty"] == 1
    assert trial.metadata()["taupy.operator_calls"] == "recorded: PyTorch 2.99.0"
    for path in trial.paths():
        assert path.exclusive >= 0 or path.groups == ("TAUPY",)


def test_exceptions_ranges_and_generators_leave_the_call_paths_as_they_are(run):
    trial = run(
        """
import taupy
timer = taupy.timer("goes on")
def fails():
    op("aten::inside")
    raise KeyError
def opens():
    timer.start()
def batches():
    for _ in range(2):
        op("aten::stack")
        yield
def main():
    try:
        op("aten::outside", fails)
    except KeyError:
        pass
    op("aten::next")
    op("aten::opens", opens)
    op("aten::within")
    timer.stop()
    op("aten::after")
    for _ in batches():
        op("aten::sum")
main()
print("over")
"""
    )
    assert trial.stdout == "over\n"
    assert nesting(trial, "main") == {
        "aten::outside": 1, "aten::outside > aten::inside": 1, "aten::next": 1, "aten::opens": 1,
        "aten::within": 1, "aten::after": 1, "aten::stack": 2, "aten::sum": 2,
    }  # fmt: skip
    assert trial.under("main", "goes on", "op", "aten::within").calls == 1
    assert trial.under("main", "op", "aten::after").calls == 1
    assert trial.under("main", "batches", "op", "aten::stack").calls == 2
    assert trial.under("main", "op", "aten::sum").calls == 2


def test_ends_that_come_in_another_order_close_what_is_open(run):
    trial = run(
        """
class Open(ctypes.Structure):
    _fields_ = [("node", ctypes.c_void_p), ("generation", ctypes.c_uint64)]
first, second = Open(), Open()
def main():
    _C.played_begins(b"aten::first", ctypes.byref(first))
    _C.played_begins(b"aten::second", ctypes.byref(second))
    _C.played_ends(ctypes.byref(first))
    op("aten::third")
    _C.played_ends(ctypes.byref(second))
    op("aten::fourth")
main()
"""
    )
    assert nesting(trial, "main") == {
        "aten::first": 1, "aten::first > aten::second": 1, "aten::third": 1, "aten::fourth": 1,
    }  # fmt: skip


def test_threads_and_children_have_their_own_operators(run):
    trial = run(
        """
def work():
    op("aten::mm")
def main():
    threads = [threading.Thread(target=work) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if os.fork() == 0:
        op("aten::child")
        os._exit(0)
    os.wait()
    _C.played_elsewhere(b"aten::nowhere")
main()
"""
    )
    calls = trial.calls()
    assert (calls["aten::mm"], calls["aten::child"]) == (3, 1)
    assert "aten::nowhere" not in calls
    note = "1 operators ran on threads without Python and were not recorded"
    assert note in trial.stderr


def test_an_operator_that_is_open_in_a_fork_ends_in_the_parent_only(run):
    trial = run(
        """
def forks():
    if os.fork() == 0:
        return
    os.wait()
    op("aten::parent")
def main():
    op("aten::forks", forks)
    op("aten::both")
main()
"""
    )
    calls = trial.calls()
    assert (calls["aten::parent"], calls["aten::both"]) == (1, 2)


def test_limits_hold_and_the_rest_counts_for_the_caller(run):
    source = """
def main():
    op("aten::linear", lambda: op("aten::mm"))
main()
"""
    assert nesting(run(source, "--depth", "2"), "main") == {}
    assert sum(nesting(run(source, "--cpu-time"), "main").values()) == 2
    many = run(source + "for number in range(900): op(f'aten::{number}')", "--max-callpaths", "300")
    assert "call paths" in many.metadata()["taupy.health.callpaths"]
    assert nesting(many, "main") == {"aten::linear": 1, "aten::linear > aten::mm": 1}


@pytest.mark.parametrize("option", ["--imports", "--no-layers", "--no-autograd"])
def test_operators_need_no_other_detail(run, option):
    trial = run("def main():\n    op('aten::mm')\nmain()", option)
    assert nesting(trial, "main") == {"aten::mm": 1}


def test_what_a_library_calls_while_it_is_imported_is_part_of_the_import(run, runner):
    library = runner.folder / "site-packages" / "library"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(
        "from __main__ import _C, _INSIDE\n_C.played_operator(b'aten::tables', _INSIDE())\n"
    )
    path = f"sys.path.insert(0, {str(library.parent)!r})\n"
    trial = run(path + "import library\nop('aten::mm')\n")
    assert trial.calls()["aten::mm"] == 1 and "aten::tables" not in trial.calls()


def test_without_the_option_there_are_none(runner, run):
    trial = runner.run("import torch\n", "native")
    assert "taupy.operator_calls" not in trial.metadata()


def test_what_is_missing_is_said_in_a_line(runner, run, tmp_path):
    trial = runner.run("print(1)\n", "python", "--operators")
    line = "--operators: operators are not recorded: that needs the compiled engine"
    assert line in trial.stderr
    runner.environment["TAUPY_STATE_DIR"] = str(tmp_path / "other")
    trial = runner.run("import torch\n", "native", "--operators")
    why = "`taupy setup torch` has not been run for PyTorch 2.99.0"
    assert f"--operators: operators are not recorded: {why}" in trial.stderr
    assert trial.metadata()["taupy.operator_calls"] == f"not recorded: {why}"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_operators_are_those_of_torch_profiler(torch_runner):
    trial = torch_runner.run(TRAININGS, "native", "--operators")
    expected = json.loads(trial.stdout)
    assert len(expected) > 20
    differing = {}
    for training, paths in expected.items():
        found = nesting(trial, training)
        if found != paths:
            both = {*found, *paths}
            differing[training] = {
                path: (found.get(path, 0), paths.get(path, 0))
                for path in both
                if found.get(path) != paths.get(path)
            }
    assert differing == {}


INPUTS = """
def main():
    for rows in (2, 2, 3):
        op("aten::linear", lambda: op("aten::addmm", inputs=f"float32[{rows}]"), f"float32[{rows}]")
    op("aten::empty", inputs="")
    op("aten::linear")
main()
"""


def signatures(trial) -> list[tuple[str, str, int]]:
    """Operator, sizes and types of its inputs, calls."""
    rows = trial.sql(
        """SELECT timer.short_name, signature, operator_input.calls, time_ns FROM operator_input
             JOIN callpath ON callpath.id = callpath_id JOIN timer ON timer.id = timer_id"""
    )
    assert all(time > 0 for *_, time in rows)
    return sorted(row[:3] for row in rows)


def test_operators_are_stored_by_the_sizes_and_types_of_their_inputs(run):
    trial = run(INPUTS, "--signatures")
    assert signatures(trial) == [
        ("aten::addmm", "float32[2]", 2), ("aten::addmm", "float32[3]", 1),
        ("aten::empty", "", 1),
        ("aten::linear", "float32[2]", 2), ("aten::linear", "float32[3]", 1),
    ]  # fmt: skip
    # The call paths have no sizes, and count what has none, too.
    assert nesting(trial, "main") == {
        "aten::linear": 4, "aten::linear > aten::addmm": 3, "aten::empty": 1
    }  # fmt: skip


def test_sizes_that_differ_in_each_call_fill_no_room_for_call_paths(run):
    source = """
def main():
    for rows in range(600):
        op("aten::linear", lambda: op("aten::addmm"), f"float32[{rows}]")
main()
"""
    trial = run(source, "--signatures", "--max-callpaths", "400")
    assert nesting(trial, "main") == {"aten::linear": 600, "aten::linear > aten::addmm": 600}
    known = signatures(trial)
    assert 10 < len(known) < 200 and all(calls == 1 for *_, calls in known)
    assert "taupy.health.callpaths" not in trial.metadata()


def test_no_operators_excludes_their_inputs(runner):
    command = [sys.executable, "-m", "taupy", "run", "--no-operators", "--signatures", "-c", "pass"]
    done = subprocess.run(command, env=runner.environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines() == [
        "taupy: --signatures are those of operators, which --no-operators excludes"
    ]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_inputs_are_those_that_torch_profiler_records(torch_runner, tmp_path):
    trace = tmp_path / "trace.json"
    source = f"""
import torch, torch.profiler
from torch import nn
def work():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    optimizer = torch.optim.Adam(net.parameters(), foreach=True)
    for rows in (5, 5, 7):
        loss = net(torch.randn(rows, 1, 8, 8)).square().mean()
        loss.backward()
        optimizer.step()
    picked = torch.arange(12).view(3, 4)[torch.tensor([0, 2])]
    torch.stack([picked, picked]).to(torch.bfloat16).sum() + 1
    torch.ones(2, 3, dtype=torch.cfloat) @ torch.ones(3, 2, dtype=torch.cfloat)
if __name__ == "__main__":
    with torch.profiler.profile(record_shapes=True) as profiler:
        work()
    profiler.export_chrome_trace({str(trace)!r})
"""
    trial = torch_runner.run(source, "native", "--signatures")
    database = tmp_path / "imported.db"
    command = [sys.executable, "-m", "taupy", "import", str(trace), "--db", str(database)]
    subprocess.run(command, env=torch_runner.environment, check=True, capture_output=True)
    imported = Trial(database, "", "")
    theirs, ours = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for name, inputs, calls in signatures(imported):
        if "Backward0" not in name and "Accumulate" not in name:  # autograd's nodes
            theirs[name, inputs] += calls
    for name, inputs, calls in signatures(trial):
        ours[name, inputs] += calls
    assert len(theirs) > 60
    assert ours == theirs
