"""Threads that end while others are read: `make sanitize` looks for races in these programs."""

from __future__ import annotations

import pytest

from taupy.collectors import perf_events
from tests.engine.conftest import has_native

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")

STATUS = {counter.name: counter.status for counter in perf_events.available()}

# A page of new memory is one fault; each thread touches a hundred.
ENDING = """
import mmap, threading, taupy

def work():
    memory = mmap.mmap(-1, 100 * 4096)
    memory.madvise(15)  # no huge pages
    for page in range(100):
        memory[page * 4096] = 1

for round in range(20):
    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    taupy.snapshot("while they end")
    for worker in workers:
        worker.join()
"""


@pytest.mark.slow
@pytest.mark.skipif(STATUS["page_faults"] != "ok", reason=f"no counters: {STATUS['page_faults']}")
def test_counters_of_threads_that_end_during_a_snapshot_are_kept_once(runner):
    trial = runner.run(ENDING, "native", "--metrics", "page_faults", "--counters-at", "calls")
    faults = trial.sql(
        """SELECT value.exclusive FROM interval_value AS value
             JOIN metric ON metric.id = value.metric_id AND metric.name = 'page_faults'
             JOIN callpath ON callpath.id = value.callpath_id
             JOIN timer ON timer.id = callpath.timer_id
            WHERE timer.short_name = 'work'
              AND value.trial_id = (SELECT min(id) FROM trial)"""
    )
    assert len(faults) == 160
    # Counted twice there would be 200; the sanitizer's own memory has faults, too.
    assert [count for (count,) in faults if not 100 <= count < 200] == []


def test_a_forks_child_begins_where_its_parent_was_though_that_goes_on(runner, native):
    # From 3.12 on the parent warns of the threads at once, which imports and calls much.
    trial = runner.run(
        """
import os, threading
def work(): pass
def forks():
    if os.fork() == 0:
        work()
        os._exit(0)
    os.wait()
for _ in range(5):
    thread = threading.Thread(target=threading.Event().wait, args=(5,), daemon=True)
    thread.start()
    forks()
""",
        native,
    )
    places = {path.names for path in trial.paths() if path.names[-1] == "work"}
    assert places == {(".taupy application", "<module>", "forks", "work")}


def test_objects_that_go_while_python_ends_may_take_long(runner, native):
    trial = runner.run(
        """
import time
class Slow:
    def close(self): time.sleep(0.03)
    def __del__(self, close=close, sleep=time.sleep):
        for _ in range(3):
            close(self)
            sleep(0.03)
kept = [Slow()]
kept.append(kept)  # goes with the modules
import sys
sys.kept = kept
""",
        native,
    )
    assert "Fatal" not in trial.stderr
