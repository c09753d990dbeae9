"""Names of the user events for sampled memory and thread states, shared by writers and readers.

`_native/memory.c` and `allocator.c` also define the names of the growth events.
"""

from __future__ import annotations

from taupy.dataclass import NamedTuple

RESIDENT = "Resident Memory"
GROWTH = "Resident Memory Growth"
DOUBT = "Resident Memory Growth in Doubt"
BETWEEN = "Resident Memory Growth between Looks"
RELEASED = "Resident Memory Given Back"
PEAK = "Resident Memory Peak"
KIB = "KiB"

CUDA_ALLOCATED, CUDA_RESERVED = "PyTorch CUDA Memory Allocated", "PyTorch CUDA Memory Reserved"


def on_gpu(name: str, device: int) -> str:
    """The event's name for one GPU."""
    return f"{name}, GPU {device}"


class MemoryEvents(NamedTuple):
    """The events of one kind of memory.

    Attributes:
        growth, doubt: growth by call path; growth that may belong to another call path.
        between: growth in a call path, or in one that it called.
        released: memory that was freed.
        peak: the largest amount, at the call path where it was reached.
    """

    growth: str
    doubt: str
    between: str
    released: str
    peak: str

    @property
    def grown(self) -> tuple[str, ...]:
        """The events that show where memory grew or was freed: all but the peak."""
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
"""Events that cover all threads of a process."""

SUSPENDED = "Suspended in Line "


def suspended(line: int) -> str:
    """The event for how long coroutines were suspended at an `await` of this line."""
    return f"{SUSPENDED}{line}"


def suspended_line(event: str) -> int | None:
    """The line of such an event; None of any other one."""
    number = event.removeprefix(SUSPENDED)
    return int(number) if number != event and number.isascii() and number.isdigit() else None


FROM_CALL = "Time per Call from "


def time_from_call(number: int) -> str:
    """The event for the time of calls, from this one on, until twice as many or more were made. It
    names a power of two, so that there are few names."""
    return f"{FROM_CALL}{1 << (number.bit_length() - 1)}"


FROM_CALLS = tuple(time_from_call(1 << power) for power in range(63))


def first_call(event: str) -> int | None:
    """The power of two in the name of such an event; None of any other one."""
    number = event.removeprefix(FROM_CALL)
    return int(number) if number != event and number.isascii() and number.isdigit() else None


ARGUMENTS = "Different Arguments of Calls Looked at"
"""A sample for each call whose arguments were looked at: 1 if they were none that came before."""
OTHER_ARGUMENTS = "Calls Looked at with Other Arguments"
"""Those whose arguments are not compared."""


def is_answered(event: str) -> bool:
    """Whether an event was recorded for an answer of its own, which says more than its statistics:
    what a thread did (`taupy waiting`), how long calls took, the more were made, whether arguments
    came again, and where coroutines were suspended (`taupy report`)."""
    return (
        event in (*STATES, RUN_DELAY, ARGUMENTS, OTHER_ARGUMENTS)
        or first_call(event) is not None
        or suspended_line(event) is not None
    )


SLEEPING = "Seen Sleeping"
STATES = ("Seen on CPU", "Seen Runnable", SLEEPING, "Seen in Disk Wait")
"""In the order of `taupy.state.looks.STATES`; their total is the time that samples represent."""

CPU_TIME = "Thread CPU Time"
RUN_DELAY = "Thread Run Delay"
"""How long the first thread of a process waited for a processor, exactly."""
