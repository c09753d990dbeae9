"""What a trial's profile says should be done: findings, and what could not be judged.

A finding claims seconds of one wall clock, the trial's: what would be saved at most if its cause
were gone and nothing else changed. Findings may claim the same seconds, so they do not add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from taupy.model.question import Question

Confidence = Literal["high", "medium", "low"]
"""high: the numbers themselves are the fault; medium: they are, unless the program means it so;
low: the numbers are typical of the fault."""

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A question, and the rows that answered it.

    Attributes:
        headings: of the columns: the question's dimensions, then its values.
        rows: the first rows, sorted by the first value, the largest first.
        count: how many rows the answer has.
    """

    question: Question
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    count: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs time, and what to do about it.

    Attributes:
        kind: the rule's name, as in docs/report.md.
        sentence: what is the matter and where, with its numbers.
        saved_ns: most that could be saved, on the trial's wall clock.
        wall_ns: the trial's duration.
        attempt: what to try.
        refuted_by: what would show that the finding is wrong.
        saved_bytes: memory that would not be held; such a finding may save no time.
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
    def speedup(self) -> float | None:
        """Largest possible; None if unbounded."""
        return amdahl(self.saved_ns, self.wall_ns)[1]


@dataclass(frozen=True, slots=True)
class Abstention:
    """A rule that gave no verdict.

    Attributes:
        reason: which evidence is missing, and how to get it.
    """

    kind: str
    reason: str


def amdahl(saved_ns: float | None, wall_ns: float) -> tuple[float | None, float | None]:
    """The share of a program's time that is saved, and the speed-up.

    Source:
        Amdahl, AFIPS 1967: 1 / (1 - p) if a part p is eliminated.
    """
    if saved_ns is None or not wall_ns > 0:
        return None, None
    share = min(saved_ns / wall_ns, 1.0)
    return share, None if share >= 1 else 1 / (1 - share)
