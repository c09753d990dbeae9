"""The clocks of a job's hosts, from what is known of each process: its host, start and end.

Processes of one host share a clock. Hosts with processes of the same attempt of a job ran them at
the same time; if their clocks say otherwise, the clocks differ.
"""

from __future__ import annotations

from taupy.model import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeGuard

NAMES = (job.HOST, job.ATTEMPT, job.STARTED, job.ENDED)
"""Metadata of nodes that are read here."""


def duration_ns(facts: Mapping[int, Mapping[str, str]]) -> int | None:
    """How long a job of several hosts ran, without subtracting times of different hosts.

    This is the longest time of a host or, if the attempts together took longer, the sum of the
    longest time of a host in each of them. None for a job of one host.

    Args:
        facts: the metadata of each node.
    """
    spans = _spans(facts)
    hosts = {host for host, _ in spans}
    if len(hosts) < 2:
        return None
    longest: dict[int, int] = {}
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for (host, attempt), (start, end) in spans.items():
        longest[attempt] = max(longest.get(attempt, 0), end - start)
        begins[host] = min(begins.get(host, start), start)
        ends[host] = max(ends.get(host, end), end)
    whole = max(ends[host] - begins[host] for host in hosts)
    return max(whole, sum(longest.values())) * 1000


def offsets_ns(facts: Mapping[int, Mapping[str, str]]) -> dict[int, int]:
    """How far the clocks of nodes are ahead of the one that is furthest behind, at least roughly:
    as if all processes of an attempt had begun together. Nodes whose clocks may agree are omitted.
    """
    ahead = _offsets(_spans(facts))
    return {
        node: ahead[own[job.HOST]] * 1000
        for node, own in facts.items()
        if ahead.get(own.get(job.HOST, ""))
    }


def remark(facts: Mapping[int, Mapping[str, str]]) -> str:
    """A sentence on the hosts whose clocks cannot agree; "" if there are none."""
    offsets = sorted((offset, host) for host, offset in _offsets(_spans(facts)).items() if offset)
    if not offsets:
        return ""
    named = ", ".join(f"{host} by about {offset / 1e6:,.0f} s" for offset, host in offsets[:8])
    more = f" and {len(offsets) - 8} more" if len(offsets) > 8 else ""
    return (
        f"the clocks of hosts differ; ahead of the first: {named}{more} (their processes did not "
        "run at the same time by these clocks): the duration is that of the host that took longest"
    )


def _spans(facts: Mapping[int, Mapping[str, str]]) -> dict[tuple[str, int], tuple[int, int]]:
    """Host and attempt -> when its processes began and ended, by its clock [us]."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    for own in facts.values():
        host, started, ended = own.get(job.HOST), own.get(job.STARTED), own.get(job.ENDED)
        if not host or not _is_time(started) or not _is_time(ended):
            continue
        attempt = own.get(job.ATTEMPT, "1")
        key = host, int(attempt) if attempt.isdecimal() and len(attempt) < 10 else 1
        start, end = spans.get(key, (int(started), int(ended)))
        spans[key] = min(start, int(started)), max(end, int(ended))
    return spans


def _is_time(text: str | None) -> TypeGuard[str]:
    return text is not None and text.isascii() and text.isdigit() and len(text) < 19


def _offsets(spans: Mapping[tuple[str, int], tuple[int, int]]) -> dict[str, int]:
    """Host -> how far its clock is ahead of the one that is furthest behind [us]; 0 if they may
    agree. Hosts that share no attempt with the others are omitted."""
    attempts: dict[str, dict[int, tuple[int, int]]] = {}
    for (host, attempt), span in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        attempts.setdefault(host, {})[attempt] = span
    offsets = dict.fromkeys([*attempts][:1], 0)
    before = 0
    while before < len(offsets):
        before = len(offsets)
        for host in (host for host in attempts if host not in offsets):
            own = attempts[host]
            at_once = [
                (other, attempts[other][attempt], own[attempt])
                for other in offsets
                for attempt in sorted(own.keys() & attempts[other].keys())
            ]
            agreeing = [
                other for other, span, mine in at_once if span[0] <= mine[1] and mine[0] <= span[1]
            ]
            if agreeing:
                offsets[host] = offsets[agreeing[0]]
            elif at_once:
                other, span, mine = at_once[0]
                offsets[host] = offsets[other] + mine[0] - span[0]
    return offsets
