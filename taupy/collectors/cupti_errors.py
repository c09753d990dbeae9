"""Messages for errors that prevent measuring a GPU: the cause, and what to do about it.

The codes are CUPTI's (`CUptiResult`); causes and remedies as in docs/gpu.md.
"""

from __future__ import annotations

_PERMISSION = (
    "the driver lets only administrators profile: run as root or with CAP_SYS_ADMIN, or load the "
    "driver with NVreg_RestrictProfilingToAdminUsers=0"
)
_FEATURES = {
    33: "a virtualized GPU without support for profiling",
    40: "this vGPU, for which profiling is not enabled: enable it in the host's vGPU settings",
    41: "a GPU in confidential-computing mode",
    42: "a CMP GPU",
    43: "a MIG instance that this CUPTI cannot profile",
    44: "GPUs in SLI mode",
    45: "WSL without GPU profiling: enable it in the NVIDIA control panel of Windows",
}
_CAUSES = {
    1: "CUPTI refused an argument",
    2: "this CUPTI does not know the GPU: a newer CUPTI is needed",
    15: "CUPTI could not start: the driver is too old for it, or one of its libraries is missing",
    26: "another tool holds the GPU's counters; for DCGM: `dcgmi profile --pause`, then --resume",
    35: _PERMISSION,
    38: "this CUPTI does not support the GPU",
    39: "another CUPTI client is active in the process (nsys, ncu, cuda-gdb, torch.profiler), "
    "and only one can be; run without it",
    46: "CUPTI does not know this chip: a newer CUPTI is needed",
    999: "CUPTI failed without a reason: is CUDA initialised, and libcuda the driver's own?",
}


def cupti_version(number: int) -> str:
    """The CUDA version for a number of cuptiGetVersion: "13.0" for 130001."""
    if number >= 130000:
        return f"{number // 10000}.{number // 100 % 100}"
    releases = {
        18: "12.0",
        21: "12.3",
        22: "12.4",
        23: "12.5",
        24: "12.6",
        26: "12.8",
        27: "12.9",
        28: "12.9",
    }
    return releases.get(number, f"API {number}" if number else "unknown")


def driver_version(number: int) -> str:
    """The CUDA version for a number of cuDriverGetVersion: "13.0" for 13000."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else "unknown"


def cause(code: int, text: str = "") -> str:
    """The cause of CUPTI's error, and the remedy if there is one."""
    if code in _FEATURES:
        return f"it cannot profile {_FEATURES[code]}"
    return _CAUSES.get(code) or f"CUPTI answers {code}{' ' + text if text else ''}"
