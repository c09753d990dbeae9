"""Threads that have ended, added up in one row while the program runs."""

from __future__ import annotations

import sys

import pytest

from tests.engine.conftest import Trial

MANY = """
import threading, concurrent.futures
from taupy import user_event
pending = []
def leaf(n):
    if n: leaf(n - 1)
def count(upto):
    for n in range(upto):
        leaf(n)
        yield n
def left_open():
    suspended = count(3)
    next(suspended)
    pending.append(suspended)
def one(n):
    for _ in count(n % 4): pass
    user_event("size", n)
    left_open()
    if pending and n % 3 == 0: list(pending.pop(0))
def two():
    for f in routes: f()
routes = [eval(f"lambda: {n}", {}) for n in range(12)]
for n, f in enumerate(routes):
    f.__code__ = f.__code__.replace(co_name=f"route{n}", co_qualname=f"route{n}")
class Own(threading.Thread):
    def run(self): leaf(2)
def begin(kind, n):
    if kind == 0: return threading.Thread(target=one, args=(n,))
    if kind == 1: return threading.Thread(target=two)
    if kind == 2: return Own()
    return threading.Thread(target=one, args=(n,), name=f"mine {n}")
for start in range(0, 120, 6):
    threads = [begin(n % 4, n) for n in range(start, start + 6)]
    for t in threads: t.start()
    for t in threads: t.join()
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    list(pool.map(leaf, [1] * 8))
"""


def sums(trial: Trial) -> dict[tuple[str, ...], tuple[int, int]]:
    """Calls and subroutines of the program's own call paths, over all threads. (Those of the module
    threading depend on who comes first.)"""
    summed: dict[tuple[str, ...], tuple[int, int]] = {}
    for path in trial.paths():
        if path.files[-1] != "prog.py":
            continue
        calls, below = summed.get(path.names, (0, 0))
        summed[path.names] = calls + path.calls, below + path.subroutines
    return summed


def rows(trial: Trial) -> dict[str, int]:
    """The number of threads of each row of several."""
    return dict(trial.sql("SELECT name, count FROM thread WHERE count > 1"))


def events(trial: Trial, name: str) -> tuple[float, ...]:
    """Count, sum, smallest and largest value of a user event."""
    query = """SELECT sum(value.count), sum(value.count * mean), min(minimum), max(maximum)
                 FROM user_event_value AS value
                 JOIN user_event AS event ON event.id = value.user_event_id
                WHERE event.name = ?"""
    return trial.sql(query, name)[0]


@pytest.mark.parametrize("options", [(), ("--cpu-time",), ("--c-calls",)])
def test_threads_added_up_have_the_calls_of_threads_apart(runner, options):
    added = runner.run(MANY, "native", "--threads", "3", *options)
    apart = runner.run(MANY, "native", "--threads", "all", *options)
    assert sums(added) == sums(apart)
    began = ("one", "two", "Own.run")
    assert rows(added) == {f"threads 4 to 30 of {name}": 27 for name in began}
    assert not rows(apart)
    assert added.sql("SELECT sum(count) FROM thread") == apart.sql("SELECT count(*) FROM thread")
    assert events(added, "size") == events(apart, "size")
    assert events(added, "Thread CPU Time")[0] == events(apart, "Thread CPU Time")[0]


IN_TURN = """
import threading, _thread
def leaf(n):
    if n: leaf(n - 1)
def wait(on):
    here.release()
    on.acquire()
def first(on):
    leaf(60)
    wait(on)
def second(on):
    if on is not None:
        leaf(5)
        wait(on)
    leaf(60)
def locked():
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock
def begin(target, on):
    threads.append(threading.Thread(target=target, args=(on,)))
    threads[-1].start()
    if on is not None: here.acquire()
here, threads, locks = locked(), [], [locked() for _ in range(6)]
for on in locks[1:]: begin(first, on)
for on, t in zip(locks[1:], threads.copy()):
    on.release()
    t.join()
begin(second, locks[0])
begin(second, None)
threads[-1].join()
locks[0].release()
threads[-2].join()
"""


def test_call_paths_are_read_whatever_memory_is_used_again(runner):
    """The last thread to end has its first call paths behind its further ones in the file."""
    trial = runner.run(IN_TURN, "native", "--threads", "1")
    assert sum(calls for path, (calls, _) in sums(trial).items() if "leaf" in path[-1]) == 433


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="a join waits for the system there")
def test_threads_that_only_the_system_has_not_ended_are_added_up(runner):
    trial = runner.run(
        """
import ctypes, threading
system = ctypes.CDLL(None)
pause = ctypes.cast(system.pause, ctypes.c_void_p)
def work():
    "Its system thread stays before its destructors."
    system.__cxa_thread_atexit_impl(pause, None, pause)
    leaf()
def leaf(): pass
for _ in range(20):
    t = threading.Thread(target=work); t.start(); t.join()
""",
        "native",
        "--threads",
        "3",
    )
    assert rows(trial) == {"threads 4 to 20 of work": 17}
    assert trial.calls("prog.py")["leaf"] == 20


def test_only_threads_without_a_name_of_their_own_are_added_up(runner):
    trial = runner.run(MANY, "native", "--threads", "3")
    began = {name.rpartition(" of ")[2] for name in rows(trial)}
    assert began == {"one", "two", "Own.run"}
    names = {name for (name,) in trial.sql("SELECT name FROM thread WHERE count = 1")}
    assert names >= {f"mine {n}" for n in range(3, 120, 4)}
    assert sum(name.startswith("ThreadPoolExecutor-") for name in names) == 1
    assert "had ended are shown as 3, one" in trial.metadata()["taupy.health.threads_added"]
    assert "had ended are shown as 3, one" in trial.stderr


def test_a_row_knows_how_long_its_threads_took(runner):
    trial = runner.run(
        """
import os, threading, time
now = time.perf_counter_ns
within, around = [], []
def nap(s):
    begin = now(); time.sleep(s); within.append(now() - begin)
for s in (0.001, 0.001, 0.05, 0.001, 0.1, 0.001, 0.001, 0.2):
    begin = now()
    t = threading.Thread(target=nap, args=(s,)); t.start(); t.join()
    while os.path.exists(f"/proc/self/task/{t.native_id}"): time.sleep(0.001)
    around.append(now() - begin)
for took in within, around: print(min(took[2:]), max(took[2:]))
threading.Thread(target=nap, args=(60,), daemon=True).start()
""",
        "native",
        "--threads",
        "2",
    )
    ((name, count, least, most, whole),) = trial.sql(
        """SELECT thread.name, count, least_ns, most_ns, value.inclusive
             FROM thread JOIN thread_metric AS metric ON metric.thread_id = thread.id
             JOIN interval_value AS value ON value.thread_id = thread.id
              AND value.inclusive = metric.largest_inclusive
            WHERE count > 1 LIMIT 1"""
    )
    assert (name, count) == ("threads 3 to 8 of nap", 6)
    (least_within, most_within), (least_around, most_around) = (
        map(int, line.split()) for line in trial.stdout.splitlines()
    )
    assert least_within <= least <= least_around
    assert most_within <= most <= most_around
    assert most < whole
    assert count * least <= whole <= count * most


def test_memory_does_not_grow_with_the_threads_that_have_ended(runner):
    program = """
import os, threading
def work(): leaf()
def leaf(): pass
def some(n):
    for _ in range(n):
        t = threading.Thread(target=work); t.start(); t.join()
        while os.path.exists(f"/proc/self/task/{t.native_id}"): os.sched_yield()
def part():
    "KiB of the part's file in memory"
    sizes, ours = 0, False
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0] and not line.split()[0].endswith(":"):
            ours = line.rstrip().endswith(".part")
        elif ours and line.startswith("Rss:"):
            sizes += int(line.split()[1])
    return sizes
some(400)
before = part()
some(2000)
print(before, part())
"""
    trial = runner.run(program, "native", "--threads", "10")
    before, after = map(int, trial.stdout.split())
    assert before > 0
    assert after <= before + 64
    assert trial.calls("prog.py")["leaf"] == 2400


def test_a_process_killed_while_threads_come_and_go_has_lost_nothing(runner):
    trial = runner.run(
        """
import os, signal, threading
done = 0
def work(): leaf()
def leaf():
    global done
    done += 1
    if done == 500: os.kill(os.getpid(), signal.SIGKILL)
if not os.fork():
    for _ in range(1000):
        t = threading.Thread(target=work); t.start(); t.join()
os.wait()
""",
        "native",
        "--threads",
        "5",
    )
    assert trial.calls("prog.py")["leaf"] == 500
    assert trial.sql("SELECT max(count) FROM thread")[0][0] > 400


def test_a_child_forked_between_threads_has_rows_of_its_own(runner):
    trial = runner.run(
        """
import os, threading
def work(): leaf()
def leaf(): pass
def some(n):
    for _ in range(n):
        t = threading.Thread(target=work); t.start(); t.join()
some(30)
if pid := os.fork():
    os.waitpid(pid, 0)
    some(20)
else:
    some(40)
""",
        "native",
        "--threads",
        "5",
    )
    leaves = dict(
        trial.sql(
            """SELECT thread.node, sum(call.calls) FROM call JOIN thread ON thread.id = thread_id
                 JOIN callpath ON callpath.id = callpath_id
                 JOIN timer ON timer.id = timer_id WHERE timer.short_name = 'leaf' GROUP BY 1"""
        )
    )
    assert leaves == {0: 50, 1: 40}
    threads = dict(trial.sql("SELECT node, sum(count) FROM thread GROUP BY node"))
    assert threads == {0: 51, 1: 41}
    assert {node for (node,) in trial.sql("SELECT node FROM thread WHERE count > 1")} == {0, 1}


@pytest.mark.parametrize("options", [("--trace=host",), ("--lines=exact", "--include", "leaf")])
def test_threads_stay_apart_where_their_call_paths_are_noted_one_by_one(runner, options):
    trial = runner.run(
        """
import threading
def leaf(): pass
for _ in range(40):
    t = threading.Thread(target=leaf); t.start(); t.join()
""",
        "native",
        "--threads",
        "2",
        *options,
    )
    assert trial.sql("SELECT count(*), max(count) FROM thread") == [(41, 1)]


def test_threads_that_end_while_others_work_are_added_up_exactly(runner):
    trial = runner.run(
        """
import sys, threading
sys.setswitchinterval(0.0002)
def leaf(): pass
def work(n):
    for _ in range(n): leaf()
def long():
    while not over: leaf_of_long()
def leaf_of_long(): pass
over = False
others = [threading.Thread(target=long) for _ in range(4)]
for t in others: t.start()
for _ in range(60):
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
over = True
for t in others: t.join()
""",
        "native",
        "--threads",
        "4",
    )
    assert trial.calls("prog.py")["leaf"] == 60 * sum(range(8))
    assert trial.calls("prog.py")["work"] == 480
    assert sum(rows(trial).values()) > 400
