"""Programs that do odd things to themselves or to taupy's files end as without taupy."""

from __future__ import annotations

import subprocess
import sys
from signal import SIGBUS

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


BUS_ERROR = """
import ctypes, faulthandler, mmap, os, signal, sys, tempfile
file = tempfile.TemporaryFile()
file.truncate(8192)
mapped = mmap.mmap(file.fileno(), 8192)
calls = []
def f(n): return n and f(n - 1)
@ctypes.CFUNCTYPE(None, ctypes.c_int)
def handle(number):
    calls.append(number)
    f(3)
    if HOW == "exits":
        os._exit(7)
    os.ftruncate(file.fileno(), 8192)
if HOW == "dies":
    faulthandler.enable()
else:
    signal_of = ctypes.CDLL(None).signal
    signal_of.argtypes = ctypes.c_int, ctypes.c_void_p
    signal_of.restype = ctypes.c_void_p
    signal_of(signal.SIGBUS, ctypes.cast(handle, ctypes.c_void_p))
f(5)
os.ftruncate(file.fileno(), 0)
print(mapped[5000], calls, flush=True)
f(5)
sys.exit(5)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code", "calls"), [("exits", 7, 10), ("repairs", 5, 16), ("dies", -SIGBUS, 6)]
)
def test_a_bus_error_of_the_programs_own_file_is_the_programs(runs, engine, how, code, calls):
    source = f"HOW = {how!r}\n{BUS_ERROR}"
    plain = runs.plain(source)
    done = runs.run(source, "--engine", engine)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.returncode == code and ("Bus error" in done.stderr) == (how == "dies")
    assert runs.taupy("trials").returncode == 0  # it waits for the watch, or stores what was left
    if engine == "native":  # the other one counts no handlers
        assert runs.calls()["f"] == calls
