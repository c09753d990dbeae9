"""Store and read the source text of a trial's own files.

The text comes from the database, else from the disk if the file there is still the same: one with
another SHA-256 is never opened to be shown, wherever the path of a database from elsewhere leads.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from taupy.dataclass import NamedTuple
from taupy.model.profile import SourceFile
from taupy.model.source_text import LARGEST, decoded, read
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.text import storable

_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_POWERS = (85**4, 85**3, 85**2, 85, 1)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Literal

    Origin = Literal["trial", "disk"]


class Source(NamedTuple):
    """The text of a file.

    Attributes:
        file: as displayed with its routines.
        origin: where the text comes from.
        note: what a reader must know of it; "" for nothing.
    """

    path: str
    file: str
    lines: Sequence[str]
    origin: Origin
    note: str


class Sources:
    """The texts of a trial's files, unpacked as they are asked for; get it from `sources_of`."""

    def __init__(self, files: Sequence[SourceFile], packed: Sequence[str | None]) -> None:
        self.files = {file.path: file for file in files}
        self._packed = dict(zip(self.files, packed, strict=True))
        self._read: dict[str, Source | None] = {}

    def __iter__(self) -> Iterator[Source]:
        return (source for path in self.files if (source := self.source(path)) is not None)

    def source(self, path: str | None) -> Source | None:
        """A file by its path as the interpreter knew it; None: there is no text of it."""
        if path is None or path not in self.files:
            return None
        if path not in self._read:
            self._read[path] = self._source(self.files[path])
        return self._read[path]

    def line(self, path: str | None, number: int | None) -> str | None:
        """The text of a line, from 1, without the space around it."""
        source = self.source(path)
        if source is None or number is None or not 0 < number <= len(source.lines):
            return None
        return source.lines[number - 1].strip()

    def _source(self, file: SourceFile) -> Source | None:
        from hashlib import sha256

        text, origin = _unpacked(self._packed[file.path]), "trial"
        now = read(file.path) if os.path.isabs(file.path) else None
        same = now is not None and sha256(now[0]).hexdigest() == file.sha256
        if text is None and same and not file.masked and now is not None:
            text, origin = decoded(now[0]), "disk"
        if text is None:
            return None
        notes = []
        if file.changed:
            notes.append("written while the program ran: this may not be what ran")
        if now is not None and not same:
            notes.append("changed since: this is what it was")
        if file.masked:
            notes.append(f"secrets are masked in {file.masked} of its lines")
        lines = text.split("\n")
        return Source(file.path, file.file, lines, origin, "; ".join(notes))  # type: ignore[arg-type]


def add_sources(connection: sqlite3.Connection, trial: int, sources: Sequence[SourceFile]) -> None:
    """Insert the files that the trial does not have yet."""
    connection.executemany(
        "INSERT INTO source VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            (
                *(trial, storable(source.path), storable(source.file), source.sha256),
                *(source.masked, int(source.changed), _packed(source.text)),
            )
            for source in sources
        ),
    )


def sources_of(db: ProfileDB, trial: int) -> Sources:
    """The texts of the trial's own files."""
    rows = db.rows(
        "SELECT path, file, sha256, masked, changed, text FROM source WHERE trial_id = ?"
        " ORDER BY path",
        (trial,),
    )
    files = [
        SourceFile(path, file, digest, masked, bool(changed))
        for path, file, digest, masked, changed, _ in rows
    ]
    return Sources(files, [row[5] for row in rows])


def _packed(text: str | None) -> str | None:
    if text is None:
        return None
    data = text.encode("utf-8", "surrogatepass")
    return _base85(zlib.compress(data, 9))


def _base85(data: bytes) -> str:
    """As `base64.b85encode`, whose module imports `re`: the prompt waits for a program's text."""
    padding = -len(data) % 4
    digits = bytearray()
    for at in range(0, len(data), 4):
        number = int.from_bytes(data[at : at + 4].ljust(4, b"\0"), "big")
        for power in _POWERS:
            digits.append(_DIGITS[number // power % 85])
    return digits[: len(digits) - padding].decode("ascii")


def _unpacked(packed: str | None) -> str | None:
    """The text; None if there is none, or it cannot be read."""
    if packed is None:
        return None
    import base64

    with suppress(ValueError, zlib.error):
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b85decode(packed), 4 * LARGEST)
        return data.decode("utf-8", "replace")
    return None
