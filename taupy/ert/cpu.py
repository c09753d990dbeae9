"""The ceilings of this CPU: arithmetic by precision and vector width, bandwidth by level.

The kernels are in C (`_native/micro.c`). Each is timed in windows of about a millisecond until the
best result has not improved for a while, so that other users of the machine disturb little. Each
ceiling has the clock rate measured next to it. Without the compiled kernels, NumPy's own loops
are timed: they do not reach the ceilings, and their `pattern` says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from taupy.errors import TaupyError
from taupy.ert.windows import Windows
from taupy.model.machine import Ceiling, CeilingKind
from taupy.units import several

_SYSFS = Path("/sys/devices/system/cpu")
_WINDOW_S = 1e-3
_MOST_WINDOWS = 150
_PATIENCE = 25
_DRAM_PASSES = 12
_CLOCK_WINDOW_S = 1e-3
_ELEMENTS = ("fp64", "fp32", "bf16", "int8")
_PATTERNS = ("read", "write", "copy", "stream", "triad")
_MB = 1 << 20

Progress = Callable[[str], None]
"""Called with a description of the next measurement."""


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of cache: its size, and how many of the CPUs share it."""

    level: int
    bytes: int
    shared_by: int


def caches(cpu: int = 0, root: Path = _SYSFS) -> list[Cache]:
    """The data caches of a CPU, the nearest first; empty if the system does not report them."""
    caches = []
    for folder in sorted((root / f"cpu{cpu}" / "cache").glob("index*")):
        try:
            kind = (folder / "type").read_text().strip()
            level = int((folder / "level").read_text())
            size = (folder / "size").read_text().strip()
            shared = (folder / "shared_cpu_list").read_text().strip()
        except (OSError, ValueError):
            continue
        match = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind == "Instruction" or not match:
            continue
        unit = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2]]
        caches.append(Cache(level, int(match[1]) * unit, _count(shared)))
    return sorted(caches, key=lambda cache: cache.level)


def _count(cpu_list: str) -> int:
    """The number of CPUs in a list such as "0-3,8"."""
    count = 0
    for part in filter(None, cpu_list.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return max(1, count)


def allowed_cpus() -> tuple[int, ...]:
    """The CPUs that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def working_sets(caches: Sequence[Cache], threads: int, memory_bytes: int) -> dict[str, int]:
    """The size of each thread's working set for each level of memory: surely within that level, and
    too large for the nearer ones.

    It is half of a thread's share of the cache, but at least twice the next nearer cache; a level
    too small for that is left out. For DRAM, all threads together use eight times the last cache,
    at least 64 MB a thread, and at most a sixth of the memory.
    """
    sets: dict[str, int] = {}
    nearer = 0
    for cache in caches:
        share = cache.bytes // min(threads, cache.shared_by)
        size = max(share // 2, 0)
        if size >= 2 * nearer:
            sets[f"L{cache.level}"] = size
        nearer = share
    last = caches[-1].bytes if caches else 32 * _MB
    most = memory_bytes // 6 // threads
    sets["DRAM"] = max(min(max(8 * last // threads, 64 * _MB), most), _MB)
    return sets


class Rate(NamedTuple):
    """The quantity that a ceiling limits, and how it was measured; `threads` is 0 on a GPU."""

    kind: CeilingKind
    name: str
    pattern: str
    threads: int = 0

    @property
    def unit(self) -> str:
        if self.kind == "compute":
            return "op/s" if "int8" in self.name else "flop/s"
        return "B/s" if self.kind == "bandwidth" else "s"


@dataclass(frozen=True, slots=True)
class Subject:
    """The attributes common to all ceilings of a characterization."""

    characterization: str
    machine: str
    processor: str
    measured_at: str
    device_uuid: str = ""

    def ceiling(
        self,
        rate: Rate,
        seen: Windows,
        *,
        clock_hz: float | None = None,
        bytes: int | None = None,
        reference: str = "",
    ) -> Ceiling:
        """One measured ceiling."""
        return Ceiling(
            characterization=self.characterization,
            machine=self.machine,
            processor=self.processor,
            device_uuid=self.device_uuid,
            kind=rate.kind,
            name=rate.name,
            pattern=rate.pattern,
            threads=rate.threads,
            value=seen.best,
            unit=rate.unit,
            source="measured",
            median=seen.median,
            spread=seen.spread,
            samples=seen.samples,
            clock_hz=clock_hz,
            bytes=bytes,
            reference=reference,
            measured_at=self.measured_at,
        )


def characterize(subject: Subject, progress: Progress) -> Iterator[Ceiling]:
    """Measure the CPU with a single thread, then with a thread on each allowed CPU.

    Raises:
        TaupyError: both the compiled kernels and NumPy are missing.
    """
    cpus = allowed_cpus()
    teams = [cpus[:1], cpus] if len(cpus) > 1 else [cpus]
    try:
        from taupy._native import micro
    except ImportError:
        yield from _with_numpy(subject, progress)
        return
    kernels = micro.kernels()
    for team in teams:
        yield from _compute(subject, kernels, team, progress)
    for team in teams:
        yield from _bandwidth(subject, kernels, team, progress)


def _measure(
    kernel: str, cpus: tuple[int, ...], bytes: int, seconds: float, windows: int, patience: int
) -> Windows:
    from taupy._native import micro

    return Windows.of(micro.measure(kernel, cpus, bytes, seconds, windows, patience))


def clock_hz(cpus: tuple[int, ...]) -> float:
    """The current clock rate, from a chain of additions that take a cycle each."""
    return _measure("chain int64 scalar", cpus, 0, _CLOCK_WINDOW_S, 8, 8).best / len(cpus)


def _compute(
    subject: Subject, kernels: Sequence[str], team: tuple[int, ...], progress: Progress
) -> Iterator[Ceiling]:
    for kernel in kernels:
        how, element, width = kernel.split()
        if element not in _ELEMENTS:
            continue
        pattern = f"{how} {width}" if width == "scalar" else f"{how} {width}-bit"
        progress(f"{element} {pattern}, {_threads(team)}")
        seen = _measure(kernel, team, 0, _WINDOW_S, _MOST_WINDOWS, _PATIENCE)
        rate = Rate("compute", element, pattern, len(team))
        yield subject.ceiling(rate, seen, clock_hz=clock_hz(team))


def _bandwidth(
    subject: Subject, kernels: Sequence[str], team: tuple[int, ...], progress: Progress
) -> Iterator[Ceiling]:
    widest = {
        how: kernel
        for kernel in kernels  # narrow ones come first
        for how, what, _ in [kernel.split()]
        if what == "bytes"
    }
    sets = working_sets(caches(team[0]), len(team), _memory_bytes())
    for level, size in sets.items():
        far = level == "DRAM"
        for how in _PATTERNS:
            if how not in widest or (how == "stream" and not far):
                continue
            arrays = {"copy": 2, "stream": 2, "triad": 3}.get(how, 1)
            array_bytes = size // arrays
            pattern = "copy, streaming stores" if how == "stream" else how
            progress(f"{level} {pattern}, {_threads(team)}")
            windows, patience = (_DRAM_PASSES, 6) if far else (_MOST_WINDOWS, _PATIENCE)
            seen = _measure(widest[how], team, array_bytes, _WINDOW_S, windows, patience)
            yield subject.ceiling(
                Rate("bandwidth", level, pattern, len(team)),
                seen,
                clock_hz=clock_hz(team),
                bytes=array_bytes * arrays * len(team),
            )


def _threads(team: Sequence[int]) -> str:
    return several(len(team), "thread")


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


# ------------------------------------------------------------- without a C compiler


def _with_numpy(subject: Subject, progress: Progress) -> Iterator[Ceiling]:
    """Lower bounds from NumPy: matrix products, by the BLAS it was built with, and array copies."""
    try:
        import numpy as np
    except ImportError:
        raise TaupyError(
            "the micro-kernels were not compiled and NumPy is missing; install a C compiler and "
            "reinstall taupy, or: pip install numpy"
        ) from None
    threads = len(allowed_cpus())
    for element, dtype in (("fp64", np.float64), ("fp32", np.float32)):
        progress(f"{element} by NumPy")
        n = 768
        matrix: Any = np.ones((n, n), dtype)
        seen = _timed(partial(np.matmul, matrix, matrix), 2.0 * n**3, 15)
        rate = Rate("compute", element, "NumPy matmul, lower bound", threads)
        yield subject.ceiling(rate, seen, reference=f"NumPy {np.__version__}")
    for level, size in working_sets(caches(), 1, _memory_bytes()).items():
        progress(f"{level} by NumPy")
        source = np.ones(size // 16)
        target = np.empty_like(source)
        repeats = max(1, 2 * _MB // size)
        seen = _timed(
            partial(_copy, np.copyto, target, source, repeats), 2.0 * source.nbytes * repeats, 25
        )
        yield subject.ceiling(
            Rate("bandwidth", level, "NumPy copy, lower bound", 1),
            seen,
            bytes=2 * source.nbytes,
            reference=f"NumPy {np.__version__}",
        )


def _copy(copyto: Any, target: object, source: object, repeats: int) -> None:
    for _ in range(repeats):
        copyto(target, source)


def _timed(work: Callable[[], object], amount: float, windows: int) -> Windows:
    from time import perf_counter

    work()
    rates = []
    for _ in range(windows):
        start = perf_counter()
        work()
        rates.append(amount / (perf_counter() - start))
    return Windows.of(rates)
