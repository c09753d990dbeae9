"""The Parquet files of a store: one per trial and table with rows.

    FOLDER/taupy-store.json                         which store this folder belongs to
    FOLDER/app=mnist/month=2026-11/UUID.call.a1b2c3d4.parquet
    FOLDER/app=mnist/month=2026-11/joint.call.d4c3b2a1.parquet    of several trials, by `join`

The folder is a path visible to all machines, or a URL for fsspec. Files are written once, under
unique names, and never changed. Columns are those of the catalogue's tables (`layout.physical`),
except that `trial` holds the trial's uuid instead of its number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from itertools import islice
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from taupy.errors import DatabaseError, TaupyError, UsageError
from taupy.escaping import visible
from taupy.profiledb.store.layout import Table, gathered, in_files, physical, spread

MARK = "taupy-store.json"
JOINT = "joint"
"""Prefix of the names of files that hold the rows of several trials."""

_ROWS_AT_ONCE = 1 << 16
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A row of the manifest.

    Attributes:
        name: path relative to the store's folder.
        holds: the table whose rows it contains.
        sha256: of its bytes, in hexadecimal.
    """

    name: str
    holds: str
    rows: int
    bytes: int
    sha256: str


class Folder:
    """The files of one store.

    Args:
        place: an absolute path, or a URL.
    """

    def __init__(self, place: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise DatabaseError(
                f"a store needs fsspec ({error}); install it with: "
                "pip install 'taupy-profiler[store]'"
            ) from error
        self.place = place
        self._sound: dict[str, str] = {}  # files whose content was verified when read
        try:
            self._system, self._root = fsspec.core.url_to_fs(place)
        except Exception as error:  # from the library for such URLs
            raise UsageError(f"{place} cannot be opened: {error}") from error

    def mark(self, id: str) -> None:
        """Create the folder, and record which store it belongs to.

        Raises:
            DatabaseError: it belongs to another store, or cannot be written.
        """
        with self._refusing(self.place):
            self._system.makedirs(self._root, exist_ok=True)
            if self._system.exists(self._at(MARK)):
                raise DatabaseError(f"{self.place} holds the files of another store")
            self._write(MARK, json.dumps({"store": id}).encode())

    def check_mark(self, id: str) -> None:
        """
        Raises:
            DatabaseError: the folder does not exist, cannot be read, or belongs to another store.
        """
        content, owner = b"", None
        with (
            self._refusing(MARK),
            suppress(FileNotFoundError),
            self._system.open(self._at(MARK), "rb") as file,
        ):
            content = file.read(10_000)
        with suppress(ValueError, KeyError, TypeError):
            owner = json.loads(content)["store"]
        if owner != id:
            raise DatabaseError(
                f"{self.place} does not hold this store's files ({MARK} is missing or another "
                "store's); is it mounted here?"
            )

    def write(
        self, table: Table, trial: TrialKey, rows: Iterable[Sequence[Any]]
    ) -> StoredFile | None:
        """Write the rows of one table of a trial; None if there are none.

        Args:
            rows: as in SQLite, with the columns of `in_files(table)`, in the order of the key.
        """
        rest = iter(rows)
        batch = list(islice(rest, _ROWS_AT_ONCE))
        if not batch:
            return None
        pyarrow, _ = _pyarrow()
        table = in_files(table)
        kinds = {"INTEGER": pyarrow.int64(), "REAL": pyarrow.float64(), "TEXT": pyarrow.string()}
        columns = [(name, kinds[kind]) for name, kind in physical(table)]
        schema = pyarrow.schema([("trial", pyarrow.string()), *columns])

        def parts() -> Iterator[Any]:
            some = batch
            while some:
                cells = zip(*(spread(table, row) for row in some), strict=True)
                arrays = [
                    pyarrow.array(values, type=kind)
                    for values, (_, kind) in zip(cells, columns, strict=True)
                ]
                uuids = pyarrow.repeat(pyarrow.scalar(trial.uuid), len(some))
                yield pyarrow.table([uuids, *arrays], schema=schema)
                some = list(islice(rest, _ROWS_AT_ONCE))

        return self._written(table, f"{trial.folder}/{trial.uuid}", schema, parts())

    def join(self, table: Table, stored: Sequence[tuple[str, StoredFile]]) -> list[StoredFile]:
        """Write the rows of several trials' files into one; returns each trial's share of it.

        Args:
            stored: each trial's uuid and file, all in one folder.

        Raises:
            DatabaseError: a file has changed, or the new one cannot be written.
        """
        table = in_files(table)
        counts = [0] * len(stored)

        def parts() -> Iterator[Any]:
            some: list[Any] = []  # small trials share a row group: reading hundreds is slow
            for number, (uuid, file) in enumerate(stored):
                for batch in self._batches(file, uuid, schema.names):
                    counts[number] += len(batch)
                    some.append(batch)
                    if sum(map(len, some)) >= _ROWS_AT_ONCE:
                        yield pyarrow.Table.from_batches(some, schema)
                        some = []
            if some:
                yield pyarrow.Table.from_batches(some, schema)

        pyarrow, parquet = _pyarrow()
        first = stored[0][1].name
        with self._refusing(first), self._system.open(self._at(first), "rb") as raw:
            schema = parquet.read_schema(pyarrow.PythonFile(raw, mode="r"))
        joint = self._written(table, f"{first.rpartition('/')[0]}/{JOINT}", schema, parts())
        return [replace(joint, rows=count) for count in counts]

    def _written(self, table: Table, begins: str, schema: Any, parts: Iterator[Any]) -> StoredFile:
        """Write these parts to a file, one row group each."""
        pyarrow, parquet = _pyarrow()
        name = f"{begins}.{table.name}.{token_hex(4)}.parquet"
        count = 0
        try:
            with self._refusing(name):
                self._system.makedirs(self._at(name.rpartition("/")[0]), exist_ok=True)
                with self._system.open(self._at(name), "wb") as raw:
                    file = _Hashed(raw)
                    with parquet.ParquetWriter(
                        pyarrow.PythonFile(file, mode="w"),
                        schema,
                        compression="zstd",
                        **_encodings(table, schema.names),
                    ) as writer:
                        for part in parts:
                            count += len(part)
                            writer.write_table(part)
                    raw.flush()
                    _to_disk(raw)
        except BaseException:
            with suppress(DatabaseError):
                self.remove([name])
            raise
        return StoredFile(name, table.name, count, file.size, file.hash.hexdigest())

    def read(self, stored: StoredFile, table: Table, uuid: str) -> Iterator[list[Any]]:
        """The rows of a trial as passed to `write`, without the columns about call paths.

        Raises:
            DatabaseError: the file is missing or has changed.
        """
        table = replace(
            table, columns=tuple(column for column in table.columns if column.name != "trial_id")
        )
        names = [name for name, _ in physical(table)]
        for batch in self._batches(stored, uuid, names):
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            nothing = [None] * len(batch)  # for columns that an older taupy did not write
            for cells in zip(*(columns.get(name, nothing) for name in names), strict=True):
                yield gathered(table, cells)

    def _batches(self, stored: StoredFile, uuid: str, names: Sequence[str]) -> Iterator[Any]:
        """The trial's rows in a file, with the requested columns that the file has."""
        pyarrow, parquet = _pyarrow()
        with self._refusing(stored.name):
            if self._sound.get(stored.name) != stored.sha256:
                if self.digest(stored.name) != stored.sha256:
                    raise DatabaseError(
                        f"{self.place}/{stored.name} is damaged: its content is not what was "
                        "pushed; delete it, and push the trial again from where it was measured"
                    )
                self._sound[stored.name] = stored.sha256
            with self._system.open(self._at(stored.name), "rb") as raw:
                file = parquet.ParquetFile(pyarrow.PythonFile(raw, mode="r"))
                present = {*file.schema_arrow.names}
                columns = [name for name in names if name in present]
                groups = list(range(file.num_row_groups))
                if not is_joint(stored.name):
                    yield from file.iter_batches(_ROWS_AT_ONCE, groups, columns)
                    return
                groups = [group for group in groups if _may_have(file, group, uuid)]
                read = columns if "trial" in columns else [*columns, "trial"]
                for batch in file.iter_batches(_ROWS_AT_ONCE, groups, read):
                    mine = pyarrow.compute.equal(batch.column("trial"), uuid)
                    if len(few := batch.filter(mine)):
                        yield few

    def path_for_duckdb(self, name: str) -> str:
        """The path by which DuckDB opens a file, after `register`."""
        path = self._at(name)
        return path if self._is_local else str(self._system.unstrip_protocol(path))

    def register(self, connection: Any) -> None:
        """Let DuckDB open the files if they are not in a local folder."""
        if not self._is_local:
            connection.register_filesystem(self._system)

    @property
    def _is_local(self) -> bool:
        return "file" in self._system.protocol

    def digest(self, name: str) -> str:
        """The SHA-256 of a file's bytes.

        Raises:
            DatabaseError: it cannot be read.
        """
        total = sha256()
        with self._refusing(name), self._system.open(self._at(name), "rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
        return total.hexdigest()

    def size(self, name: str) -> int | None:
        """A file's size in bytes; None if there is no such file."""
        with self._refusing(name), suppress(FileNotFoundError):
            return int(self._system.info(self._at(name))["size"])
        return None

    def sizes(self) -> dict[str, int]:
        """The Parquet files in the folder, and their sizes in bytes."""
        with self._refusing(self.place):
            files = self._system.find(self._root, detail=True)
        return {
            os.path.relpath(path, self._root): int(facts["size"])
            for path, facts in files.items()
            if path.endswith(".parquet")
        }

    def remove(self, names: Iterable[str]) -> None:
        """Delete these files; missing ones are ignored."""
        for name in names:
            with self._refusing(name), suppress(FileNotFoundError):
                self._system.rm_file(self._at(name))

    def _write(self, name: str, content: bytes) -> None:
        with self._system.open(self._at(name), "wb") as file:
            file.write(content)
            _to_disk(file)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _refusing(self, name: str) -> _Refusing:
        expected = (OSError, ValueError) if self._is_local else (Exception,)
        return _Refusing(self.place, name, expected)


@dataclass(frozen=True, slots=True)
class TrialKey:
    """The parts of a trial's file names.

    Attributes:
        started_at: as in `trial.started_at`, beginning with year and month.
    """

    uuid: str
    application: str
    started_at: str

    @property
    def folder(self) -> str:
        """For example `app=mnist/month=2026-11`."""
        month = quote(self.started_at[:7], safe="")
        return f"app={_in_a_path(self.application)}/month={month}"


class _Refusing:
    """Turns file errors into one-line messages; libraries for URLs may raise other errors."""

    def __init__(self, place: str, name: str, expected: tuple[type[Exception], ...]) -> None:
        self._what = name if name == place else f"{place}/{name}"
        self._expected = expected

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, self._expected) and not isinstance(error, TaupyError):
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            line = visible(" ".join(str(reason).split()))
            raise DatabaseError(f"{self._what}: {line}") from error


class _Hashed:
    """A file for writing that tracks its size and hash."""

    def __init__(self, file: Any) -> None:
        self.hash, self.size, self._file = sha256(), 0, file

    def write(self, data: Any) -> int:
        content = bytes(data)
        self.hash.update(content)
        self.size += len(content)
        self._file.write(content)
        return len(content)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Does nothing: the owner closes the file."""

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def is_joint(name: str) -> bool:
    """Whether a file of this name holds the rows of several trials."""
    return name.rpartition("/")[2].startswith(f"{JOINT}.")


def _may_have(file: Any, group: int, uuid: str) -> bool:
    """Whether a row group of a joint file may contain rows of this trial."""
    trials = file.metadata.row_group(group).column(0).statistics
    return trials is None or bool(trials.min <= uuid <= trials.max)


def _encodings(table: Table, names: Sequence[str]) -> dict[str, Any]:
    """Delta encoding for call-path ids that are part of the key: they are large, but ascending."""
    if "callpath_id" not in table.key:
        return {}
    return {
        "use_dictionary": [name for name in names if name != "callpath_id"],
        "column_encoding": {"callpath_id": "DELTA_BINARY_PACKED"},
    }


def _to_disk(file: Any) -> None:
    """Flush the file to disk if it is local."""
    try:
        descriptor = file.fileno()
    except (AttributeError, OSError, ValueError):
        return
    file.flush()
    os.fsync(descriptor)


def _in_a_path(name: str) -> str:
    """A name as one component of a path: a long one is shortened and made unique by a hash."""
    quoted = quote(name, safe="")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    beginning = quoted[: _LONGEST_NAME - 17].rpartition("%")[0] or quoted[: _LONGEST_NAME - 17]
    return f"{beginning}-{blake2b(name.encode(), digest_size=8).hexdigest()}"


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.compute
        from pyarrow import parquet
    except ImportError as error:
        raise DatabaseError(
            f"a store needs pyarrow ({error}); install it with: pip install 'taupy-profiler[store]'"
        ) from error
    return pyarrow, parquet
