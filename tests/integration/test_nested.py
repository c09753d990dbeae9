"""`taupy run` inside a program that `taupy run` measures: two trials."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.noted_children import RUN_UNTIL_NOTED

INNER = "import os\ndef g(): pass\ng(); g()\nif os.fork(): os.wait()\n"
OUTER = """
import subprocess, sys
def f(): pass
f()
command = {command}
done = subprocess.run(command, capture_output=True, text=True)
print(done.stderr, end="")
sys.exit(done.returncode)
"""
COMMANDS = {
    "-m": [".", "-m", "taupy", "run", "--trial", "inner", "inner.py"],
    "options": [".", "-X", "dev", "-m", "taupy", "run", "--trial", "inner", "inner.py"],
    "shell": ["sh", "-c", "'. -m taupy run --trial inner inner.py; true'"],
}


def nested(runs, *options, command=COMMANDS["-m"]):
    (runs.folder / "inner.py").write_text(INNER)
    shown = "[" + ", ".join(
        "sys.executable" if word == "." else word.replace("'. ", "sys.executable + ' ")
        if word[:1] == "'" else repr(word) for word in command
    ) + "]"  # fmt: skip
    runs.environment = {"TAUPY_DB": str(runs.database)}
    return runs.run(OUTER.format(command=shown), "--trial", "outer", *options)


def calls(runs, trial):
    return dict(
        runs.sql(
            "SELECT timer.short_name, sum(timer_call.calls) FROM timer_call JOIN timer ON timer.id"
            " = timer_call.timer_id WHERE timer_call.trial_id = ? GROUP BY 1",
            trial,
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", COMMANDS)
def test_the_inner_program_is_measured_by_the_inner_run_alone(runs, native, how):
    done = nested(runs, "--engine", native, command=COMMANDS[how])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trial 1 (inner/default/inner)" in done.stdout
    assert calls(runs, 1)["g"] == 2 and "f" not in calls(runs, 1)
    assert calls(runs, 2)["f"] == 1 and "g" not in calls(runs, 2)
    assert runs.one("SELECT count(DISTINCT node) FROM thread WHERE trial_id = 1") == 2
    assert runs.one("SELECT count(DISTINCT node) FROM thread WHERE trial_id = 2") == 1
    health = runs.sql("SELECT value FROM metadata WHERE name LIKE 'taupy.health.%unmeasured'")
    assert health == []
    assert not list(runs.state.glob("run-*"))


@pytest.mark.slow
def test_the_outer_trial_names_the_inner_run(runs, native):
    nested(runs)
    text = runs.one("SELECT value FROM metadata WHERE name = 'taupy.children' AND trial_id = 2")
    assert text.startswith("1 process measured by another run: ")
    assert "-m taupy run --trial inner inner.py (process " in text


@pytest.mark.slow
def test_a_program_that_becomes_a_run_is_that_runs_alone(runs, native):
    done = runs.taupy("run", "--db", "a.db", "-m", "taupy", "run", "--db", "b.db", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert (runs.folder / "b.db").exists()


def test_arguments_that_look_like_a_run_are_arguments(runs, native):
    done = runs.run("def f(): pass\nf()\n", arguments=("taupy", "run", "-m", "taupy", "run"))
    assert done.returncode == 0 and runs.calls()["f"] == 1


NAMESAKE = """
import subprocess, sys
subprocess.run([sys.executable, *{words!r}], check=True)
"""


@pytest.mark.parametrize("words", [("taupy", "run"), ("-m", "taupy", "run")])
def test_a_child_that_is_called_taupy_and_is_none_is_measured(runs, native, words):
    file = runs.folder / ("taupy" if words[0] == "taupy" else "taupy.py")
    file.write_text("def mark(): pass\nmark()\n")
    environment = {**runs.environ(), "PYTHONSAFEPATH": "1"}  # for our own -m
    (runs.folder / "prog.py").write_text(
        "import os\nos.environ.pop('PYTHONSAFEPATH')" + NAMESAKE.format(words=words)
    )
    command = [sys.executable, "-m", "taupy", "run", "--db", runs.database, "prog.py"]
    done = subprocess.run(
        command, cwd=runs.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert calls(runs, 1)["mark"] == 1
    assert "another run" not in str(runs.sql("SELECT value FROM metadata"))


def test_words_among_arguments_make_no_child_a_helper(runs, native):
    words = ("from multiprocessing.resource_tracker import main", "import taupy; del sys.path[0]")
    done = runs.run(f"""{RUN_UNTIL_NOTED}
import sys
for word in {words!r}:
    run_until_noted(sys.executable, "-S", "-c", "import sys; sys.stdin.read()", word)
    run_until_noted("sh", "-c", "read line; true", word)
""")
    assert "2 child processes look like Python and left no profile" in done.stderr
    accounts = runs.metadata("taupy.children")
    assert accounts.count("resource_tracker") + accounts.count("del sys.path") >= 2
