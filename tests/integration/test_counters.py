"""Counters of the CPU in real runs: exact, at the right routine, or refused.

What the kernel counts on every machine, page faults, stands for all counters where exact
numbers are asked for; a processor's counters are played by `fake_pmu.c` where their special
cases are meant, and taken from this machine, with a reason for the skip, where it has some.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.collectors import perf_events
from tests import preloads

STATUS = {counter.name: counter.status for counter in perf_events.available()}

pytestmark = pytest.mark.skipif(
    STATUS["page_faults"] != "ok", reason=f"no counters at all: {STATUS['page_faults']}"
)

needs_flop = pytest.mark.skipif(STATUS["flop"] != "ok", reason=f"no flop: {STATUS['flop']}")
needs_instructions = pytest.mark.skipif(
    STATUS["instructions"] != "ok", reason=f"no instructions: {STATUS['instructions']}"
)

TOUCH = """
import mmap, threading, taupy
def touch(pages):
    memory = mmap.mmap(-1, pages * 4096)
    memory.madvise(15)  # no huge pages: one fault a page
    for page in range(pages):
        memory[page * 4096] = 1
    memory.close()
"""

WORK = (
    TOUCH
    + """
def small():
    touch(100)
def big():
    touch(2000)
def work():
    for _ in range(3):
        small()
    big()
with taupy.region("both"):
    thread = threading.Thread(target=work)
    thread.start()
    work()
    thread.join()
with taupy.phase("one"):
    small()
"""
)

VALUES = """
    SELECT timer.short_name, value.inclusive, value.exclusive
      FROM timer_value AS value
      JOIN timer ON timer.id = value.timer_id
      JOIN metric ON metric.id = value.metric_id
      JOIN thread ON thread.id = value.thread_id
     WHERE metric.name = ? AND thread.thread = ? AND thread.node = ?
       AND value.trial_id = (SELECT max(id) FROM trial)
"""


def values(runs, metric, thread=0, node=0):
    """Routine -> (inclusive, exclusive) of the last trial."""
    return {name: (i, e) for name, i, e in runs.sql(VALUES, metric, thread, node)}


# Under a sanitizer (scripts/sanitize.py) its own memory has page faults, too.
FEW = 1000 if "TAUPY_SANITIZED" in os.environ else 20


def near(counted, known, allowed=FEW):
    """Equal but for a few page faults of the interpreter's own."""
    return known <= counted <= known + max(allowed, FEW)


@pytest.fixture(scope="module")
def fake_pmu(tmp_path_factory) -> Path:
    if os.uname().machine != "x86_64":
        pytest.skip("the fake PMU plays an x86-64 processor")
    source = Path(__file__).with_name("fake_pmu.c")
    if (library := preloads.built(source, tmp_path_factory.mktemp("pmu"))) is None:
        pytest.skip("no C compiler to build the fake PMU with")
    return library


@pytest.mark.slow
def test_counts_stand_at_their_routines_in_two_threads(runs):
    runs.run(WORK, "--metrics", "page_faults", "--counters-at", "calls")
    for thread, faults in ((0, 2400), (1, 2300)):
        found = values(runs, "page_faults", thread)
        assert near(found["touch"][1], faults)
        assert near(found["small"][0], faults - 2000) and near(found["small"][1], 0)
        assert near(found["big"][0], 2000) and near(found["big"][1], 0)
        assert near(found["work"][0], 2300)
        assert found[".taupy application"][0] >= faults


@pytest.mark.slow
def test_at_regions_only_regions_and_the_whole_have_values(runs):
    done = runs.run(WORK, "--metrics", "page_faults", "--counters-at", "regions")
    found = values(runs, "page_faults")
    assert set(found) == {".taupy application", "both", "one"}
    assert near(found["both"][0], 2300) and found["both"][0] == found["both"][1]
    assert near(found["one"][0], 100)
    whole, own = found[".taupy application"]
    assert own == whole - found["both"][0] - found["one"][0]
    assert set(values(runs, "page_faults", 1)) == {".taupy application"}
    assert "invariants" not in done.stderr and runs.metadata("taupy.invariants") is None


@pytest.mark.slow
def test_how_it_was_counted_stands_in_the_trial(runs):
    runs.run("print(1)", "--metrics", "page_faults", "--counters-at", "calls")
    assert runs.metadata("taupy.counters.read").startswith("every routine, by ")
    assert runs.metadata("taupy.counters.events") == "page_faults = software:0x2"
    assert "page_faults pages 1.0000" in runs.metadata("taupy.counters.self_test")
    assert float(runs.metadata("taupy.counters.reading_ns")) > 0
    assert float(runs.metadata("taupy.overhead.call_ns")) > float(
        runs.metadata("taupy.counters.reading_ns")
    )


@pytest.mark.slow
def test_counters_stand_beside_cpu_time(runs):
    runs.run(WORK, "--metrics", "cpu_time:page_faults", "--counters-at", "calls")
    assert near(values(runs, "page_faults")["big"][0], 2000)
    cpu, time = values(runs, "cpu_time")["big"], values(runs, "time")["big"]
    assert 0 < cpu[0] <= time[0] * 1.1


@pytest.mark.slow
def test_cpu_time_is_of_every_routine_where_counters_are_of_regions_only(runs):
    runs.run(WORK, "--cpu-time", "--metrics", "page_faults", "--counters-at", "regions")
    assert "big" in values(runs, "cpu_time") and "big" not in values(runs, "page_faults")
    assert near(values(runs, "page_faults")["one"][0], 100)


@pytest.mark.slow
def test_tau_metrics_of_the_environment_is_heeded_and_what_it_means_elsewhere_is_a_note(runs):
    runs.environment["TAU_METRICS"] = "TIME:page_faults:PAPI_NONE_SUCH"
    done = runs.run(WORK)
    assert done.returncode == 0 and "PAPI_NONE_SUCH" in done.stderr
    assert near(values(runs, "page_faults")["one"][0], 100)


def test_an_unknown_name_is_reported_before_the_program_runs(runs):
    done = runs.run("print('ran')", "--metrics", "flopp")
    assert done.returncode == 2 and "flop" in done.stderr and "ran" not in done.stdout
    assert len(done.stderr.splitlines()) == 1


OF_STEPS = """
    SELECT node, step_value.name, group_concat(CAST(value AS INTEGER)) FROM step_value
      JOIN thread ON thread.id = thread_id
     WHERE step_value.kind = 'training metrics'
       AND step_value.trial_id = (SELECT max(id) FROM trial)
     GROUP BY node, step_value.name
"""


@pytest.mark.parametrize("at", ["calls", "regions"])
def test_counters_are_read_where_a_step_begins_and_ends(runs, at):
    source = (
        TOUCH
        + """
import os, signal
def loop(pages):
    for turn in range(1, 4):
        with taupy.step():
            touch(turn * pages)
if os.fork() == 0:
    loop(200)
    os._exit(0)
os.wait()
loop(100)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    runs.run(source, "--metrics", "page_faults", "--counters-at", at)
    runs.taupy("trials", "--db", str(runs.database))
    found = {(node, name): list(map(int, all.split(","))) for node, name, all in runs.sql(OF_STEPS)}
    for node, pages in ((0, 100), (1, 200)):
        assert len(found[node, "cpu_time"]) == 3
        for turn, faults in enumerate(found[node, "page_faults"], 1):
            assert near(faults, turn * pages, 100)  # of a child also those of copied pages


def test_steps_of_a_program_that_closes_all_descriptors_have_their_cpu_time_only(runs):
    source = "import os, taupy\n" + 3 * "with taupy.step(): os.closerange(3, 65536)\n"
    assert runs.run(source, "--metrics", "page_faults").returncode == 0
    assert [name for _, name, _ in runs.sql(OF_STEPS)] == ["cpu_time"]


@pytest.mark.slow
def test_forked_children_count_for_themselves(runs):
    source = TOUCH + (
        "import os\n"
        "def parent(): touch(300)\n"
        "def child(): touch(700)\n"
        "parent()\n"
        "if os.fork() == 0:\n"
        "    child()\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "parent()\n"
    )
    runs.run(source, "--metrics", "page_faults", "--counters-at", "calls")
    assert near(values(runs, "page_faults")["parent"][0], 600, 40)
    # After a fork, pages that are written are copied: a fault each.
    assert near(values(runs, "page_faults", node=1)["child"][0], 700, 100)
    assert "child" not in values(runs, "page_faults")


@pytest.mark.slow
def test_what_is_open_when_the_program_leaves_counts(runs):
    source = TOUCH + (
        "import os\n"
        "def outer():\n"
        "    with taupy.region('open'):\n"
        "        touch(500)\n"
        "        os._exit(3)\n"
        "outer()\n"
    )
    for at in ("calls", "regions"):
        assert runs.run(source, "--metrics", "page_faults", "--counters-at", at).returncode == 3
        found = values(runs, "page_faults")
        assert near(found["open"][0], 500)
        assert found[".taupy application"][0] >= found["open"][0]


def test_a_killed_program_keeps_what_was_counted(runs):
    source = TOUCH + (
        "import os, signal\ndef done(): touch(400)\ndone()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = runs.run(source, "--metrics", "page_faults", "--counters-at", "calls")
    assert done.returncode == -signal.SIGKILL
    runs.taupy("trials", "--db", str(runs.database))
    assert near(values(runs, "page_faults")["done"][0], 400)
    assert "killed" in runs.metadata("taupy.health.counters_cut_off")


@pytest.mark.slow
def test_a_snapshot_counts_up_to_its_moment(runs):
    source = TOUCH + (
        "def f(): touch(200)\n"
        "with taupy.region('whole'):\n"
        "    f()\n"
        "    taupy.snapshot('mid')\n"
        "    f()\n"
    )
    runs.run(source, "--metrics", "page_faults", "--counters-at", "regions")
    whole = values(runs, "page_faults")["whole"][0]
    assert near(whole, 200)  # the snapshot is the last trial
    (full,) = runs.sql(
        """SELECT max(inclusive) FROM timer_value JOIN timer ON timer.id = timer_id
            JOIN metric ON metric.id = metric_id
            WHERE metric.name = 'page_faults' AND timer.short_name = 'whole'
              AND trial_id = (SELECT min(id) FROM trial)"""
    )
    assert near(full[0], 400, 60)


@pytest.mark.slow
def test_generators_count_in_each_step(runs):
    source = TOUCH + (
        "def steps():\n"
        "    for _ in range(4):\n"
        "        touch(50)\n"
        "        yield\n"
        "def other(): touch(300)\n"
        "for _ in steps(): other()\n"
    )
    runs.run(source, "--metrics", "page_faults", "--counters-at", "calls")
    found = values(runs, "page_faults")
    assert near(found["steps"][0], 200) and near(found["other"][0], 1200, 40)


@pytest.mark.slow
def test_the_program_sees_the_same_descriptors(runs):
    source = "import os, sys\nprint(os.open('/dev/null', 0), file=sys.stderr)\n"
    plain = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, cwd=runs.folder
    ).stderr
    done = runs.run(source, "-q", "--metrics", "page_faults", "--counters-at", "calls")
    assert done.stderr.splitlines()[-1] == plain.strip()


@pytest.mark.slow
def test_a_program_that_closes_all_descriptors_loses_its_counters_with_a_note(runs):
    source = TOUCH + "import os\nos.closerange(3, 65536)\ndef f(): touch(10)\nf()\n"
    done = runs.run(source, "--metrics", "page_faults", "--counters-at", "calls")
    assert done.returncode == 0 and "closed their descriptors" in done.stderr
    assert not values(runs, "page_faults") and values(runs, "time")["f"]


NATIVE = """
import ctypes, taupy, threading
worker = ctypes.CDLL(LIBRARY).worker_do
worker.argtypes = [ctypes.c_uint64] * 2
def inner(): worker(CONFIG, 200)
worker(CONFIG, 1)
with taupy.region("a"):
    inner()
    with taupy.phase("b"):
        worker(CONFIG, 1000)
worker(CONFIG, 7)
def other(begun, go):
    with taupy.region("other"):
        begun.set(); go.wait()
begun, go = threading.Event(), threading.Event()
thread = threading.Thread(target=other, args=(begun, go))
thread.start(); begun.wait()
with taupy.region("c"):
    worker(CONFIG, 30)
go.set(); thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", ["calls", "regions"])
def test_what_native_threads_do_counts_at_the_region_that_was_open(runs, fake_pmu, at):
    source = NATIVE.replace("LIBRARY", repr(str(fake_pmu))).replace("CONFIG", "0")
    runs.run(source, "--metrics", "page_faults", "--counters-at", at)
    assert runs.sql("SELECT thread FROM thread WHERE name = 'native threads'") == [(2,)]
    found = values(runs, "page_faults", 2)
    assert near(found["a"][0], 1200) and near(found["a"][1], 200) and near(found["b"][1], 1000)
    # 1 and 7 outside of regions, 30 while two threads had one open: nobody's.
    assert near(found[".taupy application"][1], 38)
    assert not values(runs, "time", 2)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "noinherit", "noinherit nordpmc"])
def test_native_threads_are_counted_together_or_each_by_itself(runs, fake_pmu, how):
    runs.environment.update(LD_PRELOAD=str(fake_pmu), FAKE_PMU=how)
    source = NATIVE.replace("LIBRARY", repr(str(fake_pmu))).replace("CONFIG", "0x1f03")
    done = runs.run(source, "--metrics", "r1f03", "--counters-at", "regions")
    ((row, name),) = runs.sql("SELECT thread, name FROM thread WHERE name LIKE 'native%'")
    found = values(runs, "r1f03", row)
    assert found["a"] == (1200, 200) and found["b"] == (1000, 1000)
    # What a thread did before it was found is lost only where each is counted by itself.
    first = 0 if how else 1
    assert found[".taupy application"] == (1237 + first, 37 + first)
    assert (name == "native threads") is (how == "")
    assert "invariants" not in done.stderr


FLOP = """
import ctypes, threading
count = ctypes.CDLL(None).fake_count
count.argtypes = [ctypes.c_uint64] * 2
def flop(n): count(0x1f03, n)
def step():
    flop(10)
    for _ in range(5):
        add()
def add(): flop(1)
def work():
    for _ in range(40):
        step()
thread = threading.Thread(target=work)
thread.start()
work()
thread.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "nordpmc"])
def test_a_processors_counters_are_read_by_rdpmc_or_read(runs, fake_pmu, how):
    runs.environment.update(LD_PRELOAD=str(fake_pmu), FAKE_PMU=how)
    runs.run(FLOP, "--metrics", "r1f03,r76", "--counters-at", "calls")
    assert runs.metadata("taupy.counters.read").endswith("read()" if how else "rdpmc")
    for thread in (0, 1):
        found = values(runs, "r1f03", thread)
        assert found["flop"] == (600, 600) and found["add"] == (200, 0)
        assert found["step"] == (600, 0) and found["work"] == (600, 0)
        assert set(values(runs, "r76", thread).values()) == {(0, 0)}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("multiplexed", "part of the time"),
        ("jump", "impossible values"),
        ("errno=13", "perf_event"),
        pytest.param("errno=1", "perf_event", marks=pytest.mark.slow),
        ("errno=22", "ask for fewer"),
        pytest.param("errno=38", "no perf_event_open", marks=pytest.mark.slow),
    ],
)
def test_counters_that_cannot_be_trusted_are_left_out_and_the_time_is_kept(
    runs, fake_pmu, fault, said
):
    runs.environment.update(LD_PRELOAD=str(fake_pmu), FAKE_PMU=fault)
    done = runs.run(FLOP, "--metrics", "flop,instructions", "--counters-at", "calls")
    assert done.returncode == 0
    assert said in done.stderr.splitlines()[0]
    assert said in runs.metadata("taupy.health.note")
    assert not values(runs, "flop") and not values(runs, "instructions")
    assert values(runs, "time")["step"]


@pytest.mark.slow
def test_a_counter_that_miscounts_known_work_is_left_out(runs, fake_pmu):
    runs.environment.update(LD_PRELOAD=str(fake_pmu))  # counts none of real instructions
    done = runs.run(FLOP, "--metrics", "instructions,r1f03", "--counters-at", "calls")
    assert "known work of 200000 count (scalar) was counted as 0" in done.stderr
    assert not values(runs, "instructions") and values(runs, "r1f03")["work"] == (600, 0)


@pytest.mark.slow
def test_counters_that_go_bad_in_the_run_are_not_stored(runs, fake_pmu):
    source = "import os\nos.environ['FAKE_PMU'] = 'multiplexed'\nimport ctypes\n" + (
        "ctypes.CDLL(None).setenv(b'FAKE_PMU', b'multiplexed', 1)\n" + FLOP
    )
    runs.environment.update(LD_PRELOAD=str(fake_pmu))
    done = runs.run(source, "--metrics", "r1f03", "--counters-at", "calls")
    assert "did not count all the time" in done.stderr
    assert not values(runs, "r1f03") and values(runs, "time")["work"]


def test_a_gpu_counter_without_a_gpu_is_one_line(runs):
    from taupy.collectors.requested import has_gpu

    if has_gpu():
        pytest.skip("this machine has a GPU")
    done = runs.run("print(1)", "--metrics", "gld,warps_launched")
    lines = [line for line in done.stderr.splitlines() if "gld" in line]
    assert done.returncode == 0 and lines
    assert "gld, warps_launched: counted on NVIDIA GPUs only" in lines[0]


@pytest.mark.slow
def test_twice_gives_the_times_of_one_run_and_the_counters_of_another_in_one_trial(runs):
    more = ("--metrics", "page_faults", "--counters-at", "calls")
    done = runs.run(WORK + "print('ran')\n", "--twice", "--trial", "both", *more)
    assert done.returncode == 0 and done.stdout == "ran\nran\n"
    assert runs.sql("SELECT name FROM trial") == [("both",)]
    assert near(values(runs, "page_faults")["big"][0], 2000)
    assert near(values(runs, "page_faults", 1)["work"][0], 2300)
    assert values(runs, "time")["big"]
    # The times are those of the run that did not count.
    assert "taupy.overhead.call_ns" in dict(runs.sql("SELECT name, value FROM metadata"))
    assert float(runs.metadata("taupy.overhead.call_ns")) < float(
        runs.metadata("taupy.counters.reading_ns")
    )
    assert "call paths" in runs.metadata("taupy.counters.joined")


@pytest.mark.slow
def test_twice_without_metrics_or_with_a_failing_program_says_so(runs):
    done = runs.run("print(1)", "--twice")
    assert done.returncode == 2 and "--metrics" in done.stderr
    done = runs.run("raise SystemExit(7)", "--twice", "--metrics", "page_faults")
    assert done.returncode == 7 and "nothing was counted" in done.stderr
    assert runs.one("SELECT count(*) FROM trial") == 1


@pytest.mark.slow
def test_the_second_run_is_left_out_where_nothing_can_be_counted(runs, fake_pmu):
    runs.environment.update(LD_PRELOAD=str(fake_pmu), FAKE_PMU="errno=13")
    done = runs.run("print('ran')", "--twice", "--metrics", "flop")
    assert done.returncode == 0 and done.stdout == "ran\n" and "not run again" in done.stderr
    assert runs.one("SELECT count(*) FROM trial") == 1
    done = runs.run("print('ran')", "--merge-into", "1", "--metrics", "flop")
    assert done.returncode != 0 and done.stdout == "" and "was not run" in done.stderr


@pytest.mark.slow
def test_counters_of_another_run_join_a_trial_or_stay_apart(runs):
    runs.run(WORK, "--trial", "first")
    more = ("--metrics", "page_faults", "--counters-at", "calls", "--merge-into", "trial=first")
    done = runs.run(WORK, *more)
    assert "trial 1 (prog/default/first) has more metrics" in done.stderr
    assert near(values(runs, "page_faults")["big"][0], 2000)
    assert runs.one("SELECT count(*) FROM trial") == 1
    other = runs.run("def f(): sum(range(10**6))\nf()\n", *more)
    assert "a separate trial" in other.stderr and "already" in other.stderr
    assert runs.one("SELECT count(*) FROM trial") == 2
    none = runs.run("print('ran')", *more[:-1], "trial=none")
    assert none.returncode != 0 and "none" in none.stderr and "ran" not in none.stdout


MATMUL = """
import sys, threading
import numpy as np
n = 256
x = np.random.default_rng(1).random((n, n)).astype(sys.argv[1])
def product(): x @ x
def add(): x + x
def work():
    for _ in range(4):
        product()
    add()
import taupy
with taupy.region("all"):
    thread = threading.Thread(target=work)
    thread.start()
    work()
    thread.join()
"""


@needs_flop
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("at", ["calls", "regions"])
def test_matrix_products_give_exact_flop_in_two_threads(runs, precision, at):
    pytest.importorskip("numpy")
    runs.environment["OPENBLAS_NUM_THREADS"] = "1"
    runs.run(MATMUL, "--metrics", "flop", "--counters-at", at, arguments=(precision,))
    n = 256
    if at == "calls":
        for thread in (0, 1):
            found = values(runs, "flop", thread)
            assert found["product"][0] == pytest.approx(4 * 2 * n**3, rel=0.01)
            assert found["add"][0] == pytest.approx(n * n, rel=0.01)
            assert found["work"][0] == pytest.approx(4 * 2 * n**3 + n * n, rel=0.01)
    else:
        known = 4 * 2 * n**3 + n * n
        assert values(runs, "flop")["all"][0] == pytest.approx(known, rel=0.01)
        assert values(runs, "flop", 1)[".taupy application"][0] == pytest.approx(known, rel=0.01)


@needs_flop
def test_the_flop_of_blas_threads_are_in_rows_of_their_own(runs):
    pytest.importorskip("numpy")
    runs.environment["OPENBLAS_NUM_THREADS"] = "2"
    source = (
        "import numpy as np, taupy\nx = np.ones((512, 512))\nx @ x\n"
        "with taupy.region('product'):\n    x @ x\n"
    )
    runs.run(source, "--metrics", "flop", "--counters-at", "regions")
    (total,) = runs.sql(
        """SELECT sum(exclusive) FROM timer_value JOIN timer ON timer.id = timer_id
            JOIN metric ON metric.id = metric_id
            WHERE metric.name = 'flop' AND timer.short_name = 'product'"""
    )
    assert total[0] == pytest.approx(2 * 512**3, rel=0.01)


@needs_instructions
def test_instructions_of_a_longer_loop_are_more_in_proportion(runs):
    source = (
        "def loop(n):\n    for _ in range(n): pass\n"
        "def short(): loop(100_000)\ndef long(): loop(300_000)\nshort(); long()\n"
    )
    runs.run(source, "--metrics", "instructions,cycles", "--counters-at", "calls")
    found = values(runs, "instructions")
    assert found["long"][0] == pytest.approx(3 * found["short"][0], rel=0.02)
    assert values(runs, "cycles")["long"][0] > 0


def test_the_table_of_descriptors_is_large_enough_from_the_start(runs, native):
    """Ours have high numbers. In a process with threads, Linux waits for all processors before the
    table grows: 5 to 28 ms in the first layer of a program with PyTorch."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = 4096 if limit > 8192 or limit < 0 else limit // 2
    done = runs.run(f"""
import fcntl, re
def size(): return re.search("FDSize.*", open("/proc/self/status").read())[0]
before = size()
fcntl.fcntl(open("/proc/self/status"), fcntl.F_DUPFD, {high})
print(before == size(), before)
""")
    assert done.stdout.startswith("True"), done.stdout
