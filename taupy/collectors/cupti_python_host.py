"""What the debugging collector and the engine know of each other, and which libcupti is used.

The structures are those of `_native/gpu_host.h`, reached through ctypes.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any

HOST_VERSION = 1
PYTHON_END, PYTHON_FORKED = "taupy_python_end", "taupy_python_forked"


class Place(ctypes.Structure):
    """Addresses of the call paths that a call of the API, and what it launches, belong to."""

    _fields_ = (("host", ctypes.c_uint64), ("launch", ctypes.c_uint64))


PlaceFunction = ctypes.PYFUNCTYPE(Place)  # with the GIL: it takes no lock
TicksFunction = ctypes.PYFUNCTYPE(ctypes.c_uint64)


class GpuHost(ctypes.Structure):
    """`GpuHost` of gpu_host.h, version 1."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("enabled", ctypes.c_uint32),
        ("run_folder", ctypes.c_char_p),
        ("libraries", ctypes.POINTER(ctypes.c_char_p)),
        ("save_folder", ctypes.c_char_p),
        ("trace", ctypes.c_uint32),
        ("flush_ms", ctypes.c_uint32),
        ("end_ms", ctypes.c_uint32),
        ("place", PlaceFunction),
        ("part_start", TicksFunction),
        ("range_push", ctypes.c_void_p),
        ("range_pop", ctypes.c_void_p),
        ("tried", ctypes.c_uint32),
        ("end", ctypes.c_void_p),
        ("forked", ctypes.c_void_p),
        ("region", ctypes.c_void_p),
    )


def find_host(engine_path: str) -> GpuHost | None:
    """The engine's side, if it is of a version that is known here and wants a collector."""
    host = GpuHost.in_dll(ctypes.CDLL(engine_path), "taupy_gpu_host")
    return host if host.version == HOST_VERSION and host.enabled else None


def connect(host: GpuHost, engine_path: str) -> None:
    """Have the engine call the collector at the end, and in forked children."""
    folder, name = os.path.split(engine_path)
    shim = ctypes.CDLL(os.path.join(folder, name.replace("engine", "cupti_python", 1)))
    host.end = ctypes.cast(shim[PYTHON_END], ctypes.c_void_p).value
    host.forked = ctypes.cast(shim[PYTHON_FORKED], ctypes.c_void_p).value


def mapped(prefix: str) -> str:
    """The path of a library in this process whose file name begins so; "" if there is none."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")
            name = path[2].rpartition("/")[2]
            if path[1] and name.startswith(prefix):
                return "/" + path[2]
    return ""


class Driver:
    """The CUDA driver in this process, as far as the collector calls it. The GIL is released."""

    def __init__(self) -> None:
        path = mapped("libcuda.so")
        library: Any = ctypes.CDLL(path) if path else None
        self.version = 0
        self._functions: Any = None  # found now: a look-up is a Python routine
        self._popped = ctypes.c_void_p()
        if library is None:
            return
        number = ctypes.c_int()
        if library.cuDriverGetVersion(ctypes.byref(number)) == 0:
            self.version = number.value
        names = ("cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuCtxPopCurrent_v2")
        if all(hasattr(library, name) for name in names):
            self._functions = [getattr(library, name) for name in names]

    def synchronize(self, context: int) -> None:
        """Wait for all work of a CUDA context."""
        if self._functions is None:
            return
        push, synchronize, pop = self._functions
        if push(ctypes.c_void_p(context)) == 0:
            synchronize()
            pop(ctypes.byref(self._popped))


class Library:
    """The libcupti that cupti-python is to use.

    Args:
        host: names libraries of wheels and toolkits, best first.
        major: of the CUDA that cupti-python is made for.
        driver: what cuDriverGetVersion tells; 0: not known.

    Attributes:
        path, version: of the library; problem: why there is none, else "".
    """

    def __init__(self, host: GpuHost, major: int, driver: int) -> None:
        self.path, self.version, self.problem = mapped("libcupti.so"), 0, ""
        self.dropped: Any = None
        library: Any = ctypes.CDLL(self.path) if self.path else self._open(host, major, driver)
        if library is None:
            return
        self.path = self.path or mapped("libcupti.so")
        number = ctypes.c_uint32()
        if library.cuptiGetVersion(ctypes.byref(number)) == 0:
            self.version = number.value
        made_for = self.version // 10000 if self.version >= 130000 else 12
        if made_for != major:
            self.problem = (
                f"the program has loaded {self.path}, for CUDA {made_for}, and the cupti-python "
                f"that is installed is for CUDA {major}"
            )

    def _open(self, host: GpuHost, major: int, driver: int) -> Any:
        at = 0
        paths = []
        while host.libraries and host.libraries[at] is not None:
            paths.append(os.fsdecode(host.libraries[at]))
            at += 1
        for path in [*paths, f"libcupti.so.{major}"]:
            found = re.search(r"libcupti\.so\.(\d+)", path)
            number = int(found[1]) if found else major
            if driver and number > driver // 1000:
                self.problem = (
                    f"{path} is for CUDA {number}, the driver serves CUDA {driver // 1000}."
                    f"{driver % 1000 // 10}"
                )
                continue
            if number != major:
                continue
            try:
                library = ctypes.CDLL(path)
            except OSError as problem:
                self.problem = self.problem or str(problem)
                continue
            self.problem = ""
            return library
        self.problem = self.problem or "no libcupti is in the process, the packages or a toolkit"
        return None
