"""Split the text of a program into pieces in which secrets are looked for, one line each.

A statement over several lines becomes one line, without comments, and strings that Python joins
become one string, so that `password = (\\n "ab"\\n "cd")` reads `password = ( "abcd")`. A comment,
and each line of a string in triple quotes, is a piece of its own. The tokens are found here, since
those of the module `tokenize` differ from one Python to the next, and equal texts have equal hashes
everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from taupy.dataclass import NamedTuple

_TOKEN = re.compile(
    r"""\#[^\n]*+"""
    r"""|(?:(?<!\w)[A-Za-z]{1,2})?(?:\"{3}(?:[^"\\]|\\.|"(?!""))*+(?:\"{3}|\Z)"""
    r"""|'{3}(?:[^'\\]|\\.|'(?!''))*+(?:'{3}|\Z)"""
    r"""|"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?)"""
    r"""|[()\[\]{}\n]|\\\n""",
    re.DOTALL,
)
_STRING = re.compile(r"""([A-Za-z]*)(\"{3}|'{3}|["'])(.*?)(?:\2|\Z)""", re.DOTALL)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_BETWEEN = re.compile(r"[\s+]*")
_CONTINUED = re.compile(r"\\\n")
_OPAQUE = str.maketrans({"\n": "\r", **dict.fromkeys("\"'\\:=@;", ".")})
"""A text of several lines is a value as a whole: the marks in it mean nothing outside."""


class Piece(NamedTuple):
    """A line in which secrets are looked for.

    Attributes:
        at: the position of each of its letters in the text.
        is_statement: it is code, not what a comment or a string holds.
    """

    line: str
    at: Sequence[int]
    is_statement: bool


def pieces(text: str, is_clean: Callable[[str], bool]) -> Iterator[Piece]:
    """The pieces of a program's text, without those that are clean."""
    start = depth = 0
    tokens: list[re.Match[str]] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        depth = max(0, depth + (mark in _OPENING) - (mark in _CLOSING))
        if mark == "\n" and not depth:
            yield from _pieces(text, start, token.start(), tokens, is_clean)
            start, tokens = token.end(), []
        elif mark not in _OPENING and mark not in _CLOSING:
            tokens.append(token)
    yield from _pieces(text, start, len(text), tokens, is_clean)


def replaced(text: str, piece: Piece, line: str, letters: list[str]) -> None:
    """Put a piece, some of whose letters are others now, into the letters of the text."""
    for at, before, after in zip(piece.at, piece.line, line, strict=False):
        if before != after and text[at] != "\n":
            letters[at] = after


def _pieces(
    text: str,
    start: int,
    end: int,
    tokens: Sequence[re.Match[str]],
    is_clean: Callable[[str], bool],
) -> Iterator[Piece]:
    """A statement, and what its comments and strings hold."""
    if is_clean(text[start:end]):
        return
    yield _statement(text, start, end, tokens)
    for token in tokens:
        if token[0][0] == "#":
            yield Piece(token[0], range(token.start(), token.end()), is_statement=False)
        elif (match := _STRING.fullmatch(token[0])) and len(match[2]) == 3:
            lines = match[3].split("\n")
            begins = accumulate((len(line) + 1 for line in lines), initial=match.start(3))
            for begin, line in zip(begins, lines, strict=False):
                if not is_clean(line):
                    at = token.start() + begin
                    yield Piece(line, range(at, at + len(line)), is_statement=False)


def _statement(text: str, start: int, end: int, tokens: Sequence[re.Match[str]]) -> Piece:
    """The line that a statement over several lines would be."""
    letters: list[str] = []
    at: list[int] = []

    def add(shown: str, first: int) -> None:
        letters.extend(shown)
        at.extend(range(first, first + len(shown)))

    quote, closed = "", 0  # the last string's, and where its end stands in `letters`
    for token in tokens:
        add(text[start : token.start()], start)
        start = token.end()
        match = _STRING.fullmatch(token[0])
        if match is None:
            add("" if token[0][0] == "#" else " " * len(token[0]), token.start())
            continue
        if closed and _BETWEEN.fullmatch("".join(letters[closed:])):
            del letters[closed - 1 :], at[closed - 1 :]
        else:
            quote = _quote(match)
            add(match[1], token.start())
            add(quote, token.start() + match.start(2))
        for shown, first in _content(match, quote):
            add(shown, token.start() + first)
        add(quote, token.end() - 1)
        closed = len(letters)
    add(text[start:end], start)
    return Piece("".join(letters), at, is_statement=True)


def _quote(match: re.Match[str]) -> str:
    """The mark around a string, which is not within it if that can be."""
    quote, content = match[2][0], match[3]
    other = "'" if quote == '"' else '"'
    return other if len(match[2]) == 3 and quote in content and other not in content else quote


def _content(match: re.Match[str], quote: str) -> Iterator[tuple[str, int]]:
    """The parts of what a string holds, without its ends in blank lines, and where they are."""
    content, first = match[3], match.start(3)
    if len(match[2]) == 3:
        first += len(content) - len(content.lstrip())
        content = content.strip()
        if "\n" in content:
            yield content.translate(_OPAQUE), first
            return
    if quote != match[2]:
        other = "'" if quote == '"' else '"'
        content = re.sub(rf"(?<!\\){quote}", other, content)
    begin = 0
    for joint in _CONTINUED.finditer(content):
        yield content[begin : joint.start()], first + begin
        begin = joint.end()
    yield content[begin:], first + begin
