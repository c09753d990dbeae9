"""PyTorch: through which routines modules are called."""

from __future__ import annotations

_MODULE = "torch/nn/modules/module.py"

LAYERS = (f"{_MODULE}:Module._wrapped_call_impl",)
"""FILE:NAME of the routines that call a module, their first argument; since PyTorch 2.1."""

PLUMBING = (f"{_MODULE}:Module._call_impl", f"{_MODULE}:Module._call_impl.<locals>.inner")
"""Those between them and the module's own `forward`."""
