"""Ranks on hosts that share no file system, launched again, launched twice: what becomes a trial.

Launchers are their variables here, or a script that starts ranks; one test has torchrun itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import permutations

import pytest

from tests.integration.conftest import names_next

pytestmark = pytest.mark.slow

HOSTS = ("torchrun", "OpenMPI", "PMI", "srun", "--run-id")
PROGRAM = "import sys\ndef f(): pass\nf()\nsys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)\n"


def variables(launcher: str, rank: int, size: int = 2) -> dict[str, str]:
    names = {
        "torchrun": ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
        "OpenMPI": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"),
        "PMI": ("PMI_RANK", "PMI_SIZE", "PMI_JOBID"),
        "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID"),
        "--run-id": ("PMI_RANK", "PMI_SIZE", "UNUSED"),
    }[launcher]
    return {**dict(zip(names, (str(rank), str(size), "job"), strict=True)), "SLURM_STEP_ID": "0"}


@pytest.fixture
def launched(runs, native):
    (runs.folder / "prog.py").write_text(PROGRAM)

    def launched(launcher, rank, *arguments, db="taupy.db", size=2, restarts=None):
        """One rank; its lines on standard error."""
        more = {} if restarts is None else {"TORCHELASTIC_RESTART_COUNT": str(restarts)}
        named = ("--run-id", "mine") if launcher == "--run-id" else ()
        command = ["-m", "taupy", "run", "--db", db, *named, "prog.py", *arguments]
        return subprocess.run(
            [sys.executable, *command],
            cwd=runs.folder,
            env={**runs.environ(), **variables(launcher, rank, size), **more},
            stderr=subprocess.PIPE,
            text=True,
            timeout=240,
        ).stderr

    return launched


@pytest.mark.parametrize("launcher", HOSTS)
def test_hosts_with_databases_of_their_own_become_one_trial_in_any_order(runs, launched, launcher):
    said = [launched(launcher, rank, db=f"{rank}.db", size=4) for rank in (0, 1, 3)]
    trial, following = said[0].splitlines()
    assert ", rank 0 of 4" in trial
    database = runs.folder / "0.db"
    assert names_next(following, f"taupy report 1 --db {database}")
    assert said[1:] == ["", ""]
    for number, order in enumerate(permutations((0, 1, 3))):
        merged = f"merged{number}.db"
        done = runs.taupy("merge", *(f"{rank}.db" for rank in order), "--into", merged)
        assert "trial 1: rank 2 is missing" in done.stderr
        listed = runs.taupy("pprof", "--db", merged)
        assert "note: rank 2 is missing" in listed.stdout + listed.stderr
        rows = runs.taupy(
            "query", "--db", merged, "--csv", "SELECT node FROM thread ORDER BY node"
        ).stdout
        assert rows.split() == ["node", "0", "1", "3"]


def test_saved_runs_of_other_hosts_are_imported_into_one_trial(runs, launched):
    for rank in (1, 0):
        os.mkdir(runs.folder / f"{rank}.db")  # not a database: the run is kept in a file
        assert "saved in" in launched("torchrun", rank, db=f"{rank}.db")
    for file in sorted(runs.folder.glob("*.taupy-run"), reverse=True):
        assert runs.taupy("import", "--db", "all.db", file.name).returncode == 0
    rows = runs.taupy(
        "query", "--db", "all.db", "--csv", "SELECT trial_id, node FROM thread"
    ).stdout
    assert sorted(rows.split()) == ["1,0", "1,1", "trial_id,node"]


def test_attempts_are_one_trial_and_the_last_one_says_how_it_ended(runs, launched):
    for restarts, code in ((0, "3"), (1, "0")):
        for rank in (1, 0):
            launched("torchrun", rank, code if rank else "0", restarts=restarts)
    assert runs.sql("SELECT node FROM thread ORDER BY node") == [
        (0,), (1,), (10_000_000,), (10_000_001,)
    ]  # fmt: skip
    assert runs.sql("SELECT exit_code, state FROM trial") == [(0, "complete")]
    by_rank = runs.taupy("pprof", "--db", str(runs.database), "--by", "rank", "--csv").stdout
    assert len({line.split(",")[0] for line in by_rank.splitlines()[1:]}) == 2
    said = runs.taupy("ranks", "--db", str(runs.database), "--attempt", "7").stderr
    assert said == "taupy: trial 1 has no attempt 7, only 1, 2\n"


def test_killed_ranks_are_recovered_in_one_line(runs, launched):
    killed = "import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGKILL)\nf()\n"
    (runs.folder / "prog.py").write_text(killed)
    (runs.folder / "pyproject.toml").write_text("[tool.taupy]\nwatch = false\n")
    for rank in range(3):
        launched("torchrun", rank, size=3)
    said = runs.taupy("trials", "--db", "taupy.db").stderr
    recovered = "taupy: recovered an interrupted run: trial 1, prog/default/1"
    assert said == f"{recovered} (incomplete), from 3 runs\n"
    assert runs.sql("SELECT node FROM thread ORDER BY node") == [(0,), (1,), (2,)]


def test_a_second_run_of_the_same_name_is_a_trial_of_its_own(runs, launched):
    for _ in range(2):
        for rank in (0, 1):
            launched("torchrun", rank)
    assert runs.sql("SELECT trial_id, node FROM thread ORDER BY 1, 2") == [
        (1, 0), (1, 1), (2, 0), (2, 1)
    ]  # fmt: skip


def test_ranks_of_a_job_without_a_name_say_so(runs, launched):
    assert "--run-id" not in launched("PMI", 0)
    environment = {**runs.environ(), "PMI_RANK": "0", "PMI_SIZE": "2"}
    done = subprocess.run(
        [sys.executable, "-m", "taupy", "run", "--db", "other.db", "prog.py"],
        cwd=runs.folder, env=environment, stderr=subprocess.PIPE, text=True, timeout=240,
    )  # fmt: skip
    assert "with the same --run-id on all ranks they become one" in done.stderr


LAUNCHER = """
import os, subprocess, sys
size, script = int(sys.argv[1]), sys.argv[2]
started = []
for rank in reversed(range(size)):
    place = {"RANK": str(rank), "WORLD_SIZE": str(size)}
    started.append(subprocess.Popen([sys.executable, script], env={**os.environ, **place}))
sys.exit(max(process.wait() for process in started))
"""
"""What `torchrun` does, the last rank first."""
RANK = """
import os, subprocess, sys
def work(): return sum(range(10**6))
work()
if os.environ["RANK"] == "0":
    subprocess.run([sys.executable, "-c", "def helper(): pass\\nhelper()"], check=True)
"""


def test_the_children_of_a_launcher_are_the_ranks_of_one_trial(runs, native):
    (runs.folder / "torchrun").write_text(LAUNCHER)
    (runs.folder / "prog.py").write_text(RANK)
    said = runs.taupy("run", "--db", "taupy.db", "torchrun", "2", "prog.py")
    assert said.returncode == 0, said.stderr
    assert ", 2 ranks" in said.stderr
    names = "SELECT node, thread.name FROM thread WHERE thread = 0 ORDER BY node"
    assert runs.sql(names) == [
        (0, "rank 0"), (1, "rank 1"), (2, "MainThread"), (3, "MainThread")
    ]  # fmt: skip
    facts = "SELECT node, value FROM metadata WHERE name = 'Rank' ORDER BY node"
    assert runs.sql(facts) == [(0, "0"), (1, "1")]
    # The trial takes as long as its first rank, not as the launcher.
    took = "SELECT duration_ns FROM trial"
    first = "SELECT max(inclusive) FROM interval_value JOIN thread ON thread.id = thread_id "
    ((duration,),), ((launcher,),) = runs.sql(took), runs.sql(f"{first} WHERE node = 2")
    assert duration < launcher
    screen = runs.taupy("report", "--db", "taupy.db").stdout
    assert " · 2 ranks · " in screen and "rank 0 " in screen and "rank 1 " in screen
    assert "prog.py:3  def work():" in screen
    ranks = runs.taupy("ranks", "--db", "taupy.db", "--csv").stdout.splitlines()[1:]
    assert [line.split(",")[0] for line in ranks] == ["0", "1"]


def test_a_launcher_of_one_rank_steps_behind_it(runs, native):
    (runs.folder / "torchrun").write_text(LAUNCHER)
    (runs.folder / "prog.py").write_text(RANK)
    assert runs.taupy("run", "--db", "taupy.db", "torchrun", "1", "prog.py").returncode == 0
    names = "SELECT thread.name FROM thread WHERE thread = 0 AND node = 0"
    assert runs.sql(names) == [("rank 0",)]


def test_a_program_that_says_itself_a_rank_keeps_its_children(runs, native):
    """It is no launcher: what it starts are its worker processes."""
    (runs.folder / "prog.py").write_text(LAUNCHER)
    (runs.folder / "x.py").write_text("def f(): pass\nf()\n")
    assert runs.taupy("run", "--db", "taupy.db", "prog.py", "2", "x.py").returncode == 0
    assert runs.sql("SELECT value FROM metadata WHERE name = 'Rank'") == []
    assert runs.sql("SELECT name FROM thread WHERE node = 0") == [("MainThread",)]


def test_torchrun_itself_makes_ranks(runs, native):
    pytest.importorskip("torch", reason="torchrun is PyTorch's, which is not installed")
    (runs.folder / "prog.py").write_text(RANK)
    words = ("--nproc_per_node", "2", "prog.py")
    said = runs.taupy("run", "--db", "taupy.db", "torchrun", *words)
    assert said.returncode == 0, said.stderr
    facts = "SELECT node, value FROM metadata WHERE name = 'Rank' ORDER BY node"
    assert runs.sql(facts) == [(0, "0"), (1, "1")]
