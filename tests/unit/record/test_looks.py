"""Where the watch's looks belong whose thread has ended, its memory being another one's by now."""

from __future__ import annotations

from array import array

from taupy.model.profile import Statistics
from taupy.record.looks import _HashedPaths
from taupy.record.part_data import ENDED, Part, PartThread, Routine, ThreadSums
from taupy.state.looks import ADDED_UP
from taupy.watch.part_threads import HASHED, path_hash

F, G, H = 0x1000, 0x2000, 0x3000


def thread(index: int, *routines: int, several: tuple[int, int] | None = None) -> PartThread:
    """A thread with one call path through these routines; one of several has its numbers' range."""
    rows = len(routines) + 1
    made = PartThread(0, "", 0, array("q", (-1, *routines)), array("q", range(-1, rows - 1)))
    made.index = index
    if several is not None:
        made.several = ThreadSums(9, 0, *several, 1, 2, Statistics(), None)
    return made


def part(*threads: PartThread) -> Part:
    routines = [Routine(name, "a.py", 1, "python", "PYTHON") for name in "fgh"]
    start = (ENDED, False, 0.0, 0, 1, 0)
    made = Part("1-1.part", "native", 1, 0, 0, *start, routines, [*threads], {}, {})
    made.keys = [F, G, H]
    return made


def hashed(*keys: int) -> int:
    number = 0
    for key in keys:
        number = path_hash(number, key)
    return number | HASHED


def test_a_look_belongs_to_its_thread_or_to_the_sum_that_has_its_call_path():
    threads = thread(0, 0), thread(2, 0, 1, several=(2, 9)), thread(5, 0, 2, several=(5, 11))
    paths = _HashedPaths(part(*threads, thread(7, 0, 1)))
    assert paths.find(hashed(F, G), 7 + 1) == (3, 2)  # it is there: its own
    assert paths.find(hashed(F, G), 8 + 1) == (1, 2)
    assert paths.find(hashed(F, H), 8 + 1) == (2, 2)
    assert paths.find(hashed(F, H), ADDED_UP) == (2, 2)
    assert paths.find(hashed(F, G), 11 + 1) == (1, 2)  # of no other sum
    assert paths.find(hashed(G), 10 + 1) == (2, None)  # the call path is not known


def test_without_sums_only_a_thread_that_is_there_has_looks():
    paths = _HashedPaths(part(thread(0, 0), thread(1, 1)))
    assert paths.find(hashed(G), 1 + 1) == (1, 1)
    assert paths.find(hashed(G), 6) is None
    assert paths.find(hashed(G), None) == (1, 1)
