"""The corpus, by class of fault."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
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
    "recent",
)


def catalogue() -> list[Case]:
    """Every case, named `class-name`."""
    cases = [
        replace(case, name=f"{room}-{case.name}")
        for room in CLASSES
        for case in import_module(f"{__name__}.{room}").CASES
    ]
    twice = [name for name, times in Counter(case.name for case in cases).items() if times > 1]
    if twice:
        raise ValueError(f"several cases are called {twice}")
    return cases
