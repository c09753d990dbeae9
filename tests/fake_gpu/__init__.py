"""A GPU without a GPU: a driver and a CUPTI of our own making, compiled when tests run.

A program that loads `libcuda.so.1` from here "launches" kernels on it, in its own threads;
taupy's collector is loaded by the driver's first cuInit, subscribes to the fake CUPTI, and
gets its callbacks, buffers and records as from NVIDIA's. So a real `taupy run` of a real
program goes from end to end, and misbehaves where it is told to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent

PRELUDE = """
import ctypes, os, sys, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
for name in ("fake_launch", "fake_driver_launch", "fake_silent_launch", "fake_graph_launch",
             "fake_copy", "fake_memset", "fake_alloc", "fake_synchronize", "fake_managed",
             "fake_migrate", "fake_launch_in_thread", "fake_get_device"):
    getattr(cuda, name).restype = None
names = {}
def text(name):
    return names.setdefault(name, ctypes.create_string_buffer(name.encode()))
def launch(name, device=0, stream=7, took=1000, grid=8, block=128):
    cuda.fake_launch(text(name), device, stream, ctypes.c_uint64(took), grid, block)
def copy(kind, size, device=0, stream=7, took=500):
    cuda.fake_copy(kind, ctypes.c_uint64(size), device, stream, ctypes.c_uint64(took))
def init():
    assert cuda.cuInit(0) == 0
"""
"""Beginning of programs that use the fake GPU."""


def compiler() -> str | None:
    return os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> Path:
    """Compile both fakes into `folder`; returns it."""
    cc = compiler()
    assert cc is not None
    for source, library in (
        ("fake_cuda.c", "libcuda.so.1"),
        ("fake_cupti.c", "libcupti.so.13"),
        ("fake_nvtx.c", "libfakenvtx.so"),
    ):
        subprocess.run(
            [
                *(*cc.split(), "-std=gnu11", "-O1", "-shared", "-fPIC", "-Wl,-soname," + library),
                *(str(HERE / source), "-o", str(folder / library), "-lpthread", "-ldl"),
            ],
            check=True,
        )
    return folder
