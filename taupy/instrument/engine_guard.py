"""Setting the plain-Python engine's profile function again when it was removed.

The interpreter removes a profile function written in Python as soon as it raises. It raises
through no fault of its own when the program reaches its recursion limit, or when a signal handler
of the program raises in it. A program may also set a profile function of its own and remove it.
What ran until the function is set again is missing, and the trial says so. After an error, it
is set again as soon as the program handles the error, which `sys.monitoring` reports from 3.12 on;
otherwise, and after a profile function of the program, at the next garbage collection. Both are
watched from the program's first deep recursion, signal handler or profile function on.

Runs inside the measured process: built-in modules only.
"""

import _thread
import sys

# The program may replace built-in functions; these stay what they are.
from builtins import BaseException, ValueError, __import__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taupy.instrument.engine_state import EngineState
    from taupy.instrument.engine_tree import ThreadTree

_get_ident = _thread.get_ident
_setprofile, _getprofile = sys.setprofile, sys.getprofile
_monitoring: "Any" = getattr(sys, "monitoring", None)
if _monitoring is not None:
    _use_tool_id, _free_tool_id = _monitoring.use_tool_id, _monitoring.free_tool_id
    _register, _set_events = _monitoring.register_callback, _monitoring.set_events
    _HANDLED = _monitoring.events.EXCEPTION_HANDLED
_TOOLS = (4, 3)
"""Numbers of tools of `sys.monitoring` that are not set aside for a purpose."""


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
_tool: int | None = None


def set_again_when_removed(state: "EngineState", threads: "dict[int, ThreadTree]") -> None:
    """Check the profile function at every garbage collection. `threads` is by ident."""
    global _state, _threads
    _state, _threads = state, threads
    if _set_again not in _gc_callbacks:
        _gc_callbacks.append(_set_again)


def set_again_after_errors(state: "EngineState", threads: "dict[int, ThreadTree]") -> None:
    """Check it where the program handles an error, if the interpreter reports that, else as above.

    A collection at the recursion limit would find no room for our function, and say so on the
    program's stderr.
    """
    global _state, _threads, _tool
    _state, _threads = state, threads
    if _tool is None:
        _tool = _tool_that_tells()
    if _tool is None:
        set_again_when_removed(state, threads)


def rest() -> None:
    """Stop checking: the interpreter's end takes our functions apart."""
    global _tool
    if _tool is not None:
        _set_events(_tool, 0)
        _free_tool_id(_tool)
        _tool = None


def _tool_that_tells() -> int | None:
    for tool in _TOOLS if _monitoring is not None else ():
        try:
            _use_tool_id(tool, "taupy")
        except ValueError:
            continue  # used by the program
        try:
            _register(tool, _HANDLED, _look_after_error)
        except BaseException:  # an audit hook of the program refuses
            _free_tool_id(tool)
            return None
        _set_events(tool, _HANDLED)
        return tool
    return None


def _look_after_error(code: object, offset: int, error: object) -> None:
    _set_again("", None)


def _set_again(phase: str, information: object) -> None:
    if _state is None or not _state.running:
        return
    thread = _threads.get(_get_ident())
    if thread is not None and _getprofile() is None:
        _state.replaced += not thread.replaced
        thread.replaced = False
        _setprofile(thread.callback)
