"""Passwords in environments and on command lines do not get into run folders and databases."""

from __future__ import annotations

import os
import zipfile

import pytest

from tests.in_process import taupy
from tests.noted_children import RUN_UNTIL_NOTED

ARGUMENTS = ("--password", "hunter2", "--api-key=hunter2", "--max-tokens", "4096", "--data",
             "https://me:hunter2@host/x")  # fmt: skip

PROGRAM = f"""{RUN_UNTIL_NOTED}
import sys
def shown(): return open(folder + "/run", "rb").read()
state = os.environ["TAUPY_STATE_DIR"]
(folder,) = glob.glob(state + "/run-*")
assert sys.argv[2] == "hunter2"  # the program gets what was typed
sys.stdout.buffer.write(shown())
waits = "import sys; sys.stdin.read()"
run_until_noted(sys.executable, "-S", "-c", waits, "--token", "hunter2")
run_until_noted("sh", "-c", "read line; true 'curl://me:hunter2@host' --secret hunter2")
os.system(sys.executable + " -S -c pass --token=hunter2")
"""


def test_no_secret_reaches_the_run_folder_or_the_database(runs, engine):
    runs.environment = {"DATABASE_PASSWORD": "swordfish", "HARMLESS": "swordfish"}
    done = runs.run(PROGRAM, "--engine", engine, arguments=ARGUMENTS)
    assert done.returncode == 0, done.stderr
    assert "MASKED-" in done.stdout and "4096" in done.stdout
    for text in (done.stdout, done.stderr):
        assert "hunter2" not in text and "swordfish" not in text
    stored = runs.database.read_bytes()
    assert b"hunter2" not in stored and b"swordfish" not in stored
    masked = runs.metadata("Command Line")
    assert "--max-tokens 4096" in masked and masked.count("MASKED-") == 3
    assert runs.metadata("taupy.children").count("MASKED-") >= 2


def test_metadata_of_the_user_and_of_the_program_are_masked(runs, native):
    chosen = (
        "--meta",
        "api_key=hunter2",
        "--meta",
        "note=--token hunter2 --lr 1",
        "--meta",
        "n=17",
    )
    source = """
import os, taupy
taupy.metadata("db", "postgres://me:hunter2@host/x")
taupy.metadata("data key", "image")
state = os.environ["TAUPY_STATE_DIR"]
folder = next(f"{state}/{name}" for name in os.listdir(state) if name.startswith("run-"))
assert b"hunter2" not in open(folder + "/run", "rb").read()
"""
    source = source.replace("hunter2@", "hun%s@").replace('/x")', '/x" % "ter2")')
    done = runs.run(source, "--engine", native, *chosen)
    assert done.returncode == 0, done.stderr
    assert b"hunter2" not in runs.database.read_bytes()
    assert runs.metadata("data key") == "image" and runs.metadata("n") == "17"
    assert runs.metadata("note").endswith(" --lr 1") and "MASKED-" in runs.metadata("db")


def test_metadata_of_imported_files_are_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / "tau"
    folder.mkdir()
    (folder / "profile.0.0.0").write_text(
        "1 templated_functions_MULTI_TIME\n"
        "# Name Calls Subrs Excl Incl ProfileCalls #<metadata><attribute><name>Command Line</name>"
        "<value>./app --password hunter2 --max-tokens 4096</value></attribute><attribute>"
        "<name>Data URL</name><value>https://me:hunter2@host/x</value></attribute></metadata>\n"
        '".TAU application" 1 0 10 10 0 GROUP="TAU_DEFAULT"\n0 aggregates\n'
    )
    for number, more in enumerate(([], [], ["--keep-secrets"])):
        database = tmp_path / f"{number}.db"
        done = taupy("import", folder, "--db", database, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (b"hunter2" in database.read_bytes()) == bool(more)
        assert b"--max-tokens 4096" in database.read_bytes()
    lines = [taupy("query", SQL, "--db", tmp_path / f"{number}.db").stdout for number in (0, 1)]
    assert lines[0] == lines[1] and lines[0].count("MASKED-") == 2


SQL = "SELECT name, value FROM metadata WHERE name IN ('Command Line', 'Data URL') ORDER BY 1"


def test_trials_with_the_same_secret_have_the_same_command_line(runs, native):
    lines = []
    for secret in ("one1", "one1", "two2"):
        runs.run("", arguments=("--token", secret))
        lines.append(runs.metadata("Command Line"))
    assert lines[0] == lines[1] != lines[2]


def test_names_can_be_added_and_everything_be_kept(runs, native):
    (runs.folder / "pyproject.toml").write_text('[tool.taupy]\nsecrets = ["--pin"]\n')
    runs.run("", arguments=("--pin", "hunter2"))
    assert "hunter2" not in runs.metadata("Command Line")
    runs.run("", "--keep-secrets", arguments=("--pin", "hunter2", "--password", "x"))
    assert runs.metadata("Command Line").endswith("--pin hunter2 --password x")
    (runs.folder / "pyproject.toml").write_text("[tool.taupy]\nkeep_secrets = 3\n")
    done = runs.run("")
    assert done.returncode != 0 and "must be true or false" in done.stderr


def test_the_storer_gets_no_variable_that_the_program_has_removed(runs, engine):
    """The variable would be in the storer's own environment, in which git runs."""
    git = runs.folder / "bin" / "git"
    git.parent.mkdir()
    git.write_text('#!/bin/sh\nprintf "%s %s" "$SCRUBBED" "$KEPT" > "$SEEN"\n')
    git.chmod(0o755)
    (runs.folder / ".git").mkdir()
    seen = runs.folder / "seen"
    path = f"{git.parent}:{os.environ['PATH']}"
    runs.environment = {"PATH": path, "SCRUBBED": "s3cret", "KEPT": "kept", "SEEN": str(seen)}
    runs.run("import os; del os.environ['SCRUBBED']", "--engine", engine)
    assert seen.read_text() == " kept"


IN_CHILDREN = f"""{RUN_UNTIL_NOTED}
import multiprocessing, sys
def work():
    subprocess.run(["true", "--token", "hunter2"])
try:
    import taupy
    taupy.metadata("db", "postgres://me:hunter2@host/x")
    taupy.metadata("pw", "--password z9q_Z --lr 1")
    taupy.snapshot("half")
except Exception:
    pass
work()
if "--children" in sys.argv:
    children = [multiprocessing.get_context("fork").Process(target=work) for _ in range(2)]
    for child in children: child.start()
    for child in children: child.join()
run_until_noted("sh", "-c", "read line; true 'curl://me:hunter2@host' --secret hunter2")
os.system(sys.executable + " -S -c pass --token=hunter2")
"""


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [[], ["--keep-secrets"]])
def test_no_secret_is_in_a_rescue_file(runs, engine, keeps):
    (runs.folder / "broken.db").mkdir()
    runs.run(
        IN_CHILDREN,
        *("--engine", engine, "--db", str(runs.folder / "broken.db"), *keeps),
        arguments=["--children"],
    )
    (rescued,) = runs.folder.glob("*.taupy-run")
    with zipfile.ZipFile(rescued) as archive:
        held = b"".join(map(archive.read, archive.namelist()))
    assert (b"hunter2" in held) == bool(keeps)
    assert (b"z9q_Z" in held) == (bool(keeps) and engine != "python")
    loaded = runs.taupy("import", "--db", str(runs.database), str(rescued), *keeps)
    assert loaded.returncode == 0, loaded.stderr
    assert b"hunter2" not in runs.database.read_bytes() or keeps
    assert "read line" in runs.metadata("taupy.children")
    assert ("MASKED-" in runs.metadata("taupy.children")) != bool(keeps)
