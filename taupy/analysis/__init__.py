"""Frames in, frames out: comparisons, statistics, derived metrics. No SQL, no printing."""
