"""Translate names of timers, groups, metrics and user events between TAU and taupy.

Round trips lose nothing: a name that cannot be split without changing its spelling is kept whole.
"""

from __future__ import annotations

import re

from taupy.model import kernel_names
from taupy.model.invariants import CALLERS_NOT_RECORDED
from taupy.model.profile import TIME, Metric, Timer

ARROW = " => "
CALLPATH_GROUP = "TAU_CALLPATH"
ROOT_NAMES = (".TAU application", ".taupy application")

CUT = CALLERS_NOT_RECORDED

MICROSECOND_NS = 1000

_OURS = {
    "TAU_PYTHON": "PYTHON",
    "TAU_PYTHON_C": "PYTHON_C",
    "TAU_USER": "USER",
    "TAU_PHASE": "PHASE",
    "TAU_DISABLE": "THROTTLED",
    "TAU_CUDA_API": "CUDA_API",
    "TAU_GPU_KERNEL": "GPU_KERNEL",
    "TAU_GPU_MEMORY_COPY": "GPU_COPY",
    "TAU_GPU_SYNCHRONIZATION": "GPU_SYNC",
    "TAU_GPU_NO_OWNER": "GPU_NO_OWNER",
    "TAU_TAUPY": "TAUPY",
}
_TAUS = {ours: taus for taus, ours in _OURS.items()}

# taupy also writes timers as `f [{file}{12}]`; other forms are split for display only.
_OUR_PLACE = re.compile(r"(.*) \[\{([^{}]+)\}\{([1-9][0-9]{0,8})\}\]", re.DOTALL)
_ANY_PLACE = re.compile(r"(.+?) ?\[\{([^{}]*)\} ?\{?[0-9,{}-]*\}?\](?: \[THROTTLED\])?", re.DOTALL)
_EVENT_UNIT = re.compile(r"(.*\S) \(([^()]{1,24})\)", re.DOTALL)

# Other clocks than TIME that TAU reports in microseconds.
_CLOCKS = re.compile(r"(?:.*_)?(?:TIME|CLOCK|CLOCK_GET_TIME|LINUX_TIMERS|GET_TIME_OF_DAY)(?:_.*)?")


def timer(name: str, groups: str) -> Timer:
    """The timer with this name in TAU; its `full_name` is equal to that name."""
    ours = our_groups(groups)
    if "GPU_KERNEL" in ours:
        short = kernel_names.short_name(name)
        return Timer(name, groups=ours, short=short if short != name else None)
    if match := _OUR_PLACE.fullmatch(name):
        routine, file, line = match.groups()
        parsed = Timer(routine, file, int(line), ours)
        if parsed.full_name == name:
            return parsed
    if match := _ANY_PLACE.fullmatch(name):
        return Timer(name, groups=ours, path=match[2] or None, short=match[1])
    return Timer(name, groups=ours)


def our_groups(groups: str) -> tuple[str, ...]:
    """Our groups for TAU's, such as `TAU_PYTHON|TAU_USER`, with or without blanks; at least one."""
    translated = [
        _OURS.get(group, group) for group in (part.strip() for part in groups.split("|")) if group
    ]
    return tuple(dict.fromkeys(translated)) or ("TAU_DEFAULT",)


def tau_groups(groups: tuple[str, ...]) -> str:
    """TAU's groups for ours."""
    return "|".join(dict.fromkeys(_TAUS.get(group, group) for group in groups)).replace('"', "'")


def metric(name: str) -> Metric:
    """Our metric for TAU's: TIME is `time` in nanoseconds, others keep name and values."""
    if name.upper() in ("TIME", ""):
        return TIME
    if _CLOCKS.fullmatch(name):
        return Metric(name, "us")
    return Metric(name, "count")


def metric_name(metric: Metric) -> str:
    """TAU's name for our metric; values in nanoseconds are written in microseconds."""
    return "TIME" if metric == TIME else metric.name


def folder_name(metric_name: str) -> str:
    """TAU's folder for a metric: `_` replaces characters that file systems may reject."""
    return "MULTI__" + re.sub(r'[/\\?%*:|"<>= ]', "_", metric_name)


def event(name: str) -> tuple[str, str]:
    """The name and unit of an event such as `Bytes copied (bytes)`; the unit may be empty."""
    if match := _EVENT_UNIT.fullmatch(name):
        return match[1], match[2]
    return name, ""


def event_name(name: str, unit: str) -> str:
    """A user event's name with its unit, for which TAU's files have no field."""
    return f"{name} ({unit})" if unit else name
