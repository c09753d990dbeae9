"""An import is one row in the plain-Python engine, too: `_native/imports.h` says what that means.

While an import's row is the top of a thread's stack, the profile callback passes over all code but
the program's own. Imports that a library makes meanwhile are passed over with the rest.

Runs inside the measured process: built-in modules only.
"""

import sys

# The program may replace built-in functions; these stay what they are.
from builtins import any, len, map, str, tuple, type  # noqa: UP029

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Protocol

    class Routines(Protocol):
        """What imports need from the routines of a process."""

        def on_new_code(self) -> object: ...
        def of_timer(self, name: str, group: str) -> int: ...


GROUP = "IMPORT"
_NAMES_AT_MOST = 4096
_OF_LIBRARY, _OF_PROGRAM, _OF_NO_FILE = 0, 1, 2
_modules = sys.modules
_module = type(sys)


class Imports:
    """What is known about imports in this process.

    Args:
        folders: of libraries, each with a `/` at its end.
    """

    def __init__(self, routines: "Routines", folders: "Sequence[str]") -> None:
        self._routines = routines
        self._folders = tuple(folders)
        self._origins: dict[str, int] = {}
        self._names: set[str] = set()

    def skips(self, frame: "FrameType") -> bool:
        """Whether the code of this frame is passed over while an import is open."""
        file = frame.f_code.co_filename
        origin = self._origins.get(file)
        if origin is None:
            origin = self._origins[file] = self._origin_of(file)
            self._routines.on_new_code()
        if origin == _OF_NO_FILE:
            main = _modules.get("__main__")
            return type(main) is not _module or frame.f_globals is not main.__dict__
        return origin == _OF_LIBRARY

    def _origin_of(self, file: str) -> int:
        if file.startswith("<"):
            return _OF_LIBRARY if file.startswith("<frozen ") else _OF_NO_FILE
        if "/site-packages/" in file or "/dist-packages/" in file:
            return _OF_LIBRARY  # wherever it is: PYTHONPATH, a .pth file, modules of a cluster
        return _OF_LIBRARY if any(map(file.startswith, self._folders)) else _OF_PROGRAM

    def routine_of(self, frame: "FrameType") -> "int | None":
        """The routine that the import of this frame (`_find_and_load`) enters. None: the module
        is there already."""
        name = frame.f_locals.get("name")
        if type(name) is not str or name in _modules:
            return None
        title = str.encode(f"import {name}", "utf-8", "backslashreplace").decode()
        if title not in self._names:
            if len(self._names) >= _NAMES_AT_MOST:
                title = "import (other modules)"
            self._names.add(title)
        return self._routines.of_timer(title, GROUP)
