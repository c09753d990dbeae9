"""A real `taupy run` of programs that use a GPU, on a driver and a CUPTI of our own making.

From the driver's loading of the collector to the trial in the database: callbacks in the
launching threads, records in buffers, the flush at the end, and everything that can go wrong.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.model.gpu import NO_OWNER
from taupy.model.gpu_time import stored
from taupy.model.invariants import check
from taupy.model.profile import Profile, ThreadProfile
from taupy.profiledb import gpu_query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from taupy.record import gpu_verdict
from tests import in_process
from tests.fake_gpu import PRELUDE

SLOW = pytest.mark.slow


@dataclass
class Gpu:
    """A folder with a database of its own, and a GPU that is told what to do by FAKE_*."""

    folder: Path
    libraries: Path
    told: dict[str, str] = field(default_factory=dict)

    def environ(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TAU", "XDG_STATE", "CUDA", "FAKE"))
        }
        kept["LD_LIBRARY_PATH"] = str(self.libraries)
        kept["TAUPY_CUPTI"] = str(self.libraries / "libcupti.so.13")
        kept["TAUPY_STATE_DIR"] = kept["STATE"] = str(self.folder / "state")
        return {**kept, **self.told}

    def command(self, source: str, *options: str) -> list[str]:
        (self.folder / "prog.py").write_text(PRELUDE + source)
        taupy = [sys.executable, "-m", "taupy", "run", "--db", str(self.folder / "taupy.db")]
        return [*taupy, *options, "prog.py"]

    def run(self, source: str, *options: str, ends: int = 0) -> Profile:
        done = subprocess.run(
            self.command(source, *options),
            cwd=self.folder,
            env=self.environ(),
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == ends, done.stderr
        self.said = done.stderr
        self.printed = done.stdout
        profile = self.stored()
        assert check(profile) == []
        return profile

    def stored(self) -> Profile:
        with ProfileDB.open(str(self.folder / "taupy.db"), create=False, readonly=True) as db:
            return read_profile(db, max(trial.id for trial in db.trials()))


@pytest.fixture
def gpu(tmp_path: Path, played_gpu: Path) -> Gpu:
    return Gpu(tmp_path, played_gpu)


def path_of(profile: Profile, measured: ThreadProfile, row: int) -> str:
    names = []
    while row > 0:
        names.append(profile.timers[measured.tree.timer[row]].name)
        row = measured.tree.parent[row]
    return " / ".join(reversed(names))


def streams(profile: Profile) -> dict[tuple[int, int, int], ThreadProfile]:
    return {
        (thread.thread.node, thread.thread.context, thread.thread.thread): thread
        for thread in profile.threads
        if thread.thread.kind == "stream"
    }


def work(profile: Profile) -> dict[str, int]:
    """Launches by call path, over all streams."""
    found: dict[str, int] = {}
    for measured in streams(profile).values():
        for row, calls in enumerate(measured.tree.calls):
            if calls and row:
                path = path_of(profile, measured, row)
                found[path] = found.get(path, 0) + calls
    return found


def host_calls(profile: Profile, group: str = "CUDA_API") -> dict[str, int]:
    found: dict[str, int] = {}
    for measured in profile.threads:
        for row, timer in enumerate(measured.tree.timer):
            if measured.thread.kind == "host" and group in profile.timers[timer].groups:
                path = path_of(profile, measured, row)
                found[path] = found.get(path, 0) + measured.tree.calls[row]
    return found


def health(profile: Profile, name: str) -> str:
    return profile.metadata.get(f"taupy.health.{name}", "")


STEPS = """
def step():
    launch("_Z6vecaddPfi")
    copy(1, 4096)
def train():
    for i in range(10):
        step()
    cuda.fake_synchronize(0, 7)
init()
train()
"""


def test_kernels_and_copies_hang_under_the_python_that_launched_them(gpu):
    profile = gpu.run(STEPS)
    assert work(profile) == {
        "<module> / train / step / launch / vecadd(float*, int)": 10,
        "<module> / train / step / copy / Memcpy HtoD": 10,
    }
    (stream,) = streams(profile).values()
    assert (stream.thread.name, stream.thread.native_id) == ("stream 7", 7)
    assert stream.tree.inclusive["time"][0] == 10 * 1000 + 10 * 500
    (kernel,) = [launch for launch in stream.launches if launch.configuration.grid]
    assert (kernel.count, kernel.time_ns, kernel.minimum_ns, kernel.maximum_ns) == (
        10,
        10_000,
        1000,
        1000,
    )
    config = kernel.configuration
    assert (config.grid, config.block, config.registers) == ((8, 1, 1), (128, 1, 1), 32)
    assert (config.shared_static_bytes, config.shared_dynamic_bytes) == (1024, 2048)
    # 64 KiB set aside, 4 KiB a block: 16 blocks of 4 warps, all 64 that a Hopper holds.
    assert config.occupancy == 1.0
    timer = next(t for t in profile.timers if "GPU_KERNEL" in t.groups)
    assert (timer.name, timer.short) == ("vecadd(float*, int)", "vecadd")
    moved = {e.name: (e.count, e.mean, e.unit) for e in stream.user_events}
    assert moved["Bytes copied from Host to Device"] == (10, 4096.0, "bytes")
    assert moved["Bytes copied from pageable to device memory"] == (10, 4096.0, "bytes")


@pytest.mark.slow
def test_api_calls_are_rows_of_the_host_and_their_time_is_taken_from_their_caller(gpu):
    profile = gpu.run(
        STEPS + "launch('late', took=20_000_000)\n"
        "def wait():\n    cuda.fake_synchronize(0, 7)\nwait()\n"
    )
    assert host_calls(profile) == {
        "<module> / train / step / launch / cudaLaunchKernel": 10,
        "<module> / train / step / copy / cudaMemcpyAsync": 10,
        "<module> / train / cudaStreamSynchronize": 1,
        "<module> / launch / cudaLaunchKernel": 1,
        "<module> / wait / cudaStreamSynchronize": 1,
    }
    assert set(host_calls(profile, "GPU_SYNC")) == {
        "<module> / train / cudaStreamSynchronize",
        "<module> / wait / cudaStreamSynchronize",
    }
    main = profile.threads[0]
    times = {
        path_of(profile, main, row): (
            main.tree.inclusive["time"][row],
            main.tree.exclusive["time"][row],
        )
        for row in range(len(main.tree))
    }
    waited = times["<module> / wait / cudaStreamSynchronize"][0]
    assert 15_000_000 < waited <= times["<module> / wait"][0]
    assert times["<module> / wait"][1] < waited / 2  # what it did itself is small now
    # Asynchronous GPU time is not the host's: the whole program is not longer for it.
    assert times[""][0] <= profile.duration_ns


NAP_S = 5 if "TAUPY_SANITIZED" in os.environ else 0.5  # the watch comes by, as slow as it is there
WAITS = f"""
import torch.serialization
def wait(took):
    launch("k", took=took)
    cuda.fake_synchronize(0, 7)
def train():
    wait(600_000_000)
init()
train()
torch.serialization.save(lambda: wait(300_000_000))
def nap(): time.sleep({NAP_S})
nap()
"""


def waits(gpu, by):
    done = in_process.taupy("waiting", "--db", gpu.folder / "taupy.db", "--by", by, "--json")
    assert done.returncode == 0, done.stderr
    return {row[by].split(" [")[0]: row for row in json.loads(done.stdout)["rows"]}


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--no-watch",)])
def test_waits_for_the_gpu_stand_beside_what_threads_were_seen_to_do(gpu, options):
    (gpu.folder / "torch").mkdir()
    (gpu.folder / "torch" / "__init__.py").touch()
    (gpu.folder / "torch" / "serialization.py").write_text("def save(save): save()\n")
    gpu.run(WAITS, *options)
    by_routine, by_phase = waits(gpu, "routine"), waits(gpu, "phase")
    assert by_routine["wait"]["gpu_wait_ns"] > 600_000_000
    # A wait is shorter than its kernel by what passes between the two calls.
    assert 40_000_000 < by_phase["checkpoint"]["gpu_wait_ns"] < by_routine["wait"]["gpu_wait_ns"]
    assert sum(row["gpu_wait_ns"] or 0 for row in by_phase.values()) == pytest.approx(
        by_routine["wait"]["gpu_wait_ns"], abs=2
    )
    if options:
        assert {row["looks"] for row in by_routine.values()} == {0}
        assert by_routine["wait"]["sleeping_ns"] is None
    else:
        assert by_routine["nap"]["gpu_wait_ns"] is None and by_routine["nap"]["looks"] > 0


@SLOW
def test_calls_that_only_ask_are_left_out(gpu):
    profile = gpu.run("init()\nlaunch('k')\nfor i in range(5): cuda.fake_get_device()\n")
    assert not [path for path in host_calls(profile) if "cudaGetDevice" in path]


@pytest.mark.slow
def test_a_driver_call_inside_a_runtime_call_is_not_counted_twice(gpu):
    profile = gpu.run(
        "init()\nlaunch('k')\ncuda.fake_driver_launch(text('triton_k'), 0, 7, u64(9), 1, 128)\n"
    )
    assert host_calls(profile) == {
        "<module> / launch / cudaLaunchKernel": 1,
        "<module> / cuLaunchKernel": 1,
    }
    assert work(profile) == {"<module> / launch / k": 1, "<module> / triton_k": 1}


@SLOW
def test_two_devices_and_three_streams_are_contexts_and_threads(gpu):
    gpu.told["FAKE_DEVICES"] = "2"
    profile = gpu.run(
        "init()\n"
        "for i in range(3): launch('a', 0, 7)\n"
        "for i in range(4): launch('a', 0, 13)\n"
        "for i in range(5): launch('b', 1, 7)\n"
    )
    found = {
        place: (one.thread.name, sum(one.tree.calls)) for place, one in streams(profile).items()
    }
    assert found == {
        (0, 1, 0): ("stream 7", 3),
        (0, 1, 1): ("stream 13", 4),
        (0, 2, 0): ("stream 7", 5),
    }
    assert [(d.ordinal, d.name, d.compute_capability) for d in profile.devices] == [
        (0, "Fake H100", "9.0"),
        (1, "Fake H100", "9.0"),
    ]


@pytest.mark.slow
def test_every_node_of_a_graph_counts_under_its_launch(gpu):
    profile = gpu.run(
        "init()\ndef replay():\n"
        "    cuda.fake_graph_launch(text('node'), 5, 0, 7, ctypes.c_uint64(100))\n"
        "replay()\nreplay()\n",
        "--trace",
    )
    assert work(profile) == {"<module> / replay / node": 10}
    assert host_calls(profile) == {"<module> / replay / cudaGraphLaunch": 2}
    (stream,) = streams(profile).values()
    assert sorted(a.graph_node for a in stream.activities) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


BACKWARD = """
import types
graph = types.ModuleType("torch.autograd.graph")
source = '''
def _engine_run_backward(run):
    return run()
'''
exec(compile(source, "/site-packages/torch/autograd/graph.py", "exec"), graph.__dict__)
def loss():
    graph._engine_run_backward(
        lambda: cuda.fake_launch_in_thread(text("grad"), 6, 0, 7, ctypes.c_uint64(50)))
init()
loss()
cuda.fake_launch_in_thread(text("other"), 2, 0, 7, ctypes.c_uint64(50))
"""


@pytest.mark.slow
def test_kernels_of_autograds_threads_hang_under_the_backward_pass(gpu):
    profile = gpu.run(BACKWARD)
    assert work(profile) == {
        "<module> / loss / _engine_run_backward / grad": 6,
        f"{NO_OWNER} / other": 2,
    }
    # The calls are the threads' own: two threads, side by side with the waiting one.
    bare = [thread for thread in profile.threads if thread.thread.name == "native pt_autograd_0"]
    assert [sum(one.tree.calls[1:]) for one in bare] == [6, 2]
    assert all(one.thread.native_id for one in bare)


@pytest.mark.slow
def test_kernels_of_a_pool_hang_under_the_ranges_that_it_pushes(gpu):
    """XLA launches from threads of its own; what it launches for, only its ranges tell."""
    profile = gpu.run(
        "init()\n"
        "def pool(module, n, thread='tf_XLAPjRtGpu'):\n"
        "    cuda.fake_launch_in_pool(text('fusion_1'), text(thread), module, n)\n"
        "for i in range(3): pool(text('XlaModule:#hlo_module=jit_step#'), 4, f'pool/{i}')\n"
        "pool(text('XlaModule:#hlo_module=jit_loss#'), 5)\n"
        "pool(None, 2)\n"
        "for i in range(5000): pool(text(f'module {i}'), 1)\n",
        "--trace",
    )
    found = work(profile)
    step, loss = (f"XlaModule:#hlo_module=jit_{name}#" for name in ("step", "loss"))
    assert found[f"{step} / Thunk:#name=fusion# / fusion_1"] == 12
    assert found[f"{loss} / Thunk:#name=fusion# / fusion_1"] == 5
    assert found[f"{NO_OWNER} / after"] == 4 + 5000
    # Distinct ranges are limited: what is launched in others stands with the outer one.
    others = {path: n for path, n in found.items() if path.startswith("module ")}
    assert len(others) == (4095 - 4 + 1) // 2 and set(others.values()) == {1}
    assert found[f"{NO_OWNER} / fusion_1"] == 2 + 5000 - len(others)
    groups = {timer.name: set(timer.groups) for timer in profile.timers}
    assert groups[step] == {"PHASE", "NVTX"}
    assert groups["Thunk:#name=fusion#"] == {"OPERATOR", "NVTX"}
    assert sum(len(list(stream.activities)) for stream in streams(profile).values()) == 10023


@pytest.mark.slow
def test_ranges_that_xla_pushes_stand_below_the_routine_that_runs_them(gpu):
    """On the caller's thread; and what differs in each run is not in their names."""
    module = "XlaModule:#prefix=jit(step)/a,hlo_module=jit_step"
    profile = gpu.run(
        "init()\n"
        "def run(number):\n"
        f"    name = '{module},program_id=' + str(number) + '#'\n"
        "    cuda.fake_launch_in_range(text('fusion_1'), text(name), 2)\n"
        "def step(number): run(number)\n"
        "def other(number): run(number)\n"
        "for number in range(3): step(number)\n"
        "other(7); launch('alone')\n"
    )
    found = work(profile)
    for caller, calls in (("step", 6), ("other", 2)):
        path = f"<module> / {caller} / run"
        assert found[f"{path} / {module}# / Thunk:#name=fusion# / fusion_1"] == calls
        assert found[f"{path} / after"] == calls / 2
    assert found["<module> / launch / alone"] == 1
    assert sum(found.values()) == 8 + 4 + 1


LOCATIONS = """
- /opt/jax/examples/mnist_vae.py:127[run_epoch]
-- /usr/lib/python3/site-packages/flax/linear.py:41:9[__call__] dot_general
-- /opt/jax/examples/mnist_vae.py:126[&lt;lambda&gt;] add
"""


@pytest.mark.slow
def test_an_operation_of_xla_has_the_line_inside_the_jitted_function(gpu, tmp_path, capsys):
    """In a payload of NVTX's extension; one that is cut short, unknown or empty has none."""
    profile = gpu.run(
        "init()\n"
        "nvtx = ctypes.CDLL('libfakenvtx.so')\n"
        "nvtx.xla_sources.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int\n"
        "def pool(module, source, size=24, other=0):\n"
        "    assert nvtx.xla_sources(source.encode(), size, other)\n"
        "    cuda.fake_launch_in_pool(text('fusion_1'), text('pool'), text(module), 2)\n"
        f"pool('XlaModule:#hlo_module=whole#', {LOCATIONS!r})\n"
        "pool('XlaModule:#hlo_module=plain#', '\\n- step.py:7 mul\\n')\n"
        f"pool('XlaModule:#hlo_module=cut#', {LOCATIONS!r}, 15)\n"
        f"pool('XlaModule:#hlo_module=none#', {LOCATIONS!r}, 0)\n"
        f"pool('XlaModule:#hlo_module=other#', {LOCATIONS!r}, 24, 1)\n"
        "pool('XlaModule:#hlo_module=empty#', '')\n"
        "pool('XlaModule:#hlo_module=odd#', '[error]')\n"
        "pool('XlaModule:#hlo_module=long#', '\\n- ' + 9000 * 'x' + ':1 mul\\n')\n"
    )
    found = work(profile)
    thunk = "Thunk:#name=fusion#"
    for module in ("whole", "plain", "cut", "none", "other", "empty", "odd", "long"):
        assert found[f"XlaModule:#hlo_module={module}# / {thunk} / fusion_1"] == 2
    places = {
        (timer.file, timer.line, timer.path) for timer in profile.timers if timer.name == thunk
    }
    flax = "/usr/lib/python3/site-packages/flax/linear.py"
    assert places == {("flax/linear.py", 41, flax), ("step.py", 7, "step.py"), (None, None, None)}
    path = str(tmp_path / "taupy.db")
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile)
    for command in (["kernels", "--by", "routine"], ["kernel", "fusion_1"]):
        assert main([*command, "--db", path]) == 0
        assert f"{thunk} [{{flax/linear.py}}{{41}}]" in capsys.readouterr().out
    assert main(["kernels", "--by", "operator", "--csv", "--db", path]) == 0
    (row,) = (row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))
              if row["operator"] == thunk)  # fmt: skip
    assert int(row["launches"]) == 16, "one operator, wherever its lines have moved"
    assert main(["report", "--db", path]) == 0
    assert thunk not in capsys.readouterr().out, "it is no routine of the program"


COMPILER = """
import importlib.util, pathlib, sys
file = pathlib.Path("jax/_src/compiler.py")
file.parent.mkdir(parents=True)
file.write_text("def backend_compile_and_load(work): work()\\n")
sys.path.insert(0, ".")
from jax._src.compiler import backend_compile_and_load
"""


@pytest.mark.slow
def test_what_xla_tries_while_jax_compiles_belongs_to_the_compilation(gpu):
    """Autotuning launches from threads without a range; an execution has one, and keeps it."""
    run = "XlaModule:#hlo_module=jit_step,program_id=3#"
    profile = gpu.run(
        COMPILER + "init()\n"
        "def pool(name, module, n):\n"
        "    cuda.fake_launch_in_pool(text(name), text('tf_XLAEigen'), module, n)\n"
        "def compile_it():\n"
        f"    pool('tried', None, 8); pool('run', text('{run}'), 3); pool('odd', text('odd'), 2)\n"
        "def first_call(): backend_compile_and_load(compile_it)\n"
        "first_call()\n"
    )
    found = work(profile)
    place = "<module> / first_call / backend_compile_and_load"
    assert {path: n for path, n in found.items() if path.endswith(("tried", "odd"))} == {
        f"{place} / tried": 8, f"{place} / odd": 2,
    }  # fmt: skip
    assert found["XlaModule:#hlo_module=jit_step# / Thunk:#name=fusion# / run"] == 3


@SLOW
def test_launches_of_many_python_threads_keep_their_own_call_paths(gpu):
    profile = gpu.run(
        "init()\n"
        "def one():\n    for i in range(200): launch('k1', 0, 7)\n"
        "def two():\n    for i in range(300): launch('k2', 0, 8)\n"
        "threads = [threading.Thread(target=f) for f in (one, two) * 3]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\n"
    )
    found = work(profile)
    assert sum(n for path, n in found.items() if path.endswith("one / launch / k1")) == 600
    assert sum(n for path, n in found.items() if path.endswith("two / launch / k2")) == 900
    assert sum(found.values()) == 1500


@pytest.mark.slow
def test_a_launch_that_nobody_saw_is_shown_as_such(gpu):
    profile = gpu.run(
        "init()\nlaunch('seen')\n"
        "cuda.fake_silent_launch(text('unseen'), 0, 7, ctypes.c_uint64(70))\n"
    )
    assert work(profile) == {"<module> / launch / seen": 1, f"{NO_OWNER} / unseen": 1}
    assert "kernels and copies whose launches were not seen: 1" in health(profile, "gpu_lost")


@pytest.mark.slow
def test_kernels_without_times_are_counted_and_reported(gpu):
    profile = gpu.run("init()\nfor i in range(4): launch('k', took=i * 100)\n")
    (stream,) = streams(profile).values()
    (launch,) = stream.launches
    assert (launch.count, launch.untimed, launch.time_ns, launch.minimum_ns) == (4, 1, 600, 100)
    assert "kernels and copies without times, for which the GPU ran out of space: 1" in health(
        profile, "gpu_untimed"
    )


@SLOW
def test_dropped_records_are_reported_and_the_trial_is_incomplete(gpu):
    gpu.told["FAKE_DROP_EVERY"] = "10"
    profile = gpu.run("init()\nfor i in range(100): launch('k')\n")
    (count,) = work(profile).values()
    assert count + int(health(profile, "lost").split()[2]) in (100, 101)  # 1: a device's
    assert count < 100 and profile.state == "incomplete"


VERSIONS = [
    "1206",
    *(pytest.param(version, marks=SLOW) for version in ("1208", "1300", "1301", "1303")),
    "1305",
]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_every_cupti_are_read_across_many_buffers(gpu, version):
    gpu.told |= {"FAKE_CUPTI": version, "FAKE_BUFFER": "4096", "FAKE_DISORDER": "1"}
    profile = gpu.run(
        "init()\ndef f():\n"
        "    for i in range(500):\n        launch('k', took=10); copy(2, i)\n"
        "f()\n"
    )
    assert work(profile) == {
        "<module> / f / launch / k": 500,
        "<module> / f / copy / Memcpy DtoH": 500,
    }
    (stream,) = streams(profile).values()
    moved = next(e for e in stream.user_events if e.name == "Bytes copied from Device to Host")
    assert (moved.count, moved.minimum, moved.maximum, moved.mean) == (500, 0, 499, 249.5)


@pytest.mark.slow
def test_user_events_describe_memory(gpu):
    profile = gpu.run(
        "init()\ndef alloc():\n    cuda.fake_alloc(0, ctypes.c_uint64(1000), 0)\n"
        "alloc(); alloc()\ncuda.fake_alloc(1, ctypes.c_uint64(1000), 0)\nalloc()\nlaunch('k')\n"
        "cuda.fake_migrate(1, ctypes.c_uint64(1)); cuda.fake_managed(0)\n"
        "cuda.fake_migrate(1, ctypes.c_uint64(65536)); cuda.fake_migrate(4, ctypes.c_uint64(3))\n"
    )
    events = {}
    for thread in profile.threads:
        for event in thread.user_events:
            place = path_of(profile, thread, event.row) if event.row else ""
            events[event.name, place] = (event.count, event.mean)
    assert events["GPU memory allocated, device", "<module> / alloc"] == (3, 1000)
    assert events["GPU memory freed, device", "<module>"] == (1, 1000)
    assert events["GPU memory in use, device, peak", ""] == (1, 2000)
    assert events["GPU memory in use, device, at the end", ""] == (1, 2000)
    assert events["Unified memory moved from Host to Device", ""] == (1, 65536)
    assert events["Unified memory page faults of GPUs", ""] == (1, 3)


@pytest.mark.slow
def test_a_trace_keeps_every_activity_with_its_stamps(gpu):
    before = time.time_ns()
    profile = gpu.run(STEPS, "--trace")
    (stream,) = streams(profile).values()
    found = sorted(stream.activities, key=lambda activity: activity.start_ns)
    assert [one.kind for one in found].count("kernel") == 10
    assert [one.bytes for one in found if one.kind == "copy"] == [4096] * 10
    assert all(before < one.start_ns <= one.end_ns < time.time_ns() for one in found)
    assert all(path_of(profile, stream, one.row) for one in found)
    calls = sorted(profile.threads[0].activities, key=lambda activity: activity.start_ns)
    assert [call.kind for call in calls] == ["api"] * 20 + ["sync"]
    assert {one.correlation for one in found} == {call.correlation for call in calls[:20]}


@pytest.mark.slow
def test_a_trace_says_where_the_time_of_the_gpu_went(gpu):
    profile = gpu.run(STEPS, "--trace")
    (stream,) = streams(profile).values()
    spans = sorted((one.start_ns, one.end_ns) for one in stream.activities)
    until, gaps = spans[0][1], 0
    for start, end in spans:
        gaps += max(0, start - until)
        until = max(until, end)
    (time_of_gpu,) = stored(profile.node_metadata).values()
    assert time_of_gpu.span_ns == until - spans[0][0]
    assert time_of_gpu.idle_ns == gpu_times(gpu)[0, 1].idle_ns == gaps
    assert time_of_gpu.host == "calls"
    text = in_process.taupy("kernels", "--db", gpu.folder / "taupy.db", "--activity").stdout
    assert "GPU 0 (Fake H100): of " in text and "between its calls of CUDA is not known" in text


def gpu_times(gpu):
    with ProfileDB.open(gpu.folder / "taupy.db") as db:
        return gpu_query.gpu_times(db, 1)


BY_STEP = """
import taupy
init()
launch("before")
for n in range(3):
    with taupy.step():
        for _ in range(n + 1):
            launch("late", took=30_000_000)
        if n == 1:
            loss()
cuda.fake_synchronize(0, 7)
"""


@pytest.mark.slow
def test_a_kernel_counts_in_the_step_that_launched_it(gpu):
    """Each runs 30 ms, long after its step; those of autograd's thread wait until then as well."""
    gpu.run(BACKWARD.partition("init()")[0] + BY_STEP, "--trace=gpu")
    done = in_process.taupy("kernels", "--db", gpu.folder / "taupy.db", "--by", "step", "--json")
    (view,) = json.loads(done.stdout)
    assert {row["step"]: row["launches"] for row in view["rows"]} == {
        "1": 1, "2": 2 + 6, "3": 3, "(no step)": 1,
    }  # fmt: skip
    assert view["notes"] == ["launches count in the step in which the host called for them"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--trace",), ("--metrics", "bytes_dram")])
def test_what_a_program_did_is_for_its_user_alone_to_read(gpu, options):
    gpu.run(
        "os.umask(0)\ninit()\nlaunch('k'); copy(1, 8)\n"
        "from pathlib import Path\n"
        "for path in Path(os.environ['STATE']).rglob('*.*'):\n"
        "    print(path.suffix, oct(path.stat().st_mode & 0o777))\n",
        *options,
    )
    kept = dict(zip(gpu.printed.split()[::2], gpu.printed.split()[1::2], strict=True))
    assert {".gpu", ".gputrace"} <= set(kept) or ".gpucount" in kept, kept
    assert set(kept.values()) == {"0o600"}


@SLOW
def test_without_a_trace_no_single_activity_is_kept(gpu):
    profile = gpu.run(STEPS)
    assert not any(list(thread.activities) for thread in profile.threads)


NVTX = """
import contextlib
nvtx = ctypes.PyDLL("libfakenvtx.so")  # with the GIL held, as bindings do
def push(name):
    return nvtx.range_push(name.encode())
def pop():
    return nvtx.range_pop()
@contextlib.contextmanager
def scope(name):
    push(name)
    try:
        yield
    finally:
        pop()
def work():
    time.sleep(0.001)
"""


def host_paths(profile: Profile) -> dict[str, int]:
    main = profile.threads[0]
    return {path_of(profile, main, row): main.tree.calls[row] for row in range(len(main.tree))}


@pytest.mark.slow
def test_nvtx_ranges_are_phases_however_deep_in_wrappers_they_begin(gpu):
    profile = gpu.run(
        NVTX + "init()\n"
        "def train():\n"
        "    for i in range(3):\n"
        "        with scope('step'):\n"
        "            work()\n"
        "            with scope('loss'): launch('k')\n"
        "        nvtx.range_push_registered(b'raw'); work(); nvtx.range_pop_registered()\n"
        "    work()\n"
        "train()\n"
        "assert push('left open') == 0\nwork()\n"
    )
    paths = host_paths(profile)
    train = "<module> / train"
    assert paths[f"{train} / step"] == paths[f"{train} / raw"] == 3
    assert paths[f"{train} / step / work"] == paths[f"{train} / raw / work"] == 3
    assert paths[f"{train} / step / loss / launch"] == 3
    assert paths[f"{train} / work"] == 1
    assert paths["<module> / left open / work"] == 1
    assert not [path for path in paths if "push / step" in path or "scope / step" in path]
    assert work(profile) == {f"{train} / step / loss / launch / k": 3}
    groups = {timer.name: set(timer.groups) for timer in profile.timers}
    assert groups["step"] == {"PHASE", "NVTX"}


@SLOW
def test_ranges_that_do_not_match_are_harmless(gpu):
    profile = gpu.run(
        NVTX + "assert pop() == -1\n"
        "for i in range(200): push('deep')\n"
        "for i in range(300): pop()\n"
        "free = ctypes.CDLL('libfakenvtx.so')\n"  # without the GIL: not the engine's
        "free.range_push(b'x'); work(); free.range_pop(); work()\n"
        "def one(): push('t'); work(); pop()\n"
        "threads = [threading.Thread(target=one) for i in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    calls = [
        measured.tree.calls[row]
        for measured in profile.threads
        for row, timer in enumerate(measured.tree.timer)
        if profile.timers[timer].name == "t"
    ]
    assert sum(calls) == 4
    assert "x" not in {timer.name for timer in profile.timers}


RANGES = """
free = ctypes.CDLL("libfakenvtx.so")  # gives the GIL away
nvtx = ctypes.PyDLL("libfakenvtx.so")
for library in (free, nvtx):
    library.range_start.restype = ctypes.c_uint64
def start(name, how=0, library=nvtx):
    return library.range_start(name.encode(), how)
def end(number, how=0, library=nvtx):
    library.range_end(ctypes.c_uint64(number), how)
"""


def user_events(profile: Profile) -> dict[tuple[str, str], object]:
    return {
        (event.name, path_of(profile, measured, event.row) if event.row else ""): event
        for measured in profile.threads
        for event in measured.user_events
    }


@pytest.mark.slow
def test_ranges_that_start_and_end_anywhere_are_user_events_where_they_start(gpu):
    profile = gpu.run(
        RANGES + "def submit(n):\n"
        "    numbers = []\n"
        "    for i in range(n): numbers.append(start('request'))\n"
        "    time.sleep(0.02)\n"
        "    return numbers\n"
        "def finish(numbers):\n"
        "    for number in numbers: end(number)\n"
        "first = submit(2)\n"
        "second = submit(1)\n"  # overlaps the first ones
        "assert len(set(first + second)) == 3 and all(first + second)\n"
        "worker = threading.Thread(target=finish, args=(first,)); worker.start(); worker.join()\n"
        "time.sleep(0.02)\n"
        "finish(second); finish(second); end(0); end(12345)\n"
    )
    found = user_events(profile)
    event = found["NVTX range request", "<module> / submit / start"]
    assert (event.count, event.unit) == (3, "ns")
    assert 38e6 < event.minimum < event.maximum
    between = event.mean * 3 - event.minimum - event.maximum  # the third one
    assert event.minimum - 1 <= between <= event.maximum + 1
    assert not {path for path in host_paths(profile) if "request" in path}
    assert health(profile, "nvtx_open") == ""


@pytest.mark.slow
def test_every_way_to_start_a_range_or_to_set_a_mark_is_seen(gpu):
    profile = gpu.run(
        RANGES + "def ranges(library):\n"
        "    for how in range(4): end(start(f'way {how}', how, library), how, library)\n"
        "def marks(library):\n"
        "    for how in range(4): library.mark(f'at {how}'.encode(), how)\n"
        "def both():\n    for library in (nvtx, free): ranges(library); marks(library)\n"
        "both()\n"
        "thread = threading.Thread(target=both); thread.start(); thread.join()\n"
    )
    counts: dict[str, int] = {}
    for (name, path), event in user_events(profile).items():
        if name.startswith("NVTX"):
            counts[name] = counts.get(name, 0) + event.count
            assert path.endswith(("both / ranges / start", "both / marks")), path
    names = ["way 0", "way 1", "way 2", "caf\u00e9 \U0001f600"]
    assert counts == {
        **{f"NVTX range {name}": 4 for name in names},
        **{f"NVTX mark at {how}": 4 for how in range(4)},
        "NVTX mark at 2, payload": 4,
        "NVTX mark at 3, payload": 4,
    }
    values = {name: (e.minimum, e.maximum, e.unit) for (name, _), e in user_events(profile).items()}
    assert values["NVTX mark at 0"] == (1, 1, "count")
    assert values["NVTX mark at 2, payload"] == (2.5, 2.5, "")
    assert values["NVTX mark at 3, payload"] == (-4, -4, "")


@SLOW
def test_ranges_across_a_fork_and_ranges_that_never_end(gpu):
    profile = gpu.run(
        RANGES + "number = start('parent')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    end(number)\n"  # not the child's
        "    end(start('child'))\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "end(number)\n"
        "start('open'); start('open')\n"
    )
    found = user_events(profile)
    assert found["NVTX range parent", "<module> / start"].count == 1
    assert found["NVTX range child", "<module> / start"].count == 1
    assert not [name for name, _ in found if "open" in name]
    assert "2 NVTX ranges were started and never ended" in health(profile, "nvtx_open.node0")


@SLOW
def test_many_threads_without_the_gil_lose_no_range(gpu):
    profile = gpu.run(
        RANGES + "def many():\n"
        "    for i in range(2000): end(start(f'n{i % 50}', 0, free), 0, free)\n"
        "threads = [threading.Thread(target=many) for i in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "for i in range(5000): end(start(f'name {i}'))\n"
    )
    counts: dict[str, int] = {}
    for event in (event for measured in profile.threads for event in measured.user_events):
        counts[event.name] = counts.get(event.name, 0) + event.count
    assert [counts[f"NVTX range n{number}"] for number in range(50)] == [320] * 50
    assert sum(n for name, n in counts.items() if name.startswith("NVTX")) == 21000
    assert counts["NVTX range (others)"] > 900


SNAPSHOTS = """
import taupy
init()
def train(n):
    for i in range(n): launch('k'); copy(1, 100)
train(3)
taupy.snapshot('warm')
train(4)
taupy.snapshot('done')
launch('late')
"""


def snapshots(gpu: Gpu) -> dict[str, Profile]:
    with ProfileDB.open(str(gpu.folder / "taupy.db"), create=False, readonly=True) as db:
        found = {trial.name: read_profile(db, trial.id) for trial in db.trials()}
    return {name.partition("@")[2]: profile for name, profile in found.items()}


@pytest.mark.slow
def test_a_snapshot_holds_what_the_gpu_had_done_by_then(gpu):
    gpu.run(SNAPSHOTS, "--trace")
    found = snapshots(gpu)
    kernel, moved = "<module> / train / launch / k", "<module> / train / copy / Memcpy HtoD"
    assert work(found["warm"]) == {kernel: 3, moved: 3}
    assert work(found["done"]) == {kernel: 7, moved: 7}
    assert work(found[""]) == {kernel: 7, moved: 7, "<module> / launch / late": 1}
    assert host_calls(found["warm"])["<module> / train / launch / cudaLaunchKernel"] == 3
    for profile in found.values():
        assert check(profile) == []
        assert [device.name for device in profile.devices] == ["Fake H100"]
        assert not [name for name in profile.metadata if name.startswith("taupy.health.")]
    assert not list((gpu.folder / "state").rglob("*.gpucopy"))


@SLOW
def test_snapshots_of_many_threads_and_before_any_gpu_work(gpu):
    gpu.run(
        "import taupy\ntaupy.snapshot('none')\ninit()\ntaupy.snapshot('nothing launched')\n"
        "def many(name):\n"
        "    for i in range(20): launch(name); taupy.snapshot(f'{name} {i}')\n"
        "threads = [threading.Thread(target=many, args=(name,)) for name in 'abc']\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
    )
    found = snapshots(gpu)
    assert len(found) == 63
    assert not work(found["none"]) and not work(found["nothing launched"])
    for name in "abc":
        counts = [
            sum(n for path, n in work(found[f"{name} {i}"]).items() if path.endswith(f"/ {name}"))
            for i in range(20)
        ]
        assert counts == list(range(1, 21))


@SLOW
def test_a_snapshot_without_its_gpu_work_says_so(gpu):
    gpu.told["FAKE_FLUSH_HANGS"] = "1"
    (gpu.folder / "pyproject.toml").write_text("[tool.taupy]\ngpu_end_ms = 1000\n")
    gpu.run("import taupy\ninit()\nlaunch('k')\ntaupy.snapshot('warm')\n")
    warm = snapshots(gpu)["warm"]
    assert not streams(warm)
    assert "GPU work is not in the snapshot 'warm'" in health(warm, "snapshot_gpu")


# --------------------------------------------------------------------- how programs end


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("", 0),
        pytest.param("sys.exit(3)", 3, marks=SLOW),
        ("os._exit(4)", 4),
        pytest.param("raise RuntimeError('x')", 1, marks=SLOW),
        ("ctypes.CDLL(None).exit(5)", 5),
        pytest.param(
            "import threading; threading.Thread(target=os._exit, args=(6,)).start(); time.sleep(9)",
            6,
            marks=SLOW,
        ),
    ],
)
def test_the_last_kernels_are_there_however_the_program_ends(gpu, end, status):
    profile = gpu.run(f"init()\nlaunch('k', took=5_000_000)\nlaunch('k')\n{end}\n", ends=status)
    assert sum(work(profile).values()) == 2
    assert profile.exit_code == status


@SLOW
def test_what_was_flushed_outlives_a_kill(gpu):
    program = subprocess.Popen(
        gpu.command("init()\nfor i in range(100): launch('k')\nprint('up', flush=True)\n"
                    "time.sleep(60)\n"),
        cwd=gpu.folder, env=gpu.environ(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout.readline() == "up\n"
    time.sleep(1.6)
    program.send_signal(signal.SIGKILL)
    program.wait()
    program.stdout.close()
    subprocess.run(
        [sys.executable, "-m", "taupy", "trials", "--db", str(gpu.folder / "taupy.db")],
        env=gpu.environ(), capture_output=True, check=True,
    )  # fmt: skip
    profile = gpu.stored()
    assert profile.state == "incomplete"
    assert work(profile) == {"<module> / launch / k": 100}
    assert host_calls(profile) == {"<module> / launch / cudaLaunchKernel": 100}
    assert not list((gpu.folder / "state").glob("run-*"))


@pytest.mark.slow
def test_a_forked_child_neither_hangs_nor_counts_twice(gpu):
    profile = gpu.run(
        "init()\nfor i in range(10): launch('k')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    for i in range(5): launch('k')\n"  # CUDA in a forked child is an error; no crash
        "    sys.exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "for i in range(10): launch('k')\n"
    )
    assert work(profile) == {"<module> / launch / k": 20}
    assert {stream.thread.node for stream in streams(profile).values()} == {0}


@SLOW
def test_forked_children_that_end_by_exit_do_not_damage_the_trace(gpu):
    """Activities were in a buffer of the C library, which each child's exit flushed again."""
    profile = gpu.run(
        "init()\n"
        "def train(n):\n    for i in range(n): launch('k', took=10)\n"
        "train(2000)\n"
        "for i in range(3):\n"
        "    time.sleep(1.2)\n"  # the records so far are read meanwhile
        "    if os.fork() == 0: sys.exit(0)\n"
        "    os.wait()\n"
        "    train(1167)\n",
        "--trace",
    )
    (stream,) = streams(profile).values()
    assert sum(stream.tree.calls) == 5501
    assert len(list(stream.activities)) == 5501
    assert not [name for name in profile.metadata if name.startswith("taupy.health.gpu")]


@SLOW
def test_a_call_that_only_asks_and_loads_a_module_has_its_place(gpu):
    profile = gpu.run("init()\ndef ask(): cuda.fake_lazy_load(u64(100), 0)\nask()\n")
    assert work(profile) == {"<module> / ask / Memcpy HtoD": 1}
    assert not host_calls(profile) and health(profile, "gpu_lost") == ""


@SLOW
def test_errors_reported_by_cupti_are_in_the_trial(gpu):
    profile = gpu.run(
        "init()\nfor i in range(3): launch('k')\n"
        "ctypes.CDLL('libcupti.so.13').fake_state(2, 25, b'a buffer overflowed')\n"
    )
    assert "error (25: a buffer overflowed)" in health(profile, "gpu_states")
    assert sum(work(profile).values()) == 3


LOADS = (
    "cupti = ctypes.CDLL('libcupti.so.13')\n"
    "def load(content): cupti.fake_module(content, ctypes.c_size_t(len(content)))\n"
)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@SLOW
def test_a_trial_lists_the_modules_that_it_loaded(gpu):
    profile = gpu.run(
        f"init()\n{LOADS}load(b'first' * 1000)\nload(b'second')\nload(b'first' * 1000)\n"
        "load(b'x' * (4 << 20))\nload(b'y' * (5 << 20))\nlaunch('k')\n"
    )
    assert "GPU Modules" not in profile.metadata and not list(gpu.folder.rglob("*.cubin"))
    listed = {(module.sha256, module.bytes, module.loads) for module in profile.modules}
    assert listed == {
        (sha256(b"first" * 1000), 5000, 2),
        (sha256(b"second"), 6, 1),
        (sha256(b"x" * (4 << 20)), 4 << 20, 1),
        (None, 5 << 20, 1),  # the program does not wait for larger ones
    }
    assert not any(module.kept for module in profile.modules)
    begun = profile.started_at * 1e9
    times = [module.loaded_ns for module in profile.modules]
    assert all(begun - 1e9 < time < begun + profile.duration_ns + 1e9 for time in times)


@SLOW
def test_a_load_does_not_wait_for_the_hash_of_its_module(gpu):
    """Another thread computes it. Its time is at least that of OpenSSL, which is faster."""
    profile = gpu.run(
        f"import hashlib, time\ninit()\n{LOADS}"
        "contents = [bytes([i]) * (4 << 20) for i in range(20)]\n"
        "def others(): return time.process_time() - time.thread_time()\n"
        "begun = time.thread_time()\n"
        "for content in contents: hashlib.sha256(content)\n"
        "hashed, before, last = time.thread_time() - begun, others(), time.monotonic() + 60\n"
        "for content in contents: load(content)\nlaunch('k')\n"
        "while others() - before < hashed / 2 and time.monotonic() < last: time.sleep(0.02)\n"
        "assert others() - before >= hashed / 2, (others() - before, hashed)\n"
    )
    assert len({module.sha256 for module in profile.modules} - {None}) == 20


@SLOW
def test_modules_are_kept_on_request_each_content_once(gpu):
    kept = gpu.folder / "kept"
    profile = gpu.run(
        f"init()\n{LOADS}load(b'first' * 1000)\nload(b'second')\nload(b'first' * 1000)\n"
        "launch('k')\n",
        "--keep-modules", str(kept),
    )  # fmt: skip
    contents = sorted(path.read_bytes() for path in kept.iterdir())
    assert contents == [b"first" * 1000, b"second"]
    assert all(path.name == sha256(path.read_bytes()) + ".cubin" for path in kept.iterdir())
    assert {module.sha256: module.kept for module in profile.modules} == {
        sha256(b"first" * 1000): True,
        sha256(b"second"): True,
    }
    assert profile.metadata["GPU Modules"] == str(kept)
    assert health(profile, "gpu_modules") == "" and sum(work(profile).values()) == 1


@SLOW
def test_modules_beyond_the_limit_are_left_out_and_counted(gpu):
    kept = gpu.folder / "kept"
    profile = gpu.run(
        f"init()\n{LOADS}load(b'x' * 1000000)\nload(b'y' * 1000000)\nload(b'z')\nlaunch('k')\n",
        "--keep-modules", str(kept), "--modules-limit", "1",
    )  # fmt: skip
    assert sorted(path.stat().st_size for path in kept.iterdir()) == [1, 1000000]
    assert "1 beyond the limit, 0 not written, 0 not listed" in health(profile, "gpu_modules")
    sizes = {(module.bytes, module.kept) for module in profile.modules if module.sha256}
    assert sizes == {(1, True), (1000000, True), (1000000, False)}


@SLOW
def test_a_cupti_that_gives_up_is_the_reason_why_there_is_no_record(gpu):
    profile = gpu.run(
        "init()\nctypes.CDLL('libcupti.so.13').fake_state(1, 999, b'out of device memory')\n"
        "for i in range(3): launch('k')\n"
    )
    assert not work(profile)
    assert "fatal error (999: out of device memory)" in health(profile, "gpu_states")


@SLOW
def test_a_cupti_that_crashes_when_it_is_flushed_is_flushed_at_the_end_only(gpu):
    gpu.told["FAKE_API"] = "130000"
    profile = gpu.run(
        "init()\nlaunch('k')\ntime.sleep(2.5)\n"
        "print(ctypes.CDLL('libcupti.so.13').fake_flushes())\n"
    )
    assert gpu.printed == "0\n" and sum(work(profile).values()) == 1
    assert "13.0.85" in health(profile, "gpu_early_cupti")


@SLOW
def test_a_snapshot_does_not_flush_a_cupti_that_crashes_and_says_what_is_missing(gpu):
    gpu.told["FAKE_API"] = "130000"
    gpu.run(
        "import taupy\ninit()\nlaunch('k')\ntaupy.snapshot('warm')\n"
        "print(ctypes.CDLL('libcupti.so.13').fake_flushes())\n"
    )
    found = snapshots(gpu)
    assert gpu.printed == "0\n" and sum(work(found[""]).values()) == 1
    assert "13.0 before its update 1" in health(found["warm"], "snapshot_gpu")


@SLOW
@pytest.mark.parametrize("by_the_driver", [0, 1])
def test_a_launch_that_is_refused_is_a_call_without_a_kernel(gpu, by_the_driver):
    profile = gpu.run(
        f"init()\ndef refused(): return cuda.fake_refused_launch(text('k'), 0, {by_the_driver})\n"
        "for _ in range(3): assert refused() == 9\nlaunch('k')\n"
    )
    assert work(profile) == {"<module> / launch / k": 1}
    assert host_calls(profile) == {
        "<module> / refused / cudaLaunchKernel": 3, "<module> / launch / cudaLaunchKernel": 1
    }  # fmt: skip
    assert not [name for name in profile.metadata if name.startswith("taupy.health.")]


@SLOW
def test_a_program_with_only_refused_launches_has_no_health_note(gpu):
    profile = gpu.run("init()\nfor _ in range(3): cuda.fake_refused_launch(text('k'), 0, 0)\n")
    assert not work(profile)
    assert not [name for name in profile.metadata if name.startswith("taupy.health.")]


@SLOW
@pytest.mark.parametrize("left", [0, 1 << 20])
def test_a_limit_on_the_size_of_files_shortens_a_trace_and_the_program_goes_on(gpu, left):
    profile = gpu.run(
        "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\ninit()\n"
        "for i in range(4000): launch('k')\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({left}, -1))\n"
        "for i in range(36000): launch('k')\nprint('ran')\n",
        "--trace",
    )
    assert gpu.printed == "ran\n"
    assert sum(work(profile).values()) == 40_000
    # Of each launch a kernel and two calls of the API, 40 bytes each; some before there is a limit.
    written = 3 * 40_000 - int(re.search(r"not be written: (\d+)", health(profile, "lost"))[1])
    assert bool(left) * 20_000 <= written <= max(3 * 4000, left // 40)
    (stream,) = streams(profile).values()
    assert len(list(stream.activities)) <= written


@SLOW
def test_less_than_a_second_to_end_in_is_not_none(gpu):
    (gpu.folder / "pyproject.toml").write_text("[tool.taupy]\ngpu_end_ms = 900\n")
    profile = gpu.run("init()\nlaunch('k', took=100_000_000)\n")
    assert sum(work(profile).values()) == 1 and health(profile, "gpu_flush") == ""


@SLOW
def test_a_kernel_without_a_name_is_counted_as_such(gpu):
    profile = gpu.run("init()\ncuda.fake_nameless_launch(0, 7, u64(9))\n")
    assert work(profile) == {"<module> / (unnamed kernel)": 1}


@SLOW
def test_children_that_use_the_gpu_first_are_nodes_with_streams(gpu):
    profile = gpu.run(
        "import multiprocessing as mp\n"
        "def child(n):\n    init()\n    for i in range(n): launch('k')\n"
        "def workers(method, n):\n"
        "    p = mp.get_context(method).Process(target=child, args=(n,)); p.start(); p.join()\n"
        "    assert p.exitcode == 0\n"
        "if __name__ == '__main__':\n"
        "    workers('fork', 3); workers('spawn', 4)\n"
    )
    counts = {place[0]: sum(one.tree.calls) for place, one in streams(profile).items()}
    assert sorted(counts.values()) == [3, 4]
    assert 0 not in counts


@SLOW
def test_a_program_that_replaces_itself_keeps_both_images(gpu):
    profile = gpu.run(
        "init()\n"
        "for i in range(3): launch('k')\n"
        "if len(sys.argv) < 2:\n"
        "    os.execv(sys.executable, [sys.executable, 'prog.py', 'again'])\n"
    )
    assert sum(work(profile).values()) == 6


@pytest.mark.slow
def test_the_program_does_not_see_the_collector(gpu):
    gpu.run(
        "import subprocess\n"
        "init(); launch('k')\n"
        "print([n for n in os.environ if 'NVTX' in n or 'CUDA' in n or 'TAUPY_B' in n])\n"
        "print([n for n in sys.modules if n.startswith('taupy')], threading.active_count())\n"
        "child = 'import os; print([n for n in os.environ if \"CUDA\" in n])'\n"
        "for command in ([sys.executable, '-I', '-c', child], ['env']):\n"
        "    out = subprocess.run(command, capture_output=True, text=True).stdout\n"
        "    print('CUDA_INJECTION' in out)\n"
        "sys.stdout.flush(); os.system('env | grep -c CUDA_INJECTION')\n"
    )
    assert gpu.printed.split() == ["[]", "[]", "1", "False", "False", "0"]


@SLOW
def test_asking_for_devices_starts_no_thread(gpu):
    gpu.run(
        "def threads(): return set(os.listdir('/proc/self/task'))\n"
        # Before: a sanitizer has a thread of its own as soon as there are threads.
        "one = threading.Thread(target=int); one.start(); one.join()\n"
        "before = threads()\ninit()\nn = ctypes.c_int(); cuda.cuDeviceGetCount(ctypes.byref(n))\n"
        "print(len(threads() - before), n.value)\n"
    )
    assert gpu.printed == "1 1\n"  # the fake CUPTI's own


@SLOW
def test_a_tool_that_the_program_names_itself_stays_named(gpu):
    gpu.told["CUDA_INJECTION64_PATH"] = "/nowhere/libother.so"
    gpu.told["FAKE_NO_INJECTION"] = "1"
    profile = gpu.run(
        "print(os.environ['CUDA_INJECTION64_PATH'])\n"
        "init()\nlaunch('k')\n"
        # It looks some times a second, at new call paths.
        "import time\ntime.sleep(0.3)\nimport fractions, tomllib\nlaunch('k')\n"
    )
    assert gpu.printed == "/nowhere/libother.so\n"
    # The engine notices the driver at the next new call path all the same.
    assert sum(work(profile).values()) >= 1


@SLOW
def test_a_driver_that_loads_no_collector_is_noticed_at_a_new_call_path(gpu):
    gpu.told["FAKE_NO_INJECTION"] = "1"
    profile = gpu.run(
        "init()\ntime.sleep(0.3)\ndef train():\n    for i in range(10): launch('k')\ntrain()\n"
    )
    assert work(profile) == {"<module> / train / launch / k": 10}


# --------------------------------------------------------------------- what goes wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"FAKE_SUBSCRIBE": "39"}, "another CUPTI client is active"),
        pytest.param({"FAKE_SUBSCRIBE": "999"}, "CUPTI failed without a reason", marks=SLOW),
        ({"FAKE_ENABLE": "35"}, "NVreg_RestrictProfilingToAdminUsers=0"),
        pytest.param({"FAKE_ENABLE": "43"}, "a MIG instance", marks=SLOW),
        ({"TAUPY_CUPTI": "/nowhere/libcupti.so.13", "FAKE_DRIVER": "11080"}, "is for CUDA 13"),
    ],
)
def test_a_capture_that_cannot_begin_says_why_and_the_cpu_profile_is_kept(gpu, told, says):
    gpu.told |= told
    profile = gpu.run("init()\nlaunch('k')\n")
    assert "GPU work was not recorded" in health(profile, "gpu")
    assert says in health(profile, "gpu")
    assert says in gpu.said
    assert not streams(profile)
    assert "launch" in {timer.name for timer in profile.timers}


@SLOW
def test_a_collector_that_cannot_be_loaded_is_no_missed_driver():
    said = gpu_verdict.verdict("auto", [], {"", "cannot allocate memory in static TLS block"})
    assert "could not be loaded (cannot allocate memory in static TLS block)" in said
    assert gpu_verdict.verdict("auto", [], {""}) is None


@SLOW
def test_a_program_with_its_own_profiler_gets_a_note_that_cupti_is_exclusive(gpu):
    folder = gpu.folder / "torch" / "autograd"
    folder.mkdir(parents=True)
    (folder / "profiler.py").write_text(REFUSED_PROFILER)
    source = "from torch.autograd.profiler import profile\ninit()\n"
    profile = gpu.run(source + "with profile():\n    launch('k')\n")
    assert "torch.profiler" in health(profile, "gpu_shared") and "--no-gpu" in gpu.said
    assert health(gpu.run(source + "launch('k')\n"), "gpu_shared") == ""


PROFILER = """
import ctypes
cupti = ctypes.CDLL("libcupti.so.13")
class profile:
    def _prepare_trace(self):
        cupti.fake_other_client()
    def __enter__(self):
        self._prepare_trace()
    def __exit__(self, *_):
        print(cupti.fake_other_client_ends())
"""
"""torch.profiler, as far as CUPTI sees it: it takes the records, and disables their kinds."""

REFUSED_PROFILER = """
class profile:
    def _prepare_trace(self): pass
    def __enter__(self): self._prepare_trace()
    def __exit__(self, *_): pass
"""
"""One whose subscription CUPTI refuses, since there is ours."""


@SLOW
def test_torch_profiler_gets_its_records_and_all_others_are_ours(gpu):
    """After its end no kernel was recorded: it had our buffers' place, and disabled our kinds."""
    (gpu.folder / "torch" / "autograd").mkdir(parents=True)
    (gpu.folder / "torch" / "autograd" / "profiler.py").write_text(PROFILER)
    profile = gpu.run(
        "init(); cuda.fake_launch(text('first'), 0, 7, u64(10), 8, 128)\n"
        "from torch.autograd.profiler import profile\n"
        "def train(n):\n    for i in range(n): launch('k', took=10)\n"
        "train(300)\n"
        "with profile(): train(400)\n"
        "train(500)\n"
        "with profile(): train(60); copy(1, 8)\n"
        "train(7); copy(1, 8)\n"
    )
    assert gpu.printed.split() == ["400", "461"]
    assert "unknown buffer" not in gpu.said
    assert work(profile) == {
        "<module> / first": 1,
        "<module> / train / launch / k": 807,
        "<module> / copy / Memcpy HtoD": 1,
    }
    assert host_calls(profile)["<module> / train / launch / cudaLaunchKernel"] == 1267
    assert "the records of 461 of 1270 launches" in health(profile, "gpu_lent")
    assert "gpu_taken" not in profile.metadata and health(profile, "gpu_shared") == ""


@SLOW
def test_a_program_that_ends_in_torch_profiler_says_what_that_took(gpu):
    (gpu.folder / "torch" / "autograd").mkdir(parents=True)
    (gpu.folder / "torch" / "autograd" / "profiler.py").write_text(PROFILER)
    profile = gpu.run(
        "from torch.autograd.profiler import profile\ninit()\nlaunch('k')\nopen_one = profile()\n"
        "open_one.__enter__()\nlaunch('k'); launch('k')\n"
    )
    assert work(profile) == {"<module> / launch / k": 1}
    assert "the records of 2 of 3 launches" in health(profile, "gpu_lent")


@SLOW
def test_a_profiler_that_takes_nothing_does_not_make_us_register_again(gpu):
    """As torch.profiler whose subscription CUPTI refuses; a registration may damage a record."""
    (gpu.folder / "torch" / "autograd").mkdir(parents=True)
    (gpu.folder / "torch" / "autograd" / "profiler.py").write_text(REFUSED_PROFILER)
    profile = gpu.run(
        "from torch.autograd.profiler import profile\ninit()\nlaunch('k')\n"
        "with profile():\n    for i in range(3): launch('k')\n"
        "time.sleep(0.1)\nlaunch('k')\n"
        "print(ctypes.CDLL('libcupti.so.13').fake_registrations())\n"
    )
    assert gpu.printed.split()[-1] == "1"
    assert work(profile) == {"<module> / launch / k": 5}


@pytest.mark.slow
def test_the_work_of_a_context_that_is_destroyed_is_there(gpu):
    """CUPTI forgets what it has not delivered by then."""
    profile = gpu.run(
        "init()\nfor i in range(50): launch('k')\ncuda.fake_context_ends(0)\n"
        "for i in range(30): launch('k')\n"
    )
    assert work(profile) == {"<module> / launch / k": 80}
    assert not [name for name in profile.metadata if name.startswith("taupy.health.gpu")]


@pytest.mark.slow
def test_records_that_never_came_are_counted_against_launches(gpu):
    gpu.told |= {"FAKE_DROP_EVERY": "40", "FAKE_DROP_SILENTLY": "1"}
    profile = gpu.run("init()\nfor i in range(500): launch('k')\n")
    (recorded,) = work(profile).values()
    assert 0 < recorded < 500
    expected = f"no record of {500 - recorded} of 500 kernel launches"
    assert expected in health(profile, "gpu_records") and expected in gpu.said


@SLOW
def test_launches_that_are_captured_are_not_missed(gpu):
    profile = gpu.run(
        "init()\nlaunch('k')\ncuda.fake_capture_begins(9, 0)\n"
        "for i in range(5): launch('node', stream=9)\ncuda.fake_capture_ends(9)\n"
        "cuda.fake_graph_launch(text('node'), 5, 0, 9, u64(10))\nlaunch('k')\n"
    )
    assert work(profile) == {"<module> / launch / k": 2, "<module> / node": 5}
    assert health(profile, "gpu_records") == ""
    profile = gpu.run("init()\ncuda.fake_capture_begins(9, 1)\nlaunch('k')\n")
    assert work(profile) == {"<module> / launch / k": 1}


@SLOW
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="torch.profiler's clock is x86's")
def test_times_by_the_clock_of_torch_profiler_are_nanoseconds(gpu):
    profile = gpu.run(
        "init()\nctypes.CDLL('libcupti.so.13').fake_other_clock()\n"
        "for i in range(10): launch('k', took=100000)\n",
        "--trace",
    )
    (stream,) = streams(profile).values()
    (launched,) = stream.launches
    assert launched.count == 10 and launched.untimed == 0
    assert abs(launched.time_ns - 1_000_000) < 20_000
    starts = [activity.start_ns for activity in stream.activities]
    assert len(starts) == 10 and all(abs(start / 1e9 - time.time()) < 300 for start in starts)
    assert health(profile, "gpu_clock").endswith("converted to nanoseconds: 10")


@SLOW
def test_a_buffer_of_another_client_is_left_alone(gpu):
    gpu.told["FAKE_FOREIGN"] = "1"
    assert work(gpu.run("init()\nlaunch('k')\n")) == {"<module> / launch / k": 1}
    assert health(gpu.stored(), "lost") == ""


@SLOW
def test_a_call_that_cupti_does_not_report_loses_only_that_call(gpu):
    gpu.told["FAKE_REFUSED_CALL"] = "cudaMalloc_v3020"
    profile = gpu.run("init()\ncuda.fake_alloc(0, ctypes.c_uint64(1000), 0)\nlaunch('k')\n")
    assert work(profile) == {"<module> / launch / k": 1}
    assert set(host_calls(profile)) == {"<module> / launch / cudaLaunchKernel"}
    assert "cudaMalloc_v3020: 1" in health(profile, "gpu_callbacks")


@SLOW
def test_unified_memory_that_cannot_be_watched_is_reported_where_there_is_some(gpu):
    gpu.told["FAKE_UNIFIED"] = "27"
    profile = gpu.run("init()\nlaunch('k')\n")
    assert health(profile, "gpu_kinds") == ""
    profile = gpu.run("init()\ncuda.fake_managed(0)\nlaunch('k')\n")
    assert "unified memory: 27" in health(profile, "gpu_kinds")
    assert work(profile) == {"<module> / launch / k": 1}


@SLOW
def test_another_client_that_takes_the_records_is_noticed(gpu):
    profile = gpu.run(
        "init()\nfor i in range(500): launch('k')\ntime.sleep(2.5)\n"
        "ctypes.CDLL('libcupti.so.13').fake_other_client()\n"
        "for i in range(400): launch('k')\n"
    )
    assert work(profile) == {"<module> / launch / k": 500}
    assert "no records arrived after the first 500 of 900 launches" in health(profile, "gpu_taken")


@SLOW
@pytest.mark.parametrize(
    "options",
    [
        ("--c-calls", "--cpu-time", "--compensate"),
        pytest.param(("--depth", "2", "--fold-libraries"), marks=SLOW),
        pytest.param(("--exclude", "name:launch", "--throttle"), marks=SLOW),
    ],
)
def test_whatever_is_recorded_of_the_host_the_gpus_work_is_whole(gpu, options):
    profile = gpu.run(STEPS, *options)
    found = work(profile)
    assert sum(found.values()) == 20
    assert sum(n for path, n in found.items() if path.startswith("<module> / train")) == 20
    assert sum(host_calls(profile).values()) == 21


@SLOW
def test_asking_for_a_gpu_that_is_never_used_is_an_error_line(gpu):
    profile = gpu.run("init()\n", "--gpu", ends=1)
    assert "launched nothing" in health(profile, "gpu")
    assert profile.exit_code == 0  # the program's own
    (gpu.folder / "plain").mkdir()
    plain = Gpu(gpu.folder / "plain", gpu.libraries)
    done = subprocess.run(
        [sys.executable, "-m", "taupy", "run", "--gpu", "-c", "pass"],
        cwd=plain.folder, env=plain.environ(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "never loaded the CUDA driver" in done.stderr
    assert "this run ends with exit code 1" in done.stderr


IN_A_CHILD = "import subprocess\nsubprocess.run([sys.executable, '-c', {!r}], check=True)\n"


@pytest.mark.parametrize(
    ("program", "ends"),
    [
        ("import atexit; atexit.register(print, 'ends', end='')\n", 1),
        pytest.param("import atexit; atexit.register(os._exit, 0)\n", 1, marks=SLOW),
        pytest.param("print('ends', end='', flush=True); os._exit(0)\n", 1, marks=SLOW),
        pytest.param("threading.Thread(target=os._exit, args=(256,)).start()\n", 1, marks=SLOW),
        pytest.param("os._exit(5)\n", 5, marks=SLOW),
        pytest.param("sys.exit()\n", 1, marks=SLOW),
        pytest.param(
            "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n", 1, marks=SLOW
        ),
        pytest.param("sys.exit(3)\n", 3, marks=SLOW),
        pytest.param("raise ValueError\n", 1, marks=SLOW),
        pytest.param("import signal; os.kill(os.getpid(), signal.SIGTERM)\n", -15, marks=SLOW),
        pytest.param(IN_A_CHILD.format("import os; os._exit(0)"), 1, marks=SLOW),
        pytest.param("if os.fork() == 0: os._exit(0)\nos.wait()\n", 1, marks=SLOW),
        pytest.param("cuda.fake_launch\n", 1, marks=SLOW),
    ],
)
def test_a_run_without_the_work_that_it_requires_fails_and_is_kept(gpu, program, ends):
    profile = gpu.run(program, "--gpu", ends=ends)
    assert profile.threads and profile.state == "complete"
    assert ("this run ends with exit code 1" in gpu.said) == (profile.exit_code == 0)
    gpu.run(program, ends=0 if profile.exit_code == 0 else ends)  # without `--gpu`
    if "'ends'" in program:
        assert gpu.printed == "ends"


@SLOW
@pytest.mark.parametrize("ends", [0, 3])
@pytest.mark.parametrize(
    "program", [STEPS, IN_A_CHILD.format(PRELUDE + STEPS)], ids=["itself", "a child"]
)
def test_a_run_with_the_work_that_it_requires_ends_as_its_program(gpu, program, ends):
    profile = gpu.run(f"{program}os._exit({ends})\n", "--gpu", ends=ends)
    assert sum(work(profile).values()) == 20
    assert "error" not in gpu.said


@SLOW
def test_children_that_run_on_may_still_bring_the_work(gpu):
    """Nobody knows yet whether they will."""
    waits = "import os, time\nwhile not os.path.exists('end'): time.sleep(0.05)\n"
    null = ", ".join(f"{name}=subprocess.DEVNULL" for name in ("stdin", "stdout", "stderr"))
    source = f"import subprocess\nsubprocess.Popen([sys.executable, '-c', {waits!r}], {null})\n"
    try:
        gpu.run(source, "--gpu")
    finally:
        (gpu.folder / "end").touch()
    assert "still running" in gpu.said and "error" not in gpu.said


@SLOW
@pytest.mark.parametrize(
    "more", [(sys.executable, "-S", "prog.py"), ("--engine", "python", "prog.py")]
)
def test_what_cannot_be_measured_is_not_run_if_it_is_required(tmp_path, more):
    (tmp_path / "prog.py").write_text("print('ran')\n")
    command = [sys.executable, "-m", "taupy", "run", "--gpu", *more]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and not done.stdout
    assert "the program was not run" in done.stderr


@SLOW
def test_a_driver_without_a_device_is_no_reason_to_speak(gpu):
    gpu.told["FAKE_NO_DEVICE"] = "1"
    profile = gpu.run("assert cuda.cuInit(0) == 100\n")
    assert health(profile, "gpu") == ""
    assert "not" not in gpu.said


@SLOW
def test_no_gpu_leaves_the_driver_alone(gpu):
    profile = gpu.run("init()\nlaunch('k')\n", "--no-gpu")
    assert not streams(profile)
    assert health(profile, "gpu") == ""


@SLOW
def test_a_gpu_that_never_finishes_does_not_hold_the_program_for_ever(gpu):
    gpu.told["FAKE_FLUSH_HANGS"] = "1"
    (gpu.folder / "pyproject.toml").write_text("[tool.taupy]\ngpu_end_ms = 2000\n")
    profile = gpu.run("init()\nlaunch('k')\n")
    assert "did not finish" in health(profile, "gpu_flush")
