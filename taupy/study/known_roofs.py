"""Ceilings for `taupy roofline` and `taupy candidates`: from the database and from reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taupy.errors import FormatError
from taupy.formats import registry
from taupy.formats.nsight import ncu_csv, ncu_rep
from taupy.model.machine import Ceiling, reported
from taupy.model.progress import SILENT
from taupy.model.rows import TrialRow
from taupy.profiledb import ceilings as stored
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.roofline_query import trial_work
from taupy.roofline import points
from taupy.roofline.choice import Known, Wishes, placed
from taupy.roofline.placement import Placement


def known_ceilings(ceilings: Sequence[Ceiling]) -> Known:
    """The selected ceilings, from the database and from Nsight Compute's reports."""
    return Known(ceilings, stored.best_of, _of_report)


def of_trial(db: ProfileDB, trial: TrialRow, wishes: Wishes) -> list[Placement]:
    """The kernels of a trial with their roofs; routines if no kernel was counted.

    Raises:
        MissingMetric: no operations or bytes were measured.
        UsageError: the requested ceilings are unknown.
    """
    (work,) = trial_work(db, [trial])
    placeable = points.points(work, "kernel" if points.runs_on_gpu(work) else "routine")
    points.require(placeable, work)
    return placed(wishes, placeable, [work], known_ceilings(stored.ceilings(db)))


def _of_report(text: str) -> list[Ceiling]:
    """The peaks in a file of Nsight Compute; none if it is another tool's file."""
    path = Path(text)
    first = registry.first_bytes(path)
    reads = next(
        (reader.read for reader in (ncu_rep, ncu_csv) if reader.recognises(path, first)), None
    )
    if reads is None:
        return []
    devices = [device for profile in reads(path, SILENT) for device in profile.devices]
    reported_ceilings = [
        ceiling for device in devices for ceiling in reported(device.name, device.facts, path.name)
    ]
    if not reported_ceilings:
        raise FormatError(f"{path} has no peaks: record them with `ncu --set roofline`")
    return reported_ceilings
