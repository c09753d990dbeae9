"""Open the list of trials and their reports in a browser; tables and SQL with Datasette.

    taupy serve                      the trials, at http://127.0.0.1:8001/TOKEN/
    taupy serve FILE --port 9000 --open
    taupy serve postgresql://me@host/profiles

The server is read-only. It listens on this machine only, and the address contains a token, so
that only those who know it have access. Ctrl-C ends it. Datasette is an extra:
pip install 'taupy-profiler[serve]'.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import socket
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from taupy.commands import bar, options
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.escaping import html
from taupy.profiledb import pages
from taupy.profiledb.address import is_address
from taupy.profiledb.opening import opened
from taupy.units import several

_HOST = "127.0.0.1"
_SETTINGS = {
    "sql_time_limit_ms": 10_000,
    "facet_time_limit_ms": 1_000,
    "facet_suggest_time_limit_ms": 100,
    "suggest_facets": False,
    "num_sql_threads": 3,
    "truncate_cells_html": 300,
    "default_cache_ttl": 0,
    "allow_csv_stream": False,  # a whole table is in memory while its formulas are escaped
    "allow_download": False,
}
_ENCODED = "?#%"
"""Characters with a meaning in addresses; they are replaced in the database's name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="the database, or the address of a store"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8001,
        metavar="N",
        help="default: 8001; 0 picks a free port",
    )
    parser.add_argument("--open", action="store_true", help="also open the browser")
    options.add_database_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.file and args.db:
        raise UsageError("name only one database: taupy serve FILE, or --db FILE")
    args.db = args.db or args.file
    path = options.database_or_store(args)
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port must be a number from 0 to 65535, got {args.port}")
    if args.file:
        options.recover_first(path)
    with bar.shown(f"opening {path}"), opened(path) as db:  # reports an unusable database
        columns = pages.columns(db)
        trials = len(db.trials())
    if find_spec("datasette") is None or find_spec("uvicorn") is None:
        raise TaupyError(
            "taupy serve needs Datasette, which is not installed: "
            "pip install 'taupy-profiler[serve]'"
        )
    listening = _listening(args.port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    address = f"http://{_HOST}:{port}/{token}/"
    say(
        f"{path} ({several(trials, 'trial')}) at {address}",
        "anyone who knows the address can read the database; Ctrl-C ends it",
    )
    title = os.path.basename(urlsplit(path).path if is_address(path) else path) or path
    name = "".join("_" if letter in _ENCODED else letter for letter in Path(title).stem)
    metadata = pages.metadata(name, title=title, columns=columns)
    # Uvicorn shuts down cleanly on SIGTERM, but not on SIGHUP.
    signal.signal(signal.SIGHUP, lambda number, frame: signal.raise_signal(signal.SIGTERM))
    with listening, _browser_page(address if args.open else None) as browser_page:
        return _serve(_Site(path, name, metadata), listening, token, browser_page)


class _Site(NamedTuple):
    """What is served.

    Attributes:
        path: of a database, or the address of a store.
        name: in Datasette.
        metadata: for Datasette.
    """

    path: str
    name: str
    metadata: dict[str, Any]


@contextlib.contextmanager
def _browser_page(address: str | None) -> Iterator[Path | None]:
    """A page that redirects to the address; on a browser's command line others could read it."""
    if address is None:
        yield None
        return
    number, name = tempfile.mkstemp(".html", "taupy-serve-")
    page = Path(name)
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(f'<meta http-equiv="refresh" content="0; url={html(address)}">\n')
        yield page
    finally:
        page.unlink(missing_ok=True)


def _listening(port: int) -> socket.socket:
    """A socket of the port, or for 0 of any free one. It takes connections from now on, so a
    program that reads the address can use it: they are answered when Datasette has begun."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_HOST, port))
        listening.listen()
    except OSError as problem:
        listening.close()
        raise TaupyError(
            f"port {port} cannot be used ({problem.strerror}); choose another with --port N, "
            "or --port 0"
        ) from None
    return listening


def _serve(site: _Site, listening: socket.socket, token: str, browser_page: Path | None) -> int:
    import asyncio
    import sqlite3
    import warnings

    warnings.simplefilter("ignore")  # warnings of libraries
    import uvicorn
    from datasette.app import Datasette
    from datasette.plugins import pm

    from taupy.serve import connections, plugin
    from taupy.serve.guard import Guard
    from taupy.serve.reports import Reports
    from taupy.serve.store import Copied, StoreDatabase

    pm.register(plugin, name="taupy")
    if (theirs := pm.get_plugin("datasette.handle_exception")) is not None:
        pm.unregister(theirs)
    sqlite3.enable_callback_tracebacks(False)  # Datasette prints those of functions in SQL

    def entered() -> None:
        if browser_page is not None:
            browser_page.unlink(missing_ok=True)

    async def serve() -> None:
        datasette = Datasette([], settings={**_SETTINGS, "base_url": f"/{token}/"})
        datasette.remove_database("_memory")
        if copied is None:
            database = plugin.TrialDatabase(datasette, path=site.path)
        else:
            database = StoreDatabase(datasette, copied)
        datasette.add_database(database, name=site.name)
        datasette._metadata_local = site.metadata
        await datasette.invoke_startup()
        port = listening.getsockname()[1]
        hosts = frozenset((f"{_HOST}:{port}", f"localhost:{port}"))
        reports = Reports(datasette.app(), f"/{token}/", site.path)
        app = Guard(reports, token, hosts, entered)
        config = uvicorn.Config(
            app,
            http=connections.Connection,
            backlog=connections.BACKLOG,
            log_level="error",  # what others send is no matter of the terminal
            lifespan="on",
            server_header=False,
        )
        if browser_page is not None:
            import webbrowser

            asyncio.get_running_loop().call_later(1.0, webbrowser.open, browser_page.as_uri())
        await uvicorn.Server(config).serve(sockets=[listening])

    with (
        contextlib.suppress(KeyboardInterrupt),
        Copied(site.path) if is_address(site.path) else contextlib.nullcontext() as copied,
    ):
        asyncio.run(serve())
    return 0
