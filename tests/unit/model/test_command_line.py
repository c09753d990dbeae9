"""What a command runs, apart from how the interpreter was started."""

from __future__ import annotations

import shlex

import pytest

from taupy.model.command_line import joined, meant, program, split


@pytest.mark.parametrize(
    "words, options, runs",
    [
        (["app.py", "-x"], [], ["app.py", "-x"]),
        (["-u", "ddp.py", "-u"], ["-u"], ["ddp.py", "-u"]),
        (["-uO", "-X", "dev", "-Wdefault", "a.py"], ["-uO", "-X", "dev", "-Wdefault"], ["a.py"]),
        (["-um", "pkg", "x"], ["-u"], ["-m", "pkg", "x"]),
        (["-mpkg", "x"], [], ["-mpkg", "x"]),
        (["-c", "print(1)"], [], ["-c", "print(1)"]),
        (["--check-hash-based-pycs", "always", "a.py"],
         ["--check-hash-based-pycs", "always"], ["a.py"]),
        (["-O", "-"], ["-O"], ["-"]),
        ([], [], []),
    ],
)  # fmt: skip
def test_the_options_of_the_interpreter_end_where_the_program_begins(words, options, runs):
    assert split(words) == (options, runs)


def test_a_trial_is_named_for_the_script_and_not_for_the_interpreter():
    assert program("/opt/bin/python3.12 -u /home/me/ddp.py --epochs 3") == "ddp.py --epochs 3"
    assert program("python -u -m pkg.train") == "-m pkg.train"
    assert program("./app.exe x") == "app.exe x"
    assert program("") == ""


def test_options_that_change_the_program_count_and_unbuffered_output_does_not():
    assert meant("python -u train.py") == meant("/venv/bin/python train.py")
    assert meant("python -O train.py") == "-O train.py"


def test_no_more_is_split_than_a_real_command_has():
    longer = "python x.py " + "a " * 2_000_000
    assert len(program(longer)) < 1_000_000


@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        ["a", "b c"],
        ["it's", "'"],
        ["a@%+=:,./-_Z9"],
        ["ünï"],
        ["$x", "a;b", "\n", "~", "*"],
    ],
)
def test_words_are_quoted_as_shlex_does(words):
    assert joined(words) == shlex.join(words)
