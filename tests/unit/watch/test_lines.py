"""What the watch keeps of its looks at lines, and how often it looks."""

import os
import random
import struct
from contextlib import suppress

import pytest

from taupy.state import lines, watch_files
from taupy.state.folder import open_run
from taupy.state.lines import NO_CODE, STATES, Code, Head, Row
from taupy.state.values import Damaged
from taupy.watch.lines import Lines
from taupy.watch.own_files import own_files

pytest.importorskip("taupy._native.remote", reason="needs the compiled core")

CODE = Code("/p/é.py", "f", 7, b"\x80\x00\x01")


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    return open_run(str(tmp_path))


def written(tmp_path, rows, codes=(CODE,), head=None):
    (tmp_path / watch_files.LINES).write_bytes(
        (head or Head()).packed() + b"".join(row.packed() for row in rows)
    )
    (tmp_path / watch_files.CODES).write_bytes(b"".join(code.packed() for code in codes))


def test_what_is_written_is_read_again(folder, tmp_path):
    row = Row(4, 5, 1, lines.GIL, (0, 12), (NO_CODE, 0))
    row.looks, row.time_ns, row.squares = 3, 60, 1200.0
    head = Head()
    head.looks, head.torn, head.imports, head.cpu_ns = 3, 1, 2, 99
    head.pairs, head.alike, head.paired = 800.0, 400.0, 1200.0
    written(tmp_path, [row], head=head)
    read, (again,), (code,) = lines.read(folder)
    assert (read.looks, read.torn, read.imports, read.cpu_ns, read.refused) == (3, 1, 2, 99, 0)
    assert (read.pairs, read.alike, read.paired) == (800.0, 400.0, 1200.0)
    assert again.packed() == row.packed()
    assert (code.file, code.name, code.first_line, code.lines) == ("/p/é.py", "f", 7, CODE.lines)


def test_nobody_has_looked(folder, tmp_path):
    assert lines.read(folder) is None
    for name in watch_files.OF_LINES:
        (tmp_path / name).touch()
    assert lines.read(folder) is None


def test_what_was_cut_off_is_left_out(folder, tmp_path):
    row = Row(4, 5, 0, 0, (0, 0), (0, 0))
    written(tmp_path, [row, row])
    whole = (tmp_path / watch_files.LINES).read_bytes()
    (tmp_path / watch_files.LINES).write_bytes(whole[:-1])
    assert len(lines.read(folder)[1]) == 1
    (tmp_path / watch_files.CODES).write_bytes(CODE.packed() + CODE.packed()[:-1])
    assert len(lines.read(folder)[2]) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"state": len(STATES)}, {"inner": (1, 0)}, {"inner": (-1, 0)}, {"own": (1, 0)},
        {"own": (-2, 0)},
    ],
)  # fmt: skip
def test_rows_that_refer_to_nothing_are_refused(folder, tmp_path, bad):
    row = Row(4, 5, 0, 0, (0, 0), (0, 0))
    for name, value in bad.items():
        setattr(row, name, value)
    written(tmp_path, [row])
    with pytest.raises(Damaged, match="refers to what is not there"):
        lines.read(folder)


def test_nonsense_is_refused_or_read(folder, tmp_path):
    chance = random.Random(5)
    for _ in range(300):
        row = Row(4, 5, 0, 0, (0, 0), (0, 0))
        written(tmp_path, [row] * 3)
        for name in watch_files.OF_LINES:
            data = bytearray((tmp_path / name).read_bytes())
            for _ in range(3):
                data[chance.randrange(len(data))] = chance.randrange(256)
            (tmp_path / name).write_bytes(data)
        with suppress(Damaged):
            lines.read(folder)


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/home/me/train.py", True),
        ("train.py", True),
        ("/home/me/lib/python3.12/own.py", False),
        ("/home/me/lib64/python3.13t/own.py", False),
        ("/home/me/lib/python3x/own.py", True),
        ("/home/me/lib/python3.own/own.py", True),
        ("/venv/lib/python3.12/site-packages/torch/nn.py", False),
        ("/usr/lib/python3/dist-packages/yaml.py", False),
        ("/opt/libs/deep/a.py", False),
        ("/tmp/torchinductor_me/7g/c7gvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tq.py", False),
        ("/scratch/compiled/7g/c7gvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tq.py", False),
        ("/scratch/compiled/7g/c7gvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5tvcpk2x5t.py", True),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
        ("<ipython-input-3-ab>", True),
        ("", False),
    ],
)
def test_whose_a_file_is(file, own):
    assert own_files(["train.py"], ["/opt/libs/"]).has(file.encode()) is own


def test_the_text_of_a_command_is_the_programs():
    assert own_files(["-c", "pass"], []).has(b"<string>")
    assert own_files(["-"], []).has(b"<stdin>")
    assert not own_files(["-c", "pass"], []).has(b"<stdin>")


class Part:
    """A part with one thread that cannot be there."""

    pid, ticks, states = 1 << 22, 9, {(1 << 22): (0, 4096)}
    lock = (0, 0)

    def __init__(self, layout):
        self.layout = layout
        self.added_up = [], []

    def open(self):
        return os.open(os.devnull, os.O_RDONLY)

    def find_new(self, file):
        return False


class Silent:
    """A thread in whose process none begins."""

    class process:
        file = -1


def looking(folder, tmp_path, monkeypatch, layout=b""):
    monkeypatch.setattr(
        "taupy.watch.lines.loads", lambda data: {"arguments": ["a.py"], "library_folders": []}
    )
    for name in (*watch_files.OF_LINES, "run"):
        (tmp_path / name).touch()
    looks = Lines(folder)
    looks.find([Part(layout)], 1000)
    return looks


def test_nobody_looks_where_no_files_were_made(folder):
    looks = Lines(folder)
    looks.find([Part(b"x")], 0)
    assert looks.due_ns == 0 and not looks.threads


def test_a_layout_of_no_interpreter_gives_no_looks(folder, tmp_path, monkeypatch):
    looks = looking(folder, tmp_path, monkeypatch, struct.pack("<30Q", *range(30)))
    assert looks.due_ns == 0 and not looks.threads


def seen(looks, monkeypatch, now, spent):
    monkeypatch.setattr("taupy.watch.lines.time.monotonic_ns", lambda: now)
    looks.look()
    looks.spent(spent)


def test_looks_are_frequent_at_first_and_stay_within_their_budget(folder, tmp_path, monkeypatch):
    """Each look takes 120 us: 0.6 % of 30 s are 180 ms, and 60 ms are there at first."""
    looks = looking(folder, tmp_path, monkeypatch)
    looks.threads = {(1, 1): Silent}
    monkeypatch.setattr(looks, "look_at", lambda thread: None)
    assert looks.begin(0)
    now = looks.looks.spent(0, 0)
    times = []
    while now < 30_000_000_000:
        times.append(now)
        seen(looks, monkeypatch, now, 120_000)
        now = max(looks.due_ns, now + 1)
    early = [time for time in times if time < times[0] + 2_000_000_000]
    assert 300 < len(early) < 500
    late = [time for time in times if time > 10_000_000_000]
    assert 40 <= len(late) / 20 <= 52
    assert len(times) * 120_000 < 60_000_000 + 0.0061 * 30_000_000_000


def test_expensive_looks_become_rare(folder, tmp_path, monkeypatch):
    looks = looking(folder, tmp_path, monkeypatch)
    looks.threads = {(1, 1): Silent}
    monkeypatch.setattr(looks, "look_at", lambda thread: None)
    assert looks.begin(0)
    now = looks.looks.spent(0, 0)
    spent = 0
    while now < 60_000_000_000:
        seen(looks, monkeypatch, now, 5_000_000)
        spent += 5_000_000
        now = max(looks.due_ns, now + 1)
    assert spent <= 65_000_000 + 0.0061 * 60_000_000_000


def test_who_may_not_look_stops(folder, tmp_path, monkeypatch):
    looks = looking(folder, tmp_path, monkeypatch)

    def refused(thread):
        raise PermissionError(1, "no")

    assert looks.begin(0)
    looks.threads = {(1, 1): Silent, (1, 2): Silent}
    looks.due_ns = 5
    monkeypatch.setattr(looks, "look_at", refused)
    looks.look()
    assert looks.due_ns == 0
    looks.find([Part(b"x")], 10)
    assert looks.due_ns == 0 and lines.read(folder)[0].refused == 1


class Thread:
    def __init__(self, process, tid, at, since_ns, is_new):
        self.process, self.tid, self.at = process, tid, at
        self.since_ns, self.is_new = since_ns, is_new


def test_threads_that_begin_between_two_rounds_are_looked_at(folder, tmp_path, monkeypatch):
    """A thread that was not there at the tick before counts from then on; with more threads than a
    tick looks at, for as long as a turn takes. What has ended leaves its place."""

    class Grows(Part):
        def find_new(self, file):
            found, self.states = self.states != self.next, self.next
            return found

    monkeypatch.setattr("taupy.watch.lines._Thread", Thread)
    looks, part, seen_at = looking(folder, tmp_path, monkeypatch), Grows(b"x"), []
    part.states = {8: (0, 4096)}
    monkeypatch.setattr(looks, "look_at", lambda thread: seen_at.append(thread))
    part.next = part.states
    looks.find([part], 10)
    first = looks.due_ns
    for tick, tids in enumerate([[8], [8, 9], [9, 10], range(11, 27), range(11, 28)]):
        part.next = {tid: (tid, 4096) for tid in tids} | {8: (0, 4096)}
        seen(looks, monkeypatch, first + tick * 1_000_000_000, 100_000)
    by_tid = {thread.tid: thread for thread in seen_at}
    assert (by_tid[8].since_ns, by_tid[8].is_new) == (10, False)
    assert (by_tid[9].since_ns, by_tid[9].is_new) == (first, True)
    assert by_tid[10].since_ns == first + 1_000_000_000
    assert not {9, 10} & {tid for _, tid in looks.threads}
    last = looks.threads[part.pid, 27]
    assert last.since_ns == first + 3_000_000_000 - 9 * 1_000_000_000 // 8
    assert len(seen_at) == 1 + 2 + 3 + 8 + 8


def test_a_tick_that_took_long_is_not_followed_by_a_long_pause(folder, tmp_path, monkeypatch):
    """What takes long is what happens in the program: looks would miss what comes after it."""
    looks = looking(folder, tmp_path, monkeypatch)
    looks.threads = {(1, 1): Silent}
    monkeypatch.setattr(looks, "look_at", lambda thread: None)
    assert looks.begin(0)
    now, pauses = 1, {200_000: [], 800_000: []}
    for tick in range(4000):
        took = 800_000 if tick % 4 == 0 else 200_000
        seen(looks, monkeypatch, now, took)
        if tick > 2000:
            pauses[took].append(looks.due_ns - now)
        now = looks.due_ns
    usual, long = (sum(of) / len(of) for of in pauses.values())
    assert 1 <= long / usual < 1.3
    assert (sum(pauses[800_000]) + sum(pauses[200_000])) / 2000 > 350_000 * 150


def test_threads_that_come_after_all_others_have_ended_are_looked_at(folder, tmp_path, monkeypatch):
    """A process that becomes another program ends with all its threads."""
    looks = looking(folder, tmp_path, monkeypatch)

    def ended(thread):
        raise ProcessLookupError

    monkeypatch.setattr("taupy.watch.lines._Thread", Thread)
    monkeypatch.setattr(looks, "look_at", ended)
    looks.find([Part(b"x")], 10)
    first = looks.due_ns
    seen(looks, monkeypatch, first, 100_000)
    assert first > 10 and looks.due_ns == 0
    looks.find([Part(b"x")], first + 100_000_000)
    assert 0 < looks.due_ns - first - 100_000_000 < 10_000_000
