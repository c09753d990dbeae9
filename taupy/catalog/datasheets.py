"""Peaks of common GPUs as published by their manufacturers, each with its document.

They are used if the machine has not been measured: `taupy ceilings` measures what a program can
really reach. Tensor peaks are dense (without structured sparsity) and, where that makes a
difference, with accumulation in FP32, as in deep-learning libraries. A value that no document gives
is omitted, never guessed. Names of ceilings are those of model/machine.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from taupy.dataclass import dataclass, field
from taupy.model.machine import Ceiling, CeilingKind, CeilingSource

_T = 1e12
_G = 1e9


@dataclass(frozen=True, slots=True)
class Datasheet:
    """One GPU model.

    Attributes:
        gpu: the name that we print.
        words: the significant words of the driver's name.
        compute_capability: in CUDA's notation; "" of another maker's GPU.
        multiprocessors: number of multiprocessors; `clock_hz` is the boost clock on which the peaks
            are based, None if the document does not give it.
        peaks: name of the ceiling -> flop/s (op/s for INT8).
        dram: B/s.
        reference: the document.
    """

    gpu: str
    words: frozenset[str]
    compute_capability: str
    multiprocessors: int
    clock_hz: float | None
    peaks: Mapping[str, float]
    dram: float
    reference: str
    caches: Mapping[str, float] = field(default_factory=dict)  # bytes in a clock


_COLUMNS = (
    *("fp64", "fp32", "fp16", "bf16", "tensor fp64", "tensor tf32"),
    *("tensor fp16", "tensor bf16", "tensor fp8", "tensor int8"),
)

# GPU | words | CC | SMs | boost MHz | the peaks above in Tflop/s | DRAM GB/s | document
_TABLE = """
P100 SXM2 | p100 sxm2 | 6.0 | 56 | 1480 | 5.3 10.6 21.2 - - - - - - - | 732 | NVIDIA Tesla P100 datasheet
P100 PCIe 16 GB | p100 pcie 16gb | 6.0 | 56 | 1303 | 4.7 9.3 18.7 - - - - - - - | 732 | NVIDIA Tesla P100 datasheet
V100 SXM2 | v100 sxm2 | 7.0 | 80 | 1530 | 7.8 15.7 31.4 - - - 125 - - - | 900 | NVIDIA Tesla V100 architecture whitepaper, WP-08608
V100 PCIe | v100 pcie | 7.0 | 80 | 1380 | 7.0 14.0 28.0 - - - 112 - - - | 900 | NVIDIA V100 datasheet, January 2020
V100S PCIe | v100s pcie | 7.0 | 80 | 1597 | 8.2 16.4 32.8 - - - 130 - - - | 1134 | NVIDIA V100 datasheet, January 2020
T4 | t4 | 7.5 | 40 | 1590 | - 8.1 16.2 - - - 65 - - 130 | 320 | NVIDIA T4 product brief
A100 PCIe 40 GB | a100 pcie 40gb | 8.0 | 108 | 1410 | 9.7 19.5 78 39 19.5 156 312 312 - 624 | 1555 | NVIDIA A100 datasheet, 2020
A100 SXM4 40 GB | a100 sxm4 40gb | 8.0 | 108 | 1410 | 9.7 19.5 78 39 19.5 156 312 312 - 624 | 1555 | NVIDIA A100 datasheet, 2020
A100 PCIe 80 GB | a100 pcie 80gb | 8.0 | 108 | 1410 | 9.7 19.5 78 39 19.5 156 312 312 - 624 | 1935 | NVIDIA A100 datasheet, June 2021
A100 SXM4 80 GB | a100 sxm4 80gb | 8.0 | 108 | 1410 | 9.7 19.5 78 39 19.5 156 312 312 - 624 | 2039 | NVIDIA A100 datasheet, June 2021
A30 | a30 | 8.0 | 56 | 1440 | 5.2 10.3 - - 10.3 82 165 165 - 330 | 933 | NVIDIA A30 datasheet
A10 | a10 | 8.6 | 72 | 1695 | - 31.2 - - - 62.5 125 125 - 250 | 600 | NVIDIA A10 datasheet
A40 | a40 | 8.6 | 84 | 1740 | - 37.4 - - - 74.8 149.7 149.7 - 299.3 | 696 | NVIDIA A40 datasheet
RTX A6000 | rtx a6000 | 8.6 | 84 | 1800 | - 38.7 38.7 38.7 - 77.4 154.8 154.8 - 309.7 | 768 | NVIDIA GA102 architecture whitepaper, V2
GeForce RTX 3080 | rtx 3080 | 8.6 | 68 | 1710 | - 29.8 29.8 29.8 - 29.8 59.5 59.5 - 238 | 760 | NVIDIA GA102 architecture whitepaper, V2
GeForce RTX 3090 | rtx 3090 | 8.6 | 82 | 1695 | - 35.6 35.6 35.6 - 35.6 71 71 - 284 | 936 | NVIDIA GA102 architecture whitepaper, V2
L4 | l4 | 8.9 | 58 | 2040 | - 30.3 - - - 60 121 121 242.5 242.5 | 300 | NVIDIA L4 datasheet (half of the values with sparsity)
L40 | l40 | 8.9 | 142 | 2490 | - 90.5 - - - 90.5 181.05 181.05 362 362 | 864 | NVIDIA L40 datasheet
L40S | l40s | 8.9 | 142 | 2520 | - 91.6 - - - 183 362.05 362.05 733 733 | 864 | NVIDIA L40S datasheet
RTX 6000 Ada | rtx 6000 ada | 8.9 | 142 | 2505 | - 91.1 91.1 91.1 - 182.1 364.2 364.2 728.5 728.5 | 960 | NVIDIA RTX 6000 Ada datasheet (half of the values with sparsity)
GeForce RTX 4060 | rtx 4060 | 8.9 | 24 | 2460 | - 15.1 15.1 15.1 - 15.1 30.2 30.2 60.4 120.9 | 272 | NVIDIA GeForce RTX 4060 specification; tensor rates of the Ada whitepaper x clock
GeForce RTX 4070 | rtx 4070 | 8.9 | 46 | 2475 | - 29.1 29.1 29.1 - 29.1 58.3 58.3 116.6 233.2 | 504 | NVIDIA GeForce RTX 4070 specification; tensor rates of the Ada whitepaper x clock
GeForce RTX 4080 | rtx 4080 | 8.9 | 76 | 2505 | - 48.7 48.7 48.7 - 48.7 97.5 97.5 194.9 389.9 | 716.8 | NVIDIA Ada architecture whitepaper, V2
GeForce RTX 4090 | rtx 4090 | 8.9 | 128 | 2520 | - 82.6 82.6 82.6 - 82.6 165.2 165.2 330.3 660.6 | 1008 | NVIDIA Ada architecture whitepaper, V2
H100 PCIe | h100 pcie | 9.0 | 114 | 1755 | 25.6 51.2 102.4 102.4 51.2 378 756 756 1513 1513 | 2039 | NVIDIA H100 architecture whitepaper, V1.04
H100 SXM5 | h100 80gb hbm3 | 9.0 | 132 | 1980 | 33.5 66.9 133.8 133.8 66.9 494.7 989.4 989.4 1978.9 1978.9 | 3352 | NVIDIA H100 architecture whitepaper, V1.04
H100 NVL | h100 nvl | 9.0 | 132 | 1785 | 30 60 - - 60 417.5 835.5 835.5 1670.5 1670.5 | 3938 | NVIDIA H100 NVL product brief (half of the values with sparsity)
H200 | h200 | 9.0 | 132 | 1980 | 34 67 133.8 133.8 67 494.5 989.5 989.5 1979 1979 | 4800 | NVIDIA H200 datasheet (half of the values with sparsity); FP16 as H100 SXM5
H200 NVL | h200 nvl | 9.0 | 132 | 1785 | 30 60 - - 60 417.5 835.5 835.5 1670.5 1670.5 | 4800 | NVIDIA H200 datasheet (half of the values with sparsity)
GH200 96 GB | gh200 | 9.0 | 132 | 1980 | 34 67 - - 67 494 990 990 1979 1979 | 4000 | NVIDIA GH200 datasheet (half of the values with sparsity)
B200 | b200 | 10.0 | 148 | - | 37 75 - - 37 1100 2250 2250 4500 4500 | 7700 | NVIDIA HGX B200 specification, one GPU of eight (half of the values with sparsity)
GB200 | gb200 | 10.0 | 152 | - | 40 80 - - 40 1250 2500 2500 5000 5000 | 8000 | NVIDIA GB200 specification, one GPU of two (half of the values with sparsity)
GeForce RTX 5070 | rtx 5070 | 12.0 | 48 | 2512 | - 30.9 30.9 30.9 - 30.9 61.7 61.7 123.5 246.9 | 672 | NVIDIA RTX Blackwell architecture whitepaper
GeForce RTX 5080 | rtx 5080 | 12.0 | 84 | 2617 | - 56.3 56.3 56.3 - 56.3 112.6 112.6 225.1 450.2 | 960 | NVIDIA RTX Blackwell architecture whitepaper
GeForce RTX 5090 | rtx 5090 | 12.0 | 170 | 2407 | - 104.8 104.8 104.8 - 104.8 209.5 209.5 419 838 | 1792 | NVIDIA RTX Blackwell architecture whitepaper
MI300X | mi300x | - | 304 | 2100 | 81.7 163.4 - - 163.4 653.7 1307.4 1307.4 2614.9 2614.9 | 5300 | AMD Instinct MI300X data sheet
"""  # noqa: E501 - one GPU, one line

# Bytes in a clock: L1 of every multiprocessor 128 since Volta; L2 where NVIDIA says so.
_L1_BYTES = 128
_L2_BYTES = {"7.0": 2048, "8.0": 5120}
_L2_REFERENCE = "NVIDIA A100 architecture whitepaper (L2 bytes a clock) x boost clock"

# Words in drivers' names that do not distinguish models.
_SAYS_NOTHING = frozenset(
    {"nvidia", "amd", "instinct", "tesla", "geforce", "quadro", "graphics", "gpu", "generation"}
    | {"server", "edition", "hgx", "dgx", "sxm"}
)
# Sizes of memory or form factors in drivers' names of which the model has only one.
_HARMLESS = {
    "V100 SXM2": {"16gb", "32gb"},
    "V100 PCIe": {"16gb", "32gb"},
    "V100S PCIe": {"32gb"},
    "P100 SXM2": {"16gb"},
    "H100 PCIe": {"80gb"},
    "H200": {"141gb", "hbm3e"},
    "GH200 96 GB": {"480gb", "120gb", "96gb", "hbm3"},
    "B200": {"180gb", "192gb"},
    "MI300X": {"oam", "vf"},  # a virtual function of it is all of it
}


def _rows() -> Iterator[Datasheet]:
    for line in _TABLE.strip().splitlines():
        gpu, words, capability, sms, mhz, peaks, dram, reference = (
            "" if cell.strip() == "-" else cell.strip() for cell in line.split("|")
        )
        clock = float(mhz) * 1e6 if mhz else None
        values = peaks.split()
        if len(values) != len(_COLUMNS):
            raise ValueError(f"the row of {gpu} has {len(values)} peaks, not {len(_COLUMNS)}")
        caches = {}
        if clock is not None and capability and float(capability) >= 7:
            caches["L1"] = float(_L1_BYTES * int(sms))
            if capability in _L2_BYTES:
                caches["L2"] = float(_L2_BYTES[capability])
        yield Datasheet(
            gpu=gpu,
            words=frozenset(words.split()),
            compute_capability=capability,
            multiprocessors=int(sms),
            clock_hz=clock,
            peaks={
                name: float(value) * _T
                for name, value in zip(_COLUMNS, values, strict=True)
                if value != "-"
            },
            dram=float(dram) * _G,
            reference=reference,
            caches=caches,
        )


DATASHEETS: tuple[Datasheet, ...] = tuple(_rows())


@dataclass(frozen=True, slots=True)
class Published:
    """A published rate of a GPU, by its manufacturer or measured by others."""

    gpu: str
    kind: CeilingKind
    name: str
    pattern: str
    value: float
    reference: str


_WANG = "Wang et al., Time-Based Roofline, 2020"
_YANG = "Yang et al., Hierarchical Roofline, 2020"
_BENCHES = "te42kyfo/gpu-benches"

PUBLISHED: tuple[Published, ...] = (
    Published("V100 SXM2", "bandwidth", "DRAM", "ERT", 828.8e9, _WANG),
    Published("V100 SXM2", "bandwidth", "L2", "ERT", 2996.8e9, _YANG),
    Published("V100 SXM2", "bandwidth", "L1", "theoretical", 14336e9, _YANG),
    Published("V100 SXM2", "compute", "fp64", "ERT", 7.07e12, _YANG),
    Published("V100 SXM2", "compute", "fp32", "ERT", 15.16e12, _WANG),
    Published("V100 SXM2", "compute", "fp16", "ERT", 29.18e12, _WANG),
    # 80 multiprocessors x 8 tensor cores x 1.312 GHz x 64 FMA
    Published("V100 SXM2", "compute", "tensor fp16", "theory", 107.47904e12, _WANG),
    Published("V100 SXM2", "latency", "launch", "event pair", 4.2e-6, _WANG),
    Published("A100 PCIe 40 GB", "bandwidth", "DRAM", "triad", 1375e9, _BENCHES),
    Published("A100 PCIe 40 GB", "bandwidth", "L1", "read", 19150e9, _BENCHES),
    Published("A100 PCIe 40 GB", "latency", "launch", "back-to-back", 2.7e-6, _BENCHES),
    Published("A100 SXM4 80 GB", "bandwidth", "DRAM", "triad", 1759e9, _BENCHES),
    Published("A100 SXM4 80 GB", "bandwidth", "L1", "read", 19150e9, _BENCHES),
    Published("A100 SXM4 80 GB", "latency", "launch", "back-to-back", 2.7e-6, _BENCHES),
    Published("H100 PCIe", "bandwidth", "DRAM", "write", 2018e9, _BENCHES),
    Published("H100 PCIe", "bandwidth", "L2", "read", 7000e9, _BENCHES),
    Published("H100 PCIe", "bandwidth", "L1", "read", 25200e9, _BENCHES),
    Published("H200", "bandwidth", "DRAM", "write", 3898e9, _BENCHES),
    Published("H200", "bandwidth", "L2", "read", 9800e9, _BENCHES),
    Published("H200", "latency", "launch", "back-to-back", 2.5e-6, _BENCHES),
    Published("L40", "bandwidth", "DRAM", "triad", 803e9, _BENCHES),
    Published("L40", "bandwidth", "L2", "read", 5230e9, _BENCHES),
    Published("L40", "bandwidth", "L1", "read", 22500e9, _BENCHES),
    Published("L40", "latency", "launch", "back-to-back", 1.6e-6, _BENCHES),
)
"""Measured by others: better than a datasheet, worse than your own measurement."""


def datasheet(processor: str) -> Datasheet | None:
    """The datasheet of a GPU by its driver's name, such as "NVIDIA A100-SXM4-40GB".

    None if the name has a significant word that the model's name lacks: a laptop version, a slice
    of a GPU (MIG) or another variant has different peaks.
    """
    words = _words(processor)
    fitting = [
        sheet
        for sheet in DATASHEETS
        if sheet.words <= words and not words - sheet.words - _harmless(sheet)
    ]
    if not fitting:
        return None
    return max(fitting, key=lambda sheet: len(sheet.words))


def candidates(text: str) -> list[Datasheet]:
    """The datasheets that match a user's text: four for "A100", one for "H100 PCIe"."""
    exact = datasheet(text)
    if exact is not None:
        return [exact]
    words = _words(text)
    return [sheet for sheet in DATASHEETS if words and words <= sheet.words | _words(sheet.gpu)]


def ceilings(sheet: Datasheet, source: CeilingSource = "datasheet") -> list[Ceiling]:
    """The roofs of a model: the manufacturer's ("datasheet"), or measured by others ("report")."""
    if source == "report":
        return [_ceiling(sheet, peak, source) for peak in PUBLISHED if peak.gpu == sheet.gpu]
    peaks = [
        Published(sheet.gpu, "compute", name, "peak", value, sheet.reference)
        for name, value in sheet.peaks.items()
    ]
    peaks.append(Published(sheet.gpu, "bandwidth", "DRAM", "peak", sheet.dram, sheet.reference))
    for level, in_a_clock in sheet.caches.items():
        reference = f"{sheet.multiprocessors} multiprocessors x {_L1_BYTES} B x boost clock"
        if level == "L2":
            reference = _L2_REFERENCE
        value = in_a_clock * (sheet.clock_hz or 0.0)
        peaks.append(Published(sheet.gpu, "bandwidth", level, "theory", value, reference))
    return [_ceiling(sheet, peak, source) for peak in peaks]


def _ceiling(sheet: Datasheet, peak: Published, source: CeilingSource) -> Ceiling:
    unit = {"compute": "flop/s", "bandwidth": "B/s", "latency": "s"}[peak.kind]
    if peak.name == "tensor int8":
        unit = "op/s"
    return Ceiling(
        characterization=f"{source}:{sheet.gpu}",
        machine="",
        processor=sheet.gpu,
        device_uuid="",
        kind=peak.kind,
        name=peak.name,
        pattern=peak.pattern,
        threads=0,
        value=peak.value,
        unit=unit,
        source=source,
        clock_hz=sheet.clock_hz if source == "datasheet" else None,
        reference=peak.reference,
    )


def _words(name: str) -> frozenset[str]:
    """The significant words of a name: "NVIDIA A100 80GB PCIe" -> a100, 80gb, pcie."""
    joined = re.sub(r"(\d+) ?gb\b", r"\1gb", name.lower())
    return frozenset(re.findall(r"[a-z0-9]+", joined)) - _SAYS_NOTHING


def _harmless(sheet: Datasheet) -> frozenset[str]:
    return frozenset(_HARMLESS.get(sheet.gpu, ()))
