"""What a thread does, as the kernel says (`_native/activity.h`): which looks at a runnable thread
count as running, and which as waiting for a processor."""

import ctypes
import os
import random
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from taupy.state.lines import STATES

MS = 1_000_000
NATIVE = Path(__file__).parents[3] / "taupy" / "_native"


class Times(ctypes.Structure):
    _fields_ = [("ran", ctypes.c_int64), ("waited", ctypes.c_int64), ("are_known", ctypes.c_int)]


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """The functions of activity.h."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    library = tmp_path_factory.mktemp("activity") / "activity.so"
    command = [compiler, "-std=gnu11", "-shared", "-fPIC", "-o", library, NATIVE / "activity.c"]
    subprocess.run(command, check=True)
    core = ctypes.CDLL(str(library))
    core.processor_begin.argtypes = ctypes.c_void_p, Times
    core.processor_runs.argtypes = ctypes.c_void_p, Times, ctypes.c_int64
    long = ctypes.c_int64
    core.activity_begin.argtypes = ctypes.c_void_p, long, long, ctypes.c_int
    core.activity_from_now.argtypes = core.activity_end.argtypes = (ctypes.c_void_p,)
    core.activity_now.argtypes = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, long
    return core


class Processor:
    def __init__(self, core, ran=0, waited=0, are_known=True):
        self.core, self.memory = core, ctypes.create_string_buffer(256)
        core.processor_begin(self.memory, Times(ran, waited, are_known))

    def runs(self, now, took):
        """None: it is not known."""
        times = Times(*now, True) if now else Times(0, 0, False)
        return {1: True, 0: False, -1: None}[self.core.processor_runs(self.memory, times, took)]


class Thread:
    """A simulated thread, whose times are up to date when it gets or leaves a processor."""

    def __init__(self):
        self.at = self.ran = self.waited = 0
        self.stretches = []

    def do(self, what, ns):
        self.at += ns
        self.ran += ns if what == "runs" else 0
        self.waited += ns if what == "waits" else 0
        self.stretches.append((self.at, what, self.ran, self.waited))

    def looks(self, mean_ns, seed=1):
        """(state, counted times, time since the look before) at moments of chance."""
        chance, at, stretches = random.Random(seed), 0, iter(self.stretches)
        end, what, ran, waited = next(stretches)
        counted, started = (0, 0), 0
        while True:
            took = round(mean_ns * chance.uniform(0.75, 1.25))
            at += took
            while end <= at:
                counted, started = (ran, waited), end
                following = next(stretches, None)
                if following is None:
                    return
                end, what, ran, waited = following
            ticked = (at - started) // (4 * MS) * 4 * MS if what == "runs" else 0
            yield what, (counted[0] + ticked, counted[1]), took


def divided(core, thread, mean_ns):
    """Time of the looks by what they found, as shares of all."""
    of, sums = Processor(core), dict.fromkeys((True, False, "sleeps"), 0)
    for what, now, took in thread.looks(mean_ns):
        sums["sleeps" if what == "sleeps" else of.runs(now, took)] += took
    whole = sum(sums.values())
    return {key: ns / whole for key, ns in sums.items()}


@pytest.mark.parametrize("look_ns", [5 * MS, 20 * MS, 50 * MS])
@pytest.mark.parametrize(
    "cycle",
    [
        {"runs": 100},
        {"runs": 4, "waits": 8},
        {"runs": 10, "waits": 20},
        {"runs": 40, "waits": 90},
        {"runs": 1, "sleeps": 5},
        {"waits": 12, "runs": 0.2, "sleeps": 5},
        {"waits": 30, "runs": 4, "sleeps": 25},
    ],
    ids=str,
)
def test_sums_agree_with_the_exact_times(core, cycle, look_ns):
    thread, chance = Thread(), random.Random(7)
    while thread.at < 40_000 * MS:
        for what, ms in cycle.items():
            thread.do(what, round(ms * MS * chance.uniform(0.5, 1.5)))
    number = thread.at / look_ns
    shares = divided(core, thread, look_ns)
    for key, exact in ((True, thread.ran), (False, thread.waited)):
        share = exact / thread.at
        error = (share * (1 - share) / number) ** 0.5
        assert abs(shares[key] - share) <= 4 * error + 1 / number + 0.002, (cycle, key, shares)


def test_a_change_is_followed(core):
    """Ten seconds alone on a processor, then ten with a tenth of one."""
    thread = Thread()
    for _ in range(100):
        thread.do("runs", 100 * MS)
    for _ in range(100):
        thread.do("waits", 90 * MS)
        thread.do("runs", 10 * MS)
    of, sums = Processor(core), [[0, 0], [0, 0]]
    for at, (_, now, took) in enumerate(thread.looks(20 * MS)):
        sums[at >= 500][of.runs(now, took) is True] += took
    assert sums[0][0] <= 0.02 * sum(sums[0])
    assert abs(sums[1][1] / sum(sums[1]) - 0.1) <= 0.03


def test_a_thread_that_has_not_run_since_the_last_look_is_not_on_a_processor(core):
    of = Processor(core)
    assert of.runs((20 * MS, 0), 20 * MS) is True
    assert of.runs((20 * MS, 0), 20 * MS) is False
    assert of.runs((40 * MS, 0), 20 * MS) is True


def test_of_looks_at_a_runnable_thread_some_find_it_waiting_for_a_processor(core):
    processor = Processor(core)  # three quarters of its time on a processor
    found = [processor.runs((3 * look, look), 4) for look in range(1, 101)]
    assert found.count(True) == 75 and found.count(False) == 25


class Task:
    """A thread with these files in /proc."""

    def __init__(self, core, folder, **files):
        self.core, self.memory = core, ctypes.create_string_buffer(1024)
        self.folder = folder / "7"
        self.folder.mkdir()
        self.files(**files)
        self.tasks = os.open(folder, os.O_PATH)
        core.activity_begin(self.memory, 1, 7, self.tasks)
        core.activity_from_now(self.memory)

    def files(self, **files):
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def does(self, took=5 * MS, gil=(0, 0)):
        found = self.core.activity_now(self.memory, *gil, took)
        return None if found < 0 else STATES[found]

    def end(self):
        self.core.activity_end(self.memory)
        os.close(self.tasks)


@pytest.fixture
def task(core, tmp_path):
    tasks = []

    def begin(**files):
        tasks.append(Task(core, tmp_path, **files))
        return tasks[-1]

    yield begin
    for begun in tasks:
        begun.end()


FUTEX = {"x86_64": 202}.get(os.uname().machine, 98)


def test_what_the_kernel_says_is_a_state(task):
    of = task(syscall="running\n", stat="7 (a) b) R 1\n", schedstat="5 5 1\n")
    of.files(schedstat="10000000 5 2\n")
    assert of.does() == "cpu"
    of.files(schedstat="10000000 90000005 2\n")
    assert of.does() == "runnable"
    of.files(syscall=f"{FUTEX} 0x1010 0x80 0x0\n")
    assert of.does() == "lock"
    assert of.does(gil=(0x1000, 0x20)) == "gil"
    assert of.does(gil=(0x1000, 0x10)) == of.does(gil=(0x1011, 0x10)) == "lock"
    for state, said in (("S", "wait"), ("D", "disk"), ("T", "wait"), ("Z", "wait")):
        of.files(syscall="0 0x3 0x0\n", stat=f"7 (a) b) {state} 1\n")
        assert of.does() == said


def test_where_the_kernel_does_not_count_it_is_not_known(task):
    of = task(syscall="running\n", stat="7 (a) R 1\n")
    assert of.does() == "active"
    for text in ("", "0 0 0\n", "nonsense\n", "5\n"):
        of.files(schedstat=text)
        assert of.does() == "active"


def test_without_the_running_call_its_state_is_known(task):
    """As in a process that may not be dumped, and in gVisor."""
    of = task(stat="7 (a) S 1\n", schedstat="5 5 1\n")
    assert of.does() == "wait"
    of.files(stat="7 (a) R 1\n", schedstat="10000005 5 1\n")
    assert of.does() == "cpu"


def test_nonsense_is_a_state_too(task):
    chance = random.Random(3)
    of = task(syscall="running\n", stat="7 (a) R 1\n", schedstat="5 5 1\n")
    words = [
        "running",
        "-1",
        "202",
        "98",
        "0x",
        "7 (",
        ")",
        ") ",
        "R",
        "9" * 30,
        "\0",
        " ",
        "\n",
        "é",
    ]
    for _ in range(300):
        of.files(
            **{
                name: "".join(chance.choices(words, k=chance.randrange(8)))
                for name in ("syscall", "stat", "schedstat")
            }
        )
        assert of.does(chance.choice([0, -5, 5 * MS, 1 << 62])) in STATES


def test_a_thread_that_has_ended_is_said_to_have(core):
    child = subprocess.Popen(["sleep", "60"])
    memory = ctypes.create_string_buffer(1024)
    core.activity_begin(memory, child.pid, child.pid, -1)
    core.activity_from_now(memory)
    assert core.activity_now(memory, 0, 0, 5 * MS) >= 0
    child.kill()
    child.wait()
    assert core.activity_now(memory, 0, 0, 5 * MS) == -1
    core.activity_end(memory)


def test_few_files_are_kept_open(core):
    """Of three thousand threads; and none is left open at their ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    tasks = [ctypes.create_string_buffer(1024) for _ in range(3000)]
    try:
        for limit in (min(240, soft), min(4096, hard)):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            for memory in tasks:
                core.activity_begin(memory, os.getpid(), os.getpid(), -1)
                core.activity_from_now(memory)
                assert core.activity_now(memory, 0, 0, 5 * MS) >= 0
            opened = len(os.listdir("/proc/self/fd")) - before
            assert 0 < opened <= limit / 8
            for memory in tasks:
                core.activity_end(memory)
            assert len(os.listdir("/proc/self/fd")) == before
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
