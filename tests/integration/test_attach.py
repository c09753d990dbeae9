"""`taupy attach` and `taupy dump` look at programs that taupy did not start."""

from __future__ import annotations

import csv
import ctypes
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import taupy
from taupy.commands.attach import Watch
from taupy.formats.attached import Looks
from taupy.model.masking import Masking
from taupy.profiledb.database import ProfileDB
from taupy.report import contents, front
from taupy.report.report import report
from taupy.state.lines import CPU
from taupy.study import versus
from taupy.watch import foreign
from taupy.watch.foreign import Frame
from tests.preloads import built

pytest.importorskip("taupy._native.engine", reason="the compiled core is not built")

PROGRAM = """
import threading, time
from pathlib import Path

def inner(count):
    return sum(value * value for value in range(count))

def busy():
    asleep.wait()
    Path("begun").touch()
    while True:
        inner(2000)

def waits():
    asleep.set()
    while True:  # never to ask for the GIL, for which the other one would wait
        time.sleep(600)

asleep = threading.Event()
threading.Thread(target=waits, daemon=True).start()
busy()
"""


@contextmanager
def running(runs, source: str, begun: str = "begun", **environment: str):
    """A program under plain Python that has begun: it has made a file of this name."""
    (runs.folder / "prog.py").write_text(source)
    program = subprocess.Popen(
        [sys.executable, "prog.py"], cwd=runs.folder, env=runs.environ() | environment
    )
    try:
        _wait_for(runs.folder / begun, program)
        yield program
    finally:
        program.kill()
        program.wait()


def test_a_dump_names_routines_and_lines_of_all_threads(runs):
    with running(runs, PROGRAM) as program:
        shown = runs.taupy("dump", str(program.pid))
        assert program.poll() is None
    assert shown.returncode == 0, shown.stderr
    said = shown.stdout
    assert f"process {program.pid}" in said
    assert f"thread {program.pid} MainThread: " in said
    assert (
        "busy (" in said
        and f"prog.py:{PROGRAM.splitlines().index('        inner(2000)') + 1})" in said
    )
    assert "waits (" in said


def test_what_attach_sees_is_a_sampled_trial(runs):
    with running(runs, PROGRAM) as program:
        attached = runs.taupy("attach", str(program.pid), "--for", "2s")
        assert program.poll() is None
    assert attached.returncode == 0, attached.stderr
    assert "next: taupy report 1" in attached.stderr
    ((source, code, calls),) = runs.sql(
        "SELECT source, exit_code, (SELECT sum(calls) FROM timer_call) FROM trial"
    )
    assert source.startswith(f"attach {program.pid}: ") and (code, calls) == (None, 0)
    screen = runs.taupy("report").stdout
    main = screen[: screen.index("Other threads")]
    assert "inner" in main and not re.search(r"prog\.py:1[345]\b", main)  # the lines of `waits`
    assert "sampled from outside" in screen
    lines = runs.taupy("lines", "--csv").stdout
    assert "prog.py,6" in lines and "value * value" in lines, lines
    for command in (["report"], ["pprof"], ["places"], ["lines"], ["compare", "1", "1"]):
        shown = runs.taupy(*command).stdout
        rows = [row for row in shown.splitlines() if re.search(r"inner|value \* value", row)]
        assert rows and all("~" in row for row in rows if re.search(r"\d m?s|\d,\d", row)), shown
    flat = runs.taupy("pprof", "--csv").stdout
    ((calls, subroutines),) = {
        (row["calls"], row["subroutines"]) for row in csv.DictReader(flat.splitlines())
    }
    assert calls == subroutines == ""
    for form in ("csv", "csv-callpaths"):
        assert runs.taupy("export", "--format", form, "-o", f"{form}.csv").returncode == 0
        exported = csv.DictReader((runs.folder / f"{form}.csv").read_text().splitlines())
        assert {(row["calls"], row["subroutines"]) for row in exported} == {("", "")}
    files = {file for (file,) in runs.sql("SELECT DISTINCT file FROM timer")}
    assert "threading.py" in files and not any(file.endswith("/threading.py") for file in files)
    with ProfileDB.open(runs.database) as db:
        page = front.overview(db, report(db, db.latest()), 0)
        assert contents.of_trial(db, db.latest()).is_sampled
        assert versus.of_sides(db, "1", "1")[0].is_sampled
    for place in page["groups"][0]["places"]:
        assert all("~" in part for part in place["about"] if re.search(r"\d m?s", part)), place
    rows = json.loads(runs.taupy("report", "--json").stdout)["places"]
    asleep = {
        row["routine"]: (row["asleep_ns"] or 0) / row["time_ns"]
        for row in rows
        if row["kind"] == "own"
    }
    # On a busy machine `inner` waits for the GIL, which `waits` has taken without a processor.
    assert asleep["waits"] > asleep["inner"], asleep
    cell = taupy.open(runs.database).trial(1)._repr_html_()
    times = re.findall(r">([^<>]*?\d (?:m?s|%))</td>", cell)
    assert times and all("~" in shown for shown in times), cell
    facts = dict(runs.sql("SELECT name, value FROM metadata WHERE node IS NULL"))
    assert facts["Hostname"] == os.uname().nodename and "Python Version" not in facts


@pytest.mark.parametrize("command", ["attach", "dump"])
def test_without_the_compiled_core_other_processes_cannot_be_read(runs, command):
    main = (
        "import sys; sys.modules['taupy._native.engine'] = None\n"
        "from taupy import commands; sys.exit(commands.main())"
    )
    words = [command, str(os.getpid()), *(["--db", "looks.db"] if command == "attach" else [])]
    refused = runs.plain(main, *words)
    assert refused.returncode == 1
    assert "compiled core, which reads other processes, is missing" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_process_that_cannot_be_read_gets_one_line(runs):
    sleeping = subprocess.Popen(["sleep", "600"])
    try:
        for pid, why in ((sleeping.pid, "is no Python"), (0x3FFFFFFF, "there is no process")):
            for command in ("attach", "dump"):
                refused = runs.taupy(command, str(pid))
                assert refused.returncode != 0
                assert why in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    finally:
        sleeping.kill()
        sleeping.wait()
    assert not runs.database.exists()
    assert "1 to 1000" in runs.taupy("attach", "1", "--rate", "0").stderr


BEFORE_PYTHON = """
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void wait_for_go(void)
{
    fclose(fopen("mapped", "w"));
    while (access("go", F_OK) != 0)
        usleep(1000);
}
"""


@pytest.fixture
def before_python(runs):
    """A process just after exec, whose Python begins when there is a file `go`."""
    (runs.folder / "before.c").write_text(BEFORE_PYTHON)
    if (library := built(runs.folder / "before.c", runs.folder)) is None:
        pytest.skip("no C compiler here")
    with running(runs, PROGRAM, "mapped", LD_PRELOAD=str(library)) as program:
        yield program


def _wait_for(file, program):
    while not file.exists():
        assert program.poll() is None
        time.sleep(0.02)


def test_a_process_whose_python_does_not_begin_gets_one_line(runs, before_python):
    for command in ("dump", "attach", "top"):
        refused = runs.taupy(command, str(before_python.pid))
        assert refused.returncode != 0
        assert refused.stderr == (
            f"taupy: process {before_python.pid} cannot be read: it is about to run a program "
            "(exec), or to end\n"
        )


def test_a_python_that_is_about_to_begin_is_waited_for(runs, before_python, monkeypatch):
    def begins(_):
        (runs.folder / "go").touch()
        _wait_for(runs.folder / "begun", before_python)

    monkeypatch.setattr(foreign, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=begins))
    opened = len(os.listdir("/proc/self/fd"))
    interpreter = foreign.interpreter_of(before_python.pid)
    assert before_python.pid in interpreter.threads()
    interpreter.close()
    assert len(os.listdir("/proc/self/fd")) == opened


@pytest.mark.slow
def test_children_are_looked_at_and_an_end_is_no_error(runs):
    source = """
import multiprocessing, time
from pathlib import Path

def below():
    end = time.monotonic() + 4
    while time.monotonic() < end:
        sum(range(1000))

if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=below)
    worker.start()
    Path("begun").touch()
    worker.join()
"""
    with running(runs, source) as program:
        attached = runs.taupy("attach", str(program.pid))
    assert attached.returncode == 0, attached.stderr
    rows = runs.sql(
        "SELECT DISTINCT thread.node FROM timer_call JOIN thread ON thread.id = thread_id"
        " JOIN timer ON timer.id = timer_id WHERE timer.short_name = 'below'"
    )
    assert rows == [(1,)]


def attaching(runs, pid: int, *options: str, command: str = "attach", **more) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "taupy", command, str(pid), *options],
        cwd=runs.folder, env=runs.environ(), stderr=subprocess.PIPE, text=True, **more,
    )  # fmt: skip


def opened(pid: int) -> set[str]:
    """The files that a process has open."""
    names = set()
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):
            names.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return names


def wait_for_looks(looking: subprocess.Popen) -> None:
    """Each look at a thread reads two files in /proc or three, to find a Python takes few reads."""

    def reads() -> int:
        return int(re.search(r"syscr: (\d+)", Path(f"/proc/{looking.pid}/io").read_text())[1])

    until = reads() + 200
    while reads() < until:
        assert looking.poll() is None
        time.sleep(0.02)


@contextmanager
def looks_at(runs, pid: int, *options: str):
    """`taupy attach`, which has looked at a process and goes on."""
    looking = attaching(runs, pid, *options)
    while f"/proc/{pid}/mem" not in opened(looking.pid):
        assert looking.poll() is None
        time.sleep(0.02)
    wait_for_looks(looking)
    yield looking
    said = looking.communicate(timeout=120)[1]
    assert looking.returncode == 0 and "trial 1" in said, said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_attach_stores_what_it_has_seen_when_it_is_told_to_end(runs, number):
    with running(runs, PROGRAM) as program, looks_at(runs, program.pid) as looking:
        looking.send_signal(number)
    assert runs.sql("SELECT count(*) FROM trial") == [(1,)]


ENDS = """
import os, sys
from pathlib import Path

def works():
    while not Path("works.over").exists():
        sum(range(1000))

Path("begun").touch()
works()
"""


def test_a_program_that_ends_keeps_its_name_and_arguments(runs):
    with running(runs, ENDS) as program, looks_at(runs, program.pid):
        (runs.folder / "works.over").touch()
        program.wait()
    assert runs.sql("SELECT name FROM application") == [("prog",)]
    assert runs.sql("SELECT value FROM metadata WHERE name = 'Command Line'") == [("prog.py",)]


def test_a_program_that_becomes_another_is_followed(runs):
    (runs.folder / "next.py").write_text(ENDS.replace("works", "follows").replace("begun", "again"))
    source = ENDS + "os.execv(sys.executable, [sys.executable, 'next.py'])\n"
    with running(runs, source) as program, looks_at(runs, program.pid) as looking:
        (runs.folder / "works.over").touch()
        _wait_for(runs.folder / "again", program)
        wait_for_looks(looking)
        (runs.folder / "follows.over").touch()
        program.wait()
    seen = {name for (name,) in runs.sql("SELECT short_name FROM timer")}
    assert {"works", "follows"} <= seen


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("import signal\nos.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.execv('/bin/sh', ['sh', '-c', 'sleep 1; exit 3'])", 3),
    ],
    ids=["killed", "no-python"],
)
def test_what_was_seen_of_a_program_stays_however_it_ends(runs, end, code):
    with running(runs, ENDS + end) as program, looks_at(runs, program.pid):
        (runs.folder / "works.over").touch()
        assert program.wait() == code
    assert ("works",) in runs.sql("SELECT short_name FROM timer")
    assert runs.sql("SELECT name FROM application") == [("prog",)]


def test_a_command_line_is_masked_once(runs):
    (runs.folder / "prog.py").write_text(ENDS)
    words = ["--password", "hunter2 or so", "--name", "x y"]
    program = subprocess.Popen([sys.executable, "prog.py", *words], cwd=runs.folder)
    while not (runs.folder / "begun").exists():
        time.sleep(0.02)
    with looks_at(runs, program.pid):
        (runs.folder / "works.over").touch()
        program.wait()
    ((command,),) = runs.sql("SELECT value FROM metadata WHERE name = 'Command Line'")
    assert command.startswith("prog.py --password 'MASKED-") and command.endswith(" --name 'x y'")
    assert "hunter2" not in command and "or so" not in command


def test_top_shows_a_process_that_taupy_did_not_start(runs):
    with running(runs, PROGRAM) as program:
        shown = runs.taupy("top", str(program.pid))
        assert program.poll() is None
        rows = runs.taupy("top", str(program.pid), "--csv").stdout
    assert shown.returncode == 0, shown.stderr
    said = shown.stdout
    assert f"process {program.pid} (prog): the last " in said and "LINES, main thread" in said
    threads, routines, lines = said.split("LINES, main thread")[0].split("\n\n")[0], said, rows
    assert "MainThread" in threads and "prog.py:" in threads
    assert routines.index("inner") and "waits (" in routines
    assert "time.sleep(600)" in lines
    assert "~100" in said


def test_top_of_a_process_is_redrawn_until_ctrl_c(runs):
    with running(runs, PROGRAM) as program:
        mine, theirs = pty.openpty()
        runs.environment["TERM"] = "xterm"
        top = attaching(runs, program.pid, command="top", stdout=theirs, stdin=theirs)
        os.close(theirs)
        drawn = b""
        while drawn.count(b"\x1b[H\x1b[2J") < 2:
            drawn += os.read(mine, 1 << 16)
        top.send_signal(signal.SIGINT)
        os.set_blocking(mine, False)
        assert top.communicate(timeout=60) == (None, "") and top.returncode == 0
        os.close(mine)
        assert program.poll() is None


def test_top_of_no_process_is_one_line(runs):
    refused = runs.taupy("top", str(0x3FFFFFFF))
    assert refused.returncode != 0 and "there is no process" in refused.stderr
    assert refused.stderr.count("\n") == 1


COMES_AND_GOES = """
import threading, time
from pathlib import Path

times = []

def short():
    began = time.perf_counter()
    time.sleep(0.06)
    times.append(time.perf_counter() - began)

Path("begun").touch()
while not Path("go").exists():
    time.sleep(0.02)
for _ in range(60):
    threads = [threading.Thread(target=short) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
Path("truth").write_text(str(sum(times)))
"""


def test_threads_that_come_and_go_have_the_time_that_they_took(runs):
    """Each of them lived for a quarter of the time after which new threads were looked for once:
    one in four was seen, for the rest of its life."""
    with running(runs, COMES_AND_GOES) as program, looks_at(runs, program.pid):
        (runs.folder / "go").touch()
        program.wait()
    truth_s = float((runs.folder / "truth").read_text())
    ((sum_ns,),) = runs.sql(
        "SELECT sum(time_ns) FROM line JOIN timer ON timer.id = timer_id"
        " WHERE timer.short_name = 'short'"
    )
    assert 0.6 < sum_ns / 1e9 / truth_s < 1.4
    ((threads,),) = runs.sql("SELECT count(*) FROM thread")
    (said,) = runs.sql("SELECT value FROM metadata WHERE name = 'taupy.lines'")[0]
    unseen = re.search(r"; (\d+) threads? came and went between two looks", said)
    assert 110 <= threads + (int(unseen[1]) if unseen else 0) <= 121, said


def test_processes_in_a_pid_namespace_of_their_own_are_looked_at(runs):
    """Their threads have other ids there: none was found, which was said to be no Python."""
    (runs.folder / "prog.py").write_text(PROGRAM)
    outer = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "prog.py"],
        cwd=runs.folder, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not (runs.folder / "begun").exists():
            if outer.poll() is not None:
                pytest.skip("no PID namespace may be made here")
            time.sleep(0.02)
        with open(f"/proc/{outer.pid}/task/{outer.pid}/children") as children:
            (pid,) = children.read().split()
        stacks = runs.taupy("dump", pid).stdout
        assert f"thread {pid} MainThread" in stacks and "prog.py:" in stacks
        assert runs.taupy("attach", pid, "--for", "1s").returncode == 0
        ((threads, files),) = runs.sql("SELECT (SELECT count(*) FROM thread), count(*) FROM line")
        assert threads == 2 and files
    finally:
        outer.kill()
        outer.wait()


def test_routines_of_one_shape_have_lines_of_their_own(runs):
    """Their tables of lines are equal: the second had those of the first."""
    source = (
        "import time\nfrom pathlib import Path\nPath('begun').touch()\n"
        "def first():\n    time.sleep(0.05)\ndef second():\n    time.sleep(0.05)\n"
        "while True:\n    first()\n    second()\n"
    )
    with running(runs, source) as program:
        assert runs.taupy("attach", str(program.pid), "--for", "2s").returncode == 0
    lines = runs.sql(
        "SELECT DISTINCT short_name, line.line FROM line JOIN timer ON timer.id = timer_id"
        " WHERE short_name IN ('first', 'second') ORDER BY 1"
    )
    assert lines == [("first", 5), ("second", 7)]


def test_memory_of_a_thread_that_is_used_again_is_no_thread():
    """What stands where its id was may be any number: one that does not fit in an id ended attach,
    and all that was seen was lost."""
    go_on, looks = threading.Event(), Looks()
    thread = threading.Thread(target=go_on.wait)
    thread.start()
    with Watch(os.getpid(), looks) as watch:
        (interpreter,) = watch.processes.values()
        state = interpreter.threads()[thread.native_id]
        own = ctypes.c_uint64.from_address(state + interpreter._native_id)
        try:
            for own.value in (1 << 63, (1 << 64) - 1, 1 << 62):
                watch.find()
                watch.look()
                assert threading.main_thread().native_id in interpreter.threads()
                assert thread.native_id not in interpreter.threads()
        finally:
            own.value = thread.native_id
            go_on.set()
        thread.join()
    assert looks.looks >= 3  # at the main thread


def many(runs, source: str, *options: str):
    """What attach sees of a program that begins its threads or processes when it is attached to."""
    source = source.replace(
        "BEGIN", "Path('begun').touch()\nwhile not Path('go').exists(): pause()"
    )
    with running(runs, source) as program, looks_at(runs, program.pid, *options):
        (runs.folder / "go").touch()
    facts = dict(runs.sql("SELECT name, value FROM metadata WHERE name LIKE 'taupy.%'"))
    rows = runs.sql("SELECT name, count, least_ns, most_ns FROM thread WHERE count > 1")
    return facts, rows


@pytest.mark.slow
def test_threads_that_have_ended_are_added_up(runs):
    """Each of 2,000 had a row, and some were counted as neither seen nor unseen."""
    source = """
import threading, time
from pathlib import Path
def pause(): time.sleep(0.01)
def handle():
    for _ in range(4): pause()
BEGIN
for number in range(2000):
    threading.Thread(target=handle).start()
    time.sleep(0.002)
time.sleep(2)
"""
    facts, ((name, added, least_ns, most_ns),) = many(runs, source)
    assert name == f"threads 201 to {200 + added:,} of handle"
    assert 0 < least_ns < most_ns
    assert "had ended are shown as 1, one" in facts["taupy.health.threads_added"]
    unseen = re.search(r"; (\d+) threads? came and went", facts["taupy.lines"])
    threads = runs.sql("SELECT count(*), sum(count) FROM thread")[0]
    assert threads[0] < 300, threads
    assert threads[1] + int(unseen[1] if unseen else 0) == 2001
    ((ns,),) = runs.sql("SELECT sum(time_ns) FROM line JOIN thread ON thread.id = thread_id"
                        " WHERE thread.count > 1")  # fmt: skip
    assert added * least_ns <= ns <= added * most_ns


@pytest.mark.slow
def test_forked_children_that_have_ended_are_added_up(runs):
    source = """
import os, time
from pathlib import Path
def pause(): time.sleep(0.01)
BEGIN
for number in range(30):
    if not os.fork():
        for _ in range(60): pause()
        os._exit(0)
    time.sleep(0.05)
for number in range(30): os.wait()
"""
    facts, ((name, added, least_ns, most_ns),) = many(runs, source, "--threads", "3")
    assert name == f"processes 4 to {3 + added}" and 0 < least_ns < most_ns
    assert "had ended are shown as 1, one" in facts["taupy.health.children_added"]
    assert ("Processes", str(added)) in runs.sql("SELECT name, value FROM metadata")


def test_threads_with_a_name_of_their_own_stay_as_they_are():
    pid, looks = os.getpid(), Looks(1)
    handle, pool = (Frame(file, name, 1, b"", 0) for file, name in (
        ("prog.py", "handle"), ("/lib/concurrent/futures/thread.py", "_worker")))  # fmt: skip
    bootstrap = Frame("/lib/threading.py", "Thread._bootstrap", 1, b"", 0)
    for number in range(1, 9):
        of = f"Thread-{number} (han", f"mine {number}", f"Thread-{number} (_wo"
        for kind, (name, frame) in enumerate(zip(of, (handle, handle, pool), strict=True)):
            looks.add(pid, 10 * number + kind, name, CPU, [frame, bootstrap], number)
            looks.end_thread(pid, 10 * number + kind)
    threads = [of.thread for of in looks.profile(pid, 0.0, 0, Masking("")).threads]
    (row,) = (thread for thread in threads if thread.count > 1)
    assert (row.name, row.count, row.least_ns, row.most_ns) == ("threads 2 to 8 of handle", 7, 2, 8)
    assert len(threads) == 8 + 8 + 1 + 1
