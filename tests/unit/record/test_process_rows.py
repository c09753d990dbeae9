"""The sums of processes that are added up."""

from __future__ import annotations

from array import array
from dataclasses import replace
from types import SimpleNamespace

import pytest

from taupy.model.profile import UserEvent
from taupy.record.part_data import (
    ENDED,
    RUNNING,
    Part,
    PartThread,
    Process,
    Routine,
    Suspension,
)
from taupy.record.process_rows import ADDED, ProcessRows, note

MODULE, JOB, LEAF, LIBRARY = (
    Routine(name, file, 1, "python", "PYTHON")
    for name, file in (("m", "a.py"), ("job", "a.py"), ("leaf", "a.py"), ("lib", "/lib/b.py"))
)
NAMES = SimpleNamespace(is_library=lambda file: file.startswith("/lib"))


def child(pid: int, routines: list[Routine], parents: list[int], calls: list[int]) -> Part:
    """A child whose call paths are of these routines, one each."""
    thread = PartThread(
        pid, "MainThread", 10 * pid,
        routine=array("q", (-1, *range(len(routines)))),
        parent=array("q", (-1, *parents)),
        calls=array("q", (1, *calls)),
        resumes=array("q", bytes(8 * (1 + len(calls)))),
        inclusive=array("q", [100 * pid, *(pid + row for row in range(len(calls)))]),
        samples=[UserEvent.once("size", "", pid), replace(UserEvent.once("x", "", 1), row=2)],
    )  # fmt: skip
    usage = {"Peak Resident Memory (KiB)": str(1000 - pid), "Page Faults Minor": "2"}
    return Part(
        f"{pid}-1.part", "native", pid, 1, 0, ENDED, True, 1.0 + pid, 50 + pid, 60 + pid, 0,
        routines, [thread], usage, {},
    )  # fmt: skip


def usual(pid: int, **changes: object) -> Part:
    return replace(child(pid, [MODULE, JOB, LEAF], [0, 1, 2], [0, 1, 3]), **changes)


def added(*parts: Part, apart: int | None = 0, on_gpu: tuple[int, ...] = ()) -> list[Part]:
    rows = ProcessRows(apart, NAMES, on_gpu)
    kept = [part for part in parts if not rows.take(part)]
    return [*kept, *rows.parts()]


def test_call_paths_are_joined_by_their_routines():
    other = child(3, [MODULE, LIBRARY, LEAF, JOB], [0, 1, 1, 1], [0, 2, 4, 1])
    (row,) = added(usual(2), child(3, [MODULE, JOB, LEAF, LIBRARY], [0, 1, 1, 2], [0, 1, 4, 2]))
    (thread,) = row.threads
    paths = [""]
    for routine, parent in zip(thread.routine[1:], thread.parent[1:], strict=True):
        paths.append(f"{paths[parent]} {row.routines[routine].name}".strip())
    assert paths[1:] == ["m", "m job", "m job leaf", "m leaf", "m job lib"]
    assert list(thread.calls) == [2, 0, 2, 3, 4, 2]
    assert list(thread.inclusive) == [500, 5, 7, 4, 5, 6]
    assert thread.cpu_ns == 50
    assert len(added(usual(2), other)) == 2  # began in another routine


def test_a_row_knows_its_processes_and_their_extremes():
    first, row = added(usual(4), usual(2), usual(3), apart=1)
    assert first.pid == 4
    assert row.added == [Process("2-1.part", 2, 52), Process("3-1.part", 3, 53)]
    assert (row.start_ns, row.end_ns, row.started_at) == (52, 63, 3.0)
    assert row.metadata == {"Peak Resident Memory (KiB)": "998", "Page Faults Minor": "4"}
    several = row.threads[0].several
    assert (several.threads, several.apart, several.least_ns, several.most_ns) == (2, 1, 200, 300)
    assert row.routines[several.routine] == JOB
    sizes = {event.name: event for event in row.threads[0].samples}
    assert (sizes["size"].count, sizes["size"].mean) == (2, 2.5)
    assert (sizes["x"].count, sizes["x"].row) == (2, 2)
    (said,) = note([first, row]).values()
    assert said.startswith("2 forked children") and note([first]) == {} and ADDED in note([row])


def test_one_that_has_ended_like_no_other_is_as_it_was():
    part = usual(2)
    assert added(part) == [part]
    assert added(part, usual(3), apart=None) == [part, usual(3)]


@pytest.mark.parametrize(
    "changes",
    [
        {"forked": False},
        {"state": RUNNING},
        {"exit_status": -2},
        {"parent_pid": 9},
        {"health": {"callpaths": "calls over the limit"}},
        {"lost_bytes": 1},
        {"metadata": {"taupy.child.0": "a process that it started"}},
        {"routines": [MODULE, JOB._replace(name="other"), LEAF]},
        {"routines": [MODULE, JOB, LEAF._replace(file="/lib/multiprocessing/pool.py")]},
        {"routines": [MODULE, JOB, LEAF._replace(file="/lib/concurrent/futures/process.py")]},
    ],
)
def test_what_is_unlike_or_says_more_stays_apart(changes):
    other = usual(4, **changes)
    parts = added(usual(2), usual(3), other)
    assert len(parts) == 2 and other in parts


def test_work_on_a_gpu_and_suspended_coroutines_stay_apart():
    waits = usual(3)
    waits.threads[0].suspensions = [Suspension(1, None, 4, 1, 100)]
    assert len(added(usual(2), waits, usual(4), on_gpu=(4,))) == 3


def test_sums_that_no_number_holds_are_not_made():
    huge = [usual(pid) for pid in (2, 3)]
    for part in huge:
        part.threads[0].inclusive[0] = (1 << 62) - 1
    assert len(added(*huge)) == 2
