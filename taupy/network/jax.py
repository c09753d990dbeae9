"""JAX: which routines prepare a jitted function, and which of their variables is the function.

A jitted function runs in Python the first time it is called with arguments of new shapes and types:
it is traced, lowered and compiled, then runs. After that, XLA's runtime calls it without Python.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.model.rows import TimerRow

_PJIT = "jax/_src/pjit.py"

ROUTINES = {
    "compile": (
        *(f"{_PJIT}:_trace_for_jit", f"{_PJIT}:_resolve_and_lower"),
        "jax/_src/interpreters/pxla.py:MeshComputation.compile",
    ),
}
"""Kind of phase -> FILE:NAME of routines, as of JAX 0.12."""

COMPILES = "backend_compile"
"""What the names of the routine begin with that has XLA compile; it differs between versions."""

STEPS = {
    "jit": {f"{_PJIT}:_infer_params": (0,)},
    "jit_again": {f"{_PJIT}:_run_python_pjit": (2,)},
}
"""As in torch.py."""


def compiles(timer: TimerRow) -> bool:
    """Whether a routine has XLA compile. Kernels that run below it are tried: autotuning."""
    is_named = timer.short_name.startswith(COMPILES)
    return is_named and (timer.file or "").endswith("jax/_src/compiler.py")
