"""A clock that a preloaded library gives the program, as libfaketime does, is not the engine's."""

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest

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
    assert _ends(runs), "the watch goes on"


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
