"""Collectives, and what threads did between them, in JSON: columns are checked and assembled."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from taupy.formats import limits
from taupy.formats.json_pieces import Pieces
from taupy.model.collectives import Collectives, Stretches


def written(columns: Collectives | Stretches) -> dict[str, Any]:
    """As an object of JSON."""
    return {
        field.name: [*value] if isinstance(value, array) else value
        for field in fields(columns)
        for value in [getattr(columns, field.name)]
    }


@dataclass
class ReadCollectives:
    """Collectives as in the file."""

    communicator: str
    ranks: str
    size: int
    begun: int
    stride: int
    operation: list[str]
    number: list[int]
    bytes: list[int]
    asked_ns: list[int]
    begun_ns: list[int]
    ended_ns: list[int]
    row: list[int]


def collectives(read: ReadCollectives, pieces: Pieces) -> Collectives:
    """The collectives of a file.

    Raises:
        FormatError: columns differ in length, or a number has more than 64 bits.
    """
    columns = {name: value for name, value in vars(read).items() if isinstance(value, list)}
    if len({len(column) for column in columns.values()}) > 1:
        raise pieces.refusal("columns of collectives differ in length")
    numbers = {name: column for name, column in columns.items() if name != "operation"}
    return Collectives(**{**vars(read), **_whole(numbers, "collective", pieces)})


@dataclass
class ReadStretches:
    """Stretches as in the file."""

    start_ns: list[int]
    end_ns: list[int]
    stretch: list[int]
    row: list[int]
    own_ns: list[int]


def stretches(read: ReadStretches, pieces: Pieces) -> Stretches:
    """The stretches of a file.

    Raises:
        FormatError: columns differ in length, or refer to a stretch that does not exist, or a
            number has more than 64 bits.
    """
    ends = len(read.start_ns)
    lengths = {len(read.stretch), len(read.row), len(read.own_ns)}
    if len(read.end_ns) != ends or len(lengths) > 1:
        raise pieces.refusal("columns of stretches differ in length")
    whole = _whole(vars(read), "stretch", pieces)
    if any(not 0 <= place < ends for place in read.stretch):
        raise pieces.refusal("a stretch that is not there")
    return Stretches(**whole)


def _whole(
    columns: Mapping[str, Iterable[int]], what: str, pieces: Pieces
) -> dict[str, array[int]]:
    if any(abs(number) > limits.INTEGER for column in columns.values() for number in column):
        raise pieces.refusal(f"a number of a {what} has more than 64 bits")
    return {name: array("q", column) for name, column in columns.items()}
