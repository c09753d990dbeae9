"""Match the timers of different trials.

A timer's id is derived from its full name, so most match directly. The others are matched by
rules; the result names the rule of each match:

    same          equal full names
    moved         the same name on another line, or in a file that has another name here
    table         a pattern of the user's table gives both the same name
    demangled     two spellings of one C++ name
    template      kernels that differ in template arguments and parameters only
    architecture  kernels that also differ in GPU generation or tile size
    api           calls of CUDA and HIP: cudaLaunchKernel, hipLaunchKernel
    outer         operators in the same outermost operator (`operator_match.py`)
    prefix        layers, without the prefix of a wrapper (`layer_match.py`)
    position      layers of one class, in the order of their first calls
    order         calls of operators, or kernels without operators, in the order of their launches
                  (`call_order.py`, `kernel_order.py`)

One file has one name, however the trials spell it (`names.one_name`). `kernel_cuts.py` shortens
kernel names. Nothing here reads names from a database or compares values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Generic, Literal, NamedTuple, TypeVar, get_args

from taupy.analysis import kernel_cuts
from taupy.errors import UsageError
from taupy.model.kernel_names import KERNEL_GROUPS, demangled, short_name
from taupy.model.kinds import Named
from taupy.model.names import one_name
from taupy.model.rows import TimerRow

Level = Literal["auto", "exact", "demangled", "template", "architecture"]
LEVELS: tuple[Level, ...] = get_args(Level)
Rule = Literal[
    "same", "moved", "table", "demangled", "template", "architecture", "api", "outer", "prefix",
    "position", "order",
]  # fmt: skip


K = TypeVar("K", bound=Hashable)
"""A timer: its id, or its names themselves."""

Places = Callable[[Collection[str]], Sequence[Mapping[str, Sequence[Hashable]]]]
"""For files that not all sides have: each side's files -> places of the file, the surest first.
Files of different sides with a place in common are the same file with another name."""

_API = re.compile(r"(?:cuda|hip)([A-Z]\w*?)(?:_v\d{4,6})?(?:_pt[sd]z)?")
"""A call of CUDA or HIP, as their profilers spell it; the group is what both names have."""

_PLACE = re.compile(r" \[\{[^{}]*\}\{\d+\}\]\Z")


class Key(NamedTuple):
    """The common key of rows of different trials. Rows with equal identities are merged."""

    identity: Hashable
    timer: str
    short_name: str
    file: str | None
    line: int | None
    groups: str
    rule: Rule


class NameTable:
    """A user's table: new name -> patterns of the names that it replaces.

    A pattern with `*` or `?` must match a whole full or short name. A pattern between slashes is a
    regular expression, searched in the full name; the new name may refer to its groups (`\\1`).
    Other patterns are whole names. The first match counts.
    """

    def __init__(self, patterns: Mapping[str, object], source: str = "the table") -> None:
        """Check a table parsed from TOML: name = "pattern" or ["pattern", ...].

        Raises:
            UsageError: the table or one of its regular expressions is invalid.
        """
        if not isinstance(patterns, Mapping) or not all(isinstance(name, str) for name in patterns):
            raise UsageError(f"{source}: it must map new names to patterns")
        self._tests: list[tuple[str, Callable[[Named], str | None]]] = []
        for name, given in patterns.items():
            texts = [given] if isinstance(given, str) else given
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise UsageError(f'{source}: "{name}" is neither a pattern nor a list of them')
            self._tests += [(name, _test(name, text, source)) for text in texts]

    def name_of(self, named: Named) -> str | None:
        """The timer's new name; None if no pattern matches."""
        for _, test in self._tests:
            name = test(named)
            if name is not None:
                return name
        return None

    def __bool__(self) -> bool:
        return bool(self._tests)


def _test(name: str, pattern: str, source: str) -> Callable[[Named], str | None]:
    if len(pattern) > 1 and pattern[0] == pattern[-1] == "/":
        try:
            expression = re.compile(pattern[1:-1])
            expand = re.search(r"\\(\d|g<)", name) is not None
        except re.error as problem:
            text = f"{source}: {pattern} is not a regular expression: {problem}"
            raise UsageError(text) from None
        try:
            if expand:
                expression.sub(name, "")  # it parses the name first
        except (re.error, IndexError) as problem:
            text = f"{source}: the name {name!r} does not suit {pattern}: {problem}"
            raise UsageError(text) from None

        def new_name(named: Named) -> str | None:
            match = expression.search(named.timer)
            if match is None:
                return None
            return match.expand(name) if expand else name

        return new_name
    if "*" in pattern or "?" in pattern:
        # Routine names are full of brackets, which are literal.
        whole = re.compile(translate(pattern.replace("[", "[[]")))
        return lambda named: (
            name if whole.match(named.timer) or whole.match(named.short_name) else None
        )
    return lambda named: name if pattern in (named.timer, named.short_name) else None


def matched(
    sides: Sequence[Mapping[K, Named]],
    level: Level = "auto",
    table: NameTable | None = None,
    places: Places | None = None,
) -> list[dict[K, Key]]:
    """Each side's timers -> the keys under which their values are added up.

    Args:
        sides: for each side, timer -> its names, over all trials of the side.
        level: how finely kernel names are distinguished. `auto` shortens each name only until it
            has a counterpart; the others shorten all kernel names alike. `exact` matches full names
            only, those of routines included.
        places: finds files that have another name on another side.
    """
    spelled, first_of = _spelled(sides)
    keys = _matched(spelled, level, table, places)
    return [
        {id: of_side[first_of.get(id, id)] for id in side}
        for side, of_side in zip(sides, keys, strict=True)
    ]


def _spelled(
    sides: Sequence[Mapping[K, Named]],
) -> tuple[Sequence[Mapping[K, Named]], dict[K, K]]:
    """The sides with one spelling of each file; and timers that are thereby the same as an earlier
    one."""
    names = {
        file: one_name(file)
        for side in sides
        for file in {named.file for named in side.values()}
        if file is not None
    }
    if all(file == name for file, name in names.items()):
        return sides, {}
    by_name: dict[tuple[str, str | None, int | None, str], K] = {}
    first_of: dict[K, K] = {}
    spelled: list[Mapping[K, Named]] = []
    # Timers that are spelled as they should be come first: their ids are the keys.
    for right in (True, False):
        for side in sides:
            for id, named in side.items():
                if (named.file is None or names[named.file] == named.file) is right:
                    name = _respelled(named, names)
                    identity = name.timer, name.file, name.line, name.groups
                    first_of[id] = by_name.setdefault(identity, id)
    for side in sides:
        spelled.append({first_of[id]: _respelled(named, names) for id, named in side.items()})
    return spelled, first_of


def _respelled(named: Named, names: Mapping[str, str]) -> Named:
    if named.file is None or names[named.file] == named.file:
        return named
    file = names[named.file]
    timer = without_place(named.timer)
    if timer != named.timer:
        timer += f" [{{{file}}}{{{named.line}}}]"
    return TimerRow(timer, named.short_name, file, named.line, named.groups)


def _matched(
    sides: Sequence[Mapping[K, Named]],
    level: Level,
    table: NameTable | None,
    places: Places | None,
) -> list[dict[K, Key]]:
    keys: list[dict[K, Key]] = [{} for _ in sides]
    facts: dict[K, Named] = {}
    for side in sides:
        facts.update(side)
    alone = _with_table(sides, facts, keys, table) if table else set(facts)
    everywhere = set(sides[0]).intersection(*map(set, sides[1:])) if sides else set()
    if level == "exact":
        _as_they_are(sides, keys, facts, alone)
        return keys
    kernels = {id for id in alone if is_kernel(facts[id])}
    calls = {id for id in alone - everywhere - kernels if "CUDA_API" in facts[id].groups.split("|")}
    _api_calls(sides, keys, facts, calls)
    _routines(sides, keys, facts, alone - kernels - calls, everywhere, places)
    if level == "auto":
        _kernels(sides, keys, facts, kernels)
    else:
        cut = _CUTS[level]
        for side, side_keys in zip(sides, keys, strict=True):
            for id in kernels & side.keys():
                side_keys[id] = _cut_key(facts[id], level, cut)
    return keys


def is_kernel(named: Named) -> bool:
    """Whether it is a GPU kernel."""
    return not KERNEL_GROUPS.isdisjoint(named.groups.split("|"))


def without_place(timer: str) -> str:
    """A routine's full name without file and line."""
    return _PLACE.sub("", timer)


# --- the rules -----------------------------------------------------------------


def _with_table(
    sides: Sequence[Mapping[K, Named]],
    facts: Mapping[K, Named],
    keys: Sequence[dict[K, Key]],
    table: NameTable,
) -> set[K]:
    """Give keys to the names in the table; leave the others."""
    left = set()
    for id, named in facts.items():
        name = table.name_of(named)
        if name is None:
            left.add(id)
            continue
        key = Key(("table", name), name, name, None, None, named.groups, "table")
        for side, side_keys in zip(sides, keys, strict=True):
            if id in side:
                side_keys[id] = key
    return left


def _as_they_are(
    sides: Sequence[Mapping[K, Named]],
    keys: Sequence[dict[K, Key]],
    facts: Mapping[K, Named],
    ids: Iterable[K],
) -> None:
    for id in ids:
        key = _key(id, facts[id], "same")
        for side, side_keys in zip(sides, keys, strict=True):
            if id in side:
                side_keys[id] = key


def _api_calls(
    sides: Sequence[Mapping[K, Named]],
    keys: Sequence[dict[K, Key]],
    facts: Mapping[K, Named],
    ids: set[K],
) -> None:
    """Match calls of the makers' interfaces that not all sides have under one name."""
    families: dict[str, list[K]] = {}
    for id in sorted(ids, key=lambda id: _names(facts[id])):
        match = _API.fullmatch(facts[id].short_name)
        families.setdefault(match[1] if match else facts[id].timer, []).append(id)
    for name, members in families.items():
        having = sum(1 for side in sides if not side.keys().isdisjoint(members))
        first = members[0]
        key = _key(("api", name), facts[first], "api")
        for id in members:
            alone = len(members) == 1 or having == 1
            for side, side_keys in zip(sides, keys, strict=True):
                if id in side:
                    side_keys[id] = _key(id, facts[id], "same") if alone else key


def _routines(
    sides: Sequence[Mapping[K, Named]],
    keys: Sequence[dict[K, Key]],
    facts: Mapping[K, Named],
    ids: set[K],
    everywhere: set[K],
    places: Places | None,
) -> None:
    """Match routines; those with the same name in one file form a family, whose lines may move."""
    families: dict[tuple[str, str | None], list[K]] = {}
    for id in ids:
        named = facts[id]
        families.setdefault((without_place(named.timer), named.file), []).append(id)
    partial: list[_Family[K]] = []
    for (name, file), members in families.items():
        if everywhere.issuperset(members):
            _as_they_are(sides, keys, facts, members)
            continue
        here = [at for at, side in enumerate(sides) if not side.keys().isdisjoint(members)]
        if file is None or len(here) == len(sides):
            _family(sides, keys, facts, name, members)
        else:
            partial.append(_Family(name, dict.fromkeys(here, file), members))
    moved = _with_moved_files(partial, places) if places and partial else partial
    for family in moved:
        _family(sides, keys, facts, family.name, family.members)


class _Family(NamedTuple, Generic[K]):
    """The routines of one name and file. `files`: their file on each side that has them."""

    name: str
    files: dict[int, str]
    members: list[K]


def _with_moved_files(families: Sequence[_Family[K]], places: Places) -> Sequence[_Family[K]]:
    """Join families of one name whose files have a place in common, if no side has two of them."""
    of_sides = places({file for family in families for file in family.files.values()})
    ranks = max((len(kinds) for side in of_sides for kinds in side.values()), default=0)
    for rank in range(ranks):
        together: dict[Hashable, list[_Family[K]]] = {}
        for number, family in enumerate(families):
            at_rank = {
                of_sides[side].get(file, ())[rank : rank + 1] for side, file in family.files.items()
            }
            place = at_rank.pop() if len(at_rank) == 1 else ()
            together.setdefault((family.name, place) if place else number, []).append(family)
        families = [joined for group in together.values() for joined in _joined(group)]
    return families


def _joined(families: Sequence[_Family[K]]) -> Sequence[_Family[K]]:
    having = sorted(side for family in families for side in family.files)
    if len(families) == 1 or len(set(having)) < len(having):
        return families
    files = {side: file for family in families for side, file in family.files.items()}
    members = [id for family in families for id in family.members]
    return [_Family(families[0].name, files, members)]


def _family(
    sides: Sequence[Mapping[K, Named]],
    keys: Sequence[dict[K, Key]],
    facts: Mapping[K, Named],
    name: str,
    members: Sequence[K],
) -> None:
    """Match the routines of one name.

    If two lambdas of a file move down by a few lines, each must be matched with its own
    counterpart. Therefore, members of a family whose lines differ between the sides are paired in
    order of lines; if even their number differs, they are added up.
    """
    on_sides = [sorted((id for id in members if id in side), key=_place(facts)) for side in sides]
    having = [ids for ids in on_sides if ids]
    if all(ids == having[0] for ids in having):
        _as_they_are(sides, keys, facts, members)
    elif all(len(ids) == len(having[0]) for ids in having):
        for place, first in enumerate(having[0]):
            key = _key(first, facts[first], "moved")
            for own_ids, side_keys in zip(on_sides, keys, strict=True):
                if own_ids:
                    side_keys[own_ids[place]] = key
    else:
        file = facts[having[0][0]].file
        label = f"{name} [{{{file}}}]" if file is not None else name
        groups = "|".join(sorted({g for id in members for g in facts[id].groups.split("|")}))
        key = Key(("moved", label), label, name, file, None, groups, "moved")
        for own_ids, side_keys in zip(on_sides, keys, strict=True):
            side_keys.update(dict.fromkeys(own_ids, key))


def _place(facts: Mapping[K, Named]) -> Callable[[K], tuple[int, str, str]]:
    return lambda id: (facts[id].line or 0, facts[id].groups, facts[id].timer)


def _kernels(
    sides: Sequence[Mapping[K, Named]],
    keys: Sequence[dict[K, Key]],
    facts: Mapping[K, Named],
    kernels: set[K],
) -> None:
    """Shorten names step by step, until a kernel of another side has the same name."""
    left_over = [kernels & side.keys() for side in sides]
    for level, cut in _STEPS:
        families: dict[str, list[set[K]]] = {}
        for at, ids in enumerate(left_over):
            for id in ids:
                name = cut(facts[id])
                families.setdefault(name, [set() for _ in sides])[at].add(id)
        for members in families.values():
            # Full names are accepted if all sides have them, shorter names if several sides do.
            partners = sum(1 for ids in members if ids)
            if partners < (len(sides) if level == "demangled" else 2):
                continue
            first, *others = sorted(set().union(*members), key=lambda id: _names(facts[id]))
            key = _cut_key(facts[first], level, cut)
            if not others and key.timer == facts[first].timer:
                key = _key(first, facts[first], "same")
            elif any(facts[id].timer != key.timer for id in others):
                key = key._replace(rule=level)
            for ids, side_keys, left in zip(members, keys, left_over, strict=True):
                side_keys.update(dict.fromkeys(ids, key))
                left -= ids
    for ids, side_keys in zip(left_over, keys, strict=True):
        for id in ids:
            side_keys[id] = _cut_key(facts[id], "demangled", _CUTS["demangled"])


def _full(named: Named) -> str:
    return kernel_cuts.one_spelling(demangled(named.timer))


def _typed(named: Named) -> str:
    return kernel_cuts.with_types(named.timer)


def _untyped(named: Named) -> str:
    return kernel_cuts.without_types(named.timer)


def _architecture(named: Named) -> str:
    return kernel_cuts.without_architecture(named.timer)


_CUTS: dict[str, Callable[[Named], str]] = {
    "demangled": _full,
    "template": _untyped,
    "architecture": _architecture,
}

_STEPS: tuple[tuple[Rule, Callable[[Named], str]], ...] = (
    ("demangled", _full),
    ("template", _typed),
    ("template", _untyped),
    ("architecture", _architecture),
)


def _cut_key(named: Named, level: str, cut: Callable[[Named], str]) -> Key:
    name = cut(named)
    full = demangled(named.timer) if level == "demangled" else name
    rule: Rule = "same" if full == named.timer else level  # type: ignore[assignment]
    short = short_name(full) if level == "demangled" else name
    return Key((level, name), full, short, named.file, named.line, named.groups, rule)


def _names(named: Named) -> tuple[str, str, str, int]:
    return named.timer, named.groups, named.file or "", named.line or 0


def _key(identity: Hashable, named: Named, rule: Rule) -> Key:
    return Key(identity, named.timer, named.short_name, named.file, named.line, named.groups, rule)
