"""Records in the layouts of CUPTI 12.6 to 13.5, made by hand, through the collector.

The layouts come from NVIDIA's headers (tests/fake_gpu/layouts.json), not from the collector's own
structures. NVIDIA's decoder reads them where its library is installed; ours always.
"""

from __future__ import annotations

import marshal
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from taupy.collectors.cupti_errors import cupti_version
from taupy.collectors.cupti_paths import libraries
from taupy.errors import FormatError
from taupy.model.gpu import NO_OWNER
from taupy.model.invariants import check
from taupy.model.profile import ROOT_TIMER, CallTree, Profile, Thread, ThreadProfile, Timer
from taupy.model.streams import HostPath
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from taupy.record.gpu_part import GpuPart, Trace, read_gpu_part
from taupy.record.gpu_profile import add_gpu_part, api_name
from tests.fake_gpu.layouts import recorded

HERE = Path(__file__).parent
LAYOUTS = recorded()
KINDS = {
    "Memcpy": 1, "Memset": 2, "Kernel": 10, "API": 5, "Device": 8, "Context": 9, "Overhead": 17,
    "MemcpyPtoP": 22, "Stream": 37, "Synchronization": 38, "ExternalCorrelation": 39,
    "Memory": 49,
}  # fmt: skip
VERSIONS = sorted(LAYOUTS, key=lambda v: [*map(int, v.split("."))])
WITHOUT_DRIVER = {"12.6", "12.8", "12.9", "13.0", "13.1"}
"""Versions whose decoder works where there is no driver; later ones refuse."""

ASK_VERSION = """
import ctypes, sys
number = ctypes.c_uint32()
ctypes.CDLL(sys.argv[1]).cuptiGetVersion(ctypes.byref(number))
print(number.value)
"""

STEP, LOSS = 0x7F0000000040, 0x7F0000000080  # where two call paths lay


@pytest.fixture(scope="session")
def collector() -> str:
    engine = pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    path = engine.__file__.replace("/engine.", "/cupti.")
    if not Path(path).exists():
        pytest.skip("the GPU collector is not built")
    return path


class Records:
    """Records of one version, one after the other, and the API calls before them."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.steps: list[tuple[Any, ...]] = []
        self.data = bytearray()
        self.names: dict[int, str] = {}

    def call(self, correlation: int, at: int, *, launch: int | None = None, count: int = 1) -> None:
        self.flush()
        place = at if launch is None else launch
        self.steps.append(("calls", 2, 211, correlation, count, at, place))

    def add(self, what: str, **values: Any) -> None:
        _, size, fields = LAYOUTS[self.version]["records"][what]
        record = bytearray(size)
        for name, value in {"kind": KINDS[what], **values}.items():
            offset, width = fields[name]
            if isinstance(value, str):
                self.names[len(self.data) + offset] = value
            else:
                record[offset : offset + width] = int(value).to_bytes(width, "little")
        self.data += record

    def kernel(self, name: str, correlation: int, start: int, end: int, **values: Any) -> None:
        values = {"deviceId": 0, "contextId": 1, "streamId": 7, "gridX": 2, "gridY": 1, "gridZ": 1,
                  "blockX": 64, "blockY": 1, "blockZ": 1, **values}  # fmt: skip
        self.add("Kernel", name=name, correlationId=correlation, start=start, end=end, **values)

    def flush(self) -> None:
        """What follows is in another buffer."""
        if self.data:
            self.steps.append(("records", bytes(self.data), self.names))
            self.data, self.names = bytearray(), {}


def replay(
    collector: str,
    folder: Path,
    records: Records,
    library: str | None = None,
    *,
    trace: bool = False,
) -> GpuPart:
    records.flush()
    major, minor = map(int, records.version.split("."))
    command = [sys.executable, str(HERE / "cupti_replay.py"), collector, str(folder)]
    command += [library or "-", str(major * 100 + minor), str(int(trace))]
    done = subprocess.run(command, input=marshal.dumps(records.steps), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    (path,) = folder.glob("*.gpu")
    part = read_gpu_part(path)
    assert part is not None
    return part


def nvidias_libraries() -> list[tuple[str, str]]:
    """(version, path) of each libcupti here whose decoder works without a driver."""
    found = {}
    for path in libraries([folder for folder in sys.path if folder]):
        # In a process of its own: some versions crash where there is no driver.
        done = subprocess.run([sys.executable, "-c", ASK_VERSION, path], capture_output=True)
        version = cupti_version(int(done.stdout or 0))
        if version in WITHOUT_DRIVER and version in VERSIONS:
            found.setdefault(version, path)
    return sorted(found.items())


def all_kinds(version: str) -> Records:
    records = Records(version)
    records.add("Device", id=0, name="GPU X", computeCapabilityMajor=8, numMultiprocessors=108,
                globalMemorySize=40 << 30)  # fmt: skip
    records.call(1, STEP)
    records.call(2, STEP)
    records.call(3, LOSS)
    records.call(4, 0, launch=LOSS)  # a thread without routines, while LOSS runs a backward pass
    records.kernel("_Z4gemmPf", 1, 100, 150, registersPerThread=32, staticSharedMemory=512,
                   dynamicSharedMemory=256, localMemoryPerThread=8)  # fmt: skip
    records.kernel("_Z4gemmPf", 2, 200, 270, registersPerThread=32, staticSharedMemory=512,
                   dynamicSharedMemory=256, localMemoryPerThread=8)  # fmt: skip
    records.add("Stream", contextId=1, streamId=7)
    records.add("Overhead")
    records.add("Context", contextId=1)
    records.add("ExternalCorrelation", externalId=9, correlationId=1)
    records.flush()
    records.add("Memcpy", copyKind=1, srcKind=2, dstKind=3, bytes=4096, start=300, end=320,
                contextId=1, streamId=7, correlationId=3)  # fmt: skip
    records.add("Memset", bytes=64, start=330, end=331, contextId=1, streamId=7, correlationId=3,
                memoryKind=3)  # fmt: skip
    records.add("MemcpyPtoP", copyKind=10, bytes=100, start=340, end=350, contextId=1, streamId=7,
                srcDeviceId=0, dstDeviceId=1, correlationId=3)  # fmt: skip
    records.kernel("_Z4gradPf", 4, 400, 405, graphId=3, graphNodeId=12)
    records.kernel("_Z4gradPf", 3, 0, 0)
    records.kernel("_Z4lostPf", 12345, 1, 2)
    records.add("Memory", memoryOperationType=1, memoryKind=3, bytes=1 << 20, timestamp=90,
                correlationId=3)  # fmt: skip
    return records


def expect_all_kinds(part: GpuPart) -> None:
    assert {
        (w.node, w.kind, part.names.get(w.name, w.name), w.launches, w.untimed, w.time, w.bytes)
        for w in part.work
    } == {
        (STEP, 10, "_Z4gemmPf", 2, 0, 120, 0),
        (LOSS, 1, 1 | 2 << 8 | 3 << 16, 1, 0, 20, 4096),
        (LOSS, 2, 3 << 8, 1, 0, 1, 64),
        (LOSS, 22, 10, 1, 0, 10, 100),
        (LOSS, 10, "_Z4gradPf", 2, 1, 5, 0),
        (0, 10, "_Z4lostPf", 1, 0, 1, 0),
        (LOSS, 49, 3 | 1 << 8, 1, 0, 1 << 20, 0),
    }
    gemm = next(w for w in part.work if part.names.get(w.name) == "_Z4gemmPf")
    assert (gemm.minimum, gemm.maximum, gemm.squares) == (50, 70, 50**2 + 70**2)
    assert (gemm.grid, gemm.block, gemm.registers) == ((2, 1, 1), (64, 1, 1), 32)
    assert (gemm.static_shared, gemm.dynamic_shared, gemm.local) == (512, 256, 8)
    assert (gemm.device, gemm.context, gemm.stream) == (0, 1, 7)
    counters = part.counters
    assert (counters["kernels"], counters["untimed"], counters["lost"]) == (5, 1, 1)
    assert (counters["unknown"], counters["walk_errors"], counters["launches"]) == (0, 0, 4)
    assert part.devices[0].name == "GPU X"
    assert (part.devices[0].major, part.devices[0].multiprocessors) == (8, 108)
    assert sorted((c.place, c.calls) for c in part.calls) == [(1, 1), (STEP, 2), (LOSS, 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_each_version_are_read_by_our_decoder(collector, tmp_path, version):
    expect_all_kinds(replay(collector, tmp_path, all_kinds(version)))


def test_nvidias_own_decoder_reads_them_alike(collector, tmp_path):
    found = nvidias_libraries()
    if not found:
        pytest.skip("no libcupti whose decoder works without a driver (CUPTI 12.6 to 13.1)")
    for version, path in found:
        folder = tmp_path / version
        folder.mkdir()
        expect_all_kinds(replay(collector, folder, all_kinds(version), path))


def test_waits_of_later_versions_are_read(collector, tmp_path):
    records = Records("13.0")
    records.call(1, STEP)
    records.add("Synchronization", type=3, start=10, end=30, correlationId=1, contextId=1)
    (wait,) = replay(collector, tmp_path, records).work
    assert (wait.node, wait.kind, wait.name, wait.time) == (STEP, 38, 3, 20)


def test_a_record_of_unknown_kind_ends_a_buffer_but_not_the_next(collector, tmp_path):
    records = Records("13.0")
    records.call(1, STEP, count=2)
    records.kernel("k", 1, 1, 2)
    records.data += (77).to_bytes(4, "little") + bytes(60)
    records.flush()
    records.kernel("k", 2, 3, 4)
    part = replay(collector, tmp_path, records)
    assert part.counters["walk_errors"] == 1
    assert part.work[0].launches == 2


def test_names_that_move_in_memory_are_one_kernel(collector, tmp_path):
    records = Records("13.0")
    records.call(1, STEP, count=2)
    records.kernel("k", 1, 1, 2)
    records.kernel("k", 2, 5, 9, gridX=3)
    part = replay(collector, tmp_path, records)
    assert len(part.names) == 1
    assert sorted((w.grid[0], w.time) for w in part.work) == [(2, 1), (3, 4)]


def test_an_old_correlation_is_not_taken_for_a_new_one(collector, tmp_path):
    records = Records("13.0")
    records.call(5, STEP)
    records.call(5 + (1 << 21), LOSS)  # the same place in the ring
    records.kernel("k", 5 + (1 << 21), 1, 2)
    records.kernel("k", 5, 3, 9)
    part = replay(collector, tmp_path, records)
    assert sorted((w.node, w.time) for w in part.work) == [(0, 6), (LOSS, 1)]
    assert part.counters["lost"] == 1


def host_profile() -> tuple[Profile, dict[int, HostPath]]:
    """A host thread that ran for 1000 ns: step (600) calls loss (200)."""
    timers = [Timer(ROOT_TIMER, groups=("TAUPY",)), Timer("step"), Timer("loss")]
    tree = CallTree(
        array("q", [0, 1, 2]), array("q", [-1, 0, 1]), array("q", [1, 1, 1]),
        array("q", [1, 1, 0]), {"time": array("q", [1000, 600, 200])},
        {"time": array("q", [400, 400, 200])},
    )  # fmt: skip
    host = ThreadProfile(Thread(0, 0, 0, "host", "MainThread"), tree)
    profile = Profile("0190", "app", "exp", 1.0, 1000, timers, [host])
    return profile, {STEP: HostPath(host, 1), LOSS: HostPath(host, 2)}


def test_from_records_to_the_database_and_back(collector, tmp_path):
    part = replay(collector, tmp_path, all_kinds("13.0"), trace=True)
    profile, places = host_profile()
    health = add_gpu_part(profile, 0, part, places.get, 0.001)
    assert check(profile) == []
    assert sorted(health) == ["gpu_lost", "gpu_untimed"]
    with ProfileDB.open(str(tmp_path / "t.db"), create=True, readonly=False) as db:
        stored = read_profile(db, add_profile(db, profile))
    stream = next(thread for thread in stored.threads if thread.thread.kind == "stream")
    names = [stored.timers[timer].name for timer in stream.tree.timer]
    times = dict(zip(names, stream.tree.inclusive["time"], strict=True))
    assert times["step"] == 120 + 20 + 1 + 10 + 5
    assert times["gemm(float*)"] == 120
    assert times[NO_OWNER] == times["lost(float*)"] == 1
    assert len(list(stream.activities)) == 7  # the untimed one has no stamps
    (untimed,) = [launch for launch in stream.launches if launch.untimed]
    assert (untimed.count, untimed.time_ns) == (2, 5)
    assert [device.name for device in stored.devices] == ["GPU X"]


def test_a_trace_that_was_cut_off_is_read_as_far_as_it_goes(collector, tmp_path):
    records = Records("13.0")
    records.call(1, STEP, count=3000)
    for i in range(3000):
        records.kernel("k", i + 1, 10 + i, 20 + i)
    part = replay(collector, tmp_path, records, trace=True)
    assert part.trace is not None
    whole = part.trace.read_bytes()
    assert len(list(Trace(part.trace).spans({0}))) == 3000
    for size in (len(whole) - 1, len(whole) // 2, 17, 3):
        part.trace.write_bytes(whole[:size])
        spans = list(Trace(part.trace).spans({0}))
        assert len(spans) < 3000
        assert [span.start for span in spans] == list(range(10, 10 + len(spans)))


def test_a_damaged_part_is_an_error_or_less_never_a_crash(collector, tmp_path):
    part = replay(collector, tmp_path, all_kinds("13.0"))
    whole = part.path.read_bytes()
    for size in range(0, 20_000, 511):
        part.path.write_bytes(whole[:size])
        try:
            cut = read_gpu_part(part.path)
        except FormatError:
            continue
        assert cut is None or len(cut.work) <= len(part.work)
    part.path.write_bytes(b"not a part" * 100)
    with pytest.raises(FormatError, match="no GPU part"):
        read_gpu_part(part.path)


@pytest.mark.slow
def test_memory_stays_bounded_when_every_launch_is_another(collector, tmp_path):
    records = Records("13.0")
    for first in range(0, 150_000, 8000):
        records.call(first + 1, STEP, count=8000)
        for i in range(first, first + 8000):
            records.kernel("k", i + 1, 10, 11, gridX=i + 1)
        records.flush()
    part = replay(collector, tmp_path, records)
    launches = sum(w.launches for w in part.work)
    assert launches == 152_000
    assert len(part.work) <= (1 << 17) + 1
    assert part.counters["folded"] == launches - (1 << 17)
    assert part.path.stat().st_size < 40 << 20


@pytest.mark.parametrize(
    ("full", "plain"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("__cudaLaunchKernel_v13000", "cudaLaunchKernel"),
        ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
        ("cuLaunchKernel", "cuLaunchKernel"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch"),
    ],
)
def test_api_names_are_those_that_programmers_know(full, plain):
    assert api_name(full) == plain


@pytest.mark.parametrize(
    ("domain", "name", "interest"),
    [
        (2, "cudaLaunchKernel_ptsz_v7000", 19), (2, "cudaLaunchKernelExC_v11060", 19),
        (2, "__cudaLaunchKernel_v12080", 19), (1, "cuLaunchKernelEx", 19), (1, "cuGraphLaunch", 3),
        (2, "cudaLaunchCooperativeKernelMultiDevice_v9000", 3), (2, "cudaMemcpyAsync_v3020", 3),
        (2, "cudaStreamBeginCapture_v10000", 32), (1, "cuStreamEndCapture_ptsz", 32),
        (2, "cudaStreamEndCapture_v10000", 33), (2, "cudaStreamIsCapturing_v10000", 0),
        (2, "cudaGraphAddMemcpyNode1D_v11010", 1), (1, "cuGraphMemsetNodeSetParams", 1),
        (2, "cudaLaunchHostFunc_v10000", 1), (2, "cudaMallocManaged_v6000", 5),
        (1, "cuMemAllocManaged", 5), (2, "__cudaRegisterManagedVar_v3020", 1),
        (1, "cuMemCreate", 1), (1, "cuMemMap", 1), (2, "cudaGetDevice_v3020", 0),
        (1, "cuCtxGetCurrent", 0), (2, "cuLaunchKernel", 0),
    ],
)  # fmt: skip
def test_calls_of_the_api_are_distinguished_by_their_names(domain, name, interest):
    """1: a row of its own; & 2: work on a GPU begins; & 4: memory that both sides use; & 16: it
    launches one kernel; & 32: it begins or ends the capture of a graph."""
    python = pytest.importorskip("taupy._native.cupti_python", reason="it is not built")
    assert python.interest(domain, 0, name) == interest
