"""A clock that a preloaded library gives the program, as libfaketime does, is not the engine's."""

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from taupy.state.pauses import pauses

_CLOCK = """\
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now)
{
    (void)id;
    now->tv_sec = 1000;
    now->tv_nsec = 0;
    return 0;
}
"""
_ANOTHER = """\
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now)
{
    static int calls;
    long took = syscall(SYS_clock_gettime, id, now);
    calls++;
    CHANGE;
    return (int)took;
}
"""
_CHANGES = {
    "jumps back": "if (calls > 8 && now->tv_sec > 500) now->tv_sec -= 500",
    "runs fast": "now->tv_sec *= 2",
}
_PROGRAM = "def mark(): pass\nfor _ in range(100_000): mark()\n"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_clock_that_stands_still_neither_stops_the_program_nor_its_times(runs, native):
    (runs.folder / "clock.c").write_text(_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"], cwd=runs.folder)
    runs.environment["LD_PRELOAD"] = str(runs.folder / "clock.so")
    done = runs.run(_PROGRAM)
    assert done.returncode == 0, done.stderr
    assert runs.calls()["mark"] == 100_000
    assert runs.one("SELECT max(inclusive) FROM timer_value") > 1_000_000
    assert "programs read another clock than the machine's" in done.stderr
    assert _ends(runs), "the watch goes on"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("how", _CHANGES)
def test_a_clock_that_jumps_or_runs_fast_is_named(runs, native, how):
    (runs.folder / "clock.c").write_text(_ANOTHER.replace("CHANGE", _CHANGES[how]))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "clock.so", "clock.c"], cwd=runs.folder)
    runs.environment["LD_PRELOAD"] = str(runs.folder / "clock.so")
    done = runs.run(_PROGRAM)
    assert done.returncode == 0, done.stderr
    assert runs.calls()["mark"] == 100_000
    assert 1_000_000 < runs.one("SELECT max(inclusive) FROM timer_value") < 100_000_000_000
    assert "programs read another clock" in runs.metadata("taupy.health.clock")
    assert _ends(runs), "the watch goes on"


def test_waiting_asks_no_clock(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 1.0)
    assert len([*pauses(0.03, 0.01)]) == 3
    assert len([*pauses(0, 0.01)]) == 1


def _ends(runs):
    """Whether no process that names this folder is left, after some time."""
    for _ in range(200):
        if not [own for own in _command_lines() if str(runs.folder).encode() in own]:
            return True
        time.sleep(0.1)
    return False


def _command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()
