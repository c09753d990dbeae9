"""A clock that a preloaded library gives the program, as libfaketime does, is not the engine's."""

import shutil
import subprocess

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
