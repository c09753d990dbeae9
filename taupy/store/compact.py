"""Join many files of one table, application and month into a few.

A new file is written first; one transaction then replaces the old ones by it in the manifest, and
they are deleted last. An interruption can leave only files that belong to no trial.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from taupy.errors import DatabaseError
from taupy.store.catalogue import Store
from taupy.store.layout import tables
from taupy.store.manifest import StoredFile, checked_file

LARGEST_BYTES = 64 << 20
"""Approximate size of a new file. Files of at least half that size are left alone."""

_FILES = """
    SELECT trial.application, trial.uuid, file.trial_id, file.name, holds, rows, bytes, sha256
      FROM file JOIN trial ON trial.id = file.trial_id
     WHERE bytes < %s
       AND (pushed_by = current_user OR NOT row_security_active('taupy.trial')
            OR NOT has_table_privilege('taupy.file', 'UPDATE'))  -- PostgreSQL refuses readers
     ORDER BY holds, regexp_replace(file.name, '/[^/]*$', ''), file.trial_id, file.name
"""


@dataclass(frozen=True, slots=True)
class Part:
    """One trial's share of a file."""

    application: str
    uuid: str
    trial: int
    file: StoredFile


@dataclass(frozen=True, slots=True)
class Joined:
    """Files to be joined into one.

    Attributes:
        parts: all of one table and folder.
    """

    parts: list[Part]

    @property
    def files(self) -> int:
        return len({part.file.name for part in self.parts})

    @property
    def bytes(self) -> int:
        return sum({part.file.name: part.file.bytes for part in self.parts}.values())


def planned(store: Store, largest: int = LARGEST_BYTES) -> list[Joined]:
    """The files that `compact` would join."""
    rows = store.catalogue.rows(_FILES, (largest // 2,))
    parts = [
        Part(application, uuid, trial, checked_file(StoredFile(*file), uuid, application))
        for application, uuid, trial, *file in rows
    ]
    plans = [
        Joined(some)
        for _, group in groupby(
            parts, lambda part: (part.file.holds, part.file.name.rpartition("/")[0])
        )
        for some in _filled(list(group), largest)
    ]
    return [plan for plan in plans if plan.files > 1]


def compact(store: Store, largest: int = LARGEST_BYTES) -> Iterator[Joined]:
    """Join small files; yields what was joined, after each join.

    Raises:
        DatabaseError: a push is in progress, or a file cannot be read or written. Joins
            already yielded are complete.
    """
    for plan in planned(store, largest):
        with store.catalogue.alone():
            _join(store, plan)
        yield plan


def _join(store: Store, plan: Joined) -> None:
    table = tables()[plan.parts[0].file.holds]
    written = store.folder.join(table, [(part.uuid, part.file) for part in plan.parts])
    try:
        with store.catalogue.transaction() as connection:
            for part, file in zip(plan.parts, written, strict=True):
                changed = connection.execute(
                    "UPDATE file SET (name, rows, bytes, sha256) = (%s, %s, %s, %s)"
                    " WHERE (name, trial_id, sha256) = (%s, %s, %s)",
                    (file.name, file.rows, file.bytes, file.sha256,
                     part.file.name, part.trial, part.file.sha256),
                ).rowcount  # fmt: skip
                if not changed or file.rows != part.file.rows:
                    raise DatabaseError(
                        f"trial {part.uuid} has changed meanwhile; nothing was joined"
                    )
    except BaseException:
        if not store.catalogue.is_lost:  # otherwise the change may have been committed
            store.folder.remove([written[0].name])
        raise
    store.remove_unused(
        (part.file.name, part.file.holds, part.uuid, part.application) for part in plan.parts
    )


def _filled(parts: list[Part], largest: int) -> Iterator[list[Part]]:
    """The parts in batches of about `largest` bytes; parts of one file stay together."""
    some: list[Part] = []
    size = 0
    by_name = sorted(parts, key=lambda part: part.file.name)
    for _, group in groupby(by_name, lambda part: part.file.name):
        mine = list(group)
        if some and size + mine[0].file.bytes > largest:
            yield some
            some, size = [], 0
        some += mine
        size += mine[0].file.bytes
    if some:
        yield some
