"""What the watch keeps of its looks, and what it reads of a part that is being written."""

import math
import os
import struct
import time

import pytest

from taupy.state import container, looks, watch_files
from taupy.state.folder import open_run
from taupy.state.limits import PART_VERSION
from taupy.state.lines import ACTIVE, CPU, DISK, LOCK, RUNNABLE, STATES, WAIT
from taupy.state.looks import ALLOCATED, RESERVED, Held, InPath, Peak
from taupy.state.values import Damaged
from taupy.watch.looks import Looks, Series, _Thread
from taupy.watch.part_threads import HASHED, PartThreads, identity, path_hash

MINE = (7, looks.RESIDENT, 0)


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    for name in watch_files.LOOKS:
        (tmp_path / name).touch()
    return open_run(str(tmp_path))


def test_what_is_written_is_read_again(folder, tmp_path):
    (tmp_path / watch_files.MEMORY).write_bytes(
        Held((1, ALLOCATED, 7), 2, 3, 4, 5).packed() + b"half"
    )
    (tmp_path / watch_files.PEAKS).write_bytes(Peak(1, 2, 3, 4, [7, 8]).packed())
    (tmp_path / watch_files.THREADS).write_bytes(
        InPath(1, 2, 3, 0, [1, 2, 3, 4], [5, 6, 7, 8]).packed()
    )
    (row,) = looks.read_memory(folder)
    assert (row.at_ns, row.kib, row.least_kib, row.most_kib) == (2, 3, 4, 5)
    assert row.memory == (1, ALLOCATED, 7)
    (peak,) = looks.read_peaks(folder)
    assert (peak.ticks, peak.kib, peak.addresses) == (2, 4, [7, 8])
    (path,) = looks.read_threads(folder)
    assert (path.address, path.looks, path.time_ns) == (3, [1, 2, 3, 4], [5, 6, 7, 8])


def test_numbers_that_cannot_be_are_refused(folder, tmp_path):
    (tmp_path / watch_files.MEMORY).write_bytes(struct.pack("<qii4q", 1, 0, 0, -1, 3, 4, 5))
    with pytest.raises(Damaged, match=watch_files.MEMORY):
        looks.read_memory(folder)


def test_memory_is_noted_when_it_has_changed(folder, tmp_path):
    series = Series(os.open(tmp_path / watch_files.MEMORY, os.O_WRONLY))
    for at, kib in enumerate((1000, 1010, 2000, 2000, 1500)):
        series.add(MINE, at, kib, kib)
    assert [(row.at_ns, row.kib) for row in looks.read_memory(folder)] == [
        (0, 1000), (2, 2000), (4, 1500),
    ]  # fmt: skip


def test_a_peak_between_two_looks_is_in_the_record_before(folder, tmp_path):
    series = Series(os.open(tmp_path / watch_files.MEMORY, os.O_WRONLY))
    for at, (kib, most_kib) in enumerate(((1000, 1000), (1000, 5000), (2000, 9000), (2000, 2000))):
        series.add(MINE, at, kib, most_kib)
    assert [(row.at_ns, row.kib, row.most_kib) for row in looks.read_memory(folder)] == [
        (0, 1000, 9000), (2, 2000, 2000),
    ]  # fmt: skip


def test_what_is_near_the_record_before_is_kept_in_it_at_once(folder, tmp_path):
    series = Series(os.open(tmp_path / watch_files.MEMORY, os.O_WRONLY))
    series.apart_ns = 10
    for at, kib in ((0, 1000), (1, 9000), (2, 100)):
        series.add(MINE, at, kib, kib)
    (row,) = looks.read_memory(folder)
    assert (row.at_ns, row.kib, row.least_kib, row.most_kib) == (0, 100, 100, 9000)


def test_the_allocators_own_peak_counts_where_it_has_risen(folder):
    watch, mib = Looks(folder), 1 << 20
    for now, held in enumerate(((4, 8, 9, 10), (4, 8, 9, 10), (5, 8, 30, 40), (5, 8, 5, 40))):
        watch.look_at_gpu(3, 1, now, tuple(number * mib for number in held))
    rows = {
        kind: [(row.at_ns, row.kib >> 10, row.most_kib >> 10) for row in looks.read_memory(folder)
               if row.memory == (3, kind, 1)]
        for kind in (ALLOCATED, RESERVED)
    }  # fmt: skip
    assert rows == {ALLOCATED: [(0, 4, 30), (2, 5, 5)], RESERVED: [(0, 8, 40)]}


def test_a_long_series_loses_moments_and_never_the_largest(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(looks, "HELD_AT_MOST", 64)
    series = Series(os.open(tmp_path / watch_files.MEMORY, os.O_WRONLY))
    for look in range(1000):
        kib = 900_000 if look == 501 else 1000 * (look % 7)
        series.add(MINE, look * 100_000_000, kib, kib)
    rows = looks.read_memory(folder)
    assert 16 <= len(rows) <= 64
    assert max(row.most_kib for row in rows) == 900_000
    assert min(row.least_kib for row in rows) == 0
    assert [row.at_ns for row in rows] == sorted(row.at_ns for row in rows)


def test_what_threads_do_is_counted(folder):
    remote = pytest.importorskip("taupy._native.remote", reason="needs the compiled core")
    assert remote.Task(os.getpid(), os.getpid()).does(5_000_000) in range(len(STATES))
    watch, part = Looks(folder), PartThreads("5-2.part", folder.descriptor)

    class Task:
        def __init__(self, state):
            self.state = state

        def does(self, took):
            return self.state

    for does, counted in ((CPU, 0), (RUNNABLE, 1), (WAIT, 2), (LOCK, 2), (DISK, 3), (ACTIVE, None)):
        watch.threads[9] = _Thread(time.monotonic_ns() - 1000, Task(does))
        before = [*watch.place(part, 640, 0)[1].looks]
        watch.look_at_thread(part, 9, 640, 0)
        after = watch.place(part, 640, 0)[1].looks
        assert [b - a for a, b in zip(before, after, strict=True)] == [
            int(at == counted) for at in range(4)
        ]


def test_a_part_is_read_block_by_block_as_it_grows(folder, tmp_path):
    name = "12-ff.part"
    assert identity(name) == (12, 255) == identity("12-ff.pypart")
    part = PartThreads(name, folder.descriptor)
    file = tmp_path / name

    def thread(native_id, cursor, hide=0, above=0, ended=0):
        data = bytearray(512)
        struct.pack_into("<Q", data, 136, above)
        struct.pack_into("<5Q96xQQ", data, 256, cursor, hide, 0, native_id, ended, 0, 1)
        return struct.pack("<IIQ48x", 2, 0, 64 + len(data)) + data

    def allocator(device, *held):
        return struct.pack("<IIQ48x", 9, device, 128) + struct.pack("<4Q32x", *held)

    def write(*blocks):
        body = b"".join(blocks)
        head = struct.pack("<8sIIQQQ", b"TAUPYPRT", PART_VERSION, 64, 1, 64 + len(body), 1 << 20)
        file.write_bytes(head.ljust(64, b"\0") + body)

    other = struct.pack("<IIQ48x", 1, 0, 40000).ljust(40000, b"\0")
    write(thread(5, 1000))
    assert list(part.open_paths()) == [(5, 1000, 0)]
    write(thread(5, 1064), other, thread(6, 9, hide=1, above=2000))
    assert list(part.open_paths()) == [(5, 1064, 0), (6, 2000, 0)]
    write(thread(5, 1064, ended=1), other, thread(6, 3000), allocator(2, 5, 6, 7, 8))
    assert list(part.open_paths()) == [(6, 3000, 0)]
    assert part.held == {2: (5, 6, 7, 8)}
    file.unlink()
    with pytest.raises(FileNotFoundError):
        list(part.open_paths())


def test_memory_that_may_be_used_again_is_known_by_its_routines(folder, tmp_path):
    part, address = PartThreads("12-ff.part", folder.descriptor), 0x7F0000000000

    def write(index, *keys, ended=0, native_id=7):
        """A thread in a chunk at `address`, with a node for each routine, the outermost first."""
        at = 1024 + 64
        data = bytearray(1024)
        for depth, key in enumerate(keys):
            data += struct.pack("<QQ48x", key, address + at + (depth and 960 + depth * 64))
        last = address + at + 960 + 64 * len(keys)
        struct.pack_into("<5Q96xQQ", data, 256, last, 0, index, native_id, ended, 64, 0)
        head = struct.pack("<8sIIQQQ", b"TAUPYPRT", PART_VERSION, 1024, 1, at + len(data), 1 << 20)
        head = head.ljust(container.HEADER_BYTES, b"\0") + struct.pack("<QQ", address, 0)
        block = struct.pack("<IIQ48x", 2, index, 64 + len(data))
        (tmp_path / part.name).write_bytes(head.ljust(1024, b"\0") + block + data)

    hashed = path_hash(path_hash(0, 0x1000), 0x2000) | HASHED
    write(3, 0x1000, 0x2004)  # throttled
    assert [*part.open_paths()] == [(7, hashed, 4)]
    write(3, 0x1000, 0x2000, ended=9)
    assert [*part.open_paths()] == [] and part.added_up == ([], [])
    write(8, 0x2000, 0x1000, native_id=9)
    ((_, other, owner),) = part.open_paths()
    assert other != hashed and owner == 9 and part.added_up == ([3], [3])
    write(9, 0x2000, native_id=11)  # nobody has seen the end of the one before
    assert [*part.open_paths()] and part.states == {11: (9, 64)}


def test_new_threads_are_searched_for_only_if_some_have_begun(folder, tmp_path):
    part = PartThreads("12-ff.part", folder.descriptor)

    def write(begun, *native_ids):
        blocks = [struct.pack("<IIQQ40x", 17, 0, 64 + 256, begun) + bytes(256)]
        for native_id in native_ids:
            data = bytearray(512)
            struct.pack_into("<5Q96xQQ", data, 256, 1000, 0, native_id, native_id, 0, 64, 1)
            blocks.append(struct.pack("<IIQ48x", 2, 0, 64 + len(data)) + data)
        body = b"".join(blocks)
        head = struct.pack("<8sIIQQQ", b"TAUPYPRT", PART_VERSION, 64, 1, 64 + len(body), 1 << 20)
        (tmp_path / part.name).write_bytes(head.ljust(64, b"\0") + body)

    write(1, 5)
    for _ in range(2):  # only then it is known where their number is
        assert len([*part.open_paths()]) == 1
    file = part.open()
    assert not part.find_new(file)
    write(1, 5, 6)
    assert not part.find_new(file) and part.states == {5: (5, 64)}
    write(2, 5, 6)
    assert part.find_new(file) and part.states == {5: (5, 64), 6: (6, 64)}
    assert not part.find_new(file)
    os.close(file)


def test_records_of_threads_that_were_added_up_are_one(folder, tmp_path):
    watch = Looks(folder)
    part = PartThreads("5-2.part", folder.descriptor)
    for owner in (3, 4, 3):
        watch.note(part, HASHED | 7, owner, 2, 100)
    watch.note(part, HASHED | 8, 3, 1, 1000)
    watch.note(part, 640, 0, 0, 50)
    watch.join(part, 3)
    watch.join(part, 4)
    watch.note(part, HASHED | 9, 5, 0, 60)
    rows = {
        (row.address & ~HASHED, row.owner): (sum(row.looks), sum(row.time_ns))
        for row in looks.read_threads(folder)
        if any(row.looks)
    }
    assert rows == {
        (7, looks.ADDED_UP): (3, 300),
        (8, looks.ADDED_UP): (1, 1000),
        (640, 0): (1, 50),
        (9, 5): (1, 60),
    }
    size = (tmp_path / watch_files.THREADS).stat().st_size
    assert size == looks.THREAD_BYTES * 4


def test_it_looks_at_a_process_without_a_known_thread(folder, tmp_path):
    (tmp_path / f"{os.getpid()}-1.pypart").touch()
    watch = Looks(folder)
    watch.add(f"{os.getpid()}-1.pypart")
    watch.look()
    (row,) = looks.read_memory(folder)
    assert row.memory == (os.getpid(), looks.RESIDENT, 0) and row.kib > 1000
    assert math.isclose(row.at_ns, time.monotonic_ns(), abs_tol=60_000_000_000)
    assert looks.read_threads(folder) == []


def test_a_process_that_has_ended_is_forgotten(folder):
    watch = Looks(folder)
    watch.add(f"{2**22 + 1}-1.part")
    watch.look()
    assert watch.parts == {}


def test_a_program_that_became_another_is_looked_at_in_its_last_part(folder):
    watch = Looks(folder)
    for number in (1, 2):
        watch.add(f"5-{number}.part")
    assert [part.ticks for part in watch.parts.values()] == [2]


def test_many_processes_are_looked_at_in_turns(folder, monkeypatch):
    watch, seen = Looks(folder), []
    monkeypatch.setattr(watch, "look_at", lambda part: seen.append(part.pid))
    for pid in range(1, 201):
        watch.add(f"{pid}-1.part")
    for _ in range(200):
        watch.look()
    assert seen[:200] == list(range(1, 201)) and seen[200] == 1


def test_a_round_of_looks_ends_when_its_time_is_used(folder, monkeypatch):
    watch, clock = Looks(folder), iter(range(0, 1 << 40, 200_000))
    monkeypatch.setattr(time, "process_time_ns", lambda: next(clock))
    monkeypatch.setattr(watch, "look_at", lambda part: None)
    for pid in range(1, 11):
        watch.add(f"{pid}-1.part")
    watch.look()
    assert list(watch.parts) == [4, 5, 6, 7, 8, 9, 10, 1, 2, 3]
