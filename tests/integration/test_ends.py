"""A program ends as without taupy: with its exit code, in time, and whoever reads what it says."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import termios
import time

import pytest

_MARKS = "def mark(): pass\nfor _ in range(2000): mark()\n"
# Its handler ends with Python; from the program's end on, taupy ignores what would end the process.
# Between the two, a signal ends it as it does without taupy, so none is sent before. Then it comes
# again and again, as from a timer that is left on.
_SENDER = """
import os, sys, time
pid, number = map(int, sys.argv[1:])
def is_ignored():
    with open(f"/proc/{pid}/status") as status:
        ignored = next(int(line[7:], 16) for line in status if line.startswith("SigIgn:"))
    return ignored >> number - 1 & 1
print("looks", flush=True)
while not is_ignored():
    time.sleep(0.001)
open("sent", "w").close()
while os.getppid() == pid:
    os.kill(pid, number)
    time.sleep(0.01)
"""
_SIGNALLED = f"""
import os, signal, subprocess, sys, threading, time
number = getattr(signal, sys.argv[1])
if number != signal.SIGTERM:
    signal.signal(number, lambda *_: None)
sender = [sys.executable, "-S", "-c", {_SENDER!r}, str(os.getpid()), str(int(number))]
subprocess.Popen(sender, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.readline()
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
"""
_LIMITED = """
import resource, sys
limit = int(sys.argv[2]) << 20
resource.setrlimit(getattr(resource, sys.argv[1]), (limit, limit))
print("limited")
"""
_FULL_PIPE = "import os\nos.write(2, b'x' * 65535 + b'\\n')\n"
# A shell's part: a job in the background of a terminal that stops jobs which write.
_JOB = """
import os, signal, subprocess, sys, termios
settings = termios.tcgetattr(0)
settings[3] |= termios.TOSTOP
termios.tcsetattr(0, termios.TCSANOW, settings)
job = subprocess.Popen(sys.argv[1:], process_group=0)
_, status = os.waitpid(job.pid, os.WUNTRACED)
if os.WIFSTOPPED(status):
    os.killpg(job.pid, signal.SIGKILL)
    sys.exit("stopped")
sys.exit(os.waitstatus_to_exitcode(status))
"""


def command(runs, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "taupy", "run", "--db", str(runs.database), *arguments]


@pytest.mark.parametrize("name", ["SIGALRM", "SIGPROF", "SIGTERM"])
def test_a_signal_while_the_run_is_stored_leaves_the_exit_code(runs, engine, name):
    done = runs.run(_MARKS + _SIGNALLED, "--engine", engine, arguments=(name,))
    assert done.returncode == 0, done.stderr
    assert runs.one("SELECT exit_code, state FROM trial") == (0, "complete")
    assert runs.calls()["mark"] == 2000
    assert (runs.folder / "sent").exists()


def test_a_stderr_that_is_read_after_the_end_delays_nothing(runs, engine):
    (runs.folder / "prog.py").write_text(_MARKS + _FULL_PIPE)
    program = subprocess.Popen(
        command(runs, "--engine", engine, "prog.py"),
        cwd=runs.folder,
        env=runs.environ(),
        stderr=subprocess.PIPE,
    )
    assert program.wait(timeout=120) == 0
    assert program.stderr.read() == b"x" * 65535 + b"\n"
    program.stderr.close()
    assert runs.calls()["mark"] == 2000


def test_a_job_in_the_background_of_a_terminal_is_not_stopped(runs):
    (runs.folder / "prog.py").write_text(_MARKS)
    shell, ours = pty.fork()
    if shell == 0:
        os.chdir(runs.folder)
        run = command(runs, "prog.py")
        os.execve(sys.executable, [sys.executable, "-c", _JOB, *run], runs.environ())
    said = _read(ours)
    _, status = os.waitpid(shell, 0)
    assert (os.waitstatus_to_exitcode(status), said) == (0, b"")
    assert runs.calls()["mark"] == 2000


_LONG_NAMES = """
def a_routine_with_a_rather_long_name(times):
    for number in range(times): total = sum(i * i for i in range(number % 50))

a_routine_with_a_rather_long_name(5_000)
"""


@pytest.mark.parametrize("columns", [60, 80, 200, None])
def test_the_end_of_a_run_fits_its_terminal_and_breaks_no_number(runs, columns):
    (runs.folder / "prog.py").write_text(_LONG_NAMES)
    run = command(runs, "--trial", "a_name_for_the_trial", "prog.py")
    ours, theirs = pty.openpty() if columns else os.pipe()
    if columns:
        termios.tcsetwinsize(theirs, (24, columns))
    environ = {name: value for name, value in runs.environ().items() if name != "COLUMNS"}
    environ |= {"TERM": "dumb", "COLUMNS": "" if columns else "40"}  # which is not for pipes
    subprocess.run(run, cwd=runs.folder, env=environ, stderr=theirs)
    os.close(theirs)
    *ended, _ = _read(ours).decode().splitlines()
    lines = [line.removeprefix("taupy: ") for line in ended]
    assert (len(lines) > 1) == (columns in (60, 80))
    assert max(map(len, ended)) <= (columns or 250)
    assert all(line.startswith("  ") == bool(at) for at, line in enumerate(lines))
    words = " ".join(line.strip() for line in lines)
    told = r"trial 1 \(prog/default/a_name_for_the_trial\): \S+ \w+; [\w ,]+ a_routine\S+ "
    named = re.match(told + r"\(prog\.py:\d\): \S+ \w+, \d+ %", words)
    assert named
    assert words[named.end() :].startswith(": ") == (columns in (200, None))  # text goes first
    assert not any(line[-1].isdigit() for line in lines)


def _read(descriptor):
    """All that is written until the other end is closed."""
    said = b""
    with contextlib.suppress(OSError):  # the terminal is gone
        while piece := os.read(descriptor, 4096):
            said += piece
    os.close(descriptor)
    return said


@pytest.mark.parametrize(
    ("limit", "mib"),
    [("RLIMIT_AS", 64), ("RLIMIT_AS", 100), *(("RLIMIT_DATA", mib) for mib in (12, 20, 32, 64))],
)
def test_a_limit_of_memory_that_the_program_has_loses_nothing(runs, native, limit, mib):
    done = runs.run(_MARKS + _LIMITED, arguments=(limit, str(mib)))
    assert (done.returncode, done.stdout) == (0, "limited\n")
    said = done.stderr.splitlines()
    assert all(line.startswith("taupy: ") for line in said), done.stderr
    assert "lost" not in done.stderr
    until = time.monotonic() + 120
    while not runs.is_stored() and time.monotonic() < until:
        time.sleep(0.05)  # by the watch
    assert runs.one("SELECT state FROM trial") == "complete"
    assert runs.calls()["mark"] == 2000


def test_a_command_that_has_no_memory_loses_no_run(runs, native):
    kill = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    assert runs.run(_MARKS + kill, "--no-watch").returncode == -signal.SIGKILL
    for mib in (30, 60, 90, 120, 180):
        done = subprocess.run(
            [sys.executable, "-m", "taupy", "trials", "--db", str(runs.database)],
            cwd=runs.folder,
            env=runs.environ(),
            capture_output=True,
            text=True,
            preexec_fn=lambda bytes=mib << 20: resource.setrlimit(
                resource.RLIMIT_AS, (bytes, bytes)
            ),
        )
        assert "lost" not in done.stderr.replace("nothing was lost", "")
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.calls()["mark"] == 2000
