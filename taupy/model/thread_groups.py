"""Kinds of a program's threads. Their times overlap, so that they are never added together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from taupy.model.collectives import THREAD_NAME
from taupy.model.job import is_rank
from taupy.model.rows import ThreadRow

Group = Literal["main thread", "other ranks", "worker processes", "other threads", "collectives"]
"""The main thread of the launched process or first rank; the main threads of the other ranks; those
of further processes; all other threads; the threads that stand for collectives' backends."""

GROUPS: tuple[Group, ...] = get_args(Group)
MAIN: Group = GROUPS[0]


def groups_of(threads: Sequence[ThreadRow], facts: Mapping[int, Mapping[str, str]]) -> list[Group]:
    """The group of each host thread.

    Args:
        facts: the metadata of each node.
    """
    program = [thread for thread in threads if thread.name != THREAD_NAME]
    first = min(program, default=None)
    return [_group(thread, first, facts) for thread in threads]


def _group(
    thread: ThreadRow, first: ThreadRow | None, facts: Mapping[int, Mapping[str, str]]
) -> Group:
    if thread.name == THREAD_NAME:
        return "collectives"
    if thread == first:
        return "main thread"
    if thread.thread:
        return "other threads"
    is_one = is_rank(thread.node, facts.get(thread.node, {}))
    return "other ranks" if is_one else "worker processes"
