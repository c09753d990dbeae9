"""Which lines took the time: of programs whose lines' times are known, and of those that do odd
things. Nothing here depends on how fast or busy the machine is."""

from __future__ import annotations

import math
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from taupy.profiledb.database import ProfileDB
from tests.integration.test_attach import looks_at, running

pytest.importorskip("taupy._native.remote", reason="needs the compiled core")


@pytest.fixture
def runs(runs):
    runs.environment["LOOKED_AT"] = str(runs.state)
    return runs


KNOWN = """
import sys, time

def spin(ns):
    end = time.thread_time_ns() + ns
    while time.thread_time_ns() < end:
        pass

first = lambda: sorted(data, key=abs)
data = list(range(5000))
spent = dict.fromkeys(range(4), 0)

def work():
    now = time.perf_counter_ns
    a = now()
    sorted(data, reverse=True).index(4000)
    b = now()
    [value for value in data if value % 7 == 0].reverse()
    c = now()
    sum(data); max(data)
    d = now()
    str(data)
    e = now()
    for at, took in enumerate((b - a, c - b, d - c, e - d)):
        spent[at] += took

end = time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    work()
print(*spent.values())
"""
WHO = pytest.mark.parametrize("option", ["--lines", "--lines=inside"])
"""Who looks: the watch, or a thread in the program."""
LINES = """SELECT line.line, sum(line.looks), sum(line.time_ns), sum(line.seen_ns), sum(squares)
             FROM line JOIN timer ON timer.id = line.timer_id
            WHERE timer.short_name = ? GROUP BY line.line"""


def rows(runs, sql, *parameters):
    with closing(sqlite3.connect(runs.database)) as connection:
        return connection.execute(sql, parameters).fetchall()


def fact(runs, name="taupy.lines"):
    found = rows(runs, "SELECT value FROM metadata WHERE name = ?", name)
    return found[0][0] if found else None


LOOKS = """
import glob, math, os, time
def looks():
    taken = 0
    for path in glob.glob(os.environ["LOOKED_AT"] + "/run-*/*.lines"):
        with open(path, "rb") as file:
            head = file.read(84)  # state/lines.py
        if any(head[80:]):
            return math.inf  # none is permitted
        taken += int.from_bytes(head[8:16], "little")
    return taken
"""
"""A program knows by it how often it has been looked at: on a busy machine the first look may come
late, and others after a while."""


def shares(runs, source, names):
    """The estimated share of each of these lines, with its standard error."""
    found = {
        line: (looks, seen, squares) for line, looks, _, seen, squares in rows(runs, LINES, "work")
    }
    whole = sum(seen for _, seen, _ in found.values())
    all_squares = sum(squares for *_, squares in found.values())
    result = {}
    for name in names:
        at = source.split("\n").index(f"    {name}") + 1
        _, seen, squares = found.get(at, (0, 0, 0.0))
        p = (seen + 1) / (whole + 2)
        variance = ((1 - p) ** 2 * squares + p**2 * (all_squares - squares)) / whole**2
        result[name] = (p, math.sqrt(variance))
    return result, sum(looks for looks, *_ in found.values())


@WHO
@pytest.mark.slow
def test_lines_have_the_shares_that_the_program_itself_has_measured(runs, option):
    """Five standard errors and half a point: a right estimate is outside once in a million runs,
    that of a sampler which reads each stack in pieces (6 points off) nearly always."""
    done = runs.run(KNOWN, option, arguments=("8",))
    spent = [int(word) for word in done.stdout.split()]
    names = [
        "sorted(data, reverse=True).index(4000)",
        "[value for value in data if value % 7 == 0].reverse()",
        "sum(data); max(data)",
        "str(data)",
    ]
    found, looks = shares(runs, KNOWN, names)
    assert looks > 100, fact(runs)
    for name, took in zip(names, spent, strict=True):
        share, error = found[name]
        assert abs(share - took / sum(spent)) < 5 * error + 0.005, (name, share, took / sum(spent))


SHORT_THREADS = """
import sys, threading, time

spent = [0.0] * 3

def work():
    a = time.perf_counter()
    time.sleep(0.012)
    b = time.perf_counter()
    time.sleep(0.030)
    c = time.perf_counter()
    time.sleep(0.018)
    d = time.perf_counter()
    for at, took in enumerate((b - a, c - b, d - c)):
        spent[at] += took

end = time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(*spent)
"""


@WHO
def test_threads_that_live_shorter_than_a_round_have_lines(runs, option):
    done = runs.run(SHORT_THREADS, option, "--quiet", arguments=["6"])
    spent = [float(word) for word in done.stdout.split()]
    names = [f"time.sleep(0.0{ms})" for ms in (12, 30, 18)]
    found, looks = shares(runs, SHORT_THREADS, names)
    assert looks >= 60, fact(runs)
    for name, took in zip(names, spent, strict=True):
        share, error = found[name]
        assert abs(share - took / sum(spent)) < 5 * error + 0.05, (name, found, spent)


def until_seen(runs, source, *options):
    """A run of a program for so many seconds that its lines were seen."""
    for seconds in ("1.2", "5", "20"):
        runs.database.unlink(missing_ok=True)
        done = runs.run(source, *options, arguments=(seconds,))
        if rows(runs, "SELECT sum(looks) >= 20 FROM line") == [(1,)]:
            return done
    pytest.fail(f"no line was seen: {fact(runs)}")


def test_the_lines_of_a_routine_add_up_to_its_exact_time(runs):
    assert until_seen(runs, KNOWN).returncode == 0
    ((exact,),) = rows(
        runs,
        "SELECT sum(exclusive) FROM timer_value JOIN timer ON timer.id = timer_id"
        " JOIN metric ON metric.id = metric_id"
        " WHERE short_name LIKE 'work%' AND metric.name = 'time'",
    )
    ((lines,),) = rows(
        runs,
        "SELECT sum(time_ns) FROM line JOIN timer ON timer.id = timer_id WHERE short_name = 'work'",
    )
    assert lines == pytest.approx(exact, rel=1e-6)


# Of numbers that did not change, the end of a run might name work that is the same again.
IN_ONE_ROUTINE = """
import sys, time

def work(seconds):
    data = list(range(5000))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        data.reverse()
        sorted(data).index(4000)
        sum(data)
        str(data)

work(float(sys.argv[1]))
"""


def test_the_report_and_the_end_of_the_run_name_the_line_and_its_text(runs):
    runs.environment["COLUMNS"] = "160"  # in fewer, a long line is cut
    done = until_seen(runs, IN_ONE_ROUTINE)
    named = r"; (?:most in|hottest is) work \(prog.py:(\d+)\): .*? %: ([^;]*)"
    end = re.search(named, done.stderr)
    assert end is not None, done.stderr
    text = [line.strip() for line in IN_ONE_ROUTINE.split("\n")]
    assert end[2] == text[int(end[1]) - 1]
    report = runs.taupy("report", "--db", str(runs.database)).stdout
    place = re.search(r" prog.py:(\d+) ~\d.*\n +└ (.*)\n", report)
    assert place is not None, report
    said = text[int(place[1]) - 1]
    assert place[2].partition(" · ")[0] == said
    lines = runs.taupy("lines", "--db", str(runs.database)).stdout
    assert said in lines and f"prog.py:{place[1]}" in lines
    assert "the standard error of the first row is" in lines


WAITING = (
    LOOKS
    + """
import threading
lock = threading.Lock()
lock.acquire()

def hold():
    enough = looks() + 100
    while looks() < enough:
        time.sleep(1)
    lock.release()

def get():
    lock.acquire()

other = threading.Thread(target=hold)
other.start()
get()
other.join()
"""
)


@WHO
def test_states_tell_computing_from_waiting(runs, option):
    assert runs.run(WAITING, option).returncode == 0
    states = rows(
        runs,
        "SELECT short_name, state, sum(looks) AS n FROM line JOIN timer ON timer.id = timer_id"
        " WHERE short_name IN ('get', 'hold') GROUP BY 1, 2 ORDER BY n DESC",
    )
    mostly = dict(reversed([(name, state) for name, state, _ in states]))
    assert mostly == {"get": "lock", "hold": "wait"}


BESIDE_OTHERS = """
import os, subprocess, sys, time

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]

def sleeps():
    time.sleep(0.004)

def computes():
    sum(range(20000))

try:
    mine = f"/proc/self/task/{os.getpid()}/schedstat"
    began, before = time.perf_counter_ns(), open(mine).read().split()
    while time.perf_counter_ns() < began + 6_000_000_000:
        sleeps()
        computes()
    time.sleep(0.01)
    after = open(mine).read().split()
    print(time.perf_counter_ns() - began, *(int(b) - int(a) for a, b in zip(before, after)))
finally:
    for other in busy:
        other.kill()
        other.wait()
"""


@WHO
@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not count")
def test_on_cpu_agrees_with_the_cpu_time_beside_busy_programs(runs, option):
    done = runs.run(BESIDE_OTHERS, option)
    whole, ran, waited, _ = map(int, done.stdout.split())
    states = {
        state: (looks, seen, squares)
        for state, looks, seen, squares in rows(
            runs,
            "SELECT CASE WHEN state <> 'cpu' THEN 'asleep' ELSE on_cpu END, sum(looks),"
            " sum(seen_ns), sum(squares) FROM line JOIN timer ON timer.id = timer_id"
            " WHERE short_name IN ('sleeps', 'computes', '<module>') GROUP BY 1",
        )
    }
    assert None not in states
    seen, squares = (sum(sums[at] for sums in states.values()) for at in (1, 2))
    known = {1: ran / whole, 0: waited / whole, "asleep": 1 - (ran + waited) / whole}
    for state, exact in known.items():
        share = states[state][1] / seen
        error = math.sqrt(exact * (1 - exact) * squares) / seen
        assert abs(share - exact) <= 4 * error + 0.01, (state, share, exact, error, states)
    assert waited > ran


@WHO
def test_a_program_that_ends_at_once_has_no_lines_and_says_nothing_of_it(runs, option):
    done = runs.run("def f():\n    return sum(range(1000))\nf()\n", option)
    assert rows(runs, "SELECT count(*) FROM line") == [(0,)]
    notes = [line for line in done.stderr.splitlines() if "--lines=inside: " not in line]
    assert fact(runs) is None and "line" not in "".join(notes)
    assert "ended before" in runs.taupy("lines", "--db", str(runs.database)).stderr


@pytest.mark.parametrize("option", ["--no-lines", "--no-watch"])
def test_they_can_be_turned_off(runs, option):
    runs.run(KNOWN, option, arguments=("0.6",))
    assert rows(runs, "SELECT count(*) FROM line") == [(0,)]
    if option == "--no-lines":
        assert fact(runs) == "none: they were turned off"
        assert "they were turned off" in runs.taupy("lines", "--db", str(runs.database)).stderr


SPINNING = (
    LOOKS
    + """
def work(seconds):
    begun, enough = time.time(), looks() + 3
    while time.time() < begun + seconds:
        sum(range(3000))
        if time.time() > begun + seconds and seconds < 60 and looks() < enough:
            seconds += 0.1
"""
)

ODD = {
    "forked": """
import os
work(0.3)
if (child := os.fork()) == 0:
    work(1)
    os._exit(0)
os.waitpid(child, 0)
""",
    "pool": """
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pool.map(work, [0.6, 0.6])
""",
    "execed": """
import os, sys
work(0.5)
if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, __file__, "again"])
""",
    "killed": """
import os, signal
work(1)
os.kill(os.getpid(), signal.SIGKILL)
""",
    "frozen": """
import os, signal, subprocess, sys
subprocess.Popen([sys.executable, "-S", "-c",
    f"import os, time; time.sleep(1); os.kill({os.getpid()}, {int(signal.SIGCONT)})"])
work(0.4)
os.kill(os.getpid(), signal.SIGSTOP)
work(0.4)
""",
    "daemon thread at the end": """
import threading
threading.Thread(target=work, args=(60,), daemon=True).start()
work(0.6)
""",
    "deep recursion": """
import sys
sys.setrecursionlimit(20_000)
def deep(n):
    return deep(n - 1) if n else work(0.6)
deep(9000)
""",
    "coroutines and generators": """
import asyncio
def steps():
    while True:
        sum(range(2000)); yield
async def main():
    end = time.time() + 0.6
    walk = steps()
    while time.time() < end:
        next(walk); await asyncio.sleep(0)
asyncio.run(main())
work(0.2)
""",
    "code that comes and goes": """
end = time.time() + 1
number = 0
while time.time() < end:
    number += 1
    scope, text = {}, f"def f{number}():\\n    return sum(range(20000))\\n"
    exec(compile(text, f"made{number % 50}.py", "exec"), scope)
    scope[f"f{number}"]()
work(0.3)
""",
}  # fmt: skip


@WHO
@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_odd_programs_run_as_before_and_have_lines(runs, name, option):
    done = runs.run(SPINNING + ODD[name], option)
    assert done.returncode == (-9 if name == "killed" else 0), done.stderr
    assert "Traceback" not in done.stderr
    if name == "killed":
        until = time.monotonic() + 60
        while not runs.is_stored() and time.monotonic() < until:
            time.sleep(0.2)
    looks = rows(
        runs,
        "SELECT sum(looks) FROM line JOIN timer ON timer.id = timer_id WHERE short_name = 'work'",
    )
    assert looks[0][0], fact(runs)
    with ProfileDB.open(runs.database) as db:
        assert db.verify() == []


@WHO
@pytest.mark.slow
def test_a_process_that_becomes_another_program_has_lines_of_both(runs, option):
    assert runs.run(SPINNING + ODD["execed"], option).returncode == 0
    by_program = rows(runs, "SELECT thread_id, sum(looks) FROM line GROUP BY thread_id")
    assert len(by_program) == 2, by_program


@WHO
@pytest.mark.slow
def test_three_thousand_threads_are_looked_at_in_turn(runs, option):
    many = """
import threading
go = threading.Event()
threads = [threading.Thread(target=go.wait) for _ in range(3000)]
try:
    for thread in threads: thread.start()
except RuntimeError:
    pass
work(2)
go.set()
for thread in threads:
    if thread.ident: thread.join()
"""
    done = runs.run(SPINNING + many, option)
    assert done.returncode == 0, done.stderr
    assert "looks" in (fact(runs) or ""), rows(runs, "SELECT name, value FROM metadata")


@WHO
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the module has another name")
def test_a_program_with_subinterpreters_is_looked_at(runs, option):
    is_new = sys.version_info >= (3, 13)
    module, run = ("_interpreters", "exec") if is_new else ("_xxsubinterpreters", "run_string")
    inner = "import time; end = time.time() + 0.6\nwhile time.time() < end: pass"
    done = runs.run(
        SPINNING + f"import {module} as sub\nsub.{run}(sub.create(), {inner!r})\nwork(0.3)\n",
        option,
    )
    assert done.returncode == 0, done.stderr
    assert "looks" in (fact(runs) or "")


def test_a_password_in_the_source_is_not_in_the_lines(runs):
    secret = "hunter2hunter2"
    until_seen(runs, KNOWN + f'\npassword = "{secret}"\n', "--no-source")
    assert secret.encode() not in runs.database.read_bytes()


WITHOUT_PTRACE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE
os.execv(sys.executable, [sys.executable, "-m", "taupy", *sys.argv[1:]])
"""


@WHO
def test_not_permitted_is_one_line_in_the_trial(runs, option):
    """A program that cannot be dumped may not be read from outside, and reads itself."""
    undumpable = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + SPINNING + "work(1)\n"
    (runs.folder / "prog.py").write_text(undumpable)
    command = ["run", "--db", str(runs.database), option, "prog.py"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PTRACE, *command], cwd=runs.folder, env=runs.environ()
    )
    assert done.returncode == 0
    if option == "--lines":
        assert fact(runs).startswith("none: the watch may not read the program's memory: ")
        assert fact(runs).endswith("; or --lines=inside, with a thread in the program")
    else:
        assert "of the program's own CPU time, by a thread in it" in fact(runs)


@pytest.mark.parametrize("how", ["run", "attach"])
def test_threads_in_step_make_errors_larger(runs, how):
    """Looks at them at one moment were taken as independent."""
    source = (
        LOOKS
        + """
import threading
from pathlib import Path
meet = threading.Barrier(8)
def work():
    for _ in range(6):
        meet.wait()
        time.sleep(0.25)
        meet.wait()
        time.sleep(0.25)
threads = [threading.Thread(target=work) for _ in range(8)]
Path("begun").touch()
while not Path("go").exists() and looks() < 3: time.sleep(0.01)
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )
    if how == "run":
        assert runs.run(source, "-q").returncode == 0
    else:
        with running(runs, source) as program, looks_at(runs, program.pid):
            (runs.folder / "go").touch()
            program.wait()
    ((looks, seen_ns, squares),) = runs.sql(
        "SELECT sum(looks), sum(seen_ns), sum(squares) FROM line"
        " JOIN timer ON timer.id = timer_id WHERE short_name = 'work'"
    )
    assert looks > 50
    assert squares * looks / seen_ns**2 > 3.5  # about 1 if all looks count for the same time
