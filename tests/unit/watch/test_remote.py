"""Frames of another process, read from outside: the right ones, and no harm from nonsense."""

import contextlib
import ctypes
import os
import random
import struct
import subprocess
import sys
import threading
import time

import pytest

from taupy.state import lines, watch_files
from taupy.state.folder import open_run
from taupy.watch.part_threads import PartThreads

remote = pytest.importorskip("taupy._native.remote", reason="needs the compiled core")

PROGRAM = """
import sys, time, threading
from taupy._native import engine
engine.start({"run_folder": sys.argv[1].encode()})

def inner(when):
    print("here", flush=True)
    sys.stdin.readline()

def outer(text):
    for value in (inner(when) for when in [1]):
        pass

def café():
    event.wait()

event = threading.Event()
other = threading.Thread(target=café)
other.start()
outer("")
event.set()
other.join()
"""


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def program(folder, tmp_path):
    """A measured program that waits in `inner`, and its part."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"here\n"
    (name,) = (path.name for path in folder.iterdir() if path.suffix == ".part")
    part = PartThreads(name, os.open(folder, os.O_RDONLY))
    until = time.monotonic() + 60
    while len(list(part.open_paths())) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    yield part
    process.communicate(b"\n", timeout=30)
    os.close(part.folder)


def thread_of(part, index):
    ((tid, (_, state)),) = (item for item in part.states.items() if item[1][0] == index)
    return remote.Thread(part.pid, part.layout, state, tid)


def test_the_frames_of_a_thread_are_read_innermost_first(program):
    thread = thread_of(program, 0)
    frames = thread.look(set())
    codes = [thread.code(address) for address, _ in frames]
    names = [name for _, name, *_ in codes]
    assert names == ["inner", "outer.<locals>.<genexpr>", "outer", "<module>"]
    firsts = [PROGRAM.splitlines()[first - 1] for _, _, first, *_ in codes]
    assert (firsts[0], firsts[2]) == ("def inner(when):", "def outer(text):")
    assert all(0 <= at < 2 * units for (_, at), (*_, units, _) in zip(frames, codes, strict=True))
    assert all(file.endswith("program.py") for file, *_ in codes)


def test_a_walk_ends_at_the_first_code_wanted(program):
    thread = thread_of(program, 0)
    frames = thread.look(set())
    assert codes_of(thread.look({frames[1][0]})) == codes_of(frames)[:2]


def codes_of(frames):
    return [code for code, _ in frames]


def test_names_that_are_not_ascii_are_read(program):
    thread = thread_of(program, 1)
    names = [thread.code(address)[1] for address, _ in thread.look(set())]
    assert "café" in names and names[-1].endswith("_bootstrap")


def test_instructions_lead_to_the_line_that_runs(program):
    thread = thread_of(program, 0)
    until = time.monotonic() + 60
    while (line := line_of(thread)) != "sys.stdin.readline()" and time.monotonic() < until:
        time.sleep(0.01)  # it has just printed that it is there
    assert line == "sys.stdin.readline()"


def line_of(thread):
    (address, at), *_ = thread.look(set())
    _, _, first, units, table = thread.code(address)
    code = (lambda: 0).__code__.replace(
        co_linetable=table, co_firstlineno=first, co_code=bytes([9, 0]) * units
    )
    line, *_ = list(code.co_positions())[at // 2]
    return PROGRAM.splitlines()[line - 1].strip()


def test_a_code_is_told_from_what_is_none(program):
    thread = thread_of(program, 0)
    (address, _), *_ = thread.look(set())
    assert thread.mark(address) == thread.mark(address)
    for wrong in (0, 1, address + 8, 1 << 47, (1 << 64) - 1):
        with pytest.raises(ValueError):
            thread.code(wrong)
        with pytest.raises(ValueError):
            thread.mark(wrong)


def test_a_thread_that_is_another_or_none_is_over(program):
    ((tid, (_, state)), *_) = program.states.items()
    for wrong in (
        remote.Thread(program.pid, program.layout, state, tid + 1),
        remote.Thread(program.pid, program.layout, 4096, tid),
        remote.Thread((1 << 22) + 7, program.layout, state, tid),
    ):
        with pytest.raises(ProcessLookupError):
            wrong.look(set())


@pytest.mark.parametrize("at", [4, 6, 8, 9, 11, 13, 21, 25, 27])
def test_a_layout_that_no_interpreter_has_is_refused(program, at):
    words = list(struct.unpack("<30Q", program.layout))
    for value in (1 << 13, 1 << 40, (1 << 64) - 8):
        changed = [*words[:at], value, *words[at + 1 :]]
        with pytest.raises(ValueError):
            remote.Thread(program.pid, struct.pack("<30Q", *changed), 4096, 1)
    with pytest.raises(ValueError):
        remote.Thread(program.pid, program.layout[:-8], 4096, 1)


def images(layout, turns, native_id):
    """Random images of memory, in which most words are addresses inside them: where each begins,
    the addresses of a thread's state and of its words, and the layout."""
    chance = random.Random(7)
    words = 4096
    image = (ctypes.c_uint64 * words)()
    base, bytes_of = ctypes.addressof(image), 8 * words
    layout = list(struct.unpack("<30Q", layout))
    layout[1] = base  # a "code type" that many words are
    packed = struct.pack("<30Q", *layout)
    for turn in range(turns):
        if turn % 25 == 0:  # mostly addresses, of anything inside
            image[:] = [
                chance.choice((base + 8 * chance.randrange(words), chance.randrange(200), base))
                for _ in range(words)
            ]
        for _ in range(20):
            image[chance.randrange(words)] = chance.choice(
                (base + chance.randrange(bytes_of), chance.getrandbits(64), 0)
            )
        state = chance.randrange(words // 2)
        image[state + layout[4] // 8] = native_id
        yield base, base + 8 * state, packed, chance
    del image


@pytest.mark.parametrize("has_shims", [False, True], ids=["3.11", "3.12 to 3.15"])
def test_a_generator_without_a_caller_is_no_whole_stack(program, has_shims):
    """It has given its value between the look at the thread and the look at its frame, which does
    not lie in the thread's stack."""
    layout = list(struct.unpack("<30Q", program.layout))
    layout[7], layout[14] = 0, 3 * has_shims  # the thread names its frame; owners of shims
    native_id, chunk_at, frame_at = layout[4:7]
    code, _, previous, owner = layout[9:13]
    image = (ctypes.c_uint64 * 4096)()
    base = ctypes.addressof(image)
    state, chunk, generator = base, base + 8192, base + 16384
    outermost = chunk + 32  # the first in the first chunk of a thread's stack

    def put(address, value):
        ctypes.c_uint64.from_address(address).value = value

    for frame in (generator, outermost):
        put(frame + code, base + 24576)
    ctypes.c_uint8.from_address(generator + owner).value = 1
    put(state + native_id, 77)
    put(state + frame_at, generator)
    put(state + chunk_at, chunk)
    put(state + chunk_at + 8, chunk + 512)
    thread = remote.Thread(os.getpid(), struct.pack("<30Q", *layout), state, 77)
    assert thread.look(set()) is None
    put(generator + previous, outermost)
    assert len(thread.look(set())) == 2


def test_nonsense_in_memory_ends_a_look_and_nothing_else(program):
    seen = set()
    for base, state, layout, chance in images(program.layout, 2000, 77):
        thread = remote.Thread(os.getpid(), layout, state, 77)
        try:
            frames = thread.look({base + 8 * chance.randrange(4096)})
        except ProcessLookupError:
            frames = ()
        seen.add(frames is None)
        assert frames is None or len(frames) <= 1024
        somewhere = base + 8 * chance.randrange(4000)
        for address in (somewhere, *codes_of(frames or ())[:50]):
            for ask in (thread.code, thread.mark):
                try:
                    ask(address)
                    seen.add("code")
                except ValueError:
                    pass
    assert {True, False} <= seen, "the images are too poor, or too good"


def test_looks_at_nonsense_are_torn_and_their_files_can_be_read(program, tmp_path):
    """Each process number has code objects of its own at these addresses: none is trusted."""
    for name in watch_files.OF_LINES:
        (tmp_path / name).touch()
    tmp_path.chmod(0o700)
    files = [os.open(tmp_path / name, os.O_WRONLY) for name in watch_files.OF_LINES]
    over = set()
    looks = remote.Looks(remote.OwnFiles((b"/usr/lib/",), ()), *files, over)
    mine = threading.get_native_id()
    for turn, (_, state, layout, _) in enumerate(images(program.layout, 3000, mine)):
        thread = remote.Thread(
            os.getpid(), layout, state, mine, ticks=9, index=turn % 7, process=turn // 25
        )
        with contextlib.suppress(ProcessLookupError):
            looks.look(thread)
        over.add((os.getpid(), 9, turn % 3))
    looks.join()
    looks.spent(0, 5)
    head, rows, codes = lines.read(open_run(str(tmp_path)))
    assert head.torn > 100 and head.cpu_ns == 5
    assert sum(row.looks for row in rows) == head.looks
    assert all(row.inner[0] < len(codes) for row in rows)
    with pytest.raises(TypeError):
        looks.look(mine)
    for file in files:
        os.close(file)


def test_what_a_thread_does_is_said_with_its_line(program, tmp_path):
    for name in watch_files.OF_LINES:
        (tmp_path / name).touch()
    tmp_path.chmod(0o700)
    files = [os.open(tmp_path / name, os.O_WRONLY) for name in watch_files.OF_LINES]
    looks = remote.Looks(remote.OwnFiles((), ()), *files, set())
    now, threads = time.monotonic_ns(), []
    for tid, (index, state) in program.states.items():
        threads.append(
            remote.Thread(program.pid, program.layout, state, tid, program.ticks, index, 1, now)
        )
        threads[-1].begin(False)
    expected = {(0, "inner", "wait"), (1, "café", "lock")}
    seen, until = set(), time.monotonic() + 60
    while not seen >= expected and time.monotonic() < until:  # they may be on their way there
        for thread in threads:
            looks.look(thread)
        looks.spent(0, 0)
        head, rows, codes = lines.read(open_run(str(tmp_path)))
        seen = {
            (row.thread, codes[row.own[0]].name, lines.STATES[row.state])
            for row in rows
            if row.own[0] != lines.NO_CODE
        }
        time.sleep(0.01)
    assert seen >= expected
    assert head.looks == sum(row.looks for row in rows) > 0
    assert {(row.pid, row.ticks) for row in rows} == {(program.pid, program.ticks)}
    for index in (0, 1):  # each look stands for the time since the one before
        assert 0 < sum(row.time_ns for row in rows if row.thread == index) < 60_000_000_000
    for file in files:
        os.close(file)


def test_looking_takes_nothing_from_the_looker(program):
    """A watch looks for days."""
    thread = thread_of(program, 0)
    frames = thread.look(set())
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    count = sys.getrefcount(remote.Thread)
    for _ in range(2000):
        assert codes_of(thread.look(set())) == codes_of(frames)
        thread.code(frames[0][0])
    thread_of(program, 0)
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before
    assert sys.getrefcount(remote.Thread) <= count + 1
