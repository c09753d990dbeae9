"""The line at which people look for a routine, that of its `def`, and what it says.

The interpreter says where a routine's code begins, which is at its first decorator. That line stays
part of the name by which a routine is found; this one is shown, where the text is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from taupy.model.rows import TimerRow

_DECORATORS = 50
"""Lines that decorators may take."""
_DEFINITION = re.compile(r"\s*(async\s+)?(def|class)\s")
_GOES_ON = (":", "(", ",")


def at_definition(timer: TimerRow, lines: Sequence[str] | None) -> TimerRow:
    """A routine with the line of its `def`, if these are the lines of its file and it has
    decorators."""
    first = timer.line
    if not lines or first is None or not 0 < first <= len(lines):
        return timer
    if not lines[first - 1].lstrip().startswith("@"):
        return timer
    for at, text in enumerate(lines[first : first + _DECORATORS], first + 1):
        if _DEFINITION.match(text):
            return timer._replace(line=at)
    return timer


def is_heading(text: str) -> bool:
    """Whether a line, without the space around it, only begins a routine: `def f(x):`, a decorator.
    What passes there is the call itself, and the text says no more than the routine's name."""
    return text.startswith("@") or (bool(_DEFINITION.match(text)) and text.endswith(_GOES_ON))
