"""Whether trials are comparable: find differences between them that are not results of the program.

The input is the metadata of the trials, name -> value; the output lists the entries that differ,
with their kind. An entry that varies within one side (its repeated runs) is noise and is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from taupy.model import command_line

Kind = Literal["arguments", "input", "machine", "clocks", "versions", "instrumentation", "outcome"]
KINDS: tuple[Kind, ...] = get_args(Kind)

TOLERANCE = 0.05
"""Relative tolerance for clocks and the like, which differ from run to run."""

_KINDS: tuple[tuple[Kind, str], ...] = (
    ("clocks", r"(?i).*\b(clock|clocks|mhz|frequency)\b.*|(?i:.*clockrate.*)"),
    (
        "instrumentation",
        r"taupy\.(engine|version|source|option\..*|collector.*)"
        r"|taupy\.counters\.(read|events|native_threads|not_self_tested)"
        r"|taupy\.health\.(throttled|dropped.*|lost.*|cut_off|gpu.*|recursion|profile_hook)"
        r"|TAU .*|TAU_.*|Metric Name|time source|.* convention|(nsys|ncu|cupti)[. ].*"
        r"|trace (with_.*|record_shapes|profile_memory|schemaVersion)",
    ),
    ("arguments", r"Application|Command Line|Arguments|PYTHON(?!_).*"),
    (
        "machine",
        r"Hostname|trace host_name|distributed world_size"
        r"|CPU (Type|Vendor|Cores|Cores Allowed)|Memory Size|Cache Size|OS Machine"
        r"|Nodes|GPU \d+ .*(Power Limit|Mode)|GPU.*\b(Name|UUID|[Cc]ompute ?Capability.*"
        r"|Multiprocessors|numMultiprocessors)|GPUs|CUDA_(?!VISIBLE).*|GPU Count"
        r"|OMP_.*|MKL_.*|OPENBLAS_.*|NUMEXPR_.*|NUMBA_.*|GOMP_.*|KMP_.*|VECLIB_.*"
        r"|MALLOC_ARENA_MAX|WORLD_SIZE|LOCAL_WORLD_SIZE|SLURM_(CPUS|NTASKS|JOB_NUM).*"
        r"|OMPI_COMM_WORLD_SIZE|TF_.*|TORCH_.*|PYTORCH_.*",
    ),
    (
        "versions",
        r"(?i).*\b(version|driver|cuda|cudnn|blas|release|compiler|implementation|distribution)\b.*"
        r"|OS Name|PYTHON_GIL|(trace|distributed) .*_version",
    ),
    ("outcome", r"State|Exit Code"),
)

# Metadata that differs between any two runs and does not affect comparability.
_PASSING = re.compile(
    r"Starting Timestamp|Ending Timestamp|Timestamp|Local Time|UTC Time|pid|tid|Process ID"
    r"|Parent Process ID|Context Switches.*|Page Faults.*|CPU Time.*|Peak .*|CWD|Executable"
    r"|Python Executable|Git .*|Username|File Type.*|Trial.*|OS Version|Engine|LANG|LC_ALL|TZ"
    r"|.*JOB_?ID|.*STEP_ID|.*NODEID|.*PROCID|.*LOCALID|.*RANK|SLURM_JOB_(NAME|PARTITION)"
    r"|taupy\..*|Memory (Free|Available).*|Threads|Process Name|CUPTI Library"
    r"|GPU.*\b(PCI|Bus|Temperature|Power|Utilization|Free|Used)\b.*|CUDA_VISIBLE_DEVICES|CONDA_DEFAULT_ENV|PYTHONUNBUFFERED"
    r"|PYTHONDONTWRITEBYTECODE|Description|repeat(\.run)?|sweep(\.over)?|gate(\.side)?"
    r"|trace (trace_id|traceName|displayTimeUnit)|distributed rank"
)

_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)\s*")


class Difference(NamedTuple):
    """An entry that differs. `values` has the first side's value, then each other side's;
    several values are joined by `, `; empty if a side lacks the entry."""

    kind: Kind
    name: str
    values: tuple[str, ...]

    @property
    def text(self) -> str:
        """`other clocks: GPU Clock was 1980, is 1410`."""
        first, *others = [value or "(none)" for value in self.values]
        return f"other {self.kind}: {self.name} was {first}, is {' / '.join(others)}"


def differences(sides: Sequence[Sequence[Mapping[str, str]]]) -> list[Difference]:
    """Differences that make the sides hard to compare, by kind.

    If the GPUs are different models, their individual properties (`GPU 0 Core Clock`) naturally
    differ and are omitted.

    Args:
        sides: metadata of each side's trials, including attributes of the trial
            (`Application`, `State`, `Exit Code`, `Nodes`, `Threads`).
    """
    names: dict[str, None] = {}
    for side in sides:
        for facts in side:
            names.update(dict.fromkeys(facts))
    apart = []
    for name in names:
        kind = kind_of(name)
        if kind is None:
            continue
        values = [[_meant(name, facts.get(name, "")) for facts in side] for side in sides]
        if _differ(values, kind):
            shown = tuple(_listed(side, name, values[at]) for at, side in enumerate(sides))
            apart.append(Difference(kind, name, shown))
    apart.sort(key=lambda difference: KINDS.index(difference.kind))
    if any(difference.name == "GPUs" for difference in apart):
        return [difference for difference in apart if not re.match(r"GPU \d", difference.name)]
    return apart


def kind_of(name: str) -> Kind | None:
    """The kind of an entry; None for those that differ between any two runs.

    A name unknown to taupy comes from the program and describes its input.
    """
    if "overhead" in name:
        return None
    for kind, pattern in _KINDS:
        if re.fullmatch(pattern, name):
            return kind
    return None if _PASSING.fullmatch(name) else "input"


def within(facts: Sequence[Mapping[str, str]]) -> list[Difference]:
    """Differences between the trials of one side, which should be repeated runs."""
    if len(facts) < 2:
        return []
    first = facts[0]
    apart: dict[str, Difference] = {}
    for other in facts[1:]:
        for difference in differences([[first], [other]]):
            if difference.kind != "clocks":
                apart.setdefault(difference.name, difference)
    return [
        difference
        for name, difference in apart.items()
        if difference.kind != "input" or not _result(facts, name)
    ]


def _result(facts: Sequence[Mapping[str, str]], name: str) -> bool:
    """A different fraction in every run is a result of the program, such as its loss."""
    values = [trial_facts.get(name, "") for trial_facts in facts]
    if len(set(values)) < len(values):
        return False
    try:
        return any(not _number(value).is_integer() for value in values)
    except ValueError:
        return False


def _meant(name: str, value: str) -> str:
    """The relevant part of a value; of a command line, the script and its arguments."""
    return command_line.meant(value) if name == "Command Line" else value


def _listed(side: Sequence[Mapping[str, str]], name: str, values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _differ(values: Sequence[Sequence[str]], kind: Kind) -> bool:
    """Whether any side differs from the first. Ranges of sides that vary must not overlap."""
    first = set(values[0])
    for other in map(set, values[1:]):
        if first == other:
            continue
        if first & other and (len(first) > 1 or len(other) > 1):
            continue  # it varies from run to run
        if kind == "clocks" and _near(values[0], [*other]):
            continue
        if len(first) > 1 and len(other) > 1 and kind == "input":
            continue  # a result of the program, different in each run
        return True
    return False


def _near(first: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the two ranges of numbers overlap, within the tolerance."""
    try:
        ones, others = [_number(text) for text in first], [_number(text) for text in other]
    except ValueError:
        return False
    return max(ones) * (1 + TOLERANCE) >= min(others) and max(others) * (1 + TOLERANCE) >= min(ones)


def _number(text: str) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return float(match[1])
