"""The bar of slow work: what, how far, how fast, how long it will take."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading

import pytest

from taupy.commands import bar
from taupy.model.progress import SILENT, CountedFile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile


class Terminal(io.StringIO):
    """Sets `drawn` when the text is on it."""

    def __init__(self, text=""):
        super().__init__()
        self.text, self.drawn = text, threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        written = super().write(text)
        if self.text in self.getvalue():
            self.drawn.set()
        return written


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(bar, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(bar, "_INTERVAL_SECONDS", 0.001)


def of_a_file(stream, monkeypatch):
    """What a bar draws for half of a file of 200 MiB, before it is erased."""
    monkeypatch.setattr(sys, "stderr", stream)
    with bar.shown("reading") as progress:
        progress.begin("profile\x1b[2J", 200 << 20, "B")
        progress.advance(100 << 20)
        assert stream.drawn.wait(60), stream.getvalue()
    return stream.getvalue()


def test_a_terminal_sees_how_far_how_fast_and_how_long(at_once, monkeypatch):
    shown = of_a_file(Terminal("50 %"), monkeypatch)
    assert "profile\\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"50 %, [\d.]+ [KMGT]iB/s, \d+ s left", plain), plain


def test_it_has_no_colour_where_none_is_wanted(at_once, monkeypatch):
    coloured = re.compile(r"\x1b\[[0-9;]*(3[0-9]|38;[0-9;]+)m")
    assert coloured.search(of_a_file(Terminal("50 %"), monkeypatch))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(of_a_file(Terminal("50 %"), monkeypatch))


@pytest.mark.parametrize("term", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_draw_sees_nothing(at_once, monkeypatch, term):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", term)
    with bar.shown("reading") as progress:
        assert progress is SILENT


def test_a_pipe_sees_nothing_and_short_work_neither(at_once, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with bar.shown("reading") as progress:
        assert progress is SILENT
    monkeypatch.setattr(bar, "_PATIENCE_SECONDS", 3600)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with bar.shown("reading") as progress:
        progress.begin("x", 10)
        progress.advance(10)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("total", "unit", "done", "took", "said"),
    [
        (200, "trials", 50, 10, "25 %, 5 trials/s, 30 s left"),
        (None, "trials", 50, 10, "50 trials, 5 trials/s, 10 s"),
        (3 << 30, "B", 1 << 30, 64, "33 %, 16.0 MiB/s, 2 min 08 s left"),
        (200, "", 0, 10, "0 %, 10 s"),
        (None, "", 0, 0, "0 s"),
        (100, "", 120, 10, "100 %, 12/s, 10 s"),  # what follows is not foreseen
    ],
)
def test_the_state_of_work_is_said(total, unit, done, took, said):
    stretch = bar._Stretch("x", total, unit)
    stretch.done = done
    assert stretch.state(stretch.since + took) == said


class Recorded:
    """Every stretch of work, and how much of it was reported done."""

    def __init__(self):
        self.stretches = []

    def begin(self, what, total=None, unit=""):
        self.stretches.append([what, total, 0])

    def advance(self, amount=1):
        self.stretches[-1][2] += amount


def test_merging_reports_each_trial_and_building_a_page_each_part(tmp_path):
    from taupy.profiledb.audit import audit
    from taupy.profiledb.merge import merge
    from taupy.report import contents

    files = [str(tmp_path / name) for name in ("a.db", "b.db")]
    for at, path in enumerate(files):
        with ProfileDB.open(path, create=True) as db:
            add_profile(db, small_profile(2 * at + 1))
            add_profile(db, small_profile(2 * at + 2))
    recorded = Recorded()
    merge(str(tmp_path / "all.db"), files, progress=recorded)
    with ProfileDB.open(tmp_path / "all.db") as db:
        contents.of_trial(db, db.trial(1), recorded)
        assert list(audit(db, recorded)) == []
    merged, built, *_, checked = recorded.stretches
    assert merged == ["merging", 4, 4]
    assert built[1] == built[2] > 5
    assert checked == ["checking trials", 4, 4]


def test_a_file_is_counted_in_bytes(tmp_path):
    (tmp_path / "x").write_bytes(b"1" * 1000)
    recorded = Recorded()
    with CountedFile(tmp_path / "x", recorded) as file:
        file.read()
    assert recorded.stretches == [["x", 1000, 1000]]


@pytest.mark.slow
def test_a_sweep_says_how_long_the_rest_will_take(tmp_path):
    """On a terminal only."""
    code = """if True:
        import os, pty, sys
        os.environ["TERM"] = "xterm"
        pty.spawn([sys.executable, "-m", "taupy", "run", "--sweep", "n=1,2", "--", "p.py", "{n}"])
    """
    (tmp_path / "p.py").write_text("print('ran')\n")
    command = [sys.executable, "-c", code]
    seen = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL)  # fmt: skip
    first, second = (line for line in seen.stdout.splitlines() if line.startswith("taupy: run "))
    assert first.strip() == "taupy: run 1 of 2: n=1"
    assert re.fullmatch(r"taupy: run 2 of 2: n=2 \(.+ a run, about .+ left\)", second.strip())
