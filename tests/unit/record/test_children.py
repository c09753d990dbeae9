"""Which commands run Python, and which children were not measured."""

import os
import sys

import pytest

from taupy.record.children import Child, runs_python, take_notes, unmeasured
from taupy.record.part_data import ENDED, EXEC, RUNNING, Part


def _part(pid, start_ns, *, state=ENDED, forked=False, **metadata):
    metadata = {f"taupy.{name}": text for name, text in metadata.items()}
    return Part(
        "x", "native", pid, 1, 0, state, forked, 0.0, start_ns, start_ns + 1, 0, [], [],
        metadata, {},
    )  # fmt: skip


def _noting(pid, *notes, **more):
    part = _part(pid, 0, **more)
    part.metadata = {f"taupy.child.{number}": note for number, note in enumerate(notes)}
    return part


def _lost(*parts, reached=(), running=()):
    health = unmeasured(take_notes(parts), set(reached), lambda pid: pid in running)
    assert set(health) <= {"children_unmeasured"}
    return health.get("children_unmeasured")


@pytest.mark.parametrize(
    "words",
    [
        ["python", "x.py"],
        ["/opt/x/bin/python3.13t", "-m", "x"],
        ["pypy3", "x.py"],
        ["env", "-i", "A=1", "python", "x.py"],
        ["nice", "-n", "5", "timeout", "9", "python2", "x.py"],
        ["mpirun", "-n", "4", "python", "x.py"],
        ["bash", "-lc", "cd /; A=1 B=2 exec python x.py"],
        ["sh", "-c", "for i in 1 2; do python x.py; done"],
        ["sh", "-c", "true && (sh -c 'nice python x.py')"],
        ["./script", "a"],
        ["./link", "a"],
    ],
)
def test_a_command_that_runs_python_is_recognised(tmp_path, words):
    (tmp_path / "script").write_text("#!/usr/bin/env -S python3 -u\nprint(1)\n")
    (tmp_path / "link").symlink_to(os.path.realpath(sys.executable))
    assert runs_python(Child(1, 2, 0, 0, f"{tmp_path}/", words[0], tuple(words)))


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "python"],
        ["grep", "python", "x.py"],
        ["nice", "grep", "python", "x.py"],
        ["sh", "-c", "grep python x.py; echo 'python x.py'"],
        ["bash", "python"],
        ["python", "--version"],
        ["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
        ["pip", "install", "python"],
        ["./script"],
        ["./pipe"],
        ["./nothing"],
        [""],
        [],
    ],
)
def test_other_commands_are_not_called_python(tmp_path, monkeypatch, words):
    (tmp_path / "pip").write_text("#!/bin/sh\n")  # as pyenv's; many an installed one runs Python
    (tmp_path / "pip").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "script").write_text("#!/opt/python/bin/perl\n")
    os.mkfifo(tmp_path / "pipe")
    name = words[0] if words else ""
    assert not runs_python(Child(1, 2, 0, 0, f"{tmp_path}/", name, tuple(words)))


def test_a_child_without_a_part_is_named_with_its_command():
    assert _lost(
        _noting(7, "8 5 0\0/\0/bin/python2\0python2\0x y.py", "9 5 0\0/\0/bin/ls\0ls")
    ) == ("1 child process looks like Python and left no profile: python2 'x y.py' (process 8)")


def test_a_child_that_goes_on_is_named_as_such_and_many_are_counted():
    notes = [f"{pid} 5 0\0/\0/bin/python2\0python2\0{pid}.py" for pid in range(20, 30)]
    text = _lost(_noting(7, *notes), running=[20])
    assert text.startswith("10 child processes look like Python and left no profile: ")
    assert "python2 20.py (process 20, still running); " in text
    assert text.endswith("python2 27.py (process 27); ...")


def test_a_child_with_a_part_was_measured_and_its_note_is_no_metadata():
    parent = _noting(7, "8 5 0\0/\0/bin/python\0python\0x.py")
    assert _lost(parent, _part(8, 6)) is None
    assert parent.metadata == {}
    assert _lost(_noting(7, "8 5 0\0/\0/bin/python\0python\0x.py"), reached=[8]) is None
    # A part that is older is of a process that had the number before.
    assert _lost(_noting(7, "8 5 0\0/\0/bin/python\0python\0x.py"), _part(8, 4)) is not None


def test_a_fork_that_ran_preexec_fn_became_its_command():
    fork = _part(8, 6, forked=True, state=RUNNING)
    assert "(process 8)" in _lost(_noting(7, "8 5 0\0/\0/bin/python\0python\0x.py"), fork)
    assert fork.complete


def test_a_shell_was_measured_if_a_python_below_it_was():
    def lost(below):
        return _lost(_noting(7, "8 5 0\0/\0/bin/sh\0sh\0-c\0python x.py; true"), below)

    assert lost(_part(12, 6, ancestors="11 8 7")) is None
    assert lost(_part(12, 6, ancestors="11 7")) is not None  # another's
    assert lost(_part(12, 4, ancestors="11 8 7")) is not None  # an earlier one's
    assert lost(_part(12, 6, forked=True)) is not None
    assert lost(_part(12, 6, ancestors="1")) is None  # all above it have ended: perhaps this one's


def test_a_line_of_a_shell_is_held_against_what_began_meanwhile():
    def lost(*below):
        return _lost(_noting(7, "0 5 9\0/\0\0python x.py && python y.py"), *below)

    assert lost(_part(12, 6, ancestors="11 7")) is None
    assert lost(_part(12, 10, ancestors="11 7")) is not None
    assert lost() == (
        "1 child process looks like Python and left no profile: "
        "python x.py && python y.py (process unknown)"
    )


def test_a_process_that_becomes_python_is_its_next_image():
    failed, last = "7 5 0\0/\0/a/python\0python\0x.py", "7 6 0\0/\0/b/python\0python\0x.py"
    assert "(process 7)" in _lost(_noting(7, failed, last, state=EXEC))
    assert _lost(_noting(7, failed, last, state=EXEC), _part(7, 7)) is None
    assert _lost(_noting(7, failed, last)) is None  # both have failed


@pytest.mark.parametrize("note", ["", "x", "1 2\0/\0/bin/python\0python", "1 2 3", "a b c\0\0\0"])
def test_a_note_that_cannot_be_read_is_left_out(note):
    assert _lost(_noting(7, note)) is None
