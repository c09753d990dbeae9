"""How near to their roofs the kernels of each operator come, for `taupy compare --by operator`."""

from __future__ import annotations

from collections.abc import Sequence

from taupy.model.rows import TrialRow
from taupy.network.operators import GROUP
from taupy.profiledb import ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.roofline import points
from taupy.roofline.choice import Known, Wishes, placed
from taupy.roofline.gathering import Sum, add_kernel
from taupy.roofline.summed import gpu_point


def times(
    db: ProfileDB, trials: Sequence[TrialRow]
) -> dict[int, dict[tuple[str, str], tuple[float, float] | None]]:
    """Trial -> operator and outermost operator -> the shortest time that the roofs allow, and the
    time taken, both of the counted launches [s]; None where not enough was counted. Trials without
    counters are missing."""
    works = [work for work in trial_work(db, trials) if points.runs_on_gpu(work)]
    keys: list[tuple[int, tuple[str, str]]] = []
    own = []
    for work in works:
        sums: dict[tuple[str, str], Sum] = {}
        for kernel in work.kernels:
            above = [work.timers[at] for at in kernel.owners if GROUP in work.timers[at].groups]
            if above:
                pair = above[0].short, above[-1].short
                add_kernel(sums.setdefault(pair, Sum(above[0])), kernel, "routine")
        keys += [(work.trial_id, pair) for pair in sums]
        own += [gpu_point(work, "routine", total) for total in sums.values()]
    stored = Known(ceilings.ceilings(db), ceilings.best_of, lambda text: [])
    of_trials: dict[int, dict[tuple[str, str], tuple[float, float] | None]] = {}
    for (trial, pair), placement in zip(keys, placed(Wishes(), own, works, stored), strict=True):
        share, point = placement.roof_share, placement.point
        is_known = share is not None and not point.uncounted and not point.rates_alone
        ideal = (share * point.time, point.time) if share is not None and is_known else None
        of_trials.setdefault(trial, {})[pair] = ideal
    return of_trials
