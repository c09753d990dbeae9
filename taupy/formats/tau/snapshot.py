"""TAU's profiles in XML: snapshots (TAU_PROFILE_FORMAT=snapshot) and merged profiles.

A snapshot contains one thread; a merged file contains all threads, as consecutive documents.
Definitions assign names to the numbers of metrics, routines and user events; a `<profile>` has
their values. Of several profiles of one thread, taken while the program ran, the last is used,
since values accumulate. Totals and means over threads (`<derivedprofile>`) are omitted, since they
can be computed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from taupy.formats import limits
from taupy.formats.reading import refusal, whole
from taupy.formats.registry import IMPORT_NOTES, Format
from taupy.formats.tau import names as tau_names
from taupy.formats.tau import thread as tau_thread
from taupy.formats.tau.rows import Rows
from taupy.formats.tau.text import Event
from taupy.formats.tau.thread import Place
from taupy.formats.tau.tree import TauTimers
from taupy.model.profile import Metric, Profile
from taupy.model.progress import Progress

_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*\?>\s*)?<profile_xml[\s>]")
_BETWEEN_DOCUMENTS = re.compile(rb"<\?xml[^>]*\?>|(?<=</profile_xml>\n)\x00+")
"""Text that an XML parser rejects inside a document. TAU writes the terminating NUL of each rank's
buffer into a merged file."""
_PLACE = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]{1,18})?", re.ASCII)
_SNAPSHOT = re.compile(r"snapshot(?:\.[0-9]{1,9}){3,4}", re.ASCII)
_EVERYWHERE = "*"


def recognises(path: Path, first_bytes: bytes) -> bool:
    return bool(_snapshots(path)) if path.is_dir() else _START.match(first_bytes) is not None


def read(source: Path, progress: Progress) -> Iterator[Profile]:
    """Read a folder of snapshots, or a single file."""
    files = _snapshots(source) if source.is_dir() else [source]
    if not files:
        raise refusal(source, "", "contains no snapshot.N.C.T")
    yield from read_together(files, progress)


def _snapshots(folder: Path) -> list[Path]:
    try:
        entries = [Path(entry.path) for entry in os.scandir(folder) if entry.is_file()]
    except OSError:
        return []
    return sorted(path for path in entries if _SNAPSHOT.fullmatch(path.name))


def _together(first: Path, other: Path) -> bool:
    """Whether two files belong to one trial: snapshots do; a merged file is a trial of its own."""
    return all(_SNAPSHOT.fullmatch(path.name) for path in (first, other))


def read_together(files: Sequence[Path], progress: Progress) -> Iterator[Profile]:
    """Files of one trial, one profile for each node."""
    threads: dict[Place, _Thread] = {}
    notes: list[str] = []
    for file in files:
        document = _Document(file)
        document.parse(whole(file, progress, limits.DOCUMENT_BYTES, "a profile of TAU's in XML"))
        for place, thread in document.threads.items():
            if thread.values is None:
                continue
            if place in threads:
                where = ".".join(map(str, place))
                raise refusal(file, f"thread {where}", "another file has this thread already")
            threads[place] = thread
        notes += document.notes
    if not threads:
        raise refusal(files[0], "", "contains no profile of a thread")
    metadata = {place: thread.metadata for place, thread in threads.items()}
    common, of_nodes = tau_thread.separated(metadata)
    if notes:
        common[IMPORT_NOTES] = "\n".join(dict.fromkeys(notes))
    for node in sorted({place[0] for place in threads}):
        timers = TauTimers()
        measured = []
        metrics: dict[str, Metric] = {}
        for place in sorted(place for place in threads if place[0] == node):
            thread = threads[place]
            rows, events = thread.rows()
            metrics |= {metric.name: metric for metric in rows.metrics}
            measured.append(tau_thread.thread_profile(place, rows, events, metadata[place], timers))
        yield tau_thread.profile(
            files[0], metrics.values(), timers, measured, common, {node: of_nodes[node]}
        )


@dataclass(slots=True)
class _Definitions:
    """The names of numbers, for one thread or for all."""

    metrics: dict[int, str] = field(default_factory=dict)
    routines: dict[int, tuple[str, str]] = field(default_factory=dict)
    events: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Values:
    """The rows of one `<profile>`, as text from the file."""

    metrics: list[int] = field(default_factory=list)
    intervals: list[str] = field(default_factory=list)
    atomics: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Thread:
    path: Path
    place: Place
    common: _Definitions
    own: _Definitions = field(default_factory=_Definitions)
    metadata: dict[str, str] = field(default_factory=dict)
    values: _Values | None = None

    def refusal(self, reason: str) -> Exception:
        return refusal(self.path, f"thread {'.'.join(map(str, self.place))}", reason)

    def rows(self) -> tuple[Rows, list[Event]]:
        """The thread's rows and user events.

        Raises:
            FormatError: a number is undefined, or a line is invalid.
        """
        assert self.values is not None
        names = [self._metric(number) for number in self.values.metrics]
        rows = Rows([tau_names.metric(name) for name in names])
        for line in self.values.intervals:
            self._add(rows, line.split())
        return rows, [self._event(line.split()) for line in self.values.atomics]

    def _metric(self, number: int) -> str:
        metric = self.own.metrics.get(number, self.common.metrics.get(number))
        if metric is None:
            raise self.refusal(f"metric {number} is not defined")
        return metric

    def _add(self, rows: Rows, words: list[str]) -> None:
        metrics = len(rows.metrics)
        if len(words) != 3 + 2 * metrics:
            raise self.refusal(f"{len(words)} numbers in a row for {metrics} metrics")
        try:
            number, calls, subroutines = (_count(word) for word in words[:3])
            if not calls and not subroutines and not any(float(word) for word in words[3:]):
                return  # defined, but never entered
            routine = self.own.routines.get(number) or self.common.routines.get(number)
            if routine is None:
                raise self.refusal(f"routine {number} is not defined")
            for metric in range(metrics):
                exclusive, inclusive = (
                    rows.value(metric, word) for word in words[3 + 2 * metric : 5 + 2 * metric]
                )
                rows.add(*routine, (metric, calls, subroutines, exclusive, inclusive))
        except (ValueError, OverflowError):
            raise self.refusal(f"not a row of numbers: {' '.join(words)}") from None

    def _event(self, words: list[str]) -> Event:
        try:
            number, count, *values = _count(words[0]), _count(words[1]), *map(float, words[2:])
            maximum, minimum, mean, squares = values
        except (ValueError, IndexError):
            raise self.refusal(f"not a user event: {' '.join(words)}") from None
        name = self.own.events.get(number) or self.common.events.get(number)
        if name is None:
            raise self.refusal(f"user event {number} is not defined")
        return Event(
            name=name, count=count, maximum=maximum, minimum=minimum, mean=mean, sum_squares=squares
        )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise ValueError
    return int(text)


class _Document:
    """Parses one file."""

    def __init__(self, path: Path) -> None:
        self.threads: dict[Place, _Thread] = {}
        self.notes: list[str] = []
        self._path = path
        self._common = _Definitions()
        self._here = self._common
        self._thread: _Thread | None = None
        self._text: list[str] = []
        self._facts: dict[str, str] = {}  # name, group, value: of the element around them
        self._number = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = self._no_doctype
        self._ends: dict[str, Callable[[str], None]] = {
            "metric": self._define_metric,
            "event": self._define_routine,
            "userevent": self._define_event,
            "attribute": self._attribute,
            "interval_data": self._intervals,
            "atomic_data": self._atomics,
        }

    def parse(self, data: bytes) -> None:
        """Parse the documents of a file.

        Raises:
            FormatError: the file is not XML, or not TAU's.
        """
        try:
            self._parser.Parse(b"<documents>", False)
            text = _BETWEEN_DOCUMENTS.sub(b"", data.removeprefix(b"\xef\xbb\xbf"))
            self._parser.Parse(text, False)
            self._parser.Parse(b"</documents>", True)
        except expat.ExpatError as problem:
            line = f"line {problem.lineno}"
            raise refusal(self._path, line, expat.errors.messages[problem.code]) from None

    def _refusal(self, reason: str) -> Exception:
        return refusal(self._path, f"line {self._parser.CurrentLineNumber}", reason)

    def _no_doctype(self, *_: object) -> None:
        raise self._refusal("a document type, which TAU never writes")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._text.clear()
        if name == "thread":
            self._thread = self._at(attributes.get("id", ""))
        elif name == "definitions":
            whose = attributes.get("thread", _EVERYWHERE)
            self._here = self._common if whose == _EVERYWHERE else self._at(whose).own
        elif name == "profile":
            self._thread = self._at(attributes.get("thread", ""))
            if self._thread.values is not None:
                self.notes.append("used the last of several snapshots of a thread")
            self._thread.values = _Values()
        elif name == "interval_data":
            numbers = attributes.get("metrics", "").split()
            self._values().metrics = [self._whole(number) for number in numbers]
        elif name in ("metric", "event", "userevent", "attribute"):
            self._facts = {}
            self._number = self._whole(attributes.get("id", "0"))
        elif name.endswith("derivedprofile"):
            self.notes.append("omitted totals and means over threads, which can be computed")

    def _end(self, name: str) -> None:
        text = "".join(self._text)
        if name in ("name", "group", "value"):
            self._facts[name] = text
        elif name in self._ends:
            self._ends[name](text)
        elif name == "thread":
            self._thread = None
        self._text.clear()

    def _whole(self, text: str) -> int:
        try:
            return _count(text)
        except ValueError:
            raise self._refusal(f"'{text}' is not a number") from None

    def _at(self, text: str) -> _Thread:
        match = _PLACE.fullmatch(text)
        if match is None:
            raise self._refusal(f"'{text}' is not a thread")
        place = int(match[1]), int(match[2]), int(match[3])
        if place not in self.threads:
            self.threads[place] = _Thread(self._path, place, self._common)
        return self.threads[place]

    def _values(self) -> _Values:
        if self._thread is None or self._thread.values is None:
            raise self._refusal("values outside a profile")
        return self._thread.values

    def _define_metric(self, _: str) -> None:
        self._here.metrics[self._number] = self._facts.get("name", "")

    def _define_routine(self, _: str) -> None:
        name = self._facts.get("name", "")
        self._here.routines[self._number] = name, self._facts.get("group", "")

    def _define_event(self, _: str) -> None:
        self._here.events[self._number] = self._facts.get("name", "")

    def _attribute(self, _: str) -> None:
        if self._thread is not None and "name" in self._facts:
            self._thread.metadata[self._facts["name"]] = self._facts.get("value", "")

    def _intervals(self, text: str) -> None:
        self._values().intervals = [line for line in text.splitlines() if line.strip()]

    def _atomics(self, text: str) -> None:
        rows = (line for line in text.splitlines() if line.strip())
        # An event that was never sampled has no minimum.
        self._values().atomics = [line for line in rows if line.split()[1:2] != ["0"]]


FORMAT = Format(
    name="tau-xml",
    title="TAU profiles in XML",
    suffixes=(),
    recognises=recognises,
    read=read,
    read_together=read_together,
    belong_together=_together,
)
