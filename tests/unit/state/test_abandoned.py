"""Run folders that a kill left before there was a run in them: they go after a day."""

from __future__ import annotations

import os
import time

import pytest

from taupy import session

DAY_S = 86_400


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state folder; the user's own is not looked at."""
    for name in ("XDG_STATE_HOME", "HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(folder))
    return folder


def leave(state, name, *files, age_s):
    folder = state / name
    folder.mkdir(mode=0o700)
    for file in files:
        (folder / file).write_bytes(b"")
    os.utime(folder, (0, time.time() - age_s))
    return folder


WATCH = (
    *("watch", "watch.found", "watch.memory", "watch.peaks", "watch.threads"),
    *("watch.lines", "watch.codes"),
)


@pytest.mark.parametrize(
    "files", [(), ("lock",), ("lock", "room"), ("lock", "run.new"), ("lock", *WATCH)]
)
def test_a_folder_that_was_being_made_goes_after_a_day(state, tmp_path, files):
    old = leave(state, "run-1-7", *files, age_s=DAY_S + 60)
    young = leave(state, "run-2-7", *files, age_s=DAY_S - 60)
    assert session.recover(tmp_path / "taupy.db") == []
    assert not old.exists() and young.exists()


def test_an_import_is_never_recovered_and_goes_after_a_day(state, tmp_path):
    files = ("lock", "run", "1-a.part")
    old = leave(state, "run-import-7", *files, age_s=DAY_S + 60)
    young = leave(state, "run-import-8", *files, age_s=0)
    assert session.recover(tmp_path / "taupy.db") == []
    assert not old.exists() and young.exists()


def test_a_folder_with_anything_measured_in_it_stays(state, tmp_path):
    folder = leave(state, "run-1-7", "lock", "1-a.part", age_s=30 * DAY_S)
    session.recover(tmp_path / "taupy.db")
    assert (folder / "1-a.part").exists()
