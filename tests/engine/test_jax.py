"""A jitted function of JAX is a row of its own where it is traced, compiled and first run."""

from __future__ import annotations

import importlib.util

import pytest

from tests.engine.conftest import has_native

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")

STAND_IN = """
def _trace_for_jit(fun):
    fun()
def _infer_params(fun, ji, args, kwargs):
    _trace_for_jit(fun)
def _resolve_and_lower(name): pass
def _run_python_pjit(p, args_flat, fun, args, kwargs):
    _resolve_and_lower(fun)
    if p is not None: raise p
def jit(fun, problem=None):
    def cache_miss(*args):
        _infer_params(fun, None, args, {})
        _run_python_pjit(problem, (), fun, args, {})
    return cache_miss
"""
PROGRAM = """
from jax._src.pjit import jit
def work(): pass
def loss(): work()
inner = jit(loss)
def update(): inner()
class Model:
    def __call__(self): work()
jit(update)()
inner()
jit(Model())()
try: jit(loss, ValueError())()
except ValueError: pass
"""


def test_jitted_functions_have_rows_with_their_tracing_and_compilation(runner):
    source = runner.folder / "jax" / "_src"
    source.mkdir(parents=True)
    for folder in (source, source.parent):
        (folder / "__init__.py").touch()
    (source / "pjit.py").write_text(STAND_IN)
    trial = runner.run(PROGRAM, "native")
    rows = [path for path in trial.paths() if path.groups == ("JIT",)]
    calls: dict[str, int] = {}
    for path in rows:
        calls[path.names[-1]] = calls.get(path.names[-1], 0) + path.calls
    assert calls == {"jit(loss)": 3, "jit(update)": 1, "jit(Model)": 1}
    outer = next(path.names for path in rows if path.names[-1] == "jit(update)")
    below = {
        path.names[len(outer) :] for path in trial.paths() if path.names[: len(outer)] == outer
    }
    assert {("_infer_params",), ("_run_python_pjit",)}.isdisjoint(below)
    assert {("_trace_for_jit",), ("_resolve_and_lower",)} < below
    assert ("_trace_for_jit", "update", "jit.<locals>.cache_miss", "jit(loss)") in below
    kinds = {path.names[-1] for path in trial.paths() if "PHASE_COMPILE" in path.groups}
    assert kinds == {"_trace_for_jit", "_resolve_and_lower"}
    assert "taupy.health.timers" not in trial.metadata()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_a_function_is_compiled_once_for_each_shape(runner):
    runner.environment["JAX_PLATFORMS"] = "cpu"
    trial = runner.run(
        "import jax\nimport jax.numpy as jnp\n@jax.jit\ndef double(x): return x * 2\n"
        "for size in (2, 3, 2, 3, 2): double(jnp.ones(size))\nprint(float(double(1.5)))\n",
        "native",
    )
    assert trial.stdout == "3.0\n"
    assert trial.calls()["jit(double)"] == 3
