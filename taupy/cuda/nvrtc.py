"""Compile CUDA C to machine code at run time, by NVIDIA's NVRTC; works without a GPU."""

from __future__ import annotations

import contextlib
import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path

from taupy.cuda import libraries
from taupy.errors import TaupyError

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so")


class CompileError(TaupyError):
    """NVRTC is missing, or rejects the program."""


@cache
def _library() -> ctypes.CDLL:
    library, place = libraries.load("libnvrtc", _NAMES)
    if library is None:
        raise CompileError(
            f"NVRTC, NVIDIA's run-time compiler, cannot be loaded ({place}); "
            "PyTorch and CuPy include it; otherwise: pip install nvidia-cuda-nvrtc"
        )
    # NVRTC opens its second library by bare name, which works once that is loaded.
    for other in Path(place).parent.glob("libnvrtc-builtins.so*"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(other))
    return library


def version() -> tuple[int, int]:
    """(major, minor) of the compiler.

    Raises:
        CompileError: NVRTC is missing.
    """
    major, minor = c_int(), c_int()
    _check(_library().nvrtcVersion(byref(major), byref(minor)))
    return major.value, minor.value


def supported() -> list[int]:
    """Compute capabilities that it compiles for: [75, 80, ...]."""
    count = c_int()
    _check(_library().nvrtcGetNumSupportedArchs(byref(count)))
    architectures = (c_int * count.value)()
    _check(_library().nvrtcGetSupportedArchs(architectures))
    return list(architectures)


def compile(
    source: str, capability: int, name: str = "kernels.cu", lines: bool = False
) -> bytes:  # fmt: skip
    """Machine code ("cubin") for GPUs of one compute capability, such as 90.

    Args:
        lines: with the source lines of the instructions.

    Raises:
        CompileError: with the compiler's first error message, or because NVRTC is missing.
    """
    library = _library()
    program = c_void_p()
    _check(
        library.nvrtcCreateProgram(
            byref(program), c_char_p(source.encode()), c_char_p(name.encode()), 0, None, None
        )
    )
    try:
        options = [f"--gpu-architecture=sm_{capability}".encode(), b"--std=c++17"]
        options += [b"-lineinfo"] if lines else []
        array = (c_char_p * len(options))(*options)
        status = library.nvrtcCompileProgram(program, len(options), array)
        if status:
            wrong = [line for line in _log(library, program).splitlines() if "error" in line]
            raise CompileError(
                f"NVRTC cannot compile for compute capability {capability}: "
                f"{wrong[0].strip() if wrong else _text(library, status)}"
            )
        size = c_size_t()
        _check(library.nvrtcGetCUBINSize(program, byref(size)))
        code = ctypes.create_string_buffer(size.value)
        _check(library.nvrtcGetCUBIN(program, code))
        return code.raw
    finally:
        library.nvrtcDestroyProgram(byref(program))


def _log(library: ctypes.CDLL, program: c_void_p) -> str:
    size = c_size_t()
    library.nvrtcGetProgramLogSize(program, byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    return log.value.decode("utf-8", "replace")


def _text(library: ctypes.CDLL, status: int) -> str:
    library.nvrtcGetErrorString.restype = c_char_p
    return (library.nvrtcGetErrorString(status) or b"?").decode()


def _check(status: int) -> None:
    if status:
        raise CompileError(f"NVRTC: {_text(_library(), status)}")
