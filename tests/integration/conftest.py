"""Run small programs with the real command, and read the database."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from taupy.state.folder import Folder, open_run
from tests import in_process

# Under a sanitizer (scripts/sanitize.py), only the engine in C.
ENGINES = ("native",) if "TAUPY_SANITIZED" in os.environ else ("native", "python")


def names_next(line: str, command: str) -> bool:
    """Whether the last line of a run is the command to type next."""
    return line == f"taupy: next: {command}"


@dataclass
class Runs:
    """A folder for running programs, with its own database and state."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def database(self) -> Path:
        return self.folder / "taupy.db"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TAU", "XDG_STATE"))}
        return {**kept, "TAUPY_STATE_DIR": str(self.state), **self.environment}

    def taupy(self, *arguments: str, **more) -> subprocess.CompletedProcess:
        """Run a command, in this process unless it runs programs or inherits descriptors."""
        if arguments[0] not in ("run", "serve") and not more:
            return in_process.taupy(*arguments, cwd=self.folder, env=self.environ())
        return subprocess.run(
            [sys.executable, "-m", "taupy", *arguments],
            cwd=self.folder,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=240,
            **more,
        )

    def run(self, source: str, *options: str, arguments: tuple[str, ...] = (), **more):
        """`taupy run` of a script with this source."""
        (self.folder / "prog.py").write_text(source)
        return self.taupy(
            "run", "--db", str(self.database), *options, "prog.py", *arguments, **more
        )

    def plain(self, source: str, *arguments: str) -> subprocess.CompletedProcess:
        """The script without taupy."""
        (self.folder / "prog.py").write_text(source)
        return subprocess.run(
            [sys.executable, "prog.py", *arguments],
            cwd=self.folder,
            env=self.environ(),
            capture_output=True,
            text=True,
        )

    def is_stored(self) -> bool:
        """Whether no run is under way or waits to be stored."""
        return self.database.exists() and not any(self.state.glob("run-*"))

    def folder_of_run(self) -> Folder:
        """The folder of the only run that is under way."""
        (path,) = self.state.glob("run-*")
        return open_run(str(path))

    def sql(self, query: str, *values) -> list[tuple]:
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            return connection.execute(query, values).fetchall()

    def one(self, query: str, *values):
        (row,) = self.sql(query, *values)
        return row[0] if len(row) == 1 else row

    def calls(self, trial: int | None = None) -> dict[str, int]:
        """Calls of the program's own routines by qualified name, summed over threads."""
        return dict(
            self.sql(
                """SELECT timer.short_name, sum(timer_call.calls) FROM timer_call
                     JOIN timer ON timer.id = timer_call.timer_id
                    WHERE timer_call.trial_id = coalesce(?, (SELECT max(id) FROM trial))
                      AND (timer.file = 'prog.py' OR timer.file IS NULL)
                      AND timer.name <> 'exit'
                    GROUP BY timer.short_name""",
                trial,
            )
        )

    def metadata(self, name: str) -> str | None:
        rows = self.sql(
            "SELECT value FROM metadata WHERE name = ? ORDER BY trial_id DESC, node", name
        )
        return rows[0][0] if rows else None


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Each of the two engines."""
    if request.param == "native":
        pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    return request.param


@pytest.fixture
def native() -> str:
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    return "native"
