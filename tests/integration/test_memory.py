"""Memory: which routine has made it grow, when it was largest, and under which call path."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

GROWTH = """SELECT timer.short_name, sum(value.count * value.mean) / 1024
              FROM user_event_value value JOIN user_event ON user_event.id = value.user_event_id
              JOIN callpath ON callpath.id = value.callpath_id
              JOIN timer ON timer.id = callpath.timer_id
             WHERE user_event.name = 'Resident Memory Growth' GROUP BY timer.short_name"""

LEAK = """
import threading, time
kept = []
def leak(size=8 << 20):
    block = bytearray(size)
    for at in range(0, size, 4096):
        block[at] = 1
    kept.append(block)
def add(n):
    return sum(range(n))
def churn():
    return len(bytearray(1 << 20))
def leaker():
    for _ in range(20):
        leak()
        time.sleep(0.05)
def worker():
    while not stop.is_set():
        add(2000), churn()
def sleeper():
    while not stop.is_set():
        add(10), time.sleep(0.001)
stop = threading.Event()
others = [threading.Thread(target=one) for one in (worker, sleeper)]
for one in others:
    one.start()
last = threading.Thread(target=leaker)
last.start()
last.join()
stop.set()
"""


def skip_if_sanitized():
    if "TAUPY_SANITIZED" in os.environ:
        pytest.skip("the rest compares bytes, and a sanitizer's own are counted, too")


def growth_mib(runs):
    return dict(runs.sql(GROWTH))


@pytest.mark.slow
def test_a_leak_in_one_of_three_threads_is_charged_to_its_routine(runs, native):
    runs.run(LEAK)
    skip_if_sanitized()
    grown = growth_mib(runs)
    assert abs(grown["leak"] - 160) < 0.05 * 160, grown


@pytest.mark.slow
def test_what_is_given_back_is_taken_off_the_growth_of_callers(runs, native):
    source = """
def churn():
    block = bytearray(64 << 20)
    block[::4096] = b"1" * len(block[::4096])
def work():
    for _ in range(20):
        churn()
work()
"""
    runs.run(source)
    skip_if_sanitized()
    rows = {row["routine"].split()[0]: row for row in table(runs, "memory")["rows"]}
    assert abs(rows["work"]["net_bytes"]) < 80 << 20


def test_the_largest_resident_memory_is_seen_without_new_call_paths(runs, native):
    runs.run("kept = []\ndef f(): kept.append(bytearray(1 << 20))\nfor _ in range(100): f()")
    most = runs.one("SELECT max(maximum) / 1024 FROM user_events WHERE event = 'Resident Memory'")
    assert most > 100
    assert growth_mib(runs)["f"] > 95


@pytest.mark.slow
def test_the_peak_is_the_programs_own_whatever_started_it(runs, native):
    """The kernel's ru_maxrss survives exec, and is also that of a parent that used vfork."""
    parent = (
        "import subprocess, sys\nfilled = bytes(b'x' * (200 << 20))\n"
        "subprocess.run([sys.executable, '-m', 'taupy', 'run', '--db', 'taupy.db', '-c', 'pass'])"
    )
    assert runs.plain(parent).returncode == 0
    assert 1000 < int(runs.metadata("Peak Resident Memory (KiB)")) < 150_000


def test_many_short_calls_that_touch_memory_leave_nothing_to_innocent_routines(runs, native):
    source = """
kept = []
def touch():
    kept.append(bytearray(64 << 10))
def innocent(n):
    return sum(range(n))
for _ in range(1500):
    touch()
    innocent(3000)
"""
    runs.run(source)
    skip_if_sanitized()
    assert growth_mib(runs).get("innocent", 0) < 0.1 * 1500 / 16


AT_ONCE = """
kept = []
def leak(size):
    kept.append(bytearray(size))
def innocent(n):
    return n * 2
def main():
    for n in range(3840):
        innocent(n)
        leak(128 << 10)
main()
"""
OF_SMALL_OBJECTS = """
class Store:
    def __init__(self): self.kept = {}
    def put(self, n): self.kept[n] = f"{n}" * 100
def next_of(n): return n + 1
def main():
    store, n = Store(), 0
    while n < 200_000:
        store.put(n)
        n = next_of(n)
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "leaks", "mib", "least_mib"),
    [(AT_ONCE, "leak", 480, 240), (OF_SMALL_OBJECTS, "Store.put", 100, 1)],
    ids=["large", "small"],
)
def test_growth_at_once_is_charged_to_the_short_routine_in_which_it_is(
    runs, native, source, leaks, mib, least_mib
):
    """Of small objects, a tenth of a second of a fast machine is known in part: the engine counts
    within its budget. The rest belongs to nobody."""
    runs.run(source)
    skip_if_sanitized()
    grown = growth_mib(runs)
    assert grown.pop(leaks) > least_mib, grown
    assert sum(grown.values()) < mib / 10, grown


@pytest.mark.slow
def test_memory_that_a_short_routine_gives_back_at_once_is_not_its_growth(runs, native):
    """Its page faults say nothing then, nor do all of those of the routine that leaks."""
    source = """
import mmap
kept = {}
def leak(n):
    kept[n] = b"x" * (16 << 10)
def scratch():
    with mmap.mmap(-1, 2 << 12) as mapped:
        mapped[:] = bytes(2 << 12)
def main():
    for n in range(8000):
        scratch()
        leak(n)
main()
"""
    runs.run(source)
    skip_if_sanitized()
    grown = growth_mib(runs)
    assert grown.get("scratch", 0) < 12, grown
    assert grown["leak"] > 25, grown
    unknown = table(runs, "memory")
    between = next(row for row in unknown["rows"] if row["routine"].startswith("(growth"))
    assert between["growth_bytes"] > 0
    (said,) = [note for note in unknown["notes"] if "could not be charged" in note]
    assert float(said.split("%")[0]) == pytest.approx(between["share_percent"], abs=1)
    assert "page faults do not show whose" in said


@pytest.mark.slow
def test_a_long_call_of_c_belongs_to_who_made_it_whatever_that_called_before(runs, native):
    source = """
kept = []
def quick(): pass
def fill():
    quick()
    kept.append(list(map(str, range(500_000))))
fill()
"""
    runs.run(source)
    assert growth_mib(runs)["fill"] > 20


# --- the command


def shown(runs, *options):
    done = runs.taupy("memory", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(runs, command, *options):
    return json.loads(runs.taupy(command, *options, "--json").stdout)


STEPS = """
import time
kept = []
def small():
    time.sleep(0.4)
def large():
    kept.append(bytearray(64 << 20))
    kept[0][::4096] = b"1" * (16 << 10)
    time.sleep(0.6)
def work():
    small(); large(); kept.clear(); small()
work()
"""


@pytest.mark.slow
def test_the_largest_memory_is_shown_with_its_moment_and_call_path(runs, native):
    runs.run(STEPS)
    skip_if_sanitized()
    notes = shown(runs)
    (largest,) = re.findall(r"largest (\d+\.\d) MiB, (.*) after the start", notes)
    assert 64 < float(largest[0]) < 150
    assert re.search(r"then the main thread was in large, called by work, <module>", notes)
    series = table(runs, "memory", "--series")["rows"]
    most = max(series, key=lambda row: row["most_bytes"])
    assert most["most_bytes"] > (64 << 20) and most["end_ns"] > most["start_ns"] > 300_000_000
    assert series[-1]["resident_bytes"] < 64 << 20


@pytest.mark.slow
def test_growth_is_shown_by_routine_with_its_callees(runs, native):
    runs.run(STEPS)
    skip_if_sanitized()
    rows = {row["routine"]: row for row in table(runs, "memory")["rows"]}
    large = next(row for name, row in rows.items() if name.startswith("large "))
    work = next(row for name, row in rows.items() if name.startswith("work "))
    assert abs(large["growth_bytes"] - (64 << 20)) < 4 << 20
    assert large["net_bytes"] >= large["growth_bytes"] > work["growth_bytes"]
    assert abs(work["net_bytes"]) < 4 << 20


TURNS = """
kept = []
def keep():
    kept.append(bytearray(40 << 10))
def other(n):
    return sum(range(n))
for _ in range(4000):
    keep(); other(700)
"""


def test_who_waits_is_not_charged_what_others_have_kept(runs, native):
    """Nor who has to wait for a processor: between two looks, short calls keep memory in a small
    part of the time, and in all of the time for which the thread runs."""
    runs.run("""
import time
kept = []
def keep(): kept.append(bytearray(128 << 10))
def short(): pass
def wait(): time.sleep(0.002)
for n in range(300):
    for _ in range(20 * (n % 20)): short()
    keep()
    wait()
""")
    skip_if_sanitized()
    assert growth_mib(runs).get("wait", 0) < 0.5


@pytest.mark.slow
def test_what_short_routines_in_turns_were_charged_is_its_growth_or_in_doubt(runs, native):
    runs.run(TURNS)
    shown = table(runs, "memory")
    kept = next(row for row in shown["rows"] if row["routine"].startswith("keep "))
    assert kept["growth_bytes"] - kept["doubt_bytes"] > 80 << 20  # of 156 MiB
    for row in shown["rows"]:
        if row["routine"].startswith("other "):  # it keeps nothing
            assert row["growth_bytes"] - row["doubt_bytes"] <= 1 << 20


def test_growth_in_an_import_belongs_to_that_phase(runs, native):
    (runs.folder / "heavy.py").write_text("block = bytearray(b'1' * (32 << 20))\n")
    runs.run("import heavy")
    by = {
        row["phase"]: row["growth_bytes"] for row in table(runs, "memory", "--by", "phase")["rows"]
    }
    assert by["import"] > 30 << 20


@pytest.mark.slow
def test_the_plain_engine_has_memory_over_time_and_does_not_guess_where_it_grew(runs):
    runs.run(STEPS, "--engine", "python")
    notes = shown(runs)
    assert re.search(r"largest \d+\.\d MiB", notes)
    assert "where it grew is not known: the plain engine cannot tell" in notes


WITHOUT_MEMORY = """
import _testcapi, sys, time
class C: pass
end = time.perf_counter() + 0.02
while time.perf_counter() < end: pass  # a look is due
_testcapi.set_nomemory(0, int(sys.argv[1]))
C()
"""


@pytest.mark.parametrize("refused", [3, 7, 12, 17])
def test_no_look_takes_memory_that_is_short(runs, native, refused):
    pytest.importorskip("_testcapi")
    done = runs.run(WITHOUT_MEMORY, arguments=(str(refused),))
    assert done.returncode == 1
    assert "MemoryError" in done.stderr


@pytest.mark.slow
def test_without_a_watch_there_is_growth_but_no_series(runs, native):
    runs.run(STEPS, "--no-watch")
    assert "large [" in shown(runs)
    refused = runs.taupy("memory", "--series")
    assert refused.returncode != 0 and "without the watch" in refused.stderr


# --- working or waiting


@pytest.mark.slow
def test_sleeping_and_computing_are_distinguished(runs, native):
    source = """
import time
def nap():
    time.sleep(2)
def compute():
    end = time.thread_time() + 1.5
    while time.thread_time() < end:
        sum(range(10000))
nap(); compute()
"""
    runs.run(source)
    rows = table(runs, "waiting")["rows"]
    nap, compute = (
        next(row for row in rows if row["routine"].startswith(f"{name} "))
        for name in ("nap", "compute")
    )
    assert nap["sleeping_ns"] > 5 * (nap["on_cpu_ns"] + nap["runnable_ns"] + nap["disk_ns"])
    assert compute["on_cpu_ns"] + compute["runnable_ns"] > 5 * compute["sleeping_ns"]
    assert nap["error_ns"] > 0 and nap["looks"] > 1
    by_thread = table(runs, "waiting", "--by", "thread")["rows"]
    assert sum(row["looks"] for row in rows) == sum(row["looks"] for row in by_thread)


@pytest.mark.slow
def test_what_threads_did_is_known_when_their_code_is_gone(runs, native):
    source = """
import threading
space = {}
exec("import time\\ndef nap(): time.sleep(1.5)", space)
thread = threading.Thread(target=space["nap"])
thread.start(); thread.join()
del space, thread
kept = [eval("lambda: 0") for _ in range(1000)]  # some have its address
"""
    runs.run(source)
    rows = table(runs, "waiting")["rows"]
    (nap,) = (row for row in rows if row["routine"].startswith("nap "))
    assert nap["sleeping_ns"] > 0


@pytest.mark.slow
def test_a_trial_without_looks_says_so(runs, native):
    runs.run("pass", "--engine", native, "--no-watch")
    refused = runs.taupy("waiting")
    assert refused.returncode != 0 and "has no record of what its threads did" in refused.stderr


@pytest.mark.slow
def test_a_program_that_still_runs_is_shown_so_far(runs, native):
    source = """
import colorsys, pathlib, time
kept = []
def fill():
    kept.append(bytearray(b"1" * (32 << 20)))
def nap():
    pathlib.Path("asleep").touch()
    time.sleep(60)
fill(); nap()
"""
    (runs.folder / "prog.py").write_text(source)
    command = [sys.executable, "-m", "taupy", "run", "--db", str(runs.database), "prog.py"]
    program = subprocess.Popen(command, cwd=runs.folder, env=runs.environ())
    until = time.monotonic() + 60
    while not (shown := runs.taupy("waiting", "running", "--json").stdout) or "nap" not in shown:
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.2)
    rows = table(runs, "memory", "running")["rows"]
    (phases,) = table(runs, "phases", "running")
    program.kill()
    program.wait()
    assert sum(row["growth_bytes"] for row in rows if row["routine"].startswith("fill ")) > 30 << 20
    assert {row["phase"] for row in phases["rows"]} == {"import", "(no phase)"}


@pytest.mark.slow
def test_kept_memory_is_distinguished_from_memory_that_comes_and_goes(runs, native):
    source = """
kept = []
def touched(size):
    block = bytearray(size)
    block[::4096] = b"1" * len(block[::4096])
    return block
def passing():
    return len(touched(32 << 20))
def keep():
    kept.append(touched(2 << 20))
for _ in range(20):
    passing(); keep()
"""
    runs.run(source)
    skip_if_sanitized()
    rows = {row["routine"].split(" [")[0]: row for row in table(runs, "memory")["rows"]}
    assert 30 << 20 < rows["keep"]["net_bytes"] < 50 << 20, rows
    assert abs(rows["<module>"]["net_bytes"] - (40 << 20)) < 20 << 20


# --- what PyTorch's caching allocator holds: played by built-in functions, which is all that the
# engine calls; none of this has run on a GPU.

PLAYED_TORCH = """
import sys, time, types
MIB = 1 << 20
torch, cuda, c = (types.ModuleType(name) for name in ("torch", "torch.cuda", "torch._C"))
sys.modules.update({"torch": torch, "torch.cuda": cuda, "torch._C": c})
held = {what: {"all": {"current": 0, "peak": 0}} for what in ("allocated_bytes", "reserved_bytes")}
c._cuda_memoryStats = {0: held}.__getitem__
c._cuda_getDevice = (0).bit_length  # 0
c._cuda_isInBadFork = "1".isspace  # False
cuda._initialized = False
def allocate(bytes):
    for what in held.values():
        what["all"]["current"] += bytes
        what["all"]["peak"] = max(what["all"].values())
def free(bytes):
    held["allocated_bytes"]["all"]["current"] -= bytes
def idle(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.002), nothing()
def nothing(): pass
"""

ON_GPU = (
    PLAYED_TORCH
    + """
def model():
    idle(0.05); allocate(100 * MIB); step_aside(); idle(0.3)
def step_aside(): pass
def short():
    allocate(1 * MIB)
def activations():
    allocate(700 * MIB); free(700 * MIB)
def train():
    idle(0.05)
    for _ in range(50):
        short()
    idle(0.1); activations(); idle(0.3)
cuda._initialized = True
model(); train(); free(150 * MIB); idle(0.3)
"""
)


def on_gpu(runs, source, *options):
    runs.run(source)
    return table(runs, "memory", "--gpu", *options)


@pytest.mark.slow
def test_what_pytorch_allocates_on_a_gpu_is_a_series_with_its_own_peaks(runs, native):
    rows = on_gpu(runs, ON_GPU, "--series")["rows"]
    allocated = [row for row in rows if row["event"] == "PyTorch CUDA Memory Allocated, GPU 0"]
    reserved = [row for row in rows if row["event"] == "PyTorch CUDA Memory Reserved, GPU 0"]
    assert [row["resident_bytes"] >> 20 for row in (allocated[-1], reserved[-1])] == [0, 850]
    assert 150 in {row["resident_bytes"] >> 20 for row in allocated}
    assert max(row["most_bytes"] for row in allocated) >> 20 == 850  # between two looks


@pytest.mark.slow
def test_growth_on_a_gpu_is_charged_where_it_is_known(runs, native):
    shown = on_gpu(runs, ON_GPU)
    rows = {row["routine"].split(" [")[0]: row for row in shown["rows"]}
    assert sum(row["growth_bytes"] for row in shown["rows"]) >> 20 == 150
    # Nothing is charged to what only stood by.
    assert not {"nothing", "idle", "step_aside"} & {
        name for name, row in rows.items() if row["growth_bytes"]
    }
    assert rows["model"]["net_bytes"] >> 20 == 100
    assert rows["train"]["net_bytes"] >> 20 == 50
    assert rows["<module>"]["net_bytes"] == 0
    (reached,) = [note for note in shown["notes"] if note.startswith("the most was reached")]
    assert "was in train, called by <module>" in reached


@pytest.mark.slow
def test_one_reading_that_takes_long_does_not_end_the_readings(runs, native):
    source = """
import collections, functools
class Slow(int):
    __hash__ = staticmethod(functools.partial(sum, range(-2_000_000, 2_000_001)))  # 0, in C
ordinals = collections.deque([0] * 10_000)
c._cuda_getDevice = ordinals.pop
def model():
    allocate(100 * MIB); idle(0.3)
cuda._initialized = True
idle(0.1); ordinals.append(Slow()); idle(0.1); model()
"""
    rows = on_gpu(runs, PLAYED_TORCH + source)["rows"]
    assert sum(row["growth_bytes"] for row in rows) >> 20 == 100


@pytest.mark.slow
def test_before_cuda_is_in_use_nothing_is_asked(runs, native):
    runs.run(PLAYED_TORCH + "allocate(MIB); c._cuda_memoryStats = print; idle(0.3)")
    refused = runs.taupy("memory", "--gpu")
    assert refused.returncode != 0 and "no use of CUDA by PyTorch was seen" in refused.stderr
    assert "PyTorch" not in runs.taupy("memory").stdout


@pytest.mark.slow
def test_an_allocator_that_cannot_be_asked_leaves_the_program_as_it_is(runs, native):
    source = (
        "cuda._initialized = True\nc._cuda_memoryStats = {}.__getitem__\nidle(0.3); print('well')"
    )
    done = runs.run(PLAYED_TORCH + source)
    assert (done.stdout, done.returncode) == ("well\n", 0)


@pytest.mark.slow
def test_a_process_forked_after_cuda_began_does_not_ask(runs, native):
    source = """
import os
cuda._initialized = True
allocate(8 * MIB); idle(0.2)
if not os.fork():
    c._cuda_isInBadFork = "1".isdigit  # True
    allocate(MIB); idle(0.3)
    os._exit(0)
os.wait()
"""
    rows = on_gpu(runs, PLAYED_TORCH + source, "--series")["rows"]
    assert {row["node"] for row in rows} == {0}
