"""The entrances of doors that the core opens; it finds them by name, since it imports none."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

Entrance = Literal[
    "ranks.answer",  # an answer like those of taupy.answers, and what the report says of ranks
    "ranks.heat",  # the page's map of ranks and steps
    "ranks.host_times",  # the clocks of hosts, for the page's timeline
    "roofline.operators",  # their share of the roof, for comparisons
    "roofline.tab",  # the page's chart
    "study.candidates",  # an answer, too
    "store.reading",  # a database at an address, for reading
    "store.editing",  # ... and for changes
]


def door(entrance: Entrance) -> Any:
    """The module of that name."""
    return import_module(f"taupy.{entrance}")
