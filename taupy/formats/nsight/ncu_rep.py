"""Read Nsight Compute's reports (`.ncu-rep`).

The container format, as observed in files of ncu 2021 to 2025: `NVR\\0`, the length (4 bytes,
little endian) of a header, the header, and blocks. A block consists of the length of its header,
the header {1: sources, 2: results, 4: strings {1: string ...}, 5: bytes of payload}, and the length
and message of each source and each result. A result: {5: mangled name, 6: name, 7: demangled name,
10: grid, 11: block, 13 ...: metric {1: number of its name among all strings, 2: value {1: text |
2: float | 3: double | 4, 5: integers}}}.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from taupy.formats import limits, protowire
from taupy.formats.nsight.ncu_metrics import Counted, CountedLaunches
from taupy.formats.protowire import BYTES, FIXED32, FIXED64, WireError
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.model.gpu import Extent
from taupy.model.profile import Profile
from taupy.model.progress import Progress

MAGIC: Final = b"NVR\0"


def recognises(path: Path, first: bytes) -> bool:
    return first.startswith(MAGIC)


def launches(path: Path, progress: Progress) -> Iterator[Counted]:
    """The launches, one by one, in order."""
    progress.begin(path.name, path.stat().st_size, "B")
    return NcuReport(path).launches(progress)


def read(path: Path, progress: Progress) -> Iterator[Profile]:
    """The only trial of a report.

    Raises:
        FormatError: the file is not a report, is truncated, or contains no kernel.
    """
    launches = CountedLaunches()
    progress.begin(path.name, path.stat().st_size, "B")
    for launch in NcuReport(path).launches(progress):
        try:
            launches.add(launch)
        except OverflowError as problem:
            raise refusal(path, f"result {launches.count}", str(problem)) from None
    if not launches.count:
        raise refusal(path, "", "no kernel was profiled: there are no results")
    notes = launches.notes()
    metadata = {IMPORT_NOTES: "\n".join(notes)} if notes else {}
    try:
        name = path.stem.partition(".")[0] or path.name
        profile = launches.profile(name, metadata, path.stat().st_mtime)
    except OverflowError:
        raise refusal(path, "", "its values are too large to be counts") from None
    yield profile


class NcuReport:
    """Reads a report, result by result."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._strings: list[str] = []

    def launches(self, progress: Progress) -> Iterator[Counted]:
        """The results, in the order of the file."""
        size = self._path.stat().st_size
        with open(self._path, "rb") as file:
            if file.read(4) != MAGIC:
                raise refusal(self._path, "byte 0", "not a report of Nsight Compute")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                at = self._length(data, 4, size) + 8
                while at < size:
                    before = at
                    header, at = self._message(data, at, size)
                    sources, results, payload = self._block(header, before)
                    if payload > size - at:
                        raise refusal(
                            self._path, f"byte {at}",
                            f"cut short: a block of {payload} bytes, {size - at} are there",
                        )  # fmt: skip
                    end = at + payload
                    for number in range(sources + results):
                        if at >= end:
                            claimed = sources + results
                            lie = f"a block claims {claimed} messages and has {number}"
                            raise refusal(self._path, f"byte {at}", lie)
                        if number < sources:
                            at = self._length(data, at, end) + 4 + at
                        else:
                            message, at = self._message(data, at, end)
                            yield self._result(message, at)
                    if at != end:
                        raise refusal(self._path, f"byte {at}", "a block is not of its length")
                    progress.advance(at - before)

    def _length(self, data: Any, at: int, end: int) -> int:
        """The length of the message at this position."""
        if at + 4 > end:
            raise refusal(self._path, f"byte {at}", "cut short")
        (size,) = struct.unpack_from("<I", data, at)
        if size > end - at - 4:
            raise refusal(
                self._path, f"byte {at}", f"cut short: {size} bytes, {end - at - 4} are there"
            )
        if size > limits.NCU_MESSAGE:
            raise refusal(self._path, f"byte {at}", f"a message of {size} bytes")
        return int(size)

    def _message(self, data: Any, at: int, end: int) -> tuple[bytes, int]:
        size = self._length(data, at, end)
        return data[at + 4 : at + 4 + size], at + 4 + size

    def _block(self, header: bytes, at: int) -> tuple[int, int, int]:
        """The numbers of sources, of results, and of bytes of payload; collects its strings."""
        numbers = {1: 0, 2: 0, 5: 0}
        try:
            for number, _, value in protowire.fields(header):
                if number in numbers and isinstance(value, int):
                    numbers[number] = value
                elif number == 4 and isinstance(value, bytes):
                    self._strings += [
                        text.decode("utf-8", "replace")
                        for which, _, text in protowire.fields(value)
                        if which == 1 and isinstance(text, bytes)
                    ]
        except WireError as problem:
            raise refusal(self._path, f"byte {at + 4 + problem.at}", str(problem)) from None
        if len(self._strings) > limits.NCU_STRINGS:
            raise refusal(
                self._path, f"byte {at}", f"more than {limits.NCU_STRINGS} names of metrics"
            )
        return numbers[1], numbers[2], numbers[5]

    def _result(self, message: bytes, end: int) -> Counted:
        counted = Counted(kernel="(unnamed kernel)")
        names: dict[int, str] = {}
        try:
            for number, wire, value in protowire.fields(message):
                if number in (5, 6, 7) and isinstance(value, bytes):
                    names[number] = value.decode("utf-8", "replace")[: limits.LONGEST_NAME]
                elif number == 10 and wire == BYTES and isinstance(value, bytes):
                    counted.grid = _extent(value)
                elif number == 11 and wire == BYTES and isinstance(value, bytes):
                    counted.block = _extent(value)
                elif number == 13 and isinstance(value, bytes):
                    self._metric(counted, value)
        except WireError as problem:
            place = f"byte {end - len(message) + problem.at}"
            raise refusal(self._path, place, f"damaged result: {problem}") from None
        counted.kernel = names.get(7) or names.get(6) or names.get(5) or counted.kernel
        return _complete(counted)

    def _metric(self, counted: Counted, message: bytes) -> None:
        name, content = -1, None
        for number, _, value in protowire.fields(message):
            if number == 1 and isinstance(value, int) and name < 0:
                name = value
            elif number == 2 and isinstance(value, bytes) and content is None:
                content = _value(value)
        if not 0 <= name < len(self._strings) or content is None:
            return
        _take(counted, self._strings[name], content)


def _take(counted: Counted, name: str, value: Any) -> None:
    """Add one metric's value to a launch."""
    if isinstance(value, str):
        counted.texts[name] = value[:1000]
    elif isinstance(value, (int, float)) and value == value and abs(value) < limits.VALUE:
        if value < 0 and name.endswith(".sum"):
            return  # counters are never negative
        counted.values[name] = value


def _complete(counted: Counted) -> Counted:
    """Fill in attributes that a report has as metrics: device, stream, compute capability."""

    def whole(name: str, largest: int) -> int:
        value = counted.values.get(name, 0)
        return int(value) if 0 <= value <= largest else 0

    major = counted.values.get("device__attribute_compute_capability_major")
    minor = counted.values.get("device__attribute_compute_capability_minor")
    if major is not None and minor is not None and 0 <= major < 100 and 0 <= minor < 100:
        counted.capability = f"{int(major)}.{int(minor)}"
    counted.device = whole("launch__device_id", 1 << 16)
    counted.context = whole("launch__context_id", 1 << 32)
    counted.stream = whole("launch__stream_id", 1 << 32)
    counted.failed = not counted.values
    for name in [name for name in counted.values if name.startswith("device__attribute_")]:
        del counted.values[name]  # facts about the chip, not measurements
    return counted


def _extent(message: bytes) -> Extent | None:
    sizes = [value for _, _, value in protowire.fields(message) if isinstance(value, int)]
    return (sizes[0], sizes[1], sizes[2]) if len(sizes) == 3 and max(sizes) < 1 << 32 else None


def _value(message: bytes) -> str | int | float | None:
    for _, wire, value in protowire.fields(message):
        if isinstance(value, int):
            return value
        if wire == FIXED64:
            return float(struct.unpack("<d", value)[0])
        if wire == FIXED32:
            return float(struct.unpack("<f", value)[0])
        return value.decode("utf-8", "replace")
    return None


FORMAT = Format(
    name="ncu-rep",
    title="Nsight Compute report",
    suffixes=(".ncu-rep",),
    recognises=recognises,
    read=read,
)
