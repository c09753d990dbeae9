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
from functools import cached_property
from hashlib import sha256
from itertools import islice
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from taupy.errors import DatabaseError, TaupyError
from taupy.escaping import visible
from taupy.model.identifier import is_uuid
from taupy.store.layout import StoredTable, gathered, in_files, physical, spread
from taupy.store.manifest import JOINT, StoredFile, Verified, in_a_path
from taupy.store.places import place_of

MARK = "taupy-store.json"

_ROWS_AT_ONCE = 1 << 16


class Folder:
    """The files of one store.

    Args:
        place: an absolute path, or a URL.
    """

    def __init__(self, place: str, store: str = "") -> None:
        self.place = place
        self._files = place_of(place)
        self._store = store

    @cached_property
    def _verified(self) -> Verified:
        return Verified(self._store)

    def close(self) -> None:
        """Remember which files were compared with the manifest."""
        if "_verified" in self.__dict__:
            self._verified.save()

    def mark(self, id: str) -> None:
        """Create the folder, and record which store it belongs to.

        Raises:
            DatabaseError: it belongs to another store, or cannot be written.
        """
        with self._refusing(self.place):
            self._files.make()
            if self._files.stamp(MARK) is not None:
                raise DatabaseError(f"{self.place} holds the files of another store")
            with self._files.create(MARK) as file:
                file.write(json.dumps({"store": id}).encode())
                _to_disk(file)

    def check_mark(self, id: str) -> None:
        """
        Raises:
            DatabaseError: the folder does not exist, cannot be read, or belongs to another store.
        """
        content, owner = b"", None
        with (
            self._refusing(MARK),
            suppress(FileNotFoundError),
            self._files.read(MARK) as file,
        ):
            content = file.read(10_000)
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            owner = json.loads(content)["store"]
        if owner != id:
            raise DatabaseError(
                f"{self.place} does not hold this store's files ({MARK} is missing or another "
                "store's); is it mounted here?"
            )

    def write(
        self, table: StoredTable, trial: TrialKey, rows: Iterable[Sequence[Any]]
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

        return self._written(table, trial.file, schema, parts())

    def join(
        self, table: StoredTable, stored: Sequence[tuple[str, StoredFile]]
    ) -> list[StoredFile]:
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
        with self._refusing(first), self._files.read(first) as raw:
            schema = parquet.read_schema(pyarrow.PythonFile(raw, mode="r"))
        joint = self._written(table, f"{first.rpartition('/')[0]}/{JOINT}", schema, parts())
        return [replace(joint, rows=count) for count in counts]

    def _written(
        self, table: StoredTable, begins: str, schema: Any, parts: Iterator[Any]
    ) -> StoredFile:
        """Write these parts to a file, one row group each."""
        pyarrow, parquet = _pyarrow()
        name = f"{begins}.{table.name}.{token_hex(4)}.parquet"
        count = 0
        try:
            with self._refusing(name), self._files.create(name) as raw:
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

    def read(self, stored: StoredFile, table: StoredTable, uuid: str) -> Iterator[list[Any]]:
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
            self.verify(stored, uuid)
            with self._files.read(stored.name) as raw:
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
        return self._files.path_for_duckdb(name)

    def register(self, connection: Any) -> None:
        """Let DuckDB open the files if they are not in a local folder."""
        self._files.register(connection)

    def verify(self, stored: StoredFile, uuid: str) -> None:
        """Compare a file with the manifest, unless this user has done so since it was written.

        Raises:
            DatabaseError: it is missing, or its content is not what was pushed.
        """
        with self._refusing(stored.name):
            stamp = self._files.stamp(stored.name)
            if stamp is None:
                raise FileNotFoundError(2, os.strerror(2))
            if self._verified.has(stored, stamp):
                return
            if stamp[0] != stored.bytes or self.digest(stored.name) != stored.sha256:
                raise DatabaseError(
                    f"trial {uuid} is damaged: the content of {self.place}/{stored.name} is not "
                    "what was pushed; delete the file, and push the trial again from where it was "
                    "measured"
                )
            self._verified.add(stored, stamp)

    def digest(self, name: str) -> str:
        """The SHA-256 of a file's bytes.

        Raises:
            DatabaseError: it cannot be read.
        """
        total = sha256()
        with self._refusing(name), self._files.read(name) as file:
            while block := file.read(1 << 20):
                total.update(block)
        return total.hexdigest()

    def size(self, name: str) -> int | None:
        """A file's size in bytes; None if there is no such file."""
        with self._refusing(name):
            stamp = self._files.stamp(name)
        return None if stamp is None else int(str(stamp[0]))

    def sizes(self) -> dict[str, int]:
        """The Parquet files in the folder, and their sizes in bytes."""
        with self._refusing(self.place):
            return {name: size for name, size in self._files.sizes() if name.endswith(".parquet")}

    def remove(self, names: Iterable[str]) -> None:
        """Delete these files; missing ones are ignored."""
        for name in names:
            with self._refusing(name), suppress(FileNotFoundError):
                self._files.remove(name)

    def _refusing(self, name: str) -> _Refusing:
        return _Refusing(self.place, name)


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
        return f"app={in_a_path(self.application)}/month={month}"

    @property
    def file(self) -> str:
        """The beginning of its files' names.

        Raises:
            DatabaseError: the uuid is none, and could lead elsewhere.
        """
        if not is_uuid(self.uuid):
            raise DatabaseError(f"'{self.uuid}' is not the uuid of a trial")
        return f"{self.folder}/{self.uuid}"


class _Refusing:
    """Turns errors of files and of the libraries that read them into one-line messages."""

    def __init__(self, place: str, name: str) -> None:
        self._what = name if name == place else f"{place}/{name}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, TaupyError):
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


def _encodings(table: StoredTable, names: Sequence[str]) -> dict[str, Any]:
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
