"""Foreign files: one module a format, both directions in it."""
