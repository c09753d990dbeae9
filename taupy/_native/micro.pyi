"""Micro-kernels that measure this processor's peak rates of computing and moving bytes."""

def kernels() -> list[str]:
    """Names of kernels that this processor can run, such as "fma fp64 512", "read bytes 256"."""

def launches(
    launch: int,
    wait: int,
    record: int,
    kernel: int,
    stream: int,
    begin: int,
    end: int,
    count: int,
    /,
) -> tuple[int, float]:
    """Launch a kernel without arguments `count` times, with one block of one thread, then wait.

    Args:
        launch, wait, record: addresses of cuLaunchKernel, cuStreamSynchronize and cuEventRecord;
            `record` is 0 if no events are wanted.
        kernel, stream, begin, end: handles; `begin` and `end` are events.

    Returns:
        The driver's status, and the seconds from the first launch to the end of waiting.
    """

def measure(
    kernel: str, cpus: tuple[int, ...], bytes: int, seconds: float, windows: int, patience: int, /
) -> list[float]:
    """Rates of a kernel, one per window: operations or bytes per second of all CPUs together.

    Args:
        kernel: one of `kernels()`.
        cpus: one thread is pinned to each.
        bytes: size of each thread's arrays; compute kernels have none.
        seconds: length of a window.
        windows: their largest number.
        patience: stop after this many windows without a better one.
    """
