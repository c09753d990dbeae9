"""CuPy: ten launches of a kernel of our own, called `axpy`."""

import cupy

SOURCE = """
extern "C" __global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""


def launch() -> None:
    kernel = cupy.RawKernel(SOURCE, "axpy")
    x, y = cupy.ones(1 << 20, dtype=cupy.float32), cupy.zeros(1 << 20, dtype=cupy.float32)
    for _ in range(10):
        kernel(((1 << 20) // 256,), (256,), (cupy.float32(2), x, y, 1 << 20))
    assert float(y[0]) == 20


launch()
