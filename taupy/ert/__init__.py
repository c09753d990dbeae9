"""What this machine can do at most: micro-kernels, timed."""
