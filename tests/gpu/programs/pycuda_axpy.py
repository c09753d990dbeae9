"""PyCUDA, with a context of its own: ten launches of a kernel called `axpy`."""

import numpy
import pycuda.autoinit  # makes the context
import pycuda.gpuarray
from pycuda.compiler import SourceModule

SOURCE = """
__global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""


def launch() -> None:
    kernel = SourceModule(SOURCE, options=["-std=c++14"], no_extern_c=False).get_function("axpy")
    x = pycuda.gpuarray.to_gpu(numpy.ones(1 << 20, dtype=numpy.float32))
    y = pycuda.gpuarray.zeros(1 << 20, dtype=numpy.float32)
    for _ in range(10):
        kernel(
            *(numpy.float32(2), x, y, numpy.int32(1 << 20)),
            block=(256, 1, 1),
            grid=((1 << 20) // 256, 1),
        )
    assert y.get()[0] == 20


launch()
