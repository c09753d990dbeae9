"""Collectives of MPI that a program calls through mpi4py.

Here with a module that plays it, and the MPI library below it; with mpi4py itself at the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.engine.conftest import TIMEOUT_S, has_native

PLAYED = Path(__file__).with_name("played_mpi4py")
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = [
    pytest.mark.skipif(not has_native, reason="the compiled engine is not built"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler"),
]
HEAD = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
LATE = (
    HEAD
    + """
import os, time
open(f"ready.{rank}", "w").close()
while not all(os.path.exists(f"ready.{other}") for other in range(3)): time.sleep(0.001)
def work(seconds):
    began = time.thread_time()
    while time.thread_time() - began < seconds: pass
def run():
    for _ in range(5):
        work(0.1 if rank == 1 else 0.001)
        world.Barrier()
"""
)


def compiled(folder: Path, *flags: str) -> Path:
    """A folder with a package that plays mpi4py."""
    package = folder / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("")
    command = [COMPILER, "-shared", "-fPIC", "-O1", *flags]
    command += ["-I", sysconfig.get_path("include"), PLAYED / "MPI.c"]
    command += ["-o", package / f"MPI{sysconfig.get_config_var('EXT_SUFFIX')}"]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    return compiled(tmp_path_factory.mktemp("mpi4py"))


@pytest.fixture
def run(runner, played):
    def run(source: str, folder: Path = played, **variables: str):
        runner.environment |= {"PYTHONPATH": str(folder), "OMPI_COMM_WORLD_RANK": "1",
                               "OMPI_COMM_WORLD_SIZE": "4", **variables}  # fmt: skip
        return runner.run(HEAD + source, "native")

    return run


def kept(trial):
    return trial.sql(
        """SELECT communicator, number, operation, bytes, above.short_name
             FROM collective
             JOIN callpath ON callpath.id = collective.callpath_id
             JOIN callpath AS called ON called.id = callpath.parent_id
             JOIN callpath AS parent ON parent.id = called.parent_id
             JOIN timer AS above ON above.id = parent.timer_id
            ORDER BY communicator, number"""
    )


def doubts(trial) -> list[str]:
    found = trial.sql("SELECT value FROM metadata WHERE name = 'taupy.health.mpi'")
    return sorted({text for (text,) in found})


@pytest.mark.parametrize("flags", [(), pytest.param(("-DTUPLES",), marks=pytest.mark.slow)])
def test_each_collective_is_kept_under_its_caller(run, played, tmp_path, flags):
    trial = run(
        """
class Own(bytearray): pass
def mean():
    world.Allreduce(bytes(40), None)
    world.Allreduce(sendbuf=bytearray(8))
mean()
world.allreduce("an object")
world.Allreduce(Own(9))
world.Allreduce([bytes(3), "b"])
world.Allreduce([bytes(3), 2])
world.Allreduce(MPI.IN_PLACE, bytes(6))
even = world.Create()
even.Barrier()
world.Dup().Barrier()
world.recv()
""",
        compiled(tmp_path, *flags) if flags else played,
        OMPI_COMM_WORLD_RANK="2",
    )
    assert kept(trial) == [
        ("MPI:0,2", 1, "mpi:barrier", 0, "<module>"),
        ("MPI:0-3", 1, "mpi:all_reduce", 40, "mean"),
        ("MPI:0-3", 2, "mpi:all_reduce", 8, "mean"),
        ("MPI:0-3", 3, "mpi:all_reduce", -1, "<module>"),
        ("MPI:0-3", 4, "mpi:all_reduce", -1, "<module>"),
        ("MPI:0-3", 5, "mpi:all_reduce", 3, "<module>"),
        ("MPI:0-3", 6, "mpi:all_reduce", -1, "<module>"),
        ("MPI:0-3", 7, "mpi:all_reduce", 6, "<module>"),
        ("MPI:0-3#2", 1, "mpi:barrier", 0, "<module>"),
    ]
    assert trial.sql("SELECT name, ranks, size, begun FROM communicator ORDER BY name") == [
        ("MPI:0,2", "0,2", 2, 1),
        ("MPI:0-3", "0-3", 4, 7),
        ("MPI:0-3#2", "0-3", 4, 1),
    ]
    calls = {name: n for name, n in trial.calls().items() if name.startswith("MPI.")}
    assert calls == {
        **{"MPI.Comm.Allreduce": 6, "MPI.Comm.allreduce": 1, "MPI.Comm.Barrier": 2},
        **{"MPI.Comm.Create": 1, "MPI.Comm.Dup": 1, "MPI.Comm.recv": 1},
    }
    groups = {path.names[-1]: path.groups for path in trial.paths() if path.calls}
    assert groups["MPI.Comm.Barrier"] == ("PHASE_COMMUNICATION",)
    assert groups["MPI.Comm.recv"] == ("COMMUNICATION", "PHASE_COMMUNICATION")


def test_a_handle_that_is_used_again_is_another_communicator(run):
    trial = run(
        """
for _ in range(2):
    other = world.Dup()
    other.Barrier()
    other.Free()
even = world.Create()  # whose handle is the same
even.Barrier()
""",
        OMPI_COMM_WORLD_RANK="0",
    )
    names = [name for name, *_ in kept(trial)]
    assert names == ["MPI:0,2", "MPI:0-3", "MPI:0-3#2"]


def test_after_an_exception_collectives_are_not_matched(run):
    """Whether the other ranks have done what failed here is unknown: as the last one, it moves no
    number."""
    fails = "try: world.allreduce(None)\nexcept ValueError: pass\n"
    at_the_end = run("world.Barrier()\n" + fails)
    assert [row[:3] for row in kept(at_the_end)] == [("MPI:0-3", 1, "mpi:barrier")]
    assert doubts(at_the_end) == []
    before_another = run("world.Barrier()\n" + fails + "world.Barrier()\n")
    assert [row[:3] for row in kept(before_another)] == [("MPI:0-3@1", 1, "mpi:barrier")]
    (doubt,) = doubts(before_another)
    assert "MPI:0-3 cannot be matched" in doubt
    assert "raised an exception" in doubt
    assert before_another.calls()["MPI.Comm.Barrier"] == 2


def test_communicators_of_several_threads_are_not_matched(run):
    """Other ranks' threads may come in another order."""
    trial = run(
        """
import threading
other = world.Dup()
def there():
    other.Barrier()
world.Barrier()
thread = threading.Thread(target=there)
thread.start()
thread.join()
"""
    )
    assert [name for name, *_ in kept(trial)] == ["MPI:0-3@1"]
    (doubt,) = doubts(trial)
    assert "several threads" in doubt


def test_a_program_sees_the_exceptions_and_results_of_mpi4py(run):
    trial = run(
        """
for call in (lambda: world.Barrier(1), lambda: world.allreduce(None), lambda: MPI.Comm.Barrier()):
    try: call()
    except (TypeError, ValueError) as error: print(type(error).__name__, error)
assert world.Barrier() is None
assert MPI.Comm.Barrier.__name__ == "Barrier"
assert MPI.COMM_NULL.allreduce() is None
"""
    )
    assert trial.stdout.splitlines()[:2] == ["TypeError no arguments", "ValueError not None"]


def launched(folder: Path, command, environment, source: str) -> str:
    """What `taupy ranks` says of a program that was run by a command."""
    (folder / "prog.py").write_text(source)
    taupy = [sys.executable, "-m", "taupy"]
    subprocess.run([*command, *taupy, "run", "--db", "taupy.db", "prog.py"], cwd=folder,
                   env=environment, check=True, timeout=TIMEOUT_S)  # fmt: skip
    return subprocess.run([*taupy, "ranks", "--db", "taupy.db"], cwd=folder, check=True,
                          env=environment, capture_output=True, text=True).stdout  # fmt: skip


STARTS = """
import os, subprocess, sys
folder, *command = sys.argv[1:]
ranks = [subprocess.Popen(command, env={**os.environ, "MPI_FOLDER": folder,
         "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": "job"})
         for rank in range(3)]
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.fixture
def ranks(played, runner, tmp_path):
    """Three ranks of the played MPI."""

    def ranks(source: str) -> str:
        (tmp_path / "met").mkdir()
        command = [sys.executable, "-c", STARTS, str(tmp_path / "met")]
        environment = {**runner.environment, "PYTHONPATH": str(played)}
        head = "import os\nrank = int(os.environ['OMPI_COMM_WORLD_RANK'])\n"
        return launched(tmp_path, command, environment, head + source)

    return ranks


@pytest.mark.slow
def test_the_rank_that_is_waited_for_is_named_with_its_reason(ranks):
    said = ranks(LATE + "run()\n")
    assert "3 RANKS, 5 MATCHED COLLECTIVES" in said
    assert "for rank 1" in said
    assert "work [{prog.py}" in said


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpiexec", path=str(Path(sys.executable).parent)) is None,
                    reason="no mpiexec beside this Python")  # fmt: skip
def test_with_mpi4py_itself(runner, tmp_path):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    is_open = "Open MPI" in subprocess.run([mpiexec, "--version"], capture_output=True,
                                           text=True, check=True).stdout  # fmt: skip
    command = [mpiexec, *(["--oversubscribe"] if is_open else []), "-n", "3"]
    environment = {**runner.environment, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip
    if not is_open:
        environment |= {"MPI4PY_MPIABI": "mpich",
                        "LD_LIBRARY_PATH": os.path.join(sys.prefix, "lib")}  # fmt: skip
    head = "from mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"
    said = launched(tmp_path, command, environment, head + LATE + "run()\n")
    assert "3 RANKS, 5 MATCHED COLLECTIVES" in said
    assert "for rank 1" in said
    assert "work [{prog.py}" in said
