"""Begin the debugging GPU collector inside the measured process.

`_native/cupti_python.c` runs (does not import) this file at the program's first cuInit, with the
GIL. Imports here are imports into the program, as documented for `--cupti-backend python`. They
happen in a separate timer, so that no routine of the program is charged with them, and their
routines are not recorded. (No import statement precedes the search for the engine, since that
import would be recorded.)
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMER, GROUP = "(cupti-python begins)", "TAUPY|OVERHEAD"


def _module(folder: str, name: str) -> "Any":
    """One of taupy's compiled modules in this process, without the import machinery."""
    imp, posix = sys.modules["_imp"], sys.modules["posix"]
    files = [name + suffix for suffix in imp.extension_suffixes()]
    file = next(file for file in files if file in posix.listdir(folder))
    namespace: Any = type(sys.implementation)
    spec = namespace(name="taupy._native." + name, origin=folder + file)
    module = imp.create_dynamic(spec)
    imp.exec_dynamic(module)
    module.__file__ = spec.origin
    return module


def _begin(path: str) -> None:
    package = path[: -len("collectors/cupti_python_start.py")]
    root = package[: -len("taupy/")]
    engine = _module(package + "_native/", "engine")
    native = _module(package + "_native/", "cupti_python")
    engine.timer_enter(TIMER, GROUP)
    engine.set_group("PYTHON", False)
    modules = sys.modules
    ours = [name for name in modules if name == "taupy" or name.startswith("taupy.")]
    kept = {name: modules.pop(name) for name in ours}
    sys.path.insert(0, root)
    try:
        from taupy.collectors import cupti_python

        cupti_python.begin(engine, native)
    except Exception as problem:  # the program must continue
        text = f"GPU work was not recorded: {type(problem).__name__}: {problem}"
        engine.set_metadata("taupy.health.gpu_start", text)
    finally:
        if root in sys.path:
            sys.path.remove(root)
        for name in [name for name in modules if name == "taupy" or name.startswith("taupy.")]:
            del modules[name]
        modules.update(kept)
        engine.set_group("PYTHON", True)
        engine.timer_leave(TIMER, GROUP)


_begin(sys._getframe().f_code.co_filename)
