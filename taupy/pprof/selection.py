"""Select threads and routines by what the user typed.

threads   0.0.1, 0.*.*, 0 (a whole node), 0.1 (a whole context), all
routines  forward            the short name, or a part of the full name
          for*, *[{net.py}*  `*` and `?` as in a shell; must match the whole of either name
          /^for.*d$/         a regular expression, found anywhere in the full name
groups    PYTHON_C           case-insensitive
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from taupy.dataclass import dataclass
from taupy.errors import UsageError
from taupy.model.kinds import Named
from taupy.model.rows import EventRow, ThreadRow
from taupy.units import listing, nearest, no_such

Place = tuple[int, int, int]


ALL = "all"

Test = Callable[[Named], bool]
"""Whether a routine is selected."""

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class Selection:
    """The user's selection; empty means all. Values of one kind are joined by OR, kinds by AND."""

    threads: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def selected_threads(threads: Sequence[ThreadRow], selection: Selection) -> list[ThreadRow]:
    """The selected threads.

    Raises:
        UsageError: a pattern is invalid or matches nothing; the message lists the threads.
    """
    places = [place_text(place_of(thread)) for thread in threads]
    chosen: set[Place] = set()
    for pattern in selection.threads:
        matches = {
            place_of(thread)
            for thread in threads
            if pattern == ALL or _place_matches(pattern, thread)
        }
        if not matches:
            raise UsageError(f"no thread matches '{pattern}' (the trial has: {_list(places)})")
        chosen |= matches
    nodes = sorted({thread.node for thread in threads})
    for node in selection.nodes:
        if node not in nodes:
            raise UsageError(f"no node {node} (the trial has: {_list(map(str, nodes))})")
    return [
        thread
        for thread in threads
        if (not selection.threads or place_of(thread) in chosen)
        and (not selection.nodes or thread.node in selection.nodes)
    ]


def place_of(row: ThreadRow | EventRow) -> Place:
    """Node, context and thread of a row."""
    return row.node, row.context, row.thread


def place_text(place: Place) -> str:
    """`0.0.1`, as users write it."""
    return "{}.{}.{}".format(*place)


def routine_test(timers: Iterable[Named], selection: Selection) -> Test | None:
    """A predicate for the selected routines; None for all.

    Args:
        timers: all timers, for error messages.

    Raises:
        UsageError: a group or name matches nothing; the message lists what exists.
    """
    if not selection.groups and not selection.names:
        return None
    timers = list(timers)
    wanted = {group.upper() for group in selection.groups}
    groups = {timer.groups for timer in timers}
    for group in selection.groups:
        if not any(_in_groups(joined, {group.upper()}) for joined in groups):
            known_groups = sorted({name for joined in groups for name in joined.split("|") if name})
            raise UsageError(no_such("group", group, known_groups))
    tests = [(pattern, name_test(pattern)) for pattern in selection.names]
    named = {(timer.timer, timer.short_name) for timer in timers}
    for pattern, test in tests:
        if not any(test(*names) for names in named):
            raise UsageError(no_such_routine(pattern, named))

    def meant(timer: Named) -> bool:
        return (not wanted or _in_groups(timer.groups, wanted)) and (
            not tests or any(test(timer.timer, timer.short_name) for _, test in tests)
        )

    return meant


def name_test(pattern: str) -> Callable[[str, str], bool]:
    """A predicate on a full name and a short name.

    Raises:
        UsageError: the regular expression is invalid.
    """
    if len(pattern) > 1 and pattern[0] == pattern[-1] == "/":
        try:
            expression = re.compile(pattern[1:-1])
        except re.error as problem:
            raise UsageError(f"{pattern} is not a regular expression: {problem}") from None
        return lambda timer, short_name: expression.search(timer) is not None
    if "*" in pattern or "?" in pattern:
        whole = glob(pattern)
        return lambda timer, short_name: bool(whole.fullmatch(timer) or whole.fullmatch(short_name))
    return lambda timer, short_name: pattern in timer


def one_routine(timers: Iterable[Named], name: str) -> str:
    """The full name of the selected routine.

    Matches by full name, by short name, by last part (`forward` of `Net.forward`), or by glob.

    Raises:
        UsageError: no routine matches, or several do; the message lists them.
    """
    spelled = {(timer.timer, timer.short_name) for timer in timers}
    if any(timer == name for timer, _ in spelled):
        return name
    test = glob(name)
    matches: list[str] = []
    for fits in (
        lambda timer, short_name: short_name == name,
        lambda timer, short_name: short_name.endswith("." + name),
        lambda timer, short_name: test.fullmatch(timer) or test.fullmatch(short_name),
    ):
        matches = matches or sorted(
            {timer for timer, short_name in spelled if fits(timer, short_name)}
        )
    if not matches:
        raise UsageError(no_such_routine(name, spelled))
    if len(matches) > 1:
        raise UsageError(
            f"'{name}' matches {len(matches)} routines: {_list(matches)}; give the full name of one"
        )
    return matches[0]


def no_such_routine(pattern: str, timers: Iterable[tuple[str, str]]) -> str:
    """An error message: the request, and similar names."""
    by_short_name: dict[str, str] = {}
    for timer, short_name in sorted(timers, reverse=True):
        # The full name of a kernel is longer than a line.
        by_short_name[short_name] = timer if timer.startswith(f"{short_name} [{{") else short_name
    near = nearest(pattern, by_short_name) or sorted(by_short_name)[:_MOST_LISTED]
    names = _list([by_short_name[name] for name in near])
    examples = f"{len(by_short_name)} names, such as {names}" if by_short_name else "there are none"
    return f"no routine matches '{pattern}' ({examples}); `taupy pprof -l` lists them"


def glob(pattern: str) -> re.Pattern[str]:
    """A pattern with `*` and `?` only, since names of routines contain brackets."""
    parts = [".*" if letter == "*" else "." if letter == "?" else re.escape(letter)
             for letter in pattern]  # fmt: skip
    return re.compile("".join(parts), re.DOTALL)


def _place_matches(pattern: str, thread: ThreadRow) -> bool:
    parts = pattern.split(".")
    if len(parts) > 3 or not all(part == "*" or _is_number(part) for part in parts):
        raise UsageError(
            f"'{pattern}' is not a thread: write NODE.CONTEXT.THREAD, such as 0.0.1 or 0.*.*"
        )
    return all(
        part == "*" or int(part) == here
        for part, here in zip(parts, place_of(thread), strict=False)
    )


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit() and len(part) < 20


def _in_groups(joined: str, wanted: set[str]) -> bool:
    return any(name.upper() in wanted for name in joined.split("|"))


def _list(names: Iterable[str]) -> str:
    return listing(names, _MOST_LISTED) or "none"
