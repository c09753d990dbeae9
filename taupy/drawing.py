"""The library that draws pictures, imported on demand."""

from __future__ import annotations

import os
import sys


def import_matplotlib() -> None:
    """Import matplotlib with the user's settings, but not with those of the current folder: it
    prefers a `matplotlibrc` there, which may be from elsewhere, have it run LaTeX, or be a pipe.

    Raises:
        ImportError: it is not installed.
    """
    if "matplotlib" in sys.modules:
        return
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir("/")
        import matplotlib  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)
