"""A trial's kernels or routines placed under the roofs that are known of its processor.

What `taupy candidates --by roofline` needs of the roofline: the roofs kept in the database,
then the datasheet's.
"""

from __future__ import annotations

from taupy.catalog import datasheets
from taupy.errors import UsageError
from taupy.model.machine import Ceiling, CeilingKind
from taupy.model.rows import TrialRow
from taupy.profiledb import ceilings as stored
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.roofline import points
from taupy.roofline.placement import Placement, place
from taupy.roofline.roofs import Roofs, roofs_of


def placements(db: ProfileDB, trial: TrialRow, processor: str | None = None) -> list[Placement]:
    """The kernels of a trial, or its routines where it has none, under their roofs.

    Args:
        processor: whose roofs are taken; the trial's own where None.

    Raises:
        MissingMetric: no operations or bytes were measured.
        UsageError: nothing is known of that processor.
    """
    work = trial_work(db, trial)
    found = points.points(work, "kernel" if points.runs_on_gpu(work) else "routine")
    points.require(found, work)
    there = stored.ceilings(db)
    names = {point.processor for point in found}
    roofs = {name: _roofs(processor or name, there) for name in names}
    if processor is not None and all(one.empty for one in roofs.values()):
        near = ", ".join(f"'{one.gpu}'" for one in datasheets.candidates(processor))
        more = f"; it may be one of {near}" if near else ""
        raise UsageError(
            f"no roofs are known of '{processor}'{more}; `taupy ceilings list` shows those that "
            "are kept"
        )
    return [place(point, roofs[point.processor]) for point in found]


def _roofs(processor: str, there: list[Ceiling]) -> Roofs:
    wanted = processor.strip().lower()
    pool = [one for one in there if one.processor.strip().lower() == wanted]
    sheet = datasheets.datasheet(processor)
    if sheet is not None:
        pool += datasheets.ceilings(sheet)

    def best(kind: CeilingKind, name: str) -> Ceiling | None:
        return stored.best_of(pool, kind, name)

    return roofs_of(processor, best)
