"""Which looks at a runnable thread find it running, and which waiting for a processor.

The kernel says of a thread that it is runnable, not whether it runs. Its times on processors and of
waiting for one are exact, but up to date only when the thread gets or leaves a processor, and at
ticks. So looks are divided as these times are, over all looks so far.
"""

from taupy.model.processes import contents

_TICK_NS = 10_000_000
"""A running thread's time is counted at least so often."""


def times(pid: int, tid: int) -> "tuple[int, int] | None":
    """The thread's times on processors, and of waiting for one [ns]; None: they are not known.

    Raises:
        ProcessLookupError: there is no such thread any more.
    """
    try:
        numbers = [int(word) for word in contents(f"/proc/{pid}/task/{tid}/schedstat").split()]
    except ProcessLookupError:
        raise
    except (OSError, ValueError):
        return None  # there is no such file here, or it may not be read
    if len(numbers) != 3 or not any(numbers):
        return None  # the kernel does not count
    return numbers[0], numbers[1]


class Processor:
    """The looks at one thread that was runnable.

    Attributes:
        first: its times at the first look, as `times` has them; None: there was none.
        counted_ns: its time on processors at the last look.
        runnable_ns, ran_ns: what the looks stand for in all, and those that found it running.
    """

    __slots__ = ("counted_ns", "first", "ran_ns", "runnable_ns")

    def __init__(self, first: "tuple[int, int] | None") -> None:
        self.first = first
        self.counted_ns = first[0] if first else 0
        self.runnable_ns = self.ran_ns = 0

    def runs(self, now: "tuple[int, int] | None", took: int) -> "bool | None":
        """Whether a look at the runnable thread found it running; None: it is not known.

        Args:
            now: its times.
            took: the time since the previous look [ns].
        """
        if now is None or self.first is None:
            self.first = now
            self.counted_ns = now[0] if now else 0
            return None
        has_run = now[0] > self.counted_ns
        self.counted_ns = now[0]
        self.runnable_ns += took
        ran, waited = now[0] - self.first[0], now[1] - self.first[1]
        share = ran / (ran + waited) if ran + waited > 0 else 1.0
        is_due = share * self.runnable_ns - self.ran_ns >= took / 2
        is_running = is_due and (has_run or took < _TICK_NS)
        if is_running:
            self.ran_ns += took
        return is_running
