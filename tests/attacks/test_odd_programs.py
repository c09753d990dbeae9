"""Programs that do odd things to themselves or to taupy's files end as without taupy."""

from __future__ import annotations

import subprocess
import sys
from signal import SIGBUS, SIGTERM

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


CUT = """
import ctypes, faulthandler, glob, mmap, os, signal, sys, tempfile, threading
def cut():
    for path in glob.glob(STATE + "/run-*/*.part"):
        os.truncate(path, SIZE)
def f(n): return n and f(n - 1)
exec("".join(f"def g{i}(): return f({i})\\n" for i in range(100)))
def work(): return sum(globals()[f"g{i}"]() for i in range(100))
def goes_on(n):
    if n:
        return goes_on(n - 1)
    cut()
    work()
def in_threads():
    stops = threading.Event()
    def run():
        while not stops.is_set():
            work()
    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    stops.wait(0.1)
    cut()
    stops.wait(0.1)
    stops.set()
    for thread in threads:
        thread.join()
def in_a_child():
    cut()
    if os.fork() == 0:
        work()
        sys.exit(5)
    print(os.wait()[1])
def beside_a_small_stack_for_signals():
    class Stack(ctypes.Structure):
        _fields_ = (("begin", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))
    memory = mmap.mmap(-1, 8192)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    stack = Stack(begin + 4096, 0, 4096)
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
    cut()
    work()
    print(memory[:4096].count(0))
def in_a_new_thread():
    done = threading.Event()
    def run():
        done.wait()
        work()
    waiting = threading.Thread(target=run)
    waiting.start()
    cut()
    late = threading.Thread(target=work)
    late.start()
    done.set()
    waiting.join()
    late.join()
def in_a_childs_child():
    cut()
    work()
    for child in range(2):
        if os.fork() != 0:
            print(os.wait()[1], flush=True)
            os._exit(3)
        cut()
        work()
    os._exit(5)
def dies_of_its_own():
    cut()
    work()
    file = tempfile.TemporaryFile()
    file.truncate(8192)
    mapped = mmap.mmap(file.fileno(), 8192)
    os.ftruncate(file.fileno(), 0)
    mapped[5000]
def is_killed():
    cut()
    os.kill(os.getpid(), signal.SIGTERM)
assert signal.getsignal(signal.SIGBUS) is signal.SIG_DFL
work()
goes_on(9) if HOW == "goes on" else globals()[HOW.replace(" ", "_")]()
work()
print("end", flush=True)
sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 4096, 1 << 14])
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("goes on", 3),
        ("in threads", 3),
        ("in a new thread", 3),
        ("beside a small stack for signals", 3),
        ("in a child", 3),
        ("in a childs child", 3),
        ("is killed", -SIGTERM),
        ("dies of its own", -SIGBUS),
    ],
)
def test_a_part_that_is_truncated_ends_the_profile_and_not_the_program(
    runs, native, how, code, size
):
    source = f"HOW, SIZE, STATE = {how!r}, {size}, {str(runs.state)!r}\n{CUT}"
    plain = runs.plain(source)
    done = runs.run(source, "--engine", native)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert done.returncode == code
    assert all(line.startswith("taupy: ") for line in done.stderr.splitlines())
    if code != -SIGBUS:
        assert "lost" in done.stderr, "what is missing is named"


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("pass", -SIGBUS),
        ("faulthandler.enable()", -SIGBUS),
        ("signal.signal(signal.SIGBUS, lambda *_: os._exit(4)); f(9)", 4),
        ("signal.signal(signal.SIGBUS, signal.SIG_IGN)", 0),
    ],
)
def test_a_bus_error_that_is_sent_is_the_programs(runs, engine, how, code):
    source = f"""
import faulthandler, os, signal
def f(n): return n and f(n - 1)
f(3)
{how}
os.kill(os.getpid(), signal.SIGBUS)
f(3)
"""
    assert runs.plain(source).returncode == runs.run(source, "--engine", engine).returncode == code


def test_a_bus_error_that_nobody_handles_ends_the_program(runs, engine):
    source = """
import mmap, os, tempfile
file = tempfile.TemporaryFile()
file.truncate(8192)
mapped = mmap.mmap(file.fileno(), 8192)
os.ftruncate(file.fileno(), 0)
mapped[5000]
"""
    assert runs.plain(source).returncode == runs.run(source, "--engine", engine).returncode
    assert runs.taupy("trials").returncode == 0


def test_a_bus_error_ends_a_program_whose_filter_forbids_handlers(runs, engine):
    source = """
import ctypes, mmap, os, platform, struct, tempfile
libc = ctypes.CDLL(None)
file = tempfile.TemporaryFile()
file.truncate(8192)
mapped = mmap.mmap(file.fileno(), 8192)
os.ftruncate(file.fileno(), 0)
sigaction = {"x86_64": 13, "aarch64": 134}[platform.machine()]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, sigaction), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
mapped[5000]
"""
    assert runs.plain(source).returncode == runs.run(source, "--engine", engine).returncode


def test_a_library_finds_no_handler_of_bus_errors(runs, engine):
    source = """
import ctypes, signal
before = ctypes.create_string_buffer(256)
assert ctypes.CDLL(None).sigaction(int(signal.SIGBUS), None, before) == 0
print(before.raw[:8] == bytes(8))  # SIG_DFL
"""
    done = runs.run(source, "--engine", engine)
    assert runs.plain(source).stdout == done.stdout == "True\n"
