"""Find forked children that left no part: what they did is lost, and the trial says so.

A forked child begins its own part. If it cannot open a file (no free descriptor, or the state
folder is full or no longer writable), its part is lost when it ends. Both engines therefore note
each fork made by Python in the forking process, as metadata of its part, `taupy.fork.N`:

    PID BEGAN

with PID 0 if the engine could not determine it, BEGAN in ns of CLOCK_MONOTONIC. This module
compares the notes with the parts that forked children left.
"""

from __future__ import annotations

from _bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from taupy.dataclass import dataclass
from taupy.record.part_data import Part, Process

PREFIX = "taupy.fork."
_NAMED_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork, as noted by the process that forked."""

    parent: int
    pid: int
    began_ns: int


def take_forks(part: Part) -> list[Fork]:
    """Remove the notes on forks from a part's metadata."""
    names = [name for name in part.metadata if name.startswith(PREFIX)]
    words = [part.metadata.pop(name).split() for name in names]
    return [Fork(part.pid, *map(int, pair)) for pair in words if _are_numbers(pair)]


def _are_numbers(pair: Sequence[str]) -> bool:
    return len(pair) == 2 and all(word.isdecimal() and len(word) < 20 for word in pair)


def lost_forks(
    forks: Sequence[Fork],
    parts: Sequence[Part],
    reached: Collection[int],
    is_running: Callable[[int], bool],
) -> tuple[str, str]:
    """Messages about forked children without a part: that ended, and that still run and may begin
    theirs; "" if there are none.

    Args:
        forks: as noted in all parts of the run.
        parts: all parts of the run.
        reached: ids of processes that are accounted for although none of their parts was read.
        is_running: whether the process with this id is still running.
    """
    children = [process for part in parts if part.forked for process in part.processes]
    without = _without_part(forks, children, reached)
    running = {fork.pid for fork in without if is_running(fork.pid)}
    late = [fork for fork in without if fork.pid in running]
    lost = [fork for fork in without if fork.pid not in running]
    noted = {fork.pid for fork in forks}
    others = {*reached, *(child.pid for child in children)} - noted
    unknown = [fork for fork in forks if not fork.pid][len(others) :]
    return (
        _told([*lost, *unknown], "left no part", "what was measured there is lost (no file could "
              "be opened or written)"),
        _told(late, "had left no part when this was stored, and still ran", "what it measures is "
              "added later, if it can open a file"),
    )  # fmt: skip


def _told(forks: Sequence[Fork], what: str, so: str) -> str:
    """What is said of these forks; "" if there are none."""
    named = [f"{fork.pid} forked by {fork.parent}" if fork.pid else
             f"unknown, forked by {fork.parent}" for fork in forks[:_NAMED_AT_MOST]]  # fmt: skip
    more = "; ..." if len(forks) > _NAMED_AT_MOST else ""
    count = "1 forked process" if len(forks) == 1 else f"{len(forks)} forked processes"
    return f"{count} {what} (process {'; '.join(named)}{more}): {so}" if forks else ""


def _without_part(
    forks: Sequence[Fork], children: Sequence[Process], reached: Collection[int]
) -> list[Fork]:
    """The forks with a known process id that match no part and no running process.

    Process ids are reused: a part belongs to the last fork before it.
    """
    of_pid: dict[int, list[Fork]] = defaultdict(list)
    for fork in forks:
        if fork.pid:
            of_pid[fork.pid].append(fork)
    answered: set[Fork] = set()
    for child in children:
        noted = sorted(of_pid[child.pid], key=lambda fork: fork.began_ns)
        at = bisect_right([fork.began_ns for fork in noted], child.start_ns)
        answered.update(noted[max(0, at - 1) : at])
    return [
        fork for fork in forks
        if fork.pid and fork not in answered and fork.pid not in reached
    ]  # fmt: skip
