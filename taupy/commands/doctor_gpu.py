"""GPU checks of `taupy doctor`, from the driver to permission for counters."""

from __future__ import annotations

import ctypes
from pathlib import Path

from taupy.collectors import cupti_python_check
from taupy.errors import TaupyError

OK, NOTE, PROBLEM = "ok", "note", "PROBLEM"

Check = tuple[str, str, str]

_TRIED = (
    "tried on one H200 and one H100 (driver 580, CUDA 13.0) on 2026-11-26 and 27; never on other "
    "models, several GPUs, MIG or with NCCL"
)

_PARAMETERS = Path("/proc/driver/nvidia/params")
_STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN = 21


def checks() -> list[Check]:
    """One line per check: driver, GPUs, NVML, CUPTI, NVRTC, permission for counters; and on what
    taupy's GPU support was tried."""
    from taupy.cuda import driver

    try:
        major, minor = driver.version()
    except TaupyError as problem:
        without = ("gpu", NOTE, f"{problem}; CPU profiling is unaffected")
        return [without, _cupti_python(0)] if cupti_python_check.installed() else [without]
    results: list[Check | None] = [
        _driver(major, minor),
        *_gpus(),
        _nvml(),
        _cupti(major),
        _nvrtc(),
    ]
    results += [_cupti_python(major), _permission(), ("gpu support", NOTE, _TRIED)]
    return [check for check in results if check is not None]


def _driver(major: int, minor: int) -> Check:
    from taupy.collectors import nvml

    number = nvml.driver_version()
    name = f"NVIDIA driver {number}, " if number else ""
    return "gpu driver", OK, f"{name}serves CUDA up to {major}.{minor}"


def _gpus() -> list[Check]:
    from taupy.cuda import driver

    count = driver.device_count()
    if not count:
        return [
            (
                "gpu",
                NOTE,
                "the driver exposes no GPU to this process: check CUDA_VISIBLE_DEVICES and, in a "
                "container, its device options (docker: --gpus all)",
            )
        ]
    lines = []
    for ordinal in range(count):
        try:
            gpu = driver.Gpu(ordinal)
            capability = gpu.capability
            text = f"{gpu.name}, compute capability {capability // 10}.{capability % 10}"
            lines.append((f"gpu {ordinal}", OK, text))
        except TaupyError as problem:
            lines.append((f"gpu {ordinal}", PROBLEM, str(problem)))
    return lines


def _nvml() -> Check:
    from taupy.collectors import nvml

    problem = nvml.problem()
    if problem is None:
        return "nvml", OK, "power, clocks and temperature are sampled"
    return "nvml", NOTE, f"{problem}: power, clocks and temperature are not sampled"


def _cupti(cuda: int) -> Check:
    from taupy.cuda import libraries

    library, place = libraries.load("libcupti", (f"libcupti.so.{cuda}", "libcupti.so"))
    if library is None:
        return (
            "cupti",
            PROBLEM,
            f"{place}: kernels cannot be recorded; PyTorch includes CUPTI, or: "
            f"pip install nvidia-cuda-cupti{'-cu12' if cuda == 12 else ''}",
        )
    version = ctypes.c_uint32()
    library.cuptiGetVersion(ctypes.byref(version))
    return "cupti", OK, f"API version {version.value}, {place} (a program's own takes precedence)"


def _cupti_python(cuda: int) -> Check:
    """Only `taupy run --cupti-backend python` needs it. `cuda`: the driver's version, 0 if none."""
    name = "cupti-python"
    if problem := cupti_python_check.problem():
        return name, NOTE, f"{problem}; needed for `taupy run --cupti-backend python` only"
    version = cupti_python_check.installed().rpartition(" ")[2]
    if cuda and cupti_python_check.cuda_major() != cuda:
        return name, NOTE, f"{version} does not match this driver's CUDA {cuda}"
    return name, OK, f"{version}, for `taupy run --cupti-backend python`"


def _nvrtc() -> Check:
    from taupy.cuda import nvrtc

    try:
        major, minor = nvrtc.version()
    except TaupyError as problem:
        return "nvrtc", NOTE, f"{problem}; needed for `taupy ceilings` on a GPU only"
    return "nvrtc", OK, f"{major}.{minor}: `taupy ceilings` can measure the GPU"


def _permission() -> Check | None:
    """Counters may be restricted to administrators; tracing always works."""
    import os

    try:
        text = _PARAMETERS.read_text("ascii", "replace")
    except OSError:
        return None
    restricted = "RmProfilingAdminOnly: 1" in text
    if not restricted:
        return "gpu counters", OK, "allowed for all users"
    if _has_sys_admin(_STATUS):
        return "gpu counters", OK, "allowed: this process has CAP_SYS_ADMIN"
    root = "; you are root without CAP_SYS_ADMIN, as in a container" if os.geteuid() == 0 else ""
    return (
        "gpu counters",
        NOTE,
        f"hardware counters need administrator rights here{root} (kernels and copies are "
        "recorded regardless); run with CAP_SYS_ADMIN (as root; docker: --cap-add SYS_ADMIN), "
        "or set the driver's option NVreg_RestrictProfilingToAdminUsers=0",
    )


def _has_sys_admin(status: Path) -> bool:
    """Does this process have CAP_SYS_ADMIN? The driver checks that, not the user id."""
    try:
        for line in status.read_text("ascii", "replace").splitlines():
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    except (OSError, ValueError, IndexError):
        pass
    return False
