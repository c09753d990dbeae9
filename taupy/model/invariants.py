"""The invariants of summed measurements, and how a profile that violates one is still kept.

`check` describes what is wrong. `mended` repairs what could not be stored at
all (columns of different lengths, a parent after its child, an unknown timer); it
never changes a value that can be stored. Everything here is iterative and linear:
a tree may hold a million rows and be a hundred thousand deep.
"""

from __future__ import annotations

from _operator import le
from array import array
from math import isnan

from taupy.dataclass import replace
from taupy.model.profile import CallTree, Profile, ThreadProfile, Timer, UserEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taupy.model.gpu import Launch

CALLERS_NOT_RECORDED = Timer("(callers not recorded)", groups=("TAU_CALLPATH",))
"""Timer above rows whose callers the source does not name; it has no values of its own."""

UNKNOWN_TIMER = Timer("(unknown timer)", groups=("TAUPY_UNKNOWN",))
"""Timer of rows that refer to one the profile does not have."""


def check(profile: Profile, lawful: Sequence[bool] = ()) -> list[str]:
    """List the invariants that the profile violates, one line per invariant and thread.

    The invariants: every row has a timer and a parent that precedes it; columns have
    equal lengths; there is one root; 0 <= exclusive <= inclusive; a call path's
    inclusive is its exclusive plus its children's inclusive, its subroutines are its
    children's calls. Where some callers were not recorded, a call path's children are
    not known either, and the last two are not checked. The list is empty for a valid profile.

    Args:
        lawful: for each thread, whether its tree is known to satisfy them; () for none.
    """
    broken: list[str] = []
    cut = {at for at, timer in enumerate(profile.timers) if timer == CALLERS_NOT_RECORDED}
    for number, measured in enumerate(profile.threads):
        faults = []
        if not (lawful and lawful[number]):
            faults += _shape_faults(measured.tree, len(profile.timers))
            if not faults:
                summed = cut.isdisjoint(measured.tree.timer)
                faults += _value_faults(measured.tree, summed=summed)
        if stray := sum([_is_stray(event, measured.tree) for event in measured.user_events]):
            faults.append(f"{stray} user events refer to a missing row")
        if stray := sum([_names_no_row(launch, measured.tree) for launch in measured.launches]):
            faults.append(f"{stray} launches refer to a missing row")
        broken += [f"thread {_place(measured)}: {fault}" for fault in faults]
    places = {measured.thread.place for measured in profile.threads}
    if len(places) < len(profile.threads):
        broken.append("two threads have the same place")
    return broken


def mended(profile: Profile) -> Profile:
    """A profile that can be stored: the same one if its structure is valid.

    Otherwise missing cells become 0, unknown timers `(unknown timer)`, rows are
    reordered with parents first, and a row whose parent is missing, or that is
    its own ancestor, becomes a root. A thread with the same place as an earlier one
    gets the next free thread number.
    """
    sound = all(
        not _shape_faults(measured.tree, len(profile.timers), roots=False)
        and not any(_is_stray(event, measured.tree) for event in measured.user_events)
        and not any(_names_no_row(launch, measured.tree) for launch in measured.launches)
        for measured in profile.threads
    )
    distinct = len({measured.thread.place for measured in profile.threads}) == len(profile.threads)
    if sound and distinct:
        return profile
    taken: set[tuple[int, int, int]] = set()
    threads = []
    for measured in profile.threads:
        thread = measured.thread
        while thread.place in taken:
            thread = replace(thread, thread=thread.thread + 1)
        taken.add(thread.place)
        tree, moved = _mended_tree(measured.tree, len(profile.timers))
        events = [
            replace(event, row=None if event.row is None else moved.get(event.row))
            for event in measured.user_events
        ]
        launches = [
            replace(launch, row=moved[launch.row])
            for launch in measured.launches
            if launch.row in moved
        ]
        activities = (
            activity._replace(row=moved[activity.row])
            for activity in measured.activities
            if activity.row in moved
        )
        threads.append(
            replace(
                measured,
                thread=thread,
                tree=tree,
                user_events=events,
                launches=launches,
                activities=activities,
            )
        )
    return replace(profile, timers=[*profile.timers, UNKNOWN_TIMER], threads=threads)


def unsummed(tree: CallTree, metric: str) -> int:
    """How many rows' inclusive is not their exclusive plus their children's inclusive.

    There are such rows where a profile does not name all callers: pstats, TAU without call paths.
    """
    exclusive = _measured(tree.exclusive[metric])
    inclusive = _passed_on(tree.parent, tree.inclusive[metric])
    expected = _sums_over_children(tree.parent, inclusive, exclusive)
    pairs = zip(expected, inclusive.tolist(), strict=True)
    return sum(value != other and not _nearly(value, other) for value, other in pairs)


def _place(measured: ThreadProfile) -> str:
    thread = measured.thread
    return f"{thread.node}.{thread.context}.{thread.thread}"


def _is_stray(event: UserEvent, tree: CallTree) -> bool:
    return event.row is not None and not 0 <= event.row < len(tree)


def _names_no_row(launch: Launch, tree: CallTree) -> bool:
    return not 0 <= launch.row < len(tree)


def _shape_faults(tree: CallTree, timers: int, *, roots: bool = True) -> list[str]:
    """What keeps the tree from being walked; `roots`: also require exactly one root."""
    rows = len(tree.timer)
    columns = [tree.parent, tree.calls, tree.subroutines]
    columns += [*tree.inclusive.values(), *tree.exclusive.values()]
    if any(len(column) != rows for column in columns):
        return ["columns have different lengths"]
    faults = []
    if tree.inclusive.keys() != tree.exclusive.keys():
        odd = ", ".join(sorted(tree.inclusive.keys() ^ tree.exclusive.keys()))
        faults.append(f"metrics without both inclusive and exclusive: {odd}")
    if rows == 0:
        return faults
    if min(tree.timer) < 0 or max(tree.timer) >= timers:
        faults.append("a row refers to a missing timer")
    if min(tree.parent) < -1 or any(map(le, range(rows), tree.parent)):
        faults.append("a row's parent does not precede it")
    elif roots and (count := tree.parent.count(-1)) != 1:
        faults.append(f"{count} roots instead of one")
    return faults


def _value_faults(tree: CallTree, *, summed: bool) -> list[str]:
    """What is wrong with values; `summed`: also check the sums over children."""
    faults = []
    if len(tree) and min(tree.calls) < 0:
        faults.append("calls below 0")
    if summed:
        law = "subroutines are not the children's calls"
        entered = _sums_over_children(tree.parent, tree.calls)
        faults += _differences(law, entered, tree.subroutines)
    for metric, column in tree.inclusive.items():
        exclusive = _measured(tree.exclusive[metric])
        inclusive = _passed_on(tree.parent, column)
        if len(exclusive) and min(exclusive) < 0:
            faults.append(f"{metric}: exclusive below 0")
        if not all(map(le, exclusive, inclusive)):
            faults.append(f"{metric}: exclusive above inclusive")
        if summed:
            faults += _differences(
                f"{metric}: inclusive is not exclusive plus the children's inclusive",
                _sums_over_children(tree.parent, inclusive, exclusive),
                inclusive,
            )
    return faults


def _measured(column: array[int]) -> array[int]:
    """The column with 0 where nothing was measured: such rows add nothing to others."""
    if column.typecode != "d" or not any(map(isnan, column)):
        return column
    return array("d", [0 if isnan(value) else value for value in column])  # type: ignore[return-value]


def _passed_on(parent: array[int], column: array[int]) -> array[int]:
    """The column with rows lacking a value given their children's sum, for the rows above.

    Counters read at regions only have values on a few call paths, with others in between.
    """
    if column.typecode != "d" or not any(map(isnan, column)):
        return column
    passed = [0.0 if isnan(value) else value for value in column]
    for row in range(len(passed) - 1, 0, -1):
        above = parent[row]
        if 0 <= above < row and isnan(column[above]):
            passed[above] += passed[row]
    return array("d", passed)  # type: ignore[return-value]


def _sums_over_children(
    parent: array[int], values: array[int], start: array[int] | None = None
) -> list[int]:
    """For each row, the sum of its children's values, added to `start`."""
    sums = start.tolist() if start is not None else [0] * len(parent)
    sums.append(0)  # index -1, the parent of roots
    for above, value in zip(parent, values, strict=True):
        sums[above] += value
    sums.pop()
    return sums


def _differences(law: str, expected: list[int], stored: array[int]) -> list[str]:
    values = stored.tolist()
    if expected == values:
        return []
    wrong = [
        row
        for row, (wanted, other) in enumerate(zip(expected, values, strict=True))
        if wanted != other and not _nearly(wanted, other)
    ]
    if not wrong:
        return []
    first = wrong[0]
    return [f"{law} on {len(wrong)} rows (row {first}: {values[first]}, not {expected[first]})"]


def _nearly(value: float, other: float) -> bool:
    """Equality that allows for rounding in sums of real numbers; integers must be equal."""
    if isinstance(value, int) and isinstance(other, int):
        return False
    return abs(value - other) <= 1e-9 * max(abs(value), abs(other))


def _mended_tree(tree: CallTree, timers: int) -> tuple[CallTree, dict[int, int]]:
    """The repaired tree, and the new position of each row."""
    rows = len(tree.timer)
    parent = [above if 0 <= above < rows else -1 for above in tree.parent[:rows]]
    parent += [-1] * (rows - len(parent))
    order = _parents_first(parent)
    moved = {row: position for position, row in enumerate(order)}

    def column(values: array[int]) -> array[int]:
        whole = values.tolist()[:rows] + [0] * (rows - len(values))
        return array(values.typecode, [whole[row] for row in order])

    metrics = sorted(tree.inclusive.keys() | tree.exclusive.keys())
    empty = array("q")
    result = CallTree(
        timer=array("q", [t if 0 <= t < timers else timers for t in column(tree.timer)]),
        parent=array("q", [moved[parent[row]] if parent[row] >= 0 else -1 for row in order]),
        calls=column(tree.calls),
        subroutines=column(tree.subroutines),
        inclusive={name: column(tree.inclusive.get(name, empty)) for name in metrics},
        exclusive={name: column(tree.exclusive.get(name, empty)) for name in metrics},
    )
    return result, moved


def _parents_first(parent: list[int]) -> list[int]:
    """The rows with parents before children; breaks cycles in `parent` by making roots."""
    placed = [False] * len(parent)
    order: list[int] = []
    for row in range(len(parent)):
        climb: list[int] = []
        seen: set[int] = set()
        here = row
        while here >= 0 and not placed[here]:
            if here in seen:
                parent[climb[-1]] = -1
                break
            seen.add(here)
            climb.append(here)
            here = parent[here]
        for step in reversed(climb):
            if not placed[step]:
                placed[step] = True
                order.append(step)
    return order
