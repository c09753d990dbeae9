"""Read functions from nvdisasm's JSON, one after another, so that a listing may be of any size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any, NamedTuple

import msgspec

from taupy.errors import FormatError

_PIECE = 1 << 20
_BEGINS = b'{"function-name":'
MOST_BYTES = 1 << 30
"""Maximum size of a function's listing: no compiler's code reaches it."""

_FILLED = re.compile(r"^(U?R(?:\d+|Z))\[")
_ARGUMENT = re.compile(r"[^,\[]*(?:\[[^\]]*\][^,\[]*)*")


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        offset: bytes from the start of the function.
        name: up to the first dot: `LDG` of `LDG.E.64`.
        modifiers: the rest of the opcode.
        arguments: its operands in order, as text.
        predicate: "P0", "!P0", "UP0"; empty for always.
        attributes: nvdisasm's attributes, such as "control-flow" and "subroutine-call".
        spill: whether the compiler annotated it as a spill or reload of registers; also False
            without annotations.
    """

    offset: int
    name: str
    modifiers: tuple[str, ...]
    arguments: tuple[str, ...]
    predicate: str
    attributes: frozenset[str]
    spill: bool

    @property
    def opcode(self) -> str:
        return ".".join((self.name, *self.modifiers))


@dataclass(frozen=True)
class Listing:
    """One function's code."""

    name: str
    instructions: list[Instruction]


@dataclass
class Listed:
    """The part of a listing before its functions.

    Attributes:
        compiler: name and version, from the listing's header; empty if it has none.
    """

    compiler: str = ""
    annotated: bool = False
    functions: int = field(default=0)


def functions(stream: IO[bytes], header: Listed) -> Iterator[Listing]:
    """The functions of a listing, each yielded as soon as it has been read.

    Args:
        header: filled in with the part before the functions.

    Raises:
        FormatError: the input is truncated, or is not a listing.
    """
    for text in _pieces(stream, header):
        try:
            function = msgspec.json.decode(text, type=_Function)
        except (msgspec.DecodeError, RecursionError):
            raise FormatError("nvdisasm's listing breaks off or is none") from None
        yield Listing(function.name, _instructions(function))
        header.functions += 1


def _pieces(stream: IO[bytes], header: Listed) -> Iterator[bytes]:
    """The text of each function: everything from one function's start to the next."""
    rest, first = b"", True
    while piece := stream.read(_PIECE):
        rest += piece
        if len(rest) > MOST_BYTES:
            raise FormatError("a function of more than 1 GiB of listing")
        *whole, rest = rest.split(_BEGINS)
        for text in whole:
            if first:
                _head(text, header)
            else:
                yield _BEGINS + text.rstrip().removesuffix(b",")
            first = False
    if first:
        _head(rest, header)
    else:
        yield _BEGINS + rest.rstrip().removesuffix(b"]").rstrip().removesuffix(b"]")


def _head(text: bytes, header: Listed) -> None:
    tool = re.search(rb'"tki_toolName": ?"([^"]+)","tki_toolVersion": ?"([^"]+)"', text)
    if tool:
        version = re.search(rb"V(\d[\d.]*)", tool[2])
        header.compiler = f"{tool[1].decode()} {version[1].decode() if version else ''}".strip()


class _Note(msgspec.Struct):
    info: str = ""


class _Entry(msgspec.Struct):
    """An instruction as nvdisasm writes it."""

    opcode: str
    operands: str = ""
    predicate: str = ""
    attributes: dict[str, Any] = msgspec.field(default_factory=dict, name="other-attributes")
    annotations: list[_Note] = []


class _Function(msgspec.Struct):
    name: str = msgspec.field(name="function-name")
    length: int
    code: list[_Entry] = msgspec.field(name="sass-instructions")


def _instructions(function: _Function) -> list[Instruction]:
    step = function.length // len(function.code) if function.code else 16
    return [_instruction(at * step, entry) for at, entry in enumerate(function.code)]


def _instruction(offset: int, entry: _Entry) -> Instruction:
    notes = entry.annotations
    header = entry.attributes
    name, modifiers = _opcode(entry.opcode)
    return Instruction(
        offset,
        name,
        modifiers=modifiers,
        arguments=arguments(entry.operands),
        predicate=entry.predicate.lstrip("@"),
        attributes=frozenset(key for key, value in header.items() if value) if header else _NOTHING,
        spill=bool(notes) and any(note.info == "SpillRefill" for note in notes),
    )


_NOTHING: frozenset[str] = frozenset()


@lru_cache(1 << 14)
def _opcode(text: str) -> tuple[str, tuple[str, ...]]:
    """An opcode split into name and modifiers."""
    name, *modifiers = text.split(".")
    return name, tuple(modifiers)


@lru_cache(1 << 16)
def arguments(text: str) -> tuple[str, ...]:
    """The operands, separated; a comma inside brackets does not separate.

    nvdisasm until 13.0 writes no comma after the register that a load fills: `R25[R1+0x110]`.
    """
    text = _FILLED.sub(r"\1,[", text)
    return tuple(part.strip() for part in _ARGUMENT.findall(text) if part.strip())
