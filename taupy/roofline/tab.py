"""The charts of `taupy roofline` for the page of a trial."""

from __future__ import annotations

from contextlib import suppress

from taupy.errors import MissingMetric
from taupy.model.rows import TrialRow
from taupy.profiledb import ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.roofline import points
from taupy.roofline.choice import Known, Wishes, placed
from taupy.roofline.drawing import Drawing
from taupy.roofline.page import html_page


def roofline_page(db: ProfileDB, trial: TrialRow) -> str:
    """Kernels, or routines if no kernel was counted, and the layers of a network; "" without
    operations or bytes."""
    (work,) = trial_work(db, [trial])
    try:
        placeable = points.points(work, "kernel" if points.runs_on_gpu(work) else "routine")
        points.require(placeable, work)
    except MissingMetric:
        return ""
    with suppress(MissingMetric):
        placeable += points.points(work, "layer")
    stored = Known(ceilings.ceilings(db), ceilings.best_of, lambda text: [])
    placements = placed(Wishes(), placeable, [work], stored)
    return html_page(Drawing(placements).all_charts())
