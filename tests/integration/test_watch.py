"""Runs that are killed: the trial says until when they ran, what they were in, how sure it is."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from taupy.model.processes import process_start, stat_fields
from taupy.state import heartbeat, watch_files
from taupy.state.folder import open_run
from taupy.units import duration

SLEEPER = """
import sys, threading, time
def nap():
    open("second" if threading.current_thread().name == "second" else "asleep", "w").close()
    time.sleep(60)
def work():
    open("about to", "w").close()
    nap()
work()
"""

TIME = """SELECT value.inclusive / 1e9 FROM timer_value value
           JOIN timer ON timer.id = value.timer_id
           WHERE timer.short_name = ? ORDER BY value.trial_id DESC"""


def wait_for(found, seconds=30.0):
    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def began(runs, source, *options, **more):
    """A run that has said, by the file `asleep`, that it is in its last routine."""
    (runs.folder / "prog.py").write_text(source)
    command = [sys.executable, "-m", "taupy", "run", "--db", str(runs.database), *options]
    program = subprocess.Popen([*command, "prog.py"], cwd=runs.folder, env=runs.environ(), **more)
    wait_for((runs.folder / "asleep").exists)
    return program


def began_in_two_threads(runs):
    """One in whose threads, the main one and `second`, each is asleep."""
    second = "\nthreading.Thread(target=work, name='second').start()\nwork()"
    program = began(runs, SLEEPER.replace("\nwork()", second))
    wait_for((runs.folder / "second").exists)
    return program


def run_folder(runs):
    (folder,) = runs.state.glob("run-*")
    return folder


def watch_of(runs):
    """The process id of the watch, once it has begun."""

    def kept():
        with open_run(str(run_folder(runs))) as folder:
            return heartbeat.read(folder)

    wait_for(kept)
    return kept()[0].pid


def wait_until_it_has_beaten(runs, seconds):
    with open_run(str(run_folder(runs))) as folder:
        first = heartbeat.read(folder)[0].beat_ns
        wait_for(lambda: heartbeat.read(folder)[0].beat_ns > first + seconds * 1e9)


def slept(runs):
    """Seconds in `nap`."""
    return runs.sql(TIME, "nap")[0][0]


def ran(runs):
    """Seconds since just before `nap` began."""
    return time.time() - (runs.folder / "about to").stat().st_mtime


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_program_counts_up_to_its_death(runs, native, number):
    program = began(runs, SLEEPER, "--engine", native)
    watch_of(runs)
    time.sleep(1.5)
    program.send_signal(number)
    program.wait()
    wait_for(runs.is_stored)  # by the watch
    assert 1.4 < slept(runs) < ran(runs)
    is_whole = number == signal.SIGTERM
    state = "complete" if is_whole else "incomplete"
    assert runs.one("SELECT exit_code, state FROM trial") == (-number, state)
    said = runs.metadata(f"taupy.health.{'stopped' if is_whole else 'cut_off'}")
    assert f"ended by {number.name} after" in said
    left_open = runs.metadata("Open at the End: MainThread")
    for text in (said, left_open):
        assert f"nap for {duration(1e9 * slept(runs))}" in text, text


def test_what_threads_were_in_is_reported_for_each(runs, native):
    program = began_in_two_threads(runs)
    watch_of(runs)
    program.kill()
    program.wait()
    runs.taupy("trials")
    for thread in ("MainThread", "second (1)"):
        assert "nap for" in runs.metadata(f"Open at the End: {thread}"), thread


def test_a_watch_killed_with_its_program_gives_its_last_heartbeat(runs, native):
    program = began(runs, SLEEPER)
    watch = watch_of(runs)
    wait_until_it_has_beaten(runs, 0.8)
    os.kill(watch, signal.SIGKILL)  # as when a container is killed: both at once
    program.kill()
    program.wait()
    wait_for(lambda: not process_start(watch))
    runs.taupy("trials")
    assert slept(runs) > 0.7
    assert "together with what watched it" in runs.metadata("taupy.health.cut_off")
    assert runs.one("SELECT exit_code FROM trial") is None


def test_a_watch_that_was_killed_before_leaves_an_unknown_end(runs, native):
    source = SLEEPER.replace("time.sleep(60)", "[nop() for _ in range(300) if not time.sleep(0.1)]")
    program = began(runs, "def nop(): pass\n" + source)
    os.kill(watch_of(runs), signal.SIGKILL)
    time.sleep(2)
    program.kill()
    program.wait()
    runs.taupy("trials")
    assert "the watch had ended earlier" in runs.metadata("taupy.health.cut_off")
    assert slept(runs) > 1


@pytest.mark.parametrize("setting", ["option", "project"])
def test_without_a_watch_the_end_is_unknown_and_reported_as_unknown(runs, native, setting):
    if setting == "project":
        (runs.folder / "pyproject.toml").write_text("[tool.taupy]\nwatch = false\n")
    program = began(runs, SLEEPER, *(["--no-watch"] if setting == "option" else []))
    assert not (run_folder(runs) / watch_files.HEARTBEAT).exists()
    program.kill()
    program.wait()
    runs.taupy("trials")
    assert "no watch: it was turned off" in runs.metadata("taupy.health.cut_off")
    assert slept(runs) < 1


_KILLED_IN_A_LOOK = """
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
int getrusage(__rusage_who_t who, struct rusage *usage)
{
    if (access("asleep", F_OK) == 0)
        kill(getpid(), SIGKILL);
    return syscall(SYS_getrusage, who, usage);
}
"""

_ABOUT_TO_CALL = """
import os
def first(): pass
def nap():
    os.close(os.open("asleep", os.O_CREAT))
    sum(range(200_000))
    first()
nap()
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_what_was_just_being_entered_at_a_kill_has_taken_no_time(runs, native):
    """The engine looks at memory when a window of some 0.1 ms ends, here with a first call."""
    (runs.folder / "look.c").write_text(_KILLED_IN_A_LOOK)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", "look.so", "look.c"], cwd=runs.folder, check=True
    )
    runs.environment["LD_PRELOAD"] = str(runs.folder / "look.so")
    done = runs.run(_ABOUT_TO_CALL, "--no-watch")
    assert done.returncode == -signal.SIGKILL
    runs.environment.clear()
    runs.taupy("trials")
    assert runs.calls()["first"] == 1, "the look was at its entry"
    assert runs.sql(TIME, "first")[0][0] == 0
    assert slept(runs) < 60


def test_a_worker_that_is_killed_counts_up_to_its_own_death(runs, native):
    source = """
import os, pathlib, signal, time
def nap():
    pathlib.Path("asleep").touch()
    time.sleep(60)
child = os.fork()
if not child:
    nap()
while not os.path.exists("asleep"):
    time.sleep(0.01)
time.sleep(1.2)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
time.sleep(0.3)
"""
    runs.run(source)
    assert 0.9 < slept(runs) < 20
    said = runs.metadata("taupy.health.children_killed")
    assert said.endswith("open routines count up to their ends")


def test_the_program_does_not_see_its_watch(runs, native):
    source = """
import os, pathlib, time
beats = set()
while len(beats) < 5:
    beats.update(file.read_bytes() for file in pathlib.Path(os.environ["STATE"]).glob("*/watch"))
    time.sleep(0.02)
me, session = os.getpid(), os.getsid(0)
for entry in pathlib.Path("/proc").iterdir():
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        text = (entry / "cmdline").read_text()
    except OSError:
        continue
    if not entry.name.isdigit() or int(entry.name) == me:
        continue
    if int(fields[1]) == me or int(fields[2]) == os.getpgrp() or int(fields[3]) == me:
        print("child or of our group", entry.name, text)
    if "taupy.watch" in text and os.environ["STATE"] in text:
        assert int(fields[3]) != session
        opened = []
        for file in (entry / "fd").iterdir():
            try:
                opened.append(os.readlink(file))
            except FileNotFoundError:  # it has closed it since
                pass
        print("watch", *sorted(opened), sep="\\n")
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
print(sorted(os.listdir("/proc/self/fd")))
"""
    runs.environment["STATE"] = str(runs.state)
    done = runs.run(source, "--engine", native, start_new_session=True)
    *lines, no_child, descriptors = done.stdout.splitlines()
    assert no_child == "no child"
    assert lines[0] == "watch"
    of_threads = re.compile(r"/proc/\d+/task/\d+/(syscall|stat|schedstat)")  # what they do
    opened = {Path(line).name for line in lines[1:] if not of_threads.fullmatch(line)}
    of_the_watch = {*watch_files.LOOKS, *watch_files.OF_LINES}
    others = {"null", "watch", "watch.found", *of_the_watch, Path(lines[-1]).name}
    assert not {
        name
        for name in opened - others
        if not (name.startswith("run-") or "pidfd" in name or "eventpoll" in name)
        and not name.endswith(".part")
    }
    assert not [line for line in lines if "pipe:" in line or "child" in line]
    assert descriptors == "['0', '1', '2', '3']"


@pytest.mark.slow
def test_output_ends_with_the_program_and_the_watch_soon_after(runs, native):
    source = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('done')"
    (runs.folder / "prog.py").write_text(source)
    command = f"{sys.executable} -m taupy run --quiet prog.py | cat"
    program = subprocess.Popen(
        command, shell=True, cwd=runs.folder, env=runs.environ(), stdout=subprocess.PIPE
    )
    wait_for(lambda: any(runs.state.glob("run-*")))
    watch = watch_of(runs)
    assert process_start(watch)
    (runs.folder / "go").touch()
    assert program.stdout.read() == b"done\n"
    program.wait()
    wait_for(lambda: not process_start(watch))
    assert "rounds in" in runs.metadata("taupy.watch")


SHARE_S = 0.03 + 0.01
"""1 % of 3 s, and a tick."""
LINES_S = 0.06 + 0.007 * 3
"""What the looks at lines may take of the first three seconds (docs/lines.md)."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, most_s", [(("--no-lines",), SHARE_S), ((), SHARE_S + LINES_S)], ids=["alone", "lines"]
)
def test_it_stays_small(runs, native, options, most_s):
    program = began(runs, SLEEPER, *options)
    watch = watch_of(runs)
    status = Path(f"/proc/{watch}/status").read_text()
    resident_kib = int(status.partition("VmHWM:")[2].split()[0])
    assert resident_kib < 20 * 1024
    fields = stat_fields(watch)
    before = int(fields[11]) + int(fields[12])
    time.sleep(3)
    fields = stat_fields(watch)
    ticks = int(fields[11]) + int(fields[12]) - before
    assert ticks / os.sysconf("SC_CLK_TCK") <= most_s
    program.kill()
    program.wait()


def test_a_damaged_heartbeat_is_reported_and_loses_nothing_else(runs, native):
    program = began(runs, SLEEPER)
    os.kill(watch_of(runs), signal.SIGKILL)
    program.kill()
    program.wait()
    (run_folder(runs) / watch_files.HEARTBEAT).write_bytes(b"nonsense")
    assert "recovered" in runs.taupy("trials").stderr
    assert "what the watch recorded cannot be read" in runs.metadata("taupy.health.cut_off")
    assert runs.calls()["nap"] == 1


@pytest.mark.slow
def test_a_watch_that_is_stopped_costs_what_it_would_have_seen(runs, native):
    program = began(runs, SLEEPER.replace("sleep(60)", "sleep(4)"), "--engine", native)
    watch = watch_of(runs)
    os.kill(watch, signal.SIGSTOP)
    assert program.wait() == 0
    os.kill(watch, signal.SIGCONT)
    said = runs.metadata("taupy.watch")
    assert re.search(r"; it saw nothing of the last \d.* because it was stopped or killed", said), (
        said
    )
    assert "the plain engine" not in said
    assert runs.calls()["nap"] == 1 and runs.one("SELECT state FROM trial") == "complete"
    wait_for(lambda: not process_start(watch))


# --- processes that were not measured


@pytest.mark.slow
def test_every_process_below_the_program_is_named_with_command_and_duration(runs, native):
    source = """
import os, subprocess, time
time.sleep(0.4)
one = subprocess.Popen(["sleep", "1.8"])
subprocess.run("sleep 1.5; sleep 1.6 & sleep 1.7", shell=True)
one.wait()
if not os.fork():
    time.sleep(0.3)
    os._exit(0)
os.wait()
"""
    runs.run(source, "--engine", native)
    said = runs.metadata("taupy.children")
    for number in (5, 6, 7, 8):
        assert re.search(rf"sleep 1\.{number} \(process \d+, \d", said), said
    assert "taupy" not in said
    found = re.search(r"sh -c 'sleep 1.5; sleep 1.6 & sleep 1.7' \(process \d+, (\S+) s", said)
    assert found and float(found[1]) > 3, said


@pytest.mark.slow
def test_each_of_many_processes_that_a_shell_starts_is_named(runs, native):
    line = "for i in $(seq 40); do sleep 1.$i & sleep 0.02; done; wait"
    runs.run(f"import subprocess; subprocess.run(['sh', '-c', {line!r}])")
    said = runs.metadata("taupy.children")
    assert {f"1.{number}" for number in range(1, 41)} <= set(re.findall(r"sleep (1\.\d+)", said))


@pytest.mark.slow
def test_a_storm_of_processes_is_named_whole(runs, native):
    """Those of a shell, of which no engine knows."""
    line = "i=0; while [ $i -lt 200 ]; do sleep 1 & sleep 0.002; i=$((i+1)); done; wait"
    runs.run(f"import subprocess; subprocess.run(['sh', '-c', {line!r}])")
    said = runs.metadata("taupy.children")
    if "there may be others" not in said:  # on a machine too busy to look often the trial says so
        assert re.search(r"; sleep 1 \(200 processes, |: sleep 1 \(200 processes, ", said), said


@pytest.mark.slow
def test_measured_children_and_storing_are_not_named(runs, native):
    child = "[sys.executable, '-c', 'import time; time.sleep(1)']"
    runs.run(f"import subprocess, sys; subprocess.run({child})")
    assert runs.metadata("taupy.children") is None


# --- runs that are under way


def test_a_run_under_way_is_listed_shown_and_not_imported(runs, native):
    program = began(runs, SLEEPER, "--engine", native)
    watch_of(runs)
    folder = run_folder(runs)
    before = sorted(path.name for path in folder.iterdir())
    (listed,) = json.loads(runs.taupy("trials", "--json").stdout)["rows"]
    assert (listed["id"], listed["application"], listed["state"]) == (None, "prog", "running")
    (shown,) = [
        row
        for view in json.loads(runs.taupy("pprof", "running", "--json").stdout)
        for row in view["rows"]
        if row.get("timer", "").startswith("nap ")
    ]
    assert shown["calls"] == 1 and shown["inclusive_ns"] > 0
    refused = runs.taupy("import", str(folder))
    assert refused.returncode == 1
    assert f"is live: its program (process {program.pid}) is still running" in refused.stderr
    assert sorted(path.name for path in folder.iterdir()) == before
    assert not runs.database.exists()
    program.kill()
    program.wait()


@pytest.mark.slow
def test_snapshots_are_read_while_the_program_runs(runs, native):
    source = (
        """
import taupy
def work(): return 1
for label in ("one", "two"):
    work()
    taupy.snapshot(label)
"""
        + SLEEPER
    )
    program = began(runs, source, "--engine", native)
    listed = json.loads(runs.taupy("trials", "--json").stdout)["rows"]
    assert [(row["id"], row["name"], row["state"]) for row in listed] == [
        (None, "running@two", "running"),
        (None, "running@one", "running"),
        (None, "", "running"),
    ]
    for selector, calls in ("running@one", 1), ("1@one", 1), ("1@two", 2):
        (row,) = [
            row
            for view in json.loads(runs.taupy("pprof", selector, "--json").stdout)
            for row in view["rows"]
            if row.get("timer", "").startswith("work ")
        ]
        assert row["calls"] == calls
    assert "next: taupy report running@one -o" in runs.taupy("report", "running@one").stdout
    assert runs.taupy("pprof", "1@three").returncode == 1
    assert not runs.database.exists()
    program.kill()
    program.wait()
    wait_for(runs.is_stored)
    rows = json.loads(runs.taupy("trials", "--json").stdout)["rows"]
    assert [row["name"] for row in rows] == ["1@two", "1@one", "1"]
    assert [row["uuid"] for row in rows[:2]] == [row["uuid"] for row in listed[:2]]


def top(runs, *options):
    return runs.taupy("top", "--once", "--db", str(runs.database), *options)


def test_top_shows_processes_threads_and_routines(runs, native):
    program = began_in_two_threads(runs)

    def first():
        return json.loads(top(runs, "--json").stdout)[1]["rows"][0]["timer"]

    wait_for(lambda: first().startswith("nap "))  # once it has taken longer than all else
    processes, routines = json.loads(top(runs, "--json").stdout)
    main, other = processes["rows"]
    assert (main["pid"], main["threads"], main["thread"]) == (program.pid, 2, "MainThread")
    assert main["resident_bytes"] > 1 << 20
    assert main["open"].startswith("nap for ") and other["thread"] == "second"
    assert routines["rows"][0]["timer"] == "nap [{prog.py}{3}]"
    assert routines["rows"][0]["calls"] == 2
    assert "nap for " in top(runs).stdout
    of_process = json.loads(top(runs, str(program.pid), "--json").stdout)[0]
    assert of_process["rows"] and of_process["rows"][0]["pid"] == program.pid
    assert "open" in of_process["rows"][0]  # measured from within, not looked at
    program.kill()
    program.wait()
    assert "no run is under way" in top(runs).stderr


def test_top_shows_the_phases_of_a_training(runs, native):
    package = runs.folder / "torch"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "serialization.py").write_text("import time\ndef save(): time.sleep(60)\n")
    source = "import pathlib\nfrom torch.serialization import save\n"
    program = began(runs, source + "pathlib.Path('asleep').touch()\nsave()")

    def phases():
        _, _, *phases = json.loads(top(runs, "--json").stdout)
        return {row["phase"] for view in phases for row in view["rows"]}

    wait_for(lambda: phases() >= {"checkpoint", "import"})
    program.kill()
    program.wait()


@pytest.mark.slow
def test_running_runs_stand_before_stored_ones_and_become_them(runs, native):
    runs.run("pass")
    program = began(runs, SLEEPER)
    rows = json.loads(runs.taupy("trials", "--json").stdout)["rows"]
    assert [(row["id"], row["state"]) for row in rows] == [(None, "running"), (1, "complete")]
    (only,) = json.loads(runs.taupy("trials", "running", "--json").stdout)["rows"]
    assert only["uuid"] == rows[0]["uuid"]
    program.kill()
    program.wait()
    rows = json.loads(runs.taupy("trials", "--json").stdout)["rows"]
    assert [row["state"] for row in rows] == ["incomplete", "complete"]
    assert "no trial" in runs.taupy("pprof", "running").stderr


@pytest.mark.slow
def test_a_program_that_computes_can_be_read_at_any_moment(runs, native):
    source = """
import os, pathlib
def leaf(n): return n
def grow(depth): return leaf(depth) if depth == 0 else grow(depth - 1)
pathlib.Path("asleep").touch()
number = 0
while not os.path.exists("read"):
    number += 1
    exec(f"def f(): return grow({number % 60})\\nf()")
"""
    program = began(runs, source)
    calls = []
    while program.poll() is None:
        done = top(runs, "--json")
        views = json.loads(done.stdout or "[]")
        if len(views) < 2:
            break  # it is being stored
        _, routines = views
        calls.append(sum(row["calls"] for row in routines["rows"]))
        if len(calls) == 20:
            (runs.folder / "read").touch()
    (runs.folder / "read").touch()
    assert len(calls) > 3 and calls == sorted(calls)
    program.wait()
    assert runs.one("SELECT state FROM trial") == "complete"


# --- containers, batch jobs, limits


def control_group():
    """A new control group of version 2; None where this user may not make one."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    for words in map(str.split, mounts):
        group = Path(words[1]) / f"taupy-test-{os.getpid()}"
        if words[2] == "cgroup2" and os.access(group.parent, os.W_OK):
            try:
                group.mkdir()
            except OSError:
                continue
            if (group / "cgroup.kill").exists():
                return group
            group.rmdir()
    return None


@pytest.fixture
def cgroup():
    if (group := control_group()) is None:
        pytest.skip("no control group (version 2, Linux 5.14) can be made here")
    yield group
    wait_for(lambda: "populated 0" in (group / "cgroup.events").read_text())
    group.rmdir()


def test_a_control_group_that_is_killed_ends_with_its_last_heartbeat(runs, native, cgroup):
    program = began(
        runs, SLEEPER, preexec_fn=lambda: (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    )
    watch = watch_of(runs)
    assert str(watch) in (cgroup / "cgroup.procs").read_text().split()
    wait_until_it_has_beaten(runs, 1.3)
    (cgroup / "cgroup.kill").write_text("1")
    program.wait()
    wait_for(lambda: not process_start(watch))
    at_most = ran(runs)
    time.sleep(1)  # the end is the last heartbeat, not when somebody looked
    runs.taupy("trials")
    assert 1 < slept(runs) < at_most
    said = runs.metadata("taupy.health.cut_off")
    assert "together with what watched it" in said or "ended by SIGKILL after" in said


@pytest.mark.slow
def test_process_1_of_a_container_has_no_watch_and_says_so(runs, native):
    (runs.folder / "prog.py").write_text("import os; print(os.getpid())")
    inside = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("unshare may not make a process namespace here")
    command = [*inside, sys.executable, "-m", "taupy", "run", "--quiet", "prog.py"]
    done = subprocess.run(
        command, cwd=runs.folder, env=runs.environ(), capture_output=True, text=True
    )
    assert done.stdout == "1\n"
    runs.taupy("trials")
    assert "taupy was process 1" in runs.metadata("taupy.watch")


@pytest.mark.slow
def test_where_processes_are_limited_there_is_no_watch(runs, native):
    (runs.folder / "prog.py").write_text("pass")
    line = f"ulimit -u 500; exec {sys.executable} -m taupy run --quiet prog.py"
    subprocess.run(["bash", "-c", line], cwd=runs.folder, env=runs.environ(), check=True)
    assert "ulimit -u" in runs.metadata("taupy.watch")
