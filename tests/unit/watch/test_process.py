"""The watch, in this process: which ends it sees, how, and how much it works."""

import os
import posix
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from taupy.model.processes import process_start, stat_fields
from taupy.record.part_data import ENDED, EXEC
from taupy.state import container, heartbeat, watch_files
from taupy.state.folder import open_run
from taupy.state.values import dumps
from taupy.watch import beside, ending, pidfds, process, start
from taupy.watch import descendants as descendants_module
from taupy.watch.descendants import Descendants
from taupy.watch.process import INTERVAL_NS, SHARE, Watch


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    for name in (watch_files.HEARTBEAT, watch_files.FOUND, *watch_files.LOOKS):
        (tmp_path / name).touch()
    return open_run(str(tmp_path))


def watch_of(folder, pid):
    return Watch(folder, time.monotonic_ns(), pid)


def sleeper():
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def watched(folder, child, end):
    """What the watch notes of a child that is ended by `end` while it waits."""
    began = process_start(child.pid)
    watch = watch_of(folder, child.pid)
    watch.add(child.pid)
    ended_ns = end()
    watch.run()
    beat, ends = heartbeat.read(folder)
    (noted,) = ends
    assert beat.is_over
    assert (noted.pid, noted.start) == (child.pid, began)
    return noted, noted.ended_ns - ended_ns


def killed(child, number=signal.SIGKILL):
    now = time.monotonic_ns()
    child.send_signal(number)
    return now


def test_a_kill_is_noted_with_its_signal_and_its_moment(folder):
    with sleeper() as child:
        noted, behind_ns = watched(folder, child, lambda: killed(child, signal.SIGTERM))
    assert noted.status == signal.SIGTERM
    assert 0 <= noted.late_ns < 20_000_000_000  # not 0 if it was dead before the first look
    assert 0 < behind_ns < 20_000_000_000


def test_an_exit_code_is_noted_of_a_process_that_nobody_waits_for(folder):
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    noted, _ = watched(folder, child, time.monotonic_ns)
    assert os.waitstatus_to_exitcode(noted.status) == 3
    child.wait()


def test_without_pidfds_a_process_is_looked_at_in_each_round(folder, monkeypatch):
    def refused(pid):
        raise OSError

    monkeypatch.setattr(posix, "pidfd_open", refused)
    with sleeper() as child:
        noted, _ = watched(folder, child, lambda: killed(child))
    assert noted.status == signal.SIGKILL
    assert 0 < noted.late_ns < 20_000_000_000  # it was last seen alive one round before


def test_a_process_that_had_ended_when_its_part_was_found_is_noted_too(folder, tmp_path):
    child = sleeper()
    child.kill()
    child.wait()
    (tmp_path / f"{child.pid}-1.part").touch()
    watch = watch_of(folder, child.pid)
    watch.find()
    _, ends = heartbeat.read(folder)
    assert [(end.pid, end.start, end.status) for end in ends] == [(child.pid, 0, None)]


def test_a_program_that_ended_before_the_watch_began_did_so_since_the_launch(folder):
    child = sleeper()
    killed(child)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    watch = Watch(folder, time.monotonic_ns() - 5_000_000_000, child.pid)
    watch.add(child.pid)
    watch.run()
    (noted,) = heartbeat.read(folder)[1]
    assert noted.late_ns >= 5_000_000_000
    child.wait()


def test_each_part_is_watched_once_even_if_a_program_became_another(folder, tmp_path):
    with sleeper() as child:
        for number in (1, 2):
            (tmp_path / f"{child.pid}-{number}.part").touch()
        watch = watch_of(folder, child.pid)
        watch.find()
        assert list(watch.living) == [child.pid]
        assert len(watch.by_pidfd) == 1
        child.kill()


def test_it_ends_when_the_run_folder_is_gone(folder, tmp_path):
    with sleeper() as child:
        watch = watch_of(folder, child.pid)
        watch.add(child.pid)
        folder.remove()
        watch.run()  # returns though the child lives
        assert child.poll() is None
        child.kill()


def test_without_a_further_process_the_watch_becomes_the_storer(folder, tmp_path, monkeypatch):
    (tmp_path / "run").write_bytes(dumps({"engine_options": {"storer_argv": [b"/store", b"it"]}}))
    became = []

    def refused(*_):
        raise BlockingIOError

    monkeypatch.setattr(posix, "posix_spawn", refused)
    monkeypatch.setattr(posix, "execve", lambda path, command, _: became.append(command))
    child = sleeper()
    (tmp_path / f"{child.pid}-1.part").touch()
    killed(child)
    watch = watch_of(folder, child.pid)
    watch.add(child.pid)
    watch.run()
    assert became == [[b"/store", b"it", b"watch"]]
    child.wait()


def test_a_round_that_cost_much_is_followed_by_a_long_pause(folder, monkeypatch):
    watch = watch_of(folder, os.getpid())
    assert watch.pause_ns() == INTERVAL_NS  # a few dear rounds are on credit
    watch.credit_ns = 0
    for spent_ns, pause_ns in ((0, INTERVAL_NS), (600_000, INTERVAL_NS), (5_000_000, 750_000_000)):
        monkeypatch.setattr(process.time, "thread_time_ns", lambda: watch.cpu_ns + spent_ns)  # noqa: B023
        assert watch.pause_ns() == pause_ns
    assert SHARE == 150


def test_naps_do_not_grow_shorter_until_they_spend_what_they_save(folder, monkeypatch):
    """Each costs as much as half the time to the next: a pause ends all the same."""
    clock, slept = [0, 0], []  # real and CPU time
    watch = watch_of(folder, os.getpid())
    watch.epoll = watch.others = SimpleNamespace(poll=lambda seconds: [])

    def sleep(seconds):
        slept.append(seconds)
        clock[0] += int(seconds * 1e9)
        clock[1] += INTERVAL_NS // SHARE // 2

    monkeypatch.setattr(process.time, "monotonic_ns", lambda: clock[0])
    monkeypatch.setattr(process.time, "thread_time_ns", lambda: clock[1])
    monkeypatch.setattr(process, "_sleep", sleep)
    watch.account = lambda hurried: None
    watch.looked_ns = watch.cpu_ns = watch.credit_ns = 0
    clock[1] = 10 * INTERVAL_NS // SHARE  # ten rounds' worth
    watch.wait()
    assert len(slept) == 20
    assert set(slept) == {INTERVAL_NS / 1e9}


def test_a_process_that_is_alive_or_missing_has_no_status():
    assert ending.status(os.getpid(), 0, -1) is None  # it lives
    assert ending.status(1 << 22, 0, -1) is None


@pytest.mark.parametrize(("limit", "why"), [(-1, ""), (100_000, ""), (200, "ulimit -u")])
def test_there_is_none_where_processes_are_limited(folder, tmp_path, monkeypatch, limit, why):
    for name in (watch_files.HEARTBEAT, watch_files.FOUND, *watch_files.LOOKS):
        (tmp_path / name).unlink()
    begun = []
    monkeypatch.setattr(os, "sysconf", lambda name: limit)
    monkeypatch.setattr(beside, "begun", lambda *a: begun.append(a) or (os.open("/dev/null", 0), 9))
    said = start.begin(folder, 50)
    assert why in said
    assert bool(begun) == (why == "")


def test_there_is_none_beside_process_1(folder):
    assert "process 1" in start.begin(folder, 1)


def test_what_would_be_our_child_is_ended_at_once():
    """A subreaper adopts orphans: what was started is then a child of the program."""
    code = (
        "import ctypes, os; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"  # PR_SET_CHILD_SUBREAPER
        "from taupy.watch import beside\n"
        "print(beside.begin('tests.unit.collectors.answers', []))\n"
        "try: os.waitpid(-1, os.WNOHANG)\n"
        "except ChildProcessError: print('no child')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "None\nno child\n", done.stderr


def test_no_process_is_started_where_none_is_allowed(monkeypatch):
    def refused():
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert beside.begin("tests.unit.collectors.answers", []) is None


def wait_for_commands(session, commands):
    """Until processes of a session, at first copies of their parents, run these commands."""
    until, running = time.monotonic() + 60, set()
    while not running.issuperset(commands):
        assert time.monotonic() < until, running
        time.sleep(0.01)
        processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        running = {
            Path(f"/proc/{pid}/cmdline").read_bytes()
            for pid in processes
            if (fields := stat_fields(pid)) and int(fields[3]) == session
        }


@pytest.mark.parametrize("kernel", ["new", "before 6.13", "before 5.3"])
def test_processes_below_the_program_are_found_with_their_commands(folder, monkeypatch, kernel):
    """Also a grandchild, and a process that becomes another one meanwhile."""
    if kernel != "new":
        monkeypatch.setattr(pidfds, "parent", lambda pidfd: None)
    if kernel == "before 5.3":
        monkeypatch.delattr(posix, "pidfd_open")
    code = (
        "import subprocess, time; subprocess.Popen(['sleep', '60']);"
        "subprocess.Popen('sleep 61 & read go; exec sleep 62', shell=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdin=subprocess.PIPE
    )
    watch = watch_of(folder, child.pid)
    watch.add(child.pid)
    sleeps = [b"sleep\0" + b"6%d\0" % number for number in range(3)]
    try:
        wait_for_commands(child.pid, sleeps[:2])
        watch.account()
        child.stdin.write(b"go\n")
        child.stdin.flush()
        wait_for_commands(child.pid, sleeps)
        watch.account()
        found = {one.command: one for one in heartbeat.read_seen(folder)}
        assert sorted(found) == sleeps
        shell = found[b"sleep\x0062\0"]
        assert shell.parent == child.pid == found[b"sleep\x0060\0"].parent
        assert found[b"sleep\x0061\0"].parent == shell.pid
        assert {one.pid for one in found.values()} <= watch.living.keys()
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def test_a_process_that_executes_its_program_late_has_its_command(folder):
    """On a busy machine it may still be a copy of its parent at the second look."""
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0: sys.stdin.readline(); os.execlp('sleep', 'sleep', '63')\n"
        "time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stdin=subprocess.PIPE
    )
    watch = watch_of(folder, child.pid)
    watch.add(child.pid)

    def commands():
        watch.account()
        return [one.command for one in heartbeat.read_seen(folder)]

    try:
        until = time.monotonic() + 60
        while not (found := commands()):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert found == [Path(f"/proc/{child.pid}/cmdline").read_bytes()]
        child.stdin.write(b"go\n")
        child.stdin.flush()
        wait_for_commands(child.pid, [b"sleep\x0063\0"])
        assert commands() == [b"sleep\x0063\0"]
        assert commands() == [b"sleep\x0063\0"] and not watch.descendants.copies
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def last_begun(monkeypatch, number):
    text = b"0.1 0.2 0.3 1/2 %d\n" % number
    monkeypatch.setattr(descendants_module, "_last_begun", lambda: int(text.split()[-1]))


def test_proc_is_listed_only_if_many_processes_have_begun(monkeypatch):
    descendants, listed = Descendants(os.getpid(), "/run"), []
    monkeypatch.setattr(posix, "listdir", lambda path: listed.append(path) or ["1"])
    for number in (77, 77, 78, 79, 100, 100, 100_000, 100_001, 5):
        last_begun(monkeypatch, number)
        descendants.look(0)
    assert len(listed) == 3  # at first, after many, and when numbers begin anew


def test_a_process_that_is_not_to_be_seen_yet_is_found_at_the_next_look(monkeypatch):
    descendants = Descendants(os.getpid(), "/run")
    descendants.look(0)
    with sleeper() as child:
        last_begun(monkeypatch, child.pid)
        descendants.newest = child.pid - 1
        with monkeypatch.context() as hidden:
            hidden.setattr(descendants_module, "_born", lambda pid: None)
            descendants.look(1)
        assert not descendants.pending
        descendants.look(2)
        assert [found.pid for found in descendants.pending] == [child.pid]
        child.kill()


def test_threads_of_a_process_are_not_taken_for_processes():
    code = (
        "import threading, time; time.sleep(0.3)\n"
        "for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "time.sleep(60)"
    )
    descendants = Descendants(os.getpid(), "/run")
    descendants.look(0)
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        found = set()
        for _ in range(10):
            time.sleep(0.1)
            descendants.look(0)
            found |= {one.pid for one in descendants.pending}
        assert found == {child.pid}
        child.kill()


def test_what_came_and_went_between_two_looks_that_were_far_apart_is_counted(monkeypatch):
    descendants = Descendants(os.getpid(), "/run")
    monkeypatch.setattr(posix, "listdir", lambda path: [])
    monkeypatch.setattr(descendants_module, "_born", lambda pid: None)
    ms = 1_000_000
    for now, number in ((0, 70), (100, 80), (400, 90), (500, 95), (900, 1000)):
        last_begun(monkeypatch, number)
        descendants.look((1 + now) * ms)
    assert descendants.longest_ns == 400 * ms
    assert descendants.unseen == 10 + 905


def test_in_a_hurry_many_processes_wait_for_the_next_look(monkeypatch):
    descendants, listed = Descendants(os.getpid(), "/run"), []
    monkeypatch.setattr(posix, "listdir", lambda path: listed.append(path) or ["1"])
    descendants.look(1)
    for now, (number, hurried) in enumerate(((1 << 20, True), ((1 << 20) + 5, False)), 2):
        last_begun(monkeypatch, number)
        descendants.look(now, hurried)
    assert len(listed) == 2


def test_a_pause_still_finds_new_processes_and_writes_the_heartbeat(folder, monkeypatch):
    with sleeper() as child:
        watch = watch_of(folder, os.getpid())
        watch.descendants.look(0)
        before = watch.beat.beat_ns
        monkeypatch.setattr(watch, "pause_ns", lambda: 1_000_000_000)
        other = sleeper()
        watch.looked_ns, watch.cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        watch.wait()
        assert other.pid in {found.pid for found in heartbeat.read_seen(folder)}
        assert heartbeat.read(folder)[0].beat_ns > before
        for one in (child, other):
            one.kill()
            one.wait()


def test_rounds_have_no_period(folder, monkeypatch):
    watch, lengths = watch_of(folder, os.getpid()), []
    monkeypatch.setattr(watch, "take_ends", lambda seconds: None)
    monkeypatch.setattr(watch, "pause_ns", lambda: 0)
    for _ in range(200):
        watch.wait()
        lengths.append(watch.round_ns)
    assert 0.69 * INTERVAL_NS < min(lengths) < 0.72 * INTERVAL_NS
    assert 0.98 * INTERVAL_NS < max(lengths) <= INTERVAL_NS
    assert len(set(lengths)) > 190


def test_a_program_that_lasts_gets_its_watch_and_one_that_has_ended_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "_STEP_MS", 1)
    began = time.monotonic_ns()
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    seen, _ = start._wanted(str(tmp_path), program.pid, 7)
    assert began < int(seen) < time.monotonic_ns()
    program.communicate()
    assert start._wanted(str(tmp_path), program.pid, 7) == [
        "7",
        "-1",
    ]  # killed, or its children go on
    assert start._wanted(str(tmp_path / "stored"), program.pid, 7) is None


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_program_that_is_being_stored_gets_a_watch_only_if_it_is_killed(
    tmp_path, monkeypatch, is_stored
):
    """The storer may take longer than the program: then nothing is left to be watched."""
    monkeypatch.setattr(start, "_STEP_MS", 1)
    program = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    header = dict.fromkeys(container.Header._fields, 0) | {"magic": b"", "state": ENDED}
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / f"{program.pid}-1.part").write_bytes(container._HEADER.pack(*header.values()))
    looked, look = threading.Event(), start._is_being_stored

    def looks(path, pid):
        found = look(path, pid)
        looked.set()
        return found

    monkeypatch.setattr(start, "_is_being_stored", looks)
    with ThreadPoolExecutor() as pool:
        wanted = pool.submit(start._wanted, str(folder), program.pid, 7)
        assert looked.wait(60)
        assert not wanted.done()
        if is_stored:
            shutil.rmtree(folder)
        program.communicate()
        assert (wanted.result(60) is None) == is_stored


@pytest.mark.parametrize("others", [["50-1.part"], ["9-1.part"], ["9-1.part", "50-1.part"], []])
def test_children_and_programs_that_became_another_are_watched_while_one_is_stored(
    tmp_path, others
):
    states = {"9-1.part": EXEC, "50-1.part": ENDED}
    for name in others:
        header = dict.fromkeys(container.Header._fields, 0) | {"magic": b"", "state": states[name]}
        (tmp_path / name).write_bytes(container._HEADER.pack(*header.values()))
    assert start._is_being_stored(str(tmp_path), 9) is False
