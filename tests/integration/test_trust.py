"""What another user, or a file from elsewhere, cannot make taupy do. See docs/security.md."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from taupy.instrument.runfolder import read_settings, write_settings
from taupy.state import values
from taupy.state.folder import VERSION, open_run

KILLED = "import os\ndef f(): pass\nf(); f()\nos.kill(os.getpid(), 9)\n"
OTHER, VICTIM = 65533, 65532
"""Users whom nobody else needs: an attacker, and somebody who is not root."""


@pytest.fixture
def left_over(runs, native) -> Path:
    """The run folder of a program that was killed, which no watch stores meanwhile."""
    runs.run(KILLED, "--no-watch")
    (folder,) = runs.state.iterdir()
    return folder


@pytest.fixture
def second_user(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can act as a second user")
    probe = tmp_path / "probe"
    probe.touch()
    try:
        os.chown(probe, OTHER, OTHER)
    except OSError as problem:
        pytest.skip(f"files cannot be given to a second user here: {problem}")
    probe.unlink()


def marker(path: Path) -> list[bytes]:
    """The command that an attacker would have us run."""
    return [b"/bin/sh", b"-c", b"touch " + os.fsencode(path), b"x"]


def plant(folder: Path, left_over: Path, **more) -> None:
    """A run folder of somebody's own making, from a real one: it runs a command at the end."""
    folder.mkdir(mode=0o700, parents=True)
    with open_run(str(left_over)) as opened:
        settings = read_settings(opened)
    for name, value in more.items():
        setattr(settings, name, value)
    with open_run(str(folder)) as opened:
        write_settings(opened, settings)


# --- leftover runs


def test_a_run_of_another_user_is_left_alone_and_named(runs, left_over, second_user):
    before = sorted(left_over.iterdir())
    os.chown(left_over, OTHER, OTHER)
    done = runs.taupy("trials", "--db", str(runs.database))
    assert f"{left_over} belongs to user {OTHER}" in done.stderr
    assert done.stderr.count("\n") <= 2 and "Traceback" not in done.stderr
    assert sorted(left_over.iterdir()) == before


def test_a_state_folder_of_another_user_is_not_used_by_root(runs, second_user):
    runs.state.mkdir(mode=0o777)
    runs.state.chmod(0o777)
    os.chown(runs.state, OTHER, OTHER)
    runs.environment = {"HOME": str(runs.folder / "home")}
    done = runs.run("def f(): pass\nf()\n")
    assert f"{runs.state} belongs to user {OTHER}, not to you: another state" in done.stderr
    assert runs.calls() == {".taupy application": 1, "<module>": 1, "f": 1}
    assert list(runs.state.iterdir()) == []
    assert stat.S_IMODE(runs.state.stat().st_mode) == 0o777


def test_links_in_a_run_folder_are_never_written_through(runs, left_over):
    victim = runs.folder / "profile"
    victim.write_text("precious")
    for name in ("nodes.new", "run.new", "lock", "facts"):
        (left_over / name).unlink(missing_ok=True)
        (left_over / name).symlink_to(victim)
    done = runs.taupy("trials", "--db", str(runs.database))
    assert victim.read_text() == "precious"
    assert "lock is a symbolic link, not a regular file" in done.stderr
    (left_over / "lock").unlink()
    assert "recovered" in runs.taupy("trials", "--db", str(runs.database)).stderr
    assert runs.calls() == {".taupy application": 1, "<module>": 1, "f": 2}
    assert victim.read_text() == "precious"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "lock", "nodes", "part"])
@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder", "bomb"])
def test_no_strange_file_stops_a_command(runs, left_over, name, kind):
    """Neither waits nor breaks: every command goes on, and says what it left alone."""
    path = next(left_over.glob("*.part")) if name == "part" else left_over / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "bomb":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to("/dev/zero")
    for _ in range(2):
        done = runs.taupy("doctor", "--db", str(runs.database))
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 1)
    done = runs.taupy("trials", "--db", str(runs.database))
    assert "Traceback" not in done.stderr
    if name in ("run", "lock"):
        assert f"{path.name} " in done.stderr


@pytest.mark.parametrize("planted", ["pipe", "link", "file"])
def test_a_state_folder_that_is_none_is_named_and_another_is_used(runs, planted):
    if planted == "pipe":
        os.mkfifo(runs.state)
    elif planted == "link":
        (runs.folder / "elsewhere").mkdir()
        runs.state.symlink_to(runs.folder / "elsewhere")
    else:
        runs.state.touch()
    runs.environment = {"HOME": str(runs.folder / "home")}
    done = runs.run("def f(): pass\nf()\n")
    kind = {"pipe": "a named pipe", "link": "a symbolic link", "file": "a regular file"}[planted]
    assert f"{runs.state} is {kind}, not a folder: another state folder is used" in done.stderr
    assert runs.calls() == {".taupy application": 1, "<module>": 1, "f": 1}


@pytest.mark.slow
def test_nothing_of_a_run_can_be_read_by_others_under_any_umask(runs, native):
    source = """
import os, stat
folder = os.environ["TAUPY_STATE_DIR"]
(run,) = os.listdir(folder)
run = f"{folder}/{run}"
for name in (folder, run, *(f"{run}/{name}" for name in os.listdir(run))):
    mode = stat.S_IMODE(os.stat(name).st_mode)
    assert not mode & 0o077, (name, oct(mode))
"""
    before = os.umask(0)
    try:
        done = runs.run(source)
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr


# --- TAUPY_BOOT


def boot(folder: Path, *options: str, user: int | None = None) -> subprocess.CompletedProcess:
    """An interpreter whose environment names a run folder."""
    return subprocess.run(
        [sys.executable, *options, "-c", "import sys; print('TAUPY_BOOT' in sys.modules)"],
        env={**os.environ, "TAUPY_BOOT": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        user=user,
        cwd="/",
    )


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-I", "-E"]])
def test_an_isolated_interpreter_stores_nothing_for_a_folder_that_it_is_handed(
    runs, left_over, options
):
    planted, mark = runs.folder / "planted", runs.folder / "mark"
    plant(planted, left_over, engine_options={"storer_argv": marker(mark)}, root_pid=0)
    done = boot(planted, *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert not mark.exists()
    assert sorted(os.listdir(planted)) == ["run"]


@pytest.mark.parametrize("lie", ["process 1", "dead", "other boot"])
def test_what_a_file_says_of_its_parents_is_checked(runs, left_over, lie):
    from taupy.instrument.runfolder import boot_id, process_start

    planted, mark = runs.folder / "planted", runs.folder / "mark"
    root = {
        "process 1": {"root_pid": 1, "root_start": 1, "boot_id": boot_id()},
        "dead": {"root_pid": 1 << 21, "root_start": 5, "boot_id": boot_id()},
        "other boot": {"root_pid": os.getpid(), "root_start": process_start(os.getpid()),
                       "boot_id": "0"},
    }[lie]  # fmt: skip
    plant(planted, left_over, engine_options={"storer_argv": marker(mark)}, **root)
    boot(planted, "-I")
    assert sorted(os.listdir(planted)) == ["run"]
    assert not mark.exists()


def test_a_folder_of_another_user_starts_nothing(runs, left_over, second_user):
    planted, mark = runs.folder / "planted", runs.folder / "mark"
    plant(planted, left_over, engine_options={"storer_argv": marker(mark)})
    os.chown(planted, OTHER, OTHER)
    for options in ([], ["-I"]):
        assert boot(planted, *options).returncode == 0
    os.chown(planted, 0, 0)
    planted.chmod(0o777)
    assert boot(planted).returncode == 0
    assert sorted(os.listdir(planted)) == ["run"]
    assert not mark.exists()


@pytest.mark.parametrize("planted", ["pipe", "device", "garbage", "nothing", "link"])
def test_no_folder_that_is_named_keeps_an_interpreter_from_starting(runs, planted):
    folder = runs.folder / "folder"
    folder.mkdir(mode=0o700)
    if planted == "pipe":
        os.mkfifo(folder / "run")
    elif planted == "device":
        (folder / "run").symlink_to("/dev/zero")
    elif planted == "garbage":
        (folder / "run").write_bytes(values.MAGIC + b"m1:" * 9999)
    elif planted == "link":
        folder.rmdir()
        folder.symlink_to(runs.folder)
    done = boot(folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


@pytest.mark.slow
def test_isolated_children_of_the_program_are_still_measured(runs, native):
    source = """
import subprocess, sys
def child(): pass
code = "def child(): pass\\nchild()"
for options in (["-I"], ["-E"], ["-I", "-E"]):
    subprocess.run([sys.executable, *options, "-c", code], check=True)
subprocess.run(f"{sys.executable} -I -c 'def child(): pass\\nchild()'", shell=True, check=True)
"""
    done = runs.run(source, "--engine", native)
    assert done.returncode == 0, done.stderr
    assert runs.one("SELECT count(DISTINCT node) FROM thread") == 5


@pytest.mark.slow
def test_an_isolated_orphan_is_not_measured_and_that_is_reported(runs, native):
    source = """
import os, subprocess, sys, time
code = "import os; print(os.getpid(), flush=True)"
read, write = os.pipe()
middle = os.fork()
if not middle:
    subprocess.Popen([sys.executable, "-c", "import os, time\\n"
        "while os.getppid() == int(os.environ['MIDDLE']): time.sleep(0.01)\\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-I', '-c', 'pass'])"],
        stdout=write, env={**os.environ, "MIDDLE": str(os.getpid())})
    os._exit(0)
os.waitpid(middle, 0)
os.close(write)
os.read(read, 1)  # until the orphan has ended
"""
    done = runs.run(source)
    assert "not measured in one process: it ignores its environment (-I, -E)" in done.stderr


# --- a real second user


@dataclass(frozen=True)
class Victim:
    """Somebody who is not root, in a folder that all users reach, as /tmp.

    Attributes:
        everyones: that folder.
        home: a folder of the victim's own in it.
        become: a command that runs another one as this user.
    """

    everyones: Path
    home: Path
    become: list[str]

    def python(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = {"PATH": os.environ["PATH"], "TMPDIR": str(self.everyones)}
        return subprocess.run(
            [*self.become, sys.executable, *arguments],
            cwd="/", env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip


@pytest.fixture
def victim(second_user):
    everyones = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    everyones.chmod(0o1777)
    home = everyones / "victim"
    home.mkdir()
    os.chown(home, VICTIM, VICTIM)
    # The interpreter may lie in root's home: then the victim may look, and is still not root.
    plain = ["setpriv", f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups"]
    looking = [*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    command = "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'taupy', 'trials'])"
    try:
        for become in (plain, looking):
            found = Victim(everyones, home, become)
            if shutil.which("setpriv") and "no database" in found.python("-c", command).stderr:
                yield found
                return
        pytest.skip("another user cannot start this interpreter here")
    finally:
        shutil.rmtree(everyones)


@pytest.mark.slow
def test_a_second_user_cannot_plant_a_run_in_the_shared_temporary_folder(victim):
    """The attack as it was made: leftovers under the victim's name in a shared /tmp."""
    secret = victim.home / ".profile"
    secret.write_text("precious")
    os.chown(secret, VICTIM, VICTIM)
    planted = victim.everyones / f"taupy-{VICTIM}"
    (planted / "run-1-1").mkdir(parents=True)
    (planted / "run-1-1" / "nodes.new").symlink_to(secret)
    os.mkfifo(planted / "run-1-1" / "run")
    for path in (planted, *planted.rglob("*")):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    planted.chmod(0o777)
    (planted / "run-1-1").chmod(0o777)
    database = str(victim.home / "taupy.db")
    done = victim.python("-m", "taupy", "run", "--db", database, "-c", "def f(): pass\nf()")
    assert done.returncode == 0
    assert f"{planted} belongs to user {OTHER}" in done.stderr
    assert "the run is kept beside the database" in done.stderr
    done = victim.python("-m", "taupy", "trials", "--db", database)
    assert f"{planted} belongs to user {OTHER}" in done.stderr
    assert "Traceback" not in done.stderr and "default" in done.stdout
    assert secret.read_text() == "precious"


@pytest.mark.slow
def test_a_run_can_be_reached_by_its_own_user_only_and_not_by_root(victim):
    state, database = victim.everyones / f"taupy-{VICTIM}", str(victim.home / "taupy.db")
    source = f"import os; print(oct(os.stat({str(state)!r}).st_mode & 0o777))"
    done = victim.python("-m", "taupy", "run", "--db", database, "-c", source)
    assert (done.returncode, done.stdout) == (0, "0o700\n"), done.stderr
    killed = "def f(): pass\nf(); import os; os.kill(os.getpid(), 9)"
    done = victim.python("-m", "taupy", "run", "--no-watch", "--db", database, "-c", killed)
    assert done.returncode == -9
    folder = Path(f"{database}.running")  # without a watch, which would have stored the run
    assert folder.stat().st_uid == VICTIM and folder.stat().st_mode & 0o777 == 0o700
    root = subprocess.run(
        [sys.executable, "-m", "taupy", "trials", "--db", database],
        env={**os.environ, "TAUPY_STATE_DIR": str(state)}, capture_output=True, text=True,
    )  # fmt: skip
    assert f"{state} belongs to user {VICTIM}" in root.stderr
    assert folder.exists()
    done = victim.python("-m", "taupy", "trials", "--db", database)
    assert "recovered" in done.stderr and not folder.exists()


# --- rescue files


def rescue_file(runs) -> Path:
    (runs.folder / "broken.db").mkdir()
    runs.taupy("run", "--db", str(runs.folder / "broken.db"), "-c", "def f(): pass\nf()")
    (path,) = runs.folder.glob("*.taupy-run")
    return path


def rezipped(path: Path, target: Path, **changes: bytes | None) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.update(changes)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if data is not None:
                archive.writestr(name, data)


@pytest.mark.slow
def test_a_rescue_file_holds_no_environment_and_is_for_its_owner(runs, native):
    runs.environment = {"SECRET_TOKEN": "hunter2"}
    before = os.umask(0)
    try:
        path = rescue_file(runs)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with zipfile.ZipFile(path) as archive:
        assert b"hunter2" not in b"".join(map(archive.read, archive.namelist()))


@pytest.mark.slow
def test_an_imported_run_keeps_the_facts_of_its_own_machine(runs, native):
    path = rescue_file(runs)
    foreign = values.dumps({"Hostname": "node17", "Git Commit": "abc"})
    rezipped(path, runs.folder / "x.taupy-run", facts=foreign)
    runs.taupy("import", "--db", str(runs.database), "x.taupy-run")
    assert runs.metadata("Hostname") == "node17"
    assert runs.metadata("Git Commit") == "abc"
    assert runs.metadata("OS Release") is None


@pytest.mark.slow
def test_git_is_not_asked_in_a_folder_that_a_file_names(runs, native):
    """A repository can have git run programs of its choice."""
    path, mark = rescue_file(runs), runs.folder / "mark"
    evil = runs.folder / "evil"
    subprocess.run(["git", "init", "-q", str(evil)], check=True)
    subprocess.run(
        ["git", "-C", str(evil), "config", "core.fsmonitor", f"touch {mark}; false"], check=True
    )
    with zipfile.ZipFile(path) as archive:
        settings = values.loads(archive.read("run"))
    settings["program_folder"] = settings["cwd"] = str(evil)
    run = values.dumps(settings)
    rezipped(path, runs.folder / "x.taupy-run", run=run, facts=None)
    done = runs.taupy("import", "--db", str(runs.database), "x.taupy-run")
    assert done.returncode == 0, done.stderr
    assert not mark.exists()


@pytest.mark.slow
def test_a_rescue_file_that_would_fill_the_disk_is_refused(runs, native):
    path = rescue_file(runs)
    rezipped(path, runs.folder / "bomb.taupy-run", **{"1-1.part": bytes(900 << 20)})
    assert (runs.folder / "bomb.taupy-run").stat().st_size < 2 << 20
    done = runs.taupy("import", "--db", str(runs.database), "bomb.taupy-run")
    assert done.returncode == 1
    assert "is not unpacked: it would take more than" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(runs.state.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["../evil.part", "/tmp/evil.part", "a/b.part", ".part", "x\n.part"]
)
def test_members_with_names_that_taupy_does_not_give_are_not_taken(runs, native, name):
    path = rescue_file(runs)
    rezipped(path, runs.folder / "x.taupy-run", **{name: b"evil"})
    done = runs.taupy("import", "--db", str(runs.database), "x.taupy-run")
    assert "trial 1" in done.stderr and "evil" not in done.stderr
    assert not list(runs.folder.rglob("*evil*")) and not Path("/tmp/evil.part").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run": None}, "is not a run saved by taupy"),
        ({"run": b"{0"}, "does not begin with TAUPYVAL1"),
        (
            {"run": values.dumps({"version": VERSION})},
            "a setting of the run is invalid",
        ),
        ({"run": values.dumps({"version": 1})}, "another version of taupy"),
        ({"nodes": values.dumps({"x": "y"})}, "its node numbers are invalid"),
        ({"facts": values.dumps({"x": 1})}, "its metadata are invalid"),
    ],
)
def test_a_damaged_rescue_file_is_refused_in_one_line(runs, native, change, words):
    path = rescue_file(runs)
    rezipped(path, runs.folder / "x.taupy-run", **change)
    done = runs.taupy("import", "--db", str(runs.database), "x.taupy-run")
    assert done.returncode == 1
    assert words in done.stderr and done.stderr.count("\n") == 1
    assert list(runs.state.iterdir()) == []


@pytest.mark.slow
def test_a_rescue_file_whose_uuid_is_none_is_refused(runs, native):
    path = rescue_file(runs)
    with zipfile.ZipFile(path) as archive:
        settings = values.loads(archive.read("run"))
    for number, uuid in enumerate(
        ["../../../../tmp/evil", "", "a/b-00000000", "x" * 200, "\x1b[2J"]
    ):
        file = f"x{number}.taupy-run"
        rezipped(path, runs.folder / file, run=values.dumps({**settings, "uuid": uuid}))
        done = runs.taupy("import", "--db", str(runs.database), file)
        assert done.returncode == 1 and not runs.database.exists()
        assert "a setting of the run is invalid: uuid" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_of_packing_are_refused(runs, native, compression):
    path = rescue_file(runs)
    with (
        zipfile.ZipFile(path) as archive,
        zipfile.ZipFile(runs.folder / "x.taupy-run", "w", compression) as other,
    ):
        for name in archive.namelist():
            other.writestr(name, archive.read(name))
    done = runs.taupy("import", "--db", str(runs.database), "x.taupy-run")
    assert "packed in a way that taupy does not use" in done.stderr


@pytest.mark.slow
def test_where_no_place_can_be_had_the_program_runs_unmeasured(runs, native):
    taken = runs.folder / "tmp"
    taken.mkdir()
    (taken / f"taupy-{os.getuid()}").touch()  # no folder, as another user's is none
    (runs.folder / "taupy.db.running").touch()
    environment = {**runs.environ(), "TMPDIR": str(taken)}
    for name in ("TAUPY_STATE_DIR", "HOME", "XDG_STATE_HOME"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "taupy", "run", "-c", "print('ok'); raise SystemExit(3)"]
    done = subprocess.run(
        command, cwd=runs.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "ok\n")
    assert "set TAUPY_STATE_DIR to a writable folder: this run is not measured" in done.stderr
    (runs.folder / "taupy.db.running").unlink()
    done = subprocess.run(
        command, cwd=runs.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "ok\n")
    assert "the run is kept beside the database" in done.stderr and "trial 1" in done.stderr
