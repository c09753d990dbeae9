"""Programs that do odd things to themselves or to taupy's files end as without taupy."""

from __future__ import annotations

import subprocess
import sys

import pytest

TRACED = """
import ctypes
def f(): pass
f()
assert ctypes.CDLL(None).ptrace(0, 0, None, None) == 0  # PTRACE_TRACEME
"""


def test_a_program_that_asks_to_be_traced_is_not_stopped_at_its_end(runs, engine):
    """The end of the storer, a child, would stop it. Its parent here waits for nothing."""
    (runs.folder / "prog.py").write_text(TRACED)
    command = [sys.executable, "-m", "taupy", "run", "--engine", engine, "prog.py"]
    with subprocess.Popen(
        command, cwd=runs.folder, env={**runs.environ(), "TAUPY_DB": str(runs.database)},
        stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        try:
            _, stderr = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == 0 and "trial 1" in stderr
    assert runs.calls()["f"] == 1


@pytest.mark.parametrize("what", ["", "/run-*"])
def test_a_run_folder_that_was_deleted_is_named_with_cause_and_remedy(runs, engine, what):
    source = f"""
import glob, shutil
for folder in glob.glob({str(runs.state)!r} + {what!r}):
    shutil.rmtree(folder)
print("done")
"""
    done = runs.run(source, "--engine", engine)
    assert (done.returncode, done.stdout) == (0, "done\n")
    (line,) = done.stderr.splitlines()
    assert "was deleted while the program ran" in line and "TAUPY_STATE_DIR=FOLDER" in line
