"""The activities of a traced trial on its page: who overlaps whom, and what was left out."""

from __future__ import annotations

from taupy.model.rows import ThreadRow
from taupy.profiledb import activities
from taupy.profiledb.activities import ActivityRow
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report import contents
from taupy.report.forest import lane_name, lane_names
from taupy.report.timeline import Timeline
from tests.builders import gpu_profile, small_profile

STREAM = ThreadRow(0, 1, 0, "stream", "stream 7")
HOST = ThreadRow(0, 0, 0, "host", "main")


def test_what_overlaps_stands_a_row_lower():
    timeline = Timeline()
    timeline.add(
        [
            ActivityRow(HOST, "cudaLaunchKernel", "api", 1_010, 1_030),
            ActivityRow(STREAM, "outer", "range", 1_000, 1_100),
            ActivityRow(STREAM, "inner", "kernel", 1_010, 1_020),
            ActivityRow(STREAM, "later", "kernel", 1_100, 1_150),
        ],
        1_000,
    )
    assert [(lane["name"], lane["rows"]) for lane in timeline.lanes] == [
        ("main", [1]),
        ("GPU 0, stream 7", [2, 1]),
    ]
    assert list(timeline.columns["gap"]) == [10, 0, 100, 10]
    assert list(timeline.columns["length"]) == [20, 100, 50, 10]
    assert timeline.end_ns == 150


def test_threads_of_one_name_are_told_apart():
    workers = [ThreadRow(0, 0, at, "host", "worker") for at in (1, 2)]
    timeline = Timeline()
    timeline.add([ActivityRow(at, "parse", "call", 0, 10) for at in [HOST, *workers]], 0)
    assert [lane["name"] for lane in timeline.lanes] == ["main", "worker (1)", "worker (2)"]
    assert lane_names(workers[:1]) == ["worker"]


def test_the_longest_activities_of_a_trial_are_found(tmp_path):
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, gpu_profile(1))
        assert activities.count(db, 1) == 20
        rows = activities.longest(db, 1, 10, {})
        assert {row.end_ns - row.start_ns for row in rows} == {500}
        assert {(row.name, row.kind) for row in rows} == {("gemm", "kernel")}
        timeline = contents.of_trial(db, db.trial(1)).timeline
    assert (timeline.count, len(timeline.columns["gap"])) == (20, 20)
    assert abs(timeline.columns["gap"][0]) < 1_000  # it begins with the trial, to the microsecond
    assert timeline.lanes == [{"name": "GPU 0, stream 7", "kind": "stream", "rows": [20]}]


def test_without_a_trace_there_is_no_timeline(tmp_path):
    with ProfileDB.open(tmp_path / "a.db", create=True) as db:
        add_profile(db, small_profile(1))
        assert contents.of_trial(db, db.trial(1)).timeline.count == 0


def test_a_rank_is_called_by_its_number_alone():
    assert lane_name(ThreadRow(1, 0, 0, "host", "rank 1")) == "rank 1"
    assert lane_name(ThreadRow(2, 0, 0, "host", "rank 1")) == "process 2, rank 1"
    assert lane_name(ThreadRow(1, 0, 0, "host", "MainThread")) == "process 1, main thread"
