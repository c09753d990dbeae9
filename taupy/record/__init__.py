"""Build the Profile of a run from the files that it left, after the program has ended."""
