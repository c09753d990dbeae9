"""Copy the trials of an attached database into the main one, within a transaction.

References are read from the schema, so that tables added by later versions are copied, too:

- a column that refers to `trial`, `thread`, `device`, `metric`, `experiment` or
  `application` holds a number local to its file, which is replaced by the target's number;
- `timer`, `callpath` and `user_event` have ids derived from content, the same in every file;
- tables that belong to no trial (ceilings, derived metrics) are copied row by row, unless a row
  with the same key exists; the code of a kernel is copied as a whole, unless the target has that
  kernel.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from taupy.errors import DatabaseError
from taupy.model import job
from taupy.model.progress import SILENT, Progress
from taupy.profiledb.kernel_codes import PARTS, WHOLE
from taupy.profiledb.merged import Merged, MovedTrial
from taupy.profiledb.writer import (
    HEALTH,
    INCOMPLETE,
    INVARIANTS,
    RUNNING,
    free_name,
    joint_span,
    settle_duration,
    settle_exit_code,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_NUMBERED = ("application", "experiment", "trial", "thread", "device", "metric")
"""Tables whose ids are local to a file."""

_CONTENT = {
    "timer": "(SELECT timer_id FROM {source}.trial_timer WHERE trial_id = :old)",
    "callpath": "(SELECT callpath_id FROM {source}.call WHERE trial_id = :old)",
    "user_event": "(SELECT user_event_id FROM {source}.user_event_value WHERE trial_id = :old"
    " UNION SELECT user_event_id FROM {source}.{sample} WHERE trial_id = :old)",
}
"""Tables whose ids are derived from content, with the rows that a trial uses."""

_SAME_CONTENT = {
    "timer": "name",
    "callpath": "timer_id, parent_id",
    "user_event": "name, unit",
}


class Copier:
    """Copies from one attached database.

    Args:
        connection: with an open transaction; the target is its `main`.
        source: the schema name under which the other database is attached.
        result: receives the outcome.
        with_source: also copy the text of source files, not only which they are.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        source: str,
        result: Merged,
        progress: Progress = SILENT,
        *,
        with_source: bool = False,
    ) -> None:
        self.connection = connection
        self.with_source = with_source
        self.source = source
        self.result = result
        self.progress = progress
        self._names: dict[tuple[int, str], str] = {}  # old names in an experiment -> new ones
        for table in ("thread", "device", "metric"):
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS temp.moved_{table} (old INTEGER PRIMARY KEY, new)"
            )

    def copy(self, uuids: tuple[str, ...]) -> None:
        """Copy these trials, and the tables that belong to no trial."""
        wanted = set(uuids)
        self._map_metrics()
        for old, uuid in self._rows(f"SELECT id, uuid FROM {self.source}.trial ORDER BY id"):
            if uuid in wanted:
                self._copy_trial(old, uuid)
                self.progress.advance()
        self._copy_unattached()

    # --- references, read from the schema -------------------------------------

    @cached_property
    def _references(self) -> dict[str, dict[str, str]]:
        """Table -> its columns that refer to another table -> that table."""
        references: dict[str, dict[str, str]] = {}
        for (table,) in self._rows(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            f" AND name IN (SELECT name FROM {self.source}.sqlite_schema)"
        ):
            keys = self._rows(f'PRAGMA main.foreign_key_list("{table}")')
            references[table] = {key[3]: key[2] for key in keys}
        return references

    def _columns(self, table: str) -> list[str]:
        rows = self._rows(f'PRAGMA main.table_info("{table}")')
        theirs = {row[1] for row in self._rows(f'PRAGMA {self.source}.table_info("{table}")')}
        return [row[1] for row in rows if row[1] in theirs]

    def _of_a_trial(self) -> list[str]:
        """Tables that belong to a trial, referenced tables first."""
        owners = {"trial", "thread", "device"}
        tables = [
            table
            for table, columns in self._references.items()
            if owners & set(columns.values()) and table not in ("trial", "metadata")
        ]
        return sorted(tables, key=lambda table: table not in ("thread", "device"))

    # --- a trial --------------------------------------------------------------

    def _copy_trial(self, old: int, uuid: str) -> None:
        present = self._scalar("SELECT id FROM main.trial WHERE uuid = ?", uuid)
        new = self._new_trial(old) if present is None else int(present)
        threads, devices = self._map_places(old, new)
        metrics = [] if present is None else self._lacking_metrics(old, new)
        if present is None or threads or metrics:
            self._copy_content(old)
        before = self.connection.total_changes
        trial = {"old": old, "new": new}
        for table in self._of_a_trial():
            if (table, 0) not in (("thread", threads), ("device", devices)):
                self._copy_rows(table, trial, fresh=present is None)
        if self.with_source and "source" in self._references:
            self._copy_texts(trial)
        for thread_old, thread_new, metric in metrics:
            self._copy_metric(trial, thread_old, thread_new, metric)
        if present is None:
            self._copy_rows("metadata", trial)
        else:
            self._join(old, new, grown=bool(threads))
            changed = self.connection.total_changes - before
            (self.result.joined if changed else self.result.present).append(new)

    def _new_trial(self, old: int) -> int:
        """Copy the trial's row; it keeps its number if that was never used in the target."""
        source = self.source
        (application, experiment, name) = self._rows(
            f"SELECT application.name, experiment.name, trial.name FROM {source}.trial"
            f" JOIN {source}.experiment ON experiment.id = trial.experiment_id"
            f" JOIN {source}.application ON application.id = experiment.application_id"
            " WHERE trial.id = ?",
            old,
        )[0]
        place = self._id_of("experiment", self._id_of("application", None, application), experiment)
        last = self._scalar("SELECT max(seq) FROM main.sqlite_sequence WHERE name = 'trial'") or 0
        chosen = self._free_name(place, name)
        columns = [column for column in self._columns("trial") if column != "id"]
        given = {"experiment_id": ":experiment", "name": ":name"}
        cursor = self.connection.execute(
            f"INSERT INTO main.trial (id, {_listed(columns)})"
            f" SELECT :id, {', '.join(given.get(column, _quoted(column)) for column in columns)}"
            f" FROM {source}.trial WHERE id = :old",
            {"id": old if old > last else None, "experiment": place, "name": chosen, "old": old},
        )
        new = cursor.lastrowid
        assert new is not None
        beginning = f"{application}/{experiment}/"
        self.result.added.append(MovedTrial(old, new, beginning + name, beginning + chosen))
        return new

    def _id_of(self, table: str, application: int | None, name: str) -> int:
        where = "name = :name" + (" AND application_id = :above" if application is not None else "")
        key = {"name": name, "above": application}
        row = self.connection.execute(f"SELECT id FROM main.{table} WHERE {where}", key).fetchone()
        if row is None:
            columns, values = (
                ("name", ":name")
                if application is None
                else ("application_id, name", ":above, :name")
            )
            cursor = self.connection.execute(
                f"INSERT INTO main.{table} ({columns}) VALUES ({values})", key
            )
            row = (cursor.lastrowid,)
        return int(row[0])

    def _free_name(self, experiment: int, name: str) -> str:
        """The name, or a free one; a snapshot, `NAME@LABEL`, is renamed like its trial."""
        given = name
        trial, at, label = name.partition("@")
        if at and (experiment, trial) in self._names:
            name = self._names[experiment, trial] + at + label
        free = free_name(self.connection, experiment, name)
        self._names[experiment, given] = free
        return free

    def _map_places(self, old: int, new: int) -> tuple[int, int]:
        """Assign numbers to threads and devices missing in the target; returns how many."""
        counts = []
        for table, place in (("thread", "node, context, thread"), ("device", "node, ordinal")):
            self.connection.execute(f"DELETE FROM temp.moved_{table}")
            same = " AND ".join(f"here.{c} = there.{c}" for c in place.split(", "))
            lacking = (
                f"SELECT there.id FROM {self.source}.{table} AS there WHERE trial_id = :old"
                f" AND NOT EXISTS (SELECT 1 FROM main.{table} AS here"
                f" WHERE here.trial_id = :new AND {same}) ORDER BY there.id"
            )
            trial = {"old": old, "new": new}
            clash = self.connection.execute(
                f"SELECT count(*) FROM main.{table} WHERE id IN ({lacking})", trial
            ).fetchone()[0]
            # In the old order, so that rows are sorted by their new keys, too.
            shift = (
                "(SELECT max(id) FROM main." + table + ") + row_number() OVER (ORDER BY id)"
                if clash
                else "id"
            )
            cursor = self.connection.execute(
                f"INSERT INTO temp.moved_{table} SELECT id, {shift} FROM ({lacking})", trial
            )
            counts.append(cursor.rowcount)
        return counts[0], counts[1]

    def _map_metrics(self) -> None:
        self.connection.execute("DELETE FROM temp.moved_metric")
        numbers = "" if self._scalar("SELECT count(*) FROM main.metric") else "id, "
        self.connection.execute(
            f"INSERT INTO main.metric ({numbers}name, unit)"
            f" SELECT {numbers}name, unit FROM {self.source}.metric WHERE true ORDER BY id"
            " ON CONFLICT DO NOTHING"
        )
        self.connection.execute(
            "INSERT INTO temp.moved_metric SELECT there.id, here.id"
            f" FROM {self.source}.metric AS there JOIN main.metric AS here"
            " ON here.name = there.name AND here.unit = there.unit"
        )

    def _copy_content(self, old: int) -> None:
        """Copy timers with groups, call paths and user events; equal ids mean equal content."""
        sample = "sample" if "sample" in self._references else "user_event_value"  # an older file
        for table, used in _CONTENT.items():
            which = used.format(source=self.source, sample=sample)
            same = " OR ".join(
                f"here.{c} IS NOT there.{c}" for c in _SAME_CONTENT[table].split(", ")
            )
            odd = self._scalar(
                f"SELECT there.id FROM {self.source}.{table} AS there"
                f" CROSS JOIN main.{table} AS here ON here.id = there.id"
                f" WHERE there.id IN {which} AND ({same}) LIMIT 1",
                {"old": old},
            )
            if odd is not None:
                raise DatabaseError(
                    f"{self.result.source} cannot be merged: its {table} {odd} has another "
                    "content in the target, so ids in one of the files do not match their "
                    "content; `taupy doctor FILE` shows which"
                )
            columns = _listed(self._columns(table))
            self.connection.execute(
                f"INSERT INTO main.{table} ({columns})"
                f" SELECT {columns} FROM {self.source}.{table} WHERE id IN {which}"
                " ON CONFLICT DO NOTHING",
                {"old": old},
            )
        used = _CONTENT["timer"].format(source=self.source)
        self.connection.execute(
            "INSERT INTO main.timer_group (timer_id, name) SELECT timer_id, name"
            f" FROM {self.source}.timer_group WHERE timer_id IN {used} ON CONFLICT DO NOTHING",
            {"old": old},
        )

    def _copy_rows(self, table: str, trial: dict[str, int], *, fresh: bool = True) -> None:
        """Copy the table's rows of a trial for threads and devices that are new in the target.

        Args:
            fresh: the trial is new. Otherwise rows without a unique key that belong to neither
                a thread nor a device are not copied, because they may exist already.
        """
        refers = self._references[table]
        columns = self._columns(table)
        hangs_on = {refers.get(column) for column in columns} & {"thread", "device"}
        numbered = "id" in columns and table not in ("thread", "device")
        if not fresh and numbered and not hangs_on:
            return
        self._insert(table, [c for c in columns if not (numbered and c == "id")], trial)

    def _insert(self, table: str, columns: list[str], values: dict[str, int]) -> None:
        refers = self._references[table]
        joins, cells = [], []
        for column in columns:
            above = refers.get(column)
            if table in ("thread", "device") and column == "id":
                above = table
            if above == "trial":
                cells.append(":new")
            elif above in ("thread", "device", "metric"):
                name = f"moved_{column}"
                joins.append(
                    f" CROSS JOIN temp.moved_{above} AS {name} ON {name}.old = row.{column}"
                )
                cells.append(f"{name}.new")
            elif (table, column) == ("source", "text"):
                cells.append("NULL")
            elif above in _NUMBERED:
                raise DatabaseError(f"the table {table} cannot be merged: it refers to {above}")
            else:
                cells.append(f"row.{_quoted(column)}")
        order = " ORDER BY row.id" if "id" in self._columns(table) else ""
        condition = " WHERE " + ("row.trial_id = :old" if "trial" in refers.values() else "true")
        self.connection.execute(
            f'INSERT INTO main."{table}" ({_listed(columns)}) SELECT {", ".join(cells)}'
            f' FROM {self.source}."{table}" AS row{"".join(joins)}{condition}'
            f"{order} ON CONFLICT DO NOTHING",
            values,
        )

    def _copy_texts(self, trial: dict[str, int]) -> None:
        """Add the source text that the target lacks."""
        self.connection.execute(
            "UPDATE main.source AS here SET text ="
            f" (SELECT there.text FROM {self.source}.source AS there"
            "   WHERE there.trial_id = :old AND there.path = here.path"
            "     AND there.sha256 = here.sha256 AND there.masked = here.masked)"
            " WHERE trial_id = :new AND text IS NULL",
            trial,
        )

    # --- a trial that the target has -------------------------------------------

    def _lacking_metrics(self, old: int, new: int) -> list[tuple[int, int, int]]:
        """(source thread, target thread, source metric) of metrics missing in the target.

        A metric is added to a thread only if both have the same calls; otherwise the trial is
        noted as differing.
        """
        source = self.source
        lacking = self._rows(
            f"SELECT there.id, here.id, measured.metric_id FROM {source}.thread AS there"
            " JOIN main.thread AS here ON here.trial_id = :new AND here.node = there.node"
            "  AND here.context = there.context AND here.thread = there.thread"
            f" JOIN {source}.thread_metric AS measured"
            "  ON measured.trial_id = :old AND measured.thread_id = there.id"
            " JOIN temp.moved_metric AS moved ON moved.old = measured.metric_id"
            " WHERE there.trial_id = :old AND NOT EXISTS (SELECT 1 FROM main.thread_metric AS own"
            "  WHERE own.trial_id = :new AND own.metric_id = moved.new"
            "  AND own.thread_id = here.id)",
            {"old": old, "new": new},
        )
        alike = {
            (source_thread, here): self._same_calls(old, source_thread, new, here)
            for source_thread, here in dict.fromkeys(
                (source_thread, here) for source_thread, here, _ in lacking
            )
        }
        if not all(alike.values()):
            self.result.differing.append(new)
        return [row for row in lacking if alike[row[0], row[1]]]

    def _same_calls(self, old: int, source_thread: int, new: int, here: int) -> bool:
        counts_sql = (
            "SELECT callpath_id, calls, subroutines FROM {}.call"
            " WHERE trial_id = {} AND thread_id = {}"
        )
        theirs, ours = (
            counts_sql.format(self.source, old, source_thread),
            counts_sql.format("main", new, here),
        )
        return not self._rows(
            f"SELECT * FROM ({theirs} EXCEPT {ours} LIMIT 1)"
            f" UNION ALL SELECT * FROM ({ours} EXCEPT {theirs} LIMIT 1)"
        )

    def _copy_metric(
        self, trial: dict[str, int], source_thread: int, here: int, metric: int
    ) -> None:
        for table, refers in self._references.items():
            if {"trial", "thread", "metric"} <= set(refers.values()):
                columns = self._columns(table)
                cells = {
                    "trial_id": ":new",
                    "thread_id": ":here",
                    "metric_id": "(SELECT new FROM temp.moved_metric WHERE old = :metric)",
                }
                self.connection.execute(
                    f'INSERT INTO main."{table}" ({_listed(columns)})'
                    f" SELECT {', '.join(cells.get(c, _quoted(c)) for c in columns)}"
                    f' FROM {self.source}."{table}"'
                    " WHERE trial_id = :old AND metric_id = :metric AND thread_id = :source_thread"
                    " ON CONFLICT DO NOTHING",
                    {**trial, "source_thread": source_thread, "here": here, "metric": metric},
                )

    def _join(self, old: int, new: int, *, grown: bool) -> None:
        """Add missing metadata, merge notes line by line, and update span and state."""
        select = "SELECT node, name, value FROM {}.metadata WHERE trial_id = ?"
        theirs = {
            (n, name): value for n, name, value in self._rows(select.format(self.source), old)
        }
        ours = {(n, name): value for n, name, value in self._rows(select.format("main"), new)}
        waited_for = (None, RUNNING) in ours and (None, RUNNING) not in theirs
        self._note_others(new, ours, theirs)
        for (node, name), value in theirs.items():
            if name == RUNNING and (None, RUNNING) not in ours:
                continue  # those processes have been stored here
            if (node, name) not in ours:
                self.connection.execute(
                    "INSERT INTO main.metadata (trial_id, node, name, value) VALUES (?, ?, ?, ?)",
                    (new, node, name, value),
                )
            elif name.startswith(HEALTH) or name == INVARIANTS:
                has = ours[node, name].split("\n")
                more = [line for line in value.split("\n") if line not in has]
                if more:
                    self.connection.execute(
                        "UPDATE main.metadata SET value = ?"
                        " WHERE trial_id = ? AND name = ? AND node IS ?",
                        ("\n".join([*has, *more]), new, name, node),
                    )
        if not (grown or waited_for):
            return
        select = "SELECT started_at, duration_ns, exit_code, state FROM {}.trial WHERE id = ?"
        start, duration, code, state = self._rows(select.format("main"), new)[0]
        their_start, their_duration, their_code, their_state = self._rows(
            select.format(self.source), old
        )[0]
        if waited_for:
            self.connection.execute(
                "DELETE FROM main.metadata WHERE trial_id = ? AND name = ?", (new, RUNNING)
            )
            lacking = any((None, name) in ours for name in INCOMPLETE)
            state = "incomplete" if lacking else "complete"
        if state == "complete":
            state = their_state
        start, duration = joint_span((start, duration), (their_start, their_duration))
        self.connection.execute(
            "UPDATE main.trial SET started_at = ?, duration_ns = ?, exit_code = ?, state = ?"
            " WHERE id = ?",
            (start, duration, their_code if code is None else code, state, new),
        )
        settle_exit_code(self.connection, new)
        settle_duration(self.connection, new)

    def _note_others(
        self, trial: int, ours: dict[tuple[Any, str], str], theirs: dict[tuple[Any, str], str]
    ) -> None:
        """Note nodes that are different processes in the two files; the source's is not copied."""
        nodes = sorted({node for node, _ in theirs if node is not None})
        for node in nodes:
            stored = {name: ours[node, name] for name in job.PROCESS if (node, name) in ours}
            process = {name: theirs[node, name] for name in job.PROCESS if (node, name) in theirs}
            if job.are_others(stored, process):
                self.result.others.append((trial, node))

    # --- tables that belong to no trial ---------------------------------------

    def _copy_unattached(self) -> None:
        attached = {*_NUMBERED, *_CONTENT, "timer_group", "metadata", *self._of_a_trial()}
        # A kernel comes after its parts, which are copied only if it is new here.
        for table in sorted(self._references, key=lambda table: table == WHOLE):
            if table in attached:
                continue
            columns = [column for column in self._columns(table) if column != "id"]
            cursor = self.connection.execute(
                f'INSERT INTO main."{table}" ({_listed(columns)}) SELECT {_listed(columns)}'
                f' FROM {self.source}."{table}" WHERE {_is_new(table)} ON CONFLICT DO NOTHING'
            )
            if table == "ceiling":
                self.result.ceilings = cursor.rowcount
            elif table == "derived_metric":
                self.result.derived = cursor.rowcount
            elif table == WHOLE:
                self.result.kernels = cursor.rowcount
        self.result.kept = [
            name
            for (name,) in self._rows(
                f"SELECT there.name FROM {self.source}.derived_metric AS there"
                " JOIN main.derived_metric AS here ON here.name = there.name"
                " WHERE here.expression <> there.expression ORDER BY there.name"
            )
        ]

    # --- SQL ------------------------------------------------------------------

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        if len(values) == 1 and isinstance(values[0], dict):
            return self.connection.execute(sql, values[0]).fetchall()
        return self.connection.execute(sql, values).fetchall()

    def _scalar(self, sql: str, *values: Any) -> Any:
        rows = self._rows(sql, *values)
        return rows[0][0] if rows else None


def _is_new(table: str) -> str:
    """A condition for rows to copy; existing keys are skipped in any case."""
    return (
        f"(module, name) NOT IN (SELECT module, name FROM main.{WHOLE})"
        if table in PARTS
        else "true"
    )


def _quoted(column: str) -> str:
    return f'"{column}"'


def _listed(columns: list[str]) -> str:
    return ", ".join(map(_quoted, columns))
