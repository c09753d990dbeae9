"""A forked child is measured, or the trial says that it is not: also where it can open no file."""

from __future__ import annotations

import json
import re

import pytest

from tests.integration.conftest import Runs

_PROGRAM = """\
import multiprocessing, os, sys
FOLDERS = ("state", "db")
def hide():
    if sys.argv[2:]:
        for folder in FOLDERS: os.rename(folder, folder + ".away")
def show():
    if sys.argv[2:]:
        for folder in FOLDERS: os.rename(folder + ".away", folder)
def leaf(): pass
def end(pid):
    if not pid:
        leaf()
        os._exit(0)
    os.waitpid(pid, 0)
def fork():
    hide(); end(os.fork()); show()
def forkpty():
    hide(); end(os.forkpty()[0]); show()
def double():
    pid = os.fork()
    if not pid: fork()
    end(pid)
def ignored():
    import signal, time
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    hide()
    pid = os.fork()
    if not pid:
        leaf()
        os._exit(0)
    while os.path.exists(f"/proc/{pid}"): time.sleep(0.01)
    show()
def fork_process(method="fork"):
    child = multiprocessing.get_context(method).Process(target=leaf)
    hide(); child.start(); child.join(); show()
def forkserver():
    other()  # from now on the server runs
    fork_process("forkserver")
    other()  # it can write again
    multiprocessing.forkserver._forkserver._stop()  # what it has lost is known when it has ended
def other():
    child = multiprocessing.get_context("forkserver").Process(target=int)
    child.start(); child.join()
if __name__ == "__main__":
    leaf()
    globals()[sys.argv[1]]()
"""
_FULL = """\
import os, resource
def leaf(): pass
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True: held.append(os.dup(0))
except OSError: pass
pid = os.fork()
if not pid:
    leaf()
    os._exit(0)
os.waitpid(pid, 0)
for descriptor in held: os.close(descriptor)
leaf()
"""
_MANY = """\
import os
def leaf(): pass
for n in range(40):
    if not os.fork():
        leaf()
        os._exit(0)
    if n % 2: os.wait()
for n in range(20): os.wait()
try: os.execv("/nowhere", ["x"])
except OSError: pass
"""
_WAYS = ("fork", "forkpty", "double", "ignored", "fork_process", "forkserver")


class Apart(Runs):
    """The database lies in a folder of its own."""

    @property
    def database(self):
        return self.folder / "db" / "taupy.db"


@pytest.fixture
def apart(tmp_path) -> Runs:
    (tmp_path / "db").mkdir()
    return Apart(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("way", _WAYS)
def test_a_fork_that_can_write_nothing_is_named(apart, native, way):
    done = apart.run(_PROGRAM, "--engine", native, arguments=(way, "hide"))
    assert done.returncode == 0, done.stderr
    assert apart.one("SELECT state FROM trial") == "incomplete"
    named = r"1 forked process left no part \(process (\d+|unknown,) forked by \d+\)"
    assert re.match(named, apart.metadata("taupy.health.lost"))
    assert apart.calls()["leaf"] == (2 if way == "double" else 1)
    assert "1 forked process left no part" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("way", _WAYS)
def test_a_fork_that_leaves_a_part_is_not_called_lost(apart, native, way):
    done = apart.run(_PROGRAM, "--engine", native, arguments=(way,))
    assert done.returncode == 0, done.stderr
    assert apart.one("SELECT state FROM trial") == "complete"
    assert apart.metadata("taupy.health.lost") is None
    assert apart.calls()["leaf"] == (3 if way == "double" else 2)


def test_a_fork_without_a_descriptor_left_is_named(runs, native):
    done = runs.run(_FULL, "--engine", native)
    assert done.returncode == 0, done.stderr
    assert runs.one("SELECT state FROM trial") == "incomplete"
    assert "1 forked process left no part" in runs.metadata("taupy.health.lost")
    assert runs.calls()["leaf"] == 1


_OPEN = """\
import os, threading
def leaf():
    sum(n * n for n in range(200_000))
def child():
    if not os.fork():
        leaf()
        return True
    os.wait()
def deep(depth):
    return deep(depth - 1) if depth else child()
def thread():
    if deep(5): os._exit(0)
def main():
    if deep(30): raise SystemExit
    if os.fork() == 0:
        other = threading.Thread(target=leaf)
        other.start(); other.join()
        os._exit(0)
    os.wait()
    forking = threading.Thread(target=thread)
    forking.start(); forking.join()
main()
"""


@pytest.mark.slow
def test_the_time_that_routines_were_open_is_their_parents(runs, native):
    """Exclusive times of a process add up to its threads' lifetimes, and totals over processes
    count no routine twice that was open when its process was forked."""
    runs.run(_OPEN)
    lives, spent = {}, {}
    for thread, inclusive, exclusive in runs.sql(
        "SELECT thread_id, inclusive, exclusive FROM interval_value JOIN metric"
        " ON metric.id = metric_id AND metric.name = 'time'"
    ):
        lives[thread] = max(lives.get(thread, 0), inclusive)
        spent[thread] = spent.get(thread, 0) + exclusive
    assert spent == lives and len(lives) >= 5
    once = dict(runs.sql(
        "SELECT timer.short_name, sum(CASE WHEN calls > 0 THEN inclusive ELSE exclusive END)"
        " FROM timer_value JOIN timer_call USING (trial_id, thread_id, timer_id)"
        " JOIN metric ON metric.id = metric_id AND metric.name = 'time'"
        " JOIN timer ON timer.id = timer_id GROUP BY timer_id"
    ))  # fmt: skip
    assert sum(once.values()) < sum(dict(runs.sql(
        "SELECT timer_id, sum(inclusive) FROM timer_value JOIN metric ON metric.id = metric_id"
        " AND metric.name = 'time' GROUP BY timer_id"
    )).values())  # fmt: skip
    total, *_ = json.loads(runs.taupy("pprof", "--summary-only", "--json").stdout)
    assert {row["short_name"]: row["inclusive_ns"] for row in total["rows"]} == once
    asked = ("1", "--rows", "routine", "--value", "inclusive", "--json")
    pivoted = json.loads(runs.taupy("pivot", *asked).stdout)["rows"]
    assert {row["routine"]: row["no GPU"] for row in pivoted} == once
    runs.run(_OPEN)
    asked = ("1", "2", "--value", "inclusive", "--json")
    _, compared = json.loads(runs.taupy("compare", *asked).stdout)
    listed = {row["short_name"]: row["a_ns"] for row in compared["rows"]}
    assert {"main", "deep", "child"} <= {*listed} and listed.items() <= once.items()


@pytest.mark.slow
def test_many_forks_are_all_there(runs, native):
    done = runs.run(_MANY, "--engine", native)
    assert done.returncode == 0, done.stderr
    assert runs.one("SELECT state FROM trial") == "complete"
    assert runs.calls()["leaf"] == 40
