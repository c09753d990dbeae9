"""What looks at lines are counted in (`_native/line_looks.c`), and how its files are read."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from taupy.state import lines, watch_files
from taupy.state.folder import open_run
from taupy.state.lines import ADDED_UP, NO_CODE, Code, Head, Row

NATIVE = Path(__file__).parents[3] / "taupy" / "_native"
PROGRAM = """
#include "line_looks.c"
#include <fcntl.h>
#include <stdio.h>

int64_t clock_true_ns(clockid_t id) { return id; }

static uint32_t numbers[4]; /* of the threads that have these four places of memory */

static int is_gone(void *unused, int64_t pid, uint64_t ticks, uint32_t thread, const void *of)
{
    (void)unused, (void)pid, (void)ticks;
    return of != NULL && *(const uint32_t *)of != thread;
}

int main(int count, char **arguments)
{
    Looks *looks = line_looks_new((OwnFiles){0}, is_gone, NULL);
    line_looks_write_to(looks, open(arguments[1], O_WRONLY), open(arguments[2], O_WRONLY));
    for (uint32_t i = 0; i < 40000; i++) {
        numbers[i % 4] = i; /* the earlier one has ended */
        LookedThread looked = {.of = &numbers[i % 4]};
        Row key = {.pid = 5 + (i & 1), .ticks = 0xab, .thread = i, .state = WAIT,
                   .inner_at = (int32_t)(2 * (i % 8)), .own = NO_CODE};
        note(looks, &looked, &key, 10);
    }
    line_looks_spent(looks, 0, 77);
    char text[16];
    size_t size = 0;
    const uint32_t points[] = {'a', 0xe9, 0x65e5, 0x1f600, 0xd800};
    for (int i = 0; i < 5; i++)
        size += utf8_put(text + size, points[i]);
    fwrite(text, 1, size, stdout);
    line_looks_free(looks);
    return count != 3;
}
"""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    return path


def test_rows_of_threads_that_have_ended_are_added_up_when_there_is_no_room(folder, tmp_path):
    """40,000 threads one after another in four places of memory; 16,383 rows have room."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "x.c").write_text(PROGRAM)
    include = sysconfig.get_paths()["include"]
    sources = ["x.c", *(NATIVE / name for name in ("activity.c", "remote.c", "own_files.c"))]
    command = [compiler, "-std=gnu11", f"-I{include}", f"-I{NATIVE}", "-o", "x", *sources]
    subprocess.run(command, cwd=tmp_path, check=True)
    files = [folder / name for name in watch_files.OF_LINES]
    for file in files:
        file.touch()
    done = subprocess.run([tmp_path / "x", *files], check=True, capture_output=True, text=True)
    assert done.stdout == "aé日😀?"
    files[1].write_bytes(Code("p.py", "f", 1, b"").packed())
    head, rows, codes = lines.read(open_run(str(folder)))
    assert (head.looks, head.left_out, head.cpu_ns, head.is_inside) == (40000, 0, 77, False)
    assert len(codes) == 1 and len(rows) < 1 << 14
    of_all = {(row.pid, row.inner): row.looks for row in rows if row.thread == ADDED_UP}
    assert sorted(of_all) == [(5 + at % 2, (0, 2 * at)) for at in (0, 2, 4, 6, 1, 3, 5, 7)]
    assert sum(row.looks for row in rows) == 40000
    assert sum(row.time_ns for row in rows) == 400_000
    assert sum(row.squares for row in rows) == 4_000_000
    assert {(row.state, row.own) for row in rows} == {(lines.WAIT, (NO_CODE, 0))}


def test_the_files_of_all_processes_are_read_together(folder):
    for pid, looks in ((5, 2), (6, 3)):
        head, row = Head(), Row(pid, 9, 0, lines.CPU, (0, 4), (0, 4) if pid == 5 else (NO_CODE, 0))
        head.looks = row.looks = looks
        (folder / f"{pid}-9.lines").write_bytes(head.packed() + row.packed())
        (folder / f"{pid}-9.codes").write_bytes(Code(f"{pid}.py", "f", 1, b"").packed())
    head, rows, codes = lines.read(open_run(str(folder)))
    assert (head.looks, head.is_inside) == (5, True)
    assert [codes[row.inner[0]].file for row in rows] == ["5.py", "6.py"]
    assert [row.own for row in rows] == [(0, 4), (NO_CODE, 0)]
