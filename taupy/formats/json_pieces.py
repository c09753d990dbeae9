"""Read JSON piece by piece, as events, so that a file of any size needs little memory.

Invalid JSON, and JSON that is nested too deeply, is rejected with the place of the error.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taupy.errors import FormatError
from taupy.formats import limits, reading
from taupy.formats.reading import refusal
from taupy.model.progress import CountedFile, Progress

Event = tuple[str, Any]
"""An event of ijson and its value, if it has one: start_map, map_key, end_map, start_array,
end_array, string, number, boolean, null."""

_START = ("start_map", "start_array")
_END = ("end_map", "end_array")


class Pieces:
    """The events of a file, one after another."""

    def __init__(self, path: Path, events: Iterator[Event], read: Callable[[], int]) -> None:
        self.path = path
        self.seen = 0
        self._events = events
        self._depth = 0
        self._read = read

    def next(self) -> Event:
        """The next event.

        Raises:
            FormatError: the file ends, is not JSON, or is nested too deeply.
        """
        from ijson.common import JSONError

        try:
            event = next(self._events)
        except StopIteration:
            raise self.refusal(self._ends()) from None
        except (JSONError, UnicodeDecodeError, RecursionError) as problem:
            raise self.refusal(self._fault(str(problem))) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise self.refusal(reading.gzip_fault(self.path, problem)) from None
        except ValueError as problem:  # a number of thousands of digits
            raise self.refusal(f"an invalid value ({str(problem)[:80]})") from None
        self.seen += 1
        kind, value = event
        if kind in _START:
            self._depth += 1
            if self._depth > limits.JSON_DEPTH:
                raise self.refusal(f"nested more than {limits.JSON_DEPTH} deep")
        elif kind in _END:
            self._depth -= 1
        elif kind == "string" or kind == "map_key":
            if len(value) > limits.LONGEST_NAME:
                raise self.refusal("a text longer than any name")
        elif kind == "number" and isinstance(value, int) and abs(value) > limits.INTEGER:
            return kind, float(value) if abs(value) < 1 << 1000 else float("inf")
        return kind, value

    def expect(self, kind: str, what: str) -> None:
        self.is_start(self.next(), kind, what)

    def is_start(self, event: Event, kind: str, what: str) -> None:
        """Reject an event that does not begin `what`."""
        if event[0] != kind:
            raise self.refusal(f"expected {what}, not {_shown(event)}")

    def members(self) -> Iterator[str]:
        """The keys of a map that has begun; the caller must take the value of each."""
        while (event := self.next())[0] != "end_map":
            yield str(event[1])

    def value(self) -> Any:
        """A whole value, which must be small."""
        return self._whole(self.next(), [0])

    def rest_of_map(self) -> dict[str, Any]:
        """The keys and values of a map that has begun, which must be small."""
        budget = [0]
        return {key: self._whole(self.next(), budget) for key in self.members()}

    def skip(self) -> None:
        """Skip a value of any size."""
        depth = self._depth
        self.next()
        while self._depth > depth:
            self.next()

    def _whole(self, event: Event, budget: list[int]) -> Any:
        budget[0] += 1
        if budget[0] > limits.LONGEST_NAME:
            raise self.refusal("a value that is too large")
        kind, value = event
        if kind == "start_map":
            return {key: self._whole(self.next(), budget) for key in self.members()}
        if kind == "start_array":
            items = []
            while (piece := self.next())[0] != "end_array":
                items.append(self._whole(piece, budget))
            return items
        return value

    def _ends(self) -> str:
        return f"the file ends in the middle of the JSON, at byte {self._read()}"

    def _fault(self, message: str) -> str:
        """The parser's message without the lines that point to the place."""
        first = " ".join((message.splitlines() or [""])[0].split())
        if "premature EOF" in first or "Incomplete JSON" in first:
            return self._ends()
        reason = first.removeprefix("parse error: ").removeprefix("lexical error: ")
        return f"damaged JSON before byte {self._read()}: {reason[:120]}"

    def refusal(self, reason: str) -> FormatError:
        return refusal(self.path, f"JSON value {self.seen}", reason)


def _shown(event: Event) -> str:
    kind, value = event
    return kind.replace("_", " of ") if value is None else f"{kind} {str(value)[:50]}"


@contextmanager
def opened(path: Path, progress: Progress) -> Iterator[Pieces]:
    """The events of a file, uncompressed if it is gzip."""
    import ijson

    with CountedFile(path, progress) as file, open(path, "rb") as other:
        packed = other.read(2) == b"\x1f\x8b"
        raw: Any = file
        source: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        guarded = _Guarded(path, source)
        events = ijson.basic_parse(guarded, use_float=True)
        yield Pieces(path, events, lambda: guarded.done)


class _Guarded:
    """The bytes of a JSON file, without a byte order mark.

    A parser needs time quadratic in the length of a string or number of many megabytes. Therefore
    a stretch without quotation marks must be a list of numbers.
    """

    def __init__(self, path: Path, source: Any) -> None:
        self._path = path
        self._source = source
        self.done = 0
        self._quoteless = 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._source.read(size)
        if not self.done:
            data = data.removeprefix(b"\xef\xbb\xbf")
        self.done += len(data)
        if b'"' in data and b'"' in data.replace(b'\\"', b""):
            self._quoteless = 0
            return data
        self._quoteless += len(data)
        if self._quoteless > limits.LONGEST_NAME and (
            b"," not in data or data.translate(None, _OF_NUMBERS)
        ):
            raise refusal(self._path, f"byte {self.done}", "a text longer than any name")
        return data


_OF_NUMBERS = b"0123456789+-.eE,[]{} \t\r\nnul"
