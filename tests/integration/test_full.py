"""Complete means complete: full disks, cut-off parts, and many children in little room."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taupy import importing
from taupy.instrument import launch
from taupy.units import size
from tests import preloads

ROUTINES = 20_000
PROGRAM = f"""
import os, signal
def define(first, last):
    for n in range(first, last):
        exec(compile(f"def f{{n}}(): pass\\nf{{n}}()", "prog.py", "exec"), {{}})
define(0, 500)
open(os.environ["FULL_MARK"], "w").close()
define(500, {ROUTINES})
"""


@pytest.fixture(scope="session")
def preload(tmp_path_factory) -> Path:
    source = Path(__file__).with_name("full_disk.c")
    if (library := preloads.built(source, tmp_path_factory.mktemp("full"))) is None:
        pytest.skip("no C compiler here: a disk cannot be made full")
    return library


@pytest.fixture
def full(runs, preload):
    """From the file `mark` on, the state folder has no room."""
    (runs.folder / "db").mkdir()
    runs.environment = {
        "LD_PRELOAD": str(preload),
        "FULL_MARK": str(runs.folder / "mark"),
        "FULL_PREFIXES": str(runs.state),
    }
    return runs


def room_again(runs) -> None:
    (runs.folder / "mark").unlink()


def defined(runs) -> int:
    """How many of the program's routines f0, f1, ... are stored, and with one call each."""
    counts = {name: calls for name, calls in runs.calls().items() if name[1:].isdigit()}
    assert set(counts.values()) <= {1}
    return len(counts)


def state(runs) -> str:
    return runs.one("SELECT state FROM trial ORDER BY id DESC LIMIT 1")


@pytest.mark.slow
def test_a_full_state_folder_costs_nothing_when_the_program_ends(full, engine):
    done = full.run(PROGRAM, "--engine", engine)
    assert done.returncode == 0, done.stderr
    assert defined(full) == ROUTINES
    assert state(full) == "complete"
    assert full.metadata("taupy.health.lost") is None
    assert list(full.state.iterdir()) == []
    assert sorted(path.name for path in full.folder.glob("taupy.db*")) == ["taupy.db"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os._exit(3)", "sys.exit(3)", "os.abort()"])
def test_it_is_stored_whole_whatever_way_the_program_ends(full, native, end):
    done = full.run(PROGRAM + f"import sys\n{end}\n")
    if end == "os.abort()":
        room_again(full)
        full.taupy("trials", "--db", str(full.database))
        assert state(full) == "incomplete"
        assert 500 <= defined(full) < ROUTINES
    else:
        assert done.returncode == 3
        assert (defined(full), state(full)) == (ROUTINES, "complete")


@pytest.mark.parametrize("kibibytes", [100, 300])
def test_where_files_may_not_be_large_the_limit_is_named_and_the_watch_stores(
    runs, native, kibibytes
):
    """The program has limited itself and its storer; the watch has no limit."""
    done = runs.run(
        "import resource, time\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({kibibytes << 10},) * 2)\n"
        "def define(first, last):\n"
        "    for n in range(first, last):\n"
        '        exec(compile(f"def f{n}(): pass\\nf{n}()", "prog.py", "exec"), {})\n'
        "define(0, 3000)\ntime.sleep(0.3)\n"
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "RLIMIT_FSIZE" in line]
    assert len(lines) == 1, done.stderr
    assert f"may write files of {size(kibibytes << 10)} at most" in lines[0], lines
    assert "the run waits in " in lines[0]
    for folder in runs.state.glob("run-*"):
        while folder.exists():  # the watch, of itself
            time.sleep(0.05)
    assert (defined(runs), state(runs)) == (3000, "complete")
    assert not [*runs.folder.glob("*.taupy-run")]


def test_a_program_whose_files_may_not_be_large_runs_and_the_limit_is_named(runs, native):
    (runs.folder / "prog.py").write_text("print('ok')\n")
    command = shlex.join(
        [sys.executable, "-m", "taupy", "run", "--db", str(runs.database), "prog.py"]
    )
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 300; exec {command}"],
        cwd=runs.folder,
        env=runs.environ(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    assert f"files of {size(300 << 10)} at most (RLIMIT_FSIZE, `ulimit -f`)" in done.stderr
    assert "TAUPY_STATE_DIR" not in done.stderr


@pytest.mark.slow
def test_what_a_kill_has_cost_is_counted_and_the_trial_is_incomplete(full, native):
    full.run(PROGRAM + "os.kill(os.getpid(), signal.SIGKILL)\n")
    room_again(full)
    done = full.taupy("trials", "--db", str(full.database))
    assert "(incomplete)" in done.stderr
    assert state(full) == "incomplete"
    assert 500 <= defined(full) < ROUTINES
    lost = full.metadata("taupy.health.lost")
    words = lost.split()
    number, total = int(words[0]), int(words[2])
    assert lost.startswith(f"{number} of {total} bytes that process ")
    assert 0 < number < total and "lower bounds" in lost
    assert list(full.state.iterdir()) == []


@pytest.mark.slow
def test_children_of_a_run_whose_folder_is_full_are_stored_whole(full, native):
    source = """
import os
def child(): pass
open(os.environ["FULL_MARK"], "w").close()
for number in range(5):
    pid = os.fork()
    if not pid:
        child()
        os._exit(0)
    os.waitpid(pid, 0)
"""
    done = full.run(source)
    assert done.returncode == 0, done.stderr
    assert full.one("SELECT count(DISTINCT node) FROM thread") == 6
    assert full.calls()["child"] == 5
    assert state(full) == "complete"
    assert sorted(path.name for path in full.folder.glob("taupy.db*")) == ["taupy.db"]


@pytest.mark.slow
def test_what_fits_nowhere_is_reported(full, native):
    """The state folder and the place beside the database are full, and the database is not."""
    full.environment["FULL_PREFIXES"] += f":{full.database}-01"  # a UUID of our time
    source = (
        PROGRAM
        + """
if not os.fork():
    def child(): pass
    child()
    os._exit(0)
os.wait()
"""
    )
    done = full.run(source)
    assert state(full) == "incomplete"
    assert defined(full) < ROUTINES
    lost = full.metadata("taupy.health.lost")
    assert "bytes that process" in lost and "is empty: everything it measured is lost" in lost
    assert "taupy: note: " in done.stderr and "are lost" in done.stderr
    assert list(full.state.iterdir()) == []


@pytest.mark.slow
def test_a_failed_exec_after_the_part_was_put_aside_costs_nothing(full, native):
    source = (
        PROGRAM
        + """
try: os.execv("/no/such/program", ["x"])
except OSError: pass
def after(): pass
after(); after()
"""
    )
    full.run(source)
    assert full.calls()["after"] == 2
    assert (defined(full), state(full)) == (ROUTINES, "complete")


@pytest.mark.slow
def test_a_run_that_is_kept_in_a_file_holds_what_was_put_aside(full, native):
    full.environment["FULL_PREFIXES"] = str(full.state)
    (full.folder / "db" / "x.db").mkdir()  # cannot be a database
    (full.folder / "prog.py").write_text(PROGRAM)
    full.taupy("run", "--db", str(full.folder / "db" / "x.db"), "prog.py")
    names = sorted(path.name for path in (full.folder / "db").iterdir())
    assert len(names) == 2 and names[1].endswith(".taupy-run")
    room_again(full)
    full.taupy("import", "--db", str(full.database), str(full.folder / "db" / names[1]))
    assert (defined(full), state(full)) == (ROUTINES, "complete")


@pytest.mark.slow
def test_a_state_folder_that_is_full_from_the_start_gives_way_to_another(full, native):
    (full.folder / "mark").touch()
    full.environment["HOME"] = str(full.folder / "home")
    done = full.run("def f(): pass\nf()\n")
    assert done.returncode == 0, done.stderr
    assert full.calls()["f"] == 1
    assert list(full.state.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0, 4096, 30_000])
def test_a_part_that_was_cut_off_makes_the_trial_incomplete(runs, native, cut):
    calls = "".join(f"def f{n}(): pass\nf{n}()\n" for n in range(300))
    runs.run(calls + "import os; os.kill(os.getpid(), 9)\n", "--no-watch")
    (part,) = runs.state.glob("run-*/*.part")
    size = part.stat().st_size
    os.truncate(part, cut)
    storer = "import sys; from taupy.commands.storer import store; store(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", storer, part.parent, "watch"], check=True)  # unheard
    done = runs.taupy("trials", "--db", str(runs.database))
    assert "Traceback" not in done.stderr
    if cut < 20_000:
        assert "nothing was measured" in done.stderr
        assert " lost" in done.stderr
        assert not part.parent.exists()
    else:
        assert cut < size
        assert state(runs) == "incomplete"
        assert "bytes that process" in runs.metadata("taupy.health.lost")


# --- limits on the size of files that a program sets

LIMITED = """
import resource, signal, time
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, ({soft}, {hard}))
def work(): pass
scope = {{}}
for n in range({count}):
    exec(compile(f"def f{{n}}(): return {{n}}\\nf{{n}}()", "prog.py", "exec"), scope)
end = time.monotonic() + 2.5  # the plain engine writes about once a second
while time.monotonic() < end: work()
"""


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_never_kills_by_our_writes(runs, engine):
    done = runs.run(LIMITED.format(soft=1000, hard=1000, count=2), "--engine", engine)
    assert done.returncode == 0, done.stderr
    runs.taupy("trials", "--db", str(runs.database))
    if engine == "native":
        assert runs.calls()["work"] > 1000
        assert (defined(runs), state(runs)) == (2, "complete")
    else:  # it cannot write any more, and says so
        assert state(runs) == "incomplete"


@pytest.mark.slow
def test_under_a_soft_limit_on_the_size_of_files_nothing_is_lost(runs, native):
    done = runs.run(LIMITED.format(soft=1000, hard=-1, count=ROUTINES))
    assert done.returncode == 0, done.stderr
    assert (defined(runs), state(runs)) == (ROUTINES, "complete")


@pytest.mark.slow
def test_what_a_hard_limit_on_the_size_of_files_has_cost_is_counted(runs, native):
    """A part has room for 1 MiB whatever the program does to its limits."""
    done = runs.run(LIMITED.format(soft=1000, hard=1000, count=ROUTINES))
    assert done.returncode == 0, done.stderr
    done = runs.taupy("trials", "--db", str(runs.database))
    assert state(runs) == "incomplete"
    assert 2_000 < defined(runs) < ROUTINES
    number, of, total = runs.metadata("taupy.health.lost").split()[:3]
    assert of == "of" and 2_000_000 < int(number) < int(total)


@pytest.mark.slow
def test_the_storer_leaves_no_truncated_bytecode_under_such_a_limit(tmp_path):
    (tmp_path / "taupy" / "commands").mkdir(parents=True)
    (tmp_path / "taupy" / "__init__.py").touch()
    shutil.copy(importing.__file__, tmp_path / "taupy")
    lines = "".join(f"x{n} = {n}\n" for n in range(1000))
    (tmp_path / "taupy" / "commands" / "storer.py").write_text(lines + "store = print\n")
    code = launch._STORER.format(paths=[str(tmp_path)], home=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, "stored"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True,
        text=True,
    )
    assert done.stdout == "stored\n", done.stderr
    assert list(tmp_path.rglob("*.pyc")) == []


# --- many children


def usage(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


CHILDREN = """
import os, sys
def work(): pass
for number in range({count}):
    pid = os.fork()
    if not pid:
        work()
        {end}
    os.waitpid(pid, 0)
state = os.environ["TAUPY_STATE_DIR"]
print(sum(os.stat(os.path.join(folder, name)).st_blocks * 512
          for folder, _, names in os.walk(state) for name in names))
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_children_that_have_ended_take_little_room(runs, native, end):
    done = runs.run(CHILDREN.format(count=60, end=end))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 60 * 16_384 + (1 << 20)  # it was 60 MiB
    assert runs.calls()["work"] == 60
    assert runs.one("SELECT count(DISTINCT node) FROM thread") == 61
    assert state(runs) == "complete"
    statuses = runs.sql("SELECT value FROM metadata WHERE name = 'Process ID'")
    assert len(set(statuses)) == 61


@pytest.mark.slow
def test_children_that_end_at_once_do_not_get_into_each_others_way(runs, native):
    source = """
import os, time
def work(n): return n
begin = time.time() + 1.0
children = []
for number in range(40):
    pid = os.fork()
    if not pid:
        for n in range(number): work(n)
        while time.time() < begin: pass
        os._exit(0)
    children.append(pid)
for pid in children: os.waitpid(pid, 0)
"""
    done = runs.run(source)
    assert done.returncode == 0, done.stderr
    assert runs.calls()["work"] == sum(range(40))
    assert runs.one("SELECT count(DISTINCT node) FROM thread") == 41
    assert state(runs) == "complete"


@pytest.mark.slow
def test_children_killed_while_they_fold_lose_nothing(runs, native):
    """SIGKILL at a random moment around the end: each child is stored once, by what is whole."""
    source = """
import os, random, signal, time
random.seed(1)
def work(): pass
for number in range(60):
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    time.sleep(random.random() * 0.004)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""
    done = runs.run(source)
    assert done.returncode == 0, done.stderr
    nodes = runs.one("SELECT count(DISTINCT node) FROM thread")
    twice = runs.sql(
        "SELECT value FROM metadata WHERE name = 'Process ID' GROUP BY 1 HAVING count(*) > 1"
    )
    assert twice == []
    assert runs.calls().get("work", 0) <= nodes - 1 <= 60


@pytest.mark.slow
def test_children_that_outlive_the_program_fold_into_a_new_file(runs, native):
    source = """
import os, time
def early(): pass
def late(): pass
for number in range(4):
    if not os.fork():
        if number % 2:
            early()
            os._exit(0)
        until = time.time() + 30
        while os.getppid() == int(os.environ["ROOT"]) and time.time() < until: time.sleep(0.01)
        time.sleep(0.5)
        late()
        os._exit(0)
    if number % 2: os.wait()
"""
    runs.environment = {"ROOT": ""}
    (runs.folder / "prog.py").write_text(
        "import os; os.environ['ROOT'] = str(os.getpid())\n" + source
    )
    done = runs.taupy("run", "--db", str(runs.database), "prog.py")
    assert "still run" in done.stderr
    for _ in range(100):
        runs.taupy("trials", "--db", str(runs.database))
        if not list(runs.state.iterdir()):
            break
    assert runs.calls()["early"] == 2 and runs.calls()["late"] == 2
    assert state(runs) == "complete"


def test_a_folded_file_that_was_damaged_makes_the_trial_incomplete(runs, native):
    source = CHILDREN.format(count=5, end="os._exit(0)") + "os.kill(os.getpid(), 9)\n"
    runs.run(source)
    (folded,) = runs.state.glob("run-*/folded")
    data = bytearray(folded.read_bytes())
    os.truncate(folded, len(data) - 100)
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.one("SELECT count(DISTINCT node) FROM thread") == 5  # the last child is lost
    assert "bytes of folded parts are lost" in runs.metadata("taupy.health.lost")
    assert state(runs) == "incomplete"


def test_a_folded_file_into_which_nothing_was_written_loses_nothing(runs, native):
    """A child of a pool is often killed just then: it has made the file, and keeps its own."""
    runs.run(CHILDREN.format(count=0, end="") + "os.kill(os.getpid(), 9)\n")
    (folder,) = runs.state.glob("run-*")
    (folder / "folded").touch(mode=0o600)
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.one("SELECT count(*) FROM metadata WHERE name = 'taupy.health.lost'") == 0


def test_a_folded_file_that_lost_all_bytes_names_its_children(runs, native):
    runs.run(CHILDREN.format(count=2, end="os._exit(0)") + "os.kill(os.getpid(), 9)\n")
    (folded,) = runs.state.glob("run-*/folded")
    os.truncate(folded, 0)
    runs.taupy("trials", "--db", str(runs.database))
    assert "2 forked processes left no part" in runs.metadata("taupy.health.lost")
    assert state(runs) == "incomplete"


@pytest.mark.slow
def test_a_run_whose_own_process_left_nothing_is_incomplete(runs, native):
    source = CHILDREN.format(count=2, end="os._exit(0)") + "os.kill(os.getpid(), 9)\n"
    runs.run(source)
    for part in runs.state.glob("run-*/*.part"):
        part.unlink()
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.calls()["work"] == 2
    assert "own process left no profile" in runs.metadata("taupy.health.lost")
    assert state(runs) == "incomplete"
