"""Questions over several trials: sweeps, pivots, gates for CI, candidates for tuning."""
