"""Match the operators of different trials.

Operators of one name are the same. What is then left on its own is matched by the operator around
it, if other sides have something left there, too: `aten::cudnn_convolution` on one GPU is
`aten::miopen_convolution` on another, both in `aten::conv2d`. Nothing is matched by its place in an
order, so that calls that are missing on a side change numbers, never names. A node of a backward
pass has one name, whether torch.profiler or taupy recorded it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from taupy.analysis.match import Key, Rule
from taupy.network.operators import NOT_OPERATORS, plain_name

Nested = tuple[str, str]
"""An operator, and the outermost one around it, which may be itself."""


def matched_operators(
    sides: Sequence[Collection[Nested]], *, exact: bool = False
) -> list[dict[Nested, Key]]:
    """Each side's operators -> the keys under which their values are added up.

    Args:
        exact: by name only.
    """
    keys: list[dict[Nested, Key]] = [{} for _ in sides]
    names = [{plain_name(name) for name, _ in side} for side in sides]
    alone: list[dict[str, list[Nested]]] = [{} for _ in sides]
    for at, side in enumerate(sides):
        others = set[str]().union(*(other for place, other in enumerate(names) if place != at))
        for pair in side:
            name, outer = map(plain_name, pair)
            if name in others or name in NOT_OPERATORS:
                keys[at][pair] = _key(name, name, "same")
            else:
                alone[at].setdefault(outer, []).append(pair)
    for at, of_side in enumerate(alone):
        for outer, inner in of_side.items():
            having = [side[outer] for side in alone if outer in side]
            together = len(having) > 1 and outer not in NOT_OPERATORS and not exact
            label = f"{outer}: {' = '.join(map(_listed, having))}"
            for pair in inner:
                name = plain_name(pair[0])
                keys[at][pair] = (
                    _key(outer, label, "outer") if together else _key(name, name, "same")
                )
    return keys


def _listed(pairs: Collection[Nested]) -> str:
    return " + ".join(sorted({plain_name(name) for name, _ in pairs}))


def _key(name: str, label: str, rule: Rule) -> Key:
    return Key((rule, name), label, name, None, None, "OPERATOR", rule)
