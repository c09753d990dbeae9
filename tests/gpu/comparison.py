"""A trial of ours beside torch.profiler's trace of the same work: kernels, copies, calls, names.

    python -m tests.gpu.comparison DATABASE TRACE.json

prints what differs, and how much of the GPU time has a call path; it ends with 1 if anything does.
Needs no GPU: both sides are files. `test_against_torch.py` makes them on one, and
tests/unit/collectors/test_torch_comparison.py with the played one.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from taupy.model.gpu import NO_OWNER
from taupy.model.kernel_names import demangled, short_name
from taupy.model.profile import Profile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile

CALLS = re.compile(
    r"cudaLaunch(Cooperative)?Kernel(ExC)?|cuLaunchKernel(Ex)?|cudaGraphLaunch"
    r"|cuda(Memcpy|Memset)(2D|3D|Peer|FromSymbol|ToSymbol)?(Async)?"
)
"""Calls that put work on a GPU. torch.profiler makes some of the others itself, to begin and to
end; and each side leaves out calls of its choice that only ask."""

SHARE_OF_TIME = 0.05
"""Two runs are two runs: their sums of GPU time agree so far."""

MISSING = (
    *("gpu", "gpu_calls", "gpu_dropped", "gpu_flush", "gpu_folded", "gpu_kinds", "gpu_lent"),
    *("gpu_lost", "gpu_refused", "gpu_states", "gpu_taken", "gpu_untimed", "gpu_walk"),
)
"""Names of health metadata that say that something of the GPU's work is missing."""


@dataclass
class Work:
    """What ran on GPUs, summed up by name.

    Attributes:
        kernels: demangled name -> launches, ns.
        copies: `Memcpy HtoD`, `Memset` -> how many, bytes.
        calls: function of CUDA's API that put work on a GPU -> calls.
    """

    kernels: dict[str, list[int]] = field(default_factory=dict)
    copies: dict[str, list[int]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)


def _add(sums: dict[str, list[int]], name: str, count: int, value: int) -> None:
    known = sums.setdefault(name, [0, 0])
    known[0] += count
    known[1] += value


def stored(database: Path, name: str | None = None) -> Profile:
    """The newest trial, or the newest of this name."""
    with ProfileDB.open(str(database), create=False, readonly=True) as db:
        trials = [trial.id for trial in db.trials() if name in (None, trial.name)]
        return read_profile(db, max(trials))


def of_profile(profile: Profile) -> Work:
    work = Work()
    for measured in profile.threads:
        for launch in measured.launches:
            timer = profile.timers[measured.tree.timer[launch.row]]
            if "GPU_KERNEL" in timer.groups:
                _add(work.kernels, timer.name, launch.count, launch.time_ns)
            else:
                _add(work.copies, timer.name, launch.count, launch.bytes or 0)
        for row, place in enumerate(measured.tree.timer):
            timer = profile.timers[place]
            if "CUDA_API" in timer.groups and CALLS.fullmatch(timer.name):
                work.calls[timer.name] += measured.tree.calls[row]
    return work


def of_trace(trace: Path) -> Work:
    """What torch.profiler's Chrome trace says."""
    work = Work()
    for event in json.loads(trace.read_text())["traceEvents"]:
        category, name = event.get("cat"), event.get("name", "")
        if category == "kernel":  # names of more than 1024 characters are left mangled
            _add(work.kernels, demangled(name), 1, round(event["dur"] * 1000))
        elif category in ("gpu_memcpy", "gpu_memset"):  # "Memcpy HtoD (Pageable -> Device)"
            _add(work.copies, name.partition(" (")[0], 1, event["args"]["bytes"])
        elif category in ("cuda_runtime", "cuda_driver") and CALLS.fullmatch(name):
            work.calls[name] += 1
    return work


def differences(ours: Work, theirs: Work) -> list[str]:
    """In words; [] where kernels, copies and calls are the same, and the times agree."""
    found = [
        *_unequal("launches of", *map(_first, _by_common_names(ours.kernels, theirs.kernels))),
        *_unequal("copies:", _first(ours.copies), _first(theirs.copies)),
        *_unequal("bytes of", _second(ours.copies), _second(theirs.copies)),
        *_unequal("calls of", ours.calls, theirs.calls),
    ]
    time, expected = (sum(_second(each.kernels).values()) for each in (ours, theirs))
    if abs(time - expected) > SHARE_OF_TIME * expected:
        found.append(f"GPU time: {time} ns, torch.profiler {expected} ns")
    return found


def missing(profile: Profile) -> list[str]:
    """What the trial says is missing of the GPU's work."""
    names = {f"taupy.health.{name}" for name in MISSING}
    return [f"{name}: {text}" for name, text in profile.metadata.items() if name in names]


def share_with_owner(profile: Profile) -> float:
    """How much of the GPU time has a call path: 0 to 1."""
    total = without = 0
    for measured in profile.threads:
        if measured.thread.kind == "stream":
            times = measured.tree.inclusive["time"]
            total += times[0]
            for row, timer in enumerate(measured.tree.timer):
                without += times[row] if profile.timers[timer].name == NO_OWNER else 0
    return 1 - without / total if total else 0.0


def _first(sums: dict[str, list[int]]) -> dict[str, int]:
    return {name: each[0] for name, each in sums.items()}


def _second(sums: dict[str, list[int]]) -> dict[str, int]:
    return {name: each[1] for name, each in sums.items()}


def _by_common_names(
    ours: dict[str, list[int]], theirs: dict[str, list[int]]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Two demanglers may set spaces and name template arguments in their own ways: names that
    only one side has are compared by their qualified names alone."""
    both = {_squeezed(name) for name in ours} & {_squeezed(name) for name in theirs}

    def common(name: str) -> str:
        return _squeezed(name) if _squeezed(name) in both else short_name(name)

    return _renamed(ours, common), _renamed(theirs, common)


def _renamed(sums: dict[str, list[int]], rename: Callable[[str], str]) -> dict[str, list[int]]:
    renamed: dict[str, list[int]] = {}
    for name, each in sums.items():
        _add(renamed, rename(name), *each)
    return renamed


def _squeezed(name: str) -> str:
    return re.sub(r"\s+", "", name)


def _unequal(what: str, ours: dict[str, int], theirs: dict[str, int]) -> Iterator[str]:
    for name in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(name, 0), theirs.get(name, 0)
        if mine != other:
            yield f"{what} {name}: {mine}, torch.profiler {other}"


def main(database: Path, trace: Path) -> int:
    if absent := [str(file) for file in (database, trace) if not file.exists()]:
        sys.exit(f"nothing to compare: {' and '.join(absent)} is not there")
    profile = stored(database)
    ours, theirs = of_profile(profile), of_trace(trace)
    found = [*differences(ours, theirs), *missing(profile)]
    for work, side in ((ours, "taupy"), (theirs, "torch.profiler")):
        sums = (work.kernels, work.copies)
        launches, copies = (sum(_first(each).values()) for each in sums)
        time = sum(_second(work.kernels).values())
        print(f"{side}: {len(work.kernels)} kernels, {launches} launches, {time} ns, "
              f"{copies} copies, {work.calls.total()} calls that launch")  # fmt: skip
    print(f"GPU time with a call path: {share_with_owner(profile):.4f}")
    print(*found or ["equal"], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*map(Path, sys.argv[1:])))
