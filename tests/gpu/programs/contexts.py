"""Contexts that end before the program: their launches must be in the trial all the same.

For each way in which a context ends, a routine makes one, launches `spin` LAUNCHES times, waits,
and ends it. `last` launches as often in a context that is left to the end of the process.
"""

import ctypes

LAUNCHES = 5501
SOURCE = """
extern "C" __global__ void spin(int *out) { if (out) *out = blockIdx.x; }
"""
EXPECTED = dict.fromkeys(("destroyed", "detached", "reset", "last"), LAUNCHES)
"""Routine -> launches of `spin` below it."""


def work(call, code) -> None:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(code))
    call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")
    arguments = (ctypes.c_void_p * 1)(
        ctypes.cast(ctypes.pointer(ctypes.c_void_p()), ctypes.c_void_p)
    )
    one = ctypes.c_uint(1)
    for _ in range(LAUNCHES):
        call("cuLaunchKernel", function, *[one] * 6, ctypes.c_uint(0), None, arguments, None)
    call("cuCtxSynchronize")


def made(call) -> ctypes.c_void_p:
    context = ctypes.c_void_p()
    call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
    return context


def destroyed(call, code) -> None:
    context = made(call)
    work(call, code)
    call("cuCtxDestroy_v2", context)


def detached(call, code) -> None:
    context = made(call)
    work(call, code)
    call("cuCtxDetach", context)


def reset(call, code) -> None:
    context = ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    work(call, code)
    call("cuDevicePrimaryCtxReset_v2", 0)


def last(call, code) -> None:
    made(call)
    work(call, code)


def main() -> None:
    from taupy.cuda import driver, nvrtc

    code = nvrtc.compile(SOURCE, driver.Gpu(0).capability)
    for ends in (destroyed, detached, reset, last):
        ends(driver.call, code)


if __name__ == "__main__":
    main()
