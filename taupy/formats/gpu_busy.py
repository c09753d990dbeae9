"""How long each GPU of a trace worked on anything: the union over its streams.

Computed at import, since the times of single kernels are stored only with `--trace`.
"""

from __future__ import annotations

from taupy.model.gpu import BUSY
from taupy.model.profile import Profile

_WORK = ("kernel", "copy", "memset")


def note(profile: Profile) -> None:
    """Add the busy time to the metadata of each GPU's node, where all its work has times."""
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    timed: dict[tuple[int, int], int] = {}
    for measured in profile.threads:
        if measured.thread.kind != "stream" or not measured.launches:
            continue
        gpu = measured.thread.node, measured.thread.context
        timed[gpu] = timed.get(gpu, 0) + sum(
            launch.count - launch.untimed for launch in measured.launches
        )
        spans.setdefault(gpu, []).extend(
            (activity.start_ns, activity.end_ns)
            for activity in measured.activities
            if activity.kind in _WORK
        )
    for (node, context), of_gpu in spans.items():
        if timed[node, context] and len(of_gpu) == timed[node, context]:
            facts = profile.node_metadata.setdefault(node, {})
            facts[f"{BUSY}{context}"] = str(_union(of_gpu))


def _union(spans: list[tuple[int, int]]) -> int:
    busy = until = 0
    for start, end in sorted(spans):
        busy += max(0, end - max(start, until))
        until = max(until, end)
    return busy
