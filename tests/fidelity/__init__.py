"""Programs run plain and under `taupy run`: nothing may differ, and the profile is kept."""
