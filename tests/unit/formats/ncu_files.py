"""Small files of Nsight Compute, made here: CSV of both pages, and the report's container."""

from __future__ import annotations

import struct
from pathlib import Path

from taupy.formats import protowire as wire

PLACE = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
         "Block Size", "Grid Size", "Device", "CC"]  # fmt: skip
LONG = [*PLACE, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]


def line(cells) -> str:
    return ",".join('"' + str(cell).replace('"', '""') + '"' for cell in cells)


def place(id=0, kernel="k(float *)", process=7, stream=7, block="(128, 1, 1)", grid="(8, 1, 1)",
          device=0, cc="9.0", name="train"):  # fmt: skip
    return [id, process, name, "127.0.0.1", kernel, 1, stream, block, grid, device, cc]


def long_rows(metrics, **at):
    """One row for each (name, unit, value)."""
    return [line([*place(**at), "Command line profiler metrics", *metric]) for metric in metrics]


def long_csv(path: Path, *launches, before=(), between=()) -> Path:
    """Launches are lists of rows; program output stands before, and after each launch."""
    text = [*before, line(LONG)]
    for rows in launches:
        text += [*rows, *between]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def wide_csv(path: Path, metrics, rows) -> Path:
    """The raw page: a column for each (name, unit)."""
    text = [line([*PLACE, *(name for name, _ in metrics)])]
    text.append(line([""] * len(PLACE) + [unit for _, unit in metrics]))
    text += [line([*at, *values]) for at, values in rows]
    path.write_text("\ufeff==PROF== Connected\n" + "\n".join(text) + "\n", encoding="utf-8")
    return path


def _sized(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def _value(value) -> bytes:
    if isinstance(value, str):
        return wire.put_text(1, value)
    if isinstance(value, int):
        return wire.put_number(5, value)
    return bytes([3 << 3 | 1]) + struct.pack("<d", value)


def result(name: str, grid, block, metrics: dict, strings: list[str]) -> bytes:
    message = wire.put_text(6, name.partition("(")[0]) + wire.put_text(7, name)
    for number, extent in ((10, grid), (11, block)):
        axes = b"".join(wire.put_number(axis, size) for axis, size in enumerate(extent, 1))
        message += wire.put_bytes(number, axes)
    for metric, value in metrics.items():
        if metric not in strings:
            strings.append(metric)
        found = wire.put_number(1, strings.index(metric)) + wire.put_bytes(2, _value(value))
        message += wire.put_bytes(13, found)
    return message


def report(path: Path, launches, *, results: int | None = None) -> Path:
    """A report of (name, grid, block, metrics); `results`: a count that lies."""
    strings: list[str] = []
    messages = [result(*launch, strings) for launch in launches]
    payload = _sized(b"\x0a\x03src") + b"".join(map(_sized, messages))
    table = b"".join(wire.put_text(1, string) for string in strings)
    header = wire.put_number(1, 1)
    header += wire.put_number(2, len(messages) if results is None else results)
    header += wire.put_bytes(4, table) + wire.put_number(5, len(payload))
    path.write_bytes(b"NVR\0" + _sized(b"\x0a\x012") + _sized(header) + payload)
    return path


# What `--page details --section SpeedOfLight_RooflineChart` prints, as far as we read it.
ROOFLINE_SECTION = (
    ("", "Theoretical Predicated-On FFMA Thread Instructions Executed", "inst/cycle", "1,000"),
    ("", "Predicated-On DFMA Thread Instructions Executed Per Cycle", "inst/cycle", "0"),
    ("", "Predicated-On FFMA Thread Instructions Executed Per Cycle", "inst/cycle", "200"),
    ("Single Precision Roofline", "Theoretical Predicated-On FFMA Operations", "inst", "2,000"),
    ("Single Precision Roofline", "SM Frequency", "Ghz", "2"),
    ("Single Precision Roofline", "Theoretical DRAM Bytes Accessible", "byte/cycle", "100"),
    ("Single Precision Roofline", "DRAM Frequency", "Ghz", "10"),
    ("Single Precision Achieved Value", "Predicated-On FFMA Operations Per Cycle", "inst", "400"),
    ("Single Precision Achieved Value",
     "Predicated-On FADD Thread Instructions Executed Per Cycle", "inst/cycle", "100"),
    ("Single Precision Achieved Value",
     "Predicated-On FMUL Thread Instructions Executed Per Cycle", "inst/cycle", "0"),
    ("Single Precision Achieved Value", "DRAM Bandwidth", "Gbyte/s", "500.00"),
    ("Double Precision Achieved Value",
     "Predicated-On DADD Thread Instructions Executed Per Cycle", "inst/cycle", "0"),
    ("Double Precision Achieved Value",
     "Predicated-On DMUL Thread Instructions Executed Per Cycle", "inst/cycle", "0"),
)  # fmt: skip
"""1,000 flop/ns (100 adds, 200 fused ones a cycle of 0.5 ns), 500 B/ns, roofs 4e12, 1e12."""


def section_csv(path: Path, section: str, rows, **at) -> Path:
    """One section of the details page; rows are (part, label, unit, value)."""
    columns = [*PLACE, "Section Name", "Body Item Label", "Metric Name", "Metric Unit",
               "Metric Value", "Rule Name", "Rule Type", "Rule Description"]  # fmt: skip
    text = [line(columns)]
    text += [line([*place(**at), section, *row]) + "," for row in rows]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


SUMMARY = ["Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size",
           "Device", "CC", "Invocations", "Section Name", "Metric Name", "Metric Unit", "Minimum",
           "Maximum", "Average"]  # fmt: skip


def summary_csv(path: Path, *kernels) -> Path:
    """`--print-summary per-kernel`; kernels are (name, grid, invocations, rows), rows are (name,
    unit, minimum, maximum, average)."""
    text = ["==PROF== Connected to process 7", line(SUMMARY)]
    for name, grid, count, rows in kernels:
        at = [7, "train", "127.0.0.1", name, "(128, 1, 1)", grid, 0, "8.0", count]
        text += [line([*at, "Command line profiler metrics", *row]) for row in rows]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path
