"""Which layers of different trials are the same, asked of the database.

`analysis/layer_match.py` matches them: by qualified name, then by class and position.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from taupy.analysis.layer_match import matched_layers
from taupy.analysis.match import Key
from taupy.comparison.trial_values import TrialValues

_LISTED = 5


def layer_keys(values: TrialValues, sides: Sequence[Collection[int]]) -> list[dict[str, Key]]:
    """The keys of each side's layers by name; a side is some trials."""
    kinds: list[dict[str, str]] = [{} for _ in sides]
    for answer in values.answers("layer", "layer_type", calls=False):
        rows = (answer.table.row_labels(name) for name in ("trial", "layer", "layer_type"))
        for trial, layer, kind in zip(*rows, strict=True):
            for side, of_side in zip(sides, kinds, strict=True):
                if layer is not None and trial in side:
                    of_side.setdefault(layer, kind)
    return matched_layers(kinds)


def remarks(keys: Sequence[dict[str, Key]]) -> list[str]:
    """Which layers share a row though their names differ, and why."""
    named: dict[str, dict[str, list[str]]] = {"prefix": {}, "position": {}}
    for of_side in keys:
        for name, key in of_side.items():
            names = named.get(key.rule, {}).setdefault(key.short_name, [])
            if name not in names:
                names.append(name)
    texts = {"prefix": "without a wrapper's prefix", "position": "by class and position"}
    return [
        f"layers matched {texts[rule]}: {_listed([' = '.join(names) for names in of_rule])}"
        for rule, matched in named.items()
        if (of_rule := [names for names in matched.values() if len(names) > 1])
    ]


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _LISTED
    return ", ".join(texts[:_LISTED]) + (f" and {more} more" if more > 0 else "")
