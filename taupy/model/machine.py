"""Ceilings: a processor's peak rates, measured or from its vendor's documents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from taupy.dataclass import dataclass
from taupy.model.gpu import Fact

CeilingKind = Literal["compute", "bandwidth", "latency"]
CeilingSource = Literal["measured", "datasheet", "report", "user"]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One roof of one processor.

    Attributes:
        characterization: uuid shared by all ceilings determined together.
        machine: name of the host; empty for datasheets.
        processor: the CPU's model or the GPU's name.
        device_uuid: of the GPU; empty for CPUs and datasheets.
        kind: compute [flop/s or op/s], bandwidth [B/s] or latency [s].
        name: what it limits: "fp64", "tensor bf16", "L1", "DRAM", "launch".
        pattern: how it was reached: "fma avx512", "copy", "triad", "back-to-back" ...
        threads: CPU threads, or 0 for a whole GPU.
        value: the best observed, in `unit`. `median` and `spread` (interquartile range relative
            to the median) say how stable it was; None where not measured.
        clock_hz: the clock during the measurement, None where unknown.
        bytes: the working set, for bandwidths.
        reference: the document, command or library that the value comes from.
        measured_at: ISO 8601, UTC; empty for datasheets.
    """

    characterization: str
    machine: str
    processor: str
    device_uuid: str
    kind: CeilingKind
    name: str
    pattern: str
    threads: int
    value: float
    unit: str
    source: CeilingSource
    median: float | None = None
    spread: float | None = None
    samples: int | None = None
    clock_hz: float | None = None
    bytes: int | None = None
    reference: str = ""
    measured_at: str = ""


ROOF_FACT = "Roof "
CLOCK_FACT = "Clock of the Roofs"
"""Facts of a device: "Roof fp64" in flop/s, "Roof L2" in B/s, and the clock they apply to."""


def reported(processor: str, facts: Iterable[Fact], reference: str) -> list[Ceiling]:
    """The ceilings that an imported report gives for a device, from the device's facts."""
    numeric = {fact.name: fact for fact in facts if isinstance(fact.value, int | float)}
    clock = numeric.get(CLOCK_FACT)
    return [
        Ceiling(
            characterization="report",
            machine="",
            processor=processor,
            device_uuid="",
            kind="bandwidth" if fact.unit == "B/s" else "compute",
            name=name.removeprefix(ROOF_FACT),
            pattern="peak at its clock",
            threads=0,
            value=float(fact.value),
            unit=fact.unit,
            source="report",
            clock_hz=None if clock is None else float(clock.value),
            reference=reference,
        )
        for name, fact in numeric.items()
        if name.startswith(ROOF_FACT) and float(fact.value) > 0
    ]
