"""Trials of half_hour.sh beside what was written down beforehand.

    python tests/gpu/expected.py DATABASE TRIAL...

Prints a line for each value: what it is of, what must be, what is. Ends with 1 where one differs or
a trial is not there.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from taupy.errors import TaupyError
from taupy.model.profile import Profile, ThreadProfile
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from tests.gpu.comparison import share_with_owner
from tests.gpu.programs import contexts, ends, gemms, jax_steps


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
    if name == "jax":
        return list(jitted(profile, jax_steps.EXPECTED))
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
