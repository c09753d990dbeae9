"""Limits common to all rules; those of a single rule are in its module."""

from __future__ import annotations

from taupy.analysis.findings.trial import Trial

LEAST_SHARE = 0.02
"""Minimum saving as a share of elapsed time. Identical runs on a quiet machine differ by 1 to 4 %
(docs/compare.md), so a smaller saving would not be visible in the next trial."""

LEAST_NS = 10_000_000
"""Minimum saving, 10 ms: the start and end of an interpreter vary by as much."""

MOST_FINDINGS = 7
"""Maximum number shown: as many as fit on a screen of 24 lines, with health and phases."""


def least(trial: Trial) -> float:
    """The least saving that makes a finding [ns]. A trace that another tool recorded has no
    interpreter's start and end, and may be a few milliseconds long: a tenth of it is enough."""
    shortest = 0.1 * trial.wall_ns if trial.is_capture else LEAST_NS
    return max(min(LEAST_NS, shortest), LEAST_SHARE * trial.wall_ns)
