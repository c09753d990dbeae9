"""Fold library code into the call that enters the library.

A library routine that user code calls keeps its row, with the time of all library routines below
it. User code that a library calls back becomes a child of that row.
"""

from __future__ import annotations

from collections.abc import Mapping

from taupy.model import callpaths
from taupy.model.answer import Answer
from taupy.model.names import is_library
from taupy.model.rows import TimerRow
from taupy.pprof import paths


def libraries_folded(answer: Answer, path_of: Mapping[str, str | None]) -> Answer:
    """The call paths with library code folded.

    Calls, inclusive values and the sum of all exclusive values are unchanged.

    Args:
        path_of: a timer's full name -> its source file as the interpreter knows it.
            C functions and code without a file (`<string>`) belong to their caller; other
            timers without a path (phases, kernels) count as user code.
    """
    belongs = [
        is_library_code(timer, path_of.get(timer.timer)) for timer in answer.table.labels["timer"]
    ]
    in_library = [False] * len(answer)
    folded = [False] * len(answer)
    timers = answer.table.codes["timer"]
    for at, above in enumerate(callpaths.parents(answer.table)):
        caller = above >= 0 and in_library[above]
        own = belongs[timers[at]]
        in_library[at] = caller if own is None else own
        folded[at] = caller and in_library[at]
    return paths.regrouped(answer, folded)


def is_library_code(timer: TimerRow, path: str | None) -> bool | None:
    """True for library code, False for user code, None to follow the caller.

    Args:
        path: the timer's source file as the interpreter knows it.
    """
    if path is not None and is_library(path, timer.groups):
        return True
    if path is None:
        return None if "PYTHON_C" in timer.groups.split("|") else False
    return None if path.startswith("<") else False
