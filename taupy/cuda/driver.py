"""The part of CUDA's driver interface that we use, through ctypes.

A call that fails raises `CudaError` with the driver's own name for the error.
Nothing here runs in a measured process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from uuid import UUID

from taupy.errors import TaupyError

# Numbers of CUdevice_attribute (cuda.h); they never change.
ATTRIBUTES = {
    "max_threads_per_block": 1,
    "max_block_dim_x": 2,
    "max_block_dim_y": 3,
    "max_block_dim_z": 4,
    "max_grid_dim_x": 5,
    "max_grid_dim_y": 6,
    "max_grid_dim_z": 7,
    "shared_bytes_per_block": 8,
    "constant_bytes": 9,
    "warp_size": 10,
    "registers_per_block": 12,
    "clock_khz": 13,
    "multiprocessors": 16,
    "integrated": 18,
    "compute_mode": 20,
    "concurrent_kernels": 31,
    "ecc": 32,
    "pci_bus": 33,
    "pci_device": 34,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "threads_per_multiprocessor": 39,
    "copy_engines": 40,
    "unified_addressing": 41,
    "pci_domain": 50,
    "capability_major": 75,
    "capability_minor": 76,
    "shared_bytes_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
    "managed_memory": 83,
    "shared_bytes_per_block_optin": 97,
    "blocks_per_multiprocessor": 106,
    "reserved_shared_bytes_per_block": 111,
}


class CudaError(TaupyError):
    """The driver is missing, or a call of it failed."""


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        raise CudaError(f"there is no CUDA driver on this machine ({problem})") from None
    try:
        library.cuGetErrorName.argtypes = [c_int, ctypes.POINTER(c_char_p)]
        status = library.cuInit(0)
    except AttributeError as problem:
        raise CudaError(f"libcuda.so.1 is not a CUDA driver that taupy knows ({problem})") from None
    if status:
        raise CudaError(f"the CUDA driver cannot start: {_name(library, status)}")
    return library


def _name(library: ctypes.CDLL, status: int) -> str:
    text = c_char_p()
    library.cuGetErrorName(status, byref(text))
    return f"{(text.value or b'unknown error').decode()} ({status})"


def call(function: str, *arguments: object) -> None:
    """Call a function of the driver.

    Raises:
        CudaError: no driver, no such function, or a status other than success.
    """
    library = _library()
    entry = getattr(library, function, None)
    if entry is None:
        raise CudaError(f"this CUDA driver has no {function}: it is too old")
    status = entry(*arguments)
    if status:
        raise CudaError(f"{function}: {_name(library, status)}")


def version() -> tuple[int, int]:
    """The newest version of CUDA that the driver supports, such as (13, 0)."""
    number = c_int()
    call("cuDriverGetVersion", byref(number))
    return number.value // 1000, number.value % 1000 // 10


def device_count() -> int:
    """How many GPUs this process may use; 0 without a driver."""
    try:
        count = c_int()
        call("cuDeviceGetCount", byref(count))
    except CudaError:
        return 0
    return count.value


class Gpu:
    """A GPU, by its ordinal in this process. Creating the object uses none of the GPU's memory."""

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal = ordinal
        handle = c_int()
        call("cuDeviceGet", byref(handle), ordinal)
        self._device = handle

    @property
    def name(self) -> str:
        """The driver's name for it, such as "NVIDIA H200"."""
        text = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", text, len(text), self._device)
        return text.value.decode("utf-8", "replace")

    @property
    def uuid(self) -> str:
        """ "GPU-" and 32 hexadecimal digits in groups, as nvidia-smi prints it."""
        raw = ctypes.create_string_buffer(16)
        try:
            call("cuDeviceGetUuid_v2", raw, self._device)
        except CudaError:
            call("cuDeviceGetUuid", raw, self._device)
        return f"GPU-{UUID(bytes=raw.raw)}"

    @property
    def memory_bytes(self) -> int:
        """The size of the GPU's memory."""
        size = c_size_t()
        call("cuDeviceTotalMem_v2", byref(size), self._device)
        return size.value

    def attribute(self, name: str) -> int | None:
        """One of `ATTRIBUTES`; None if the driver does not know it."""
        value = c_int()
        try:
            call("cuDeviceGetAttribute", byref(value), ATTRIBUTES[name], self._device)
        except CudaError:
            return None
        return value.value

    @property
    def capability(self) -> int:
        """Compute capability as one number: 90 for 9.0."""
        major, minor = self.attribute("capability_major"), self.attribute("capability_minor")
        if major is None or minor is None:
            raise CudaError("the CUDA driver does not report the GPU's compute capability")
        return major * 10 + minor

    @contextmanager
    def context(self) -> Iterator[Context]:
        """Work with the GPU's primary context."""
        handle = c_void_p()
        call("cuDevicePrimaryCtxRetain", byref(handle), self._device)
        try:
            call("cuCtxSetCurrent", handle)
            with Context() as context:
                yield context
        finally:
            call("cuDevicePrimaryCtxRelease_v2", self._device)


class Context:
    """The current context: memory, modules, a stream, events. All are freed at the end."""

    def __enter__(self) -> Context:
        self._memory: list[c_uint64] = []
        self._modules: list[c_void_p] = []
        self._graphs: list[c_void_p] = []
        self._stream = c_void_p()
        call("cuStreamCreate", byref(self._stream), 1)  # CU_STREAM_NON_BLOCKING
        self._begin, self._end = c_void_p(), c_void_p()
        for event in (self._begin, self._end):
            call("cuEventCreate", byref(event), 0)
        return self

    def __exit__(self, *problem: object) -> None:
        # After a failed kernel every call fails; releasing the context frees everything.
        library = _library()
        for memory in self._memory:
            library.cuMemFree_v2(memory)
        for graph in self._graphs:
            library.cuGraphExecDestroy(graph)
        for module in self._modules:
            library.cuModuleUnload(module)
        for event in (self._begin, self._end):
            library.cuEventDestroy_v2(event)
        library.cuStreamDestroy_v2(self._stream)

    def load(self, code: bytes) -> Module:
        """Load machine code."""
        handle = c_void_p()
        call("cuModuleLoadData", byref(handle), c_char_p(code))
        self._modules.append(handle)
        return Module(handle)

    def allocate(self, size: int) -> int:
        """Allocate this many bytes, set to 0, and return their address."""
        address = c_uint64()
        call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self._memory.append(address)
        call("cuMemsetD8_v2", address, 0, c_size_t(size))
        call("cuCtxSynchronize")  # our stream would not wait for it
        return address.value

    def read(self, address: int, size: int) -> bytes:
        """Copy this many bytes from the GPU, once all work is done."""
        self.synchronize()
        target = ctypes.create_string_buffer(size)
        call("cuMemcpyDtoH_v2", target, c_uint64(address), c_size_t(size))
        return target.raw

    def launch(
        self, kernel: c_void_p, blocks: int, threads: int, arguments: Sequence[object] = ()
    ) -> None:
        """Launch a kernel; arguments are ctypes values."""
        pointers = (c_void_p * max(1, len(arguments)))(
            *(ctypes.cast(ctypes.pointer(argument), c_void_p) for argument in arguments)  # type: ignore[type-var]
        )
        grid = (c_uint(blocks), c_uint(1), c_uint(1))
        block = (c_uint(threads), c_uint(1), c_uint(1))
        call("cuLaunchKernel", kernel, *grid, *block, c_uint(0), self._stream, pointers, None)

    def launched(self, kernel: c_void_p, count: int, *, events: bool = False) -> float | None:
        """Launch a kernel without arguments `count` times, with a single thread, and wait.

        Returns:
            Seconds on the host or, with events, seconds on the GPU between an event before and
            one after the launches. None without our compiled code, as a loop in Python is slower
            than a launch.
        """
        try:
            from taupy._native import micro
        except ImportError:
            return None
        names = ("cuLaunchKernel", "cuStreamSynchronize", "cuEventRecord")
        launch, wait, record = (
            ctypes.cast(getattr(_library(), name), c_void_p).value or 0 for name in names
        )
        status, seconds = micro.launches(
            *(launch, wait, record if events else 0, kernel.value or 0, self._stream.value or 0),
            *(self._begin.value or 0, self._end.value or 0, count),
        )
        if status:
            raise CudaError(f"cuLaunchKernel: {_name(_library(), status)}")
        return self._elapsed() if events else seconds

    def _elapsed(self) -> float:
        milliseconds = c_float()
        call("cuEventElapsedTime", byref(milliseconds), self._begin, self._end)
        return milliseconds.value / 1000

    def synchronize(self) -> None:
        """Wait for everything that was launched."""
        call("cuStreamSynchronize", self._stream)

    def begin(self) -> None:
        """Record an event at the beginning of a measured stretch."""
        call("cuEventRecord", self._begin, self._stream)

    def end(self) -> float:
        """Record an event at its end, wait, and return the seconds between the two events."""
        call("cuEventRecord", self._end, self._stream)
        call("cuEventSynchronize", self._end)
        return self._elapsed()

    @contextmanager
    def captured(self) -> Iterator[Graph]:
        """Capture the launches in the `with` block as a graph, ready after the block."""
        graph = Graph(self._stream)
        call("cuStreamBeginCapture_v2", self._stream, 2)  # CU_STREAM_CAPTURE_MODE_RELAXED
        yield graph
        handle = c_void_p()
        call("cuStreamEndCapture", self._stream, byref(handle))
        call("cuGraphInstantiateWithFlags", byref(graph.executable), handle, c_uint64(0))
        call("cuGraphDestroy", handle)
        self._graphs.append(graph.executable)


class Module:
    """Loaded machine code."""

    def __init__(self, handle: c_void_p) -> None:
        self._handle = handle

    def kernel(self, name: str) -> c_void_p | None:
        """The kernel of this name; None if the module has none for this GPU."""
        function = c_void_p()
        try:
            call("cuModuleGetFunction", byref(function), self._handle, c_char_p(name.encode()))
        except CudaError:
            return None
        return function


class Graph:
    """Captured launches."""

    def __init__(self, stream: c_void_p) -> None:
        self.executable = c_void_p()
        self._stream = stream

    def launch(self) -> None:
        """Launch them all."""
        call("cuGraphLaunch", self.executable, self._stream)
