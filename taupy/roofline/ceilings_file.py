"""Read and write ceilings: JSON of the Empirical Roofline Toolkit (ERT), and CSV tables.

roofline.json   of ERT: empirical.gflops and empirical.gbytes (also written by us)
peaks.csv       label,peak_flops,peak_bandwidth; FP32 flop/s and B/s
*.csv           kind,name,value[,unit]: compute,fp64,7.8e12 / bandwidth,L2,3e12
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from taupy.errors import FormatError
from taupy.model.machine import Ceiling, CeilingKind, CeilingSource
from taupy.roofline.roofs import PRECISIONS, Roofs
from taupy.state.folder import open_named

_LARGEST = 16 * 1024 * 1024
_KINDS: Mapping[str, CeilingKind] = {
    "compute": "compute",
    "bandwidth": "bandwidth",
    "latency": "latency",
}
_UNITS = {"compute": "flop/s", "bandwidth": "B/s", "latency": "s"}
_LEVELS = {"l1": "L1", "l2": "L2", "l3": "L3", "dram": "DRAM", "hbm": "DRAM", "shared": "shared"}


def read_ceilings(path: str) -> list[Ceiling]:
    """The ceilings in a file.

    Raises:
        FormatError: the file cannot be read or has none of these formats.
    """
    try:
        if os.path.getsize(path) > _LARGEST:
            raise FormatError(f"{path} is too large for a file of ceilings")
        with open_named(path) as file:
            text = file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise FormatError(f"{path} cannot be read: {reason}") from None
    ceilings = _from_json(path, text) if text.lstrip()[:1] in ("{", "[") else _from_csv(path, text)
    if not ceilings:
        raise FormatError(f"{path} contains no ceilings")
    return ceilings


def _from_json(path: str, text: str) -> list[Ceiling]:
    try:
        data = json.loads(text)
        part = data["empirical"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FormatError(
            f"{path} is not JSON of the Empirical Roofline Toolkit: 'empirical' is missing"
        ) from None
    origin = _Origin(path, "report", "report", "ERT")
    ceilings: list[Ceiling] = []
    try:
        for name, value in part.get("gflops", {}).get("data", []):
            ceilings.append(_ceiling(origin, "compute", _precision(name), float(str(value)) * 1e9))
        for name, value in part.get("gbytes", {}).get("data", []):
            level = _LEVELS.get(str(name).lower(), str(name))
            ceilings.append(_ceiling(origin, "bandwidth", level, float(str(value)) * 1e9))
    except (TypeError, ValueError, AttributeError) as problem:
        raise FormatError(f"{path}: invalid ERT data ({problem})") from None
    return ceilings


def _precision(name: object) -> str:
    """Double precision, unless the name contains another one, as in ERT."""
    text = str(name).lower()
    bits = re.search(r"(tf|bf|fp|int)\s?(8|16|32|64)", text)
    if bits is None:
        return "fp64"
    kind = bits.group(1) + bits.group(2)
    return f"tensor {kind}" if "tensor" in text or kind.startswith(("tf", "int")) else kind


def _from_csv(path: str, text: str) -> list[Ceiling]:
    try:
        rows = list(csv.DictReader(text.splitlines()))
        columns = set(rows[0]) if rows else set()
        if {"peak_flops", "peak_bandwidth"} <= columns:
            return [peak for row in rows for peak in _peaks(path, row)]
        if {"kind", "name", "value"} <= columns:
            return [_row(path, row) for row in rows]
    except (TypeError, ValueError, KeyError, csv.Error) as problem:
        raise FormatError(f"{path}: invalid row ({problem})") from None
    raise FormatError(
        f"{path} is not a file of ceilings: a CSV file needs the columns kind,name,value or "
        "label,peak_flops,peak_bandwidth"
    )


def _peaks(path: str, row: Mapping[str, str]) -> Iterable[Ceiling]:
    label = row.get("label") or "peak"
    source: CeilingSource = "datasheet" if label.startswith("theor") else "user"
    origin = _Origin(path, label, source, label)
    return (
        _ceiling(origin, "compute", "fp32", float(row["peak_flops"])),
        _ceiling(origin, "bandwidth", "DRAM", float(row["peak_bandwidth"])),
    )


def _row(path: str, row: Mapping[str, str]) -> Ceiling:
    kind = _KINDS[row["kind"].strip().lower()]
    name = row["name"].strip()
    if kind == "bandwidth":
        name = _LEVELS.get(name.lower(), name)
    elif kind == "compute" and name.lower() not in PRECISIONS:
        raise ValueError(f"unknown precision '{name}'; use one of {', '.join(PRECISIONS)}")
    origin = _Origin(path, row.get("pattern") or "user", "user", "user")
    name = name.lower() if kind == "compute" else name
    return _ceiling(origin, kind, name, float(row["value"]))


class _Origin(NamedTuple):
    path: str
    pattern: str
    source: CeilingSource
    tool: str


def _ceiling(origin: _Origin, kind: CeilingKind, name: str, value: float) -> Ceiling:
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} is {value:g}")
    path, pattern, source, tool = origin
    return Ceiling(
        characterization=f"file:{os.path.basename(path)}",
        machine="",
        processor=os.path.basename(path),
        device_uuid="",
        kind=kind,
        name=name,
        pattern=pattern if pattern != "report" else tool,
        threads=0,
        value=value,
        unit=_UNITS[kind],
        source=source,
        reference=f"{tool}, {os.path.basename(path)}",
    )


def ert_json(roofs: Roofs) -> str:
    """The roofs as ERT's JSON, in Gflop/s and GB/s by name."""
    named = {
        "gflops": [
            [f"{name.upper()} GFLOPs", ceiling.value / 1e9]
            for name, ceiling in roofs.compute.items()
        ],
        "gbytes": [[name, ceiling.value / 1e9] for name, ceiling in roofs.bandwidth.items()],
    }
    sources = {
        name: f"{ceiling.source}: {ceiling.reference or ceiling.pattern}"
        for name, ceiling in [*roofs.compute.items(), *roofs.bandwidth.items()]
    }
    empirical: dict[str, Any] = {
        "metadata": {"PROCESSOR": roofs.processor, "WRITTEN_BY": "taupy", "SOURCES": sources},
    }
    for name, data in named.items():
        empirical[name] = {"data": data, "metadata": {}}
    empty: dict[str, Any] = {"data": []}
    spec = {"gflops": empty, "gbytes": empty}
    return json.dumps({"empirical": empirical, "spec": spec}, indent=1) + "\n"
