"""The rule of locks: what threads that live for one request say of a lock."""

from __future__ import annotations

import os
import platform

import pytest

from taupy.analysis.findings import one_busy
from taupy.analysis.findings.waiting import lives
from taupy.model.profile import Timer
from taupy.model.sampled import CPU_TIME, STATES
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report.evidence import trial_of
from tests.builders import call, event, host, profile_of

MS = 1_000_000
SERVER = """
import threading
lock = threading.Lock()
@app.route("/item")
def item(link):
    with lock:
        {under}
    return link
"""


def findings(tmp_path, under, sleeps_ms, works_ms=0, fetches_ms=0):
    """Of a run of 4 s with 40 threads, each of which sleeps and works for so long in `item`."""
    path = tmp_path / "app.py"
    path.write_text(SERVER.format(under=under))
    os.utime(path, (0, 0))
    fetch = call(Timer("fetch", "app.py", 90, path=str(path)), 1, fetches_ms * MS)
    asleep = [event(STATES[2], [sleeps_ms * MS], "ns")]
    routine, own_ms = Timer("item", "app.py", 4, path=str(path)), sleeps_ms + works_ms
    item = call(routine, 1, own_ms * MS, [fetch] * bool(fetches_ms), events=asleep)
    on_cpu = [event(CPU_TIME, [5.0 * MS], "ns")]
    threads = [host(call("serve", 1, 0, [item]), thread=n, events=on_cpu) for n in range(1, 41)]
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        facts = {"Hostname": platform.node()}
        main = host(call("main", 1, 4000 * MS), events=on_cpu)
        add_profile(db, profile_of(main, *threads, metadata=facts, duration_ns=4000 * MS))
        trial = trial_of(db, db.latest())
        return [*one_busy._locked(trial, lives(trial))]


def test_a_lock_that_requests_hold_while_they_fetch(tmp_path):
    """40 threads of 300 ms in 4 s are 3 at a time, so that two others wait for 4 s in all. The
    decorator was called before that."""
    (found,) = findings(tmp_path, "price = fetch(link)", 100, 160, 40)
    assert found.sentence == (
        "40 threads wait 4.00 s in all for the lock that item (app.py:5) takes, while one of them "
        "holds it in fetch for 1.60 s"
    )
    assert found.saved_ns == 2000 * MS


@pytest.mark.parametrize(("sleeps_ms", "is_found"), [(100, False), (300, True)])
def test_requests_one_after_another_do_not_wait_for_a_lock(tmp_path, sleeps_ms, is_found):
    """Those of 100 ms each may all sleep in what the lock is held for, within the 4 s."""
    found = findings(tmp_path, "price = link.recv(9)", sleeps_ms)
    assert bool(found) is is_found
    assert all("holds it and waits for recv" in finding.sentence for finding in found)
