"""Who can change what is at a path: the whole way up to the root folder."""

from __future__ import annotations

import os
from struct import pack

import pytest

from taupy.state import changers
from taupy.state.changers import others


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir(mode=0o755)
    (folder / "file").touch(mode=0o644)
    return folder


@pytest.fixture
def anothers(monkeypatch):
    """Makes what the user owns another user's."""

    def give(path) -> None:
        if os.geteuid() == 0:
            os.chown(path, 4242, -1, follow_symlinks=False)
        else:
            monkeypatch.setattr(changers, "user", lambda: 4242)

    return give


def test_nobody_else_changes_a_folder_or_file_of_ones_own(own):
    assert others(f"{own}") == others(f"{own}/file") == others(f"{own}//./file") == ""


@pytest.mark.parametrize(("mode", "who"), [(0o775, "group"), (0o757, "all users"), (0o777, "all")])
def test_who_may_write_a_file_can_change_it(own, mode, who):
    (own / "file").chmod(mode)
    assert who in others(f"{own}/file")
    assert others(str(own)) == ""


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o2775])
def test_who_may_write_into_a_folder_above_can_replace_a_file(own, mode):
    (own / "a" / "b").mkdir(parents=True)
    (own / "a" / "b" / "file").touch(mode=0o644)
    (own / "a").chmod(mode)
    assert f"may write to {own}/a" in others(f"{own}/a/b/file")
    assert f"may write to {own}/a" in others(f"{own}/a/b")


def test_a_group_of_ones_own_is_spared_but_not_a_list_of_others(own, monkeypatch):
    own.chmod(0o775)
    monkeypatch.setattr(changers, "_is_own_group", lambda gid, me: True)
    assert others(f"{own}/file", spares_own_group=True) == ""
    entries = (0x01, 7, -1), (0x02, 7, 4242), (0x04, 5, -1), (0x10, 7, -1), (0x20, 5, -1)
    rights = pack("<I", 2) + b"".join(pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(own, "system.posix_acl_access", rights)
    except OSError as error:
        pytest.skip(f"no access control lists here ({error})")
    assert "list" in others(f"{own}/file", spares_own_group=True)


def test_a_sticky_folder_is_safe_above_a_folder_but_not_as_one(own):
    (own / "sub").mkdir(mode=0o755)
    own.chmod(0o1777)
    assert others(f"{own}/sub") == others(f"{own}/sub/new") == ""
    assert "all users" in others(str(own))
    assert "all users" in others(f"{own}/new"), "anybody can create it"


def test_what_another_user_owns_can_be_changed(own, anothers):
    anothers(own)
    assert f"{own} belongs to user 4242" in others(f"{own}/file") or os.geteuid() != 0
    assert "belongs to user" in others(f"{own}/file")


def test_in_a_sticky_folder_the_owner_of_an_entry_can_replace_it(own, anothers):
    own.chmod(0o1777)
    anothers(own / "file")
    assert others(f"{own}/file")


def test_a_link_is_followed_and_its_folder_counts(own, tmp_path):
    (own / "link").symlink_to("../own/file")
    (own / "loop").symlink_to("loop")
    assert others(f"{own}/link") == ""
    assert "too many links" in others(f"{own}/loop")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "link").symlink_to(own)
    assert f"may write to {shared}" in others(f"{shared}/link/file")
    (own / "out").symlink_to(shared)
    assert f"may write to {shared}" in others(f"{own}/out/new")


def test_two_dots_lead_to_the_folder_above_where_a_link_points(own, tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far" / "file").touch(mode=0o666)
    (tmp_path / "far" / "file").chmod(0o666)
    (own / "link").symlink_to(tmp_path / "far" / "away")
    assert f"may write to {tmp_path}/far/file" in others(f"{own}/link/../file")


def test_a_relative_path_begins_in_the_current_folder(own, monkeypatch):
    monkeypatch.chdir(own)
    assert others("file") == ""
    own.chmod(0o777)
    assert f"may write to {own}" in others("file")


def test_root_folders_of_a_container_without_root_are_trusted_above_only(own, monkeypatch):
    monkeypatch.setattr(changers, "_is_root_mapped", lambda: False)
    monkeypatch.setattr(changers, "_UNMAPPED", 4242)
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(own, 4242, -1)
    assert others(f"{own}/file") == ""
    assert "belongs to user 4242" in others(str(own))
