"""The corpus, by class of fault."""

from __future__ import annotations

from importlib import import_module

from ..cases import Case

CLASSES = (
    "exits",
    "tracebacks",
    "targets",
    "options",
    "environment",
    "identity",
    "shadowing",
    "pristine",
    "recursion",
    "patching",
    "hooks",
    "threads",
    "processes",
    "pools",
    "signals",
    "descriptors",
    "generators",
    "hostile",
    "libraries",
)


def catalogue() -> dict[str, Case]:
    """Every case by its name, `class-name`."""
    found: dict[str, Case] = {}
    for room in CLASSES:
        for case in import_module(f"{__name__}.{room}").CASES:
            name = f"{room}-{case.name}"
            if name in found:
                raise ValueError(f"two cases are called {name}")
            found[name] = case
    return found
