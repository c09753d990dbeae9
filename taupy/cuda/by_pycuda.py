"""A second way to the driver: PyCUDA, to check the first one (`taupy ceilings --driver pycuda`)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_uint64
from typing import Any

from taupy.cuda.driver import Context, CudaError, Gpu, Module

REMEDY = "pip install 'taupy-profiler[pycuda]' (it is compiled with a CUDA toolkit)"


class _Module(Module):
    def __init__(self, module: Any) -> None:
        self._module = module

    def kernel(self, name: str) -> Any:
        try:
            return self._module.get_function(name)
        except Exception:  # pycuda.driver.LogicError: it is not compiled for this GPU
            return None


class _Context(Context):
    """What `Context` does for bandwidth and arithmetic: memory, modules, a stream, two events."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def __enter__(self) -> Context:
        self._lane = self._cuda.Stream()  # not `_stream`: what it inherits frees its handles
        self._first, self._last = self._cuda.Event(), self._cuda.Event()
        self._kept: list[Any] = []
        return self

    def __exit__(self, *problem: object) -> None:
        self._kept.clear()
        del self._first, self._last, self._lane

    def load(self, code: bytes) -> Module:
        return _Module(self._cuda.module_from_buffer(code))

    def allocate(self, size: int) -> int:
        memory = self._cuda.mem_alloc(size)
        self._cuda.memset_d8(memory, 0, size)
        self._cuda.Context.synchronize()
        self._kept.append(memory)
        return int(memory)

    def read(self, address: int, size: int) -> bytes:
        self.synchronize()
        target = bytearray(size)
        self._cuda.memcpy_dtoh(target, address)
        return bytes(target)

    def launch(self, kernel: Any, blocks: int, threads: int, arguments: Sequence[Any] = ()) -> None:
        import numpy

        values = [
            (numpy.uint64 if isinstance(value, c_uint64) else numpy.int32)(value.value)
            for value in arguments
        ]
        kernel(*values, block=(threads, 1, 1), grid=(blocks, 1), stream=self._lane)

    def synchronize(self) -> None:
        self._lane.synchronize()

    def begin(self) -> None:
        self._first.record(self._lane)

    def end(self) -> float:
        self._last.record(self._lane)
        self._last.synchronize()
        return float(self._last.time_since(self._first)) / 1000


@contextmanager
def context(gpu: Gpu) -> Iterator[Context]:
    """Work with a context of PyCUDA's own on this GPU.

    Raises:
        CudaError: PyCUDA is not installed, or reports an error.
    """
    try:
        cuda = importlib.import_module("pycuda.driver")
        cuda.init()
    except ImportError as problem:
        raise CudaError(f"PyCUDA cannot be imported ({problem}): {REMEDY}") from None
    pushed = cuda.Device(gpu.ordinal).make_context()
    try:
        with _Context(cuda) as working:
            yield working
    except cuda.Error as problem:
        raise CudaError(f"PyCUDA: {problem}") from None
    finally:
        pushed.pop()
        pushed.detach()
