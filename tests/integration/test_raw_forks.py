"""A child that a C library makes by itself, past fork's hooks, writes nothing of its parent's."""

from __future__ import annotations

import platform

import pytest

from tests.integration.conftest import Runs

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the numbers of system calls are those of x86-64"
)

_MAKE = """\
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
FORK, VFORK_IN_MEMORY, SIGCHLD = 57, 0x4000 | 0x100, 17
def made(way):
    if way == "fork": return libc.syscall(FORK)
    if way == "clone": return libc.syscall(56, SIGCHLD, None, None, None, None)
    if way == "clone3": return libc.syscall(435, (ctypes.c_uint64 * 8)(0, 0, 0, 0, SIGCHLD), 64)
    return libc._Fork()
def mark(): pass
def end(pid): print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
_BOTH_AT_WORK = """
def work(count):
    for _ in range(count): mark()
def outer():
    pid = made(sys.argv[1])
    work(200_000)
    return pid
work(10)
if (pid := outer()) == 0:
    os._exit(3)
end(pid)
work(7)
"""
_WITH_THREADS = """
import time
go_on = threading.Event()
def wait():
    mark()
    go_on.wait()
threads = [threading.Thread(target=wait) for _ in range(3)]
for thread in threads: thread.start()
# Not threads that wait for the GIL: the child of a raw fork may wait for them, without taupy, too.
while len(go_on._cond._waiters) < len(threads): time.sleep(0.01)
time.sleep(0.1)
def leaf(): pass
def work():
    for _ in range(1000): leaf()
pid = ctypes.PyDLL(None).syscall(FORK)
if pid == 0:
    work()
    print("child", threading.current_thread().name, flush=True)
    os._exit(4)
end(pid)
work()
go_on.set()
for thread in threads: thread.join()
"""
_ENDINGS = """
def child(how):
    mark()
    if how == "exec": os.execv(sys.executable, [sys.executable, "-c", "def mark(): pass\\nmark()"])
    if how == "exit": raise SystemExit(5)
    if how == "error": raise ValueError("as it is")
    if how == "fork":
        if (pid := os.fork()): end(pid)
        mark()
        os._exit(6)
    if how == "kill": os.kill(os.getpid(), 15)
pid = made("fork")
if pid == 0:
    child(sys.argv[1])
    sys.exit()
end(pid)
for _ in range(20): mark()
"""
_IN_MEMORY = """
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def child(argument):
    for _ in range(100_000): mark()
    return 3
stack = ctypes.create_string_buffer(1 << 20)
top = (ctypes.addressof(stack) + (1 << 20)) & ~63
end(libc.clone(child, ctypes.c_void_p(top), VFORK_IN_MEMORY | SIGCHLD, None))
for _ in range(7): mark()
"""


def measured(runs: Runs, program: str, *arguments: str, options: tuple[str, ...] = ()):
    """Run it, check that it behaves as without taupy, and return the calls of a routine by node."""
    expected = runs.plain(program, *arguments)
    done = runs.run(program, *options, arguments=arguments)
    said = [line for line in done.stderr.splitlines(True) if not line.startswith("taupy: ")]
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert "".join(said) == expected.stderr
    return lambda routine: dict(
        runs.sql(
            "SELECT node, sum(calls) FROM timer_call JOIN timer ON timer.id = timer_id "
            "JOIN thread ON thread.id = thread_id WHERE short_name = ? GROUP BY node HAVING "
            "sum(calls) > 0",
            routine,
        )
    )


@pytest.mark.parametrize("options", [(), ("--cpu-time",), ("--depth", "3")], ids=" ".join)
@pytest.mark.parametrize("way", ["fork", "clone", "clone3", "_Fork"])
def test_both_processes_are_measured_while_both_work(runs, way, options):
    if way == "_Fork" and not hasattr(__import__("ctypes").CDLL(None), "_Fork"):
        pytest.skip("this C library has no _Fork")
    calls = measured(runs, _MAKE + _BOTH_AT_WORK, way, options=options)
    assert calls("work") == {0: 3, 1: 1}
    assert calls("outer") == {0: 1}
    deep = "--depth" not in options
    assert calls("mark") == ({0: 200_017, 1: 200_000} if deep else {0: 17})
    assert runs.one("SELECT state FROM trial") == "complete"
    assert runs.metadata("taupy.health.lost") is None


def test_the_routines_open_in_the_child_are_the_path_of_its_calls(runs):
    measured(runs, _MAKE + _BOTH_AT_WORK, "fork")
    paths = runs.sql("SELECT path, calls FROM callpaths WHERE node = 1 AND timer LIKE 'mark %'")
    ((path, calls),) = paths
    names = [routine.split(" [")[0] for routine in path.split(" => ")]
    assert (names[-4:], calls) == (["<module>", "outer", "work", "mark"], 200_000)


def test_a_child_of_a_program_with_threads_is_measured(runs):
    calls = measured(runs, _MAKE + _WITH_THREADS)
    assert calls("leaf") == {0: 1000, 1: 1000}
    assert runs.one("SELECT state FROM trial") == "complete"


@pytest.mark.parametrize(
    ("how", "child"),
    [
        ("exec", {1: 1, 2: 1}),
        ("exit", {1: 1}),
        ("error", {1: 1}),
        ("fork", {1: 2, 2: 1}),
        ("kill", {1: 1}),
    ],
)
def test_a_child_ends_as_without_taupy(runs, how, child):
    calls = measured(runs, _MAKE + _ENDINGS, how)
    marks = calls("mark")
    assert marks.pop(0) == 20
    assert sorted(marks.values()) == sorted(child.values())
    assert runs.one("SELECT state FROM trial") == "complete"


def test_a_child_in_its_parents_memory_is_named(runs):
    calls = measured(runs, _MAKE + _IN_MEMORY)
    assert calls("mark") == {0: 100_007}
    assert runs.one("SELECT state, exit_code FROM trial") == ("complete", 0)
    assert "ran in the memory of process" in runs.metadata("taupy.health.shared_memory")
