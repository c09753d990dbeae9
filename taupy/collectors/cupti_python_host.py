"""The process's CUDA driver and libcupti, for the debugging collector.

Its native counterpart is `_native/cupti_library.h`.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any


def all_mapped(prefix: str) -> list[str]:
    """Paths of the libraries in this process whose file names have this prefix."""
    paths: dict[str, None] = {}
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            path = line.rstrip("\n").partition("/")
            if path[1] and path[2].rpartition("/")[2].startswith(prefix):
                paths["/" + path[2]] = None
    return list(paths)


def mapped(prefix: str) -> str:
    """The path of one such library; "" if there is none."""
    return next(iter(all_mapped(prefix)), "")


class Driver:
    """The functions of the CUDA driver that the collector calls; they release the GIL."""

    def __init__(self) -> None:
        path = mapped("libcuda.so")
        library: Any = ctypes.CDLL(path) if path else None
        self.version = 0
        self._functions: Any = None  # looked up early: a later look-up would be recorded
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
    """The libcupti for cupti-python.

    Args:
        paths: libraries in wheels and toolkits, best first.
        major: major version of the CUDA for which cupti-python was built.
        driver: the result of cuDriverGetVersion; 0 if unknown.

    Attributes:
        path, version: of the library; problem: why none can be used, otherwise "".
    """

    def __init__(self, paths: list[str], major: int, driver: int) -> None:
        self.path, self.version, self.problem = mapped("libcupti.so"), 0, ""
        library: Any = ctypes.CDLL(self.path) if self.path else self._open(paths, major, driver)
        if library is None:
            return
        self.path = self.path or mapped("libcupti.so")
        number = ctypes.c_uint32()
        if library.cuptiGetVersion(ctypes.byref(number)) == 0:
            self.version = number.value
        cuda_major = self.version // 10000 if self.version >= 130000 else 12
        if cuda_major != major:
            self.problem = (
                f"the program has loaded {self.path}, for CUDA {cuda_major}, and the cupti-python "
                f"that is installed is for CUDA {major}"
            )

    def _open(self, paths: list[str], major: int, driver: int) -> Any:
        for path in [*paths, f"libcupti.so.{major}"]:
            match = re.search(r"libcupti\.so\.(\d+)", path)
            number = int(match[1]) if match else major
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
        self.problem = (
            self.problem or "there is no libcupti in the process, the packages or a toolkit"
        )
        return None
