"""Bars of ranks, worker processes and further threads."""

from __future__ import annotations

from taupy.analysis.trees import Looks, Seen, Tree
from taupy.model.rows import ThreadRow, TimerRow
from taupy.report.lanes import lanes
from tests.builders import wide_profile
from tests.growth import is_linear


def test_bars_of_threads_that_come_and_go_take_linear_time():
    single, paths = Tree.of_profile(wide_profile(1))

    def shown(threads: int) -> None:
        columns = {
            name: [*getattr(single, name)] * threads
            for name in ("timer", "parent", "calls", "exclusive")
        }
        rows = [ThreadRow(0, 0, number, "host", "") for number in range(threads)]
        tree = single._replace(threads=rows, thread=range(threads), **columns)
        (bars,) = lanes(tree, {}, paths, None, with_c=False)
        assert len(bars.lanes) == threads - 1

    assert is_linear(shown, 700)


def test_a_thread_that_samples_saw_asleep_waits():
    """Two threads hold a lock for 10 ms in turn, for 1 s: each works for 100 ms of it."""
    worker = TimerRow("worker [{a.py} {3}]", "worker", "a.py", 3, "PYTHON")
    main = TimerRow("<module> [{a.py} {1}]", "<module>", "a.py", 1, "PYTHON")
    threads = [ThreadRow(0, 0, number, "host", f"w{number}") for number in range(3)]
    tree = Tree(threads, [0, 1, 2], [main, worker], [0, 1, 1], [-1] * 3, [1] * 3, [10**9] * 3)
    paths = {timer.timer: "/home/a.py" for timer in tree.timers}
    asleep = Seen({1: Looks(18, 9e8, 1e8), 2: Looks(2, 2e8)})  # of the third thread, hardly any
    (of,) = lanes(tree, {}, paths, None, asleep, with_c=False)
    bands = [[(band.kind, band.name, band.ns) for band in lane.bands] for lane in of.lanes]
    assert bands == [
        [("own", "your code", 1e8), ("wait", "waiting (sampled)", 9e8)],
        [("own", "your code", 1e9)],
    ]


def test_a_thread_waits_beyond_its_time_on_and_for_a_processor():
    """CPU time is exact: a thread that looks missed cannot have worked for longer. What it stood in
    the queue for a processor is work, as in its routine's row."""
    sleep = TimerRow("serve [{a.py} {3}]", "serve", "a.py", 3, "PYTHON")
    threads = [ThreadRow(0, 0, number, "host", f"w{number}") for number in range(4)]
    tree = Tree(threads, [0, 1, 2, 3], [sleep], [0] * 4, [-1] * 4, [1] * 4, [10**9] * 4)
    seen = Seen(cpu_ns={1: 4e7, 2: 1.01e9, 3: 2e8}, queued_ns={3: 6e8})
    paths = {sleep.timer: "/home/a.py"}
    (of,) = lanes(tree, {}, paths, None, seen, with_c=False)
    assert [[(band.kind, band.ns) for band in lane.bands] for lane in of.lanes] == [
        [("own", 4e7), ("wait", 9.6e8)],
        [("own", 1e9)],
        [("own", 8e8), ("wait", 2e8)],
    ]


def test_threads_of_libraries_are_shown_if_they_do_much_of_the_work():
    """A thread that runs a compiled module has no routine of the program's, only the pool's."""
    own = TimerRow("main [{a.py} {3}]", "main", "a.py", 3, "PYTHON")
    pool = TimerRow("run [{lib.py} {53}]", "run", "lib.py", 53, "PYTHON")
    threads = [ThreadRow(0, 0, number, "host", f"t{number}") for number in range(2)]
    tree = Tree(threads, [0, 1], [own, pool], [0, 1], [-1] * 2, [1] * 2, [10**9] * 2)
    paths = {own.timer: "/home/a.py", pool.timer: "/usr/lib/python3/site-packages/lib.py"}

    def shown(cpu_ns: list[float]) -> list[str]:
        seen = Seen(cpu_ns=dict(enumerate(cpu_ns)))
        bars = lanes(tree, {}, paths, None, seen, with_c=False)
        return [lane.name for of in bars for lane in of.lanes]

    assert shown([1e8, 9e8]) == ["t1"]
    assert shown([9e8, 1e7]) == []
