"""Forks that left no part: what such a child did is lost, and the trial says so.

A forked child begins a part of its own. Where it can open no file (no descriptor is left, the
state folder is full or not writable any more), its part is lost with its end. So both engines note
each fork of Python's in the process that forks, as metadata of its part, `taupy.fork.N`:

    PID BEGAN

with PID 0 if the engine could not find it out, BEGAN in ns of CLOCK_MONOTONIC. Here the notes are
compared with the parts that forked children have left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from taupy.record.part_data import Part

PREFIX = "taupy.fork."
_NAMED_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork, as it was noted by the process that forked."""

    parent: int
    pid: int
    began_ns: int


def take_forks(part: Part) -> list[Fork]:
    """Take the notes on forks out of a part's metadata."""
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
) -> str:
    """What is to be said of forked children without a part; "" if each has left one.

    Args:
        forks: as noted in all parts of the run.
        parts: all parts of the run.
        reached: ids of processes that are accounted for although no part of theirs was read.
        is_running: does the process of this id go on?
    """
    children = [part for part in parts if part.forked]
    lost = _without_part(forks, children, reached)
    noted = {fork.pid for fork in forks}
    others = {*reached, *(part.pid for part in children)} - noted
    unknown = [fork for fork in forks if not fork.pid][len(others) :]
    if not lost and not unknown:
        return ""
    named = [
        f"{fork.pid} forked by {fork.parent}" + (", still running" if is_running(fork.pid) else "")
        for fork in lost
    ]
    named += [f"unknown, forked by {fork.parent}" for fork in unknown]
    more = "; ..." if len(named) > _NAMED_AT_MOST else ""
    count = "1 forked process" if len(named) == 1 else f"{len(named)} forked processes"
    return (
        f"{count} left no part (process {'; '.join(named[:_NAMED_AT_MOST])}{more}): what was "
        "measured there is lost (no file could be opened or written)"
    )


def _without_part(
    forks: Sequence[Fork], children: Sequence[Part], reached: Collection[int]
) -> list[Fork]:
    """The forks, of those whose process id is known, that no part and no running process is of.

    The same id may be used again: a part belongs to the last fork before it.
    """
    of_pid: dict[int, list[Fork]] = defaultdict(list)
    for fork in forks:
        if fork.pid:
            of_pid[fork.pid].append(fork)
    answered: set[Fork] = set()
    for part in children:
        noted = sorted(of_pid[part.pid], key=lambda fork: fork.began_ns)
        at = bisect_right([fork.began_ns for fork in noted], part.start_ns)
        answered.update(noted[max(0, at - 1) : at])
    return [
        fork for fork in forks
        if fork.pid and fork not in answered and fork.pid not in reached
    ]  # fmt: skip
