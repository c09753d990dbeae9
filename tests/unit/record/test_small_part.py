"""Parts with few call paths are decoded without NumPy, with the results of `wide_part.py`."""

import os
import random
import subprocess
import sys
import time
from array import array
from dataclasses import asdict, fields, replace
from types import SimpleNamespace

import pytest

from taupy.errors import FormatError
from taupy.model.profile import Timer
from taupy.record import engine_layout, part_blocks, small_part, small_tree, wide_tree
from taupy.record.part_blocks import LAYOUT, Blocks
from taupy.record.part_check import check
from taupy.record.part_data import PartThread
from taupy.record.small_part import NotSmall, SmallPart, is_small
from taupy.record.wide_part import WidePart
from taupy.state import container

PROGRAM = """
import os, threading
def recurse(n):
    return n and recurse(n - 1)
def numbers():
    yield from range(3)
def work():
    recurse(5)
    list(numbers())
    [number for number in map(lambda n: n + 1, numbers())]
threads = [threading.Thread(target=work, name=f"worker {n}") for n in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
if os.fork() == 0:
    def inner():
        os.kill(os.getpid(), 9)
    inner()
os.wait()
"""

UNSTORED = """
import sys
from taupy.__main__ import main
from taupy.instrument import launch
launch.storer_command = lambda *_: [b"/bin/true"]
main()
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The parts of a program that has ended and of a child that was killed."""
    folder = tmp_path_factory.mktemp("small")
    environment = {**os.environ, "TAUPY_STATE_DIR": str(folder / "state")}
    command = [sys.executable, "-c", UNSTORED, "run", "--no-watch", "-c", PROGRAM]
    subprocess.run(command, env=environment, cwd=folder, check=True, timeout=100)
    files = sorted(folder.glob("state/run-*/*.part"))
    assert len(files) == 2
    return {file.name: file.read_bytes() for file in files}


def decoded(kind, name, data, is_changing=False):
    """What a decoder makes of a part; None if it refuses it."""
    try:
        held = container.read(name, data, LAYOUT)
        if held is None:
            return None
        blocks = Blocks.of(held)
        if kind is SmallPart and not is_small(held, blocks):
            return NotSmall
        part = kind(held, blocks, is_changing).decode((1 << 60, 1 << 60))
        if part is None:
            return None
        check(part)
    except NotSmall:
        return NotSmall
    except (FormatError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    return replace(part, threads=[]), [plain(thread) for thread in part.threads]


def plain(thread):
    values = {field.name: getattr(thread, field.name) for field in fields(thread)}
    return {name: v.tolist() if hasattr(v, "tolist") else v for name, v in values.items()}


@pytest.mark.parametrize("is_changing", [False, True])
def test_both_ways_give_the_same(parts, is_changing):
    for name, data in parts.items():
        small = decoded(SmallPart, name, data, is_changing)
        assert small not in (None, NotSmall)
        assert small == decoded(WidePart, name, data, is_changing)
    assert len(small[1][0]["open"]) > 1  # of the child that was killed


def test_both_ways_refuse_the_same_damage(parts):
    chance = random.Random(7)
    outcomes = set()
    for number in range(400):
        name, data = chance.choice(list(parts.items()))
        used = container.header(name, data, LAYOUT).used
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 1, 3))):
            at = chance.randrange(container.HEADER_BYTES // 8, used // 8) * 8
            old = int.from_bytes(damaged[at : at + 8], "little")
            new = chance.choice((0, old ^ 1 << chance.randrange(64), old + 64, (1 << 63) - 1))
            damaged[at : at + 8] = (new & (1 << 64) - 1).to_bytes(8, "little")
        small = decoded(SmallPart, name, bytes(damaged))
        wide = decoded(WidePart, name, bytes(damaged))
        assert small is NotSmall or repr(small) == repr(wide), number
        outcomes.add("refused" if wide is None else "other" if small is NotSmall else "read")
    assert outcomes >= {"refused", "read"}


def test_sizes_are_those_of_the_engines_structures():
    kinds = ("STEP STEPS", "LAYER LAYERS", "SPAN SPANS", "COMMUNICATOR COMMUNICATORS")
    kinds += ("COLLECTIVE COLLECTIVES", "COLLECTIVE_SUM COLLECTIVE_SUMS", "STRETCH STRETCHES")
    for layout, block in map(str.split, (*kinds, "THREAD THREAD")):
        size = getattr(engine_layout, layout).itemsize
        assert LAYOUT.least[getattr(part_blocks, block)] == size, layout
    assert small_part._NODE.size == engine_layout.NODE.itemsize
    assert small_part._THREAD.size == engine_layout.THREAD.itemsize
    assert small_part._HIDDEN_BYTES == engine_layout.HIDDEN_BYTES


def thread_of(rows, columns):
    """A thread with a random tree, in which some rows have less time than their children."""
    chance = random.Random(rows)
    parent = [-1, *(chance.randrange(row) for row in range(1, rows))]
    routine = [-1, *(chance.randrange(9) for _ in range(1, rows))]
    numbers = ([chance.randrange(10**9) for _ in range(rows)] for _ in range(3))
    return PartThread(7, "t", 5, *map(columns, (routine, parent, *numbers)))


SETTINGS = SimpleNamespace(fold_libraries=False, compensate=False, overhead={}, engine_options={})
TIMERS = SimpleNamespace(timers=[Timer(f"f{n}") for n in range(10)], library=[False] * 10, root=9)


@pytest.mark.parametrize("rows", [1, 2, 50, 700])
def test_trees_are_the_same_in_both_ways(rows):
    thread, timer_of = thread_of(rows, lambda column: array("q", column)), list(range(9))
    assert small_tree.is_plain(timer_of, TIMERS.timers, SETTINGS)
    routines = wide_tree.RoutineTimers.of(timer_of, TIMERS)
    wide, row_of = wide_tree.tree(thread, routines, TIMERS, SETTINGS)
    assert asdict(small_tree.tree(thread, timer_of, TIMERS.root)) == asdict(wide)
    assert list(row_of) == list(range(rows))


@pytest.mark.parametrize(
    ("timer_of", "settings"),
    [
        ([0, 1, 1], {}),  # two code objects of one routine
        ([0, 1, 2], {"fold_libraries": True}),
        ([0, 1, 2], {"compensate": True, "overhead": {"call_ns": 1.0}}),
    ],
)
def test_what_merges_rows_or_changes_times_is_left_to_the_other_way(timer_of, settings):
    changed = SimpleNamespace(**{**vars(SETTINGS), **settings})
    assert not small_tree.is_plain(timer_of, TIMERS.timers, changed)
    ranges = [Timer("r", groups=("NVTX",)), *TIMERS.timers]
    assert not small_tree.is_plain([0, 1], ranges, SETTINGS)


def test_it_takes_less_time_than_importing_numpy(parts):
    """Otherwise it would be one way too many."""
    code = (
        "import time; a = time.process_time_ns(); import numpy; print(time.process_time_ns() - a)"
    )
    took = [subprocess.run([sys.executable, "-c", code], capture_output=True).stdout for _ in "123"]
    name, data = next(iter(parts.items()))
    spent = []
    for _ in range(3):
        before = time.thread_time_ns()
        decoded(SmallPart, name, data)
        spent.append(time.thread_time_ns() - before)
    assert min(spent) < min(map(int, took)) / 3
