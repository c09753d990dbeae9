"""The ceilings of a GPU: arithmetic by precision, bandwidth by level, the cost of a launch.

Kernels (`kernels.cu`) are compiled by NVRTC for this very GPU; no toolkit is needed. A launch lasts
some milliseconds, and launches are repeated until the best rate has not improved for a while.
`mma.sync` does not reach the peak of Hopper's and Blackwell's tensor cores. PyTorch's matrix
product and its copy of large arrays are therefore measured, too, in a process of their own; the
larger rate is the roof, and `pattern` names its origin.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from ctypes import c_int, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from taupy.cuda import nvrtc
from taupy.cuda.driver import Context, Gpu, Module
from taupy.errors import TaupyError
from taupy.ert.cpu import Progress, Rate, Subject
from taupy.ert.windows import Windows
from taupy.model.machine import Ceiling

SOURCE = Path(__file__).with_name("kernels.cu")
_LAUNCH_S = 3e-3
_MOST_LAUNCHES = 24
_PATIENCE = 6
_WARM_S = 0.2
_THREADS = 256
_MB = 1 << 20
_LIBRARY_TIMEOUT_S = 60


class _Fma(NamedTuple):
    """A kernel of fused multiply-adds, with the flop of a thread per round."""

    name: str
    kernel: str
    flop: int


_FMAS = (
    _Fma("fp64", "fma_fp64", 256),
    _Fma("fp32", "fma_fp32", 256),
    _Fma("fp16", "fma_fp16", 512),  # two in a register
    _Fma("bf16", "fma_bf16", 512),
)

_MMA_A_ROUND = 32  # a warp's matrix operations in one round of the kernel


def mma_flop(name: str, capability: int) -> int:
    """Operations (2 m n k) of one warp-wide `mma` of the kernel for this GPU."""
    shapes = {
        "fp16": (16, 8, 16) if capability >= 80 else (16, 8, 8),
        "bf16": (16, 8, 16),
        "tf32": (16, 8, 8),
        "fp64": (16, 8, 16) if capability >= 90 else (8, 8, 4),
        "fp8": (16, 8, 32),
        "int8": (16, 8, 32) if capability >= 80 else (8, 8, 16),
    }
    if name == "fp16" and capability < 75:
        return 4 * 2 * 8 * 8 * 4  # four of m8n8k4, one in each quarter of the warp
    m, n, k = shapes[name]
    return 2 * m * n * k


class _Memory(NamedTuple):
    """A memory kernel, with the bytes that it moves as a multiple of its array's size."""

    level: str
    pattern: str
    kernel: str
    moved: int


_MEMORY = (
    _Memory("DRAM", "read", "read_global", 1),
    _Memory("DRAM", "write", "write_global", 1),
    _Memory("DRAM", "copy", "copy_global", 2),
    _Memory("DRAM", "triad", "triad_global", 3),
    _Memory("L2", "read", "read_global", 1),
    _Memory("L2", "write", "write_global", 1),
    _Memory("L2", "copy", "copy_global", 2),
    _Memory("L2", "triad", "triad_global", 3),
    _Memory("L1", "read", "read_l1", 1),
    _Memory("shared", "read", "read_shared", 1),
    _Memory("shared", "copy", "copy_shared", 1),
)


@dataclass(frozen=True, slots=True)
class _Bench:
    """A GPU that is ready to be measured."""

    subject: Subject
    gpu: Gpu
    context: Context
    module: Module
    progress: Progress

    @property
    def multiprocessors(self) -> int:
        return self.gpu.attribute("multiprocessors") or 1


def characterize(subject: Subject, gpu: Gpu, progress: Progress) -> Iterator[Ceiling]:
    """Measure one GPU; `subject` has its name and uuid.

    Raises:
        CompileError: NVRTC is missing.
        CudaError: a call of the driver failed.
    """
    problem: TaupyError | None = None
    try:
        yield from _micro(subject, gpu, progress)
    except TaupyError as error:
        problem = error
    yield from _library(subject, gpu, progress)  # a separate process, unaffected by the problem
    if problem is not None:
        raise problem


def _micro(subject: Subject, gpu: Gpu, progress: Progress) -> Iterator[Ceiling]:
    """Measure with kernels of our own."""
    with gpu.context() as context:
        bench = _ready(subject, gpu, context, progress)
        yield from _rates(bench)
        yield from _latency(bench)


def _ready(subject: Subject, gpu: Gpu, context: Context, progress: Progress) -> _Bench:
    progress("compiling")
    code = nvrtc.compile(SOURCE.read_text("utf-8"), gpu.capability)
    bench = _Bench(subject, gpu, context, context.load(code), progress)
    _warm(bench)
    return bench


def _rates(bench: _Bench) -> Iterator[Ceiling]:
    clock = _clock_hz(bench)
    yield from _compute(bench, clock)
    yield from _bandwidth(bench, clock)


def by_two_ways(
    subject: Subject, gpu: Gpu, progress: Progress, other: AbstractContextManager[Context]
) -> list[tuple[Ceiling, Ceiling]]:
    """Arithmetic and bandwidth with the same kernels, in our context and then in another's.

    Raises:
        CompileError: NVRTC is missing.
        CudaError: a call of the driver failed, or the other context cannot be made.
    """
    measured: list[list[Ceiling]] = []
    for way in (gpu.context(), other):
        with way as context:
            measured.append(list(_rates(_ready(subject, gpu, context, progress))))
    return list(zip(*measured, strict=True))


def _warm(bench: _Bench) -> None:
    """Run kernels until an idle GPU has raised its clocks."""
    kernel = bench.module.kernel("fma_fp32")
    assert kernel is not None
    out = bench.context.allocate(16)
    until = time.monotonic() + _WARM_S
    while time.monotonic() < until:
        arguments = (c_uint64(out), c_int(1 << 12), c_int(0))
        bench.context.launch(kernel, bench.multiprocessors * 8, _THREADS, arguments)
        bench.context.synchronize()


def _repeated(once: Callable[[int], float]) -> Windows:
    """Measure the rate of `once(rounds)`, in rounds a second, with enough rounds for a launch.

    `once` launches, waits, and returns the seconds that took.
    """
    rounds, took = 1, once(1)
    while took < _LAUNCH_S / 4 and rounds < 1 << 24:
        rounds *= 4
        took = once(rounds)
    rounds = max(1, round(rounds * _LAUNCH_S / max(took, 1e-7)))
    rates: list[float] = []
    since = 0
    while len(rates) < _MOST_LAUNCHES and since < _PATIENCE:
        rate = rounds / once(rounds)
        since = 0 if not rates or rate > max(rates) * 1.001 else since + 1
        rates.append(rate)
    return Windows.of(rates)


def _scaled(seen: Windows, amount: float) -> Windows:
    return Windows(seen.best * amount, seen.median * amount, seen.spread, seen.samples)


def _ceiling_hz(bench: _Bench, before: float) -> float:
    return max(before, _clock_hz(bench))


def _clock_hz(bench: _Bench) -> float:
    """The multiprocessors' clock rate under load, after a short warm-up."""
    kernel = bench.module.kernel("clock_rate")
    assert kernel is not None
    out = bench.context.allocate(16)
    for _ in range(2):
        bench.context.launch(kernel, 1, 1, (c_uint64(out), c_uint64(2_000_000)))
    cycles, nanoseconds = struct.unpack("<QQ", bench.context.read(out, 16))
    return float(cycles / nanoseconds * 1e9)


def _compute(bench: _Bench, clock: float) -> Iterator[Ceiling]:
    blocks = bench.multiprocessors * 8
    out = bench.context.allocate(_MB)

    def run(kernel: c_void_p) -> Windows:
        def once(rounds: int) -> float:
            bench.context.begin()
            arguments = (c_uint64(out), c_int(rounds), c_int(0))
            bench.context.launch(kernel, blocks, _THREADS, arguments)
            return bench.context.end()

        return _repeated(once)

    for name, entry, flop in _FMAS:
        kernel = bench.module.kernel(entry)
        if kernel is None:
            continue
        bench.progress(name)
        seen = _scaled(run(kernel), float(flop * blocks * _THREADS))
        yield bench.subject.ceiling(
            Rate("compute", name, "fma"), seen, clock_hz=_ceiling_hz(bench, clock)
        )
    for name in ("fp64", "tf32", "fp16", "bf16", "fp8", "int8"):
        kernel = bench.module.kernel(f"mma_{name}")
        if kernel is None:
            continue
        bench.progress(f"tensor {name}")
        warps = blocks * _THREADS // 32
        flop = mma_flop(name, bench.gpu.capability) * _MMA_A_ROUND * warps
        yield bench.subject.ceiling(
            Rate("compute", f"tensor {name}", "mma.sync"),
            _scaled(run(kernel), float(flop)),
            clock_hz=_ceiling_hz(bench, clock),
        )


def level_bytes(level: str, l2_bytes: int, memory_bytes: int) -> int:
    """The array's size for a level of memory. DRAM: at least 16 times L2 and 1 GiB, at most an
    eighth of the memory (L2 keeps part of a smaller array between passes, and the rate exceeds the
    memory's). L2: a quarter of it, at most 16 MiB. L1: 16 KiB a block. Shared memory: 32 KiB a
    block."""
    if level == "DRAM":
        return min(max(16 * l2_bytes, 1024 * _MB), memory_bytes // 8) & -4096
    if level == "L2":
        return max(min(l2_bytes // 4, 16 * _MB), _MB) & -4096
    return 16 << 10 if level == "L1" else 32 << 10


def _bandwidth(bench: _Bench, clock: float) -> Iterator[Ceiling]:
    l2_bytes = bench.gpu.attribute("l2_bytes") or 4 * _MB
    blocks = bench.multiprocessors * 8
    most = level_bytes("DRAM", l2_bytes, bench.gpu.memory_bytes)
    arrays = tuple(bench.context.allocate(max(most, blocks * (16 << 10))) for _ in range(3))
    for level, pattern, entry, moved in _MEMORY:
        kernel = bench.module.kernel(entry)
        if kernel is None:
            continue
        bench.progress(f"{level} {pattern}")
        size = level_bytes(level, l2_bytes, bench.gpu.memory_bytes)

        def once(rounds: int, kernel: c_void_p = kernel, size: int = size) -> float:
            bench.context.begin()
            addresses = [c_uint64(address) for address in arrays]
            arguments = (*addresses, c_uint64(size), c_int(rounds), c_int(0))
            bench.context.launch(kernel, blocks, _THREADS, arguments)
            return bench.context.end()

        # L1 and shared memory: every block moves its own bytes.
        a_round = float(moved * size * (blocks if level in ("L1", "shared") else 1))
        yield bench.subject.ceiling(
            Rate("bandwidth", level, pattern),
            _scaled(_repeated(once), a_round),
            clock_hz=_ceiling_hz(bench, clock),
            bytes=size * moved,
        )


def _latency(bench: _Bench) -> Iterator[Ceiling]:
    """Seconds per launch of an empty kernel, measured in the four ways that matter."""
    kernel = bench.module.kernel("empty")
    assert kernel is not None
    context = bench.context

    def launched(count: int, events: bool = False) -> Callable[[], float | None]:
        def once() -> float | None:
            seconds = context.launched(kernel, count, events=events)
            return None if seconds is None else seconds / count

        return once

    with context.captured() as graph:
        for _ in range(1000):
            context.launch(kernel, 1, 1)

    def by_graph() -> float | None:
        start = time.perf_counter()
        graph.launch()
        context.synchronize()
        return (time.perf_counter() - start) / 1000

    bench.progress("launch")
    for pattern, once, windows in (
        ("back-to-back", launched(2000), 10),
        ("event pair", launched(1, events=True), 100),
        ("launch and wait", launched(1), 100),
        ("graph", by_graph, 10),
    ):
        times = [took for _ in range(windows + 1) if (took := once()) is not None]
        if not times:
            continue  # their kernels were not compiled
        seen = Windows.of(times[1:], lowest=True)
        yield bench.subject.ceiling(Rate("latency", "launch", pattern), seen)


# ------------------------------------------------------------------ a library's matmul

_MATMUL = """
import sys
sys.path = sys.argv[2:]
import json, time, torch
device = torch.device("cuda", int(sys.argv[1]))
torch.cuda.set_device(device)
torch.backends.cuda.matmul.allow_tf32 = False
n = 8192
def best(work, amount):
    work(); torch.cuda.synchronize(device)
    rates = []
    for _ in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
        begin.record(); work(); end.record(); end.synchronize()
        rates.append(amount / (begin.elapsed_time(end) / 1000))
    return rates
found = {}
def attempt(name, make, amount=2.0 * n**3):
    try:
        rates = best(make(), amount)
        found[name] = max(found.get(name, rates), rates, key=max)
    except Exception:
        pass
def plain(dtype, tf32=False):
    def make():
        a, b = (torch.randn(n, n, device=device).to(dtype) for _ in "ab")
        out = torch.empty(n, n, device=device, dtype=dtype)
        def work():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.mm(a, b, out=out)
        return work
    return make
def int8():
    a, b = (torch.randint(-8, 8, (n, n), device=device, dtype=torch.int8) for _ in "ab")
    return lambda: torch._int_mm(a, b.t())
def fp8(fast):
    def make():
        a, b = (torch.randn(n, n, device=device).to(torch.float8_e4m3fn) for _ in "ab")
        one = torch.tensor(1.0, device=device)
        return lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one,
                                        out_dtype=torch.bfloat16, use_fast_accum=fast)
    return make
size = min(1 << 31, torch.cuda.mem_get_info(device)[0] // 4)
def copy():
    source = torch.empty(size, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
attempt("DRAM", copy, 2.0 * size)
attempt("tensor bf16", plain(torch.bfloat16))
attempt("tensor fp16", plain(torch.float16))
attempt("tensor tf32", plain(torch.float32, True))
attempt("tensor fp8", fp8(False))
attempt("tensor fp8", fp8(True))
attempt("tensor int8", int8)
attempt("tensor fp64", plain(torch.float64))
print(json.dumps({"version": torch.__version__, "bytes": 2 * size, "rates": found}))
"""


def _library(subject: Subject, gpu: Gpu, progress: Progress) -> Iterator[Ceiling]:
    """8192 x 8192 matrix products and a copy of large arrays by PyTorch, where it is installed
    with CUDA."""
    if importlib.util.find_spec("torch") is None:
        return
    progress("matrix products by PyTorch")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _MATMUL, str(gpu.ordinal), *sys.path],
            capture_output=True,
            text=True,
            timeout=_LIBRARY_TIMEOUT_S,
            check=True,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return  # PyTorch without CUDA, or for other GPUs: only mma.sync's rates remain
    reference = f"PyTorch {answer['version']}"
    for name, rates in answer["rates"].items():
        if name == "DRAM":
            yield subject.ceiling(
                Rate("bandwidth", name, "library copy"),
                Windows.of(rates),
                bytes=answer["bytes"],
                reference=reference,
            )
            continue
        yield subject.ceiling(
            Rate("compute", name, "library matmul"),
            Windows.of(rates),
            reference=f"{reference}, 8192 x 8192 x 8192",
        )
