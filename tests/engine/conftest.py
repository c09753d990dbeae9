"""Run programs with `taupy run` under an engine, and read their trials from the database."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.builders import empty_database
from tests.in_process import set_up_torch
from tests.once import once

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SEPARATOR = " > "
# A program under a sanitizer (scripts/sanitize.py) is several times slower.
SANITIZED = "TAUPY_SANITIZED" in os.environ
TIMEOUT_S = 600 if SANITIZED else 120

has_native = importlib.util.find_spec("taupy._native.engine") is not None
ENGINES = [
    *([] if SANITIZED else ["python"]),  # it has no C
    pytest.param(
        "native",
        marks=pytest.mark.skipif(not has_native, reason="the compiled engine is not built"),
    ),
]


class Path_(NamedTuple):
    """One call path of one thread; `names` are short names, outermost first."""

    names: tuple[str, ...]
    files: tuple[str | None, ...]
    groups: tuple[str, ...]
    node: int
    thread: int
    thread_name: str
    calls: int
    subroutines: int
    inclusive: float
    exclusive: float


class Trial:
    """The first trial of a database."""

    def __init__(self, database: Path, stderr: str = "", stdout: str = "") -> None:
        self.stderr, self.stdout = stderr, stdout
        self.database = database
        self.connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        self._paths: list[Path_] = []
        self._paths_in: dict[str | None, list[Path_]] = {}

    def sql(self, query: str, *values):
        return self.connection.execute(query, values).fetchall()

    def paths(self) -> list[Path_]:
        """All call paths of all threads of the first trial."""
        if self._paths:
            return self._paths
        trial = self.sql("SELECT min(id) FROM trial")[0][0]
        above = {
            number: (parent, name, file, groups)
            for number, parent, name, file, groups in self.sql(
                """SELECT callpath.id, callpath.parent_id, timer.short_name, timer.file,
                          (SELECT group_concat(name, '|') FROM timer_group
                            WHERE timer_id = timer.id)
                     FROM callpath JOIN timer ON timer.id = callpath.timer_id"""
            )
        }
        outermost: tuple[tuple[str, ...], tuple[str | None, ...], str] = ((), (), "")
        chains = {None: outermost}

        def chain(number: int) -> tuple[tuple[str, ...], tuple[str | None, ...], str]:
            """Names, files and innermost groups of a call path; those of a caller are made once."""
            unknown, at = [], number
            while at not in chains:
                unknown.append(at)
                at = above[at][0]
            for at in reversed(unknown):
                parent, name, file, groups = above[at]
                names, files, its_groups = chains[parent]
                chains[at] = ((*names, name), (*files, file), groups or its_groups)
            return chains[number]

        for number, *rest in self.sql(
            """SELECT call.callpath_id, thread.node, thread.thread, thread.name, call.calls,
                      call.subroutines, value.inclusive, value.exclusive
                 FROM call JOIN thread ON thread.id = call.thread_id
                 JOIN interval_value AS value USING (trial_id, callpath_id, thread_id)
                 JOIN metric ON metric.id = value.metric_id AND metric.name = 'time'
                WHERE call.trial_id = ? ORDER BY thread.node, thread.thread""",
            trial,
        ):
            names, files, groups = chain(number)
            path = Path_(names, files, tuple(sorted(groups.split("|"))), *rest)
            self._paths.append(path)
            self._paths_in.setdefault(files[-1], []).append(path)
        return self._paths

    def counts(self, file: str) -> dict[str, int]:
        """Call path, of this file's routines only -> calls, summed over threads."""
        self.paths()
        counts: dict[str, int] = {}
        for path in self._paths_in.get(file, []):
            if path.calls:
                own = [n for n, f in zip(path.names, path.files, strict=True) if f == file]
                text = SEPARATOR.join(own)
                counts[text] = counts.get(text, 0) + path.calls
        return counts

    def calls(self, file: str | None = None) -> dict[str, int]:
        """Short name -> calls, summed over call paths and threads; without the program's exit."""
        counts: dict[str, int] = {}
        for path in self.paths():
            if path.groups != ("EXIT",) and (file is None or path.files[-1] == file) and path.calls:
                counts[path.names[-1]] = counts.get(path.names[-1], 0) + path.calls
        return counts

    def under(self, *names: str) -> Path_:
        """The one call path that ends with these names."""
        matching = [path for path in self.paths() if path.names[-len(names) :] == names]
        assert len(matching) == 1, f"{names}: {len(matching)} call paths"
        return matching[0]

    def metadata(self) -> dict[str, str]:
        return dict(self.sql("SELECT name, value FROM metadata WHERE node IS NULL"))


class Runner:
    """Runs programs in a separate folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TAUPY_STATE_DIR": str(folder / "state"),
        }
        for name in ("TAUPY_DB", "TAU_THROTTLE", "PYTHONHASHSEED"):
            self.environment.pop(name, None)

    def run(self, program: str | Path, engine: str, *options: str, check: bool = True) -> Trial:
        self.count += 1
        if isinstance(program, str):
            file = self.folder / "prog.py"
            file.write_text(program)
        else:
            file = program
        # Runners of several engines share a folder.
        database = self.folder / f"{engine}-{self.count}.db"
        database.write_bytes(empty_database())
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "taupy",
                "run",
                "--engine",
                engine,
                "--db",
                str(database),
                *options,
                str(file),
            ],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        if check:
            assert done.returncode == 0, done.stderr
        trial = Trial(database, done.stderr, done.stdout)
        assert trial.sql("SELECT id FROM trial"), f"the run was not stored: {done.stderr}"
        return trial


@pytest.fixture
def runner(tmp_path) -> Runner:
    return Runner(tmp_path)


@pytest.fixture(scope="session")
def torch_state(tmp_path_factory) -> str:
    """A state folder with the libraries compiled for the installed PyTorch, created once."""
    state = str(tmp_path_factory.mktemp("torch"))  # accessible by this user only
    done = set_up_torch({**os.environ, "TAUPY_STATE_DIR": state})
    assert done.returncode == 0, done.stderr
    return state


@pytest.fixture
def torch_runner(runner, torch_state) -> Runner:
    """Runs programs that use the real PyTorch."""
    runner.environment["TAUPY_STATE_DIR"] = torch_state
    return runner


@pytest.fixture(scope="session")
def built_torch(tmp_path_factory) -> Path:
    """The folder of a package that plays PyTorch."""
    from tests.engine.played import build

    return once(tmp_path_factory, "played_torch", build)


@pytest.fixture(scope="session")
def played(built_torch) -> Path:
    """The library that plays libtorch_cpu, and libc10."""
    return built_torch / "libtorch_cpu.so"


@pytest.fixture(scope="module")
def shared(built_torch, tmp_path_factory) -> Path:
    """Where PyTorch is, and a state folder in which taupy's library is kept."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "torch").symlink_to(built_torch / "torch")
    shutil.copytree(built_torch / "state", folder / "state")
    return folder


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    """Each of the two engines, for what the plain one promises, too."""
    return request.param


@pytest.fixture
def native() -> str:
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    return "native"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """All programs in one folder, and another program that runs them in a row."""
    from tests.engine.programs import PROGRAMS

    folder = tmp_path_factory.mktemp("corpus")
    files = []
    for program in PROGRAMS:
        file = folder / f"{program.name}.py"
        file.write_text(program.source)
        files.append(str(file))
    (folder / "all.py").write_text(
        f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from reference import execute
for file in {files!r}:
    with open(file) as source:
        code = compile(source.read(), file, "exec")
    execute(code, file)
"""
    )
    return folder, files


@pytest.fixture(scope="session")
def reference(corpus) -> dict[str, dict[str, int]]:
    """The counts of the independent counter, by file name."""
    folder, files = corpus
    output = folder / "reference.json"
    subprocess.run(
        [sys.executable, str(HERE / "reference.py"), str(output), *files], check=True, timeout=120
    )
    return {Path(file).name: paths for file, paths in json.loads(output.read_text()).items()}


@pytest.fixture(scope="session")
def corpus_trials(corpus) -> dict[str, Trial]:
    """Engine -> the trial of all programs, run once by `corpus_trial`."""
    return {}


@pytest.fixture
def corpus_trial(corpus, corpus_trials, engine) -> Trial:
    if engine not in corpus_trials:
        corpus_trials[engine] = Runner(corpus[0]).run(corpus[0] / "all.py", engine)
    return corpus_trials[engine]
