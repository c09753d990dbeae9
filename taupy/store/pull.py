"""Copy trials from a store into a database, via a temporary database that `merge` reads."""

from __future__ import annotations

from collections.abc import Sequence

from taupy.model.progress import SILENT, Progress
from taupy.profiledb import selector
from taupy.profiledb.merge import merge
from taupy.profiledb.merged import Merged
from taupy.store.reading import StoreDB


def pull(
    address: str, database: str, selectors: Sequence[str], progress: Progress = SILENT
) -> list[Merged]:
    """Copy trials from a store into a database, which is created if missing.

    Args:
        selectors: only trials that match one of these, by the store's numbers and names.

    Raises:
        NoSuchTrial: a selector matches no trial.
        DatabaseError: the store cannot be reached, a file is damaged, or the database cannot be
            written; the database is unchanged.
    """
    with StoreDB(address) as store:
        chosen = selector.many(store, selectors)
        store.copy.add_all([trial.id for trial in chosen], progress)
        store.commit()
        uuids = [trial.uuid for trial in chosen]
        return merge(database, [store.file], uuids, with_source=True, progress=progress)
