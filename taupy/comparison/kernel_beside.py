"""Kernels of a trial with their stored code, joined by kernel name and module, or chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from taupy.analysis.kernel_beside import (
    COUNTERS,
    Beside,
    Measured,
    beside,
    disagreements,
    error_of_estimate,
)
from taupy.analysis.kernel_cuts import one_spelling
from taupy.catalog.datasheets import datasheet
from taupy.errors import MissingMetric
from taupy.model.gpu_rows import SiteRow
from taupy.model.kernel_code import KernelCode
from taupy.model.kernel_names import demangled, short_name
from taupy.pprof.view import Cell, Column, View
from taupy.profiledb import gpu_query, kernel_codes, metrics, modules
from taupy.profiledb.database import ProfileDB


class Joined(NamedTuple):
    """The stored code of a kernel of a trial.

    Attributes:
        doubt: why other code may have run; "" if the trial loaded that module.
    """

    codes: list[KernelCode]
    doubt: str


def codes_of(db: ProfileDB, trial_id: int, timer: str) -> Joined:
    """The kernel's stored code from modules that the trial loaded, or else all of it for the
    chips of the trial's GPUs."""
    named = _named(db, trial_id, timer)
    loaded = modules.hashes_of(db, trial_id)
    ran = [code for code in named if code.module in loaded]
    if ran or not named:
        return Joined(ran, "")
    listed = "lists none of these modules" if loaded else "lists no modules"
    doubt = (
        f"joined by kernel name and chip, since trial {trial_id} {listed}: other code may have run"
    )
    return Joined(named, doubt)


def _named(db: ProfileDB, trial_id: int, timer: str) -> list[KernelCode]:
    """The stored code of kernels of this name, for the chips of the trial's GPUs."""
    chips = {device.compute_capability for device in gpu_query.devices(db, trial_id)}
    name = one_spelling(demangled(timer))
    short = short_name(name)

    def meant(full: str, chip: str) -> bool:
        if chips and chip not in chips:
            return False
        # A kernel of C has no parameters in its name; some tools give short names only.
        return one_spelling(full) in (name, short) or (name == short == short_name(full))

    return kernel_codes.stored(db, meant)


def views(db: ProfileDB, trial_id: int, timer: str, sites: Sequence[SiteRow]) -> list[View]:
    """One table per stored code of a kernel; none if there is no code."""
    codes, doubt = codes_of(db, trial_id, timer)
    if not codes:
        return []
    measured = _measured(db, trial_id, timer, max(sites, key=lambda site: site.time_ns))
    return [_view(code, beside(code, measured), doubt) for code in codes]


def _measured(db: ProfileDB, trial_id: int, timer: str, site: SiteRow) -> Measured:
    timed = site.calls - site.untimed
    device = next(
        (gpu for gpu in gpu_query.devices(db, trial_id) if gpu.ordinal == site.context - 1), None
    )
    reached = _counted(db, trial_id, timer, "occupancy")
    return Measured(
        threads=extent(site.block),
        grid=extent(site.grid),
        registers=site.registers,
        shared_static=site.shared_static_bytes,
        shared_dynamic=site.shared_dynamic_bytes,
        local=site.local_bytes,
        occupancy=site.occupancy,
        mean_ns=site.time_ns / timed if timed else None,
        counters={
            name: value
            for name in COUNTERS
            if (value := _counted(db, trial_id, timer, name)) is not None
        },
        reached=reached,
        gpu=datasheet(device.name) if device else None,
    )


def extent(sides: tuple[int, int, int] | None) -> int | None:
    """Threads of a block, or blocks of a grid."""
    return None if sides is None else sides[0] * sides[1] * sides[2]


def _counted(db: ProfileDB, trial_id: int, timer: str, name: str) -> float | None:
    """A metric of one kernel; None if it was not measured."""
    try:
        answer = metrics.answer(db, trial_id, name, ("timer",))
    except MissingMetric:
        return None
    pairs = zip(answer.timers, answer.values("exclusive"), strict=True)
    return next((value for row, value in pairs if row.timer == timer and value == value), None)


def _view(code: KernelCode, rows: Sequence[Beside], doubt: str) -> View:
    columns = (
        Column("what", heading="What"),
        Column("unit", heading="Unit"),
        Column("code", "tau_count", "In the code"),
        Column("expected", "tau_count", "Code x\nexecuted"),
        Column("measured", "tau_count", "Measured"),
        Column("disagrees", heading="Disagrees"),
    )
    cells: list[tuple[Cell, ...]] = [tuple(row) for row in rows]
    notes = [
        f"code at rest of {code.file}, module {code.module[:12]}, {code.compiler}".rstrip(", ")
    ]
    notes += [doubt] if doubt else []
    if error_note := error_of_estimate(rows):
        notes.append(error_note)
    notes += [f"disagrees: {text}" for text in disagreements(rows)]
    return View(f"CODE AND MEASUREMENT of {code.full_name} on {code.chip}:", columns, cells, notes)
