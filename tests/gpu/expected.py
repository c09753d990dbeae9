"""Trials of half_hour.sh beside what was written down beforehand.

    python tests/gpu/expected.py DATABASE TRIAL...

Prints a line for each value: what it is of, what must be, what is. Ends with 1 where one differs or
a trial is not there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from taupy.errors import TaupyError
from taupy.model.gpu import Activity
from taupy.model.profile import Profile, ThreadProfile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from tests.gpu.comparison import share_with_owner
from tests.gpu.programs import contexts, ends, gemms, jax_steps, nccl_rank, two_gpus


class Line(NamedTuple):
    """One value of a trial."""

    what: str
    expected: str
    found: str
    holds: bool


def _equal(what: str, expected: float, found: float | None) -> Line:
    text = "nothing" if found is None else f"{found:,}"
    return Line(what, f"{expected:,}", text, found == expected)


LAUNCHES = {
    "contexts": ("spin", contexts.EXPECTED),
    "pycuda": ("axpy", {"axpy_in_chunks": 10}),
}
"""Trial -> its kernel, and routine -> launches of that kernel below it."""


def of_trial(name: str, profile: Profile) -> list[Line]:
    """What was written down of a trial of this name."""
    if name == "copies":
        return list(copied(profile, gemms.EXPECTED))
    if name == "tensor":
        return list(counted(profile, gemms.EXPECTED))
    if name.startswith("jax"):
        return list(jitted(profile, jax_steps.EXPECTED))
    if name == "nccl":
        count = _calls(profile, "PYTHON")[nccl_rank.EXPECTED["routine"]]
        return [_equal("calls of all_reduce", nccl_rank.EXPECTED["calls"], count)]
    if name in ("first", "second"):
        return list(refused(profile))
    if name.startswith("two_gpus"):
        return list(trained(profile, two_gpus.expected()))
    if name in LAUNCHES:
        return list(launched(profile, *LAUNCHES[name]))
    return list(ended(profile, name.removeprefix("ends-")))


def copied(profile: Profile, expected: dict[str, dict[str, int]]) -> Iterator[Line]:
    """Bytes of copies, by routine and direction."""
    for routine, of in expected.items():
        for copy, value in of.items():
            if copy.startswith("Memcpy "):
                found = [
                    launch.bytes or 0
                    for measured in _streams(profile)
                    for launch in measured.launches
                    if _name(profile, measured, launch.row) == copy
                    and routine in _above(profile, measured, launch.row)
                ]
                yield _equal(f"{routine}, bytes of {copy}", value, sum(found) if found else None)


def counted(profile: Profile, expected: dict[str, dict[str, int]]) -> Iterator[Line]:
    """Counters, by routine."""
    for routine, of in expected.items():
        for counter, value in of.items():
            if not counter.startswith("Memcpy "):
                found = [
                    measured.tree.inclusive[counter][row]
                    for measured in _streams(profile)
                    for row in range(len(measured.tree))
                    if _name(profile, measured, row) == routine
                    and counter in measured.tree.inclusive
                ]
                yield _equal(f"{routine}, {counter}", value, sum(found) if found else None)


def launched(profile: Profile, kernel: str, expected: dict[str, int]) -> Iterator[Line]:
    """Launches of one kernel, by routine."""
    for routine, count in expected.items():
        found = _launches(profile, lambda above, routine=routine: routine in above)
        yield _equal(f"{routine}, launches of {kernel}", count, found[kernel])


def refused(profile: Profile) -> Iterator[Line]:
    """A run with counters while another has them: its kernels, and a word on the counters."""
    launches = _launches(profile, lambda above: True).total()
    yield Line("launches", "some", f"{launches:,}", launches > 0)
    counted = [metric.name for metric in profile.metrics if metric.name.startswith("flop")]
    notes = [
        text for name, text in profile.metadata.items()
        if name.startswith("taupy.health.") and "counter" in text
    ]  # fmt: skip
    found = ", ".join([*counted, *notes])
    yield Line("counters", "flop, or why there are none", found or "nothing", bool(found))


def jitted(profile: Profile, expected: dict[str, object]) -> Iterator[Line]:
    """Launches of the kernels of a compiled function below the routine that calls it. Kernels that
    fill its arguments are launched less often."""
    routine, steps = (str(value) for value in expected.values())
    launches = _launches(profile, lambda above: routine in above)
    of_step = {kernel: count for kernel, count in launches.items() if count >= int(steps)}
    odd = {kernel: count for kernel, count in of_step.items() if count != int(steps)}
    found = f"{len(of_step)} kernels, {len(odd)} of them otherwise {odd or ''}".strip()
    yield Line(f"launches of kernels of {routine}", f"each {steps}", found,
               bool(of_step) and not odd)  # fmt: skip
    share = f"{share_with_owner(profile):.4f}"
    yield Line("share of GPU time with a call path", "less than 1 (compiling)", share, True)


def trained(profile: Profile, expected: dict[str, Any]) -> Iterator[Line]:
    """What `two_gpus.py --expected` prints. Calls of operators are in trials of `--operators` only,
    and times in which the GPU is idle in those of `--trace`."""
    for what, count in expected["launches"].items():
        yield _equal(what, count, _COUNTED[what](profile))
    operators = _calls(profile, "OPERATOR")
    for operator, count in expected["operators"].items() if operators else ():
        yield _equal(f"calls of {operator}", count, operators.get(operator))
    for routine, copies in expected["copied_bytes"].items():
        for copy, value in copies.items():
            found = [
                launch.bytes or 0
                for measured in _streams(profile)
                for launch in measured.launches
                if _name(profile, measured, launch.row) == copy
                and _is_under(profile, measured, launch.row, routine)
            ]
            yield _equal(f"{routine}, bytes of {copy}", value, sum(found) if found else None)
    for routine, value in expected["allocated_bytes"].items():
        yield _equal(f"{routine}, bytes allocated", value, _allocated(profile, routine))
    marks, ranges = _noted(profile, "NVTX mark "), _noted(profile, "NVTX range ")
    for mark, count in expected["nvtx"]["marks"].items():
        yield _equal(f"NVTX marks {mark}", count, marks.get(mark))
    for name in expected["nvtx"]["started"]:
        yield _equal(f"NVTX range {name}", 1, ranges.get(name))
    phases = _calls(profile, "PHASE")
    yield _equal("element-wise, calls", expected["nvtx"]["element-wise"], phases["element-wise"])
    for name, count in expected["record_function"].items():
        yield _equal(f"{name}, calls", count, phases[name])
    times = Counter[str]()
    for measured in _streams(profile):
        for launch in measured.launches:
            if launch.bytes is None:
                times[_name(profile, measured, launch.row)] += launch.time_ns
    if times:
        (kernel, time_ns), limit = times.most_common(1)[0], expected["largest_share"]
        share = time_ns / times.total()
        yield Line("largest share of GPU time", f"at most {limit}", f"{share:.3f}, {kernel}",
                   share <= limit)  # fmt: skip
    if _activities(profile):
        yield from _idle(profile, expected)


_COUNTED = {
    "loaded_late": lambda profile: _launches(profile, lambda above: True)["loaded_late"],
    "cudaGraphLaunch": lambda profile: _calls(profile, "CUDA_API")["cudaGraphLaunch"],
    "kernels of the graph": lambda profile: _of_graph(profile),
}


def _of_graph(profile: Profile) -> int:
    """By their nodes; without a trace by the routine, which may fill seeds, too."""
    if activities := _activities(profile):
        return sum(one.graph_node is not None for one in activities)
    return _launches(profile, lambda above: _has(above, "replay_graph")).total()


def _has(above: set[str], routine: str) -> bool:
    return any(name.rpartition(".")[2] == routine for name in above)


def _is_under(profile: Profile, measured: ThreadProfile, row: int, routine: str) -> bool:
    return _has(_above(profile, measured, row), routine)


def _calls(profile: Profile, group: str) -> Counter[str]:
    """Calls of the timers of a group, by name."""
    found: Counter[str] = Counter()
    for measured in profile.threads:
        if measured.thread.kind == "host":
            for row, timer in enumerate(measured.tree.timer):
                if group in profile.timers[timer].groups:
                    found[profile.timers[timer].name] += measured.tree.calls[row]
    return found


def _noted(profile: Profile, beginning: str) -> Counter[str]:
    """How often user events with such names were noted, by the rest of the name."""
    found: Counter[str] = Counter()
    for measured in profile.threads:
        for event in measured.user_events:
            if event.row is not None and event.name.startswith(beginning):
                found[event.name.removeprefix(beginning)] += event.count
    return found


def _allocated(profile: Profile, routine: str) -> int | None:
    """Bytes of GPU memory that were allocated below a routine."""
    found = [
        round(event.count * event.mean)
        for measured in profile.threads
        for event in measured.user_events
        if event.name.startswith("GPU memory allocated")
        and event.row is not None
        and (
            _is_under(profile, measured, event.row, routine)
            or _name(profile, measured, event.row).rpartition(".")[2] == routine
        )
    ]
    return sum(found) if found else None


def _activities(profile: Profile) -> list[Activity]:
    """What ran on GPUs, in order of time."""
    found = [
        activity
        for measured in _streams(profile)
        for activity in measured.activities
        if activity.kind in ("kernel", "copy", "memset")
    ]
    return sorted(found, key=lambda activity: activity.start_ns)


def _idle(profile: Profile, expected: dict[str, Any]) -> Iterator[Line]:
    """The longest time without GPU work, or that of copies alone, in each step that plans one."""
    busy = united(_activities(profile))
    kernels = united(one for one in _activities(profile) if one.kind == "kernel")
    gaps = [(end, begin) for (_, end), (begin, _) in pairwise(busy)]
    for planned in expected["idle"]:
        if planned["step"] is None:
            continue
        within = step_window(profile, expected["steps"]["warm-up"] + planned["step"])
        if planned["cause"] == "copies only":
            found = overlap(busy, within) - overlap(kernels, within)
        else:
            found = max((overlap([gap], within) for gap in gaps), default=0)
        what = f"step {planned['step']}, ns of {planned['cause']}"
        at_least = planned["at_least_ns"]
        yield Line(what, f"at least {at_least:,}", f"{found:,}", found >= at_least)


Span = tuple[int, int]


def united(activities: Iterable[Activity]) -> list[Span]:
    """The times in which at least one of the activities, which are in order, was under way."""
    spans: list[Span] = []
    for one in activities:
        if spans and one.start_ns <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], one.end_ns))
        else:
            spans.append((one.start_ns, one.end_ns))
    return spans


def overlap(spans: Iterable[Span], within: Span) -> int:
    """Nanoseconds of the spans within another."""
    return sum(max(0, min(end, within[1]) - max(begin, within[0])) for begin, end in spans)


def step_window(profile: Profile, number: int) -> Span:
    """Begin and end of a step of the training, the first being 1; empty if it is not known."""
    for measured in profile.threads:
        for steps in measured.steps:
            if steps.kind == "training" and number in steps.number:
                at = steps.number.index(number)
                return steps.start_ns[at], steps.start_ns[at] + steps.time_ns[at]
    return 0, 0


def ended(profile: Profile, mode: str) -> Iterator[Line]:
    """Launches and activities of the addition of `ends.py`."""
    times = 2 if mode == "profiler" else 1
    launches = _launches(profile, lambda above: "train" in above)
    most = max(launches.values(), default=0)
    lent = profile.metadata.get("taupy.health.gpu_lent")
    if lent:
        yield Line(
            f"ends {mode}, launches", f"{times * ends.LAUNCHES:,}", f"{most:,}; {lent}", True
        )
        return
    yield _equal(f"ends {mode}, launches", times * ends.LAUNCHES, most)
    activities = Counter(
        _name(profile, measured, activity.row)
        for measured in _streams(profile)
        for activity in measured.activities
    )
    found = activities.most_common(1)[0][1] if activities else 0
    yield _equal(f"ends {mode}, activities", times * ends.LAUNCHES, found)


def _launches(profile, wanted) -> Counter[str]:
    """Launches of each kernel whose call path is wanted."""
    found: Counter[str] = Counter()
    for measured in _streams(profile):
        for launch in measured.launches:
            if wanted(_above(profile, measured, launch.row)) and launch.bytes is None:
                found[_name(profile, measured, launch.row)] += launch.count
    return found


def _streams(profile: Profile) -> list[ThreadProfile]:
    return [measured for measured in profile.threads if measured.thread.kind == "stream"]


def _name(profile: Profile, measured: ThreadProfile, row: int) -> str:
    return profile.timers[measured.tree.timer[row]].name


def _above(profile: Profile, measured: ThreadProfile, row: int) -> set[str]:
    found = set()
    while (row := measured.tree.parent[row]) >= 0:
        found.add(_name(profile, measured, row))
    return found


def main(database: str, names: list[str]) -> int:
    holds = True
    try:
        with ProfileDB.open(database, create=False, readonly=True) as db:
            known = {trial.name: trial.id for trial in db.trials()}
            for name in names:
                if name not in known:
                    lines = [Line(name, "a trial", "nothing", False)]
                else:
                    lines = of_trial(name, read_profile(db, known[name]))
                for line in lines:
                    print(f"{'ok     ' if line.holds else 'DIFFERS'} {name}: {line.what}: "
                          f"{line.expected} expected, {line.found}")  # fmt: skip
                    holds &= line.holds
    except TaupyError as problem:
        sys.exit(str(problem))
    return 0 if holds else 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
