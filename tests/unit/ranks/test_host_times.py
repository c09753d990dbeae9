"""Traces of hosts whose clocks differ are shown on one clock."""

from __future__ import annotations

import json

from taupy.commands import main
from taupy.model.gpu import Activity
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.ranks.host_times import offsets_ns
from tests.builders import SAMPLED_FROM_NS, call, collectives, host, profile_of

AHEAD_NS = 3_600_000_000_000


def rank(number: int, began_ns: int, **facts: str):
    """Collectives that end at the same time, 4 and 5 s after the first rank has begun."""
    measured = profile_of(
        host(call("main", 1, 10_000_000_000), number),
        started_at=(SAMPLED_FROM_NS + began_ns) / 1e9,
        duration_ns=8_000_000_000,
        node_metadata={
            number: {
                "Starting Timestamp": str((SAMPLED_FROM_NS + began_ns) // 1000),
                "Ending Timestamp": str((SAMPLED_FROM_NS + began_ns) // 1000 + 8_000_000),
                **facts,
            }
        },
    )
    by_clock = AHEAD_NS * (began_ns >= AHEAD_NS)
    moments = [by_clock + second * 1_000_000_000 for second in (4, 5, 6)]
    thread = measured.threads[0]
    thread.collectives = [
        collectives([moment - 1000 for moment in moments], moments, ranks="0-1", size=2)
    ]
    thread.activities = [
        Activity(0, "range", SAMPLED_FROM_NS + moments[0], SAMPLED_FROM_NS + moments[1])
    ]
    return measured


def test_a_trace_of_hosts_an_hour_apart_is_on_one_clock(tmp_path, capsys):
    """Host b began 2 s later; by the start of its processes alone its clock would be 2 s off."""
    path = tmp_path / "a.db"
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, rank(1, AHEAD_NS + 2_000_000_000, Hostname="b"))
        add_profile(db, rank(0, 0, Hostname="a"))
        assert offsets_ns(db, 1) == {1: AHEAD_NS}
        assert db.trial(1).duration_ns == 8_000_000_000
    target = tmp_path / "trace.json"
    assert main(["export", "1", "-o", str(target), "--format", "chrome", "--db", str(path)]) == 0
    assert "note: the clock of node 1 is 1 h 00 min ahead" in capsys.readouterr().err
    slices = [event for event in json.loads(target.read_text())["traceEvents"] if "dur" in event]
    assert len(slices) == 2
    assert len({event["ts"] for event in slices}) == 1
