"""Parse a `profile.N.C.T` file: its header, its function rows, its user events.

Names are written raw, including quotes and newlines. A row ends after its numbers and its GROUP;
a name extends to the last quote before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from taupy.formats import limits, reading
from taupy.formats.reading import refusal
from taupy.formats.tau.rows import Rows
from taupy.model.progress import SILENT, Progress

PLACE = re.compile(r"(?:profile|dump)\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})", re.ASCII)
FIRST_LINE = re.compile(rb"([0-9]{1,18}) templated_functions(\S*.*)")


_ROW = re.compile(
    r'"(.*)" (\S+) (\S+) (\S+) (\S+)((?: [^"\s]+){0,2})(?: GROUP="([^"]*)")?\s*', re.DOTALL
)
_ROW_END = re.compile(r'" \S+ \S+ \S+ \S+(?: [^"\s]+){0,2}(?: GROUP="[^"]*")?\s*$')
_EVENT = re.compile(r'"(.*)" (\S+) (\S+) (\S+) (\S+) (\S+)\s*', re.DOTALL)
_EVENT_END = re.compile(r'" \S+ \S+ \S+ \S+ \S+\s*$')
_COUNT = re.compile(r"([0-9]{1,18}) (\w+)\s*", re.ASCII)
_TEXT = re.compile(
    r"<!\[CDATA\[(.*?)\]\]>|&(#[xX]?[0-9a-fA-F]{1,8}|lt|gt|amp|quot|apos);", re.DOTALL
)
_ATTRIBUTE = "<attribute>"
_CDATA = "<![CDATA["
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


class Event(NamedTuple):
    """A user event as in the file."""

    name: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    maximum: float
    minimum: float
    mean: float
    sum_squares: float


@dataclass(slots=True)
class Header:
    """The first lines of a file: the number of rows, the metric, and the thread's metadata."""

    rows: int
    metric: str
    metadata: dict[str, str] = field(default_factory=dict)
    has_sum_squares: bool = False


class _Lines:
    """The lines of a file, numbered; a line can be put back."""

    def __init__(self, path: Path, source: Iterator[bytes]) -> None:
        self.path = path
        self.number = 0
        self._source = source
        self._back: str | None = None

    def next(self) -> str | None:
        self.number += 1
        if self._back is not None:
            line, self._back = self._back, None
            return line
        raw = next(self._source, None)
        return None if raw is None else raw.decode("utf-8", "backslashreplace")

    def back(self, line: str) -> None:
        self._back = line
        self.number -= 1

    def refusal(self, reason: str) -> Exception:
        return refusal(self.path, f"line {self.number}", reason)


def read_header(path: Path) -> Header:
    """Only the header.

    Raises:
        FormatError: the file is not a TAU profile.
    """
    with closing(reading.lines(path, SILENT)) as source:
        return _header(_Lines(path, source))


def read(
    path: Path, progress: Progress, rows: Rows, metric: int, *, one_of_many: bool = False
) -> list[Event]:
    """Add the file's rows to `rows` as values of that metric; return its user events.

    Raises:
        FormatError: the file is truncated, or inconsistent with its own counts.
    """
    with closing(reading.lines(path, progress, one_of_many=one_of_many)) as source:
        lines = _Lines(path, source)
        header = _header(lines)
        for done in range(header.rows):
            _read_row(lines, rows, metric, header, done)
        aggregates = _counted(lines, "aggregates")
        if aggregates is None:
            raise lines.refusal(f"missing number of aggregates after {header.rows} functions")
        for _ in range(aggregates):
            if lines.next() is None:
                raise lines.refusal(f"the file ends within its {aggregates} aggregates")
        return _events(lines)


def _header(lines: _Lines) -> Header:
    first = lines.next()
    match = FIRST_LINE.fullmatch((first or "").encode())
    if match is None:
        raise lines.refusal("not a TAU profile: expected 'N templated_functions...'")
    version = match[2].decode()
    metric = "TIME"
    if version.startswith("_MULTI_"):
        metric = version.removeprefix("_MULTI_").strip()
    elif version.startswith("_hw_counters"):
        metric = "Hardware Counter"
    header = Header(int(match[1]), metric)
    second = lines.next()
    if second is None:
        raise lines.refusal(f"the file ends after its first line, before {header.rows} functions")
    if not second.startswith("#"):
        lines.back(second)  # the oldest files have no such line
        return header
    header.has_sum_squares = " SumExclSqr " in second.split("<metadata>")[0]
    if "<metadata>" in second:
        text = second
        for _ in range(limits.TAU_NAME_LINES):
            if "</metadata>" in text:
                break
            more = lines.next()
            if more is None:
                raise lines.refusal("the file ends within its metadata")
            text += "\n" + more
        header.metadata = metadata(text[text.index("<metadata>") :])
        header.metric = header.metadata.pop("Metric Name", header.metric)
    return header


def metadata(text: str) -> dict[str, str]:
    """Names and values of a metadata block. This is not a full XML parser, so custom entities are
    not expanded."""
    facts = {}
    place = text.find(_ATTRIBUTE)
    while place >= 0:
        name, place = _element(text, "name", place + len(_ATTRIBUTE))
        value, place = _element(text, "value", place)
        if name is not None and value is not None:
            facts[_plain(name)] = _plain(value)
        place = text.find(_ATTRIBUTE, place)
    return facts


def _element(text: str, tag: str, start: int) -> tuple[str | None, int]:
    """The text between <tag> and </tag>, and where it ends; CDATA may contain </tag>.

    None if the element is missing or not closed. After an unterminated CDATA section, the end is
    that of the whole text.
    """
    begin = text.find(f"<{tag}>", start, start + limits.TAU_GAP)
    if begin < 0:
        return None, start
    begin += len(tag) + 2
    end = text.find(f"</{tag}>", begin)
    inside = text.find(_CDATA, begin, max(end, begin))
    while end >= 0 and inside >= 0:
        after = text.find("]]>", inside)
        if after < 0:
            return None, len(text)
        if after > end:
            end = text.find(f"</{tag}>", after)
        inside = text.find(_CDATA, after, max(end, after))
    return (text[begin:end], end) if end >= 0 else (None, len(text))


def _plain(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        cdata, entity = match.groups()
        if cdata is not None:
            return str(cdata)
        if entity in _ENTITIES:
            return _ENTITIES[entity]
        digits = entity[1:]
        try:
            code = int(digits[1:], 16) if digits[:1] in "xX" else int(digits)
            return chr(code)
        except (ValueError, OverflowError):
            return match[0]

    return _TEXT.sub(meant, text) if "<" in text or "&" in text else text


def _read_row(lines: _Lines, rows: Rows, metric: int, header: Header, done: int) -> None:
    text = _record(lines, _ROW_END, f"function {done + 1} of {header.rows}")
    match = _ROW.fullmatch(text)
    if match is None:
        raise lines.refusal(f"not a function row (number {done + 1} of {header.rows})")
    name, calls, subroutines, exclusive, inclusive, more, groups = match.groups()
    extras = more.split()
    try:
        counts = _whole(calls), _whole(subroutines)
        measured = rows.value(metric, exclusive), rows.value(metric, inclusive)
        rows.add(name, groups or "", (metric, *counts, *measured))
        invocations = _whole(extras[-1]) if len(extras) > header.has_sum_squares else 0
    except (ValueError, OverflowError):
        raise lines.refusal("a function row with invalid numbers") from None
    for _ in range(invocations):
        if lines.next() is None:
            raise lines.refusal(f"the file ends within {invocations} invocations of a function")


def _record(lines: _Lines, end: re.Pattern[str], what: str) -> str:
    """A row, which spans several lines if its name contains newlines.

    Raises:
        FormatError: the row does not end.
    """
    line = lines.next()
    if line is None:
        raise lines.refusal(f"the file ends before {what}")
    if not line.startswith('"'):
        raise lines.refusal(f'{what} does not begin with "')
    if end.search(line):
        return line
    text = [line]
    size = len(line)
    while len(text) < limits.TAU_NAME_LINES and size < limits.LONGEST_NAME:
        line = lines.next()
        if line is None:
            raise lines.refusal(f"the file ends within {what}")
        text.append(line)
        size += len(line)
        if end.search(line):
            return "\n".join(text)
    raise lines.refusal(f"{what} does not end")


def _counted(lines: _Lines, what: str) -> int | None:
    """The number in a line `12 what`; None if the next line has another form."""
    line = lines.next()
    match = _COUNT.fullmatch(line or "")
    return int(match[1]) if match and match[2] == what else None


def _events(lines: _Lines) -> list[Event]:
    line = lines.next()
    while line is not None and not line.strip():
        line = lines.next()
    if line is None:
        return []
    match = _COUNT.fullmatch(line)
    if match is None or match[2] != "userevents":
        raise lines.refusal("more rows than announced, or a missing number of user events")
    count = int(match[1])
    heading = lines.next()
    if heading is not None and not heading.startswith("#"):
        lines.back(heading)
    events = [_event(lines, f"user event {done + 1} of {count}") for done in range(count)]
    line = lines.next()
    while line is not None:
        if line.strip():
            raise lines.refusal(f"more than the {count} user events announced")
        line = lines.next()
    return events


def _event(lines: _Lines, what: str) -> Event:
    match = _EVENT.fullmatch(_record(lines, _EVENT_END, what))
    if match is None:
        raise lines.refusal(f"{what} is not a row of a name and five numbers")
    name, count, *values = match.groups()
    try:
        if any("_" in value for value in values):
            raise ValueError
        maximum, minimum, mean, sum_squares = map(float, values)
        return Event(
            name=name,
            count=_whole(count),
            maximum=maximum,
            minimum=minimum,
            mean=mean,
            sum_squares=sum_squares,
        )
    except (ValueError, OverflowError):
        raise lines.refusal(f"{what} has invalid numbers") from None


def _whole(text: str) -> int:
    """A count; ParaProf also writes 904.0 and 9.9E8, and fractions in summaries."""
    if text.isdigit() and text.isascii():
        number = int(text)
    else:
        if "_" in text:
            raise ValueError
        number = round(float(text))
    if not -limits.INTEGER <= number <= limits.INTEGER:
        raise OverflowError
    return number
