"""What the watch writes is read back, and what it cannot have written is refused."""

import pytest

from taupy.state import heartbeat, watch_files
from taupy.state.folder import open_run
from taupy.state.heartbeat import Beat, End, SeenProcess
from taupy.state.values import Damaged


def written(folder, data):
    folder.chmod(0o700)
    (folder / watch_files.HEARTBEAT).write_bytes(data)
    return heartbeat.read(open_run(str(folder)))


def beat(**changes):
    made = Beat(1_000, 77)
    made.beat_ns, made.rounds, made.longest_ns, made.cpu_ns = 401_000, 4, 150_000, 9
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_beat_and_ends_come_back_as_they_were(tmp_path):
    ends = [End(5, 60, 300_000, 0, 15), End(6, 0, 310_000, 9_000, None)]
    data = beat(is_over=True).packed() + b"".join(end.packed() for end in ends)
    read, back = written(tmp_path, data)
    assert (read.is_over, read.pid, read.rounds, read.cpu_ns) == (True, 77, 4, 9)
    assert read.interval_ns == 100_000
    assert [(e.pid, e.start, e.ended_ns, e.late_ns, e.status) for e in back] == [
        (5, 60, 300_000, 0, 15),
        (6, 0, 310_000, 9_000, None),
    ]


def test_a_record_that_was_cut_off_is_none(tmp_path):
    data = beat().packed() + End(5, 60, 300_000, 0, 0).packed()
    assert written(tmp_path, data[:-1])[1] == []


def test_no_file_and_an_empty_one_mean_that_nothing_was_watched(tmp_path):
    tmp_path.chmod(0o700)
    assert heartbeat.read(open_run(str(tmp_path))) is None
    assert written(tmp_path, b"") is None


@pytest.mark.parametrize(
    "data",
    [
        b"no heartbeat",
        b"X" * 64,
        beat().packed().replace(b"\x02\0\0\0", b"\x09\0\0\0", 1),
        beat(beat_ns=-1).packed(),
        beat(cpu_ns=1 << 62).packed(),
        beat().packed() + End(5, 60, -1, 0, 0).packed(),
    ],
)
def test_what_no_watch_has_written_is_refused(tmp_path, data):
    with pytest.raises(Damaged):
        written(tmp_path, data)


def found_in(folder, data):
    folder.chmod(0o700)
    (folder / watch_files.FOUND).write_bytes(data)
    return heartbeat.read_seen(open_run(str(folder)))


def test_processes_that_were_found_come_back_with_as_much_of_their_commands_as_fits(tmp_path):
    found = [SeenProcess(5, 4, 1_000, b"ls\0-l\0"), SeenProcess(6, 5, 2_000, b"x" * 999)]
    first, second = found_in(tmp_path, b"".join(one.packed() for one in found) + b"cut")
    assert (first.pid, first.parent, first.seen_ns) == (5, 4, 1_000)
    assert first.command == b"ls\0-l\0"
    assert second.command == b"x" * heartbeat.COMMAND_BYTES


@pytest.mark.parametrize(
    "data",
    [
        SeenProcess(0, 4, 1_000, b"").packed(),
        SeenProcess(5, 4, -1, b"").packed(),
        b"\xff" * heartbeat.SEEN_BYTES,
    ],
)
def test_processes_that_cannot_be_are_refused(tmp_path, data):
    with pytest.raises(Damaged):
        found_in(tmp_path, data)
