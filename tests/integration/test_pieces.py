"""`taupy.profile`, and the magics of IPython: pieces of a program that runs already."""

from __future__ import annotations

import pytest

CALLS = """
import threading
import taupy

def inner(value):
    return value + 1

def work(count):
    return sum(inner(value) for value in range(count))

def fail():
    work(7)
    raise ValueError("of the program")
"""


def calls_of_inner(runs) -> dict[str, int]:
    """Trial -> calls of `inner` in all of its threads and processes."""
    return dict(
        runs.sql(
            "SELECT application.name || '/' || trial.name, sum(timer_call.calls) FROM timer_call"
            " JOIN timer ON timer.id = timer_id JOIN trial ON trial.id = trial_id"
            " JOIN experiment ON experiment.id = experiment_id"
            " JOIN application ON application.id = application_id"
            " WHERE timer.short_name = 'inner' GROUP BY trial.id"
        )
    )


def test_each_piece_is_a_trial_with_its_own_calls(runs, native):
    ended = runs.plain(
        CALLS
        + """
work(1000)
with taupy.profile() as first:
    work(200)
    thread = threading.Thread(target=work, args=(30,))
    thread.start()
    thread.join()
work(1000)
try:
    with taupy.profile(app="failing") as second:
        fail()
except ValueError as problem:
    print("as it is:", problem)
print(first.trial, second.trial, taupy.last())
print(first)
"""
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    said, trials, *screen = ended.stdout.splitlines()
    assert said == "as it is: of the program"
    assert (
        trials == "<trial 1 prog/default/1> <trial 2 failing/default/1> <trial 2 failing/default/1>"
    )
    assert " prog.py " in screen[0], screen
    assert any("def work(count):" in line for line in screen), screen
    assert any("not measured: threads that ran before it" in line for line in screen), screen
    assert calls_of_inner(runs) == {"prog/1": 230, "failing/1": 7}
    codes = runs.sql("SELECT exit_code, state FROM trial ORDER BY id")
    assert codes == [(0, "complete"), (1, "complete")]
    assert runs.is_stored()


def test_a_thread_that_runs_from_piece_to_piece_is_in_each(runs, native):
    """As those of a kernel: what they kept of one piece may not be used in the next."""
    ended = runs.plain(
        CALLS
        + """
import _thread
begin, ended = _thread.allocate_lock(), _thread.allocate_lock()
begin.acquire(), ended.acquire()
jobs, trials = [], []

def serve():
    while True:
        begin.acquire()
        if not jobs:
            return
        jobs.pop()()
        ended.release()

threading.Thread(target=serve).start()
for job in (lambda: work(3), lambda: work(4), lambda: inner(5)):
    jobs.append(job)
    with taupy.profile() as piece:
        if trials:
            inner(0)
        begin.release()
        ended.acquire()
    trials.append(piece.trial)
begin.release()
"""
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert calls_of_inner(runs) == {"prog/1": 3, "prog/2": 5, "prog/3": 2}


ENDINGS = {"os._exit(3)": 3, "sys.exit(4)": 4, "os.kill(os.getpid(), 9)": -9}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_piece_in_which_the_process_ends_is_kept(runs, native, ending):
    ended = runs.plain(
        f"import os, sys\n{CALLS}\nwith taupy.profile():\n    work(9)\n    {ending}\n"
    )
    assert (ended.returncode, ended.stderr) == (ENDINGS[ending], "")
    runs.taupy("trials")  # what was killed has waited for it
    assert calls_of_inner(runs) == {"prog/1": 9}


def test_a_forked_child_that_leaves_the_piece_stores_nothing_itself(runs, native):
    ended = runs.plain(
        "import os\n"
        + CALLS
        + """
with taupy.profile() as piece:
    work(5)
    child = os.fork()
    work(3 if child else 2)
if child:
    os.waitpid(child, 0)
    print(piece.trial)
else:
    os._exit(0 if piece.trial is None else 1)
"""
    )
    assert ended.returncode == 0, ended.stderr
    assert "taupy: " not in ended.stderr  # since 3.12, Python may warn of threads, such as NumPy's
    runs.taupy("trials")  # the child may have ended later
    assert calls_of_inner(runs) == {"prog/1": 10}


def test_in_a_program_that_is_measured_a_piece_says_so_and_is_part_of_it(runs, native):
    ended = runs.run(CALLS + "with taupy.profile() as piece:\n    work(9)\nprint(piece.trial)\n")
    assert (ended.returncode, ended.stdout) == (0, "None\n")
    assert "not measured: this process is being measured already" in ended.stderr
    assert calls_of_inner(runs) == {"prog/1": 9}
    heavy = "SELECT count(*) FROM trial_timer WHERE path LIKE '%/taupy/report/%'"
    assert runs.sql(heavy) == [(0,)]


def test_a_piece_that_cannot_be_stored_runs_and_says_so(runs, native):
    ended = runs.plain(
        CALLS + "with taupy.profile('/dev/full/none.db') as piece:\n    print(work(3))\n"
    )
    assert (ended.returncode, ended.stdout) == (0, "6\n")
    assert ended.stderr.startswith("taupy: ") and "Traceback" not in ended.stderr


SHELL = (
    """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
def cell(text):
    done = shell.run_cell(text)
    print("->", repr(done.result), repr(done.error_in_exec))
shell.run_line_magic("load_ext", "taupy")
"""
    f"shell.run_cell({CALLS!r})\n"
)


def test_magics_measure_cells_and_statements(runs, native):
    pytest.importorskip("IPython")
    ended = runs.plain(
        SHELL
        + """
cell("%taupy work(5)")
cell("%%taupy --app cells -o page.html\\nfound = work(6)\\nfound + 1")
cell("%%taupy --app cells\\nfail()")
cell("%%taupy\\nawait work(1)")
cell("%%taupy beside\\nwork(1)")
cell("print(found, taupy.last())")
import taupy
print(taupy.last()._repr_html_())
"""
    )
    assert ended.returncode == 0, ended.stderr
    results = [line for line in ended.stdout.splitlines() if line.startswith("->")]
    assert results[:3] == [
        "-> 15 None",
        "-> 22 None",
        "-> None ValueError('of the program')",
    ]
    assert "await" in results[3] and "stands below %%taupy" in results[4]
    assert "21 <trial 3 cells/default/2>" in ended.stdout
    page = ended.stdout[ended.stdout.index("<div") :]
    assert "exit 1" in page
    assert "<code>" in page and ">cell " in page
    assert "<script" not in page
    assert "<html" in (runs.folder / "page.html").read_text()
    assert calls_of_inner(runs) == {"prog/1": 5, "cells/1": 6, "cells/2": 7}
    cells = runs.sql(
        "SELECT calls FROM timer_call JOIN timer ON timer.id = timer_id"
        " WHERE short_name = '<module>' AND file LIKE 'cell %'"
    )
    assert cells == [(1,)] * 3
