"""Datasette in front of a database or a store, for `taupy serve`."""
