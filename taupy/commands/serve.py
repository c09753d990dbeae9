"""Open the database in a browser, with Datasette.

    taupy serve                      the database, at http://127.0.0.1:8001/
    taupy serve FILE --port 9000 --open

Nothing is written, and nobody on another machine gets in. Ctrl-C ends it. Datasette is an
extra: pip install 'taupy-profiler[serve]'.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import socket
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from taupy.commands import options
from taupy.commands.messages import say
from taupy.errors import TaupyError, UsageError
from taupy.profiledb import pages
from taupy.profiledb.database import ProfileDB
from taupy.units import several

HELP = "open the database in a browser, with Datasette"

_HOST = "127.0.0.1"
_SETTINGS = {
    "sql_time_limit_ms": 10_000,
    "facet_time_limit_ms": 1_000,
    "facet_suggest_time_limit_ms": 100,
    "suggest_facets": False,
    "num_sql_threads": 3,
    "truncate_cells_html": 300,
    "default_cache_ttl": 0,
}
_ENCODED = "?#%"
"""What a file name must not hold to be opened by Datasette under that name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="the database")
    parser.add_argument(
        "--port",
        type=int,
        default=8001,
        metavar="N",
        help="default: 8001; 0 takes one that is free",
    )
    parser.add_argument("--open", action="store_true", help="open the browser, too")
    options.add_database_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.file and args.db:
        raise UsageError("name the database once: taupy serve FILE, or --db FILE")
    path = os.path.abspath(args.file) if args.file else options.database_path(args)
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port is a number from 0 to 65535, got {args.port}")
    if args.file:
        options.recover_first(path)
    with ProfileDB.open(path) as db:  # refused in one line, or brought up to date
        columns = pages.columns(db)
        trials = len(db.trials())
    if find_spec("datasette") is None or find_spec("uvicorn") is None:
        raise TaupyError(
            "taupy serve needs Datasette, which is not here: pip install 'taupy-profiler[serve]'"
        )
    port = _free_port(args.port)
    from taupy.commands import serve_plugin

    with tempfile.TemporaryDirectory(prefix="taupy-serve-") as folder:
        with open(os.path.join(folder, "index.html"), "w", encoding="utf-8") as file:
            file.write(serve_plugin.START_PAGE)
        served = _servable(path, folder)
        address = f"http://{_HOST}:{port}/"
        say(f"{path} ({several(trials, 'trial')}) at {address} (Ctrl-C ends it)")
        metadata = functools.partial(pages.metadata, title=os.path.basename(path), columns=columns)
        return _serve(served, folder, metadata, port, address if args.open else None)


def _free_port(wanted: int) -> int:
    """The port, if nobody has it, or one that nobody has for 0."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, wanted))
        except OSError as problem:
            raise TaupyError(
                f"port {wanted} cannot be used ({problem.strerror}); choose another with --port N, "
                "or --port 0"
            ) from None
        return int(probe.getsockname()[1])


def _servable(path: str, folder: str) -> str:
    """A name for the file that Datasette can open: SQLite would read ? and # as its own."""
    if not any(letter in path for letter in _ENCODED):
        return path
    name = "".join("_" if letter in _ENCODED else letter for letter in os.path.basename(path))
    link = os.path.join(folder, name)
    os.symlink(path, link)
    return link


def _serve(
    path: str,
    folder: str,
    metadata: Callable[[str], dict[str, Any]],
    port: int,
    browse: str | None,
) -> int:
    import asyncio
    import warnings

    warnings.simplefilter("ignore")  # of libraries, on their own account
    import uvicorn
    from datasette.app import Datasette
    from datasette.plugins import pm

    from taupy.commands import serve_plugin

    pm.register(serve_plugin, name="taupy")

    async def serve() -> None:
        datasette = Datasette([path], template_dir=folder, settings=_SETTINGS)
        name = next(name for name in datasette.databases if name != "_internal")
        datasette.remove_database(name)
        datasette.add_database(serve_plugin.TrialDatabase(datasette, path=path), name=name)
        datasette._metadata_local = metadata(name)
        await datasette.invoke_startup()
        config = uvicorn.Config(
            datasette.app(), host=_HOST, port=port, log_level="warning", lifespan="on"
        )
        if browse:
            import webbrowser

            asyncio.get_running_loop().call_later(1.0, webbrowser.open, browse)
        await uvicorn.Server(config).serve()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
    return 0
