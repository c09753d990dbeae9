"""Numba: ten launches of a kernel called `axpy`."""

import numpy
from numba import cuda


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


def launch() -> None:
    x = cuda.to_device(numpy.ones(1 << 20, dtype=numpy.float32))
    y = cuda.to_device(numpy.zeros(1 << 20, dtype=numpy.float32))
    for _ in range(10):
        axpy[(1 << 20) // 256, 256](numpy.float32(2), x, y)
    assert y.copy_to_host()[0] == 20


launch()
