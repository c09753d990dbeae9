"""The facts of a node's GPUs, from the CUDA driver and from NVML.

Runs in the process that stores a trial, never in the measured one. Facts that neither reports are
omitted. The rows are those of TAU's GPU metadata, followed by further facts of current GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from taupy.collectors import nvml
from taupy.cuda import driver
from taupy.cuda.driver import CudaError, Gpu
from taupy.model.gpu import Device, Fact

_COUNTS = (
    ("Multiprocessors", "multiprocessors", ""),
    ("Constant Memory", "constant_bytes", "B"),
    ("L2 Cache Size", "l2_bytes", "B"),
    ("Memory Bus Width", "memory_bus_bits", "bit"),
    ("Max Blocks/MP", "blocks_per_multiprocessor", ""),
    ("Max Registers/Block", "registers_per_block", ""),
    ("Max Registers/MP", "registers_per_multiprocessor", ""),
    ("Max Shared Memory/Block", "shared_bytes_per_block", "B"),
    ("Max Shared Memory/Block (opt-in)", "shared_bytes_per_block_optin", "B"),
    ("Max Shared Memory/MP", "shared_bytes_per_multiprocessor", "B"),
    ("Max Threads/Block", "max_threads_per_block", ""),
    ("Max Threads/MP", "threads_per_multiprocessor", ""),
    ("Num Memcpy Engines", "copy_engines", ""),
    ("Threads/Warp", "warp_size", ""),
    ("Concurrent Kernels", "concurrent_kernels", ""),
    ("Managed Memory", "managed_memory", ""),
)
"""Fact, `driver.ATTRIBUTES`, unit."""


def devices(node: int, ordinals: Iterable[int] | None = None) -> list[Device]:
    """The GPUs of this machine, as CUDA numbers them here.

    Args:
        node: the node to which they belong.
        ordinals: only these; None for all. Missing GPUs are omitted.
    """
    count = driver.device_count()
    chosen = range(count) if ordinals is None else sorted(set(ordinals) & set(range(count)))
    gpus = []
    for ordinal in chosen:
        try:
            gpus.append(_device(node, Gpu(ordinal)))
        except CudaError:
            continue
    return gpus


def completed(gpus: Iterable[Device]) -> list[Device]:
    """Devices that a program used, with everything this machine reports about them now.

    A GPU is recognised by its UUID or, if it has none, by its number.
    """
    here = devices(0)
    by_uuid = {device.uuid: device for device in here}
    by_ordinal = {device.ordinal: device for device in here}
    result = []
    for device in gpus:
        earlier = by_uuid.get(device.uuid) if device.uuid else by_ordinal.get(device.ordinal)
        if earlier is not None:
            device = replace(earlier, node=device.node, ordinal=device.ordinal)
        result.append(device)
    return result


def _device(node: int, gpu: Gpu) -> Device:
    capability = f"{gpu.capability // 10}.{gpu.capability % 10}"
    facts = [Fact("Name", gpu.name), Fact("Compute Capability", capability)]
    facts += _clocks_and_memory(gpu)
    for name, attribute, unit in _COUNTS:
        value = gpu.attribute(attribute)
        if value is not None:
            facts.append(Fact(name, value, unit))
    warps = _ratio(gpu.attribute("threads_per_multiprocessor"), gpu.attribute("warp_size"))
    if warps is not None:
        facts.append(Fact("Max Warps/MP", warps))
    facts.append(Fact("PCI Address", _pci(gpu)))
    major, minor = driver.version()
    facts.append(Fact("CUDA Driver API Version", f"{major}.{minor}"))
    facts += nvml.facts(gpu.uuid)
    return Device(node, gpu.ordinal, gpu.name, gpu.uuid, capability, tuple(facts))


def _clocks_and_memory(gpu: Gpu) -> Sequence[Fact]:
    """Memory bandwidth is computed with twice the driver's memory clock (double data rate)."""
    facts = [Fact("Memory Size", gpu.memory_bytes, "B")]
    core = gpu.attribute("clock_khz")
    if core:
        facts.append(Fact("Core Clock", core * 1000, "Hz"))
    clock, bus = gpu.attribute("memory_clock_khz"), gpu.attribute("memory_bus_bits")
    if clock:
        facts.append(Fact("Memory Clock", clock * 1000, "Hz"))
    if clock and bus:
        facts.append(Fact("Memory Bandwidth", 2 * clock * 1000 * bus // 8, "B/s"))
    return facts


def _ratio(whole: int | None, part: int | None) -> int | None:
    return whole // part if whole and part else None


def _pci(gpu: Gpu) -> str:
    domain, bus, slot = (
        gpu.attribute(name) or 0 for name in ("pci_domain", "pci_bus", "pci_device")
    )
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def metadata(gpus: Iterable[Device]) -> dict[int, dict[str, str]]:
    """The same facts under TAU's names, such as `GPU[0] Name`, by node."""
    by_node: dict[int, dict[str, str]] = {}
    for device in gpus:
        facts = by_node.setdefault(device.node, {})
        facts[f"GPU[{device.ordinal}] UUID"] = device.uuid
        for fact in device.facts:
            text = f"{fact.value} {fact.unit}".rstrip()
            facts[f"GPU[{device.ordinal}] {fact.name}"] = text
    return by_node
