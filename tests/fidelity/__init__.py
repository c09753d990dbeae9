"""Run programs plain and under `taupy run`: nothing may differ, and there is a profile."""
