"""Folders and files in them are used only if they are ours, regular and not too large."""

from __future__ import annotations

import os
import socket
import stat
import threading

import pytest

from taupy.state.folder import Untrusted, open_any, open_own, open_run


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own"
    path.mkdir(mode=0o700)
    with open_own(str(path)) as folder:
        yield folder


def mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


# --- the folder itself


@pytest.mark.parametrize("wide", [0o755, 0o770, 0o777, 0o707, 0o2777])
def test_a_state_folder_that_is_open_to_others_is_closed(tmp_path, wide):
    path = tmp_path / "state"
    (path / "run-1").mkdir(parents=True)
    path.chmod(wide)
    open_own(str(path)).close()
    assert mode(path) == 0o700


def test_a_folder_that_holds_other_things_keeps_its_mode_and_is_not_used(tmp_path):
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(Untrusted, match=r"contains more than taupy's runs.*thesis.tex"):
        open_own(str(tmp_path))
    assert mode(tmp_path) == 0o755


def test_a_folder_for_all_users_keeps_its_mode_and_is_not_used(tmp_path):
    tmp_path.chmod(0o1777)  # as /tmp, which is root's own
    with pytest.raises(Untrusted, match="for all users"):
        open_own(str(tmp_path))
    assert mode(tmp_path) == 0o1777


@pytest.mark.parametrize("slash", ["", "/", "//"])
def test_a_symbolic_link_is_no_state_folder(tmp_path, slash):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(Untrusted, match="is a symbolic link, not a folder"):
        open_own(str(tmp_path / "link") + slash)


@pytest.mark.parametrize("open_it", [open_own, open_run])
def test_another_users_folder_is_not_ours_for_root_either(tmp_path, give_away, open_it):
    path = tmp_path / "theirs"
    path.mkdir(mode=0o700)
    give_away(path)
    with pytest.raises(Untrusted, match="belongs to user 65533"):
        open_it(str(path))


def test_a_run_folder_in_which_others_may_write_is_not_used(own, tmp_path):
    (tmp_path / "own" / "run-1").mkdir()
    (tmp_path / "own" / "run-1").chmod(0o770)
    with pytest.raises(Untrusted, match="may be written by other users"):
        own.folder("run-1")
    (tmp_path / "own" / "run-1").chmod(0o755)  # as `cp -r` makes it
    own.folder("run-1").close()


def test_what_is_made_is_for_this_user_only_whatever_the_umask_says(own, tmp_path):
    for umask in (0, 0o077, 0o777):
        before = os.umask(umask)
        try:
            with own.make_folder(f"run-{umask}") as run:
                (run / "run").write_bytes(b"x")
                os.close((run / "lock").lock_descriptor())
                os.close((run / "part").create())
        finally:
            os.umask(before)
        path = tmp_path / "own" / f"run-{umask}"
        assert mode(path) == 0o700
        assert {mode(path / name) for name in ("run", "lock", "part")} == {0o600 & ~umask}


# --- files in it


def _pipe(path):
    os.mkfifo(path)


def _device(path):
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeros without end
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        pytest.skip("devices cannot be made and opened here")


def _socket(path):
    socket.socket(socket.AF_UNIX).bind(os.fspath(path))


STRANGE = {
    "a named pipe": _pipe,
    "a device": _device,
    "a socket": _socket,
    "a symbolic link": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("use", ["read_bytes", "size", "open", "lock_descriptor"])
def test_what_is_no_regular_file_is_refused_and_nobody_waits_for_it(own, tmp_path, kind, use):
    STRANGE[kind](tmp_path / "own" / "run")
    with pytest.raises(Untrusted, match=f"run is {kind}, not a regular file"):
        getattr(own / "run", use)()


def test_writing_replaces_a_link_and_never_follows_it(own, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("nodes", "nodes.new", "run.new"):
        (tmp_path / "own" / name).symlink_to(victim)
    (own / "nodes").write_bytes(b"1")
    (own / "run").write_bytes(b"2")
    assert victim.read_text() == "precious"
    assert (own / "nodes").read_bytes() == b"1"
    assert not (tmp_path / "own" / "nodes").is_symlink()
    with pytest.raises(FileExistsError):
        (tmp_path / "own" / "part").symlink_to(victim)
        (own / "part").create()


def test_another_users_file_is_refused(own, tmp_path, give_away):
    (tmp_path / "own" / "run").write_bytes(b"x")
    give_away(tmp_path / "own" / "run")
    with pytest.raises(Untrusted, match="run belongs to user 65533"):
        (own / "run").read_bytes()


def test_a_size_bomb_is_refused_without_being_read(own, tmp_path):
    with open(tmp_path / "own" / "run", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(Untrusted, match="1099511627776 bytes: more than taupy writes"):
        (own / "run").read_record()
    with open_any(str(tmp_path / "own")) as copied:
        os.truncate(tmp_path / "own" / "run", 1 << 33)
        with pytest.raises(Untrusted, match="hardly any on disk"):
            (copied / "run").read_bytes()


def test_a_copied_folder_of_another_user_is_read_without_following_links(tmp_path, give_away):
    (tmp_path / "run").write_bytes(b"x")
    (tmp_path / "part").symlink_to("run")
    give_away(tmp_path / "run")
    with open_any(str(tmp_path)) as folder:
        assert (folder / "run").read_bytes() == b"x"
        with pytest.raises(Untrusted):
            (folder / "part").read_bytes()


def test_a_name_that_changes_between_look_and_open_never_gives_another_file(own, tmp_path):
    """A racing attacker swaps a file for a link to a secret; no read may ever return that."""
    secret, name = tmp_path / "secret", tmp_path / "own" / "run"
    secret.write_bytes(b"secret")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            (tmp_path / "own" / "a").write_bytes(b"plain")
            os.replace(tmp_path / "own" / "a", name)
            (tmp_path / "own" / "b").symlink_to(secret)
            os.replace(tmp_path / "own" / "b", name)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        seen = set()
        for _ in range(3000):
            try:
                seen.add((own / "run").read_bytes())
            except OSError:
                continue
    finally:
        stop.set()
        swapping.join()
    assert b"secret" not in seen


def test_a_failed_write_leaves_the_old_file_and_nothing_else(own, tmp_path, monkeypatch):
    import posix

    (own / "nodes").write_bytes(b"old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(posix, "write", full)
    with pytest.raises(OSError, match="No space"):
        (own / "nodes").write_bytes(b"new")
    monkeypatch.undo()
    assert own.names() == ["nodes"]
    assert (own / "nodes").read_bytes() == b"old"


def test_a_folder_is_removed_with_its_files_but_not_what_links_point_to(own, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").touch()
    with own.make_folder("run-1") as run:
        (run / "run").write_bytes(b"x")
        (tmp_path / "own" / "run-1" / "link").symlink_to(victim)
        os.mkfifo(tmp_path / "own" / "run-1" / "pipe")
        assert not run.is_gone()
        run.remove()
        assert run.is_gone()
    assert own.names() == []
    assert (victim / "file").exists()


def test_who_waits_for_the_lock_of_a_run_that_is_removed_never_finds_the_run(own, monkeypatch):
    import posix

    removed = []
    unlink = posix.unlink
    monkeypatch.setattr(
        posix, "unlink", lambda name, dir_fd: (removed.append(name), unlink(name, dir_fd=dir_fd))
    )
    with own.make_folder("run-1") as run:
        for name in ("lock", "1-a.part", "nodes", "run", "z.snapshot"):
            (run / name).create()
        run.remove()
    assert removed == ["1-a.part", "z.snapshot", "nodes", "run", "lock"]


def test_a_run_that_cannot_be_removed_whole_is_still_known_as_what_it_is(own, monkeypatch):
    import posix

    unlink = posix.unlink

    def fails_once(name, dir_fd):
        if name == "1-a.part":
            raise OSError(5, "Input/output error")
        unlink(name, dir_fd=dir_fd)

    with own.make_folder("run-1") as run:
        for name in ("lock", "1-a.part", "2-b.part", "nodes", "run"):
            (run / name).create()
        monkeypatch.setattr(posix, "unlink", fails_once)
        run.remove()
        assert run.names() == ["1-a.part", "lock", "nodes", "run"]
        monkeypatch.undo()
        run.remove()
    assert own.names() == []
