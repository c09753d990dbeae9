"""How a trial names the processes that were not measured."""

import pytest

from taupy.record.children import Child, Notes
from taupy.record.descendants import others
from taupy.state import watch_files
from taupy.state.folder import open_run
from taupy.state.heartbeat import Beat, End, SeenProcess

MS = 1_000_000
NONE = Notes([], [], frozenset(), [])


@pytest.fixture
def said(tmp_path):
    tmp_path.chmod(0o700)

    def said(found, ends, notes=NONE, **of_beat):
        beat = Beat(0, 1)
        beat.beat_ns = 10_000 * MS
        for name, value in of_beat.items():
            setattr(beat, name, value)
        (tmp_path / watch_files.HEARTBEAT).write_bytes(
            beat.packed() + b"".join(End(pid, 0, at * MS, 0, 0).packed() for pid, at in ends)
        )
        (tmp_path / watch_files.FOUND).write_bytes(
            b"".join(
                SeenProcess(pid, 1, at * MS, command.replace(" ", "\0").encode()).packed()
                for pid, at, command in found
            )
        )
        return others(open_run(str(tmp_path)), notes, ()).get("taupy.children", "")

    return said


def test_each_is_named_with_its_command_and_how_long_it_ran(said):
    said = said([(1 << 22, 5, "ls -l"), ((1 << 22) + 1, 6, "gzip x")], [(1 << 22, 305)])
    assert said == (
        "2 processes not measured: ls -l (process 4194304, 300 ms); "
        "gzip x (process 4194305, for an unknown time)"
    )


def test_many_of_one_command_are_named_together(said):
    sleepers = [((1 << 22) + number, 0, "sleep 1") for number in range(1000)]
    ends = [(pid, 1000 + pid % 100) for pid, _, _ in sleepers[:-3]]
    said = said([*sleepers, (9, 1, "true")], [*ends, (9, 2)])
    assert said == (
        "1,001 processes not measured: sleep 1 (1,000 processes, 1.00 s to 1.10 s, 3 of them for "
        "an unknown time); true (process 9, 1.00 ms)"
    )


def test_a_number_that_was_given_twice_is_two_processes(said):
    said = said([(7, 0, "one"), (7, 500, "two")], [(7, 300), (7, 900)])
    assert "one (process 7, 300 ms); two (process 7, 400 ms)" in said


def test_what_a_parent_has_noted_ended_when_it_was_noted_or_seen_first(said):
    child = Child(1, 7, 100 * MS, 250 * MS, "/", "ls", ("ls",))
    notes = Notes([child], [], frozenset({1}), [])
    assert "ls (process 7, 150 ms)" in said([], [(7, 900)], notes)
    assert "ls (process 7, 140 ms)" in said([], [(7, 240)], notes)


def test_what_may_be_missing_is_reported(said):
    found, ends = [(7, 0, "one")], [(7, 300)]
    assert "others, because" not in said(found, ends, apart_ns=150 * MS, unseen=9)
    assert said(found, ends, apart_ns=3000 * MS, unseen=1234).endswith(
        "looks for new processes were up to 3.00 s apart: at most 1,234 processes or threads of "
        "this machine came and went unseen"
    )
