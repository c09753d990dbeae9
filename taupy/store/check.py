"""Check a store's files against its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from taupy.errors import DatabaseError
from taupy.store.catalogue import Store
from taupy.store.manifest import is_of


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    Attributes:
        trials, files: numbers in the manifest.
        bytes: total size of these files, as written.
        lost: for each trial with missing or changed files, its uuid and their names.
        orphans: files that belong to no trial, left by interrupted pushes. Empty for users
            who do not see all trials.
    """

    trials: int
    files: int
    bytes: int
    lost: dict[str, list[str]]
    orphans: list[str]


def check(store: Store, *, read: bool = False, mend: bool = False) -> Checked:
    """Compare manifest and files while no push runs.

    Args:
        read: also read every file, and compare its hash.
        mend: delete the orphans.

    Raises:
        DatabaseError: a push is in progress, the store cannot be read, or `mend` is requested by
            a user who does not see all trials.
    """
    catalogue, folder = store.catalogue, store.folder
    (sees_some,) = catalogue.row("SELECT row_security_active('taupy.file')")
    if sees_some and mend:
        raise DatabaseError(
            f"{catalogue.address}: only an owner sees which files no trial has, and may delete them"
        )
    with catalogue.alone():
        manifest = catalogue.rows(
            "SELECT trial.uuid, application, holds, file.name, file.bytes, file.sha256 FROM file"
            " JOIN trial ON trial.id = file.trial_id ORDER BY trial.id, file.name"
        )
        sizes = folder.sizes()
        lost: dict[str, list[str]] = {}
        as_written = cache(lambda name, digest: not read or folder.digest(name) == digest)
        for uuid, application, holds, name, size, digest in manifest:
            is_ours = is_of(name, holds, uuid, application)
            if not is_ours or sizes.get(name) != size or not as_written(name, digest):
                lost.setdefault(uuid, []).append(name)
        bytes = {name: size for *_, name, size, _ in manifest}
        orphans = [] if sees_some else sorted(sizes.keys() - bytes.keys())
        if mend:
            folder.remove(orphans)
        (trials,) = catalogue.row("SELECT count(*) FROM trial")
    return Checked(trials, len(bytes), sum(bytes.values()), lost, orphans)
