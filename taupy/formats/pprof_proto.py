"""Read and write pprof profiles (Google's profile.proto, compressed with gzip).

A sample is a call path with its exclusive values; its labels name the thread. Export writes `calls`
and every metric as sample types, timers as functions, groups as mappings (`group PYTHON`), metadata
as comments. Import (`pprof_read.py`) reads all sample types; one that is a time becomes the metric
`time`. `protowire.py` encodes and decodes messages.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, BinaryIO, Final

from taupy.formats import protowire as wire
from taupy.formats.capabilities import VALUES
from taupy.formats.pprof_read import read
from taupy.formats.registry import Format
from taupy.formats.stacks import refuse_depth, stacked, unsummed
from taupy.model.profile import Metric, Profile, ThreadProfile
from taupy.model.progress import Progress

_UNITS: Final = {"ns": "nanoseconds", "B": "bytes"}

CALLS: Final = "calls"
THREAD: Final = "thread"
NAME: Final = "thread_name"
KIND: Final = "thread_kind"
NATIVE: Final = "thread_id"
GROUP: Final = "group "


_WIRES: Final = {
    1: wire.BYTES, 2: wire.BYTES, 3: wire.BYTES, 4: wire.BYTES, 5: wire.BYTES, 6: wire.BYTES,
    7: wire.VARINT, 8: wire.VARINT, 9: wire.VARINT, 10: wire.VARINT, 11: wire.BYTES,
    12: wire.VARINT, 14: wire.VARINT, 15: wire.VARINT, 16: wire.BYTES,
}  # fmt: skip


def recognises(path: Path, first: bytes) -> bool:
    """Whether all fields are those of a profile, with a sample type among them: Parca's first one
    is empty, so that other messages must be there, too."""
    seen = 0
    sampled = empty = False
    try:
        for number, kind, value in wire.fields(first):
            if number != 13 and _WIRES.get(number) != kind:
                return False
            if number == 1 and isinstance(value, bytes):
                parts = list(wire.fields(value))
                if any(field not in (1, 2) or k != wire.VARINT for field, k, _ in parts):
                    return False
                sampled = sampled or bool(parts)
                empty = True
            elif empty and number in (2, 4, 5) and isinstance(value, bytes) and value:
                sampled = sampled or all(True for _ in wire.fields(value))
            seen += 1
    except wire.WireError:
        # The first bytes end in the middle of a field; a truncated file is rejected by `read`.
        return sampled and seen > 2
    return sampled and seen > 1


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    """Write the profile; returns what the format cannot hold."""
    refuse_depth(profile)
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    with open(target, "wb") as plain, gzip.GzipFile("", "wb", 6, plain, mtime=0) as file:
        writer = _Writer(profile, file)  # type: ignore[arg-type]
        writer.write(progress)
    return _lost(profile, writer)


class _Writer:
    """Writes the messages of one profile one after another."""

    def __init__(self, profile: Profile, file: BinaryIO) -> None:
        self._profile = profile
        self._file = file
        self._strings: dict[str, int] = {}
        self._mappings: dict[str, int] = {}
        self._locations: dict[int, int] = {}
        self.rounded = self.absent = False
        time_first = sorted(
            profile.metrics, key=lambda metric: (metric.name != "time", metric.name)
        )
        names = {name for thread in profile.threads for name in thread.tree.exclusive}
        self._metrics = [metric for metric in time_first if metric.name in names]
        with_unit = {metric.name for metric in self._metrics}
        self._metrics += [Metric(name, "") for name in sorted(names - with_unit)]

    def write(self, progress: Progress) -> None:
        profile = self._profile
        strings: dict[str, None] = {"": None}
        for pair in self._types():
            strings |= dict.fromkeys(pair)
        self._strings = {text: number for number, text in enumerate(strings)}
        for kind, unit in self._types():  # first in the file, so that it is recognised
            value = wire.put_number(1, self._string(kind)) + wire.put_number(2, self._string(unit))
            self._put(wire.put_bytes(1, value))
        for text in strings:
            self._put(wire.put_text(6, text))
        self._mapping(profile.application)
        self._put(wire.put_number(9, max(0, round(profile.started_at * 1e6) * 1000)))
        self._put(wire.put_number(10, profile.duration_ns))
        if any(metric.name == "time" for metric in self._metrics):
            self._put(wire.put_number(14, self._string("time")))
        facts = {"application": profile.application, "experiment": profile.experiment}
        for fact, text in {**facts, **profile.metadata}.items():
            self._put(wire.put_number(13, self._string(f"{fact} = {text}")))
        for measured in profile.threads:
            self._samples(measured)
            progress.advance(len(measured.tree))

    def _types(self) -> list[tuple[str, str]]:
        units = [_UNITS.get(metric.unit, metric.unit or "count") for metric in self._metrics]
        names = [metric.name for metric in self._metrics]
        return [(CALLS, "count"), *zip(names, units, strict=True)]

    def _put(self, message: bytes) -> None:
        self._file.write(message)

    def _string(self, text: str) -> int:
        number = self._strings.get(text)
        if number is None:
            number = self._strings[text] = len(self._strings)
            self._put(wire.put_text(6, text))
        return number

    def _mapping(self, name: str) -> int:
        number = self._mappings.get(name)
        if number is None:
            number = self._mappings[name] = len(self._mappings) + 1
            message = wire.put_number(1, number) + wire.put_number(5, self._string(name))
            self._put(wire.put_bytes(3, message + wire.put_number(7, 1)))
        return number

    def _location(self, place: int) -> int:
        """A function, and its one location, for each timer."""
        number = self._locations.get(place)
        if number is None:
            number = self._locations[place] = len(self._locations) + 1
            timer = self._profile.timers[place]
            name = self._string(timer.name)
            line = timer.line or 0
            function = wire.put_number(1, number) + wire.put_number(2, name)
            # With a system name, pprof would remove `<module>` like template arguments.
            function += wire.put_number(4, self._string(timer.file or ""))
            self._put(wire.put_bytes(5, function + wire.put_number(5, line)))
            mapping = self._mapping(GROUP + ",".join(timer.groups))
            location = wire.put_number(1, number) + wire.put_number(2, mapping)
            at = wire.put_number(1, number) + wire.put_number(2, line)
            self._put(wire.put_bytes(4, location + wire.put_bytes(4, at)))
        return number

    def _samples(self, measured: ThreadProfile) -> None:
        """A sample for each row with exclusive values, calls, or no callees."""
        tree = measured.tree
        labels = self._labels(measured)
        locations = {place: self._location(place) for place in dict.fromkeys(tree.timer)}
        frames = {place: wire.put_varint(number) for place, number in locations.items()}
        is_leaf = bytearray(b"\1" * len(tree))
        for above in tree.parent:
            if above >= 0:
                is_leaf[above] = 0
        columns = [tree.exclusive.get(metric.name) for metric in self._metrics]
        for row, stack in enumerate(stacked(tree, frames)):
            values = [tree.calls[row]]
            values += [0 if column is None else self._whole(column[row]) for column in columns]
            if is_leaf[row] or any(values):
                sample = wire.put_bytes(1, b"".join(reversed(stack)))
                self._put(wire.put_bytes(2, sample + wire.put_packed(2, values) + labels))

    def _labels(self, measured: ThreadProfile) -> bytes:
        thread = measured.thread
        place = f"{thread.node}.{thread.context}.{thread.thread}"
        labels = b""
        words: list[tuple[str, str]] = [(THREAD, place), (NAME, thread.name), (KIND, thread.kind)]
        for key, text in words:
            if text:
                label = wire.put_number(1, self._string(key))
                labels += wire.put_bytes(3, label + wire.put_number(2, self._string(text)))
        if thread.native_id:
            label = wire.put_number(1, self._string(NATIVE))
            labels += wire.put_bytes(3, label + wire.put_number(3, thread.native_id))
        return labels

    def _whole(self, value: Any) -> int:
        if value != value:
            self.absent = True
            return 0
        whole = int(value) if abs(value) < 1 << 63 else 0
        self.rounded = self.rounded or whole != value
        return whole


def _lost(profile: Profile, writer: _Writer) -> list[str]:
    lost = unsummed(profile, None, "exclusive")
    if writer.rounded:
        lost.append("fractions of values; the format has whole numbers only")
    if writer.absent:
        lost.append("the difference between not measured and 0; both are 0")
    return lost


FORMAT = Format(
    name="pprof",
    title="pprof profile (Google's profile.proto)",
    suffixes=(".pb.gz", ".pprof"),
    recognises=recognises,
    read=read,
    write=write,
    holds=VALUES | {"call paths", "metadata"},
    folds=True,
)
