"""The metrics requested by `taupy run --metrics`: names become counters of the CPU and of GPUs.

A name is a metric of the CPU, a metric of a GPU (our name, a legacy name, a PerfWorks name), a
predefined set, or a set of the project. Metrics that this machine cannot count are left out, with
one note each; the time is measured anyway.
"""

from __future__ import annotations

import os

from taupy.errors import UsageError
from taupy.pattern import pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Literal

CPU_SETS = {
    "roofline": ("flop", "bytes_dram_read"),
    "memory": ("bytes_dram_read", "cache_misses"),
}
"""The meaning of these sets on a machine without a GPU."""

_INTERVAL = pattern(r"\s*(\d+(?:\.\d*)?)\s*(ns|us|\u00b5s|ms|s|)\s*")
_BETWEEN = pattern(r"[\s,:]+")

ANALYTIC = "analytic"
"""The name that requests flop and bytes of BLAS calls, computed from their shapes."""


class Wanted:
    """The requested metrics.

    Attributes:
        cpu: counters of the CPU, read in routines.
        gpu: counters of GPUs, by our names if there are any.
        calls: metrics that the engine reads at calls, such as the threads' CPU time.
        analytic: operations computed from the shapes of BLAS calls: "always", or "fallback"
            if the CPU's own counters of operations are missing.
        notes: requested metrics that are not available, one line each.
    """

    def __init__(self) -> None:
        self.cpu: list[str] = []
        self.gpu: list[str] = []
        self.calls: list[str] = []
        self.analytic: Literal["", "fallback", "always"] = ""
        self.notes: list[str] = []


def listed(given: Sequence[str] | None, project: Mapping[str, object]) -> tuple[list[str], str]:
    """The requested names, and their source: command line, TAU_METRICS or project settings. If
    `given` is None, nothing is requested, whatever the other sources contain.

    Raises:
        UsageError: the project's setting is not a list of names.
    """
    if given is None:
        return [], ""
    if given:
        return _split(given), "--metrics"
    if text := os.environ.get("TAU_METRICS"):
        return _split([text]), "TAU_METRICS"
    value = project.get("metrics", [])
    if isinstance(value, dict):
        value = []  # a table [tool.taupy.metrics] defines derived metrics
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"`metrics` of [tool.taupy] in pyproject.toml is not a list: {value!r}")
    return _split(value), "`metrics` of [tool.taupy]"


def sampled(
    given: Sequence[str] | None, project: Mapping[str, object]
) -> tuple[tuple[str, ...], frozenset[str]]:
    """What is sampled over time, from the command line or else the project's settings: all names,
    and those that come from a set only, which a chip may lack. If `given` is None, nothing is
    sampled, whatever the project's settings are.

    Raises:
        UsageError: a name is unknown, or the project's setting is not a list of names.
    """
    if given is None:
        return (), frozenset()
    value = given or project.get("pm_sampling", [])
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(
            f"`pm_sampling` of [tool.taupy] in pyproject.toml is not a list: {value!r}"
        )
    if not (words := _split(value)):
        return (), frozenset()
    from taupy.catalog import timeline

    sets = project.get("sets", {})
    names = timeline.names_of(words, sets if isinstance(sets, dict) else {})
    return names, frozenset(timeline.TIMELINE_NAMES) - set(words)


_TIMES_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_LEAST_INTERVAL_NS = 50_000  # reading a sample takes some 20 us


def interval_ns(text: object) -> int:
    """A time between samples: "1ms", "100us"; a number alone is milliseconds.

    Raises:
        UsageError: it is not a time, or too short.
    """
    match = _INTERVAL.fullmatch(str(text))
    if not match:
        raise UsageError(f"--pm-interval is a time such as 1ms or 100us, got {text!r}")
    unit = match[2].replace("\u00b5", "u") or "ms"
    value = round(float(match[1]) * _TIMES_NS[unit])
    if not _LEAST_INTERVAL_NS <= value <= 60 * _TIMES_NS["s"]:
        raise UsageError(f"--pm-interval is from 50us to 60s, got {text}")
    return value


def local_rank() -> int:
    """This process's number among the ranks of its machine; 0 for a program without ranks."""
    names = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
    for name in names:
        if (text := os.environ.get(name, "")).isdigit():
            return int(text)
    return 0


def _split(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for name in _BETWEEN.split(text) if name]


_DRIVER = "libcuda.so.1"


def has_gpu() -> bool:
    """Whether this machine shows us an NVIDIA GPU (or WSL's stand-in)."""
    if any(os.path.exists(f"/dev/{name}") for name in ("nvidiactl", "nvidia0", "dxg")):
        return True
    from _ctypes import dlopen  # importing ctypes takes four times as long

    try:
        dlopen(_DRIVER, 0)
    except OSError:
        return False
    import ctypes

    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL(_DRIVER)
        status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
        return not status and count.value > 0
    except (OSError, AttributeError):
        return False


def metrics(names: Sequence[str], source: str, project: Mapping[str, object], gpu: bool) -> Wanted:
    """The metrics for these names.

    Args:
        names: as typed by the user.
        source: where they come from: an unknown name from the environment gives a note only,
            since it may be meant for TAU itself.
        project: settings of the project, including its own `sets`.
        gpu: whether the machine has a GPU.

    Raises:
        UsageError: a name that is neither a metric nor a set.
    """
    from taupy.catalog import cpu_events

    answer, of_calls = Wanted(), metric_sources()
    user_sets = project.get("sets", {})
    if not isinstance(user_sets, dict):
        raise UsageError("[tool.taupy.sets] in pyproject.toml is not a table of lists")
    without_gpu: list[str] = []
    waiting = list(names)[::-1]
    opened: set[str] = set()
    while waiting:
        name = waiting.pop()
        upper = name.upper()
        if upper in ("TIME", "GET_TIME_OF_DAY", "LINUX_TIMERS", "WALL_CLOCK"):
            continue  # always measured
        if name.lower() in of_calls or upper == "THREAD_CPU_TIME":
            answer.calls.append("cpu_time" if upper == "THREAD_CPU_TIME" else name.lower())
        elif upper in cpu_events.TAU_NAMES:
            answer.cpu.append(cpu_events.TAU_NAMES[upper])
        elif cpu_events.is_name(name):
            answer.cpu.append(name)
        elif name in user_sets and name not in opened:
            opened.add(name)
            waiting += _members(name, user_sets[name])[::-1]
        elif name == ANALYTIC:
            answer.analytic = "always"
        elif not gpu and name in CPU_SETS:
            answer.cpu += CPU_SETS[name]
            if name == "roofline":
                answer.analytic = answer.analytic or "fallback"
            answer.notes.append(
                f"{name}: no NVIDIA GPU here, so counted on the CPU: {', '.join(CPU_SETS[name])}"
            )
        else:
            counters = _gpu_counters(name, source, user_sets, answer)
            if gpu:
                answer.gpu += counters
            elif counters:
                without_gpu.append(name)
    if without_gpu:
        answer.notes.append(
            f"{', '.join(without_gpu)}: counted on NVIDIA GPUs only, and there is none here"
        )
    answer.calls = list(dict.fromkeys(answer.calls))
    answer.cpu = list(dict.fromkeys(answer.cpu))
    answer.gpu = list(dict.fromkeys(answer.gpu))
    return answer


def metric_sources() -> dict[str, str]:
    """Metrics of calls that the engine can read, and their units."""
    try:
        from taupy._native import engine
    except ImportError:  # no compiler was available
        from taupy.model.metric import CPU_TIME

        return {CPU_TIME.name: CPU_TIME.unit}
    return engine.metric_sources()


def blas_library() -> bytes | None:
    """The library that is interposed between a program and its BLAS; None if it is not built."""
    from importlib.util import find_spec

    spec = find_spec("taupy._native.blas")
    return None if spec is None or spec.origin is None else os.fsencode(spec.origin)


def _members(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"[tool.taupy.sets] in pyproject.toml: {name} is not a list of names")
    return value


def _gpu_counters(
    name: str, source: str, user_sets: Mapping[str, object], answer: Wanted
) -> list[str]:
    from taupy.catalog import cpu_events
    from taupy.catalog.sets import expanded, sets
    from taupy.catalog.spelling import near

    try:
        return list(expanded([name]))
    except UsageError:
        close = near(name, (*sets(), *user_sets, *cpu_events.NAMES, *metric_sources()))
        text = f"{source}: there is no metric or set {name!r}" + (
            f"; near it: {', '.join(close)}" if close else ""
        )
        if source == "TAU_METRICS":
            answer.notes.append(f"{text}; left out")
            return []
        raise UsageError(f"{text}; `taupy avail` lists the available ones") from None
