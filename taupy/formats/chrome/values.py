"""Parse values of Chrome trace events: times, ids, names of routines, categories."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, Literal

from taupy.formats import limits
from taupy.formats.gpu_records import api_timer
from taupy.formats.places import shown_file
from taupy.model.kernel_names import kernel_timer
from taupy.model.kinds import ActivityKind
from taupy.model.profile import Timer
from taupy.network.layers import GROUP, OF_PROFILER

API_CATEGORIES: Final = frozenset(
    ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "xpu_runtime",
     "privateuse1_runtime", "privateuse1_driver", "mtia_runtime")
)  # fmt: skip

GPU_CATEGORIES: Final[dict[str, ActivityKind]] = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_sync": "sync",
}

ACCELERATOR: Final = "mtia_ccp_events"
"""The category of any work on an accelerator; the name tells the kind."""

KERNEL_COUNTERS: Final = "cuda_profiler_range"

_COPIES: Final = frozenset(("dma_request",))
_WAITS: Final = frozenset(("event_wait", "event_record"))
_DEVICE: Final = re.compile(
    r"(?:GPU|MTIA|XPU|HPU|NPU|MLU|DCU|TPU|IPU|MPS|PRIVATEUSEONE) (\d{1,5})", re.IGNORECASE
)

LEFT_OUT: Final = frozenset(("gpu_user_annotation", "overhead", "trace"))
"""Categories that repeat others, or that are about the profiler itself."""

_GROUPS: Final = {
    "cpu_op": "OPERATOR",
    "operator": "OPERATOR",
    "user_annotation": "PHASE",
    "python_function": "PYTHON",
    "fee": "PYTHON",
}

HOST_GROUPS: Final = frozenset(_GROUPS.values())
PYTHON_GROUPS: Final = frozenset(("PYTHON", "PYTHON_C", "PHASE"))
"""Of what torch.profiler's tracer of Python records: routines, C functions, modules."""

_PYTHON: Final = re.compile(r"(?P<file>[^()]*)\((?P<line>\d{1,9})\): (?P<name>.+)", re.DOTALL)
TAU_NAME: Final = re.compile(
    r"(?P<name>.*) \[\{(?P<file>[^{}]*)\}\{(?P<line>\d{1,9})\}\]", re.DOTALL
)
_VIZTRACER: Final = re.compile(r"(?P<name>\S+) \((?P<file>[^()]+):(?P<line>\d{1,9})\)", re.DOTALL)
_ADDRESS: Final = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+")
_DIRECTION: Final = re.compile(r"Memcpy (\w+)")


_Kind = Literal["python", "viztracer", "api", "other"]


def nanoseconds(value: Any) -> int | None:
    """A time in microseconds as nanoseconds, exactly; None if it is not a time."""
    if type(value) is int:
        stamp = value * 1000
    elif isinstance(value, str):
        whole, _, part = value.partition(".")
        digits = whole + part.ljust(3, "0")
        if whole and len(part) <= 3 and len(digits) < 23 and digits.isdigit() and digits.isascii():
            stamp = int(digits)
        else:
            try:
                exact = Decimal(value)
                if not exact.is_finite() or abs(exact) > limits.STAMP_NS:
                    return None
                stamp = round(exact * 1000)
            except (InvalidOperation, ValueError):
                return None
    else:
        return None
    return stamp if -limits.STAMP_NS < stamp < limits.STAMP_NS else None


def integer(value: Any) -> int | None:
    """An integer that fits into a column; None for anything else."""
    if type(value) is int:
        return value if abs(value) < limits.STAMP_NS else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    return None


def real(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if type(value) is int:
        return float(value) if abs(value) < 1 << 1000 else None
    if type(value) is not str and isinstance(value, str):  # json_events.Number
        value = float(value)
    if type(value) is float:
        return value if value - value == 0 else None
    return None


def extent(value: Any) -> tuple[int, int, int] | None:
    """The extent of a grid or block, such as `[8, 1, 1]`; None if it is invalid."""
    if isinstance(value, list) and len(value) == 3:
        x, y, z = map(integer, value)
        if x is not None and y is not None and z is not None:
            return x, y, z
    return None


def host_timer(name: str, category: str) -> Timer:
    """The timer of a host slice, with file and line if its name contains them."""
    name = name[: limits.TRACE_NAME] or "(unnamed)"
    # A quick test first: most names do not end in a place.
    if name.endswith("}]") and (match := TAU_NAME.fullmatch(name)):
        groups = tuple(word for word in category.split(",") if word) or ("USER",)
        return Timer(match["name"], match["file"], int(match["line"]), groups, match["file"])
    if name.startswith(OF_PROFILER):  # tools that convert or merge traces drop its category
        groups = (GROUP, "PHASE", "PYTHON")
        return Timer(name, groups=groups, short=name.removeprefix(OF_PROFILER))
    kind, groups = _kind_of(category)
    if kind == "python":
        match = _PYTHON.fullmatch(name)
        if match:
            return _routine(match)
        return Timer(_ADDRESS.sub("", name), groups=("PYTHON_C",))
    if kind == "viztracer" and (match := _VIZTRACER.fullmatch(name)):
        return _routine(match)
    if kind == "api":
        return api_timer(name)
    if name.startswith("ProfilerStep#"):
        name = "ProfilerStep*"  # torch's own tables add steps up under this name
    return Timer(name, groups=groups)


@lru_cache(maxsize=1000)  # a trace has a handful of categories
def _kind_of(
    category: str,
) -> tuple[Literal["python", "viztracer", "api", "other"], tuple[str, ...]]:
    """The kind of a category, which determines the syntax of its names, and the groups of names
    without a place."""
    words = [_GROUPS.get(word.strip().lower(), word.strip()) for word in category.split(",")]
    groups = tuple(dict.fromkeys(word for word in words if word)) or ("USER",)
    match category.lower():
        case "python_function":
            return "python", groups
        case "fee" | "":
            return "viztracer", groups
        case kind:
            return "api" if kind in API_CATEGORIES else "other", groups


def _routine(match: re.Match[str]) -> Timer:
    file = shown_file(match["file"])
    return Timer(match["name"], file, int(match["line"]), path=match["file"])


def gpu_timer(name: str, kind: ActivityKind) -> Timer:
    """The timer of GPU work; long names are truncated."""
    name = name[: limits.TRACE_NAME] or "(unnamed)"
    if kind == "kernel":
        return kernel_timer(name)
    return Timer(name, groups=("GPU_COPY",))


def device_work(category: str, name: str) -> ActivityKind | None:
    """The kind of device work that a slice is; None for a host slice."""
    if category == ACCELERATOR:
        return "copy" if name in _COPIES else "sync" if name in _WAITS else "kernel"
    return GPU_CATEGORIES.get(category)


def device_label(label: str) -> tuple[str, int] | None:
    """Name and number of the device that a process represents, such as `GPU 0` or `MTIA 17`."""
    match = _DEVICE.fullmatch(label.strip())
    return (label.strip(), int(match[1])) if match else None


def direction(name: str, args: dict[str, Any]) -> str:
    """The direction of a copy: `HtoD` for the name `Memcpy HtoD (Pageable -> Device)`, or for the
    argument `HOST_TO_DEVICE`."""
    if match := _DIRECTION.match(name):
        return match[1]
    ways = re.fullmatch(r"([A-Z])[A-Z]*_TO_([A-Z])[A-Z]*", str(args.get("direction", "")))
    return f"{ways[1]}to{ways[2]}" if ways else "of unknown kind"
