"""Which calls of CUDA's API are recorded: the rule of `_native/cupti_calls.h`, in Python.

A test holds the two against each other.
"""

from __future__ import annotations

RUNTIME_DOMAIN, DRIVER_DOMAIN, RESOURCE_DOMAIN = 2, 1, 3
OF_INTEREST, LAUNCHES = 1, 2

IDLE_CALLS = (
    "GetLastError", "PeekAtLastError", "GetDevice", "SetDevice", "PushCallConfiguration",
    "PopCallConfiguration", "GetAttribute", "DeviceGet", "StreamIsCapturing", "GetCaptureInfo",
    "StreamQuery", "EventQuery", "FuncGet", "FuncSet", "Occupancy", "CtxGetCurrent",
    "CtxSetCurrent", "CtxPushCurrent", "CtxPopCurrent", "CtxGetDevice", "CtxGetApiVersion",
    "GetErrorString", "GetErrorName", "DriverGetVersion", "RuntimeGetVersion", "GetProcAddress",
    "GetExportTable", "PointerGet", "StreamGet", "KernelGet", "KernelSet", "LibraryGet",
    "ModuleGet", "GetDriverEntryPoint", "GraphNodeGet", "MemGetInfo", "DeviceCanAccess",
    "GetStreamPriorityRange", "RegisterFatBinary", "RegisterFunction", "RegisterVar",
    "UnregisterFatBinary", "ThreadExchangeStreamCaptureMode", "StreamBeginCapture",
    "DevicePrimaryCtxGet", "TensorMapEncode", "CtxGetId", "GetFuncBySymbol", "GetSymbol",
    "GetTexture", "InitModule",
)  # fmt: skip
"""Calls that only ask: often, brief, and of no interest."""

DRIVER_CALLS = (
    "cuLaunch", "cuMemcpy", "cuMemset", "cuGraph", "cuMemAlloc", "cuMemFree", "cuMemHostAlloc",
    "cuMemPrefetch", "cuStreamSynchronize", "cuStreamWait", "cuCtxSynchronize",
    "cuEventSynchronize", "cuEventRecord", "cuModuleLoad", "cuLibraryLoad", "cuModuleUnload",
    "cuCtxCreate", "cuCtxDestroy", "cuDevicePrimaryCtxRetain", "cuStreamCreate",
    "cuStreamDestroy", "cuLink",
)  # fmt: skip
"""Of the driver, which runtime calls go through, only what a program calls itself."""

LAUNCHING_CALLS = ("Launch", "Memcpy", "Memset", "MemPrefetch")


def interest_in(domain: int, name: str) -> int:
    """Whether calls of a function are recorded, and whether they start work on a GPU.

    Args:
        domain: RUNTIME_DOMAIN or DRIVER_DOMAIN.
        name: CUPTI's, `cudaLaunchKernel_v7000`.

    Returns:
        OF_INTEREST, with LAUNCHES added where it applies; 0: not recorded.
    """
    plain = name.lstrip("_")
    if not plain.startswith("cuda" if domain == RUNTIME_DOMAIN else "cu"):
        return 0
    if any(word in name for word in IDLE_CALLS):
        return 0
    if domain == DRIVER_DOMAIN and not name.startswith(DRIVER_CALLS):
        return 0
    launches = any(word in name for word in LAUNCHING_CALLS) and "LaunchHostFunc" not in name
    return OF_INTEREST | (LAUNCHES if launches else 0)
