"""TorchDynamo passes over the code of the plain-Python engine.

TorchDynamo, the front end of `torch.compile`, sees every Python frame that begins while a compiled
model runs. Up to Python 3.11 these include the frames of a profile function, and on every Python
those of callbacks of weak references and of the garbage collector. It would count this engine's
frames as the program's and compile them. PyTorch can mark a code object as one that is run as it
is. Here the code of this engine is marked, once and only if the program imports PyTorch.

Runs inside the measured process: built-in modules only.
"""

import sys

# The program may replace built-in functions; these stay what they are.
from builtins import Exception, getattr, type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FunctionType
    from typing import Any

    Mark = Callable[[CodeType], object]

_FRAMES = "torch._C._dynamo.eval_frame"
_HERE = __name__.rpartition(".")[0] + "."
_SEES_HOOKS = sys.version_info < (3, 12)
_modules = sys.modules
_function: "Any" = type(lambda: None)
_code: "Any" = type((lambda: None).__code__)


class Dynamo:
    """What TorchDynamo is told about this engine.

    Args:
        metadata: of the process; has a note if TorchDynamo cannot be told.
    """

    def __init__(self, metadata: "dict[str, str]") -> None:
        self._metadata = metadata
        # Our modules leave sys.modules before the program begins.
        self._ours = [module for name, module in _modules.copy().items() if name.startswith(_HERE)]

    def is_told(self) -> bool:
        """Mark this engine's code if PyTorch is there; whether that has been done."""
        frames = _modules.get(_FRAMES)
        if frames is None:
            return False
        try:
            mark = _mark_of(frames.__dict__)
            for module in self._ours:
                for function in _functions(module):
                    _mark_with_inner(mark, function.__code__)
        except Exception:
            if _SEES_HOOKS:
                self._metadata["taupy.health.dynamo"] = (
                    "this version of PyTorch cannot be told to pass over taupy's plain engine: "
                    "torch.compile may count its frames"
                )
        return True


def _mark_of(frames: "dict[str, Any]") -> "Mark":
    """PyTorch's function that marks a code object, which older versions have ready."""
    skip: Mark | None = frames.get("skip_code")
    if skip is not None:
        return skip
    set_strategy, actions = frames["set_code_exec_strategy"], frames["_FrameAction"]
    strategy = frames["_FrameExecStrategy"](actions.SKIP, actions.DEFAULT)
    return lambda code: set_strategy(code, strategy)


def _functions(module: "Any") -> "list[FunctionType]":
    """Functions and methods that the module defines."""
    things = [
        thing
        for thing in module.__dict__.values()
        if type(thing) in (_function, type) and thing.__module__ == module.__name__
    ]
    for kind in [thing for thing in things if type(thing) is type]:
        # A __new__ is a static method.
        things += [getattr(member, "__func__", member) for member in kind.__dict__.values()]
    return [thing for thing in things if type(thing) is _function]


def _mark_with_inner(mark: "Mark", code: "CodeType") -> None:
    mark(code)
    for constant in code.co_consts:
        if type(constant) is _code:
            _mark_with_inner(mark, constant)
