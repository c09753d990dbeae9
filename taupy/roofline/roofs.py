"""The roofs of one processor: one ceiling for each precision and level.

The caller provides the ceilings, measured or from a datasheet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from taupy.errors import UsageError
from taupy.model.machine import Ceiling, CeilingKind
from taupy.model.work import LEVELS

PRECISIONS = (
    *("tensor fp8", "tensor int8", "tensor fp16", "tensor bf16", "tensor tf32", "tensor fp64"),
    *("bf16", "fp16", "fp32", "fp64"),
)

Best = Callable[[CeilingKind, str], Ceiling | None]
"""Returns the most reliable ceiling of a kind and name."""

# Substitutes for a precision without a roof, or for an unknown one: a roof that is not lower, so
# that no point seems nearer to its roof than it is. Half precision without a roof is the exception;
# it uses fp32's, since a tensor-core roof does not apply to work outside tensor cores.
_STAND_INS = {
    "any": ("fp32", "fp64"),
    "tensor": ("tensor fp16", "tensor bf16", "tensor tf32", "tensor fp64"),
    "fp16": ("bf16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "tensor bf16": ("tensor fp16", "tensor"),
    "tensor fp16": ("tensor bf16", "tensor"),
    "tensor fp8": ("tensor int8", "tensor fp16"),
    "tensor int8": ("tensor fp8", "tensor fp16"),
    "tensor tf32": ("tensor fp16", "tensor bf16"),
    "tensor fp64": ("tensor tf32", "tensor fp16"),
    "fp64": ("fp32",),
}


@dataclass(frozen=True, slots=True)
class Roofs:
    """The roofs of one processor.

    Attributes:
        compute: precision -> ceiling [flop/s]; bandwidth: level -> ceiling [B/s].
        launch: the latency of one launch [s], None if unknown.
        rule: "precision": each precision uses its own peak; otherwise the name of a single peak
            for all flop (Wang et al.).
    """

    processor: str
    compute: Mapping[str, Ceiling] = field(default_factory=dict)
    bandwidth: Mapping[str, Ceiling] = field(default_factory=dict)
    launch: Ceiling | None = None
    rule: str = "precision"

    def peak(self, precision: str) -> Ceiling | None:
        """The roof for flop of a precision; None if there is none."""
        if self.rule != "precision":
            return self.compute.get(self.rule)
        if precision in self.compute:
            return self.compute[precision]
        for other in _STAND_INS.get(precision, ()):
            if other in self.compute:
                return self.compute[other]
        return None

    @property
    def empty(self) -> bool:
        return not self.compute and not self.bandwidth

    def levels(self) -> list[str]:
        """Memory levels that have a roof, the nearest first."""
        return [level for level in LEVELS if level in self.bandwidth]


def none_known(processor: str) -> str:
    """A message for a processor without known ceilings."""
    return (
        f"no ceilings known for {processor or 'this processor'}: measure them there with "
        "`taupy ceilings`, or name a GPU or a file with --ceilings"
    )


def roofs_of(
    processor: str, best: Best, *, rule: str = "precision", latency: Ceiling | None = None
) -> Roofs:
    """Choose the roofs of a processor.

    Raises:
        UsageError: the requested single peak does not exist.
    """
    compute = {name: ceiling for name in PRECISIONS if (ceiling := best("compute", name))}
    if rule != "precision" and rule not in compute:
        named = [name for name in compute if name.replace(" ", "") == rule.replace(" ", "")]
        if not named:
            compute_names = ", ".join(compute) or "none"
            raise UsageError(
                f"{processor or 'the processor'} has no peak '{rule}' (it has: {compute_names})"
            )
        rule = named[0]
    bandwidth = {level: ceiling for level in LEVELS if (ceiling := _of_level(level, best))}
    return Roofs(processor, compute, bandwidth, latency or best("latency", "launch"), rule)


def _of_level(level: str, best: Best) -> Ceiling | None:
    bandwidth = best("bandwidth", level)
    if bandwidth is None and level == "DRAM":
        return best("bandwidth", "HBM")
    return bandwidth
