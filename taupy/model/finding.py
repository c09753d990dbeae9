"""Findings: what a trial's profile suggests improving, and which rules gave no verdict.

A finding claims seconds of the trial's wall-clock time: an upper bound on what would be saved if
its cause were gone and nothing else changed. Findings may claim the same seconds, so they do not
add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from taupy.dataclass import dataclass
from taupy.model.question import Question

Confidence = Literal["high", "medium", "low"]
"""high: the numbers prove the fault; medium: they do, unless the program intends it; low: the
numbers are typical of the fault."""

Severity = Literal["large", "medium", "small"]
"""How much of the run could be saved: at least a fifth, a twentieth, or less."""

_LARGE, _MEDIUM = 0.20, 0.05
_PLACE = re.compile(r"(?<=\()[^()\s:]+:\d+(?=\))")

Cell = str | int | float | None

TRIED_ON_GPU = ("access", "spills")
"""Rules on the code of kernels whose advice programs have followed on a GPU (docs/report.md)."""


def untried(rules: Iterable[str]) -> list[str]:
    """A note on the advice of those of these rules that were not tried on a GPU, if there are
    any."""
    names = sorted({*rules} - {*TRIED_ON_GPU})
    return [f"what to change of {', '.join(names)}: not tried on a GPU"] if names else []


@dataclass(frozen=True, slots=True)
class Evidence:
    """A question, and the rows that answer it.

    Attributes:
        headings: of the columns: the question's dimensions, then its values.
        rows: the first rows, sorted by decreasing first value.
        count: number of rows of the whole answer.
    """

    question: Question
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    count: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs time, and what to do about it.

    Attributes:
        kind: the rule's name, as in docs/report.md; of some followed by a colon and which of its
            cases it is.
        sentence: what is wrong and where, with its numbers.
        saved_ns: upper bound on the wall-clock time that could be saved.
        wall_ns: the trial's duration.
        attempt: what to try; "" if nothing was tried in such a program and helped.
        refuted_by: what would show that the finding is wrong.
        saved_bytes: memory that would be freed; such a finding may save no time.
    """

    kind: str
    sentence: str
    saved_ns: float
    wall_ns: float
    evidence: tuple[Evidence, ...]
    confidence: Confidence
    attempt: str
    refuted_by: str
    saved_bytes: int = 0

    @property
    def saved_share(self) -> float:
        """Share of the wall clock, 0 to 1."""
        return amdahl(self.saved_ns, self.wall_ns)[0] or 0.0

    @property
    def severity(self) -> Severity:
        share = self.saved_share
        return "large" if share >= _LARGE else "medium" if share >= _MEDIUM else "small"

    @property
    def place(self) -> str | None:
        """`file:line` that its sentence names first; None if it names none."""
        match = _PLACE.search(self.sentence)
        return match[0] if match else None

    @property
    def speedup(self) -> float | None:
        """Largest possible; None if unbounded."""
        return amdahl(self.saved_ns, self.wall_ns)[1]


@dataclass(frozen=True, slots=True)
class Abstention:
    """A rule that gave no verdict.

    Attributes:
        reason: which evidence is missing, and how to get it.
        fact: what is known all the same, as a sentence: where the time goes, but not what of it can
            be saved.
    """

    kind: str
    reason: str
    fact: str = ""


def amdahl(saved_ns: float | None, wall_ns: float) -> tuple[float | None, float | None]:
    """The share of a program's time that is saved, and the speed-up.

    Source:
        Amdahl, AFIPS 1967: 1 / (1 - p) if a part p is eliminated.
    """
    if saved_ns is None or not wall_ns > 0:
        return None, None
    share = min(saved_ns / wall_ns, 1.0)
    return share, None if share >= 1 else 1 / (1 - share)
