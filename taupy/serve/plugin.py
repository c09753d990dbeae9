"""A Datasette plugin: a start page with the trials and their reports, and links from numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from datasette import Response, hookimpl
from datasette.database import Database
from jinja2 import ChoiceLoader, DictLoader, Environment
from markupsafe import Markup, escape

from taupy.errors import TaupyError
from taupy.profiledb.files import reading_connection
from taupy.profiledb.pages import EVERY_TRIAL, LAST_SWEEP, LATEST_TRIALS, PAGES
from taupy.profiledb.sql import limited
from taupy.serve.look import DATASETTE_IN_THE_DARK, HEAD, problem_page
from taupy.serve.reports import PLACE
from taupy.state.sqlite import restrict
from taupy.units import duration, several

START_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>{{ taupy_head }}<title>{{ metadata.title }}</title>
<style>
form.line { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 12px 0 }
input { font: inherit; color: inherit; background: none; border: 1px solid var(--line);
  border-radius: 5px; padding: 3px 9px; max-width: 100% }
input[type=submit] { cursor: pointer }
input[type=submit]:hover, tr:hover td { background: var(--hover) }
input[type=search] { width: 22em }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
td, th { text-align: left; vertical-align: top; padding: 5px 14px 5px 0;
  border-bottom: 1px solid var(--line) }
th { color: var(--soft); font-weight: 400; white-space: nowrap } .number { text-align: right;
white-space: nowrap }
td.whole { white-space: nowrap } td.links a { margin-right: 8px; white-space: nowrap }
.tag { border: 1px solid var(--line); border-radius: 9px; padding: 0 7px; white-space: nowrap }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 16px; margin: 0 } dd { margin:
0 }
@media (max-width: 760px) {
  body { padding: 14px } dl { display: block } dd { margin-bottom: 6px }
  thead { display: none }
  tr { display: flex; flex-wrap: wrap; gap: 2px 14px; border-bottom: 1px solid var(--line);
    padding: 8px 0 }
  td { border: 0; padding: 0 } td:empty { display: none } td.links { width: 100% }
  td[data-name]:before { content: attr(data-name) " "; color: var(--soft) }
}
</style></head>
<body>
<h1>{{ metadata.title }}</h1>
<p class="soft">{{ metadata.description }}. Everything:
<a href="{{ taupy_url }}">tables, views, SQL</a>.</p>
<h2>Trials</h2>
<form class="line"><input type="search" name="q" value="{{ taupy_search }}" aria-label="search"
placeholder="program, tag, GPU, date ...">
<input type="submit" value="Search">
{%- if taupy_each %}<input type="hidden" name="each" value="1">{% endif %}
<span class="soft">{{ taupy_count }}{% if taupy_search %} found; <a href="?">all trials</a>
{%- endif %}</span></form>
<form action="{{ taupy_reports }}">
<p><input type="submit" value="Compare the two ticked"></p>
<table><thead><tr><th></th><th
class="number">ID</th><th>Program</th><th>Experiment</th><th>Trial</th>
<th>Started (UTC)</th><th
class="number">Time</th><th>End</th>{% if taupy_tagged %}<th>Tags</th>{% endif %}
{%- if taupy_with_gpus %}<th>GPUs</th>{% endif %}<th></th></tr></thead>
{% for row in taupy_trials %}{% set t = row.trial_id|string %}<tr>
<td class="whole"><input type="checkbox" name="t" value="{{ t }}" aria-label="trial {{ t }}"></td>
<td class="number" data-name="ID"><a href="{{ taupy_reports }}/{{ t }}">{{ t }}</a></td>
<td data-name="Program"><a href="{{ taupy_reports }}/{{ t }}">{{ row.application }}</a></td>
<td data-name="Experiment">{{ row.experiment }}</td>
<td data-name="Trial">{{ row.trial }}{% if row.runs > 1 %}
<a href="?each=1&amp;q={{ row.experiment|urlencode }}">last of {{ row.runs }} runs</a>{% endif
%}</td>
<td class="whole" data-name="Started">{{ row.started_at[:19].replace("T", " ") }}</td>
<td class="number" data-name="Time">{{ row.took }}</td>
<td data-name="End" class="whole{% if row.exit_code or row.state != "complete" %} bad{% endif %}">
{%- if row.state != "complete" %}{{ row.state }}{% if row.exit_code is not none %}, {% endif %}{%
endif -%}
{% if row.exit_code is not none %}exit {{ row.exit_code }}{% endif %}</td>
{% if taupy_tagged %}
<td{% if row.tags %} data-name="Tags"{% endif %}>{% for tag in row.tag_list %}<a class="tag"
href="?q={{ tag|urlencode }}">{{ tag }}</a> {% endfor %}</td>{% endif %}
{% if taupy_with_gpus %}
<td{% if row.gpus %} data-name="GPUs"{% endif %}>{{ row.gpus or "" }}</td>{% endif %}
<td class="links"><a href="{{ taupy_url }}/top_routines?trial={{ t }}&metric=time">routines</a>
<a href="{{ taupy_url }}/call_paths?trial={{ t }}&metric=time">call&nbsp;paths</a>
{%- if row.gpus %} <a href="{{ taupy_url }}/gpu_kernels?trial={{ t }}">kernels</a>{% endif %}
<a href="{{ taupy_url }}/user_events_of_a_trial?trial={{ t }}">events</a>
<a href="{{ taupy_url }}/trial_metadata?trial_id={{ t }}">metadata</a></td></tr>
{% else %}<tr><td colspan="11">{% if taupy_search %}No trial has all these words.{% else -%}
No trials yet: <code>taupy run SCRIPT</code> adds one.{% endif %}</td></tr>
{% endfor %}</table>
<p>{% for page in taupy_newer_older %}<a href="?{{ page.query }}">{{ page.name }}</a> {% endfor %}
{%- if not taupy_each %}<span class="soft">The runs of a gate or sweep are one row:
<a href="?each=1&amp;q={{ taupy_search|urlencode }}">each run</a>.</span>
{%- else %}<a href="?q={{ taupy_search|urlencode }}">Gates and sweeps as one row</a>{% endif
%}</p></form>
<h2>Side by side</h2>
<form class="line" action="{{ taupy_reports }}">Trial or selector
<input type="text" name="a" placeholder="12, tag:base" aria-label="A"> and
<input type="text" name="b" placeholder="15, tag:new" aria-label="B">
<input type="submit" value="Compare"></form>
<form class="line" action="{{ taupy_url }}/sweep">Over metadata <input type="text" name="over"
value="{{ taupy_over }}" aria-label="metadata"> <input type="submit" value="Sweep"></form>
<form class="line" action="{{ taupy_url }}/routine_over_trials">Routine <input type="text"
name="routine"
aria-label="routine"> <input type="submit" value="Over all trials"></form>
<h2>Questions</h2>
<dl>{% for name, page in taupy_pages.items() %}
<dt><a href="{{ taupy_url }}/{{ name }}">{{ page.title }}</a></dt><dd>{{ page.description }}</dd>
{% endfor %}</dl>
</body></html>
"""
"""Datasette's template for `/`."""

QUERY_PAGE = """{% extends "default:query.html" %}
{% block title %}{{ database }}: {{ metadata.title or "SQL" }}{% endblock %}
"""
"""Datasette's template for a query, with a short title instead of the whole statement."""

_SEARCHED = (
    "trial_id",
    "application",
    "experiment",
    "trial",
    "started_at",
    "state",
    "tags",
    "gpus",
)

_ROWS = 100
"""Trials of one page of the list."""

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
    env.loader = ChoiceLoader(
        [
            DictLoader(
                {
                    "index.html": START_PAGE,
                    "query.html": QUERY_PAGE,
                    "base.html": DATASETTE_IN_THE_DARK,
                }
            ),
            env.loader,
        ]
    )


def _listed(row: sqlite3.Row) -> dict[str, Any]:
    """A row of the list, with what is easier said here than in a template."""
    trial = dict(row)
    trial["took"] = duration(trial["duration_s"] * 1e9)
    trial["tag_list"] = (trial["tags"] or "").split(", ") if trial["tags"] else []
    return trial


def _has_words(trial: dict[str, Any], search: str) -> bool:
    text = " ".join(str(trial[name] or "") for name in _SEARCHED).casefold()
    return all(word in text for word in search.casefold().split())


def _begin(number: str | None) -> int:
    return (
        int(number) if number and number.isascii() and number.isdigit() and len(number) < 10 else 0
    )


def extra_template_vars(
    view_name: str, request: Any, datasette: Any
) -> Callable[[], Coroutine[Any, Any, dict[str, Any]]]:
    """The contents of the start page."""

    async def page_variables() -> dict[str, Any]:
        if view_name != "index":
            return {}
        name = next(name for name in datasette.databases if name != "_internal")
        database = datasette.get_database(name)
        over = (await database.execute(LAST_SWEEP)).first()
        search, entry = request.args.get("q") or "", bool(request.args.get("each"))
        rows = await database.execute(EVERY_TRIAL if entry else LATEST_TRIALS)
        wanted = [row for row in map(_listed, rows) if _has_words(row, search)]
        begin = _begin(request.args.get("from"))
        shown = wanted[begin : begin + _ROWS]
        neighbours = {"newer": begin - _ROWS, "older": begin + _ROWS}
        return {
            "taupy_head": Markup(HEAD),
            "taupy_trials": shown,
            "taupy_tagged": any(row["tags"] for row in shown),
            "taupy_with_gpus": any(row["gpus"] for row in shown),
            "taupy_count": several(len(wanted), "row"),
            "taupy_search": search,
            "taupy_each": entry,
            "taupy_newer_older": [
                {"name": name, "query": urlencode({"q": search, "each": entry or "", "from": at})}
                for name, at in neighbours.items()
                if -_ROWS < at < len(wanted)
            ],
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
        page = problem_page(status, str(escape(error)), datasette.urls.instance())
        return Response.html(page, status=status)

    return answer


for _hook in (prepare_connection, prepare_jinja2_environment, render_cell, extra_template_vars,
              handle_exception):  # fmt: skip
    hookimpl(_hook)
