"""Times of several hosts on one clock, for what shows them side by side.

The clocks of hosts that took part in collectives are aligned by them, those of other hosts by the
beginning of their processes if they cannot agree (`model/host_clocks.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace
from statistics import median

from taupy.model import host_clocks, job
from taupy.model.profile import Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.query import node_facts
from taupy.ranks.reading import read_ranks


def offsets_ns(db: ProfileDB, trial: int) -> dict[int, int]:
    """How far the clocks of a trial's nodes are ahead of the one that is furthest behind."""
    facts = node_facts(db, trial)
    host_of = {node: own[job.HOST] for node, own in facts.items() if own.get(job.HOST)}
    if len(set(host_of.values())) < 2:
        return {}
    roughly = host_clocks.offsets_ns(facts)
    ranks, _ = read_ranks(db, trial)
    members = [rank for rank in ranks.ranks if rank.communicators and rank.place in host_of]
    if not ranks.clocks or not members:
        return roughly
    exact: dict[str, list[float]] = {}
    for rank in members:
        clock = ranks.clocks.get(rank.number)
        exact.setdefault(host_of[rank.place], []).append(clock.offset_ns if clock else 0.0)
    first = roughly.get(members[0].place, 0)
    ahead = {
        node: round(median(exact.get(host, ()) or (0.0,))) or roughly.get(node, 0) - first
        for node, host in host_of.items()
    }
    least = min(ahead.values())
    return {node: offset - least for node, offset in ahead.items() if offset > least}


def move_to_one_clock(profile: Profile, offsets: Mapping[int, int]) -> None:
    """Subtract each node's offset [ns] from the times of its activities and samples."""
    for measured in profile.threads:
        by = offsets.get(measured.thread.node, 0)
        if not by:
            continue
        measured.activities = [
            activity._replace(start_ns=activity.start_ns - by, end_ns=activity.end_ns - by)
            for activity in measured.activities
        ]
        measured.samples = [
            replace(
                samples,
                start_ns=array("q", (moment - by for moment in samples.start_ns)),
                end_ns=array("q", (moment - by for moment in samples.end_ns)),
            )
            for samples in measured.samples
        ]
