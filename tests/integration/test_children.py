"""Child processes that start with an environment of their own are measured, however they start."""

from __future__ import annotations

import textwrap

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
