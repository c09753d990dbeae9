"""JAX: which routines prepare a jitted function, and which of their variables is the function.

A jitted function runs in Python the first time it is called with arguments of new shapes and types:
it is traced, lowered and compiled, then runs. After that, XLA's runtime calls it without Python.
"""

from __future__ import annotations

_PJIT = "jax/_src/pjit.py"

ROUTINES = {
    "compile": (
        *(f"{_PJIT}:_trace_for_jit", f"{_PJIT}:_resolve_and_lower"),
        "jax/_src/interpreters/pxla.py:MeshComputation.compile",
    ),
}
"""Kind of phase -> FILE:NAME of routines, as of JAX 0.12."""

STEPS = {
    "jit": {f"{_PJIT}:_infer_params": (0,)},
    "jit_again": {f"{_PJIT}:_run_python_pjit": (2,)},
}
"""As in torch.py."""
