"""Single launches, copies, waits and API calls of a traced trial, with their start and end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from taupy.model.rows import ThreadRow
from taupy.profiledb.database import ProfileDB, of_a_sound_file, refuse_infinite

_WHERE = """
      FROM activity WHERE trial_id = :trial AND start_ns > 0 AND end_ns >= start_ns
"""

_COUNT = f"SELECT count(*) {_WHERE}"

_LONGEST = f"""
    SELECT thread.node, thread.context, thread.thread, thread.kind, thread.name,
           timer.short_name, longest.kind, longest.start_ns, longest.end_ns
      FROM (SELECT * {_WHERE} ORDER BY end_ns - start_ns DESC LIMIT :most) AS longest
      JOIN thread ON thread.id = longest.thread_id
      JOIN callpath ON callpath.id = longest.callpath_id
      JOIN timer ON timer.id = callpath.timer_id
     ORDER BY thread.node, thread.context, thread.thread, longest.start_ns, longest.end_ns DESC
"""

_WORKS = """
    SELECT thread.node, activity.callpath_id, activity.end_ns - activity.start_ns
      FROM activity JOIN thread ON thread.id = activity.thread_id
     WHERE activity.trial_id = ? AND activity.kind IN ('kernel', 'copy', 'memset')
       AND activity.end_ns >= activity.start_ns
     ORDER BY thread.node, coalesce(activity.correlation, 0), activity.start_ns, activity.id
"""


class ActivityRow(NamedTuple):
    """One activity; times are nanoseconds since the epoch."""

    thread: ThreadRow
    name: str
    kind: str
    start_ns: int
    end_ns: int


@of_a_sound_file
def count(db: ProfileDB, trial_id: int) -> int:
    """How many activities of the trial have a start and an end."""
    return int(db.rows(_COUNT, {"trial": trial_id})[0][0])


@of_a_sound_file
def longest(db: ProfileDB, trial_id: int, most: int, ahead: Mapping[int, int]) -> list[ActivityRow]:
    """The trial's `most` longest activities, sorted by thread and start, outer ones first.

    Args:
        ahead: how far the clocks of nodes are ahead [ns]; their times are corrected.
    """
    rows = []
    for *thread, timer, kind, start, end in db.rows(_LONGEST, {"trial": trial_id, "most": most}):
        refuse_infinite((start, end))
        place = ThreadRow(*thread)
        offset = ahead.get(place.node, 0)
        rows.append(ActivityRow(place, timer, kind, start - offset, end - offset))
    return rows


class LaunchedWork(NamedTuple):
    """Work of a GPU: its call path, and how long it ran."""

    callpath: int
    time_ns: int


@of_a_sound_file
def works(db: ProfileDB, trial_id: int) -> dict[int, list[LaunchedWork]]:
    """Process -> its GPU work in the order of the calls that launched it, as far as these are
    known: their numbers rise. Without them, in the order in which it began."""
    of_nodes: dict[int, list[LaunchedWork]] = {}
    for node, callpath, time_ns in db.stream(_WORKS, (trial_id,)):
        refuse_infinite((time_ns,))
        of_nodes.setdefault(node, []).append(LaunchedWork(callpath, time_ns))
    return of_nodes
