"""User events by which memory, and what threads do, are sampled: who writes and who reads them
agree on their names here. `_native/memory.c` has those of growth, too."""

RESIDENT = "Resident Memory"
GROWTH = "Resident Memory Growth"
DOUBT = "Resident Memory Growth in Doubt"
BETWEEN = "Resident Memory Growth between Looks"
RELEASED = "Resident Memory Given Back"
PEAK = "Resident Memory Peak"
KIB = "KiB"

STATES = ("Seen on CPU", "Seen Runnable", "Seen Sleeping", "Seen in Disk Wait")
"""In the order of `taupy.state.looks.STATES`; their total is the time that looks stand for."""
