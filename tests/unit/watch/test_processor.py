"""Which looks at a runnable thread count as running, and which as waiting for a processor."""

import os
import random
import threading

import pytest

from taupy.state import lines
from taupy.watch import processor
from taupy.watch.lines import activity
from taupy.watch.processor import Processor, times

MS = 1_000_000


class Thread:
    """A simulated thread, whose times are up to date when it gets or leaves a processor."""

    def __init__(self):
        self.at = self.ran = self.waited = 0
        self.stretches = []

    def do(self, what, ns):
        self.at += ns
        self.ran += ns if what == "runs" else 0
        self.waited += ns if what == "waits" else 0
        self.stretches.append((self.at, what, self.ran, self.waited))

    def looks(self, mean_ns, seed=1):
        """(state, counted times, time since the look before) at moments of chance."""
        chance, at, stretches = random.Random(seed), 0, iter(self.stretches)
        end, what, ran, waited = next(stretches)
        counted, started = (0, 0), 0
        while True:
            took = round(mean_ns * chance.uniform(0.75, 1.25))
            at += took
            while end <= at:
                counted, started = (ran, waited), end
                following = next(stretches, None)
                if following is None:
                    return
                end, what, ran, waited = following
            ticked = (at - started) // (4 * MS) * 4 * MS if what == "runs" else 0
            yield what, (counted[0] + ticked, counted[1]), took


def divided(thread, mean_ns):
    """Time of the looks by what they found, as shares of all."""
    of, sums = Processor((0, 0)), dict.fromkeys((True, False, "sleeps"), 0)
    for what, now, took in thread.looks(mean_ns):
        sums["sleeps" if what == "sleeps" else of.runs(now, took)] += took
    whole = sum(sums.values())
    return {key: ns / whole for key, ns in sums.items()}


@pytest.mark.parametrize("look_ns", [5 * MS, 20 * MS, 50 * MS])
@pytest.mark.parametrize(
    "cycle",
    [
        {"runs": 100},
        {"runs": 4, "waits": 8},
        {"runs": 10, "waits": 20},
        {"runs": 40, "waits": 90},
        {"runs": 1, "sleeps": 5},
        {"waits": 12, "runs": 0.2, "sleeps": 5},
        {"waits": 30, "runs": 4, "sleeps": 25},
    ],
    ids=str,
)
def test_sums_agree_with_the_exact_times(cycle, look_ns):
    thread, chance = Thread(), random.Random(7)
    while thread.at < 40_000 * MS:
        for what, ms in cycle.items():
            thread.do(what, round(ms * MS * chance.uniform(0.5, 1.5)))
    number = thread.at / look_ns
    shares = divided(thread, look_ns)
    for key, exact in ((True, thread.ran), (False, thread.waited)):
        share = exact / thread.at
        error = (share * (1 - share) / number) ** 0.5
        assert abs(shares[key] - share) <= 4 * error + 1 / number + 0.002, (cycle, key, shares)


def test_a_change_is_followed():
    """Ten seconds alone on a processor, then ten with a tenth of one."""
    thread = Thread()
    for _ in range(100):
        thread.do("runs", 100 * MS)
    for _ in range(100):
        thread.do("waits", 90 * MS)
        thread.do("runs", 10 * MS)
    of, sums = Processor((0, 0)), [[0, 0], [0, 0]]
    for at, (_, now, took) in enumerate(thread.looks(20 * MS)):
        sums[at >= 500][of.runs(now, took) is True] += took
    assert sums[0][0] <= 0.02 * sum(sums[0])
    assert abs(sums[1][1] / sum(sums[1]) - 0.1) <= 0.03


def test_a_thread_that_has_not_run_since_the_last_look_is_not_on_a_processor():
    of = Processor((0, 0))
    assert of.runs((20 * MS, 0), 20 * MS) is True
    assert of.runs((20 * MS, 0), 20 * MS) is False
    assert of.runs((40 * MS, 0), 20 * MS) is True


def test_where_the_kernel_does_not_count_it_is_not_known(monkeypatch):
    assert Processor(None).runs(None, 5 * MS) is None
    mine = os.getpid(), threading.get_native_id()
    ran, waited = times(*mine)
    assert ran > 0 and waited >= 0

    def answer(content):
        def read(asked, size=1024):
            if asked.endswith("schedstat"):
                if isinstance(content, Exception):
                    raise content
                return content
            return b"running\n"

        monkeypatch.setattr(processor, "contents", read)
        monkeypatch.setattr("taupy.watch.lines.contents", read)

    for content in (b"0 0 0\n", b"", PermissionError(13, "no"), FileNotFoundError(2, "no")):
        answer(content)
        assert times(*mine) is None
        does = activity(*mine, range(0), Processor(None), 5 * MS)
        assert lines.STATES[does] == "active"
