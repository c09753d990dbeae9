"""Keeping the plain-Python engine's profile function where it is.

The interpreter removes a profile function written in Python as soon as it raises, and it
raises without a fault of its own when the program reaches its recursion limit, or when a
signal handler of the program raises in it. Two remedies, both only where they are needed:

* Removing it is an audited event, and an audit hook that raises forbids it. The hook
  raises the very exception that is under way, so the program sees what it would have seen.
  It doubles the engine's cost, since the interpreter audits every look at a frame's code:
  it is there from the first deep recursion, or the first such handler, on.
* A handler that raises in our callback's very first instruction, where that cannot catch
  it, is noticed at the next garbage collection, which sets the function again. So is a
  program that has set a profile function of its own, and taken it away.

Runs inside the measured process: built-in modules only.
"""

import _thread
import sys

# The program may replace built-in functions; these stay what they are.
from builtins import BaseException, Exception, __import__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from taupy.instrument.engine_process import Engine

_get_ident = _thread.get_ident
_setprofile, _getprofile = sys.setprofile, sys.getprofile


def private_module(name: str) -> "Any":
    """A built-in module, without the program finding it in `sys.modules` for it."""
    is_known = name in sys.modules
    module = __import__(name)
    if not is_known:
        del sys.modules[name]
    return module


_addaudithook, _gc_callbacks = sys.addaudithook, private_module("gc").callbacks
_engine: "Engine | None" = None
_forbids = False


def forbids_removal() -> bool:
    """Is the audit hook there? Once there it stays."""
    return _forbids


def forbid_removal(engine: "Engine") -> None:
    """Do not let the interpreter remove the engine's profile functions."""
    global _engine, _forbids
    _engine = engine
    if not _forbids:
        _forbids = True
        try:
            _addaudithook(_audit)
        except Exception:
            return  # the program's own audit hook refuses it


def set_again_when_removed(engine: "Engine") -> None:
    """Have garbage collections look after the profile function."""
    global _engine
    _engine = engine
    if _set_again not in _gc_callbacks:
        _gc_callbacks.append(_set_again)


def _audit(event: str, arguments: "tuple[Any, ...]") -> None:
    # All in one frame, which is easily taken out of a traceback, and with as few calls as
    # can be: at the recursion limit there is no room for them. If one fails that is well:
    # to raise is what we are here for then.
    try:
        if event == "sys.setprofile" and _engine is not None:
            thread = _engine.by_ident.get(_get_ident())
            if thread is not None and thread.passing is not None:
                error, thread.passing = thread.passing, None
                if _getprofile() is thread.callback:
                    raise error
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise


def _set_again(phase: str, information: object) -> None:
    engine = _engine
    if engine is None or not engine.running:
        return
    thread = engine.by_ident.get(_get_ident())
    if thread is not None and _getprofile() is None:
        engine.replaced += not thread.replaced
        thread.replaced = False
        _setprofile(thread.callback)
