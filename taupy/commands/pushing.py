"""Push what was just stored in a file, but is meant for a store."""

from __future__ import annotations

import shlex

from taupy.errors import DatabaseError, TaupyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from taupy.delivery import Delivery


def pushed(database: str, address: str, trials: Sequence[int]) -> str:
    """Push trials of a file; one line about it.

    Raises:
        DatabaseError: they are not in the store; the message says how to push them later.
    """
    from taupy.store.push import push
    from taupy.units import listing

    numbers: dict[int, int] = {}
    try:
        for done in push(database, address, list(map(str, trials))):
            numbers = dict(done.added + done.replaced + done.present)
    except (TaupyError, OSError) as problem:
        what = "the trial is" if len(trials) == 1 else "some of the trials are"
        raise DatabaseError(
            f"{what} not in the store ({problem}); push it later with: "
            + _command(database, address, [trial for trial in trials if trial not in numbers])
        ) from problem
    what = "trial" if len(numbers) == 1 else "trials"
    return f"pushed to {address} as {what} {listing(map(str, numbers.values()), 8)}"


def kept(database: str, address: str, what: str, modules: Collection[str] = ()) -> str:
    """Push what a file holds besides trials; one line about it.

    Args:
        what: has just been stored in the file, such as `the ceilings are`.
        modules: the code of these is replaced in the store.

    Raises:
        DatabaseError: it is not in the store; the message says how to push it later.
    """
    from taupy.profiledb.merged import rest
    from taupy.store.push import push_unattached

    try:
        done = push_unattached(database, address, modules)
    except (TaupyError, OSError) as problem:
        raise DatabaseError(
            f"{what} not in the store ({problem}); push with: {_command(database, address, ())}"
        ) from problem
    new = rest(done.ceilings, done.derived, done.kernels)
    return f"pushed to {address}: {', '.join(new) or 'nothing new'}"


def delivered(delivery: Delivery, *, waiting: bool = True) -> str:
    """Push the trial that a run has become, if it is meant for a store, and whole; one line about
    it, "" if it is not meant for one.

    Args:
        waiting: also say that it is not whole yet.

    Raises:
        DatabaseError: it is not in the store; the message says how to push it later.
    """
    if delivery.trial_id is None or not delivery.push_to:
        return ""
    waits = []
    if delivery.running:
        waits.append(f"child processes that are still running: {delivery.running}")
    waits += _missing_ranks(delivery)
    if waits and not waiting:
        return ""
    if waits:
        command = _command(delivery.database, delivery.push_to, [delivery.trial_id])
        return (
            f"not pushed yet: {', '.join(waits)}; the command that stores the rest will push it, "
            f"or run: {command}"
        )
    return pushed(delivery.database, delivery.push_to, [delivery.trial_id])


def _missing_ranks(delivery: Delivery) -> list[str]:
    if not delivery.job:
        return []
    from taupy.model import job
    from taupy.profiledb import query
    from taupy.profiledb.database import ProfileDB

    assert delivery.trial_id is not None
    with ProfileDB.open(delivery.database) as db:
        return job.lines_of(job.missing(query.node_facts(db, delivery.trial_id)))


def _command(database: str, address: str, trials: Sequence[int]) -> str:
    return shlex.join(["taupy", "push", *map(str, trials), "--db", database, "--to", address])
