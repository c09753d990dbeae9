"""Forked children that have ended alike, added up in one row when the trial is stored."""

from __future__ import annotations

from tests.engine.test_thread_rows import events, rows, sums

CHILDREN = """
import multiprocessing, os, subprocess, sys, threading
from taupy import user_event
def leaf(n):
    if n: leaf(n - 1)
def even(n):
    leaf(n % 5)
    user_event("size", n)
def odd(n):
    leaf(3)
    fed = threading.Thread(target=leaf, args=(n % 3,))
    fed.start()
    fed.join()
def fails(n): leaf(1)
def starts(n): subprocess.run(["true"])
def fork(work, n, code=0):
    child = os.fork()
    if child == 0:
        work(n)
        os._exit(code)
    os.waitpid(child, 0)
for n in range(12):
    fork(even, n)
    fork(odd, n)
    fork(fails, n, code=n % 2)
for n in range(6):
    fork(starts, n)
forking = multiprocessing.get_context("fork")
for n in range(6):
    job = forking.Process(target=even, args=(n,))
    job.start()
    job.join()
with forking.Pool(6) as pool:
    pool.map(leaf, range(12), 1)
    pool.close()
    pool.join()
"""


def test_children_added_up_have_the_calls_of_children_apart(runner):
    added = runner.run(CHILDREN, "native", "--threads", "2")
    apart = runner.run(CHILDREN, "native", "--threads", "all")
    assert sums(added) == sums(apart)
    assert events(added, "size") == events(apart, "size")
    assert sorted(added.sql("SELECT name, count FROM thread WHERE count > 1")) == [
        ("processes 3 to 12 of even", 10),
        ("processes 3 to 12 of odd", 10),
        ("processes 3 to 12 of odd, Thread-1 (leaf)", 10),
        ("processes 3 to 6 of even", 4),  # multiprocessing forks elsewhere
        ("processes 3 to 6 of fails", 4),  # with exit code 0
        ("processes 3 to 6 of fails", 4),
    ]
    assert not rows(apart)
    assert added.sql("SELECT sum(count) FROM thread") == apart.sql("SELECT count(*) FROM thread")
    (why,) = added.sql("SELECT value FROM metadata WHERE name = 'taupy.health.children_added'")
    assert why[0].startswith("32 forked children that had ended are shown as 5, ")


LARGE = """
import os
def job(pages):
    kept = bytearray(4096 * pages)
    for page in range(pages): kept[4096 * page] = 1
for n in range(5):
    child = os.fork()
    if child == 0:
        job(20_000 if n == 3 else 1)
        os._exit(7)
    os.waitpid(child, 0)
"""
FACTS = """
    SELECT fact.name, fact.value FROM metadata AS fact
      JOIN metadata AS code ON code.node = fact.node AND code.name = 'Exit Code'
     WHERE code.value = ?
"""


def test_a_row_of_processes_has_their_exit_code_and_the_largest_memory(runner):
    added = runner.run(LARGE, "native", "--threads", "1")
    facts = dict(added.sql(FACTS, "7"))
    assert facts["Processes"] == "4"
    assert int(facts["Peak Resident Memory (KiB)"]) > 80_000
    assert float(facts["CPU Time User (s)"]) + float(facts["CPU Time System (s)"]) > 0


def test_a_trace_keeps_each_child(runner):
    traced = runner.run(CHILDREN, "native", "--threads", "2", "--trace")
    assert not rows(traced)
