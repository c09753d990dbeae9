"""The phase of a call path, which its timers' groups tell from the root on."""

from __future__ import annotations

from taupy.dataclass import NamedTuple
from taupy.network.phases import kind_of, meant


class Within(NamedTuple):
    """Where a call path is: in the innermost phase, `kind`, of those it is `inside`."""

    kind: str
    inside: frozenset[str]


def phase_in(above: Within | None, groups: str) -> Within | None:
    """Where a call path is; None for outside of phases.

    Args:
        above: where its caller is.
        groups: of its timer, joined by `|`.
    """
    inside = above.inside if above is not None else frozenset[str]()
    kind = meant(kind_of(groups), inside)
    return above if kind is None else Within(kind, inside | {kind})
