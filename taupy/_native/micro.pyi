"""Micro-kernels: how fast this processor computes, and moves bytes, at most."""

def kernels() -> list[str]:
    """Names of the kernels that this processor can run: "fma fp64 512", "read bytes 256" ..."""

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
    """Launch a kernel without arguments so often, a block of one thread each, then wait.

    Args:
        launch, wait, record: addresses of cuLaunchKernel, cuStreamSynchronize, and, for events
            before and after, cuEventRecord (else 0).
        kernel, stream, begin, end: their handles.

    Returns:
        The driver's status, and the seconds that all of it took here.
    """

def measure(
    kernel: str, cpus: tuple[int, ...], bytes: int, seconds: float, windows: int, patience: int, /
) -> list[float]:
    """Rates of a kernel, one a window: operations or bytes a second, all CPUs together.

    Args:
        kernel: one of `kernels()`.
        cpus: one thread is pinned to each.
        bytes: of each array of each thread; compute kernels have none.
        seconds: length of a window.
        windows: at most so many.
        patience: stop after so many windows without a better one.
    """
