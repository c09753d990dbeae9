"""Programs that give up rights end as without taupy, start nothing, and are stored from outside."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the filters here are of x86-64's system calls"
)

FORKS = (56, 57, 58, 59, 322, 435)  # clone, fork, vfork, execve, execveat, clone3
OPENS = (2, 85, 257, 437)  # open, creat, openat, openat2
FEW = (0, 1, 9, 12, 15, 28, 60, 202, 231)
"""read, write, mmap, brk, sigreturn, madvise (Python 3.15), exit, futex, exit_group"""

FILTER = """
import ctypes, os, struct
def f(): pass
f()
numbers, is_allowed, kills, how = {numbers}, {is_allowed}, {kills}, {how!r}
ALLOW, REFUSE = 0x7fff0000, 0x80000000 if kills else 0x50000 | 1
on_match, otherwise = (ALLOW, REFUSE) if is_allowed else (REFUSE, ALLOW)
code = [(0x20, 0, 0, 0)]
code += [(0x15, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
code += [(6, 0, 0, otherwise), (6, 0, 0, on_match)]
packed = b"".join(struct.pack("HBBI", *line) for line in code)
buffer = ctypes.create_string_buffer(packed)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
zero, number = ctypes.c_ulong(0), ctypes.c_ulong
assert libc.prctl(38, number(1), zero, zero, zero) == 0
if how == "prctl":
    done = libc.prctl(22, number(2), ctypes.byref(program), zero, zero)
else:
    done = libc.syscall(317, number(1), number(0), ctypes.byref(program))
f(); f()
exec("\\n".join(f"def g{{n}}(): pass\\ng{{n}}()" for n in range({routines})))
os.write(1, b"confined %d\\n" % done)
{end}
"""


def plain(runs, source):
    if "TAUPY_SANITIZED" in os.environ:
        pytest.skip("a sanitizer makes system calls of its own, which the filter forbids")
    (runs.folder / "prog.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "prog.py"], cwd=runs.folder, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout, done.stderr


def stored(runs):
    """The calls in the trial, which the watch stores soon, or else the next command."""
    until = time.monotonic() + 60
    while not runs.is_stored() and time.monotonic() < until:
        time.sleep(0.1)
    if not runs.is_stored():
        runs.taupy("trials", "--db", str(runs.database))
    assert runs.is_stored()
    return dict(
        runs.sql(
            "SELECT timer.short_name, sum(timer_call.calls) FROM timer_call"
            " JOIN timer ON timer.id = timer_call.timer_id GROUP BY timer.short_name"
        )
    )


WAYS = [  # what is forbidden, how the filter is installed, how the program ends
    pytest.param(FORKS, False, "prctl", "", id="no fork"),
    pytest.param(OPENS, False, "syscall", "os._exit(3)", id="no open"),
    pytest.param(FEW, True, "prctl", "os._exit(3)", id="hardly any"),
    pytest.param(FEW, True, "syscall", "", id="hardly any, until Python's own end"),
]


@pytest.mark.parametrize("lines", ["--lines", "--lines=inside"])
@pytest.mark.parametrize("kills", [False, True], ids=["EPERM", "kill"])
@pytest.mark.parametrize(("numbers", "is_allowed", "how", "end"), WAYS)
def test_a_filter_changes_nothing_and_loses_nothing(
    runs, native, numbers, is_allowed, kills, end, how, lines
):
    source = FILTER.format(
        numbers=numbers, is_allowed=is_allowed, kills=kills, how=how, routines=200, end=end
    )
    expected = plain(runs, source)
    assert "confined 0" in expected[1]
    done = runs.run(source, "--quiet", "--cpu-time", lines)
    assert (done.returncode, done.stdout) == expected[:2]
    # Python 3.15 itself cannot end where munmap fails, and says at which address.
    assert done.stderr.partition("munmap(")[0] == expected[2].partition("munmap(")[0]
    calls = stored(runs)
    assert calls["f"] == 3 and calls["g199"] == 1
    assert runs.metadata("taupy.health.callpaths") is None


LIBRARY = """
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
int confine(struct sock_fprog *program)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}
"""


def test_a_library_that_installs_the_filter_is_noticed(runs, native):
    """As libseccomp does, or an extension module."""
    (runs.folder / "confine.c").write_text(LIBRARY)
    command = ["cc", "-shared", "-fPIC", "-o", "confine.so", "confine.c"]
    if (
        shutil.which("cc") is None
        or subprocess.run(command, cwd=runs.folder, check=False).returncode
    ):
        pytest.skip("no C compiler with the kernel's headers")
    source = FILTER.format(
        numbers=FEW, is_allowed=True, kills=True, how="prctl", routines=200, end="os._exit(0)"
    )
    at, end = source.index("assert libc.prctl(38"), source.index("f(); f()")
    call = "done = ctypes.CDLL('./confine.so').confine(ctypes.byref(program))\n"
    source = source[:at] + call + source[end:]
    assert plain(runs, source) == (0, "confined 0\n", "")
    done = runs.run(source)
    assert (done.returncode, done.stdout, done.stderr) == (0, "confined 0\n", "")
    assert stored(runs)["g199"] == 1


def test_without_a_watch_the_next_command_stores_it(runs, native):
    source = FILTER.format(
        numbers=FORKS, is_allowed=False, kills=True, how="prctl", routines=1, end=""
    )
    done = runs.run(source, "--no-watch")
    assert (done.returncode, done.stdout) == (0, "confined 0\n")
    assert "recovered" in runs.taupy("trials", "--db", str(runs.database)).stderr
    assert runs.calls()["f"] == 3
    assert "seccomp" in runs.metadata("taupy.health.left")


def test_prctl_and_syscall_for_other_purposes_are_no_filter(runs, native):
    source = """
import ctypes
libc = ctypes.CDLL(None)
name = ctypes.create_string_buffer(b"mine")
assert libc.prctl(15, name) == 0 and libc.syscall(39) > 0
"""
    done = runs.run(source)
    assert "trial 1" in done.stderr, done.stderr
    assert runs.metadata("taupy.health.left") is None


STRICT = """
import ctypes
def f(): pass
f()
libc = ctypes.CDLL(None)
one = ctypes.c_ulong(1)
libc.{call}
libc.syscall(60, 0)
"""


@pytest.mark.parametrize("call", ["prctl(22, one)", "prctl(26, 2)", "syscall(317, 0, 0, None)"])
def test_a_program_that_may_no_longer_read_the_clock_is_counted_until_then(runs, native, call):
    """Strict seccomp takes the processor's clock away, too, as PR_SET_TSC does by itself."""
    done = runs.run(STRICT.format(call=call), "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stored(runs)["f"] == 1
    assert "reading clocks" in runs.metadata("taupy.health.left")
    assert runs.one("SELECT state FROM trial") == "incomplete"


def test_threads_may_install_filters_at_once(runs, native):
    source = FILTER.format(
        numbers=FORKS[-2:-1], is_allowed=False, kills=True, how="prctl", routines=1, end=""
    )
    prepares, rest = source.split("assert libc.prctl(38")
    installs = "assert libc.prctl(38" + rest.split("f(); f()")[0] + "f()"
    source = f"""
import threading
{prepares}
install = compile({installs!r}, "install", "exec")
def confine():
    for _ in range(20):
        exec(install, dict(globals()))
threads = [threading.Thread(target=confine) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    done = runs.run(source, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stored(runs)["f"] == 1 + 4 * 20


def test_a_filter_that_was_refused_changes_nothing(runs, native):
    """As programs ask whether the kernel has filters, or without the right to install one."""
    source = """
import ctypes
def f(): pass
libc = ctypes.CDLL(None)
wrong = ctypes.create_string_buffer(16)  # of no instructions
assert libc.prctl(22, 2, None) == libc.syscall(317, 1, 0, None) == -1
assert libc.prctl(22, 2, wrong) == libc.syscall(317, 1, 0, wrong) == -1
for _ in range(3):
    f()
def work(): sum(i * i for i in range(100_000))
work()
"""
    done = runs.run(source, "--cpu-time")
    assert done.returncode == 0 and "trial 1" in done.stderr, done.stderr
    assert runs.calls()["f"] == 3
    assert runs.metadata("taupy.health.left") is None
    used = """
        SELECT inclusive FROM timer_value AS value JOIN metric ON metric.id = value.metric_id
          JOIN timer ON timer.id = value.timer_id
         WHERE metric.name = 'cpu_time' AND timer.short_name = 'work'
    """
    assert runs.one(used) > 0


CHANGES = {
    "root": "os.chroot({jail!r}); os.chdir('/')",
    "user": "os.setuid(65533)",
    "groups": "os.setgroups([65531])",
    "capabilities": "import ctypes; ctypes.CDLL(None).prctl(24, 12, 0, 0, 0);"
    "import struct; head = struct.pack('II', 0x20080522, 0);"
    "ctypes.CDLL(None).capset(head, struct.pack('IIIIII', 0, 0, 0, 0, 0, 0))",
}


@pytest.mark.parametrize("how", CHANGES)
def test_what_has_changed_its_rights_starts_nothing(runs, native, how):
    """The jail has a program at the storer's path: it is not run, with whatever rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can change its root folder, user and groups")
    jail = runs.folder / "jail"
    mark = jail / "mark"
    program = jail / sys.executable.lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\ntouch /mark\n")
    program.chmod(0o755)
    (jail / str(runs.folder).lstrip("/") / "state").mkdir(parents=True)
    source = f"import os\ndef f(): pass\nf()\n{CHANGES[how].format(jail=str(jail))}\nf()\n"
    before = sorted(jail.rglob("*"))
    done = runs.run(source)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stored(runs)["f"] == 2
    assert sorted(jail.rglob("*")) == before and not mark.exists()
    words = {"root": "root folder", "user": "its user"}.get(how, how)
    assert words in runs.metadata("taupy.health.left")
    assert runs.one("SELECT state FROM trial") == "complete"
