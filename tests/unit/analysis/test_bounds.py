"""What a finding on a line could save at most: all that the line calls, however it waits."""

from types import SimpleNamespace

import pytest

from taupy.analysis.findings import event_loop, one_busy
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.hot_lines import Hot, bound
from taupy.analysis.findings.waiting import Life
from taupy.analysis.line_times import LineRow
from taupy.model.profile import LineTime
from taupy.model.rows import ThreadRow, TimerRow

MAIN = ThreadRow(0, 0, 0, "host", "")
TEXT = """
def work(items):
    a = library.sort(items, key=price)
    b = Item(a)
    other()
"""


def timer(name, file="p.py", line=2):
    return TimerRow(f"{name} [{{{file}}}{{{line}}}]", name, file, line, "")


NAMES = ["work", "library.sort", "price", "Item.__init__", "other"]
PARENTS = [-1, 0, 1, 0, 0]
NS = [1000, 300, 200, 50, 400]


@pytest.fixture
def trial():
    timers = [timer(name, "site/lib.py" if "library" in name else "p.py") for name in NAMES]
    calls = SimpleNamespace(
        timer=timers, inclusive=NS, thread=[MAIN] * 5, parent=PARENTS,
        children=lambda row: [at for at, above in enumerate(PARENTS) if above == row],
        of_timer=lambda asked: {MAIN: Sum(1000, 1, (0,))},
    )  # fmt: skip
    return SimpleNamespace(
        calls=calls, wall_ns=5000, source=lambda asked: TEXT,
        is_own=lambda asked: asked.file == "p.py",
    )  # fmt: skip


def hot(trial, line, ns, error_ns=0, **by_state):
    return Hot(trial.calls.timer[0], MAIN, line, ns, ns - 2 * error_ns, by_state, ())


def test_it_has_the_programs_routines_that_a_line_calls(trial):
    assert bound(trial, hot(trial, 3, 100)) == 100 + 200 + 50  # any operator's, such as a copy's
    assert bound(trial, hot(trial, 4, 100)) == 100 + 50
    assert bound(trial, hot(trial, 5, 10)) == 10 + 400 + 50


def test_it_has_the_error_of_the_estimate(trial):
    assert bound(trial, hot(trial, 4, 100, error_ns=20)) == 100 + 40 + 50
    assert bound(trial, hot(trial, 4, 100, error_ns=20), 60) == 60 + 40 + 50


def test_it_is_no_more_than_the_routine_takes(trial):
    assert bound(trial, hot(trial, 5, 900)) == 1000


def blocked(monkeypatch, queued, worked_ns, **seen):
    """The findings on a coroutine's line that was seen so long [ns] and often in these states."""
    commits, found = timer("commits"), []
    rows = tuple(
        LineRow(MAIN, commits, None, LineTime(0, None, 3, 3, 0, 9, state, looks, ns, ns, 1.0))
        for state, (ns, looks) in seen.items()
    )
    whole = sum(ns for ns, _ in seen.values())
    line = Hot(commits, MAIN, 3, whole, float(whole), {}, rows)
    monkeypatch.setattr(event_loop, "hot_lines", lambda trial, least: [line])
    monkeypatch.setattr(event_loop, "_coroutine", lambda trial, row: commits)
    monkeypatch.setattr(event_loop, "_comes_again", lambda trial, hot: True)
    monkeypatch.setattr(event_loop, "_in_what", lambda trial, hot: "")
    calls = SimpleNamespace(
        timer=[commits], inclusive=[whole], thread=[MAIN], children=lambda row: [],
        rows_of=lambda asked: [0], of_timer=lambda asked: {MAIN: Sum(whole, 1, (0,))},
    )  # fmt: skip
    trial = SimpleNamespace(
        calls=calls, wall_ns=worked_ns, worked_ns=worked_ns, source=lambda asked: "", lines=rows,
        finding=lambda *arguments: found.append(arguments) or arguments,
        runnable=lambda thread: queued,
    )  # fmt: skip
    return [*event_loop._blocked(trial, {MAIN: 9})]


def test_what_holds_up_an_event_loop_includes_getting_a_processor_again(monkeypatch):
    """A coroutine's line that sleeps 30 ns, and waits 70 ns for a processor after that."""
    seen = {"wait": (30, 50), "runnable": (70, 50)}
    ((_, _, sentence, ns, *_),) = blocked(monkeypatch, None, 200, **seen)
    assert ns == 100 and "~100 ns, 50.0 % of the run" in sentence


@pytest.mark.parametrize(
    ("queued", "disk", "is_found"),
    [(0.6, (60, 30), True), (0.0, (60, 30), False), (0.6, (30, 30), False), (0.6, (60, 9), False)],
    ids=["busy machine", "idle machine", "hardly waits", "hardly seen"],
)
def test_a_wait_of_an_event_loop_is_a_part_of_the_run_without_its_queue(
    queued, disk, is_found, monkeypatch
):
    """A line of 400 ns, of a run of 1000 that waits for a processor most of the time."""
    seen = {"disk": disk, "cpu": (20, 20), "runnable": (320, 90)}
    assert bool(blocked(monkeypatch, queued, 1000, **seen)) is is_found


STORE = """
import threading
class Store:
    def put(self, key):
        with self.lock:
            self.rows.append(key)
            self.rows.sort(key=price)
        self.seen += 1
"""


def test_the_slow_part_under_a_lock_is_a_line_that_works_while_it_is_held():
    put = timer("Store.put", line=4)

    def lines(*looks):
        return [
            LineRow(MAIN, put, None, LineTime(0, None, at, at, 0, 9, state, n, n, n, float(n)))
            for at, state, n in looks
        ]

    trial = SimpleNamespace(source=lambda asked: STORE, lines=lines(
        (5, "lock", 900), (7, "lock", 800), (8, "cpu", 300), (7, "cpu", 150), (6, "cpu", 100)
    ))  # fmt: skip
    assert one_busy._slow_part(trial, put) == ", mostly at line 7"
    trial.lines = lines((5, "lock", 900), (8, "cpu", 300), (7, "cpu", 5))  # too few looks
    assert one_busy._slow_part(trial, put) == ""


@pytest.mark.parametrize(
    ("makes", "is_of_program"),
    [
        ([("produce", 900)], True),
        ([("shipments", 54), ("batched", 2)], False),
        ([], False),
    ],
    ids=["producer", "pool that pickles what a generator yields", "pool"],
)
def test_a_thread_does_the_programs_work_if_that_is_more_than_a_moment(makes, is_of_program):
    made = [(timer(name), ns) for name, ns in makes]
    assert one_busy._is_of_program(made, Life(MAIN, 1000, 1000, 500)) is is_of_program


def test_what_a_forked_process_does_is_not_what_it_was_forked_in():
    """A pool's process, which computes with a library, and one that runs a routine of the program:
    both were forked in `main`, which neither has called."""
    names = (".taupy application", "main", "Process.run", "sum", "price")
    tree = {0: [1], 1: [2], 2: [3, 4], 3: [], 4: []}
    above = {child: row for row, children in tree.items() for child in children}
    calls = SimpleNamespace(
        roots=[0], thread=[MAIN] * 5, calls=[1, 0, 1, 1, 1], timer=list(map(timer, names)),
        parent=[above.get(row, -1) for row in tree], children=tree.__getitem__,
    )  # fmt: skip
    called = []
    trial = SimpleNamespace(calls=calls, own_below=called.extend)
    one_busy._own(trial, Life(MAIN, 1000, 1000, 500))
    assert [calls.timer[row].short_name for row in called] == ["Process.run"]


@pytest.mark.parametrize(("waits_for", "rests"), [("gil", False), ("lock", True), ("wait", True)])
def test_threads_that_wait_for_work_do_not_wait_for_the_gil(waits_for, rests):
    def seen(state, ns):
        line = LineTime(0, None, 7, 7, 0, 9, state, 20, ns, ns, float(ns))
        return LineRow(MAIN, timer("take"), None, line)

    trial = SimpleNamespace(lines=[seen("cpu", 500), seen("gil", 100), seen(waits_for, 300)])
    assert one_busy._rest(trial, [Life(MAIN, 1000, 1000, 500)]) is rests
