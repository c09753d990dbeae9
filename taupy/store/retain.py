"""Delete trials from a store when their retention period is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from taupy.errors import DatabaseError
from taupy.model.rows import TrialRow
from taupy.profiledb import selector
from taupy.store.catalogue import Store
from taupy.store.reading import StoreDB


def expired(address: str, days: float, kept: Sequence[str]) -> list[TrialRow]:
    """Trials that began more than `days` days ago and match no selector of `kept`.

    Raises:
        NoSuchTrial: a selector matches no trial, and may be misspelled.
    """
    with StoreDB(address) as db:
        keep = {trial.id for trial in selector.many(db, kept)} if kept else set()
        limit = (datetime.now(UTC) - timedelta(days=days)).isoformat()
        return [
            trial
            for trial in db.trials()
            if trial.id not in keep and trial.started_at[:26] < limit[:26]
        ]


def delete(store: Store, ids: Sequence[int]) -> int:
    """Delete trials in one transaction, then their files; returns the number of trials deleted.

    Files that also hold other trials stay until they are joined again.

    Raises:
        DatabaseError: a push is in progress, or a trial is another user's; nothing was deleted.
    """
    catalogue = store.catalogue
    with catalogue.alone():
        with catalogue.transaction() as connection:
            files = connection.execute(
                "SELECT file.name, holds, uuid, application FROM file"
                " JOIN trial ON trial.id = file.trial_id WHERE trial_id = ANY(%s)",
                ([*ids],),
            ).fetchall()
            deleted = connection.execute("DELETE FROM trial WHERE id = ANY(%s)", ([*ids],)).rowcount
            left = connection.execute(
                "SELECT id FROM trial WHERE id = ANY(%s)", ([*ids],)
            ).fetchall()
            if left:
                numbers = ", ".join(str(id) for (id,) in left)
                raise DatabaseError(
                    f"{catalogue.address}: trials of other users ({numbers}) are deleted only by "
                    "them or an owner; nothing was deleted"
                )
        store.remove_unused(files)
    return int(deleted)
