"""A Datasette plugin: a start page with the trials and their reports, and links from numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any

from datasette import Response, hookimpl
from datasette.database import Database
from jinja2 import ChoiceLoader, DictLoader, Environment
from markupsafe import Markup, escape

from taupy.errors import TaupyError
from taupy.profiledb.files import reading_connection
from taupy.profiledb.pages import LAST_SWEEP, LATEST_TRIALS, PAGES
from taupy.profiledb.sql import limited
from taupy.serve.reports import PLACE
from taupy.state.sqlite import restrict

START_PAGE = """{% extends "base.html" %}
{% block title %}{{ metadata.title }}{% endblock %}
{% block extra_head %}<style>
.taupy table { border-collapse: collapse } .taupy td, .taupy th { padding: 0.25em 0.8em 0.25em 0 }
.taupy th { text-align: left } .taupy .number { text-align: right }
.taupy form { margin: 0.4em 0 } .taupy input[type=text] { width: 9em }
.taupy td.links { white-space: normal } .taupy td.links a { margin-right: 0.5em }
.taupy dt { font-weight: bold; margin-top: 0.5em } .taupy dd { margin: 0 0 0 1.2em }
</style>{% endblock %}
{% block content %}
<div class="taupy">
<h1>{{ metadata.title }}</h1>
<p>{{ metadata.description }}. Everything: <a href="{{ taupy_url }}">tables, views, SQL</a>.</p>
<h2>Trials</h2>
<div class="table-wrapper"><table class="rows-and-columns">
<tr><th class="number">ID</th><th>Application</th><th>Experiment</th><th>Trial</th>
<th>Started (UTC)</th><th class="number">Duration</th><th class="number">Exit</th><th>State</th>
<th>Tags</th><th>GPUs</th><th>Look at</th></tr>
{% for row in taupy_trials %}<tr><td class="number">
<a href="{{ taupy_reports }}/{{ row.trial_id }}">{{ row.trial_id }}</a></td>
<td>{{ row.application }}</td><td>{{ row.experiment }}</td><td>{{ row.trial }}
{%- if row.runs > 1 %} (the last of {{ row.runs }} runs){% endif %}</td>
<td>{{ row.started_at[:19].replace("T", " ") }}</td>
<td class="number">{{ "%.3f" % row.duration_s }}&nbsp;s</td>
<td class="number">{{ "" if row.exit_code is none else row.exit_code }}</td>
<td>{{ row.state }}</td><td>{{ row.tags or "" }}</td><td>{{ row.gpus or "" }}</td>
<td class="links">{% set t = row.trial_id|string -%}
<a href="{{ taupy_reports }}/{{ t }}">report</a>
<a href="{{ taupy_url }}/top_routines?trial={{ t }}&metric=time">routines</a>
<a href="{{ taupy_url }}/call_paths?trial={{ t }}&metric=time">call&nbsp;paths</a>
{%- if row.gpus %} <a href="{{ taupy_url }}/gpu_kernels?trial={{ t }}">kernels</a>{% endif %}
<a href="{{ taupy_url }}/user_events_of_a_trial?trial={{ t }}">events</a>
<a href="{{ taupy_url }}/trial_metadata?trial_id={{ t }}">metadata</a></td></tr>
{% else %}<tr><td colspan="11">No trials yet: <code>taupy run SCRIPT</code> adds one.</td></tr>
{% endfor %}</table></div>
{% if taupy_trials|length == 50 %}<p>The last 50; <a href="{{ taupy_url }}/trials">all</a>.</p>
{% endif %}
<h2>Side by side</h2>
<form action="{{ taupy_reports }}">Trial
<input type="text" name="a" value="{{ taupy_trials[1].trial_id if taupy_trials[1] else "" }}">
and <input type="text" name="b" value="{{ taupy_trials[0].trial_id if taupy_trials else "" }}">
<input type="submit" value="Compare"></form>
<form action="{{ taupy_url }}/sweep">Over metadata <input type="text" name="over"
value="{{ taupy_over }}"> <input type="submit" value="Sweep"></form>
<form action="{{ taupy_url }}/routine_over_trials">Routine <input type="text" name="routine">
<input type="submit" value="Over all trials"></form>
<h2>Questions</h2>
<dl>{% for name, page in taupy_pages.items() %}
<dt><a href="{{ taupy_url }}/{{ name }}">{{ page.title }}</a></dt><dd>{{ page.description }}</dd>
{% endfor %}</dl>
</div>
{% endblock %}
"""
"""Datasette's template for `/`."""


_LONGEST_VALUE = 1 << 20
_LONGEST_PATTERN = 100
_LARGEST_ANSWER = 64 << 20
"""Bytes that a statement may create as one value and in all, and letters of a LIKE pattern: what is
larger keeps a thread or the memory from other requests, since SQLite is not interrupted within a
function."""


class _BoundedCursor(sqlite3.Cursor):
    """A cursor that gives up on a large answer."""

    def fetchmany(self, size: int | None = None) -> list[Any]:
        rows, length = [], 0
        for row in islice(self, size):
            rows.append(row)
            length += sum(len(cell) for cell in row if isinstance(cell, str | bytes))
            if length > _LARGEST_ANSWER:
                raise sqlite3.OperationalError(
                    f"the answer is larger than {_LARGEST_ANSWER >> 20} MiB; ask for less"
                )
        return rows

    def fetchall(self) -> list[Any]:
        return self.fetchmany()


class _Bounded:
    """A connection with such cursors."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def cursor(self) -> sqlite3.Cursor:
        return self._connection.cursor(_BoundedCursor)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        return self.cursor().execute(*arguments)


class TrialDatabase(Database):  # type: ignore[misc]  # Datasette has no types
    """A database opened for reading, with any file name.

    Its foreign keys name only the table; the referenced column is `id`.
    """

    def connect(self, write: bool = False) -> sqlite3.Connection:
        """Like Datasette's method, which would interpret `?`, `#` and `%` in a file name."""
        if write:
            raise PermissionError("the database is served read-only")
        try:
            connection = reading_connection(self.path, check_same_thread=False)
        except TaupyError as problem:
            raise sqlite3.OperationalError(str(problem)) from problem
        limited(connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _LONGEST_PATTERN)
        self._all_file_connections.append(connection)
        return connection

    async def execute(self, sql: str, params: Any = None, **more: Any) -> Any:
        """As Datasette's; what is wrong with a statement is said on the page only."""
        return await super().execute(sql, params, **{**more, "log_sql_errors": False})

    async def execute_fn(self, fn: Callable[[Any], Any]) -> Any:
        """Like Datasette's method, with answers of limited size."""
        return await super().execute_fn(lambda connection: fn(_Bounded(connection)))

    async def fts_table(self, table: str) -> None:
        """None: databases with virtual tables are refused. Datasette looks for them with a pattern
        that has the table's name, whatever its length."""

    async def foreign_keys_for_table(self, table: str) -> list[dict[str, str]]:
        """Like Datasette's method, with the missing column filled in."""
        keys_of_table = await super().foreign_keys_for_table(table)
        return [{**key, "other_column": key["other_column"] or "id"} for key in keys_of_table]

    async def get_all_foreign_keys(self) -> dict[str, dict[str, list[dict[str, str]]]]:
        """Like Datasette's method, with the missing columns filled in."""
        keys_of_tables = await super().get_all_foreign_keys()
        for keys in keys_of_tables.values():
            for key in (*keys["incoming"], *keys["outgoing"]):
                key["column"] = key["column"] or "id"
                key["other_column"] = key["other_column"] or "id"
        return dict(keys_of_tables)


def prepare_connection(conn: sqlite3.Connection, database: str) -> None:
    """The same limits for Datasette's own database, which users do not see."""
    if database == "_internal":
        restrict(conn)


def render_cell(value: Any, column: str, table: str | None, database: str, datasette: Any) -> Any:
    """Link a trial's number to its routines."""
    if column != "trial_id" or not isinstance(value, int):
        return None
    url = f"{datasette.urls.database(database)}/top_routines?trial={value}&metric=time"
    return Markup('<a href="{}">{}</a>').format(escape(url), value)


def prepare_jinja2_environment(env: Environment, datasette: Any) -> None:
    """taupy's start page instead of Datasette's."""
    assert env.loader is not None
    env.loader = ChoiceLoader([DictLoader({"index.html": START_PAGE}), env.loader])


def extra_template_vars(
    view_name: str, datasette: Any
) -> Callable[[], Coroutine[Any, Any, dict[str, Any]]]:
    """The contents of the start page."""

    async def page_variables() -> dict[str, Any]:
        if view_name != "index":
            return {}
        name = next(name for name in datasette.databases if name != "_internal")
        database = datasette.get_database(name)
        over = (await database.execute(LAST_SWEEP)).first()
        return {
            "taupy_trials": [dict(row) for row in await database.execute(LATEST_TRIALS)],
            "taupy_url": datasette.urls.database(name),
            "taupy_reports": datasette.urls.path(PLACE),
            "taupy_pages": PAGES,
            "taupy_over": over[0].split(",")[0] if over else "",
        }

    return page_variables


def handle_exception(
    datasette: Any, request: Any, exception: Exception
) -> Callable[[], Coroutine[Any, Any, Response]]:
    """A page that says what is wrong. Datasette's own hook also prints a traceback with all that is
    in memory to the terminal, and fails at it where the package `rich` is installed."""

    async def answer() -> Response:
        status: int = getattr(exception, "status", 500)
        text = getattr(exception, "message", "") or str(exception) or type(exception).__name__
        error = Markup(text) if getattr(exception, "message_is_html", False) else text
        info = {"ok": False, "error": error, "status": status}
        if request.path.endswith(".json"):
            return Response.json(info, status=status)
        more = {"title": getattr(exception, "title", None)}
        templates = [f"{status}.html", "error.html"]
        page = await datasette.render_template(templates, info | more, request=request)
        return Response.html(page, status=status)

    return answer


for _hook in (prepare_connection, prepare_jinja2_environment, render_cell, extra_template_vars,
              handle_exception):  # fmt: skip
    hookimpl(_hook)
