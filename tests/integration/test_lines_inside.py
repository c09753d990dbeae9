"""Lines by a thread in the program (`--lines=inside`): where the watch may not read it, and what is
noticed of the thread. The tests of lines themselves (`test_lines.py`) are run with both."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tests.attacks.test_confined import FEW, FILTER
from tests.integration.test_lines import fact, rows

pytest.importorskip("taupy._native.remote", reason="needs the compiled core")

INSIDE = "--lines=inside"
SPINNING = """
import time
def work(seconds):
    end = time.time() + seconds
    while time.time() < end:
        sum(range(3000))
"""
OF_WORK = "SELECT sum(looks) FROM line JOIN timer ON timer.id = timer_id WHERE short_name = 'work'"


def test_there_are_lines_without_a_watch(runs):
    done = runs.run(SPINNING + "work(1)\n", INSIDE, "--no-watch")
    assert done.returncode == 0 and "--lines=inside: a native thread in the program" in done.stderr
    assert rows(runs, OF_WORK)[0][0]
    assert "of the program's own CPU time, by a thread in it" in fact(runs)


FORBIDS = """
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 310), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)]
buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
zero, number = ctypes.c_ulong(0), ctypes.c_ulong
assert libc.prctl(38, number(1), zero, zero, zero) == 0
assert libc.prctl(22, number(2), ctypes.byref(program), zero, zero) == 0
os.execv(sys.executable, [sys.executable, "-m", "taupy", *sys.argv[1:]])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is of x86-64's system calls")
@pytest.mark.parametrize("option", ["--lines", INSIDE])
def test_where_nobody_may_read_one_line_says_what_to_do(runs, option):
    """As in a container whose filter forbids process_vm_readv."""
    (runs.folder / "prog.py").write_text(SPINNING + "work(1)\n")
    command = ["run", "--db", str(runs.database), option, "prog.py"]
    done = subprocess.run(
        [sys.executable, "-c", FORBIDS, *command], cwd=runs.folder, env=runs.environ(), check=False
    )
    assert done.returncode == 0 and rows(runs, "SELECT count(*) FROM line") == [(0,)]
    if option == INSIDE:
        assert fact(runs).startswith("none: a filter (seccomp) forbids the program to read")
    else:
        assert fact(runs).startswith("none: the watch may not read the program's memory: ")
        assert fact(runs).endswith("; or --lines=inside, with a thread in the program")


def test_without_a_watch_the_trial_names_it(runs):
    runs.run(SPINNING + "work(0.1)\n", "--no-watch")
    assert "--lines=inside has them" in fact(runs)


NOTICES = """
import threading
free = os.open("/dev/null", os.O_RDONLY)
os.close(free)
kept = set(os.listdir("/proc/self/fd"))
end = time.time() + 0.8
while time.time() < end:
    taken = os.open("/dev/null", os.O_RDONLY)
    assert taken == free
    os.close(taken)
    assert set(os.listdir("/proc/self/fd")) == kept
assert threading.active_count() == len(threading.enumerate()) == 1
assert len(os.listdir("/proc/self/task")) == {threads}
read, write = os.pipe()
if os.fork() == 0:
    os._exit(0)
os.wait()
work(0.3)
os.close(write)
assert os.read(read, 1) == b""
print(signal.sigpending(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_the_program_notices_one_more_thread_in_proc_and_no_descriptor(runs, threads):
    source = "import os, signal\n" + SPINNING + NOTICES.format(threads=threads)
    done = runs.plain(source) if threads == 1 else runs.run(source, INSIDE, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "set() set()\n", "")


FORKS = """
import os, warnings
warnings.simplefilter("error")
work(0.3)
for fork in (os.fork, lambda: os.forkpty()[0]) * 5:
    if (child := fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
subprocess.run(["true"], preexec_fn=lambda: None, check=True)
if (child := os.fork()) == 0:
    work(0.6)
    os._exit(7)
work(0.4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_python_does_not_warn_of_a_thread_when_the_program_forks(runs):
    done = runs.run("import subprocess\n" + SPINNING + FORKS, INSIDE, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
    of_nodes = "SELECT count(DISTINCT thread.node) FROM line JOIN thread ON thread.id = thread_id"
    assert rows(runs, of_nodes) == [(2,)]


ENDS = {
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", -15),
    "_exit": ("os._exit(3)", 3),
    "exit with a lock held": ("lock = threading.Lock(); lock.acquire(); sys.exit(4)", 4),
    "daemon threads": (
        "[threading.Thread(target=work, args=(60,), daemon=True).start() for _ in range(5)]\n"
        "work(0.3); sys.exit(5)",
        5,
    ),
    "failed exec": (
        "try: os.execv('/nowhere', ['x'])\nexcept OSError: work(0.4); sys.exit(6)",
        6,
    ),
    "exec": ("os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(7)'])", 7),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_program_ends_as_before(runs, name):
    end, code = ENDS[name]
    imports = "import os, signal, sys, threading\n"
    done = runs.run(imports + SPINNING + "work(0.6)\n" + end + "\n", INSIDE, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
    assert rows(runs, OF_WORK)[0][0], fact(runs)


SPINS = "end = time.time() + 0.3\nwhile time.time() < end: pass\n"  # without a system call


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is of x86-64's system calls")
@pytest.mark.skipif("TAUPY_SANITIZED" in os.environ, reason="sanitizers make calls of their own")
def test_the_thread_ends_before_a_filter_that_would_kill_it(runs):
    """The filter is for all threads (TSYNC)."""
    source = FILTER.format(
        numbers=FEW,
        is_allowed=True,
        kills=True,
        how="seccomp",
        routines=1,
        end=SPINS + "os._exit(3)",
    ).replace("syscall(317, number(1), number(0)", "syscall(317, number(1), number(1)")
    done = runs.run(SPINNING + "work(0.6)\n" + source, INSIDE, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (3, "confined 0\n", "")


def test_the_loss_of_the_part_does_not_end_the_program(runs):
    """The thread reads the part, of which the file system may lose the file."""
    loses = (
        "import glob, os\n"
        "part, = glob.glob(os.environ['TAUPY_STATE_DIR'] + f'/run-*/{os.getpid()}-*.part')\n"
        "os.truncate(part, 0)\n"
    )
    done = runs.run(SPINNING + "work(0.5)\n" + loses + "work(0.5)\nprint('on')\n", INSIDE, "-q")
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr


MANY_ROWS = """
import threading
def once():
    end = time.time() + 0.002
    while time.time() < end: sum(range(300))
end = time.time() + 2
while time.time() < end:
    thread = threading.Thread(target=once)
    thread.start(); thread.join()
"""


def test_threads_that_come_and_go_are_added_up(runs):
    done = runs.run(SPINNING + MANY_ROWS, INSIDE, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(runs, OF_WORK.replace("'work'", "'once'"))[0][0], fact(runs)
