"""Whose code a file is: the program's own, or that of a library.

For the watch, which knows paths only and imports little; `analysis/own_code.py` decides for a
trial, of which more is is_own.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_LIBRARIES = ("/site-packages/", "/dist-packages/")
_STANDARD = ("/lib/python3.", "/lib64/python3.")
IMPORTING = "<frozen importlib"
"""Files of the import system begin with this."""


class OwnFiles:
    """The program's own files.

    Args:
        arguments: the program, as the interpreter gets it.
        libraries: folders of libraries.
    """

    def __init__(self, arguments: "Sequence[str]", libraries: "Sequence[str]") -> None:
        self.texts = {"-c": ("<string>",), "-": ("<stdin>",)}.get(
            arguments[0] if arguments else "-", ()
        )
        self.libraries = tuple(folder.rstrip("/") + "/" for folder in libraries if folder)
        self._known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        """Whether a file, named as the interpreter does, is the program's."""
        is_own = self._known.get(file)
        if is_own is None:
            is_own = self._known[file] = self._has(file)
        return is_own

    def _has(self, file: str) -> bool:
        if not file or file.startswith("<"):
            return file in self.texts or file.startswith("<ipython-input")
        if file.startswith(self.libraries) or any(folder in file for folder in _LIBRARIES):
            return False
        return not any(_is_below(file, folder) for folder in _STANDARD)


def _is_below(file: str, folder: str) -> bool:
    """Whether a file is in a folder whose name begins so: `/usr/lib/python3.12/json/...`."""
    _, _, rest = file.partition(folder)
    version, slash, _ = rest.partition("/")
    return bool(slash) and version.rstrip("t").isdigit()
