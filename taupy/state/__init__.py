"""taupy's own files while a run is under way: whom we trust, and how what we find is read."""
