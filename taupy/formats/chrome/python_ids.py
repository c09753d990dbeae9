"""Python routines whose return was never recorded: torch.profiler lets them last to the end of the
trace, and everything after them seems to be called by them. But it numbers each call, and names the
number of its caller: they decide.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from taupy.formats.chrome import values

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Column = NDArray[numpy.int64]

KEY: Final = "Python id"
_CALLER: Final = "Python parent id"
_NONE: Final = -1


class PythonIds:
    """The numbers of the Python calls among a thread's slices."""

    __slots__ = ("_at", "_caller", "_id")

    def __init__(self) -> None:
        self._at = array("q")
        self._id = array("q")
        self._caller = array("q")

    def __len__(self) -> int:
        return len(self._at)

    def add(self, at: int, args: dict[str, Any]) -> None:
        """Note the numbers of the slice at a position."""
        id, caller = args[KEY], args.get(_CALLER)
        if type(id) is not int:
            id = values.integer(id)
        if type(caller) is not int:
            caller = values.integer(caller)
        if id is not None:
            self._at.append(at)
            self._id.append(id)
            self._caller.append(_NONE if caller is None else caller)

    def cut(self, start: Column, duration: Column, slack_ns: int) -> int:
        """Shorten calls that outlast their caller, or last beyond the next call of their caller.

        Args:
            start, duration: of all slices of the thread; durations are changed.
            slack_ns: how much longer a call may last, since times are rounded.

        Returns:
            How many were shortened.
        """
        import numpy

        at, id, caller = (
            numpy.frombuffer(column, dtype=numpy.int64)
            for column in (self._at, self._id, self._caller)
        )
        begin, whole = start[at], duration[at]
        end = begin + whole
        # Calls of one caller follow each other.
        order = numpy.lexsort((-whole, begin, caller))
        this, following = order[:-1], order[1:]
        late = (caller[this] == caller[following]) & (end[this] > begin[following] + slack_ns)
        until = end.copy()
        until[this[late]] = begin[following[late]]
        # A call ends before its caller does.
        by_id = numpy.argsort(id, kind="stable")
        place = numpy.minimum(numpy.searchsorted(id[by_id], caller), len(id) - 1)
        above = by_id[place]
        has_caller = id[above] == caller
        above, below = above[has_caller], numpy.flatnonzero(has_caller)
        while True:
            longest = until[above]
            late_ones = (until[below] > longest + slack_ns) & (begin[below] <= longest)
            if not late_ones.any():
                break
            until[below[late_ones]] = longest[late_ones]
        shorter = until < end
        duration[at[shorter]] = until[shorter] - begin[shorter]
        return int(shorter.sum())
