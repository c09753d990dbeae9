"""Starts the measurement where no .pth is installed (a checkout, `pip install --target`).

Reached through PYTHONPATH, which it puts back as it was; then the user's own
`sitecustomize`, if there is one, has its turn as if this one had never been.
"""

import os
import posix
import sys


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    copied: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
    before = copied.pop(b"TAUPY_PYTHONPATH", None)
    posix.environ.pop(b"TAUPY_PYTHONPATH", None)
    # Only Python's copies change: child processes inherit the C environment and are measured, too.
    for environ in (copied, posix.environ):
        if not before:
            environ.pop(b"PYTHONPATH", None)
        else:
            environ[b"PYTHONPATH"] = before[1:]
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    sys.path_importer_cache.pop(here, None)
    sys.modules.pop("sitecustomize", None)
    sys.path.append(root)
    try:
        from taupy.instrument.boot import boot

        boot()
    finally:
        sys.path.remove(root)
        sys.path_importer_cache.pop(root, None)


_start()
# The user's own module. If there is none, Python itself handles the ImportError, which must leave
# this module because the import of `sitecustomize` cannot succeed without the user's.
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
