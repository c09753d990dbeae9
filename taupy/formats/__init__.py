"""Foreign files: one module per format, for both directions."""
