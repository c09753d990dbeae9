"""The events of a Chrome trace, one after another, from a file of any size.

Profilers write JSON with code of their own, and some write it wrong: cut off in the middle, with
bytes that are not UTF-8, lone backslashes, `nan`, surplus commas. Events that can be repaired are
read, others are left out, and both are counted. Memory holds one piece of the file and one event.
Others interpret the events.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterator
from json.scanner import make_scanner
from pathlib import Path
from typing import Any, Final

from taupy.errors import FormatError
from taupy.formats import limits
from taupy.formats.reading import refusal
from taupy.model.progress import CountedFile, Progress

PIECE: Final = 1 << 20
"""Bytes that are read at once."""


_FURTHER: Final = 1024
"""How far a value may run past the point where another event seems to begin."""


_HEADER: Final = frozenset(
    ("deviceProperties", "distributedInfo", "schemaVersion", "baseTimeNanoseconds", "host_name",
     "displayTimeUnit", "traceName", "otherData", "trace_id", "with_stack", "record_shapes",
     "profile_memory", "with_flops", "with_modules", "cuda_runtime_version", "cuda_driver_version",
     "cupti_version", "stackFrames", "viztracer_metadata", "file_info")
)  # fmt: skip

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_SEPARATORS: Final = re.compile(r"[ \t\r\n,]*")
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_ESCAPES: Final = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_NOT_NUMBERS: Final = re.compile(
    r"(?<=[:,\[])(\s*)-?(?:nan|inf|infinity)(?:\(\w*\))?(?=\s*[,}\]])", re.I
)
_NOTHING: Final = re.compile(r":(\s*)(?=[,}])")
_COMMAS: Final = re.compile(r",(\s*)(?=[}\]])")
_NEXT_EVENT: Final = re.compile(
    r'[,\[]\s*(\{\s*"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s|tts)"\s*:)'
)
_CLOSING: Final = re.compile(r"\]\s*\}?\s*\Z")
_EDGE: Final = 16
"""An error this close to the end of what was read may come from that end."""


class Number(str):
    """A number with a fraction or an exponent, as written in the file; `float` converts it."""

    __slots__ = ()


class Events:
    """The events of one file; iterate once, then look at the rest.

    Attributes:
        header: values beside the events, by key.
        cut_off: where a truncated file ends, as text.
        broken: number of unreadable events.
        mended: number of repaired events.
        not_utf8: some bytes were not UTF-8.
    """

    def __init__(self, path: Path, progress: Progress) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.cut_off = ""
        self.broken = 0
        self.first_broken = ""
        self.mended = 0
        self.not_utf8 = False
        self.count = 0
        self._progress = progress
        self._text = ""
        self._at = 0
        self._dropped = 0
        self._end = False
        self._blank = self._counted = 0
        self._pieces: Iterator[str] = iter(())
        decoder = json.JSONDecoder(strict=False, parse_float=Number)
        self._scan: Any = make_scanner(decoder)  # type: ignore[arg-type]  # the C scanner, ten times faster than the other

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Raises FormatError if the file is not a trace, or exceeds a limit."""
        with CountedFile(self.path, self._progress) as file:
            self._pieces = self._decoded(file)
            try:
                yield from self._document()
            except RecursionError:
                raise self._refusal("nested too deeply") from None

    def _document(self) -> Iterator[dict[str, Any]]:
        self._more()
        if self._text.startswith("\ufeff"):
            self._at = 1
        first = self._peek()
        if first == "[":
            self._at += 1
            yield from self._array(may_be_open=True)
        elif first == "{":
            self._at += 1
            yield from self._object()
        else:
            raise self._refusal("not JSON: expected an object or an array here")

    def _object(self) -> Iterator[dict[str, Any]]:
        while True:
            self._skip(_SEPARATORS)
            mark = self._peek()
            if mark in ("", "}"):
                if not mark:
                    self.cut_off = self.cut_off or self._place()
                return
            key = self._value()
            if key is _CUT:
                return
            if not isinstance(key, str) or self._peek() != ":":
                if self._end and self._at >= len(self._text):
                    self.cut_off = self.cut_off or self._place()
                    return
                raise self._refusal("damaged JSON: expected a key with a value")
            self._at += 1
            if key == "traceEvents" and self._peek() == "[":
                self._at += 1
                yield from self._array()
                continue
            value = self._value()
            if value is _CUT:
                return
            if key in _HEADER:
                self.header[key] = value

    def _array(self, *, may_be_open: bool = False) -> Iterator[dict[str, Any]]:
        """The events of an array; the bracket at its end is optional in files that are an array."""
        scan, separators = self._scan, _SEPARATORS
        while True:
            text = self._text
            match = separators.match(text, self._at)
            assert match is not None
            at = match.end()
            if at >= len(text):
                self._at = at
                if not self._more():
                    if not may_be_open:
                        self.cut_off = self.cut_off or self._place()
                    return
                continue
            if text[at] == "]":
                self._at = at + 1
                return
            self.count += 1
            try:
                event, self._at = scan(text, at)
                # A number may go on in the next piece.
                if self._at == len(text) and not isinstance(event, dict):
                    raise StopIteration(self._at)
            except (StopIteration, ValueError):
                self._at = at
                event = self._value(in_array=True)
                if event is _CUT:
                    return
                if event is _BROKEN:
                    continue
            if isinstance(event, dict):
                yield event
            else:
                self._note_broken("not an object")

    def _value(self, *, in_array: bool = False) -> Any:
        """The value that begins here; _CUT if the file ends within it."""
        self._skip(_BLANKS)
        while True:
            try:
                value, end = self._scan(self._text, self._at)
                if (
                    end == len(self._text)
                    and not self._end
                    and not isinstance(value, (dict, list, str))
                ):
                    self._grow()
                    continue
                self._at = end
                return value
            except StopIteration as stop:
                where, words = stop.value, "a value is missing"
            except json.JSONDecodeError as problem:
                where, words = problem.pos, problem.msg
            except ValueError as problem:  # a number with thousands of digits
                where, words = self._at, str(problem)
            near = where >= len(self._text) - _EDGE or words.startswith("Unterminated")
            if near and not self._end:
                self._grow()
                continue
            return self._salvage(where, words, in_array)

    def _salvage(self, where: int, words: str, in_array: bool) -> Any:
        """The value after a repair, else _BROKEN with the next event ahead."""
        if in_array:
            following = _NEXT_EVENT.search(self._text, max(where, self._at + 1))
            if following is None and not self._end:
                self._grow()
                return self._value(in_array=True)
            # Unpaired quotes would hide the end of the event: look for the next event, too.
            ends = [following.start()] if following else []
            limit = following.start() + _FURTHER if following else self._at + limits.TRACE_MENDED
            near = _end_of_value(self._text, self._at, limit)
        else:
            ends = []
            near = _end_of_value(self._text, self._at, self._at + limits.TRACE_VALUE)
            if near is None and not self._end:
                self._grow()
                return self._value()
        for stop in ends if near is None else [*ends, near]:
            piece = self._text[self._at : stop]
            try:
                value = json.loads(_repaired(piece), strict=False, parse_float=Number)
            except ValueError:
                continue
            self._at = stop
            self.mended += 1
            return value
        if in_array:
            return self._next_event(where, words)
        if self._end and near is None:
            self.cut_off = self._place()
            return _CUT
        raise self._refusal(f"damaged JSON ({words})")

    def _next_event(self, where: int, words: str) -> Any:
        """Skip to the apparent beginning of the next event."""
        at_end = where >= len(self._text) - _EDGE
        while True:
            match = _NEXT_EVENT.search(self._text, max(where, self._at + 1))
            if match is not None:
                self._note_broken(words)
                self._at = match.start(1)
                return _BROKEN
            if self._end:
                closing = _CLOSING.search(self._text, self._at)
                if closing is not None and not at_end:
                    self._note_broken(words)
                    self._at = closing.start()
                    return _BROKEN
                self.cut_off = self._place()
                self._at = len(self._text)
                return _CUT
            where = max(self._at + 1, len(self._text) - 64)
            dropped = self._dropped
            self._grow()
            where -= self._dropped - dropped

    def _note_broken(self, words: str) -> None:
        self.broken += 1
        self.first_broken = self.first_broken or f"{self._place()}: {words}"
        if self.broken > limits.TRACE_BROKEN:
            raise self._refusal(f"more than {limits.TRACE_BROKEN} events cannot be read ({words})")

    def _skip(self, what: re.Pattern[str]) -> None:
        while True:
            match = what.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or not self._more():
                return

    def _peek(self) -> str:
        self._skip(_BLANKS)
        return self._text[self._at : self._at + 1]

    def _more(self) -> bool:
        """Read the next piece and drop what has been processed. False at the end of the file."""
        piece = next(self._pieces, None)
        if piece is None:
            self._end = True
            return False
        self._blank = self._blank + 1 if self.count == self._counted else 0
        self._counted = self.count
        if self._blank > limits.TRACE_BLANK:
            raise self._refusal(f"{limits.TRACE_BLANK} MB without an event")
        self._dropped += self._at
        self._text = self._text[self._at :] + piece
        self._at = 0
        return True

    def _grow(self) -> None:
        """Read at least as much as is in memory of the value that begins here."""
        if len(self._text) - self._at > limits.TRACE_VALUE:
            raise self._refusal(f"a value of more than {limits.TRACE_VALUE:,} characters")
        pieces = [self._text[self._at :]]
        self._dropped += self._at
        self._at = 0
        size = max(len(pieces[0]), PIECE)
        while size > 0:
            piece = next(self._pieces, None)
            if piece is None:
                self._end = True
                break
            pieces.append(piece)
            size -= len(piece)
        self._text = "".join(pieces)

    def _decoded(self, file: CountedFile) -> Iterator[str]:
        """The file's text in pieces, uncompressed if it is gzip."""
        with open(self.path, "rb") as other:
            packed = other.read(2) == b"\x1f\x8b"
        source: Any = _Unpacked(file) if packed else file
        strict = codecs.getincrementaldecoder("utf-8")("strict")
        lenient: codecs.IncrementalDecoder | None = None
        while True:
            data = source.read(PIECE)
            if lenient is None:
                try:
                    state = strict.getstate()
                    yield strict.decode(data, final=not data)
                except UnicodeDecodeError:
                    self.not_utf8 = True
                    lenient = codecs.getincrementaldecoder("utf-8")("replace")
                    lenient.setstate(state)
                    yield lenient.decode(data, final=not data)
            else:
                yield lenient.decode(data, final=not data)
            if not data:
                if packed and source.problem:
                    self.cut_off = f"damaged gzip data: {source.problem}"
                return

    def _place(self) -> str:
        return (
            f"traceEvents[{self.count - 1}]"
            if self.count
            else f"character {self._dropped + self._at}"
        )

    def _refusal(self, reason: str) -> FormatError:
        return refusal(self.path, self._place(), reason)


class _Unpacked:
    """Reads gzip up to the first error, which `problem` describes."""

    def __init__(self, file: CountedFile) -> None:
        self._file = file
        self._unpacker = zlib.decompressobj(31)
        self._packed = b""
        self.problem = ""

    def read(self, size: int) -> bytes:
        while not self.problem:
            if not self._packed:
                self._packed = self._file.read(PIECE)
                if not self._packed:
                    self.problem = "" if self._unpacker.eof else "the end is missing"
                    return b""
            if self._unpacker.eof:  # gzip files may be concatenated
                self._unpacker = zlib.decompressobj(31)
            try:
                data = self._unpacker.decompress(self._packed, size)
            except zlib.error as problem:
                self.problem = str(problem)
                return b""
            self._packed = self._unpacker.unconsumed_tail or self._unpacker.unused_data
            if data:
                return data
        return b""


_CUT: Final = object()
_BROKEN: Final = object()


def _end_of_value(text: str, at: int, end: int) -> int | None:
    """The end of the object or array that begins at `at`; None if it is not before `end`."""
    depth = 0
    for token in _TOKENS.finditer(text, at, end):
        mark = token[0]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth <= 0:
                return token.end()
    return None


def _repaired(text: str) -> str:
    """Repaired JSON: lone backslashes are doubled, `nan` and empty values made valid."""
    text = _ESCAPES.sub(lambda match: match[0] if match[1] else "\\\\", text)
    text = _NOT_NUMBERS.sub(r"\1NaN", text)
    text = _NOTHING.sub(r": null\1", text)
    return _COMMAS.sub(r"\1", text)
