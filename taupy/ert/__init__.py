"""This machine's peak rates: micro-kernels, timed."""
