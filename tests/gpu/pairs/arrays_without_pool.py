"""CuPy allocates each array from the driver; the twin takes them from CuPy's pool."""

import cupy
import twins

x = cupy.ones(1 << 22, dtype=cupy.float32)


def solve(steps):
    total = cupy.zeros((), dtype=cupy.float32)
    for _ in range(steps):
        y = x * 2
        z = y + x
        total += (z - y)[0]
    return float(total)


def fault(steps):
    cupy.cuda.set_allocator(None)
    return solve(steps)


def mended(steps):
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    return solve(steps)


twins.run(2000, fault, mended, cupy.cuda.Device().synchronize)
