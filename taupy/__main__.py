"""`python -m taupy` is the command `taupy`."""

import sys


def _own_libraries_first() -> None:
    """The folder that -m puts first, and PYTHONPATH's, hold the user's modules, which may
    have the same names as ours or the standard library's: they come last here. (The
    program has a path of its own.)"""
    ours = __file__.rpartition("/")[0].rpartition("/")[0]
    prefixes = tuple(f"{prefix}/lib" for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    first = [path for path in sys.path if path.startswith(prefixes)]
    rest = [path for path in sys.path if path not in first]
    # Where taupy itself came from stays reachable, after the libraries.
    sys.path[:] = [*first, *([ours] if ours in rest else []), *(p for p in rest if p != ours)]


if __name__ == "__main__":
    _own_libraries_first()
    if sys.argv[1:2] == ["run"]:
        # The program is not to find files that we made.
        sys.dont_write_bytecode = True
    from taupy.commands import main

    sys.exit(main())
