"""Limits common to all rules; those of a single rule are in its module."""

from __future__ import annotations

LEAST_SHARE = 0.02
"""Minimum saving as a share of elapsed time. Identical runs on a quiet machine differ by 1 to 4 %
(docs/compare.md), so a smaller saving would not be visible in the next trial."""

LEAST_NS = 10_000_000
"""Minimum saving, 10 ms: the start and end of an interpreter vary by as much."""

MOST_FINDINGS = 7
"""Maximum number shown: as many as fit on a screen of 24 lines, with health and phases."""
