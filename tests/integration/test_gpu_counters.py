"""Counting kernels, from `taupy run --metrics` to the trial, with a GPU that is played.

`tests/fake_gpu` plays the driver and CUPTI's Range Profiler: metric number i of a kernel of work w
is w * i.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fake_gpu import PRELUDE

REAL_HOST = Path(__file__).parent.parent / "fake_counters" / "real_host.c"
NATIVE = Path(__file__).parents[2] / "taupy" / "_native"
COLLECTOR = (
    *("append", "count_config", "count_context", "count_file", "count_image", "count_watch"),
    "cupti_range",
)

PROGRAM = (
    PRELUDE
    + """
init()
RUNTIME, DRIVER, CONFIG, CONFIG_COOPERATIVE, COOPERATIVE, GRAPH = range(6)
def launch(kind, name, device=0, grid=8, stream=7, work=10):
    name, work = text(name), u64(work)
    if kind == RUNTIME: cuda.fake_launch(name, device, stream, work, grid, 64)
    elif kind == DRIVER: cuda.fake_driver_launch(name, device, stream, work, grid, 64)
    elif kind == COOPERATIVE: cuda.fake_cooperative_launch(name, device, stream, work)
    elif kind == GRAPH: cuda.fake_graph_launch(name, 2, device, stream, work)
    else: cuda.fake_config_launch(name, device, stream, work, grid, 64, kind == CONFIG_COOPERATIVE)
"""
)


@pytest.fixture
def gpu(runs, played_gpu):
    cupti = str(played_gpu / "libcupti.so.13")
    runs.environment.update(
        LD_LIBRARY_PATH=str(played_gpu), TAUPY_CUPTI=cupti, FAKE_DEVICES="2",
        FAKE_CHIPS="GA100,GH100",
    )  # fmt: skip
    return runs


VALUES = """
    SELECT timer.short_name, value.inclusive, timer_call.calls
      FROM timer_value AS value
      JOIN timer ON timer.id = value.timer_id
      JOIN metric ON metric.id = value.metric_id
      JOIN thread ON thread.id = value.thread_id
      JOIN timer_call ON timer_call.timer_id = timer.id AND timer_call.thread_id = thread.id
                     AND timer_call.trial_id = value.trial_id
     WHERE metric.name = ? AND thread.context = ?
       AND value.trial_id = (SELECT max(id) FROM trial)
"""


def kernels(runs, metric, device=0):
    """Kernel -> (value, launches) of the last trial."""
    found = runs.sql(VALUES, metric, device + 1)
    return {name: (value, calls) for name, value, calls in found if calls}


@pytest.mark.slow
def test_the_first_launches_of_each_kernel_and_call_path_are_counted(gpu):
    source = PROGRAM + (
        "def forward():\n"
        "    for _ in range(10): launch(RUNTIME, '_Z4gemmPf')\n"
        "    launch(DRIVER, 'relu', work=3)\n"
        "def backward():\n"
        "    launch(CONFIG, '_Z4gemmPf', work=100)\n"
        "forward(); backward()\n"
    )
    done = gpu.run(source, "--metrics", "gld,gst")
    assert "GA100: 3 metrics in 2 passes" in done.stderr
    assert kernels(gpu, "gld") == {"gemm": (3 * 10 + 100, 11), "relu": (3, 1)}
    assert kernels(gpu, "gst") == {"gemm": (2 * (3 * 10 + 100), 11), "relu": (6, 1)}
    assert kernels(gpu, "counted_launches") == {"gemm": (4, 11), "relu": (1, 1)}
    assert kernels(gpu, "counted_time") == {"gemm": (130_000, 11), "relu": (3_000, 1)}
    paths = gpu.sql(
        """SELECT caller.short_name, value.exclusive FROM interval_value AS value
             JOIN metric ON metric.id = value.metric_id
             JOIN callpath ON callpath.id = value.callpath_id
             JOIN timer ON timer.id = callpath.timer_id
             JOIN callpath AS above ON above.id = callpath.parent_id
             JOIN timer AS caller ON caller.id = above.timer_id
            WHERE metric.name = 'gld' AND timer.short_name = 'gemm'"""
    )
    # `launch` is called by both: its own callers tell them apart.
    assert sorted(value for _, value in paths) == [30, 100]
    assert gpu.one("SELECT sum(count) FROM launch") == 12
    assert gpu.one("SELECT sum(count - untimed) FROM launch") == 5


@pytest.mark.slow
@pytest.mark.parametrize(("launches", "counted"), [(5, 5), (50, 20)])
def test_the_number_of_counted_launches_can_be_set(gpu, launches, counted):
    source = PROGRAM + "for _ in range(20): launch(DRIVER, 'k')\n"
    gpu.run(source, "--metrics", "gld", "--gpu-launches", str(launches))
    assert kernels(gpu, "counted_launches") == {"k": (counted, 20)}


@pytest.mark.slow
def test_configurations_are_counted_apart(gpu):
    source = PROGRAM + "for n in range(8): launch(DRIVER, 'k', grid=n % 2 + 1, work=n % 2 + 1)\n"
    gpu.run(source, "--metrics", "gld", "--gpu-launches", "2")
    assert kernels(gpu, "gld") == {"k": (2 * 1 + 2 * 2, 8)}
    assert gpu.sql("SELECT grid_x, grid_y, block_x, count FROM launch ORDER BY grid_x") == [
        (1, 1, 64, 4),
        (2, 1, 64, 4),
    ]


def test_the_gpus_of_counted_kernels_are_in_the_trial(gpu):
    """Roofs and comparisons of GPUs find a trial by its GPU."""
    gpu.run(PROGRAM + "launch(DRIVER, 'k', device=1)\n", "--metrics", "gld")
    assert [tuple(row) for row in gpu.sql("SELECT ordinal, name FROM device")] == [(1, "Fake H100")]
    assert gpu.metadata("GPU[1] Name") == "Fake H100"


def test_each_gpu_counts_for_itself(gpu):
    source = PROGRAM + (
        "launch(DRIVER, 'k', device=0, work=5)\nlaunch(DRIVER, 'k', device=1, work=7)\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld", 0) == {"k": (5, 1)} and kernels(gpu, "gld", 1) == {"k": (7, 1)}
    assert gpu.metadata("taupy.counters.gpu0") == "GA100, 2 passes"
    assert gpu.metadata("taupy.counters.gpu1") == "GH100, 2 passes"


@pytest.mark.slow
def test_kernels_that_cannot_be_run_again_are_left_alone_and_named(gpu):
    source = PROGRAM + (
        "launch(CONFIG_COOPERATIVE, 'grid_sync')\nlaunch(COOPERATIVE, 'grid_sync2')\n"
        "launch(GRAPH, 'x')\nlaunch(DRIVER, 'ncclDevKernel_AllReduce')\n"
        "cuda.fake_capture_begins(98, 1)\n"  # refused
        "cuda.fake_capture_begins(99, 0)\nlaunch(DRIVER, 'captured', stream=99)\n"
        "cuda.fake_capture_ends(99)\nlaunch(DRIVER, 'plain')\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert set(kernels(gpu, "gld")) == {"plain"}
    refused = gpu.metadata("taupy.health.gpu_refused")
    for name in ("grid_sync, grid_sync2", "CUDA graphs", "ncclDevKernel_AllReduce"):
        assert name in refused


@pytest.mark.slow
def test_a_kernel_among_others_is_doubtful_and_left_out(gpu):
    gpu.environment["FAKE_RANGE"] = "twice"
    gpu.run(PROGRAM + "launch(DRIVER, 'k')\n", "--metrics", "gld")
    assert not kernels(gpu, "gld")
    assert "k" in gpu.metadata("taupy.health.gpu_doubtful")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["silent", "late", "late busy", "silent late busy"])
def test_however_cupti_reports_launches_each_range_has_its_kernel(gpu, how):
    """Ranges may be there after the launch only, and a runtime call's own driver call unseen:
    at most one launch is lost until that is known."""
    gpu.environment["FAKE_RANGE"] = how
    source = PROGRAM + (
        "for n in (1, 2):\n"
        "    for _ in range(10): launch(RUNTIME, 'runtime', work=5)\n"
        "    for _ in range(10): launch(DRIVER, 'driver', work=7)\n"
        "launch(RUNTIME, 'last', work=3)\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "counted_launches") == {
        "runtime": (3, 20), "driver": (3, 20), "last": (1, 1)
    }  # fmt: skip
    assert kernels(gpu, "gld") == {"runtime": (15, 20), "driver": (21, 20), "last": (3, 1)}
    assert not gpu.sql("SELECT * FROM metadata WHERE name LIKE 'taupy.health.gpu%'")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "from launches", "keep image"])
def test_wherever_cupti_takes_its_configuration_kernels_are_counted(gpu, how):
    """Where a context is created, as NVIDIA's example does it, or within a launch; each launch's
    range follows the others in the data image where that cannot be initialised again."""
    gpu.environment["FAKE_RANGE"] = how
    source = PROGRAM + (
        "for n in range(1, 51): launch(RUNTIME, f'k{n}', work=n)\n"
        "launch(RUNTIME, 'other', device=1, work=5)\n"
    )
    done = gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld") == {f"k{n}": (n, 1) for n in range(1, 51)}
    assert kernels(gpu, "gld", 1) == {"other": (5, 1)}
    assert done.stderr.count("enabled") == 2
    assert not gpu.sql("SELECT * FROM metadata WHERE name LIKE 'taupy.health.gpu%'")


@pytest.mark.slow
def test_a_data_image_that_is_full_is_changed_for_another(gpu):
    gpu.environment["FAKE_RANGE"] = "keep image"
    source = PROGRAM + (
        "for n in range(64): launch(RUNTIME, f'k{n}')\n"
        "launch(RUNTIME, 'later')\ntime.sleep(1)\nlaunch(RUNTIME, 'last', work=3)\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld")["last"] == (3, 1) and len(kernels(gpu, "gld")) == 65
    assert gpu.calls()["later"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["from nowhere", "no sass"])
def test_what_no_callback_may_configure_a_thread_of_ours_does(gpu, how):
    """It takes some launches: those before are among the calls, and not counted."""
    gpu.environment["FAKE_RANGE"] = how
    source = PROGRAM + (
        "launch(RUNTIME, 'early', work=5)\ntime.sleep(1)\n"
        "for n in range(5): launch(RUNTIME, 'k', work=7)\n"
    )
    gpu.run(source, "--metrics", "gld,flop_fp32")
    counted = kernels(gpu, "counted_launches")
    assert counted["k"] == (3, 5) and counted.get("early", (0, 1)) == (0, 1)
    assert gpu.calls()["early"] == 1
    assert kernels(gpu, "gld")["k"][0] > 0
    assert bool(kernels(gpu, "flop_fp32")) == (how == "from nowhere")


@pytest.mark.slow
def test_a_kernel_launched_by_a_librarys_handle_has_its_name(gpu):
    """The runtime's callback has none; the driver's has."""
    source = PROGRAM + (
        "for _ in range(2): cuda.fake_handle_launch(text('_Z4gemmPf'), 0, 7, u64(10))\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld") == {"gemm": (20, 2)}


@pytest.mark.slow
def test_a_kernel_that_nobody_can_name_is_counted_as_such(gpu):
    source = PROGRAM + "for _ in range(2): cuda.fake_nameless_launch(0, 7, u64(10))\n"
    gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld") == {"(a kernel without a name)": (20, 2)}


@pytest.mark.slow
@pytest.mark.parametrize("by_the_driver", [0, 1])
def test_a_launch_that_is_refused_changes_nothing_for_those_after_it(gpu, by_the_driver):
    gpu.environment["FAKE_RANGE"] = "one pass"
    source = PROGRAM + (
        f"def refused(name): return cuda.fake_refused_launch(text(name), 0, {by_the_driver})\n"
        "for _ in range(2): assert refused('bad') == 9\n"
        "for _ in range(5): launch(RUNTIME, 'k', work=5)\n"
        "refused('k')\n"
        "for _ in range(5): launch(RUNTIME, 'late', work=7)\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld") == {"k": (15, 5), "late": (21, 5)}
    assert kernels(gpu, "counted_launches") == {"k": (3, 5), "late": (3, 5)}
    assert not gpu.sql("SELECT * FROM metadata WHERE name LIKE 'taupy.health.gpu%'")


WAITING = PROGRAM + (
    "launch(DRIVER, 'before', work=5)\n"
    "def other(): time.sleep(0.5); cuda.fake_signalling_launch(text('signal'), 1, 7)\n"
    "thread = threading.Thread(target=other); thread.start()\n"
    "def wait(n): cuda.fake_waiting_launch(text('_Z14wait_for_peersPf'), 0, 7, u64(n))\n"
)


@pytest.mark.slow
def test_a_kernel_that_waits_for_another_gpu_is_reported_and_the_program_continues(gpu):
    (gpu.folder / "pyproject.toml").write_text("[tool.taupy]\ngpu_end_ms = 400\n")
    source = WAITING + (
        "wait(1); thread.join()\nfor _ in range(3): wait(0); launch(DRIVER, 'after', work=7)\n"
    )
    done = gpu.run(source, "--metrics", "gld")
    assert done.returncode == 0
    assert "the kernel _Z14wait_for_peersPf has not ended in 0.4 s of counting" in done.stderr
    assert kernels(gpu, "gld") == {"before": (5, 1), "after": (21, 3)}
    assert "wait_for_peers" in gpu.metadata("taupy.health.gpu_refused")
    said = gpu.metadata("taupy.health.gpu_counters")
    assert "wait_for_peers had not ended after 0.4 s" in said
    assert "launches in the meantime, neither counted nor included in the calls: 1" in said


@pytest.mark.slow
def test_a_kernel_that_never_ends_is_named_in_what_a_killed_program_leaves(gpu):
    (gpu.folder / "pyproject.toml").write_text("[tool.taupy]\ngpu_end_ms = 1000\n")
    source = WAITING + (
        "import signal\n"
        "threading.Timer(4, os.kill, (os.getpid(), signal.SIGKILL)).start()\n"
        "wait(99)\n"
    )
    done = gpu.run(source, "--metrics", "gld")
    assert "earlier counts are kept" in done.stderr
    gpu.taupy("trials", "--db", str(gpu.database))
    assert kernels(gpu, "gld") == {"before": (5, 1)}
    assert "wait_for_peers had not ended" in gpu.metadata("taupy.health.gpu_counters")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "_ZN4vllm22cross_device_reduce_1stage",
        "one_shot_all_reduce_kernel", "multimem_all_reduce_kernel", "nvshmemi_transfer",
        "_ZN7deep_ep9internode8dispatch",
    ],
)  # fmt: skip
def test_kernels_of_communication_are_known_by_their_names(gpu, kernel):
    gpu.run(PROGRAM + f"launch(DRIVER, '{kernel}')\nlaunch(DRIVER, 'k')\n", "--metrics", "gld")
    assert set(kernels(gpu, "gld")) == {"k"}
    assert "it waits for kernels of other GPUs" in gpu.metadata("taupy.health.gpu_refused")


@pytest.mark.slow
def test_states_reported_by_cupti_are_in_the_trial(gpu):
    source = PROGRAM + (
        "launch(DRIVER, 'k')\nctypes.CDLL('libcupti.so.13').fake_state(2, 26, b'another\\ttool')\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert "internal error (another tool): another tool holds" in gpu.metadata(
        "taupy.health.gpu_counters"
    )


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "within"])
def test_after_a_fatal_error_nothing_of_cupti_is_called(gpu, when):
    """The engine goes on to tell of regions: CUPTI has finalized itself."""
    gpu.environment["FAKE_RANGE"] = "one pass"
    fatal = "ctypes.CDLL('libcupti.so.13').fake_state(1, 999, b'out of device memory')\n"
    source = PROGRAM + (
        "import taupy\n"
        "launch(DRIVER, 'before', work=1000)\n"
        "def step(n):\n"
        "    with taupy.region('step'):\n"
        "        launch(RUNTIME, 'k', work=5)\n"
        f"        if n == 1 and {when == 'within'}: {fatal}"
        f"    if n == 0 and {when == 'before'}: {fatal}"
        "for n in range(3): step(n)\n"
    )
    done = gpu.run(source, "--metrics", "gld", "--counters-at", "regions")
    assert done.returncode == 0 and "after it was finalized" not in done.stderr
    assert kernels(gpu, "gld") == {"step": (5, 1)}
    said = gpu.metadata("taupy.health.gpu_counters")
    assert said.startswith("CUPTI had an internal fatal error (out of device memory): ")
    assert ";" not in said  # nothing that was not called has failed


@pytest.mark.slow
def test_counting_stops_with_cupti(gpu):
    source = PROGRAM + (
        "launch(DRIVER, 'k')\n"
        "ctypes.CDLL('libcupti.so.13').fake_state(1, 999, b'out of device memory')\n"
        "launch(DRIVER, 'k')\n"
    )
    done = gpu.run(source, "--metrics", "gld")
    assert done.returncode == 0 and "after it was finalized" not in done.stderr
    assert kernels(gpu, "gld") == {"k": (10, 1)}


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_ends_what_is_counted_not_the_program(gpu):
    source = PROGRAM + (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "for n in range(20): launch(DRIVER, f'k{n}')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, -1))\n"
        "for n in range(20, 60): launch(DRIVER, f'k{n}')\n"
        "print('ran')\n"
    )
    done = gpu.run(source, "--metrics", "gld")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    counted = kernels(gpu, "gld")
    assert 20 <= len(counted) < 60 and set(counted.values()) == {(10, 1)}
    assert "limited the size of its files" in gpu.metadata("taupy.health.gpu_cut_off")


@pytest.mark.slow
def test_a_forked_child_adds_nothing_to_what_its_parent_has_counted(gpu):
    gpu.environment["FAKE_RANGE"] = "twice"  # what is doubtful is written, too
    source = PROGRAM + (
        "for n in range(5): launch(DRIVER, f'k{n}')\n"
        "for _ in range(3):\n"
        "    pid = os.fork()\n"
        "    if pid == 0: sys.exit(0)\n"
        "    os.waitpid(pid, 0)\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert gpu.metadata("taupy.health.gpu_doubtful.node0").startswith("5 launches")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "size"),
    [("1206", 32), ("1209", 32), ("1300", 32), ("1301", 32), ("1302", 32), ("1304", 36)],
)
def test_each_version_gets_only_structures_that_it_knows(gpu, version, size):
    """From 13.4 on CUPTI can reset caches before each pass, and is told not to."""
    gpu.environment.update(FAKE_CUPTI=version)
    done = gpu.run(PROGRAM + "launch(DRIVER, 'k')\n", "--metrics", "gld")
    assert f"enabled 1, {size} bytes" in done.stderr
    refused = {line.split()[6] for line in done.stderr.splitlines() if " knows no " in line}
    assert refused <= {"CUpti_Profiler_Host_Initialize_Params"}  # of the launcher, which tries two
    assert kernels(gpu, "gld") == {"k": (10, 1)}


@pytest.mark.slow
def test_a_context_at_the_address_of_one_that_is_gone_is_another(gpu):
    source = PROGRAM + (
        "launch(DRIVER, 'k', work=5)\ncuda.fake_context_ends(0)\nlaunch(DRIVER, 'k2', work=7)\n"
    )
    done = gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld") == {"k": (5, 1), "k2": (7, 1)}
    assert done.stderr.count("enabled") == 2


@pytest.mark.slow
def test_what_takes_changed_code_is_left_out_where_it_cannot_be_had(gpu):
    gpu.environment["FAKE_RANGE"] = "no sass from launches"
    gpu.run(PROGRAM + "for _ in range(5): launch(RUNTIME, 'k')\n", "--metrics", "flop_fp32,gld")
    assert kernels(gpu, "counted_launches") == {"k": (3, 5)}
    assert kernels(gpu, "gld")["k"][0] > 0 and not kernels(gpu, "flop_fp32")
    assert "operations by precision" in gpu.metadata("taupy.health.gpu_counters")


@pytest.mark.slow
def test_a_launch_that_cannot_be_counted_is_not_the_end(gpu):
    gpu.environment["FAKE_RANGE"] = "now and then"
    gpu.run(PROGRAM + "for _ in range(20): launch(DRIVER, 'k')\n", "--metrics", "gld",
            "--gpu-launches", "6")  # fmt: skip
    assert kernels(gpu, "counted_launches") == {"k": (3, 20)}
    assert "CUPTI failed without a reason" in gpu.metadata("taupy.health.gpu_counters")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("enable=35", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("enable=26", "dcgmi profile --pause"),
        pytest.param("start=39", "another CUPTI client", marks=pytest.mark.slow),
        ("initialize=15", "driver is too old"),
        pytest.param("enable=40", "vGPU", marks=pytest.mark.slow),
        ("start=999", "CUPTI failed without a reason"),
    ],
)
def test_what_keeps_counters_away_is_reported_and_the_program_runs(gpu, fault, said):
    gpu.environment["FAKE_RANGE"] = fault
    done = gpu.run(
        PROGRAM + "for _ in range(5): launch(RUNTIME, 'k')\nprint('ran')\n", "--metrics", "gld"
    )
    assert done.returncode == 0 and done.stdout == "ran\n"
    assert not kernels(gpu, "gld")
    assert said in done.stderr
    assert gpu.calls()["launch"] == 5
    # Kernels are timed instead, the very first one, too.
    if not fault.startswith("initialize"):  # which the launcher has seen
        assert "kernels are recorded with their times instead, without counters" in done.stderr
        assert "instead, without counters" in gpu.metadata("taupy.health.gpu_counters")
    recorded = 5 if "999" not in fault else 3  # which may be for once: others are tried
    assert kernels(gpu, "time") == {"k": (10 * recorded, recorded)}
    assert ("the first 2 launches are missing" in done.stderr) == (recorded == 3)
    calls = gpu.calls()  # the first one may have begun: what it calls is seen
    assert calls["cudaLaunchKernel"] + calls.get("cuLaunchKernel", 0) == recorded


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["config=1", "enable=26", "start=15"])
def test_no_refusal_loses_the_kernels(gpu, fault):
    gpu.environment["FAKE_RANGE"] = fault
    source = PROGRAM + (
        "def work():\n"
        "    launch(DRIVER, 'd'); launch(RUNTIME, 'r'); launch(CONFIG, 'c')\n"
        "    cuda.fake_copy(1, u64(4096), 0, 7, u64(500))\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
    )
    done = gpu.run(source, "--metrics", "gld", "--gpu", "--trace")
    assert done.returncode == 0
    calls = {name: calls for name, (_, calls) in kernels(gpu, "time").items()}
    copies = calls.pop("Memcpy HtoD")
    assert calls == {"d": 4, "r": 4, "c": 4}
    assert copies == 4 or fault.startswith("start")  # refused at the first launch only


@pytest.mark.slow
def test_regions_that_cannot_be_counted_lose_no_kernels(gpu):
    gpu.environment["FAKE_RANGE"] = "enable=26"
    source = PROGRAM + (
        "import taupy\n"
        "launch(RUNTIME, 'before')\n"
        "for _ in range(3):\n"
        "    with taupy.region('step'): launch(RUNTIME, 'k')\n"
    )
    done = gpu.run(source, "--metrics", "gld", "--counters-at", "regions")
    assert done.returncode == 0
    calls = {name: calls for name, (_, calls) in kernels(gpu, "time").items()}
    assert calls["k"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, "enable=26"])
def test_a_run_that_requires_a_gpu_fails_if_nothing_was_counted_on_one(gpu, fault):
    if fault:
        gpu.environment["FAKE_RANGE"] = fault
    done = gpu.run(PROGRAM, "--metrics", "gld", "--gpu")
    assert done.returncode == 1
    assert "error: --gpu was given, but nothing was counted" in done.stderr
    assert gpu.run(PROGRAM + "sys.exit(3)\n", "--metrics", "gld", "--gpu").returncode == 3
    assert gpu.run(PROGRAM + "launch(RUNTIME, 'k')\n", "--metrics", "gld", "--gpu").returncode == 0
    assert gpu.run(PROGRAM, "--metrics", "gld").returncode == 0
    assert gpu.one("SELECT count(*) FROM trial") == 4


@pytest.mark.slow
def test_counters_that_are_added_to_a_trial_bring_no_times(gpu):
    source = PROGRAM + "launch(RUNTIME, 'k')\n"
    gpu.run(source)
    assert kernels(gpu, "time") == {"k": (10, 1)}
    gpu.environment["FAKE_RANGE"] = "enable=26"
    done = gpu.run(source, "--metrics", "gld", "--merge-into", "1")
    assert "dcgmi" in done.stderr and "without counters" not in done.stderr


@pytest.mark.slow
def test_a_chip_that_cupti_does_not_know_is_reported_and_the_program_runs(gpu):
    gpu.environment["FAKE_RANGE"] = "host=46"
    done = gpu.run("print('ran')", "--metrics", "gld")
    assert done.returncode == 0 and done.stdout == "ran\n"
    assert "nothing is counted on GA100: cuptiProfilerHostInitialize" in done.stderr
    assert "no GPU here can count them" in done.stderr


@pytest.mark.slow
def test_a_metric_that_cupti_refuses_is_named_and_the_others_are_counted(gpu):
    gpu.environment["FAKE_RANGE"] = "unknown"
    gpu.run(PROGRAM + "launch(DRIVER, 'k')\n", "--metrics", "gld,gst")
    assert not kernels(gpu, "gld") and kernels(gpu, "gst") == {"k": (10, 1)}
    assert "_op_global_ld" in gpu.metadata("taupy.health.gpu_counters")
    # All of the others in one call: each call takes passes of its own.
    assert gpu.metadata("taupy.counters.gpu0") == "GA100, 2 passes"


@pytest.mark.slow
def test_a_killed_program_keeps_what_was_counted(gpu):
    source = PROGRAM + "launch(DRIVER, 'k')\nimport os\nos.kill(os.getpid(), 9)\n"
    gpu.run(source, "--metrics", "gld")
    gpu.taupy("trials", "--db", str(gpu.database))
    assert kernels(gpu, "gld") == {"k": (10, 1)}
    assert "killed" in gpu.metadata("taupy.health.gpu_cut_off")


@pytest.mark.slow
def test_a_launch_that_is_not_counted_holds_up_no_other_thread(gpu):
    """It blocks until another thread has launched."""
    source = PROGRAM + (
        "def other(): time.sleep(0.3); cuda.fake_signalling_launch(text('signal'), 0, 8)\n"
        "thread = threading.Thread(target=other); thread.start()\n"
        "cuda.fake_blocking_launch(text('ncclDevKernel_AllReduce'), 0, 7, u64(1))\n"
        "thread.join()\nfor _ in range(3): launch(RUNTIME, 'after')\n"
    )
    gpu.run(source, "--metrics", "gld")
    assert kernels(gpu, "gld")["after"] == (30, 3)


@pytest.mark.slow
def test_threads_wait_for_each_others_counted_launch(gpu):
    source = PROGRAM + (
        "import threading\n"
        "def work():\n"
        "    for _ in range(200): launch(RUNTIME, 'k')\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
    )
    gpu.run(source, "--metrics", "gld", "--gpu-launches", "20")
    # Each thread has call paths of its own.
    assert kernels(gpu, "counted_launches") == {"k": (80, 800)}
    assert kernels(gpu, "gld") == {"k": (800, 800)}
    assert gpu.metadata("taupy.health.gpu_doubtful") is None


@pytest.mark.slow
def test_a_program_without_cuda_says_that_nothing_was_counted(gpu):
    done = gpu.run("print(1)", "--metrics", "gld")
    assert done.returncode == 0 and "no kernel was counted" in done.stderr


REGIONS = (
    PROGRAM
    + """
import taupy
launch(DRIVER, 'before', work=1000)
def step():
    with taupy.region("step"):
        for _ in range(3): launch(RUNTIME, 'k', work=5)
        with taupy.region("inner"):
            launch(GRAPH, 'g', work=2)
step(); step()
launch(DRIVER, 'after', work=1000)
"""
)


@pytest.mark.slow
def test_whole_regions_are_counted_in_one_pass(gpu):
    gpu.environment["FAKE_RANGE"] = "one pass"
    done = gpu.run(REGIONS, "--metrics", "gld,gst", "--counters-at", "regions")
    assert "in one pass, over whole regions" in done.stderr
    # Three kernels of 5 and a graph of two kernels of 2, twice.
    assert kernels(gpu, "gld") == {"step": (2 * 19, 2)}
    assert kernels(gpu, "gst") == {"step": (2 * 38, 2)}
    assert kernels(gpu, "counted_time") == {"step": (38_000, 2)}


@pytest.mark.slow
def test_regions_of_threads_whose_kernels_wait_for_each_other_end(gpu):
    """As with several GPUs of one process: whoever waits for its own region holds up no other."""
    gpu.environment["FAKE_RANGE"] = "one pass"
    source = PROGRAM + (
        "import taupy\n"
        "launch(DRIVER, 'before')\n"
        "def second():\n"
        "    time.sleep(0.5)\n"
        "    with taupy.region('second'): cuda.fake_signalling_launch(text('signal'), 1, 7)\n"
        "def first():\n"
        "    with taupy.region('first'): cuda.fake_waiting_launch(text('wait'), 0, 7, u64(1))\n"
        "thread = threading.Thread(target=second); thread.start(); first(); thread.join()\n"
    )
    done = gpu.run(source, "--metrics", "gld", "--counters-at", "regions")
    assert done.returncode == 0
    assert set(kernels(gpu, "gld")) == {"first"}


@pytest.mark.slow
def test_regions_are_not_run_again_for_more_passes(gpu):
    done = gpu.run(REGIONS, "--metrics", "gld", "--counters-at", "regions")
    assert done.returncode == 0 and "need 2 passes, and a region runs once" in done.stderr
    assert not kernels(gpu, "gld")


@pytest.mark.slow
def test_nvidias_own_library_takes_our_configuration(tmp_path):
    """With no GPU: unknown metrics are named, and all others share one pass."""
    found = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (found.submodule_search_locations if found else ())]
    libraries = [path for folder in folders for path in folder.glob("*/lib/libcupti.so.1[23]")]
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not libraries or compiler is None:
        pytest.skip("no nvidia-cuda-cupti is installed, or no C compiler")
    program, written = tmp_path / "real_host", tmp_path / "lines"
    sources = [str(NATIVE / f"{name}.c") for name in COLLECTOR]
    subprocess.run(
        [
            *(compiler, "-std=gnu11", "-w", f"-I{NATIVE}", str(REAL_HOST), *sources),
            *("-o", str(program), "-ldl", "-lpthread"),
        ],
        check=True,
    )
    host = libraries[0].with_name("libnvperf_host.so")
    command = [str(program), str(libraries[0]), str(host), str(written)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["TU102 0 5 1", "GA100 0 5 1", "GH100 0 5 1"]
    assert written.read_text() == "missing\tbogus__metric.sum\t\n" * 3
