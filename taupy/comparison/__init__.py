"""Trials side by side: comparisons, pivots, sweeps and gates over the trials of a database."""
