"""Library code folded: what a library does inside is summed into the call that enters it.

The boundary stays: a routine of a library that the user's own code calls keeps its
row, with the time of all library routines below it. User code that a library calls
back hangs under that boundary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.rows import TimerRow
from taupy.pprof import paths

# Standard libraries lie in .../lib/python3.11, whoever installed them.
_LIBRARY = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib(64)?/python\d+(\.\d+t?)?)[/\\]")


def is_library(path: str) -> bool:
    """Does this file belong to the standard library or to an installed package?"""
    return path.startswith("<frozen") or _LIBRARY.search(path) is not None


def libraries_folded(answer: Answer, path_of: Mapping[str, str | None]) -> Answer:
    """The call paths with libraries folded.

    Calls, inclusive and the sum of all exclusive stay what they were.

    Args:
        path_of: a timer's full name -> its source file as the interpreter knows it.
            C functions and code without a file (`<string>`) belong to whoever calls
            them; other timers without a path (phases, kernels) are the user's.
    """
    belongs = [_belongs(timer, path_of.get(timer.timer)) for timer in answer.table.labels["timer"]]
    in_library = [False] * len(answer)
    folded = [False] * len(answer)
    timers = answer.table.codes["timer"]
    for at, above in enumerate(callpaths.parents(answer.table)):
        caller = above >= 0 and in_library[above]
        own = belongs[timers[at]]
        in_library[at] = caller if own is None else own
        folded[at] = caller and in_library[at]
    return paths.regrouped(answer, folded)


def _belongs(timer: TimerRow, path: str | None) -> bool | None:
    """True for a library, False for the user, None for whoever calls it."""
    if path is not None and is_library(path):
        return True
    if path is None:
        return None if "PYTHON_C" in timer.groups.split("|") else False
    return None if path.startswith("<") else False
