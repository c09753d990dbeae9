"""Change a store's trials and derived metrics in the same way as a database's.

Commands change the local copy; the differences are then applied to the catalogue: deletions first,
everything else in one transaction. Measured values are never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection
from typing import NamedTuple

from taupy.errors import DatabaseError, UsageError
from taupy.store.reading import StoreDB
from taupy.store.retain import delete


class _Editable(NamedTuple):
    """What may be changed.

    Attributes:
        names: of trials, by id.
        tags: each with its trial's id.
        derived: expression, unit and description of derived metrics, by name.
    """

    names: dict[int, str]
    tags: set[tuple[int, str]]
    derived: dict[str, tuple[str, str, str]]


class EditableStore(StoreDB):
    """A store that is open for changes."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.readonly = False
        self._in_edit = False

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction of the catalogue; a nested one is part of the outer one.

        Raises:
            DatabaseError: the user may not write, a name is taken, or a push is in progress and
                trials are to be deleted; the store is unchanged.
        """
        if self._in_edit:
            yield self.connection
            return
        before = self._editable()
        self._in_edit = True
        try:
            yield self.connection
        finally:
            self._in_edit = False
        self._apply(before, self._editable())

    def compact(self) -> None:
        raise UsageError("in a store, `taupy store compact` joins files")

    def _editable(self) -> _Editable:
        return _Editable(
            dict(self.rows("SELECT id, name FROM trial")),
            {(trial, name) for trial, name in self.rows("SELECT trial_id, name FROM tag")},
            {
                name: (expression, unit, description)
                for name, expression, unit, description in self.rows(
                    "SELECT name, expression, unit, description FROM derived_metric"
                )
            },
        )

    def _apply(self, before: _Editable, after: _Editable) -> None:
        catalogue = self.store.catalogue
        catalogue.rows("SELECT set_config('default_transaction_read_only', 'off', false)")
        gone = sorted(before.names.keys() - after.names.keys())
        if gone:
            delete(self.store, gone)
        new = [tag for tag in sorted(after.tags - before.tags) if tag[0] not in gone]
        old = [tag for tag in sorted(before.tags - after.tags) if tag[0] not in gone]
        with catalogue.transaction() as connection, connection.cursor() as cursor:
            for trial, name in after.names.items():
                if before.names.get(trial) != name:
                    self._rename(trial, name)
            cursor.executemany(
                "INSERT INTO tag (trial_id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING", new
            )
            for tag in old:
                cursor.execute("DELETE FROM tag WHERE (trial_id, name) = (%s, %s)", tag)
                self._refuse_others(cursor.rowcount, f"trial {tag[0]}")
            for name in before.derived.keys() - after.derived.keys():
                cursor.execute("DELETE FROM derived_metric WHERE name = %s", (name,))
                self._refuse_others(cursor.rowcount, f"the derived metric {name}")
            for name, definition in after.derived.items():
                if before.derived.get(name) != definition:
                    cursor.execute(
                        "INSERT INTO derived_metric (name, expression, unit, description)"
                        " VALUES (%s, %s, %s, %s) ON CONFLICT (name) DO UPDATE"
                        " SET (expression, unit, description) ="
                        " (excluded.expression, excluded.unit, excluded.description)",
                        (name, *definition),
                    )

    def _rename(self, trial: int, name: str) -> None:
        catalogue = self.store.catalogue
        application, experiment, uuid = catalogue.row(
            "SELECT application, experiment, uuid FROM trial WHERE id = %s", (trial,)
        )
        if name in catalogue.names_taken(application, experiment, uuid):
            raise DatabaseError(f"{application}/{experiment} has another trial '{name}'")
        changed = catalogue.connection.execute(
            "UPDATE trial SET name = %s WHERE id = %s", (name, trial)
        ).rowcount
        self._refuse_others(changed, f"trial {trial}")

    def _refuse_others(self, changed: int, what: str) -> None:
        """Row security hides another user's row from a change, which then does nothing."""
        if not changed:
            raise DatabaseError(
                f"{self.path}: {what} is another user's, who alone may change it, as may an owner; "
                "nothing was changed"
            )
