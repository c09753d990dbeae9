"""Cells of a table of layers: parameters, shapes and operations of each layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from taupy.model.profile import LayerFacts
from taupy.pprof.view import Cell, Column
from taupy.units import several

COLUMNS = (
    Column("parameters", "prefixed", "Params", width=6, spare=True),
    Column("parameter_bytes", "bytes", audience="machines"),
    Column("flop", "prefixed", "Flop", width=6, spare=True),
    Column("backward_flop", "prefixed", "Backward\nflop", width=6, spare=True),
    Column("output_bytes", "bytes", "Output\nbytes", width=8, spare=True),
    Column("memory_growth_bytes", "bytes", "Memory\ngrowth", width=8, spare=True),
    Column("input", heading="Input", spare=True),
    Column("output", heading="Output", spare=True),
    Column("without_formula", audience="machines"),
)

_NAMED_AT_MOST = 12


@dataclass(slots=True)
class Described:
    """Facts of the layers in one row, each with its number of calls, and of backward passes."""

    facts: list[LayerFacts] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    passes: list[float] = field(default_factory=list)
    growth_bytes: float | None = None

    def add(self, facts: LayerFacts | None, calls: int, passes: float) -> None:
        if facts is not None:
            self.facts.append(facts)
            self.calls.append(calls)
            self.passes.append(calls if facts.backward_passes is None else passes)

    def cells(self) -> tuple[Cell, ...]:
        """The cells of `COLUMNS`. For several layers, only shapes that they share are shown."""
        return (
            self._sum("parameters"),
            self._sum("parameter_bytes"),
            _together(
                (calls, facts.calls, facts.flop_of(calls))
                for facts, calls in zip(self.facts, self.calls, strict=True)
            ),
            _together(
                (passes, facts.counted_passes, facts.backward_flop_of(passes))
                for facts, passes in zip(self.facts, self.passes, strict=True)
            ),
            self._sum("output_bytes") if len(self.facts) == 1 else None,
            self.growth_bytes,
            self._shape("input"),
            self._shape("output"),
            " ".join(self.unknown) or None,
        )

    @property
    def unknown(self) -> list[str]:
        """Operators without a formula."""
        return sorted({name for facts in self.facts for name in facts.unknown})

    def _sum(self, name: str) -> int | None:
        values = [getattr(facts, name) for facts in self.facts]
        return sum(values) if values and None not in values else None

    def _shape(self, name: str) -> str | None:
        shapes = {getattr(facts, name) for facts in self.facts}
        (shape,) = shapes if len(shapes) == 1 else (None,)
        varies = any(getattr(facts, f"{name}_varies") for facts in self.facts)
        return f"{shape} (varies)" if shape and varies else shape


def _together(rows: Iterable[tuple[float, int, float | None]]) -> float | None:
    """Operations of several layers; None if one was called but never counted, or none has any.

    Args:
        rows: of each layer, the calls or passes, how many were counted, and their operations.
    """
    flop = []
    for times, counted, of_layer in rows:
        if times and not counted:
            return None
        if of_layer is not None:
            flop.append(of_layer)
    return sum(flop) if flop else None


def notes(rows: Sequence[Described]) -> list[str]:
    """Notes on the numbers."""
    facts = [layer for row in rows for layer in row.facts]
    if not facts:
        return []
    counted = max(layer.calls for layer in facts)
    calls = max(calls for row in rows for calls in row.calls)
    remarks = [
        "flop: of matrix products, convolutions, attention and recurrent layers, counted in up to "
        f"{counted} of {calls} calls of a layer"
    ]
    names = sorted({name for row in rows for name in row.unknown})
    if names:
        more = (
            f" and {several(len(names) - _NAMED_AT_MOST, 'other')}"
            if len(names) > _NAMED_AT_MOST
            else ""
        )
        remarks.append(f"no formula for: {', '.join(names[:_NAMED_AT_MOST])}{more}")
    return remarks


def of_nodes(
    facts: Mapping[tuple[int, str], LayerFacts], nodes: Collection[int]
) -> dict[str, LayerFacts]:
    """Facts of these nodes by the timer's name; of the first node that has them."""
    by_name: dict[str, LayerFacts] = {}
    for (node, name), layer in sorted(facts.items(), key=lambda fact: fact[0]):
        if node in nodes:
            by_name.setdefault(name, layer)
    return by_name
