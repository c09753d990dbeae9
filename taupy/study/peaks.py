"""Values as shares of each device's peak, measured or from its datasheet."""

from __future__ import annotations

from taupy.catalog import datasheets
from taupy.errors import UsageError
from taupy.model.machine import Ceiling, CeilingKind
from taupy.model.metric import Metric
from taupy.model.rows import TrialRow
from taupy.profiledb import ceilings, trial_facts
from taupy.profiledb.database import ProfileDB


class Peaks:
    """One kind of peak of the trials' devices.

    Attributes:
        notes: the peak of each GPU that was asked for, or why there is none.
    """

    def __init__(self, db: ProfileDB, metric: Metric, value: str, ceiling: str | None) -> None:
        """Determine the roof.

        Args:
            ceiling: its name; None to derive it from the metric.

        Raises:
            UsageError: the metric has no peak, or several.
        """
        self.db = db
        self.metric = metric
        self.is_rate = metric.unit in ("flop/s", "B/s")
        if metric.unit not in ("flop", "flop/s", "B", "B/s") or value != "exclusive":
            raise UsageError(
                f"'{metric.name}' has the unit {metric.unit or 'none'}, and peaks exist for "
                "operations and bytes only: use flop_fp32, flop_tensor_bf16, bytes_dram, "
                "bandwidth_dram or the like"
            )
        self.kind: CeilingKind = "compute" if metric.unit.startswith("flop") else "bandwidth"
        self.name = ceiling or _ceiling_of(metric.name)
        if self.name is None:
            raise UsageError(
                f"'{metric.name}' has several possible peaks: choose one with "
                "--ceiling NAME, such as fp32, 'tensor bf16' or DRAM"
            )
        self._roofs: dict[str, Ceiling | None] = {}
        self.notes: dict[str, None] = {}

    def share(self, trial: TrialRow, value: float, time_ns: float | None) -> float:
        """In percent of the peak; NaN if it is not known."""
        roof = self._roof(trial)
        if roof is None or not roof.value:
            return float("nan")
        if self.is_rate:
            return 100 * value / roof.value
        return 100 * value / time_ns * 1e9 / roof.value if time_ns else float("nan")

    def _roof(self, trial: TrialRow) -> Ceiling | None:
        """The roof of the trial's GPU."""
        models = trial_facts.gpu_models(self.db, [trial.id])[trial.id]
        processor = "" if " + " in models else models
        if processor not in self._roofs:
            self._roofs[processor] = self._best(processor) if processor else None
        roof = self._roofs[processor]
        if roof is not None:
            note = f"peak {self.name} of {processor}: {roof.value:.4g} {roof.unit}, {roof.source}"
            note += f" ({roof.reference})" if roof.reference else ""
        elif processor:
            note = (
                f"no peak known for {self.name} of {processor}: no datasheet; measure it with "
                "`taupy ceilings`"
            )
        else:
            what = "on several kinds of GPU" if models else "without a known GPU"
            note = f"trials {what} have no peak"
        self.notes[note] = None
        return roof

    def _best(self, processor: str) -> Ceiling | None:
        assert self.name is not None
        of_processor = ceilings.ceilings(self.db, processor=processor)
        peak = ceilings.best_of(of_processor, self.kind, self.name)
        if peak is not None:
            return peak
        sheet = datasheets.datasheet(processor)
        if sheet is None:
            return None
        # As in `taupy roofline`: published figures fill gaps in the datasheets.
        return ceilings.best_of(
            datasheets.ceilings(sheet), self.kind, self.name
        ) or ceilings.best_of(datasheets.ceilings(sheet, "report"), self.kind, self.name)


def _ceiling_of(metric: str) -> str | None:
    """The roof that belongs to a metric, by its name."""
    name = metric.lower()
    for level, roof in (("dram", "DRAM"), ("l2", "L2"), ("l1", "L1")):
        if name in (f"bytes_{level}", f"bandwidth_{level}"):
            return roof
    if name.startswith("flop_tensor_"):
        return f"tensor {name.removeprefix('flop_tensor_')}"
    if name in ("flop_fp64", "flop_fp32", "flop_fp16"):
        return name.removeprefix("flop_")
    return None
