"""Services that are stopped: each usual way leaves a complete trial in the named database, at once
and without another command."""

import fcntl
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from taupy.state import heartbeat, watch_files

UVICORN = "uvicorn has to be installed"
APP = """
def compute(n):
    return sum(range(n))
async def app(scope, receive, send):
    if scope["type"] == "http":
        body = str(compute(100)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
"""
ASYNCIO = """
import asyncio, signal, sys
def compute(n):
    return sum(range(n))
async def answer(reader, writer):
    await reader.readline()
    writer.write(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + str(compute(100)).encode())
    await writer.drain()
    writer.close()
async def serve(port, graceful):
    stop = asyncio.Event()
    if graceful:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with await asyncio.start_server(answer, "127.0.0.1", port):
        await stop.wait()
asyncio.run(serve(int(sys.argv[1]), sys.argv[2] == "graceful"))
"""
POOL = """
import multiprocessing, os, pathlib, time
def work(n):
    return n
def nap():
    pathlib.Path("asleep").touch()
    time.sleep(600)
if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        print(sum(pool.map(work, range(100))))
        pool.apply_async(nap)
        while not os.path.exists("asleep"):
            time.sleep(0.01)
"""


def free_port():
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return client.recv(100).startswith(b"HTTP/1.")
    except OSError:
        return False


def wait_for(found, seconds=60.0):
    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def served(runs, native):
    """Starts a service and waits until it answers."""
    started = []

    def served(*target, before=(), after=(), options=()):
        port = free_port()
        command = [sys.executable, "-m", "taupy", "run", "--db", "named.db", *options, *target]
        program = subprocess.Popen(
            [*before, *(word.format(port=port) for word in [*command, *after])],
            cwd=runs.folder,
            env=runs.environ(),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        started.append(program)
        wait_for(lambda: answers(port))
        return program

    yield served
    for program in started:
        program.poll() is None and program.kill()
        program.wait()


def trial(runs):
    """State and exit code of the only trial, stored without any further command; and calls."""
    named = runs.folder / "named.db"
    wait_for(lambda: named.exists() and not any(runs.state.glob("run-*")))
    runs.folder.joinpath("taupy.db").symlink_to(named)
    ((state, code),) = runs.sql("SELECT state, exit_code FROM trial")
    assert runs.metadata("taupy.health.children_killed") is None
    assert runs.metadata("taupy.health.cut_off") is None
    return state, code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_server_that_does_not_handle_the_signal_is_stored_by_the_watch(runs, served, number):
    program = served("-m", "http.server", "--bind", "127.0.0.1", "{port}")
    program.send_signal(number)
    assert program.wait() == -number
    assert trial(runs) == ("complete", -number)
    assert runs.one(
        "SELECT calls FROM timer_call JOIN timer ON timer.id = timer_id "
        "WHERE short_name = 'SimpleHTTPRequestHandler.do_GET'"
    )
    assert f"ended by {number.name}" in runs.metadata("taupy.health.stopped")


@pytest.mark.parametrize("way", ["graceful", "abrupt"])
def test_an_asyncio_server_is_complete(runs, served, way):
    (runs.folder / "server.py").write_text(ASYNCIO)
    program = served("server.py", "{port}", way)
    program.terminate()
    assert program.wait() == (0 if way == "graceful" else -signal.SIGTERM)
    assert trial(runs) == ("complete", program.returncode)


def test_a_server_that_timeout_ends_is_complete(runs, served):
    program = served("-m", "http.server", "{port}", before=["timeout", "600"])
    program.terminate()  # timeout passes it on, as it does when the time is over
    program.wait()
    assert trial(runs) == ("complete", -signal.SIGTERM)


@pytest.mark.parametrize(
    ("number", "options"),
    [
        (signal.SIGTERM, ()),
        (signal.SIGINT, ()),
        pytest.param(signal.SIGTERM, ("--workers", "2"), marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, ("--reload",), marks=pytest.mark.slow),
    ],
)
def test_uvicorn_is_complete(runs, served, number, options):
    pytest.importorskip("uvicorn", reason=UVICORN)
    (runs.folder / "app.py").write_text(APP)
    program = served("-m", "uvicorn", "app:app", "--port", "{port}", after=options)
    program.send_signal(number)
    program.wait()
    state, code = trial(runs)
    assert (state, code) == ("complete", program.returncode)
    assert runs.metadata("taupy.health.stopped") is None  # it ended by itself
    assert runs.sql("SELECT 1 FROM timer WHERE short_name = 'compute'")


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "signal.raise_signal(signal.SIGTERM)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.kill(os.getpid(), 15)",
        "os.killpg(0, signal.SIGHUP)",
        "signal.pthread_kill(threading.get_ident(), signal.SIGINT)",
    ],
)
def test_a_program_that_sends_the_signal_to_itself_is_stored_before_it_ends(runs, native, how):
    source = f"""
import os, signal, threading
signal.signal(signal.SIGINT, signal.SIG_DFL)
def last(): {how}
last()
"""
    done = runs.run(source, "--no-watch", start_new_session=True)
    assert done.returncode in (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
    assert runs.one("SELECT state, exit_code FROM trial") == ("complete", done.returncode)
    assert "trial 1" in done.stderr
    assert runs.calls()["last"] == 1


@pytest.mark.parametrize(
    "prepare",
    [
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "signal.signal(signal.SIGTERM, lambda *_: None)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])",
    ],
)
def test_a_program_that_survives_its_own_signal_is_measured_to_its_end(runs, native, prepare):
    source = f"""
import signal
def after(): print("alive")
{prepare}
signal.raise_signal(signal.SIGTERM)
after()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
    done = runs.run(source)
    assert (done.returncode, done.stdout) == (0, "alive\n")
    assert runs.one("SELECT state, exit_code FROM trial") == ("complete", 0)
    assert runs.calls()["after"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_their_pool_ends_are_not_killed(runs, native, method):
    done = runs.run(POOL.format(method=method))
    assert done.stdout == "4950\n"
    assert "killed" not in done.stderr
    assert runs.one("SELECT state FROM trial") == "complete"
    assert runs.metadata("taupy.health.children_killed") is None
    assert "its pool" in runs.metadata("taupy.children_ended")


@pytest.mark.slow
def test_a_child_that_exits_in_c_is_not_killed(runs, native):
    """As PyTorch's data workers do on SIGTERM."""
    done = runs.run(f"""
import ctypes, glob, os, time
def work(): ctypes.CDLL(None)._exit(0)
if os.fork() == 0: work()
(noted,) = glob.glob("state/run-*/{watch_files.HEARTBEAT}")
while os.path.getsize(noted) <= {heartbeat.HEADER_BYTES}:
    time.sleep(0.02)  # the watch sees how it ended before its parent takes the status
os.wait()
""")
    assert "killed" not in done.stderr
    assert "1 of 2 processes (node 1) was ended by _exit" in runs.metadata("taupy.children_ended")
    assert runs.calls()["work"] == 1


def has_stored(runs, routine):
    with suppress(sqlite3.OperationalError):  # the database is being made
        return runs.sql("SELECT 1 FROM timer WHERE short_name = ?", routine)


def test_a_worker_that_goes_on_does_not_delay_its_killed_parent(runs, native):
    source = """
import os, signal, time
def parent(): os.kill(os.getpid(), signal.SIGKILL)
if os.fork() == 0:
    while not os.path.exists("go"):
        time.sleep(0.01)
else:
    parent()
"""
    (runs.folder / "prog.py").write_text(source)
    command = [sys.executable, "-m", "taupy", "run", "-q", "prog.py"]
    subprocess.run(command, cwd=runs.folder, env=runs.environ())
    wait_for(lambda: has_stored(runs, "parent"))
    (runs.folder / "go").touch()
    wait_for(runs.is_stored)
    assert runs.one("SELECT count(*) FROM trial") == 1


@contextmanager
def before_it_looks_for_processes(runs):
    """The storer waits for the run folder."""
    with runs.folder_of_run() as folder:
        lock = (folder / "lock").lock_descriptor()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lambda: (kept := heartbeat.read(folder)) and kept[0].is_over
        os.close(lock)


@contextmanager
def after_it_looked_for_processes(runs):
    """The storer waits for the database."""
    with closing(sqlite3.connect(runs.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with runs.folder_of_run() as folder:
            yield (folder / "nodes").exists


def is_being_stored(runs):
    """Whether a storer works that a watch has begun."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(path.read_bytes())
    ours = os.fsencode(runs.state)
    return any(ours in command and command.endswith(b"\0watch\0") for command in commands)


@pytest.mark.parametrize(
    "storer_waits", [before_it_looks_for_processes, after_it_looked_for_processes]
)
def test_a_child_that_begins_while_its_killed_parent_is_stored_is_stored_too(
    runs, native, storer_waits
):
    until = "while [ ! -e begin ]; do sleep 0.02; done; exec"
    parent = f"""
import os, signal, subprocess, time
def parent(): os.kill(os.getpid(), signal.SIGKILL)
subprocess.Popen(["sh", "-c", "{until} {sys.executable} child.py"])
while not os.path.exists("kill"):
    time.sleep(0.01)
parent()
"""
    child = (
        "import os, time\ndef child(): time.sleep(0.01)\nwhile not os.path.exists('go'): child()"
    )
    (runs.folder / "prog.py").write_text(parent)
    (runs.folder / "child.py").write_text(child)
    command = [sys.executable, "-m", "taupy", "run", "-q", "prog.py"]
    with subprocess.Popen(command, cwd=runs.folder, env=runs.environ()):
        wait_for(lambda: any(runs.state.glob("run-*/*.part")))
        with storer_waits(runs) as has_begun:
            (runs.folder / "kill").touch()
            wait_for(has_begun)
            (runs.folder / "begin").touch()
            wait_for(lambda: len([*runs.state.glob("run-*/*.part")]) == 2)
    wait_for(lambda: has_stored(runs, "parent") and not is_being_stored(runs))
    (runs.folder / "go").touch()
    wait_for(runs.is_stored)
    assert has_stored(runs, "child")
    assert runs.one("SELECT count(*) FROM trial") == 1


def test_without_a_watch_the_run_lies_beside_its_database(runs, native):
    """Whoever reads the database next finds it, whatever the HOME."""
    runs.environment = {"TAUPY_STATE_DIR": "", "HOME": str(runs.folder / "home")}
    done = runs.run("import os\ndef f(): os.kill(os.getpid(), 9)\nf()", "--no-watch")
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in runs.folder.glob("taupy.db*")] == ["taupy.db.running"]
    runs.environment["HOME"] = str(runs.folder / "another")
    assert "recovered" in runs.taupy("trials").stderr
    assert runs.calls()["f"] == 1
    assert [path.name for path in runs.folder.glob("taupy.db*")] == ["taupy.db"]


def cwd_of(pid):
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:  # another user's
        return ""


def in_a_container(*command):
    """The command as the first process of a process namespace; skips if none can be made."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    unshare += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"]).returncode:
        pytest.skip("no process namespace can be made here")
    return [*unshare, *command]


@pytest.mark.parametrize("init", [(), ("sh", "-c", '"$@" & wait $!', "init")])
def test_a_container_that_is_stopped_keeps_its_run_beside_the_database(runs, served, init):
    """The HOME of the container is gone afterwards. Its init ends with the program, and with it
    the watch, or the program is the first process and has no watch."""
    pytest.importorskip("uvicorn", reason=UVICORN)
    runs.environment = {"TAUPY_STATE_DIR": "", "HOME": str(runs.folder / "home")}
    (runs.folder / "app.py").write_text(APP)
    served("-m", "uvicorn", "app:app", "--port", "{port}", before=in_a_container(*init))
    (settings,) = runs.folder.glob("named.db.running/run-*")
    inside = rf"NSpid:.*\s{settings.name.rpartition('-')[2]}$"
    child = max(
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/status")
        if re.search(inside, path.read_text(), re.MULTILINE)
        and str(runs.folder) in cwd_of(path.parent.name)
    )
    os.kill(child, signal.SIGTERM)
    wait_for((runs.folder / "named.db").exists)
    runs.environment["HOME"] = str(runs.folder / "another")
    # The container's own storer may be at work, or be killed at it: then a command stores the run.
    wait_for(lambda: "complete" in runs.taupy("trials", "--db", "named.db").stdout)
    assert trial(runs)[0] == "complete"
