"""Benchmarks, examples and scripts use names that exist, and run.

Nobody runs them for months, and what they measure changes: two used names that were gone.
"""

from __future__ import annotations

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "examples", "scripts")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

SMALL = {
    "benchmarks/attach.py": ("--rounds", "1", "--pieces", "3", "--only", "calls"),
    "benchmarks/bias.py": ("--rounds", "1"),
    "benchmarks/calls.py": (),
    "benchmarks/compare.py": ("--trials", "4", "--threads", "1", "--paths", "40", "--rounds", "1"),
    "benchmarks/counters.py": (),
    "benchmarks/exact_lines.py": ("--rounds", "1"),
    "benchmarks/extremes.py": ("--quick", "--only", "deep recursion"),
    "benchmarks/extremes_imports.py": ("--quick", "--only", "pstats"),
    "benchmarks/formats.py": ("--paths", "500", "--rounds", "1"),
    "benchmarks/formats_gpu.py": ("--kernels", "500", "--megabytes", "1"),
    "benchmarks/gate.py": ("--runs", "6", "--gates", "2"),
    "benchmarks/gpu_records.py": ("--records", "20000"),
    "benchmarks/growth.py": ("--size", "2000", "--rounds", "1", "--paths", "1000",
                             "--threads", "10", "--trials", "10", "--history", "history.csv"),
    "benchmarks/lines.py": ("--sessions", "1", "--rounds", "1", "--only", "loops"),
    "benchmarks/memory.py": ("--repeat", "1"),
    "benchmarks/overhead.py": ("--sessions", "1", "--rounds", "1", "--workloads", "recursion",
                               "--tools", "taupy"),
    "benchmarks/rank_folders.py": ("--ranks", "3", "--rows", "50"),
    "benchmarks/reading.py": ("TAUPY", "--paths", "2000", "--rounds", "1"),
    "benchmarks/record.py": ("--paths", "2000", "--rounds", "1"),
    "benchmarks/startup.py": ("--rounds", "1", "--threads", "300", "--children", "3"),
    "benchmarks/store.py": ("--paths", "2000"),
    "benchmarks/training.py": ("--sessions", "1", "--rounds", "2"),
    "benchmarks/values.py": ("--fleet", "fleet.db", "--large", "large.db", "--trials", "4",
                             "--paths", "2000", "--rounds", "1"),
    "benchmarks/watch.py": ("--rounds", "1", "--kills", "1", "--children", "5"),
    "examples/counters2017/make_trials.py": ("taupy.db",),
    "examples/tau2017/make.py": ("taupy.db",),
    "examples/async_pipeline.py": (),
    "examples/phases.py": (),
    "examples/processes.py": (),
    "examples/threads.py": (),
}  # fmt: skip
"""Arguments with which each takes seconds; TAUPY is the installed command."""

RUNS = [*SMALL.items(), ("benchmarks/compare.py", ("--gate", "--comparisons", "5"))]

QUICK = {"benchmarks/compare.py", "benchmarks/store.py", "benchmarks/values.py"}

ELSEWHERE = {
    "benchmarks/ceilings.py": "measures the machine for half a minute, whatever it is told",
    "benchmarks/collectives.py": "PyTorch, for minutes",
    "benchmarks/first_run.py": "PyTorch, for minutes",
    "benchmarks/gpu_backends.py": "builds a simulated driver, as tests/unit/collectors do",
    "benchmarks/gpu_launches.py": "a GPU",
    "benchmarks/network.py": "PyTorch, for minutes",
    "benchmarks/operators.py": "PyTorch, for minutes",
    "benchmarks/page.py": "a browser",
    "benchmarks/team_store.py": "PostgreSQL",
    "benchmarks/team_store_growth.py": "PostgreSQL",
    "benchmarks/tools.py": "a part of others",
    "benchmarks/workloads.py": "a part of others",
    "benchmarks/torch_import.py": "PyTorch, for minutes",
    "examples/digits.py": "a part of others",
    "examples/mnist.py": "tests/integration/test_examples.py",
    "examples/pycuda_axpy.py": "tests/integration/test_pycuda_example.py",
    "examples/resnet.py": "PyTorch",
    "examples/torch_cnn.py": "PyTorch",
    "examples/torch_lstm.py": "PyTorch",
    "examples/time_roofline/sweep.py": "PyTorch",
    "scripts/foreign.py": "downloads programs (`make foreign`)",
    "scripts/record_counters.py": "a GPU",
    "scripts/record_cupti_layouts.py": "NVIDIA's headers",
    "scripts/sanitize.py": "builds the engine anew (`make sanitize`)",
}
"""What is not run here, and what it needs, or where it is run."""


def name_of(path):
    return str(path.relative_to(ROOT))


def test_each_is_run_or_says_why_not():
    assert sorted(map(name_of, SOURCES)) == sorted([*SMALL, *ELSEWHERE])


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_the_names_that_it_uses_exist(path):
    """Of taupy and the tests: what is imported, and attributes of the modules among it."""
    tree = ast.parse(path.read_text("utf-8"))
    modules = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.level:
            continue
        if (node.module or "").split(".")[0] not in ("taupy", "tests"):
            continue
        module = importlib.import_module(node.module)
        for alias in node.names:
            if not hasattr(module, alias.name):  # a module that nothing has imported yet
                importlib.import_module(f"{node.module}.{alias.name}")
            modules[alias.asname or alias.name] = getattr(module, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used = modules.get(node.value.id)
            if isinstance(used, type(ast)):
                assert hasattr(used, node.attr), f"{node.value.id}.{node.attr}"


def test_what_is_slower_in_some_rounds_only_is_undecided(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    verdict = importlib.import_module("reading").verdict
    assert verdict([1.6, 1.9, 2.5], 1.5) == "slower"
    assert verdict([1.6, 0.9, 2.5], 1.5) == "undecided"
    assert verdict([1.4, 0.9, 1.5], 1.5) == "no slower"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [pytest.param(*run, marks=() if run[0] in QUICK else pytest.mark.slow) for run in RUNS],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_it_runs(name, arguments, tmp_path):
    command = shutil.which("taupy", path=str(Path(sys.executable).parent)) or "taupy"
    words = [command if word == "TAUPY" else word for word in arguments]
    done = subprocess.run(
        [sys.executable, ROOT / name, *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode and (missing := _missing(done.stderr)):
        pytest.skip(f"{missing} is not installed here")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout or not name.startswith("benchmarks")


def _missing(error):
    """A package that is not installed, as the last line of a traceback names it."""
    last = error.strip().rpartition("\n")[2]
    named = last.partition("No module named '")[2].partition("'")[0].split(".")[0]
    return "" if named in ("", "taupy", "tests") else named
