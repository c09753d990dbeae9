"""Named sets of counters: `taupy run --metrics tau`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from taupy.catalog.counters import BY_NAME
from taupy.catalog.ratios import RATIOS
from taupy.catalog.spelling import canonical, is_perfworks, near
from taupy.errors import UsageError

_FLOP = ("flop_fp64", "flop_fp32", "flop_fp16")
_BYTES = ("bytes_dram", "bytes_l2", "bytes_l1")
_TENSOR = ("flop_tensor_fp64", "flop_tensor_tf32", "flop_tensor_fp16", "flop_tensor_bf16",
           "flop_tensor_fp8", "flop_tensor_fp4", "flop_tensor")  # fmt: skip


class CounterSet(NamedTuple):
    """Counters that are collected together. `user` sets are defined by the project."""

    name: str
    counters: tuple[str, ...]
    description: str
    user: bool = False


SETS = (
    CounterSet(
        "tau",
        ("inst_executed", "inst_issued", "warps_launched", "gld", "gst", "cycles_active",
         "cycles_elapsed", "warps_active", "warp_slots", "counted_time"),
        "the ratios of TAU's 2017 slides: warps/inst, gld/inst, inst/cycle, occupancy",
    ),
    CounterSet(
        "roofline",
        (*_FLOP, "inst_tensor", *_BYTES, "cycles_elapsed", "counted_time"),
        "operations by precision without tensor cores, bytes at three levels, time",
    ),
    CounterSet(
        "roofline-tensor",
        (*_FLOP, *_TENSOR, *_BYTES, "cycles_elapsed", "counted_time"),
        "the same with tensor operations by floating-point type (integers: flop_tensor_int8)",
    ),
    CounterSet(
        "memory",
        ("gld", "gst", "ldgsts", "tma_ld", "tma_st", "gld_requests", "gst_requests",
         "gld_sectors", "gst_sectors", *_BYTES, "inst_executed", "counted_time"),
        "how memory is accessed: instructions, requests, sectors, bytes",
    ),
    CounterSet(
        "occupancy",
        ("warps_active", "warp_slots", "warps_launched", "cycles_active", "cycles_elapsed",
         "inst_executed", "counted_time"),
        "how full the SMs are",
    ),
    CounterSet(
        "divergence",
        ("branch", "divergent_branch", "thread_inst_executed", "inst_executed", "counted_time"),
        "how a warp's threads part; counted with modified machine code, slow",
    ),
)  # fmt: skip


def sets(project: Mapping[str, object] | None = None) -> dict[str, CounterSet]:
    """All sets by name.

    Args:
        project: [tool.taupy.sets] of pyproject.toml: name = ["counter", ...].

    Raises:
        UsageError: the project's sets are not lists of names.
    """
    by_name = {counters.name: counters for counters in SETS}
    for name, listed in (project or {}).items():
        if not isinstance(listed, list) or not all(isinstance(counter, str) for counter in listed):
            raise UsageError(
                f"[tool.taupy.sets] in pyproject.toml: {name} is not a list of counter names"
            )
        by_name[name] = CounterSet(name, tuple(listed), "of this project", True)
    return by_name


def expanded(names: Iterable[str], project: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """The counters for names of sets, ratios and counters, without duplicates, by our names.

    Raises:
        UsageError: a name is neither a set, a ratio (`ratios.py`), one of our counters, a legacy
            name nor a PerfWorks metric; the message lists similar names.
    """
    project_sets = sets(project)
    names_left: dict[str, None] = {}
    waiting = [text.strip() for text in names if text.strip()][::-1]
    opened: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in project_sets and name not in opened:
            opened.add(name)
            waiting += project_sets[name].counters[::-1]
            continue
        needed = of_ratio(name)
        if needed:
            waiting += needed[::-1]
            continue
        counter = canonical(name)
        if counter is None and not is_perfworks(name):
            close = near(name, project_sets)
            more = f"; near it: {', '.join(close)}" if close else ""
            raise UsageError(f"there is no counter or set '{name}'{more}; `taupy avail` lists them")
        names_left[counter or name] = None
    return tuple(names_left)


def of_ratio(name: str) -> tuple[str, ...]:
    """The GPU counters that a predefined derived metric needs; empty for any other name."""
    if canonical(name) is not None:
        return ()
    counters: dict[str, None] = {}
    waiting = [name]
    seen: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        for ratio in RATIOS:
            if wanted in (ratio.name, *ratio.legacy) and ratio.name not in seen:
                seen.add(ratio.name)
                waiting += re.findall(r"[a-z_]\w*", ratio.expression)[::-1]
        if wanted in BY_NAME:
            counters[wanted] = None
        elif wanted == "time":
            counters["counted_time"] = None
    return tuple(counters) if set(counters) - {"counted_time"} else ()
