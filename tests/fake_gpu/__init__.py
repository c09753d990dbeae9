"""A simulated GPU: a driver and a CUPTI that are compiled when tests run.

A program that loads `libcuda.so.1` from here "launches" kernels on it in its own threads. taupy's
collector is loaded by the driver's first cuInit, subscribes to the simulated CUPTI, and receives
callbacks, buffers, records and counters as from NVIDIA's. `taupy run` of a real program can thus be
tested as a whole, including errors that tests ask for.

Both are written against NVIDIA's headers and are at least as strict as NVIDIA's library was
observed to be: parameters must have the size that they have in the simulated version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.fake_gpu.headers import REASON, Headers, compiler, installed
from tests.fake_gpu.layouts import recorded

HERE = Path(__file__).parent

PRELUDE = """
import ctypes, os, sys, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
u64 = ctypes.c_uint64
for name in ("launch", "driver_launch", "config_launch", "cooperative_launch", "handle_launch",
             "nameless_launch", "waiting_launch", "signalling_launch", "silent_launch",
             "graph_launch", "copy", "memset", "alloc", "synchronize", "managed", "migrate",
             "launch_in_thread", "launch_in_pool", "launch_in_range", "get_device", "lazy_load",
             "context_ends", "slow_alloc", "load_module", "wait_event"):
    getattr(cuda, "fake_" + name).restype = None
names = {}
def text(name):
    return names.setdefault(name, ctypes.create_string_buffer(name.encode()))
def launch(name, device=0, stream=7, took=1000, grid=8, block=128):
    cuda.fake_launch(text(name), device, stream, u64(took), grid, block)
def copy(kind, size, device=0, stream=7, took=500):
    cuda.fake_copy(kind, u64(size), device, stream, u64(took))
def init():
    assert cuda.cuInit(0) == 0
"""
"""The beginning of programs that use the simulated GPU."""

SOURCES = {
    "libcuda.so.1": ("fake_cuda.cc",),
    "libcupti.so.13": (
        *("fake_cupti.cc", "fake_activity.cc", "fake_profiler.cc", "fake_ranges.cc"),
        "fake_sampling.cc",
    ),
}
_KINDS = {
    "Kernel": ("KERNEL", "CONCURRENT_KERNEL"), "Memcpy": ("MEMCPY",), "MemcpyPtoP": ("MEMCPY2",),
    "Memset": ("MEMSET",), "API": ("DRIVER", "RUNTIME"), "Synchronization": ("SYNCHRONIZATION",),
    "Memory": ("MEMORY2",), "MemoryPool": ("MEMORY_POOL",),
    "UnifiedMemoryCounter": ("UNIFIED_MEMORY_COUNTER",), "Device": ("DEVICE",),
    "Context": ("CONTEXT",), "Stream": ("STREAM",), "Overhead": ("OVERHEAD",),
    "ExternalCorrelation": ("EXTERNAL_CORRELATION",),
}  # fmt: skip


def missing() -> str | None:
    """Why the simulated GPU cannot be built here; None if it can."""
    if compiler() is None or c_compiler() is None:
        return "no C and C++ compiler to build the played GPU with"
    if _headers() is None and installed():
        found = ", ".join(headers.version for headers in installed())
        return f"nothing is recorded of CUPTI {found}: see scripts/record_cupti_layouts.py"
    return None if installed() else REASON


def _headers() -> Headers | None:
    """The headers to build against: the first whose sizes are recorded."""
    return next((one for one in installed() if one.version in recorded()), None)


def c_compiler() -> str | None:
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def build(folder: Path, *of_the_driver: Path) -> Path:
    """Compile the simulated libraries into `folder`; returns it.

    `of_the_driver` are further sources, in C++, of libcuda.so.1.
    """
    cxx, cc, headers = compiler(), c_compiler(), _headers()
    assert cxx is not None and cc is not None and headers is not None
    generated = folder / "generated"
    generated.mkdir()
    _generate(generated, headers)
    version = f"-DHEADERS_VERSION={_number(headers.version)}"
    options = ["-std=gnu++20", "-w", version, f"-I{generated}", *headers.options]
    for library, sources in SOURCES.items():
        more = of_the_driver if library == "libcuda.so.1" else ()
        _library([*cxx.split(), *options], folder / library, (*sources, *map(str, more)))
    _library([*cc.split(), "-std=gnu11"], folder / "libfakenvtx.so", ("fake_nvtx.c",))
    return folder


def _library(command: list[str], target: Path, sources: tuple[str, ...]) -> None:
    subprocess.run(
        [
            *(*command, "-O0", "-shared", "-fPIC", f"-Wl,-soname,{target.name}"),
            *(str(HERE / source) for source in sources),
            *("-o", str(target), "-lpthread", "-ldl"),
        ],
        check=True,
    )


def _generate(folder: Path, headers: Headers) -> None:
    """Tables for the simulated CUPTI: names of callbacks, sizes of parameters and of records."""
    names = []
    for domain in ("driver", "runtime"):
        text = (headers.folders[0] / f"cupti_{domain}_cbid.h").read_text()
        for name, number in re.findall(r"_TRACE_CBID_(\w+)\s*=\s*(\d+)", text):
            names.append(f'{{CUPTI_CB_DOMAIN_{domain.upper()}_API, {number}, "{name}"}},\n')
    sizes, records = [], []
    for version, layouts in recorded().items():
        number = _number(version)
        for name, size in layouts["parameters"].items():
            sizes.append(f'{{{number}, "{name}", {size}}},\n')
        for what, (_, size, _) in layouts["records"].items():
            for kind in _KINDS[what]:
                records.append(f"{{{number}, CUPTI_ACTIVITY_KIND_{kind}, {size}}},\n")
    for file, lines in (("names.h", names), ("sizes.h", sizes), ("records.h", records)):
        (folder / file).write_text("".join(lines))


def _number(version: str) -> int:
    """The version as a number: 1300 for 13.0."""
    major, minor = map(int, version.split("."))
    return 100 * major + minor
