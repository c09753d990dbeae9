"""The tree of a thread with few call paths (`small_part.py`), row by row, without NumPy."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from taupy.instrument.runfolder import RunSettings
from taupy.model.forest import subroutines
from taupy.model.metric import Metric
from taupy.model.profile import CallTree, Timer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from taupy.record.part_data import PartThread

COMPENSATED = Metric("time_compensated", "ns")
RANGES = frozenset({"NVTX", "RECORD_FUNCTION"})
"""Groups of phases that may continue elsewhere."""


def is_plain(timer_of: Sequence[int], timers: Sequence[Timer], settings: RunSettings) -> bool:
    """Whether each row of the threads of a part becomes one row of a tree, with its time alone.

    Args:
        timer_of: for each routine of the part, its timer.
    """
    if settings.fold_libraries or (settings.compensate and settings.overhead):
        return False
    named = set(timer_of)
    return len(named) == len(timer_of) and not any(
        group in RANGES for at in named for group in timers[at].groups
    )


def tree(thread: PartThread, timer_of: Sequence[int], root: int) -> CallTree:
    """The tree of a thread without metrics other than time; its rows are those of the part."""
    parent: array[int] = thread.parent
    timer = array("q", [root if at < 0 else timer_of[at] for at in thread.routine])
    measured = CallTree(timer, parent, thread.calls, subroutines(parent, thread.calls))
    if not thread.native:  # otherwise the time by routine is unknown
        inclusive, exclusive = _whole_and_own(thread.inclusive, parent)
        measured.inclusive["time"], measured.exclusive["time"] = inclusive, exclusive
    return measured


def _whole_and_own(inclusive: array[int], parent: array[int]) -> tuple[array[int], array[int]]:
    """As `rows.whole_and_own`."""
    whole, below = array("q", inclusive), array("q", bytes(8 * len(inclusive)))
    for row in range(len(whole) - 1, -1, -1):
        whole[row] = max(whole[row], below[row])
        if row:
            below[parent[row]] += whole[row]
    return whole, array("q", [all_ - below_ for all_, below_ in zip(whole, below, strict=True)])
