"""Start the plain-Python engine inside the program's interpreter; called by boot.py."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODULE = "_taupy_engine"
"""Where the in-code API finds the engine when boot has taken `taupy` out of sys.modules."""


def start(settings: "dict[str, Any]", options: "dict[str, Any]") -> None:
    """Start the engine as a run's settings say, and leave it under `MODULE`.

    Args:
        settings: of the run, as boot.py has read them.
        options: for the engine.
    """
    before = set(sys.modules)
    from taupy.instrument import engine

    for name in set(sys.modules) - before:
        if name.partition(".")[0] != "taupy":  # built-in modules that the program has not asked for
            del sys.modules[name]
    sys.modules[MODULE] = engine
    engine.start({**options, "root_pid": settings["root_pid"]})
