"""Limits below which nothing is a finding, for all rules.

Limits of a single rule are in its own file.
"""

from __future__ import annotations

LEAST_SHARE = 0.02
"""Of the wall clock. Equal runs on a quiet machine differ by 1 to 4 % (docs/compare.md), so a
smaller saving could not be seen in the next trial."""

LEAST_NS = 10_000_000
"""10 ms: an interpreter's start and end vary by as much."""

MOST_FINDINGS = 7
"""As many as a screen of 24 lines holds beside health and phases."""
