"""What tests of formats compare: profiles as plain values, whatever the order of their rows."""

from __future__ import annotations

from collections.abc import Iterable

from taupy.model.profile import Profile
from taupy.model.progress import SILENT


def read(format, path) -> list[Profile]:
    return list(format.read(path, SILENT))


def one(format, path) -> Profile:
    (profile,) = read(format, path)
    return profile


def paths(profile: Profile, measured) -> dict[tuple, tuple]:
    """Call path -> calls, subroutines, and (inclusive, exclusive) by metric, NaN as None.

    A call path is its timers' full names and groups, from the root.
    """
    tree, found, spelled = measured.tree, {}, []
    for row, timer in enumerate(tree.timer):
        above = spelled[tree.parent[row]] if tree.parent[row] >= 0 else ()
        routine = profile.timers[timer]
        spelled.append((*above, (routine.full_name, tuple(sorted(routine.groups)))))
        assert spelled[row] not in found, "a call path stands twice"
        found[spelled[row]] = (
            tree.calls[row],
            tree.subroutines[row],
            {
                metric: (_known(tree.inclusive[metric][row]), _known(tree.exclusive[metric][row]))
                for metric in tree.inclusive
            },
        )
    return found


def short_paths(profile: Profile, measured) -> dict[str, tuple]:
    """The same with short names: "main > f" -> calls, subroutines, inclusive, exclusive of time."""
    return {
        " > ".join(name for name, _ in path): (calls, subroutines, *values["time"])
        for path, (calls, subroutines, values) in paths(profile, measured).items()
    }


def events(profile: Profile, measured) -> list[tuple]:
    spelled = list(paths(profile, measured))
    return sorted(
        (
            event.name,
            event.unit,
            () if event.row is None else spelled[event.row],
            event.count,
            *(_known(v) for v in (event.minimum, event.maximum, event.mean, event.sum_squares)),
        )
        for event in measured.user_events
    )


def threads(profiles: Iterable[Profile]) -> dict[tuple, tuple]:
    """Place -> thread, call paths and events, of all parts of a trial."""
    found = {}
    for profile in profiles:
        for measured in profile.threads:
            thread = measured.thread
            place = (thread.node, thread.context, thread.thread)
            assert place not in found
            found[place] = (thread, paths(profile, measured), events(profile, measured))
    return found


def flat(measured) -> dict[int, list]:
    """Timer -> calls, subroutines, inclusive (outermost rows), exclusive, of time.

    Worked out as the database does, but the slow and plain way.
    """
    tree, found = measured.tree, {}
    for row, timer in enumerate(tree.timer):
        sums = found.setdefault(timer, [0, 0, 0, 0])
        sums[0] += tree.calls[row]
        sums[1] += tree.subroutines[row]
        sums[3] += tree.exclusive["time"][row]
        above = tree.parent[row]
        while above >= 0 and tree.timer[above] != timer:
            above = tree.parent[above]
        if above < 0:
            sums[2] += tree.inclusive["time"][row]
    return found


def flat_by_name(profile: Profile, measured) -> dict[str, tuple]:
    """The same by full name; timers that did nothing are left out."""
    return {
        profile.timers[timer].full_name: tuple(sums)
        for timer, sums in flat(measured).items()
        if any(sums)
    }


def _known(value: float) -> float | None:
    return value if value == value else None
