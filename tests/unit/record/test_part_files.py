"""Parts that lie beside the database, because the run folder had no room for them."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from taupy.record import part_files


def spilled_where(monkeypatch, problem: OSError):
    def refused(path):
        raise problem

    monkeypatch.setattr(part_files, "open_any", refused)
    settings = SimpleNamespace(database="/nowhere/taupy.db", uuid="u")
    return part_files.spilled(settings, ".part")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_folder_that_cannot_be_listed_now_does_not_pass_for_empty(monkeypatch, number):
    with pytest.raises(OSError):  # the run stays, and the next command tries again
        spilled_where(monkeypatch, OSError(number, "not now"))


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.EACCES])
def test_in_a_folder_that_can_never_be_listed_there_is_nothing(monkeypatch, number):
    assert spilled_where(monkeypatch, OSError(number, "never")) == {}
