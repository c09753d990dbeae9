"""Read Nsight Compute's CSV: raw and details pages, summaries, and pivot tables made from them.

`ncu_table.py` yields the rows, which become launches here. Sections of the same launches in several
files are joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from taupy.formats import limits
from taupy.formats.nsight import ncu_table, ncu_units
from taupy.formats.nsight.ncu_metrics import Counted, CountedLaunches
from taupy.formats.nsight.ncu_table import NcuRows, Value
from taupy.formats.reading import refusal
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.model.profile import Profile
from taupy.model.progress import SILENT, Progress

_ENOUGH_TO_KNOW: Final = 200  # launches compared to see whether two files have the same ones

_DURATION: Final = "gpu__time_duration.sum"
_NO_VALUE: Final = ("nan", "-nan", "inf", "-inf", "n/a", "")
_KERNEL: Final = ("Kernel Name", "Kernel", "Name", "kernel_name", "kernel")
_LAUNCH: Final = ("ID", "Process ID", "Host Name", "Kernel Name", "Device")
_NUMBER: Final = re.compile(r"\d+")

Key = tuple[str, ...]
"""Identifies a launch in all files of a run."""


def recognises(path: Path, first: bytes) -> bool:
    if _has_header(first):
        return True
    if b"==ERROR== ERR_NVGPUCTRPERM" in first:
        return True  # no kernel was profiled, and the reader says why
    if b"==PROF==" not in first and b"==WARNING==" not in first:
        return False
    with open(path, "rb") as file:  # the program may have printed a lot before the header
        seen = first[-4096:]
        for _ in range(limits.NCU_LOOKED >> 20):
            piece = file.read(1 << 20)
            if not piece:
                return False
            if _has_header(seen + piece):
                return True
            seen = piece[-4096:]
    return False


def _has_header(data: bytes) -> bool:
    return any(
        ncu_table.header(line.decode("utf-8", "replace")) is not None
        for line in data.splitlines()
        if ncu_table.may_be_header(line)
    )


def launches(path: Path, progress: Progress) -> Iterator[Counted]:
    """The launches, one by one, in order; a summary's row is repeated for each of its launches."""
    for launch in _Reader(path).launches(progress):
        for _ in range(launch.counted.count):
            yield launch.counted


def share_launches(path: Path, other: Path) -> bool:
    """Whether two files contain sections of the same launches of one run."""
    keys = [
        {launch.key for launch in islice(_Reader(report).launches(SILENT), _ENOUGH_TO_KNOW)}
        for report in (path, other)
    ]
    return bool(keys[0] & keys[1])


def read(path: Path, progress: Progress) -> Iterator[Profile]:
    """The file's only trial; processes are nodes, in order of appearance.

    Raises:
        FormatError: there is no header, no launch, or an invalid row.
    """
    reader = _Reader(path)
    yield _profile([reader], reader.launches(progress))


def read_together(paths: Sequence[Path], progress: Progress) -> Iterator[Profile]:
    """One trial from several files of one run: each launch has the values of all files.

    Raises:
        FormatError: as for `read`; or there are more launches than fit into memory.
    """
    readers = [_Reader(path) for path in paths]
    joined: dict[Key, _Launch] = {}
    for reader in readers:
        for launch in reader.launches(progress):
            earlier = joined.setdefault(launch.key, launch)
            if earlier is not launch:
                _join(earlier.counted, launch.counted)
            if len(joined) > limits.NCU_JOINED:
                reason = f"more than {limits.NCU_JOINED} launches: import it by itself"
                raise refusal(reader.table.path, f"line {reader.table.number}", reason)
    yield _profile(readers, iter(joined.values()))


def _join(earlier: Counted, other: Counted) -> None:
    """Add another file's values of the same launch; existing values are kept."""
    for name, value in other.values.items():
        earlier.values.setdefault(name, value)
    for name, unit in other.units.items():
        earlier.units.setdefault(name, unit)
    for name, text in other.texts.items():
        earlier.texts.setdefault(name, text)
    earlier.absent |= other.absent
    earlier.failed = earlier.failed and other.failed


def _profile(readers: Sequence[_Reader], launches: Iterator[_Launch]) -> Profile:
    path = readers[0].table.path
    counted = CountedLaunches()
    application = ""
    for launch in launches:
        try:
            counted.add(launch.counted)
        except OverflowError as problem:
            raise refusal(path, f"line {readers[0].table.number}", str(problem)) from None
        application = application or launch.application
    for reader in readers:
        reader.require_table()
    if not counted.count:
        errors = [error for reader in readers for error in reader.table.errors]
        reason = f"no kernel was profiled: {errors[0] if errors else 'there are no rows'}"
        raise refusal(path, f"line {readers[0].table.number}", reason)
    notes = counted.notes()
    if len(readers) > 1:
        notes.insert(0, f"sections of the same launches joined from {len(readers)} files")
    notes += dict.fromkeys(note for reader in readers for note in reader.notes())
    errors = [error for reader in readers for error in reader.table.errors]
    notes += [f"ncu said: {error}" for error in dict.fromkeys(errors) if "NVGPUCTRPERM" in error]
    metadata = {"ncu errors": "\n".join(errors)} if errors else {}
    if notes:
        metadata[IMPORT_NOTES] = "\n".join(notes)
    name = application or path.stem.partition(".")[0] or path.name
    try:
        return counted.profile(name, metadata, path.stat().st_mtime)
    except OverflowError:
        raise refusal(path, "", "its values are too large to be counts") from None


@dataclass(slots=True)
class _Launch:
    """One launch in a file, or one kernel of a summary."""

    key: Key
    application: str
    counted: Counted


class _Reader:
    """The launches of a file."""

    def __init__(self, path: Path) -> None:
        self.table = NcuRows(path)
        self._timed_by_pivot = False

    def require_table(self) -> None:
        """
        Raises:
            FormatError: the file had no table.
        """
        if self.table.kind is None and self.table.errors:
            raise refusal(self.table.path, "", f"ncu profiled nothing: {self.table.errors[0]}")
        if self.table.kind is None:
            raise refusal(
                self.table.path,
                "",
                'no header line beginning with "ID","Process ID", with "Kernel Name" and '
                '"Metric Name", or with names of metrics: not from ncu --csv',
            )

    def notes(self) -> list[str]:
        notes = self.table.notes()
        if self.table.kind == "summary":
            notes.append(
                "a summary has the mean, the least and the largest value of its launches: "
                "standard deviations are the least that these allow"
            )
        if self._timed_by_pivot:
            notes.append(
                "the column Time is taken as seconds of all launches of a row, as NERSC's scripts "
                "write it"
            )
        return notes

    def launches(self, progress: Progress) -> Iterator[_Launch]:
        """The launches; each is yielded after its last row."""
        current: _Launch | None = None
        for row in self.table.rows(progress):
            cells = row.cells
            if self.table.kind == "wide" and not row.values:
                place = f"line {self.table.number}"
                raise refusal(self.table.path, place, "neither metrics nor their names")
            key = self._key(cells)
            if current is None or key != current.key:
                if current is not None:
                    yield _completed(current)
                application = cells.get("Process Name", "")
                current = _Launch(key, application, self._launch(cells))
            for value in row.values:
                _take(current.counted, value)
            if self.table.kind == "pivot":
                self._take_pivot(current.counted, cells)
        if current is not None:
            yield _completed(current)

    def _key(self, cells: Mapping[str, str]) -> Key:
        if self.table.kind == "pivot":
            return (str(self.table.number),)
        if self.table.kind == "summary":
            return tuple(cells[name] for name in cells if name not in ncu_table.VALUES)
        return tuple(cells.get(name, "") for name in _LAUNCH)

    def _launch(self, cells: Mapping[str, str]) -> Counted:
        def whole(name: str) -> int:
            value = ncu_units.number(cells.get(name, ""))
            return int(value) if value is not None and 0 <= value < 1 << 32 else 0

        count = whole("Invocations") or whole("Count") or 1
        return Counted(
            kernel=_kernel(cells, self.table.kind == "pivot"),
            process=cells.get("Process ID", "")[:64],
            device=min(whole("Device"), 1 << 16),
            capability=cells.get("CC", "")[:16],
            context=whole("Context"),
            stream=whole("Stream"),
            grid=ncu_units.extent(cells.get("Grid Size", "")),
            block=ncu_units.extent(cells.get("Block Size", "")),
            count=min(count, 1 << 31),
        )

    def _take_pivot(self, counted: Counted, cells: Mapping[str, str]) -> None:
        """Convert a row of a pivot table, which has sums over launches and sometimes their time, to
        means per launch."""
        if counted.count > 1:
            for name in counted.values:
                counted.values[name] /= counted.count
        seconds = ncu_units.number(cells.get("Time", ""))
        if seconds is not None and 0 < seconds < 1e6 and _DURATION not in counted.values:
            counted.values[_DURATION] = seconds * 1e9 / counted.count
            self._timed_by_pivot = True


def _kernel(cells: Mapping[str, str], pivot: bool) -> str:
    name = next((cells[name] for name in _KERNEL if name in cells), "")
    if pivot and not name:
        first = next(iter(cells.values()), "").strip()
        name = f"row_{first}" if _NUMBER.fullmatch(first) else first
    return name[: limits.LONGEST_NAME] or "(unnamed kernel)"


def _take(counted: Counted, value: Value) -> None:
    """Add one metric's value: a number, a text, or a mark for a missing value."""
    name = value.name
    if value.number is None:
        text = value.text.strip()
        if text.lower() in _NO_VALUE:
            counted.absent.add(name)
        else:
            counted.texts[name] = text[:1000]
        return
    if value.number < 0 and name.endswith(".sum"):
        return  # counters are never negative
    factor, base = ncu_units.base(value.unit)

    def scaled(number: float) -> float:
        return number if factor == 1 else number * factor

    counted.values[name] = scaled(value.number)
    if base:
        counted.units[name] = base
    if value.least is not None and value.largest is not None:
        counted.ranges[name] = scaled(value.least), scaled(value.largest)


def _completed(launch: _Launch) -> _Launch:
    """Mark the launch as failed if it has neither values nor extents."""
    launch.counted.failed = not launch.counted.values and launch.counted.block is None
    return launch


FORMAT = Format(
    name="ncu-csv",
    title="Nsight Compute CSV",
    suffixes=(".ncu.csv",),
    recognises=recognises,
    read=read,
    read_together=read_together,
    belong_together=share_launches,
)
