"""From what a run has left behind to its Profile, when the program has ended."""
