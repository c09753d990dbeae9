"""The vocabulary: what a profile is, on the measured side and on the read side."""
