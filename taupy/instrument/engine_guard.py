"""Setting the plain-Python engine's profile function again when it was removed.

The interpreter removes a profile function written in Python as soon as it raises. It raises
without a fault of its own when the program reaches its recursion limit, or when a signal handler
of the program raises in it. A program may also set a profile function of its own and remove it.
The next garbage collection notices that, and sets the function again; what ran in between is
missing, and the trial says so. Collections are watched from the first deep recursion, signal
handler or profile function of the program on.

Runs inside the measured process: built-in modules only.
"""

import _thread
import sys

# The program may replace built-in functions; these stay what they are.
from builtins import __import__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taupy.instrument.engine_state import EngineState
    from taupy.instrument.engine_tree import ThreadTree

_get_ident = _thread.get_ident
_setprofile, _getprofile = sys.setprofile, sys.getprofile


def private_module(name: str) -> "Any":
    """A built-in module, imported without leaving it in the program's `sys.modules`."""
    is_known = name in sys.modules
    module = __import__(name)
    if not is_known:
        del sys.modules[name]
    return module


_gc_callbacks = private_module("gc").callbacks
_state: "EngineState | None" = None
_threads: "dict[int, ThreadTree]" = {}


def set_again_when_removed(state: "EngineState", threads: "dict[int, ThreadTree]") -> None:
    """Check the profile function at every garbage collection. `threads` is by ident."""
    global _state, _threads
    _state, _threads = state, threads
    if _set_again not in _gc_callbacks:
        _gc_callbacks.append(_set_again)


def _set_again(phase: str, information: object) -> None:
    if _state is None or not _state.running:
        return
    thread = _threads.get(_get_ident())
    if thread is not None and _getprofile() is None:
        _state.replaced += not thread.replaced
        thread.replaced = False
        _setprofile(thread.callback)
