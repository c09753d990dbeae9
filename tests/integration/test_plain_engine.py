"""What the plain-Python engine promises. That it counts as the compiled one does is tested with
the programs of `tests/engine/test_counts.py` and `tests/random_programs`."""

from __future__ import annotations

import os
import sys

import pytest

from taupy.record.plain_part import NOT_MEASURED

PLAIN = ("--engine", "python")

# Prints what a profiler may disturb, each line once.
BEHAVES = """\
import asyncio, contextlib, gc, os, signal, subprocess, sys, threading, traceback
def leaf(n): return n
def down(n): return down(n + 1)
try:
    down(0)
except RecursionError:
    print("recursion")
def fails(): raise ValueError("wrong")
try:
    fails()
except ValueError:
    print(traceback.format_exc())
def numbers():
    try:
        yield from range(3)
    finally:
        print("closed")
next(numbers()); gc.collect()
async def waits():
    await asyncio.sleep(0)
    return [n async for n in counted()]
async def counted():
    yield leaf(1)
print(asyncio.run(waits()))
def ends(): sys.exit("in a thread")
thread = threading.Thread(target=ends); thread.start(); thread.join()
def handler(*_): raise TimeoutError("alarm")
signal.signal(signal.SIGUSR1, handler)
with contextlib.suppress(TimeoutError):
    os.kill(os.getpid(), signal.SIGUSR1)
    leaf(2)
child = os.fork()
if not child:
    leaf(3)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(subprocess.run([sys.executable, "-c", "print(4)"], capture_output=True).stdout)
events = []
sys.settrace(lambda frame, event, _: events.append(event)); leaf(5); sys.settrace(None)
print(events)
sys.setprofile(lambda frame, event, _: events.append(event)); leaf(6); sys.setprofile(None)
print(events.count("call"), threading.active_count(), sorted(os.listdir("/proc/self/fd")))
raise SystemExit(9)
"""


def test_the_program_behaves_as_under_plain_python(runs):
    plain = runs.plain(BEHAVES)
    done = runs.run(BEHAVES, *PLAIN)
    own = "".join(
        line for line in done.stderr.splitlines(True) if not line.startswith(("taupy:", "  "))
    )
    assert plain.returncode == 9
    assert (done.returncode, done.stdout) == (9, plain.stdout)
    assert own.count("in a thread") == plain.stderr.count("in a thread")
    assert "Traceback" not in own


def test_a_trial_names_what_was_not_measured_one_line_for_each(runs):
    done = runs.run(
        "import os, subprocess, sys\n"
        "import taupy\n"
        "def f(): pass\n"
        "with taupy.timer('t'): f()\n"
        "if not os.fork(): os._exit(0)\n"
        "os.wait()\n"
        "subprocess.run([sys.executable, '-c', ''])\n",
        *PLAIN,
        "--c-calls",
    )
    assert done.returncode == 0
    assert "is not being profiled" not in done.stderr
    assert "lower bounds" in runs.metadata("taupy.health.plain_engine")
    notes = [line.partition("note: ")[2] for line in done.stderr.splitlines()]
    for what in (*NOT_MEASURED.values(), "--c-calls"):
        assert notes.count(f"not measured: {what}") == 1
    assert "forked processes that were not measured: 1" in notes
    assert any("the plain engine does not measure child processes" in note for note in notes)
    assert runs.calls() == {".taupy application": 1, "<module>": 1, "f": 1}
    report = " ".join(runs.taupy("report", "-v").stdout.split())
    assert "not measured: what the plain-Python engine leaves out (taupy trials show)" in report


def test_each_thread_has_its_own_counts_and_name(runs):
    runs.run(
        "import threading\n"
        "def leaf(): pass\n"
        "def work(n):\n"
        "    for _ in range(n): leaf()\n"
        "threads = [threading.Thread(target=work, args=(n,), name=f'w{n}') for n in (300, 500)]\n"
        "for thread in threads: thread.start()\n"
        "work(7)\n"
        "for thread in threads: thread.join()\n",
        *PLAIN,
    )
    counts = runs.sql(
        """SELECT thread.name, sum(call.calls) FROM call JOIN thread ON thread.id = thread_id
             JOIN callpath ON callpath.id = callpath_id JOIN timer ON timer.id = timer_id
            WHERE timer.short_name = 'leaf' GROUP BY thread.name"""
    )
    assert dict(counts) == {"MainThread": 7, "w300": 300, "w500": 500}


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("def leave(): raise SystemExit(7)\nleave()", 7),
        ("raise SystemExit('words')", 1),
        ("1 / 0", 1),
        ("import signal, os; os.kill(os.getpid(), signal.SIGINT)", -2),
        ("import threading; threading.Thread(target=lambda: 1 / 0).start()", 0),
    ],
)
def test_the_trial_knows_the_exit_code(runs, ending, code):
    done = runs.run(f"def f(): pass\nf()\n{ending}\n", *PLAIN)
    assert done.returncode == code
    assert runs.one("SELECT exit_code, state FROM trial") == (code, "complete")


@pytest.mark.parametrize("way", ["os._exit(3)", "os.execv(sys.executable, [sys.executable, '-V'])"])
def test_the_profile_survives_an_end_without_pythons_own(runs, way):
    runs.run(f"import os, sys\ndef f(): pass\nf()\n{way}\n", *PLAIN)
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.calls()["f"] == 1


def test_a_kill_loses_no_more_than_the_last_second(runs):
    done = runs.run(
        "import os, time\n"
        "def f(): pass\n"
        "def early(): pass\n"
        "for _ in range(1000): early()\n"
        "end = time.monotonic() + 1.6\n"
        "while time.monotonic() < end: f()\n"
        "os.kill(os.getpid(), 9)\n",
        *PLAIN,
    )
    assert done.returncode == -9
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.one("SELECT state FROM trial") == "incomplete"
    assert runs.calls()["early"] == 1000
    assert runs.calls()["f"] > 0
    assert "when the plain engine last noted it" in runs.metadata("taupy.health.cut_off")
    assert "the plain engine cannot tell where memory grew" in runs.metadata("taupy.watch")


def test_a_kill_in_the_first_second_leaves_a_trial(runs):
    runs.run("import os\nos.kill(os.getpid(), 9)\n", *PLAIN)
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.one("SELECT state FROM trial") == "incomplete"
    assert runs.calls()["<module>"] == 1


def test_an_end_by_the_recursion_limit_is_never_taken_for_a_success(runs):
    done = runs.run(
        "import atexit, gc\n"
        "@atexit.register\ndef at_exit(): gc.collect(); work()\n"
        "def work(): pass\ndef down(): down()\ndown()\n",
        *PLAIN,
    )
    assert done.returncode == 1 and "RecursionError" in done.stderr
    assert runs.one("SELECT exit_code FROM trial") in (1, None)
    assert "lower bounds" in runs.metadata("taupy.health.plain_engine")


def test_an_audit_hook_that_refuses_to_open_files_is_not_the_programs_error(runs):
    done = runs.run(
        "import sys\n"
        "refuses = False\n"
        "def hook(event, arguments):\n"
        "    if refuses and event in ('open', 'object.__getattr__'): raise RuntimeError('no')\n"
        "def leaf(): pass\n"
        "sys.addaudithook(hook)\n"
        "refuses = True\n"
        "for _ in range(100): leaf()\n"
        "refuses = False\n"
        "print('done')\n",
        *PLAIN,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "audit hook" in runs.metadata("taupy.health.audit")


@pytest.mark.slow
@pytest.mark.parametrize("change", ["chroot({jail!r}); os.chdir('/')", "setuid(65533)"])
def test_what_was_counted_before_a_change_of_rights_is_stored_from_outside(runs, change):
    """The jail has a program at the storer's path, and a folder at the run folder's: neither is
    touched."""
    if os.geteuid() != 0:
        pytest.skip("only root can change its root folder and user")
    jail = runs.folder / "jail"
    program = jail / sys.executable.lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\ntouch /mark\n")
    program.chmod(0o755)
    (jail / str(runs.folder).lstrip("/") / "state").mkdir(parents=True)
    before = sorted(jail.rglob("*"))
    source = f"import os\ndef f(): pass\nf()\nos.{change.format(jail=str(jail))}\nf()\n"
    done = runs.run(source, *PLAIN, "--no-watch")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    runs.taupy("trials", "--db", str(runs.database))
    assert runs.calls()["f"] == 1
    assert sorted(jail.rglob("*")) == before
