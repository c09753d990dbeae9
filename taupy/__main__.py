"""`python -m taupy` is the command `taupy`."""

import os
import sys


def _own_libraries_only() -> None:
    """The folder that -m puts first is the user's current one, and PYTHONPATH may name it: a module
    there may have the name of one that taupy looks for. taupy never imports from it; its own
    modules are found through the package. Other folders on PYTHONPATH come last. (The program has
    a path of its own.)"""
    prefixes = tuple(f"{prefix}/lib" for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    first = [path for path in sys.path if path.startswith(prefixes)]
    rest = [path for path in sys.path if path not in first and not _is_here(path)]
    sys.path[:] = [*first, *rest]


def _is_here(path: str) -> bool:
    """Whether a folder is the current one."""
    try:
        return not path.startswith("/") or os.path.samefile(path, ".")
    except OSError:
        return False


def main() -> int:
    """The command `taupy`; returns its exit code."""
    _own_libraries_only()
    if sys.argv[1:2] == ["run"]:
        # The program is not to find files that we made.
        sys.dont_write_bytecode = True
    if sys.argv[1:2] != ["serve"]:  # its threads import taupy's modules
        from taupy import importing

        importing.begin()
    try:
        from taupy import commands
    except KeyboardInterrupt:
        sys.stderr.write("taupy: stopped by Ctrl-C before it began\n")
        return 130
    return commands.main()


if __name__ == "__main__":
    sys.exit(main())
