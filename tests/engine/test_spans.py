"""`--trace=host` stamps each layer and phase as it begins and ends, and long calls of own routines;
with a stand-in for PyTorch."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from taupy.formats import registry
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from tests.engine.conftest import has_native
from tests.engine.test_steps import LOOPS
from tests.engine.test_steps import run as run  # a fixture

pytestmark = pytest.mark.skipif(not has_native, reason="the compiled engine is not built")

TRAINING = """
import os, threading
def work():
    with taupy.phase("epoch"):
        for batch in loader(3): train(batch)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
work()
for thread in threads: thread.join()
with taupy.phase("parent"):
    if os.fork() == 0:
        work()
        os._exit(0)
    os.wait()
"""
STAMPED = {
    "Module": 3,
    "<Module>": 3,
    "Tensor.backward": 3,
    "_BaseDataLoaderIter.__next__": 4,
    "Optimizer.profile_hook_step.<locals>.wrapper": 3,
    "epoch": 1,
}
"""By each thread and the child."""


def profile_of(trial):
    (file,) = (row[2] for row in trial.sql("PRAGMA database_list"))
    with ProfileDB.open(file, create=False) as db:
        return read_profile(db, trial.sql("SELECT id FROM trial")[0][0])


def short(timer) -> str:
    return timer.name.partition(" [")[0]


def spans(profile) -> dict[tuple[int, int], list]:
    """By thread: (name, start, end, row)."""
    found = {}
    for thread in profile.threads:
        timer_of = thread.tree.timer
        found[thread.thread.node, thread.thread.thread] = [
            (short(profile.timers[timer_of[each.row]]), each.start_ns, each.end_ns, each.row)
            for each in thread.activities
            if each.kind == "range"
        ]
    return found


def test_layers_and_phases_are_stamped_each_time(run, tmp_path):
    trial = run(TRAINING, "--trace=host")
    profile = profile_of(trial)
    found = spans(profile)
    for measured in profile.threads:
        mine = found[measured.thread.node, measured.thread.thread]
        counted = Counter(name for name, *_ in mine if not name.startswith("import "))
        assert counted == {**STAMPED, **({"parent": 1} if "parent" in counted else {})}
        assert_sums_agree(measured, mine)
        assert_nested(measured, mine)
    assert [len(threads) for threads in (found, {node for node, _ in found})] == [4, 2]
    assert sum(name == "parent" for mine in found.values() for name, *_ in mine) == 2

    for name in ("out.trace.json", "out.pftrace", "out.speedscope.json"):
        target = tmp_path / name
        registry.exported(profile, registry.writer_for(target), target, SILENT)
    events = json.loads((tmp_path / "out.trace.json").read_text())["traceEvents"]
    layers = [event for event in events if event["ph"] == "X" and event["cat"] == "LAYER"]
    assert Counter(event["name"] for event in layers) == {
        "Module [Module]": 12,
        "<Module> [Module]": 12,
    }


def assert_sums_agree(measured, mine):
    """A row's spans sum up to its time, but for the nanosecond by which each is rounded."""
    rows = {row for *_, row in mine}
    for at in rows:
        lengths = [end - start for _, start, end, row in mine if row == at]
        assert abs(sum(lengths) - measured.tree.inclusive["time"][at]) <= len(lengths)


def assert_nested(measured, mine):
    """What hangs below a row with spans lies within one of them."""
    rows = {row for *_, row in mine}
    for _, start, end, row in mine:
        above = measured.tree.parent[row]
        while above >= 0 and above not in rows:
            above = measured.tree.parent[above]
        assert above < 0 or any(
            begun - 1 <= start <= end <= ended + 1 for _, begun, ended, at in mine if at == above
        )


CALLS = """
import json, time
def brief(): pass
def work():
    for _ in range(100): brief()
    json.dumps(list(range(100_000)))
def wait():
    time.sleep(0.005)
    work()
for _ in range(3): wait()
"""


def test_long_calls_of_own_routines_are_stamped(run):
    """A call of less than a millisecond has no span, unless the thread lost its processor in it."""
    trial = run(CALLS, "--trace=host")
    (measured,) = profile_of(trial).threads
    calls = [each for each in measured.activities if each.kind == "call"]
    timers = profile_of(trial).timers
    lengths = defaultdict(list)
    for each in calls:
        timer = timers[measured.tree.timer[each.row]]
        lengths[short(timer)].append(each.end_ns - each.start_ns)
    assert lengths.keys() >= {"<module>", "wait", "work"}
    assert len(lengths["wait"]) == len(lengths["work"]) == 3
    assert min(map(min, lengths.values())) >= 990_000
    (row,) = {each.row for each in calls if each.end_ns - each.start_ns == max(lengths["wait"])}
    assert abs(sum(lengths["wait"]) - measured.tree.inclusive["time"][row]) <= 3


def test_a_process_keeps_so_many_and_what_was_open_then(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.taupy]\ntrace = 'host'\ntrace_spans = 100\n")
    trial = run("with taupy.phase('all'):\n  for _ in range(500): train(0)\n")
    profile = profile_of(trial)
    (measured,), (mine,) = profile.threads, spans(profile).values()
    names = Counter(name for name, *_ in mine)
    kept = sorted(measured.activities, key=lambda each: each.end_ns)
    ended, opened = kept[:100], kept[100:]
    assert all(each.start_ns <= ended[-1].end_ns <= each.end_ns for each in opened)
    # What train calls, and it, are there if they took a millisecond.
    still = Counter(short(profile.timers[measured.tree.timer[each.row]]) for each in opened)
    assert still["all"] == still["<module>"] == names["all"] == 1
    assert max(names.values()) < 50
    said = trial.metadata()["taupy.health.trace"]
    assert "the limit `trace_spans` was reached" in said
    assert said.split("\n")[0] in trial.stderr


@pytest.mark.slow
def test_those_of_a_window_of_steps_are_stamped_in_the_window(run):
    profile = profile_of(run(LOOPS["batches"][0] + "\n", "--trace=host", "--steps", "2:3"))
    (mine,) = spans(profile).values()
    names = Counter(name for name, *_ in mine)
    assert (names["Module"], names["<Module>"]) == (2, 2)
    assert names["steps outside of 2:3"] == 2


@pytest.mark.slow
def test_phases_of_greenlets_are_stamped_while_they_run(run):
    """`right`, which `left` has called, is left open three times: it has a span for each stretch
    in which its greenlet runs."""
    pytest.importorskip("greenlet")
    trial = run(
        """
from greenlet import greenlet
def work(name, other):
    for _ in range(3):
        with taupy.phase(name):
            net(None)
            other().switch()
left = greenlet(lambda: work("left", lambda: right))
right = greenlet(lambda: work("right", lambda: left))
with taupy.phase("whole"):
    left.switch()
""",
        "--trace=host",
    )
    profile = profile_of(trial)
    (stamped,) = spans(profile).values()
    names = Counter(name for name, *_ in stamped)
    assert (names["left"], names["right"], names["whole"], names["Module"]) == (3, 5, 1, 6)
    program = [each for each in stamped if each[0] != "exit"]  # that has a length, and ends last
    for _, begin, end, _ in program:
        across = [name for name, start, stop, _ in program if start < begin < stop < end]
        assert begin <= end and across == []
    tree = profile.threads[0].tree
    for row in {row for *_, row in stamped}:
        whole = sum(end - begin for _, begin, end, its in stamped if its == row)
        assert whole == pytest.approx(tree.inclusive["time"][row], abs=2000)


@pytest.mark.slow
def test_what_a_killed_process_was_in_lasts_until_its_end(run):
    trial = run(
        "import os, signal\nif os.fork() == 0:\n  with taupy.phase('last'):\n    train(0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\nos.wait()\n",
        "--trace=host",
    )
    profile = profile_of(trial)
    (killed,) = (thread for thread in profile.threads if thread.thread.node == 1)
    mine = spans(profile)[1, 0]
    (last,) = (each for each in mine if each[0] == "last")
    assert all(end <= last[2] for _, _, end, _ in mine)
    assert_sums_agree(killed, mine)


@pytest.mark.slow
def test_the_plain_engine_says_that_it_stamps_nothing(runner):
    trial = runner.run("pass\n", "python", "--trace=host")
    assert "--trace=host needs the compiled engine" in trial.stderr
