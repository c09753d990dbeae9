"""User events by which memory, and what threads do, are sampled: who writes and who reads them
agree on their names here. `_native/memory.c` and `allocator.c` have theirs of growth, too."""

from typing import NamedTuple

RESIDENT = "Resident Memory"
GROWTH = "Resident Memory Growth"
DOUBT = "Resident Memory Growth in Doubt"
BETWEEN = "Resident Memory Growth between Looks"
RELEASED = "Resident Memory Given Back"
PEAK = "Resident Memory Peak"
KIB = "KiB"

CUDA_ALLOCATED, CUDA_RESERVED = "PyTorch CUDA Memory Allocated", "PyTorch CUDA Memory Reserved"


def of_gpu(name: str, device: int) -> str:
    """The event of one GPU."""
    return f"{name}, GPU {device}"


class MemoryEvents(NamedTuple):
    """The events of one kind of memory.

    Attributes:
        growth, doubt: by call path; what may belong to another one.
        between: growth in a call path, or in one that it has called.
        released: what was given back.
        peak: the largest amount, where it was reached.
    """

    growth: str
    doubt: str
    between: str
    released: str
    peak: str

    @property
    def grown(self) -> tuple[str, ...]:
        """What is known of where it grew."""
        return self[:-1]


HOST = MemoryEvents(GROWTH, DOUBT, BETWEEN, RELEASED, PEAK)
CUDA = MemoryEvents(
    "PyTorch CUDA Memory Growth",
    "PyTorch CUDA Memory Growth in Doubt",
    "PyTorch CUDA Memory Growth between Looks",
    "PyTorch CUDA Memory Given Back",
    "PyTorch CUDA Memory Peak",
)

PEAKS = (HOST.peak, CUDA.peak)
OF_PROCESSES = (RESIDENT, *PEAKS)
"""Of all threads of a process together."""

STATES = ("Seen on CPU", "Seen Runnable", "Seen Sleeping", "Seen in Disk Wait")
"""In the order of `taupy.state.looks.STATES`; their total is the time that looks stand for."""
