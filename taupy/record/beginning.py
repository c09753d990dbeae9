"""Detect programs that never began: a missing module or folder leaves only traces of runpy.

Python looks for the target of -m, of a folder or a zip in `runpy`, which is measured. If there is
no target, only that search was measured, and a trial would be useless, as for a script that does
not exist.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from taupy.instrument.runfolder import RunSettings
from taupy.record.part_data import Part, Routine

_SEARCH, _BEGIN = "_run_module_as_main", "_run_code"
_PACKAGES = ("/site-packages/", "/dist-packages/")


def never_began(settings: RunSettings, parts: Sequence[Part]) -> bool:
    """Whether the program's target was searched for, but none of its code ran.

    A package imported on the way (`python -m package.missing`) counts as run.
    """
    chosen = settings.engine_options
    if any(chosen.get(name) for name in ("include", "exclude", "depth")) or len(parts) != 1:
        return False  # _run_code may have run unseen
    (part,) = parts
    if part.pid != settings.root_pid or part.exit_status == 0:
        return False
    names = {routine.name for routine in part.routines if routine.file.startswith("<frozen runpy")}
    if _SEARCH not in names or _BEGIN in names:
        return False
    return all(routine.name != "<module>" or _is_pythons(routine) for routine in part.routines)


def _is_pythons(routine: Routine) -> bool:
    """Whether the routine belongs to the standard library."""
    file = routine.file
    if file.startswith("<frozen"):
        return True
    import sysconfig

    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    inside = any(file.startswith(os.path.join(folder, "")) for folder in folders)
    return inside and not any(packages in file for packages in _PACKAGES)
