"""What calls of NVIDIA's and AMD's runtime and driver do, by their names.

    waits("cudaStreamSynchronize"), waits("hipMemcpyWithStream")    True: the host waits for the GPU
    allocates("hipMalloc"), loads_code("cuModuleLoadData")          True

A name may end in a version, as in Nsight's files (`cudaMalloc_v3020`). What a call does beyond its
name, such as a copy from pageable memory that waits though it is named asynchronous, is not known
here. Sources: the references of CUDA 13.0's runtime and driver and of ROCm 7.0's HIP runtime.
"""

from __future__ import annotations

import re

_MAKERS = r"(?:cuda|cu|hip)"

_WAITS = re.compile(
    rf"{_MAKERS}\w*Synchronize"
    # Copies on the device, and between devices, return at once.
    rf"|{_MAKERS}Memcpy(?!\w*(?:Async|Peer|DtoD|DtoA|AtoD|AtoA))"
)
_ALLOCATES = re.compile(
    rf"{_MAKERS}(?:Malloc|Free|HostAlloc|HostMalloc|HostFree|HostRegister|HostUnregister"
    r"|MemAlloc|MemFree|MemHostAlloc|MemCreate|MemMap|MemUnmap|MemRelease)(?!\w*Async)"
)
_LOADS_CODE = re.compile(
    rf"{_MAKERS}(?:ModuleLoad|ModuleUnload|ModuleGet|LibraryLoad|LibraryUnload|LibraryGet|Link"
    r"|GetFuncBySymbol)|nvrtc|hiprtc"
)
_STREAM_WAITS = re.compile(rf"{_MAKERS}StreamWait(?:Event|Value)")
_COMMUNICATES = re.compile(
    r"nccl|rccl|msccl|nvshmem|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all"
    r"|cross_device_reduce",
    re.IGNORECASE,
)

_DATA = re.compile(
    r"enumerate\(DataLoader\)|DataLoader\w*\.(?:__next__|_next_data)\b"
    r"|dataloader\.py.*(?:__next__|_next_data)\b"
)
_LOADER = re.compile(r"(?:.*\.)?(?:__next__|_next_data)")
LOADER_FILE = "dataloader.py"


def waits(call: str) -> bool:
    """Whether the call returns when the GPU has done something: a synchronisation, or a copy that
    returns at its end, such as `hipMemcpyWithStream`."""
    return _WAITS.match(call) is not None


def allocates(call: str) -> bool:
    """Whether it allocates or frees memory, and not from a pool in the order of a stream: such a
    call waits until the device is idle."""
    return _ALLOCATES.match(call) is not None


def drains(call: str) -> bool:
    """Whether it may return only when the device has nothing left to do: it waits, or frees."""
    return waits(call) or (allocates(call) and "Free" in call)


def loads_code(call: str) -> bool:
    """Whether it loads or makes machine code."""
    return _LOADS_CODE.match(call) is not None


def copies(call: str) -> bool:
    return "memcpy" in call.lower()


def launches(call: str) -> bool:
    return "launch" in call.lower()


def stream_waits(call: str) -> bool:
    """Whether it makes a stream, not the host, wait for an event."""
    return _STREAM_WAITS.match(call) is not None


def communicates(kernel: str) -> bool:
    """Whether a kernel communicates with other GPUs."""
    return _COMMUNICATES.search(kernel) is not None


def loads_data(routine: str, file: str | None = None) -> bool:
    """Whether a routine, or PyTorch's annotation, fetches the next batch of a data loader."""
    # Most names have neither of these, which is seen sooner.
    if ("DataLoader" in routine or LOADER_FILE in routine) and _DATA.search(routine):
        return True
    in_loader = file is not None and file.endswith(LOADER_FILE)
    return in_loader and _LOADER.fullmatch(routine) is not None
