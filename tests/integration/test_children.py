"""Child processes that start with an environment of their own are measured, however they start."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import textwrap
import time
from pathlib import Path

import pytest

_START = """\
import asyncio, os, subprocess, sys
env = {**os.environ, "MINE": "1"}
python = sys.executable
code = "import sys; exec('def {0}(): pass\\\\n{0}()'.format(sys.argv[1]))"
def wait(pid):
    assert os.waitpid(pid, 0)[1] == 0
def run(command, env=env, **more):
    subprocess.run(command, env=env, check=True, **more)
if __name__ == "__main__":
    with open("child.py", "w") as file:
        file.write(f"#!{python}\\n{code}\\n")
    os.chmod("child.py", 0o755)
    # A link to a virtual environment's Python is the Python it was made of: link all of it.
    os.makedirs("linked/bin")
    os.symlink(python, "linked/bin/py")
    os.symlink(f"{sys.prefix}/lib", "linked/lib")
    if os.path.exists(f"{sys.prefix}/pyvenv.cfg"):
        os.symlink(f"{sys.prefix}/pyvenv.cfg", "linked/pyvenv.cfg")
    py = "linked/bin/py"
"""

# Separated by empty lines: each starts a child that calls the function CHILD.
_WAYS = """\
run([python, "child.py", "CHILD"])

run([python, "child.py", "CHILD"], env={"MINE": "1"})

run([python, "child.py", "CHILD"], env={})

run(f"{python} child.py CHILD", shell=True)

run(["bash", "-c", f"{python} child.py CHILD; true"])

run(["./child.py", "CHILD"])

run(["/usr/bin/env", python, "child.py", "CHILD"])

run(["nice", python, "child.py", "CHILD"])

run([py, "-c", code, "CHILD"])

run([python, "child.py", "CHILD"], executable=py)

run([os.fsencode(python), b"child.py", b"CHILD"], env=dict(os.environb))

run([python, "child.py", "CHILD"], preexec_fn=os.getpid)

# A list of executables, as joblib's loky gives it. Python 3.14 has no allow_vfork at the end.
import _posixsubprocess
r, w = os.pipe()
vfork = [False] if sys.version_info < (3, 14) else []
wait(_posixsubprocess.fork_exec(
    [b"x", b"CHILD"], [b"./child.py"], True, (w,), None, [b"MINE=1"], -1, -1, -1, -1, -1, -1,
    r, w, False, False, -1, None, None, None, -1, None, *vfork))

wait(os.spawnve(os.P_NOWAIT, python, [python, "child.py", "CHILD"], env))

wait(os.spawnvpe(os.P_NOWAIT, "./child.py", ["x", "CHILD"], env))

assert os.spawnle(os.P_WAIT, py, py, "child.py", "CHILD", env) == 0

wait(os.posix_spawn(python, [python, "child.py", "CHILD"], env))

wait(os.posix_spawn("child.py", ["x", "CHILD"], os.environ))

wait(os.posix_spawn("child.py", ["x", "CHILD"], {}))

wait(os.posix_spawnp("nice", ["nice", "./child.py", "CHILD"], env))

if not os.fork(): os.execve("child.py", ["x", "CHILD"], env)
os.wait()

if not os.fork(): os.execve(env=env, argv=["x", "CHILD"], path="child.py")
os.wait()

if not os.fork(): os.execvpe(py, [py, "child.py", "CHILD"], env)
os.wait()

if not os.fork(): os.execle("/bin/sh", "sh", "-c", "./child.py CHILD", env)
os.wait()

async def main():
    child = await asyncio.create_subprocess_shell("./child.py CHILD", env=env)
    assert await child.wait() == 0
asyncio.run(main())

async def main():
    child = await asyncio.create_subprocess_exec("./child.py", "CHILD", env=env)
    assert await child.wait() == 0
asyncio.run(main())

with open("lib.py", "w") as file: file.write("def CHILD(n): pass")
import lib, multiprocessing
child = multiprocessing.get_context("spawn").Process(target=lib.CHILD, args=(1,))
child.start(); child.join()
assert child.exitcode == 0

with open("lib2.py", "w") as file: file.write("def CHILD(n): pass")
import lib2
child = multiprocessing.get_context("forkserver").Process(target=lib2.CHILD, args=(1,))
child.start(); child.join()
assert child.exitcode == 0

os.execve("child.py", ["x", "CHILD"], env)
"""


@pytest.mark.slow
def test_a_child_with_an_environment_of_its_own_is_measured(runs, native):
    ways = [way.replace("CHILD", f"child_{n}") for n, way in enumerate(_WAYS.split("\n\n"))]
    body = textwrap.indent("\n".join(ways), "    ")
    done = runs.run(_START + body, "--engine", native)
    assert done.returncode == 0, done.stderr
    calls = runs.sql(
        """SELECT timer.short_name, sum(timer_call.calls)
             FROM timer_call JOIN timer ON timer.id = timer_call.timer_id
            WHERE timer.short_name LIKE 'child!_%' ESCAPE '!' GROUP BY timer.short_name"""
    )
    assert dict(calls) == {f"child_{n}": 1 for n in range(len(ways))}


def test_a_child_that_was_not_measured_is_named_with_its_command(runs, native):
    done = runs.run(
        """\
import os, subprocess, sys
python = sys.executable
subprocess.run([python, "-S", "-c", "1"])
subprocess.run(["env", "-i", python, "-c", "2"])
subprocess.run(f"true; {python} -S -c 3; true", shell=True, env={})
os.system(f"{python} -S -c 4")
os.waitpid(os.posix_spawn(python, [python, "-S", "-c", "5"], os.environ), 0)
if not os.fork():
    os.execv(python, [python, "-S", "-c", "6"])
os.wait()
# These are measured, or are not Python.
subprocess.run(f"true; {python} -c 7; true", shell=True, env={})
os.system(f"{python} -c 8")
subprocess.run([python, "--version"])
subprocess.run("grep python prog.py", shell=True)
""",
        "--engine",
        native,
    )
    assert done.returncode == 0, done.stderr
    text = runs.metadata("taupy.health.children_unmeasured")
    assert f"note: {text}" in done.stderr
    python = sys.executable
    begin, _, commands = re.sub(r" \(process (\d+|unknown)\)", "", text).partition(": ")
    assert begin == "6 child processes look like Python and left no profile"
    assert commands.split("; ", 1)[1].replace("; true", "") == (
        f"env -i {python} -c 2; /bin/sh -c 'true; {python} -S -c 3'; {python} -S -c 4; "
        f"{python} -S -c 5; {python} -S -c 6"
    )


@pytest.mark.slow
def test_the_processes_of_scikit_learn_are_measured(runs, native):
    pytest.importorskip("joblib", reason="joblib, which starts them, is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    done = runs.run(
        """\
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import cross_val_score
print(cross_val_score(DummyClassifier(), [[0]] * 40, [0, 1] * 20, cv=4, n_jobs=2))
""",
        "--engine",
        native,
    )
    assert done.stdout == "[0.5 0.5 0.5 0.5]\n", done.stderr
    fits = runs.sql(
        """SELECT thread.node, sum(timer_call.calls)
             FROM timer_call JOIN timer ON timer.id = timer_call.timer_id
             JOIN thread ON thread.id = timer_call.thread_id
            WHERE timer.short_name = '_fit_and_score' GROUP BY thread.node"""
    )
    assert sum(calls for _, calls in fits) == 4
    assert all(node > 0 for node, _ in fits)  # in the workers
    assert runs.metadata("taupy.health.children_unmeasured") is None


SUBINTERPRETERS = """\
import threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def runs():
    other = interpreters.create()
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    run(other, "import json")
    interpreters.destroy(other)

runs()
threads = [threading.Thread(target=runs) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.slow
def test_subinterpreters_are_counted_and_the_process_is_not_called_unmeasured(runs, engine):
    done = runs.run(SUBINTERPRETERS, "--engine", engine)
    assert done.returncode == 0, done.stderr
    assert "note: 3 subinterpreters were not measured; the process is" in done.stderr
    assert "not measured in" not in done.stderr
    assert runs.calls()["runs"] == 3
    assert not any(runs.state.rglob("*.subinterpreters"))


def _works_in(folder):
    """Whether there is a process in this folder, or one that names it."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in (process / "cmdline").read_bytes():
                return True
            if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                return True
    return False


def test_a_helper_that_ends_after_the_run_leaves_nothing(runs, native):
    done = runs.run(
        "import multiprocessing\n"
        "def leaf(x): return x\n"
        "if __name__ == '__main__':\n"
        "    pool = multiprocessing.get_context('forkserver').Pool(2)\n"
        "    print(sum(pool.map(leaf, range(10))))\n"
        "    pool.close(); pool.join()\n"
    )
    assert done.stdout == "45\n"
    while _works_in(runs.folder):  # the fork server ends after the program, and the watch after it
        time.sleep(0.02)
    assert [path.name for path in runs.folder.glob("taupy.db*")] == ["taupy.db"]


def test_words_in_arguments_do_not_make_a_program_a_helper(runs, native):
    words = ("--note", "from multiprocessing.resource_tracker import main", "-c", "forkserver")
    done = runs.run("def mark(): pass\nmark()\n", arguments=words)
    assert done.returncode == 0, done.stderr
    assert runs.calls()["mark"] == 1
