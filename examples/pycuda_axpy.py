"""PyCUDA: y = a x + y in chunks on two streams, timed with events, in a context of its own.

`pycuda.autoinit` makes a context, which is not the primary one of PyTorch and CuPy, and drops it
at exit. The kernel is compiled by nvcc where there is a toolkit, otherwise by NVRTC.

    pip install 'taupy-profiler[pycuda]'
    taupy run examples/pycuda_axpy.py
    taupy kernels
"""

import shutil

import numpy
import pycuda.autoinit  # makes the context
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

SOURCE = """
extern "C" __global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""

CHUNKS = 10
ELEMENTS = 1 << 20  # of a chunk
BLOCK = 256


def compiled() -> cuda.Module:
    if shutil.which("nvcc"):
        return SourceModule(SOURCE, no_extern_c=True)
    from taupy.cuda import nvrtc  # PyTorch or CuPy brings the library

    major, minor = pycuda.autoinit.device.compute_capability()
    return cuda.module_from_buffer(nvrtc.compile(SOURCE, 10 * major + minor))


def axpy_in_chunks(kernel: cuda.Function, x: numpy.ndarray, y: numpy.ndarray) -> float:
    """Each chunk is copied, added and copied back on one of two streams; milliseconds in all."""
    streams = [cuda.Stream(), cuda.Stream()]
    on_gpu = [(cuda.mem_alloc(4 * ELEMENTS), cuda.mem_alloc(4 * ELEMENTS)) for _ in streams]
    begin, *ends = (cuda.Event() for _ in range(3))
    begin.record()
    for chunk in range(CHUNKS):
        stream, (gpu_x, gpu_y) = streams[chunk % 2], on_gpu[chunk % 2]
        part = slice(chunk * ELEMENTS, (chunk + 1) * ELEMENTS)
        cuda.memcpy_htod_async(gpu_x, x[part], stream)
        cuda.memcpy_htod_async(gpu_y, y[part], stream)
        kernel(
            *(numpy.float32(2), gpu_x, gpu_y, numpy.int32(ELEMENTS)),
            block=(BLOCK, 1, 1),
            grid=(ELEMENTS // BLOCK, 1),
            stream=stream,
        )
        cuda.memcpy_dtoh_async(y[part], gpu_y, stream)
    for end, stream in zip(ends, streams, strict=True):
        end.record(stream)
        end.synchronize()
    return max(end.time_since(begin) for end in ends)


def main() -> None:
    kernel = compiled().get_function("axpy")
    x = cuda.pagelocked_empty(CHUNKS * ELEMENTS, numpy.float32)
    y = cuda.pagelocked_empty(CHUNKS * ELEMENTS, numpy.float32)
    x[:], y[:] = 1, 3
    milliseconds = axpy_in_chunks(kernel, x, y)
    assert (y == 5).all()
    moved = 3 * x.nbytes / milliseconds / 1e6
    print(f"{CHUNKS} chunks in {milliseconds:.2f} ms, {moved:.1f} GB/s over the bus")


if __name__ == "__main__":
    main()
