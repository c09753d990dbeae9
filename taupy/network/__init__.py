"""What a layer of a network is, for each framework: data, one file per framework."""

KINDS = (
    *("data", "forward", "loss", "backward", "recompute", "optimizer", "scaling"),
    *("communication", "checkpoint", "validation", "compile", "import"),
)
"""Those that a step may have."""
STEP = "Optimizer.step#"
"""Prefix of the names of timers that are called once a step."""
