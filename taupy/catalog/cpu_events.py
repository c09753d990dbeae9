"""Counters of processors: the names of our metrics, and their events on each CPU.

`collectors/perf_events.py` finds out whether this machine can count them. Event numbers are those
of the manufacturers' manuals:

* AMD: Processor Programming Reference of families 17h, 19h and 1Ah, PMCx003 "Retired
  SSE/AVX FLOPs" and PMCx165 "L2 fill response source"; the names are those of Linux,
  tools/perf/pmu-events/arch/x86/amdzen{1..5}. On family 1Ah both were compared with known
  loops and arrays (docs/counters-collection.md).
* Intel: Software Developer's Manual volume 3, FP_ARITH_INST_RETIRED (event C7h; Broadwell
  and later): one count an instruction, two a fused multiply-add, so each vector width is
  an event of its own with the number of its lanes as weight.
* The others are the kernel's own generic events (include/uapi/linux/perf_event.h).
"""

from __future__ import annotations

import re
from typing import NamedTuple

HARDWARE, SOFTWARE, RAW = 0, 1, 4  # perf_event_attr.type
CACHE_LINE_BYTES = 64


class Event(NamedTuple):
    """One event of perf_event_open; counts are multiplied by `weight`."""

    type: int
    config: int
    weight: int = 1


class Cpu(NamedTuple):
    """Facts about the processor from /proc/cpuinfo."""

    vendor: str = ""
    family: int = 0
    model: int = 0
    name: str = ""
    flags: frozenset[str] = frozenset()

    @property
    def virtual(self) -> bool:
        """Whether this is a virtual machine."""
        return "hypervisor" in self.flags


class CpuMetric(NamedTuple):
    """A metric from counters of the CPU.

    Attributes:
        events: on the requested CPU; empty if it has none.
        missing: why it has none, "" otherwise.
    """

    name: str
    unit: str
    description: str
    events: tuple[Event, ...] = ()
    missing: str = ""


GENERIC = {
    "instructions": (1, "instructions retired in user mode"),
    "cycles": (0, "core clock cycles in user mode"),
    "cache_references": (2, "what the kernel calls cache references: the last level's, mostly"),
    "cache_misses": (3, "what the kernel calls cache misses: the last level's, mostly"),
    "branches": (4, "branches retired"),
    "branch_misses": (5, "mispredicted branches"),
}
FLOP = "floating-point operations retired, of any precision; a fused multiply-add is two"
DRAM_READ = "bytes that came from memory into a core's L2: reads, read-for-ownership, prefetches"
PAGE_FAULTS = "page faults, as the kernel counts them"

UNITS = {
    **dict.fromkeys(GENERIC, "count"),
    "flop": "flop",
    "bytes_dram_read": "B",
    "page_faults": "count",
}
NAMES = (*UNITS,)

TAU_NAMES = {
    "PAPI_TOT_INS": "instructions",
    "PAPI_TOT_CYC": "cycles",
    "PAPI_FP_OPS": "flop",
    "PAPI_BR_INS": "branches",
    "PAPI_BR_MSP": "branch_misses",
    "PAPI_L3_TCM": "cache_misses",
    "PAPI_L3_TCA": "cache_references",
}
"""Names accepted in TAU_METRICS, and our names for them."""

_RAW_NAME = re.compile(r"r([0-9a-f]{1,16})")


def cpu_of(cpuinfo: str) -> Cpu:
    """The processor described by a text of /proc/cpuinfo."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())

    def number(name: str) -> int:
        text = fields.get(name, "")
        return int(text) if text.isdigit() else 0

    return Cpu(
        fields.get("vendor_id", ""),
        number("cpu family"),
        number("model"),
        fields.get("model name", ""),
        frozenset(fields.get("flags", "").split()),
    )


def is_name(name: str) -> bool:
    """Whether this is a metric of the CPU: ours, or perf's spelling of a raw event, `r1f03`."""
    return name in NAMES or _RAW_NAME.fullmatch(name) is not None


def metric(name: str, cpu: Cpu) -> CpuMetric:
    """A metric with this CPU's events.

    Raises:
        KeyError: no metric has this name.
    """
    if name in GENERIC:
        config, description = GENERIC[name]
        return CpuMetric(name, UNITS[name], description, (Event(HARDWARE, config),))
    if name == "page_faults":
        return CpuMetric(name, UNITS[name], PAGE_FAULTS, (Event(SOFTWARE, 2),))
    if name == "flop":
        events, missing = _flop(cpu)
        return CpuMetric(name, UNITS[name], FLOP, events, missing)
    if name == "bytes_dram_read":
        events, missing = _dram_read(cpu)
        return CpuMetric(name, UNITS[name], DRAM_READ, events, missing)
    if raw := _RAW_NAME.fullmatch(name):
        event = Event(RAW, int(raw[1], 16))
        return CpuMetric(name, "count", "a raw event, as perf spells it; not verified", (event,))
    raise KeyError(name)


def _shown(cpu: Cpu) -> str:
    if not cpu.vendor:
        return "this processor"
    return f"{cpu.vendor} family {cpu.family} model {cpu.model}"


def _flop(cpu: Cpu) -> tuple[tuple[Event, ...], str]:
    if cpu.vendor in ("AuthenticAMD", "HygonGenuine") and cpu.family >= 0x17:
        # Zen 1 has a bit for each operation and precision; from Zen 2 on bits 0 to 3 are
        # the operations, bit 4 bfloat16 multiply-add where there is one.
        zen1 = (cpu.family == 0x17 and cpu.model < 0x30) or cpu.family == 0x18
        umask = 0xFF if zen1 else 0x0F if cpu.family == 0x17 else 0x1F
        return (Event(RAW, umask << 8 | 0x03),), ""
    if cpu.vendor == "GenuineIntel" and cpu.family == 6:
        widths = [(0x03, 1), (0x04, 2), (0x18, 4)]  # scalar; 2 doubles; 4 singles or doubles
        if "avx" in cpu.flags:
            widths.append((0x60 if "avx512f" in cpu.flags else 0x20, 8))
        if "avx512f" in cpu.flags:
            widths.append((0x80, 16))
        return tuple(Event(RAW, umask << 8 | 0xC7, lanes) for umask, lanes in widths), ""
    return (), f"no event that counts them is known on {_shown(cpu)}"


def _dram_read(cpu: Cpu) -> tuple[tuple[Event, ...], str]:
    if cpu.vendor == "AuthenticAMD" and cpu.family == 0x1A:
        return (Event(RAW, 0x1_0000_0865, CACHE_LINE_BYTES),), ""
    if cpu.vendor == "GenuineIntel":
        return (), "Intel counts them in the memory controller, for all programs together"
    return (), f"no event that counts them by program is known on {_shown(cpu)}"
