"""Did the program begin? A module or folder that is not there leaves traces of runpy only.

Plain Python looks for the target of -m, of a folder or a zip in `runpy`, which is measured. If
it finds none, all that was measured is its search, and a trial of that is of no use to
anybody: it is as with a script that does not exist.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Sequence

from taupy.instrument.runfolder import RunSettings
from taupy.record.part_data import Part, Routine

_SEARCH, _BEGIN = "_run_module_as_main", "_run_code"
_PACKAGES = ("/site-packages/", "/dist-packages/")


def never_began(settings: RunSettings, parts: Sequence[Part]) -> bool:
    """Was the program's target looked for, and nothing of it run?

    A package that was imported on the way (`python -m package.missing`) has run.
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
    """Is it of the standard library?"""
    file = routine.file
    if file.startswith("<frozen"):
        return True
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    inside = any(file.startswith(os.path.join(folder, "")) for folder in folders)
    return inside and not any(packages in file for packages in _PACKAGES)
