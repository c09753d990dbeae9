"""`taupy run --cupti-backend python`: cupti-python in place of the native collector.

Where NVIDIA's package is installed, the same programs run with both collectors, on the driver
and the CUPTI of our own making, and must give the same kernels, times and call paths; its enums
are held against our constants. That its objects hold CUPTI's records as CUPTI writes them, these
trials show.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taupy.collectors import cupti_errors, cupti_python_check, gpu_layout
from taupy.commands import doctor_gpu
from taupy.model.profile import Profile
from taupy.record import gpu_profile, gpu_verdict, gpu_work
from taupy.record.gpu_part import read_gpu_part
from tests.fake_gpu import build, missing
from tests.gpu_parts import PartWriter
from tests.unit.collectors.test_cupti_live import (
    BACKWARD,
    NVTX,
    SNAPSHOTS,
    STEPS,
    Gpu,
    health,
    path_of,
    snapshots,
)

SLOW = pytest.mark.slow
NATIVE = Path(gpu_layout.__file__).parent.parent / "_native"

installed = pytest.mark.skipif(
    bool(cupti_python_check.problem()), reason=cupti_python_check.problem() or "installed"
)


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := missing():
        pytest.skip(reason)
    # As in a wheel: some versions of cupti-python look for CUPTI there and nowhere else.
    folder = tmp_path_factory.mktemp("fake_gpu") / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    return build(folder)


def on_fakes(folder: Path, fakes: Path, told: dict[str, str] | None = None) -> Gpu:
    paths = [str(fakes.parents[2]), os.environ.get("PYTHONPATH", "")]  # of `make cupti-python`
    return Gpu(folder, fakes, {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **(told or {})})


# --------------------------------------------------------------------- both, side by side


def picture(profile: Profile) -> dict[str, Any]:
    """All that a trial says of CUDA, without what differs from run to run."""
    own = [timer for timer in profile.timers if "TAUPY" in timer.groups]
    seen: dict[str, Any] = {"devices": profile.devices, "calls": {}, "host": {}}
    for thread in profile.threads:
        line = thread.thread
        where = f"{line.context}.{line.thread} {line.kind} {line.name}"
        seen[where, "launches"] = sorted(
            (path_of(profile, thread, launch.row), repr(replace(launch, row=0)))
            for launch in thread.launches
        )
        seen[where, "events"] = sorted(
            (event.name, event.count, event.minimum, event.maximum, event.mean)
            for event in thread.user_events
            if "GPU" in event.name or "Bytes" in event.name or "Unified" in event.name
        )
        seen[where, "activities"] = sorted(
            (activity.kind, activity.bytes or 0, path_of(profile, thread, activity.row))
            for activity in thread.activities
        )
        for row, timer in enumerate(thread.tree.timer):
            place = f"{where}: {path_of(profile, thread, row)}"
            if "CUDA_API" in profile.timers[timer].groups:
                seen["calls"][place] = thread.tree.calls[row]
            elif thread.thread.kind == "host" and profile.timers[timer] not in own:
                seen["host"][place] = thread.tree.calls[row]
    return seen


def outside(seen: dict[str, Any]) -> dict[str, Any]:
    """Without what depends on what has been imported: imports and their caches, and routines at
    the interpreter's end, where imported modules clean up."""
    host = {
        place: n
        for place, n in seen["host"].items()
        if ": <module>" in place and "_find_and_load" not in place
    }
    return {**seen, "host": host}


def run_with(backend: str, folder: Path, fakes: Path, source: str, *options: str) -> Gpu:
    gpu = on_fakes(folder / backend, fakes)
    gpu.folder.mkdir()
    gpu.profile = gpu.run(source, "--cupti-backend", backend, *options)  # type: ignore[attr-defined]
    return gpu


MEMORY = """
init()
def alloc():
    cuda.fake_alloc(0, ctypes.c_uint64(1000), 0)
alloc(); alloc()
cuda.fake_alloc(1, ctypes.c_uint64(1000), 0)
alloc()
copy(2, 300); copy(8, 100)
cuda.fake_memset(ctypes.c_uint64(64), 0, 7, ctypes.c_uint64(30))
cuda.fake_migrate(1, ctypes.c_uint64(65536)); cuda.fake_migrate(4, ctypes.c_uint64(3))
cuda.fake_silent_launch(text('unseen'), 0, 7, ctypes.c_uint64(70))
launch('no time', took=0)
def replay():
    cuda.fake_graph_launch(text('node'), 5, 0, 9, ctypes.c_uint64(100))
replay(); replay()
"""
THREADS = """
init()
def one():
    for i in range(50): launch('k1', 0, 7)
def two():
    for i in range(70): launch('k2', 0, 8)
for f in (one, two):
    t = threading.Thread(target=f); t.start(); t.join()
"""


@installed
@pytest.mark.parametrize(
    ("source", "options"),
    [
        pytest.param(STEPS, ("--trace",), id="steps"),
        pytest.param(MEMORY, (), id="memory"),
        pytest.param(BACKWARD, (), id="backward", marks=SLOW),
        pytest.param(STEPS, ("--c-calls", "--cpu-time"), id="c-calls", marks=SLOW),
        pytest.param(THREADS, (), id="threads", marks=SLOW),
        pytest.param(
            NVTX + "init()\nwith scope('step'):\n    launch('k')\nos._exit(0)\n",
            (),
            id="nvtx",
            marks=SLOW,
        ),
    ],
)
def test_both_backends_give_the_same_trial(tmp_path, fakes, source, options):
    native = run_with("native", tmp_path, fakes, source, *options)
    python = run_with("python", tmp_path, fakes, source, *options)
    assert outside(picture(python.profile)) == outside(picture(native.profile))
    assert any(name[-1] == "launches" and found for name, found in picture(native.profile).items())
    assert "debugging aid: slower" in health(python.profile, "gpu_backend")
    assert "imported into the program" in python.said
    assert "cupti-python" in python.profile.metadata["taupy.option.cupti_backend"]
    assert health(native.profile, "gpu_backend") == ""
    for gpu in (native, python):
        facts = gpu.profile.node_metadata[0]
        assert facts["CUPTI Library"] == str(fakes / "libcupti.so.13")


@installed
def test_a_signal_handlers_exception_reaches_the_program_and_no_call_is_lost(tmp_path, fakes):
    gpu = run_with(
        "python",
        tmp_path,
        fakes,
        "import signal\ninit()\nn = 0\nraised = []\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "for i in range(100):\n"
        "    try:\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0.0005)\n"
        "        for j in range(1000): launch('k')\n"
        "        time.sleep(1)\n"
        "    except BaseException as problem: raised.append(type(problem).__name__)\n"
        "print(len(raised), *set(raised))\n",
    )
    assert gpu.printed == "100 KeyboardInterrupt\n"
    seen = picture(gpu.profile)
    calls = sum(seen["calls"].values())
    launches = [found for name, found in seen.items() if name[-1] == "launches" and found]
    assert re.search(rf"count={calls}\b", launches[0][0][1])


@installed
@SLOW
def test_snapshots_hold_what_the_gpu_had_done_with_either_backend(tmp_path, fakes):
    seen = []
    for backend in ("native", "python"):
        gpu = run_with(backend, tmp_path, fakes, SNAPSHOTS)
        found = snapshots(gpu)
        assert set(found) == {"", "warm", "done"}
        seen.append({name: outside(picture(profile)) for name, profile in found.items()})
    assert seen[0] == seen[1]


@installed
@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"FAKE_SUBSCRIBE": "39"}, "another CUPTI client is active"),
        pytest.param({"FAKE_ENABLE": "35"}, "NVreg_RestrictProfilingToAdminUsers=0", marks=SLOW),
        pytest.param({"FAKE_CUPTI": "1208"}, "is for CUDA 13", marks=SLOW),
    ],
)
def test_a_capture_that_cannot_begin_says_why_and_the_cpu_profile_is_kept(
    tmp_path, fakes, told, says
):
    gpu = on_fakes(tmp_path, fakes, told)
    profile = gpu.run("init()\nlaunch('k')\n", "--cupti-backend", "python")
    assert says in health(profile, "gpu")
    assert "GPU work was not recorded" in gpu.said
    assert "launch" in {timer.name for timer in profile.timers}


@installed
@SLOW
def test_without_a_gpu_nothing_is_imported(tmp_path, fakes):
    gpu = on_fakes(tmp_path, fakes)
    profile = gpu.run(
        "print('cupti' in sys.modules)\n", "--cupti-backend", "python", "--gpu", ends=1
    )
    assert gpu.printed == "False\n"
    assert "--gpu was given" in health(profile, "gpu")


def test_without_the_package_the_remedy_is_named_before_the_program_starts(tmp_path):
    hidden = (
        "import importlib.metadata as m, sys\n"
        "def version(name, real=m.version):\n"
        "    if name == 'cupti-python': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "from taupy.commands import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, "run", "--cupti-backend", "python", "-c", "print('ran')"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr == (
        "taupy: --cupti-backend python: cupti-python is not installed: "
        f"{cupti_python_check.REMEDY}\n"
    )


# --------------------------------------------------------------------- names and enums


def record_kinds() -> dict[str, int]:
    """`enum RecordKind` of cupti_records.h."""
    text = (NATIVE / "cupti_records.h").read_text("utf-8")
    return {name: int(n) for name, n in re.findall(r"^    RECORD_(\w+) = (\d+),", text, re.M)}


@installed
def test_our_constants_are_those_of_cupti_python():
    cupti = pytest.importorskip("cupti.cupti")
    kinds = record_kinds()
    other_names = {"UNIFIED_MEMORY": "UNIFIED_MEMORY_COUNTER", "EXTERNAL": "EXTERNAL_CORRELATION"}
    assert len(kinds) > 12
    for name, number in kinds.items():
        assert cupti.ActivityKind[other_names.get(name, name)] == number, name
    for name in ("MEMCPY", "MEMSET", "DRIVER", "RUNTIME", "SYNCHRONIZATION"):
        assert getattr(gpu_layout, name) == cupti.ActivityKind[name]
    assert cupti.ActivityKind.CONCURRENT_KERNEL == gpu_layout.KERNEL
    assert cupti.ActivityKind.MEMCPY2 == gpu_layout.MEMCPY_PEER
    assert cupti.ActivityKind.MEMORY2 == gpu_layout.MEMORY
    assert cupti.ActivityKind.UNIFIED_MEMORY_COUNTER == gpu_layout.UNIFIED_MEMORY
    ways = {kind.name: kind.value for kind in cupti.ActivityMemcpyKind}
    for number, way in gpu_work.WAYS.items():
        assert ways[way.upper()] == number
    memory = {kind.value: kind.name for kind in cupti.ActivityMemoryKind}
    for number, name in gpu_work.MEMORY.items():
        assert memory[number] == name.replace("static", "STATIC").replace(" ", "_").upper()
    unified = cupti.ActivityUnifiedMemoryCounterKind
    assert sorted(gpu_profile._UNIFIED) == [
        unified.BYTES_TRANSFER_HTOD, unified.BYTES_TRANSFER_DTOH, unified.CPU_PAGE_FAULT_COUNT,
        unified.GPU_PAGE_FAULT, unified.BYTES_TRANSFER_DTOD,
    ]  # fmt: skip
    assert cupti.ActivityMemoryOperationType.ALLOCATION == 1
    assert cupti.ApiCallbackSite.API_ENTER == 0
    domains = cupti.CallbackDomain
    assert (domains.DRIVER_API, domains.RUNTIME_API, domains.RESOURCE) == (1, 2, 3)
    resources = cupti.CallbackIdResource
    assert (resources.CONTEXT_CREATED, resources.CONTEXT_DESTROY_STARTING) == (1, 2)


@installed
def test_our_error_codes_are_those_of_cupti_python():
    cupti = pytest.importorskip("cupti.cupti")
    names = {code.value: code.name.removeprefix("ERROR_") for code in cupti.Result}
    expected = {
        1: "INVALID_PARAMETER", 2: "INVALID_DEVICE", 12: "MAX_LIMIT_REACHED",
        15: "NOT_INITIALIZED", 26: "HARDWARE_BUSY", 33: "VIRTUALIZED_DEVICE_NOT_SUPPORTED",
        35: "INSUFFICIENT_PRIVILEGES", 38: "LEGACY_PROFILER_NOT_SUPPORTED",
        39: "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", 40: "VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
        41: "CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", 42: "CMP_DEVICE_NOT_SUPPORTED",
        43: "MIG_DEVICE_NOT_SUPPORTED", 44: "SLI_DEVICE_NOT_SUPPORTED",
        45: "WSL_DEVICE_NOT_SUPPORTED", 46: "INVALID_CHIP_NAME", 999: "UNKNOWN",
    }  # fmt: skip
    assert {code: names[code] for code in expected} == expected
    assert {*cupti_errors._CAUSES, *cupti_errors._FEATURES} <= {*expected}


@installed
def test_call_names_of_cupti_python_are_of_the_kinds_that_we_know():
    """Its enums name every function of the API; those that launch are recorded as such."""
    cupti = pytest.importorskip("cupti.cupti")
    enums = {name.replace("_", "").lower(): value for name, value in vars(cupti).items()}
    runtime = {member.name for member in enums["runtimeapitracecbid"]}
    driver = {member.name for member in enums["driverapitracecbid"]}
    for name in ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaGraphLaunch_v10000"):
        assert name in runtime
        assert gpu_profile.api_name(name) == name.partition("_v")[0]
    assert {"cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch"} <= driver


# --------------------------------------------------------------------- without the package


def test_a_part_of_one_that_was_refused_says_why(tmp_path):
    part = PartWriter(12, 0)
    part.counters({"state": gpu_layout.FAILED})
    part.notes({"error.step": "import", "error.code": "0", "error.text": "ImportError: no numpy"})
    assert part.write(bytes(tmp_path / "12-1.gpu"))
    found = read_gpu_part(tmp_path / "12-1.gpu")
    assert found is not None
    said = gpu_verdict.verdict("auto", [found], set())
    assert said is not None
    assert "cupti-python could not be imported (ImportError: no numpy)" in said


def test_a_version_that_hands_over_records_of_the_moment_is_refused(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "13.0.1")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert cupti_python_check.problem().startswith("cupti-python 13.0.1 is too old: pip install")


def test_what_is_installed_is_reported(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "13.4.0")
    assert cupti_python_check.installed() == "cupti-python 13.4.0"
    assert cupti_python_check.cuda_major() == 13
    monkeypatch.setattr(cupti_python_check, "problem", lambda: "")
    assert doctor_gpu._cupti_python(13)[1:] == (
        "ok",
        "13.4.0, for `taupy run --cupti-backend python`",
    )
    assert "does not match this driver's CUDA 12" in doctor_gpu._cupti_python(12)[2]
    monkeypatch.setattr(cupti_python_check, "problem", lambda: "it is not here")
    assert doctor_gpu._cupti_python(13)[1] == "note"


def test_what_the_package_needs_and_is_not_there_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "cupti_python-13.4.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: cupti-python\nVersion: 13.4.0\n"
        "Requires-Dist: nvidia-cuda-cupti~=13.4\nRequires-Dist: numpy>=1.23\n"
        "Requires-Dist: no-such-package\nRequires-Dist: another; extra == 'samples'\n"
    )
    (tmp_path / "cupti").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert cupti_python_check.problem() == (
        "cupti-python 13.4.0 needs no-such-package, which is not installed: "
        f"{cupti_python_check.REMEDY}"
    )
