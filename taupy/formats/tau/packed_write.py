"""Write a profile as ParaProf's packed file (.ppk), which `packed.py` describes.

A file has the threads of all nodes, and each row has all metrics, so a metric that a thread did not
measure must be written as 0. The names of all functions come first; the threads' values are kept in
a temporary file until all names are known.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct, pack
from typing import IO

from taupy.formats import limits
from taupy.formats.progress import Progress
from taupy.formats.tau import flat as tau_flat
from taupy.formats.tau import names as tau_names
from taupy.formats.tau import thread as tau_thread
from taupy.formats.tau.flat import Flat, Lost
from taupy.formats.tau.names import CALLPATH_GROUP, MICROSECOND_NS
from taupy.formats.tau.thread import Place
from taupy.model.profile import Metric, Profile, ThreadProfile

MAGIC = "PPK".encode("utf-16-be")
_VERSION, _LOWEST_COMPATIBLE = 2, 1
_PLACE = Struct(">iii")
_EVENT = Struct(">iidddd")
_ARROW = "=>"


def write(profile: Profile, target: Path, progress: Progress) -> list[str]:
    """Write the file; return descriptions of what it cannot hold."""
    lost = Lost()
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    metrics = tau_flat.metrics(profile)
    tables = _Tables(metrics, _Functions(lost), _Texts(lost), lost)
    names = _routine_names(profile, lost)
    with tempfile.TemporaryFile(dir=target.parent) as threads:
        for number in _in_order(profile).values():
            measured = profile.threads[number]
            flat = Flat(
                measured.tree, profile.timers, names, stream=measured.thread.kind == "stream"
            )
            _write_thread(threads, measured, flat, tables)
            progress.advance(len(measured.tree))
        threads.seek(0)
        with open(target, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
            header = _metadata(profile, metrics, lost)
            out.write(MAGIC + pack(">ii", _VERSION, _LOWEST_COMPATIBLE))
            out.write(pack(">i", len(header)) + header)
            out.write(_table(_metric_names(metrics, lost)))
            tables.functions.write(out)
            out.write(_table(tables.events.texts) + pack(">i", len(profile.threads)))
            shutil.copyfileobj(threads, out, 1 << 20)
    lost.no_metric = sum(not thread.tree.inclusive for thread in profile.threads)
    return lost.lines()


def _in_order(profile: Profile) -> dict[Place, int]:
    """The threads' positions by place, so that those of a node are adjacent."""
    places = {
        (thread.thread.node, thread.thread.context, thread.thread.thread): number
        for number, thread in enumerate(profile.threads)
    }
    return dict(sorted(places.items()))


def _routine_names(profile: Profile, lost: Lost) -> list[str]:
    """TAU's names of our timers. ParaProf considers any name with an arrow a call path, whatever
    its group, so arrows in a routine's own name are written as `->`."""
    names = [timer.full_name for timer in profile.timers]
    others = {name for name in names if _ARROW not in name}
    spelled_names: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if _ARROW in name:
            spelled = plain = name.replace(_ARROW, "->")
            number = 2
            while spelled in others:
                spelled = f"{plain} ({number})"
                number += 1
            others.add(spelled)
            spelled_names[name] = spelled
    lost.arrows = len(spelled_names)
    return [spelled_names.get(name, name) for name in names]


class _Texts:
    """Distinct texts, by number; those too long for the format are truncated."""

    def __init__(self, lost: Lost) -> None:
        self.texts: list[bytes] = []
        self._ids: dict[str, int] = {}
        self._taken: set[bytes] = set()
        self._lost = lost

    def id(self, text: str) -> int:
        """The number of a text."""
        number = self._ids.get(text)
        if number is None:
            number = self._ids[text] = len(self.texts)
            data = self._free(text)
            self._taken.add(data)
            self.texts.append(data)
        return number

    def _free(self, text: str) -> bytes:
        """The text as written to the file; a number is appended if it would not be unique."""
        data = _java(text, self._lost)
        number = 2
        while data in self._taken:
            end = f" ({number})"
            data = _java(text[: limits.PACKED_TEXT - len(end)] + end, self._lost)
            number += 1
        return data


class _Functions:
    """The functions of all threads: routines and call paths, with their groups."""

    def __init__(self, lost: Lost) -> None:
        self._lost = lost
        self._names = _Texts(lost)
        self._groups = _Texts(lost)
        self._of: list[dict[int, None]] = []  # the groups of each function
        self._mixed: set[int] = set()

    def id(self, name: str, groups: str) -> int:
        """The number of a routine or call path, whose groups are those of all threads combined."""
        number = self._names.id(name)
        these = dict.fromkeys(self._groups.id(group) for group in groups.split("|"))
        if number == len(self._of):
            self._of.append(these)
        elif these.keys() != self._of[number].keys():
            self._mixed.add(number)
            self._of[number] |= these
        self._lost.mixed_groups = len(self._mixed)
        return number

    def write(self, out: gzip.GzipFile) -> None:
        out.write(_table(self._groups.texts))
        out.write(pack(">i", len(self._of)))
        for name, groups in zip(self._names.texts, self._of, strict=True):
            out.write(name + pack(f">{len(groups) + 1}i", len(groups), *groups))


@dataclass(frozen=True, slots=True)
class _Tables:
    """Data shared by the threads of a file: numbers of names, and counts of what is lost."""

    metrics: Sequence[Metric]
    functions: _Functions
    events: _Texts
    lost: Lost


def _write_thread(out: IO[bytes], measured: ThreadProfile, flat: Flat, tables: _Tables) -> None:
    thread, metrics, lost = measured.thread, tables.metrics, tables.lost
    lost.paths += flat.too_long
    rows = _function_rows(flat, tables)
    layout = Struct(f">idd{2 * len(metrics)}d")
    out.write(_PLACE.pack(thread.node, thread.context, thread.thread) + pack(">i", len(rows)))
    for id, values in rows.items():
        out.write(layout.pack(id, *values))
    written = tau_flat.events(measured, flat, lost)
    out.write(pack(">i", len(written)))
    for event in written:
        lost.many_samples += event.count > limits.PACKED_SAMPLES
        count = min(event.count, limits.PACKED_SAMPLES)
        ordered = (event.minimum, event.maximum, event.mean, event.sum_squares)
        out.write(_EVENT.pack(tables.events.id(event.name), count, *ordered))


def _function_rows(flat: Flat, tables: _Tables) -> dict[int, list[float]]:
    """Function -> calls, subroutines, then each metric's exclusive and inclusive values."""
    metrics, functions, lost = tables.metrics, tables.functions, tables.lost
    rows: dict[int, list[float]] = {}
    measured = 0
    for at, metric in enumerate(metrics):
        if metric.name not in flat.tree.inclusive:
            continue
        of_metric = _by_function(flat, metric.name, functions)
        measured += len(of_metric)
        scale = MICROSECOND_NS if metric.unit == "ns" else 1
        for id, (calls, subroutines, own, whole) in of_metric.items():
            row = rows.setdefault(id, [calls, subroutines, *[0.0] * (2 * len(metrics))])
            row[2 + 2 * at : 4 + 2 * at] = own / scale, whole / scale
    lost.unmeasured += len(rows) * len(metrics) - measured
    return rows


def _by_function(
    flat: Flat, metric: str, functions: _Functions
) -> dict[int, tuple[int, int, float, float]]:
    """One metric's calls, subroutines, exclusive and inclusive values, of routines and paths."""
    sums: dict[int, tuple[int, int, float, float]] = {}
    tree = flat.tree
    inclusive, exclusive = tree.inclusive[metric], tree.exclusive[metric]
    for name, values in flat.routines(metric).items():
        sums[functions.id(name, values[4])] = values[:4]
    for row in flat.paths:
        own, whole = exclusive[row], inclusive[row]
        if own != own or whole != whole:  # not measured
            continue
        groups = f"{CALLPATH_GROUP}|{flat.groups[tree.timer[row]]}"
        id = functions.id(flat.path(row) or "", groups)
        # Timers of the same name are one routine to TAU, so a path may occur twice.
        calls, subroutines, others, above = sums.get(id, (0, 0, 0, 0))
        calls, subroutines = calls + tree.calls[row], subroutines + tree.subroutines[row]
        sums[id] = (calls, subroutines, others + own, above + whole)
    return sums


def _metadata(profile: Profile, metrics: Sequence[Metric], lost: Lost) -> bytes:
    """The metadata common to all threads, then those of each thread."""
    facts = {
        place: tau_flat.facts(profile, profile.threads[number])
        for place, number in _in_order(profile).items()
    }
    common = dict(next(iter(facts.values()), {}))
    for name in (tau_thread.THREAD_NAME, tau_thread.THREAD_ID):
        common.pop(name, None)
    for of_thread in facts.values():
        common = {name: value for name, value in common.items() if of_thread.get(name) == value}
    ours = "\n".join(f"{metric.name} [{metric.unit}]" for metric in metrics)
    trial = {tau_thread.METRIC: ours, **common}
    out = [pack(">i", 0), _pairs(trial.items(), lost), pack(">i", len(facts))]
    for place, of_thread in facts.items():
        own = [(name, value) for name, value in of_thread.items() if name not in common]
        out += [_PLACE.pack(*place), _pairs(own, lost)]
    return b"".join(out)


def _pairs(facts: Iterable[tuple[str, str]], lost: Lost) -> bytes:
    pairs = [_java(name, lost) + _java(value, lost) for name, value in facts]
    return pack(">i", len(pairs)) + b"".join(pairs)


def _metric_names(metrics: Sequence[Metric], lost: Lost) -> list[bytes]:
    """TAU's names, made unique: another tool's metric may be called TIME, too."""
    names: list[str] = []
    for metric in metrics:
        name = plain = tau_names.metric_name(metric)
        number = 2
        while name in names:
            name = f"{plain} ({number})"
            number += 1
        names.append(name)
    return [_java(name, lost) for name in names]


def _table(texts: Sequence[bytes]) -> bytes:
    return pack(">i", len(texts)) + b"".join(texts)


def _java(text: str, lost: Lost) -> bytes:
    """A text as Java's `writeUTF` writes it: a length of 16 bits, two bytes for NUL, and surrogate
    pairs of three bytes each for characters beyond 16 bits."""
    if tau_flat.size(text) > limits.PACKED_TEXT:
        lost.long_texts += 1
        while tau_flat.size(text) > limits.PACKED_TEXT:
            text = text[: len(text) * limits.PACKED_TEXT // tau_flat.size(text)]
    if not text.isascii():
        data = text.encode("utf-16-be", "surrogatepass")
        text = "".join(map(chr, array("H", _swapped(data))))
    coded = text.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return pack(">H", len(coded)) + coded


def _swapped(data: bytes) -> bytes:
    """Big-endian 16-bit numbers in this machine's byte order."""
    numbers = array("H", data)
    if array("H", b"\0\1")[0] != 1:
        numbers.byteswap()
    return numbers.tobytes()
