"""Where the time went in the program's own code: exclusive time, folded into own routines.

The exclusive time of a call path belongs to the nearest routine of the program at or above it:
libraries and C functions count for the routine that calls them. What no place of the program
stands for is kept apart: imports, waiting for other threads and events, the exit, and what runs
outside the program's code (a library's own threads).

Everything is linear in the number of call paths, and knows neither databases nor files: whose code
a routine is follows from the path that was recorded with it (`own_code.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, compress, product
from operator import eq, itemgetter, neg
from typing import Any, Literal, get_args, overload

from taupy.analysis.event_loops import AWAITED, LOOPS, is_awaited
from taupy.analysis.known_routines import among, is_select, is_wait
from taupy.analysis.line_times import HotLine
from taupy.analysis.own_code import (
    Extent,
    is_own,
    is_program,
    own_ones,
    owners,
    package_name,
    package_of,
)
from taupy.analysis.trees import Looks, Seen, Tree
from taupy.analysis.waited import Waited
from taupy.analysis.wrappers import wrappers
from taupy.dataclass import NamedTuple
from taupy.model.forest import callers_first, levels, members
from taupy.model.rows import TimerRow
from taupy.model.thread_groups import MAIN
from taupy.model.timer_columns import TimerColumns

Kind = Literal["own", "waiting", "imports", "exit", "outside"]
"""A routine of the program; waiting in libraries; imports; what passes after the program's last
line; other time outside the program's code."""

APART: tuple[Kind, ...] = ("waiting", "imports", "exit", "outside")

_OUTSIDE, _IMPORTS, _EXIT, _WAITING = -1, -2, -3, -4
"""Owners that are no routine. Waiting of a routine is owner `~routine + _WAITING`, below -4."""
_KINDS: dict[int, Kind] = {_OUTSIDE: "outside", _IMPORTS: "imports", _EXIT: "exit"}

_MOSTLY = 0.5
_HARDLY = 0.05

_CHILDREN = "subprocess.py"
"""What its routines wait for is work that the program asked for."""
_STARTS = among(("multiprocessing/spawn.py:spawn_main", "multiprocessing/forkserver.py:main"))
"""What runs in a process that is started with `-c` to become a worker."""


class Part(NamedTuple):
    """Part of a place's time: a routine that it calls, with everything below, or a caller of it.

    Attributes:
        calls: of the callee from the place; of the place from the caller.
    """

    timer: TimerRow
    ns: float
    calls: int


class Package(NamedTuple):
    """Time in the own routines of a library.

    Attributes:
        outside_ns: the part of it that no routine of the program has called.
    """

    name: str
    ns: float
    outside_ns: float


class Await(NamedTuple):
    """A line at which coroutines were suspended.

    Attributes:
        ns: for how long, the times of all of them added up.
    """

    timer: TimerRow
    line: int
    times: int
    ns: float


@dataclass(frozen=True, slots=True)
class Place:
    """Time in one place of the program, or apart from all of them.

    Attributes:
        timer: the routine; of waiting, the one that waits. None: imports, exit, time outside.
        share: of the time of its threads.
        calls: None if they were not counted.
        callees: the library's routines and C functions below, the largest first; of waiting, what
            waits; of imports, the modules that the program imports.
        caller: the program's routine each call of which makes many of the place, in a loop, through
            a library or by recursion.
        asleep_ns: its time in which it did not work, by the looks that found it so; 0 if that is
            hardly any (`waited.py`).
        off_cpu_ns: its time beyond what its threads had a CPU for or waited for one: the least that
            it waited for something else. Where they were only seen in a queue for one, 0 if it may
            mostly have worked.
        hottest: the line of the routine with the most time, if looks tell it.
        source: text of that line; of the routine's definition if that is all of it, or no line of
            any routine is known.
        awaits: where coroutines were suspended while an event loop waits; the one to look at first
            is first, and its routine is `timer`.
        entries: of an own routine, a routine of a library that runs below it -> the callee through
            which it mostly does.
    """

    kind: Kind
    timer: TimerRow | None
    ns: float
    share: float
    calls: int | None = None
    callees: Sequence[Part] = ()
    caller: Part | None = None
    asleep_ns: float = 0.0
    off_cpu_ns: float = 0.0
    hottest: HotLine | None = None
    source: str | None = None
    awaits: Sequence[Await] = ()
    entries: Mapping[TimerRow, TimerRow] = field(default_factory=dict, compare=False)

    @property
    def callee(self) -> Part | None:
        """The one with the most time, if there is one."""
        return self.callees[0] if self.callees else None

    @property
    def self_ns(self) -> float:
        """Time in the routine itself."""
        return self.ns - sum(callee.ns for callee in self.callees)

    @property
    def waits_ns(self) -> float:
        """The part of its time in which it is known not to work."""
        return max(self.asleep_ns, self.off_cpu_ns)

    @property
    def mostly_waits(self) -> bool:
        return self.waits_ns >= _MOSTLY * self.ns


class Places(Sequence[Place]):
    """The places of a group of threads: own ones first, the largest first. Each is made when it is
    asked for, because there may be as many as routines, of which people see a few.

    Attributes:
        timers: of each place.
        ns: the time of each.
        own: how many are the program's own; the others follow.
        whole: the time of all their threads.
        asleep: whether samples saw any of them asleep.
        off_cpu_ns: how long own places waited at least, all together, as far as that is exact.
        with_lines: the positions of those that may have a hottest line.
    """

    def __init__(
        self,
        timers: Callable[[], Sequence[TimerRow | None]],
        ns: Sequence[float],
        own: int,
        make: Callable[[int], Place],
        shared: Callable[[], Sequence[int]],
        whole: float,
        *,
        asleep: bool,
        off_cpu_ns: float = 0.0,
        with_lines: Sequence[int] = (),
    ) -> None:
        self._timers, self.ns, self.own = timers, ns, own
        self.asleep, self.off_cpu_ns, self.with_lines = asleep, off_cpu_ns, with_lines
        self._make, self._shared = make, shared
        self._made: dict[int, Place] = {}
        self.whole = whole

    @cached_property
    def timers(self) -> Sequence[TimerRow | None]:
        return self._timers()

    def __len__(self) -> int:
        return len(self.ns)

    @overload
    def __getitem__(self, at: int) -> Place: ...
    @overload
    def __getitem__(self, at: slice) -> list[Place]: ...
    def __getitem__(self, at: int | slice) -> Place | list[Place]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self.ns))[at]]
        at = range(len(self.ns))[at]
        place = self._made.get(at)
        if place is None:
            place = self._made[at] = self._make(at)
        return place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]

    @property
    def apart(self) -> list[Place]:
        """What is no routine of the program's."""
        return self[self.own :]

    def share(self, at: int) -> float:
        """What the place at a position takes of the time of its threads."""
        return self.ns[at] / self.whole

    def largest(self, most: int, least: float) -> list[Place]:
        """The first own places with at least this share; if there is none, the first one."""
        own = self.ns[: self.own]
        large = [at for at, ns in enumerate(own) if ns / self.whole >= least]
        return [self[at] for at in large[:most]] or self[: min(1, self.own)]

    def own_times(self) -> Iterator[Place | Sequence[float]]:
        """The own places that did not pass all of their time in the routine itself and awake; and
        the times of those between them, which did."""
        begin = 0
        for at in self._shared():
            yield self.ns[begin:at]
            yield self[at]
            begin = at + 1
        yield self.ns[begin : self.own]

    def changed(
        self, change: Callable[[Place], Place], with_lines: Sequence[int] | None = None
    ) -> Places:
        """The same places, each with what else is known of its lines and source."""
        return Places(
            *(lambda: self.timers, self.ns, self.own, lambda at: change(self[at])),
            *(self._shared, self.whole),
            asleep=self.asleep,
            off_cpu_ns=self.off_cpu_ns,
            with_lines=self.with_lines if with_lines is None else with_lines,
        )


def places(
    tree: Tree,
    group_of: Sequence[str],
    path_of: Mapping[str, str | None],
    seen: Seen | None = None,
) -> dict[str, Places]:
    """The places of each group of threads.

    Args:
        group_of: for each thread of the tree, the name of its group.
        path_of: a timer's full name -> its source file as the interpreter knew it.
        seen: what samples and awaits say of rows of the tree.
    """
    return tally(tree, group_of, path_of, seen).places()


def tally(
    tree: Tree,
    group_of: Sequence[str],
    path_of: Mapping[str, str | None],
    seen: Seen | None = None,
) -> _Tally:
    """The sums of which `places` are made, for those who also ask for `packages`."""
    return _Tally(tree, group_of, path_of, seen or Seen())


def own_timers(tree: Tree, path_of: Mapping[str, str | None]) -> list[bool]:
    """Of each timer of the tree, whether it is the program's own, as `places` takes it."""
    return _Tally(tree, [""] * len(tree.threads), path_of, Seen()).own


class _Context(NamedTuple):
    """What the time of a call path belongs to.

    Attributes:
        counted: whether calls were counted on its thread.
        owner: a routine of the program, or what is apart from all of them.
        entry: the library's routine or C function that the owner called, -1 for none.
    """

    group: int
    counted: bool
    owner: int
    entry: int


class _Move(NamedTuple):
    """How a routine leads from its caller's context to its own.

    Attributes:
        owner: to whom its time belongs: 0 the same, 1 outside, 2 imports, 3 the exit, 4 this
            routine, 5 the waiting of the same.
        entry: what the owner has called: 0 the same, 1 nothing, 2 this routine.
        calls: whether it is a library's routine that the owner calls.
        by: whether it is the program's and called by another routine of it.
        awaits: whether the owner awaits it.
        selects: whether an event loop waits in it.
    """

    owner: int
    entry: int
    calls: bool = False
    by: bool = False
    awaits: bool = False
    selects: bool = False


class _Steps(NamedTuple):
    """What routines add that are called in a context, one step per row of the columns.

    Attributes:
        outer: the owner of the caller's context.
        owner, entry: those of the context.
        code: the routine.
        move: its number among `_moves`.
        calls, time: the sums of all its call paths.
    """

    group: list[int]
    outer: list[int]
    owner: list[int]
    entry: list[int]
    code: list[int]
    move: list[int]
    calls: list[float]
    time: list[float]


class _Tally:
    """The sums of a tree by group of threads and owner."""

    def __init__(
        self,
        tree: Tree,
        group_of: Sequence[str],
        path_of: Mapping[str, str | None],
        seen: Seen,
    ) -> None:
        timers = TimerColumns.of(tree.timers)
        self.tree, self.seen, self.moves = tree._replace(timers=timers), seen, _moves()
        self.timers = timers
        self.names = list(dict.fromkeys(group_of))
        number_of = {name: number for number, name in enumerate(self.names)}
        self.groups = [number_of[name] for name in group_of]
        self.paths = timers.files
        if path_of:
            paths = map(path_of.get, timers.names)
            self.paths = [path or file for path, file in zip(paths, timers.files, strict=True)]
        self.counted = self._counted()
        self.levels = levels(tree.parent)
        if self.levels and not self._is_whole():
            self.levels = []
        self.begins = self._begins()
        self._add(Extent(frozenset(self._files(self.begins))))
        if (wider := self._wider()) is not None:
            runs_tests = (
                code for code in self._scripts() if any(map(_is_runner, self._launched(code)))
            )
            self._add(wider, frozenset(runs_tests))
        elif launchers := frozenset(code for code in self._scripts() if self._launched(code)):
            self._add(Extent(frozenset(self._files(self.begins))), launchers)

    # --- whose code it is ----------------------------------------------------

    def _begins(self) -> list[int]:
        """The timers that begin a program: modules that no other code imports."""
        timer, parent, timers = self.tree.timer, self.tree.parent, self.timers
        modules = {code for code, name in enumerate(timers.short_names) if name == "<module>"}
        entered: dict[int, None] = {}
        for row in compress(range(len(timer)), map(modules.__contains__, timer)):
            if parent[row] < 0 or is_program(timers[timer[parent[row]]]):
                entered[timer[row]] = None
        return list(entered)

    def _files(self, begins: Sequence[int]) -> list[str]:
        return [path for code in begins if (path := self.paths[code]) is not None]

    def _wider(self) -> Extent | None:
        """What else is the program's, if there is hardly any code outside of libraries: the
        package that was started; of a program without files, every routine."""
        tree, sums = self.tree, self.sums
        started, scripts = {*self.begins}, self._scripts()
        own = sum(ns for (_, owner), ns in sums.items() if owner >= 0 and owner not in scripts)
        beside = sum(ns for (_, owner), ns in sums.items() if owner == _OUTSIDE or owner in scripts)
        if own > _HARDLY * beside:
            return None
        if not all(map(self._launched, scripts)):
            return None  # the user's script: what its workers begin with is a library's
        launched = {self._package(code) for code in started - scripts}
        for code in scripts:
            launched |= self._launched(code)
        if not launched.isdisjoint(runners := {*filter(_is_runner, launched)}):
            launched = (launched | self._tested()) - runners
        packages = frozenset(launched - {None})
        if packages:
            return Extent(frozenset(self._files(self.begins)), packages)  # type: ignore[arg-type]
        if not any(owner >= 0 for _, owner in sums) and len(tree.timers) > 1:
            return Extent(everything=True)
        return None

    def _scripts(self) -> set[int]:
        """Those that begin the program and lie in no library."""
        timers = self.tree.timers
        return {code for code in self.begins if is_own(self.paths[code], Extent(), timers[code])}

    def _launched(self, script: int) -> set[str | None]:
        """The package that a console script starts, if it is one: the environment's."""
        folder, _, name = (self.paths[script] or "").rpartition("/")
        if not folder.endswith("/bin") or "." in name:
            return set()
        environment = folder.removesuffix("bin")
        spent: dict[str, float] = defaultdict(float)
        for group in range(len(self.names)):
            for entry, ns in self._below((group, script)).items():
                package = self._package(entry)
                if package is not None and package.startswith(environment):
                    spent[package] += ns
        return {max(spent, key=spent.__getitem__)} if spent else set()

    def _tested(self) -> set[str | None]:
        """The packages of the tests that a test runner calls."""
        tree, timers = self.tree, self.tree.timers
        calling = {code for code, timer in enumerate(timers) if calls_tests(timer)}
        called = {
            code
            for code, above in zip(tree.timer, tree.parent, strict=True)
            if above >= 0 and tree.timer[above] in calling
        }
        return {
            self._package(code)
            for code in called
            if timers[code].short_name.rpartition(".")[2].startswith("test")
        }

    def _package(self, code: int) -> str | None:
        return package_of(self.paths[code], self.tree.timers[code])

    def _counted(self) -> list[bool]:
        """Of each thread, whether calls were counted."""
        counted = {*compress(self.tree.thread, self.tree.calls)}
        return [thread in counted for thread in range(len(self.tree.threads))]

    # --- sums ----------------------------------------------------------------

    def _add(self, extent: Extent, launchers: frozenset[int] = frozenset()) -> None:
        """Add up exclusive times, calls, callees and callers.

        What a call path adds to which sum depends on the thread's group, on what its caller's time
        belongs to and on its routine: that is decided once for each such step, and each row is
        added to its step.

        Args:
            launchers: scripts that only start an installed program, which runs code of others.
        """
        tree, timers = self.tree, self.timers
        own = self.own = own_ones(timers, self.paths, extent)
        for code in launchers:
            own[code] = False
        self.owner_of = owners(timers, own)
        passing, self.timer = wrappers(tree, own, lambda: self.order)
        others = self.others = [code for code, mine in enumerate(own) if not mine]
        self.roles: list[_Role] = ["own"] * len(own)
        self.entries = [_ROUTINE] * len(own) + [_NONE]  # -1: nothing was entered
        for code in others:
            self.roles[code] = "passes" if code in passing else _role(timers[code])
            self.entries[code] = _entered(timers[code])
        starts = zip(self.groups, self.counted, strict=True)
        begins = [_Context(group, counted, _OUTSIDE, -1) for group, counted in starts]
        number_of = {context: number for number, context in enumerate(dict.fromkeys(begins))}
        begin = [number_of[context] for context in begins]
        add = self._by_level if self.levels else self._by_row
        self.steps, context, self.contexts = add([*number_of], begin)
        self._sum()
        waits: dict[tuple[int, int, int], list[float]] = defaultdict(lambda: [0, 0.0])
        for row, lines in self.seen.waits.items():
            for line, number, ns in lines:
                owner = self.owner_of[tree.timer[row]]
                sums = waits[self.contexts[context[row]][0], owner, line]
                sums[0] += number
                sums[1] += ns
        self.waits = waits
        self.context = context

    @cached_property
    def order(self) -> Sequence[int]:
        """The rows, callers first."""
        if self.levels:
            import numpy as np

            in_order: list[int] = np.concatenate(self.levels).tolist()
            return in_order
        return callers_first(self.tree.parent)

    def _is_whole(self) -> bool:
        """Whether all numbers are integers, whose sums fit into 64 bits."""
        calls, exclusive = self.tree.calls, self.tree.exclusive
        return all(
            {*map(type, column)} == {int} and sum(map(abs, column)) < 1 << 62  # type: ignore[arg-type]
            for column in (calls, exclusive)
        )

    def _by_row(
        self, contexts: list[_Context], begin: Sequence[int]
    ) -> tuple[_Steps, list[int], list[tuple[int, int]]]:
        """The steps; the context of each row, and the group and owner of each context.

        Args:
            contexts: those in which threads begin.
            begin: which of these each thread begins in.
        """
        tree, size = self.tree, 2 * len(self.tree.timers)
        parent, thread, timer = tree.parent, tree.thread, self.timer
        calls, exclusive = tree.calls, tree.exclusive
        number_of = {context: number for number, context in enumerate(contexts)}
        context = [-1] * len(parent)
        steps = _Steps([], [], [], [], [], [], [], [])
        counts, times = steps.calls, steps.time
        numbers: dict[int, int] = {}
        after: list[int] = []
        for row in self.order:
            above, count, time = parent[row], calls[row], exclusive[row]
            before = context[above] if above >= 0 else begin[thread[row]]
            key = before * size + 2 * timer[row] + (count == 0)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(numbers)
                step = self._step(contexts[before], timer[row], count == 0)
                columns: Sequence[list[Any]] = steps
                for column, cell in zip(columns, step, strict=True):
                    column.append(cell)
                here = _Context(step[0], contexts[before].counted, step[2], step[3])
                after.append(number_of.setdefault(here, len(contexts)))
                if after[-1] == len(contexts):
                    contexts.append(here)
            context[row] = after[number]
            if count:
                counts[number] += count
            if time:
                times[number] += time
        return steps, context, [(of.group, of.owner) for of in contexts]

    def _step(self, before: _Context, code: int, is_not_called: bool) -> tuple[int, ...]:
        """The columns of a step, without its sums."""
        outer, entered, routine = before.owner, before.entry, self.owner_of[code]
        uncalled = is_not_called and before.counted
        nearest = max(_WAITING - 1, min(outer, 0))
        number = _number(_ROLES.index(self.roles[code]), nearest, self.entries[entered], uncalled)
        move = self.moves[number]
        owner = (outer, _OUTSIDE, _IMPORTS, _EXIT, routine, _waiting(outer))[move.owner]
        return before.group, outer, owner, (entered, -1, code)[move.entry], code, number, 0, 0

    def _by_level(
        self, contexts: list[_Context], begin: Sequence[int]
    ) -> tuple[_Steps, list[int], list[tuple[int, int]]]:
        """The same with a few steps of NumPy for each depth. Those of one depth are apart from
        those of others."""
        import numpy as np

        tree, count = self.tree, len(self.tree.timers)
        parent, calls = np.array(tree.parent, "i8"), np.array(tree.calls, "i8")
        exclusive = np.array(tree.exclusive, "i8")
        is_called = 2 * np.array(self.timer, "i8") + (calls == 0)
        roles = np.array([*map(_ROLES.index, self.roles)], "i8")
        owner_of, kind_of = np.array(self.owner_of, "i8"), np.array(self.entries, "i8")
        choices = np.array([move[:2] for move in self.moves], "i8")
        starts = np.array([of[:2] for of in contexts], "i8").reshape(-1, 2)
        # The contexts of the callers of one depth, and which of these each row has.
        start, owners = np.arange(len(contexts)), np.full(len(contexts), _OUTSIDE, "i8")
        entries, before, end = np.full(len(contexts), -1, "i8"), 0, 0
        context = np.array(begin, "i8")[np.array(tree.thread, "i8")]
        of_levels: list[list[Any]] = []
        of_contexts: list[tuple[Any, Any]] = []
        for level in self.levels:
            above = parent[level]
            keys = np.where(above >= 0, context[above] - before, context[level]) * (2 * count)
            keys += is_called[level]
            _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
            in_order = np.argsort(firsts)
            which = np.argsort(in_order)[which]
            at, routine = np.divmod(keys[firsts[in_order]], 2 * count)
            start, outer, entered, code = start[at], owners[at], entries[at], routine // 2
            group, is_counted = starts[start].T
            uncalled = routine % 2 & is_counted
            nearest = np.clip(outer, _WAITING - 1, 0)
            move = _number(roles[code], nearest, kind_of[entered], uncalled)
            waiting = np.where(outer >= 0, _WAITING - 1 - outer, _WAITING)
            owner = np.choose(
                choices[move, 0], [outer, _OUTSIDE, _IMPORTS, _EXIT, owner_of[code], waiting]
            )
            entry = np.choose(choices[move, 1], [entered, -1, code])
            sums = np.zeros((2, len(code)), "i8")
            np.add.at(sums[0], which, calls[level])
            np.add.at(sums[1], which, exclusive[level])
            of_levels.append([group, outer, owner, entry, code, move, *sums])
            # Owners are from `_waiting(count - 1)` on, entries from -1.
            keys = start * (2 * count - _WAITING) + owner + count - _WAITING
            keys = keys * (count + 1) + entry + 1
            _, firsts, after = np.unique(keys, return_index=True, return_inverse=True)
            start, owners, entries = start[firsts], owner[firsts], entry[firsts]
            of_contexts.append((group[firsts], owners))
            before, end = end, end + len(firsts)
            context[level] = before + after[which]
        columns = [np.concatenate(parts).tolist() for parts in zip(*of_levels, strict=True)]
        of_all = [np.concatenate(parts).tolist() for parts in zip(*of_contexts, strict=True)]
        return _Steps(*columns), context.tolist(), [*zip(*of_all, strict=True)]

    def _sum(self) -> None:
        """Add up the times of each owner; what else is known of one is added up when asked for."""
        steps = self.steps
        keys = [*zip(steps.group, steps.owner, strict=True)]
        number_of = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        which = [*map(number_of.__getitem__, keys)]
        times = [0.0] * len(number_of)
        for number, time in zip(which, steps.time, strict=True):
            times[number] += time
        pairs_of, of_number = [*number_of], members(which, len(number_of))
        timed = dict.fromkeys(compress(which, steps.time))
        self.sums = {pairs_of[number]: times[number] for number in timed}

        def steps_of(key: tuple[int, int]) -> list[int]:
            return of_number(number_of[key]) if key in number_of else []

        self.steps_of = steps_of
        self.of_entries = {
            pairs_of[number]
            for number, entry, time in zip(which, steps.entry, steps.time, strict=True)
            if entry >= 0 and time
        }
        self.awaits: dict[tuple[int, int], float] = defaultdict(float)
        self.selected: dict[tuple[int, int, int], float] = defaultdict(float)
        special = [move.awaits or move.selects for move in self.moves]
        for at in compress(range(len(which)), map(special.__getitem__, steps.move)):
            group, move = steps.group[at], self.moves[steps.move[at]]
            if move.awaits:
                self.awaits[group, steps.outer[at]] += steps.calls[at]
            if move.selects:
                self.selected[group, steps.owner[at], steps.code[at]] += steps.time[at]

    def _below(self, key: tuple[int, int]) -> dict[int, float]:
        """The time of an owner by what it has called."""
        steps, below = self.steps, dict[int, float]()
        for at in self.steps_of(key):
            if (entry := steps.entry[at]) >= 0 and (time := steps.time[at]):
                below[entry] = below.get(entry, 0.0) + time
        return below

    def _ways(self, key: tuple[int, int]) -> dict[tuple[int, int], float]:
        """The time of an owner in each routine below, and through what it has called."""
        steps, ways = self.steps, dict[tuple[int, int], float]()
        for at in self.steps_of(key):
            if steps.entry[at] >= 0 and (time := steps.time[at]):
                way = steps.code[at], steps.entry[at]
                ways[way] = ways.get(way, 0.0) + time
        return ways

    def _calls_below(self, group: int, caller: int) -> dict[int, float]:
        """The calls of what an owner calls."""
        steps, calls = self.steps, dict[int, float]()
        for owner in (caller, _waiting(caller)):
            for at in self.steps_of((group, owner)):
                if self.moves[steps.move[at]].calls and steps.outer[at] == caller:
                    calls[steps.code[at]] = calls.get(steps.code[at], 0.0) + steps.calls[at]
        return calls

    def _calls(self, key: tuple[int, int]) -> tuple[float | None, dict[int, float]]:
        """The calls of a routine of the program, None if they were not counted; and by its caller
        there."""
        steps, calls, above = self.steps, 0.0, dict[int, float]()
        for at in self.steps_of(key):
            count, routine = steps.calls[at], steps.code[at]
            if count and routine == key[1]:
                calls += count
                outer = steps.outer[at]
                caller = outer if outer > _WAITING else _routine(outer)
                if self.moves[steps.move[at]].by and caller != routine:
                    above[caller] = above.get(caller, 0.0) + count
        return calls or None, above

    # --- places --------------------------------------------------------------

    def places(self) -> dict[str, Places]:
        of_group: list[list[tuple[int, float]]] = [[] for _ in self.names]
        whole: dict[int, float] = defaultdict(float)
        for (group, owner), ns in self.sums.items():
            whole[group] += ns
            if ns > 0:
                of_group[group].append((owner, ns))
        return {
            name: self._places(group, of_group[group], whole[group])
            for group, name in enumerate(self.names)
        }

    def _places(self, group: int, sums: Sequence[tuple[int, float]], whole: float) -> Places:
        """Those of a group, from the times of their owners."""
        timers = self.timers
        own = _InOrder([pair for pair in sums if pair[0] >= 0], timers.names.__getitem__)
        apart = [self._apart(group, owner, ns, ns / whole) for owner, ns in sums if owner < 0]
        apart.sort(key=_position)

        def make(at: int) -> Place:
            if at >= len(own.times):
                return apart[at - len(own.times)]
            ns = own.times[at]
            return self._own(group, own.owner(at), ns, ns / whole)

        def shared() -> list[int]:
            pairs = chain(self.waited.slept, self.waited.beyond, self.of_entries)
            more = {owner for of_group, owner in pairs if of_group == group}
            more.update(owner for owner, _ in sums if owner >= 0 and timers.files[owner] is None)
            return own.positions(more)

        self._move_driver(group, own, apart, whole)
        return Places(
            lambda: [*map(timers.__getitem__, own.all()), *(place.timer for place in apart)],
            [*own.times, *(place.ns for place in apart)],
            len(own.times),
            make,
            shared,
            whole,
            asleep=any(
                key[0] == group and self.waited.asleep(key, self.sums[key])
                for key in self.waited.slept
            ),
            off_cpu_ns=self.waited.of_all.get(group, 0.0),
        )

    def _move_driver(
        self,
        group: int,
        own: _InOrder,
        apart: Sequence[Place],
        whole: float,
    ) -> None:
        """`asyncio.run(...)` has the time of the loop's own work, which it does for the coroutines
        that await: the place with most time among these says more, so it comes first."""
        timers = self.tree.timers
        callees = self._callees(group, own.owner(0)) if own.times else []
        if not callees or not _is_loop(callees[0].timer) or callees[0].ns < _MOSTLY * own.times[0]:
            return
        awaiting = {timers[code] for _, code in self.awaits}
        for at, (owner, ns) in enumerate(zip(own.all(), own.times, strict=True)):
            if at and timers[owner] in awaiting and ns / whole >= _HARDLY:
                own.move_first(at)
                return
        if any(place.timer in awaiting and place.share >= _HARDLY for place in apart):
            own.move_first(len(own.times) - 1)

    def _apart(self, group: int, owner: int, ns: float, share: float) -> Place:
        if owner not in _KINDS:
            return self._waiting(group, owner, ns, share)
        parts = self._callees(group, owner) if owner == _IMPORTS else ()
        return Place(_KINDS[owner], None, ns, share, callees=parts)

    def packages(self, of_group: str) -> list[Package]:
        """The time in each library's own routines, the largest first: what it does for the
        program's routines, and outside of them. Not imports, waiting and the exit. What C functions
        and generated code take counts for the library that calls them."""
        return self._packages.get(of_group, [])

    def routines(self, of_group: str) -> list[Part]:
        """The routines of libraries with the most time of their own, the largest first, which is
        what a group of threads did that runs no routine of the program."""
        tree, group = self.tree, self.names.index(of_group)
        sums: dict[int, tuple[float, float]] = {}
        for row in self.order:
            code, time = tree.timer[row], tree.exclusive[row]
            if (
                time
                and self.roles[code] in ("library", "passes")
                and self.groups[tree.thread[row]] == group
            ):
                ns, calls = sums.get(code, (0.0, 0.0))
                sums[code] = ns + time, calls + (tree.calls[row] or 0)
        parts = [Part(tree.timers[code], ns, int(calls)) for code, (ns, calls) in sums.items()]
        parts.sort(key=lambda part: (-part.ns, part.timer.timer))
        return parts

    @cached_property
    def _packages(self) -> dict[str, list[Package]]:
        """Those of each group, in one pass: there may be as many groups as threads."""
        tree, roles, paths = self.tree, self.roles, self.paths
        name_of = {
            code: package_name(paths[code], self.timers[code])
            for code in self.others
            if roles[code] in _LIBRARIES
        }
        within: list[str | None] = [None] * len(tree.parent)
        sums: dict[tuple[int, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        owner_of = [owner for _, owner in self.contexts]
        of_rows = map(name_of.__contains__, map(tree.timer.__getitem__, self.order))
        for row in compress(self.order, of_rows):
            code, above, owner = tree.timer[row], tree.parent[row], owner_of[self.context[row]]
            name = within[row] = name_of[code] or (within[above] if above >= 0 else None)
            time = tree.exclusive[row]
            if name is None or not time:
                continue
            of_package = sums[self.groups[tree.thread[row]], name]
            if owner >= _OUTSIDE:
                of_package[0] += time
            if owner == _OUTSIDE:
                of_package[1] += time
        packages: dict[str, list[Package]] = {}
        for (group, name), (ns, outside) in sums.items():
            if ns > 0:
                packages.setdefault(self.names[group], []).append(Package(name, ns, outside))
        for of_group in packages.values():
            of_group.sort(key=lambda package: (-package.ns, package.name))
        return packages

    def _own(self, group: int, owner: int, ns: float, share: float) -> Place:
        timers, key = self.tree.timers, (group, owner)
        calls, above = self._calls(key)
        ways = sorted(self._ways(key).items(), key=lambda way: way[1])
        return Place(
            "own",
            timers[owner],
            ns,
            share,
            None if calls is None else int(calls),
            self._callees(group, owner),
            self._loop(group, above, self._caller(above)),
            self.waited.asleep(key, ns),
            self.waited.off_cpu(key, ns),
            # Of several entries, the one with most time comes last.
            entries={timers[code]: timers[enters] for (code, enters), _ in ways},
        )

    @cached_property
    def waited(self) -> Waited:
        """How long routines of the program waited."""
        tree, seen, steps = self.tree, self.seen, self.steps
        owner_of = [owner for _, owner in self.contexts]
        spent: dict[tuple[int, int], float] = defaultdict(float)
        whole: dict[int, float] = defaultdict(float)
        rows = zip(tree.thread, self.context, tree.exclusive, strict=True)
        for thread, context, ns in rows if seen.cpu_ns or seen.looks or seen.of_lines else ():
            if ns:
                whole[thread] += ns
                if owner_of[context] >= 0:
                    spent[thread, owner_of[context]] += ns
        looked: dict[tuple[int, int], list[Looks]] = defaultdict(list)
        for row, looks in seen.looks.items():
            looked[tree.thread[row], owner_of[self.context[row]]].append(looks)
        # What is known to wait below a routine is apart from its time, and so are looks at that.
        apart = {
            (group, _routine(owner), code)
            for group, owner, code in zip(steps.group, steps.owner, steps.code, strict=True)
            if owner < _WAITING
        }
        for (thread, timer, _, callee), looks in seen.of_lines.items():
            owner = self.owner_of[timer]
            if (self.groups[thread], owner, callee) not in apart:
                looked[thread, owner].append(looks)
        main = [group for group, name in enumerate(self.names) if name == MAIN]
        return Waited(spent, whole, looked, seen, self.groups, main)

    def _callees(self, group: int, owner: int) -> list[Part]:
        """What an owner calls, the largest first; of equal ones, the first by name."""
        calls = self._calls_below(group, _routine(owner) if owner <= _WAITING else owner)
        parts = [
            Part(self.tree.timers[code], ns, int(calls.get(code, 0)))
            for code, ns in self._below((group, owner)).items()
            if ns > 0
        ]
        return sorted(parts, key=lambda part: (-part.ns, part.timer.timer))

    def _caller(self, above: Mapping[int, float]) -> int | None:
        """The routine that calls an owner most often; of equal ones, the first by name."""
        timers = self.tree.timers
        return min(above, key=lambda code: (-above[code], timers[code].timer, code), default=None)

    def _loop(self, group: int, above: Mapping[int, float], caller: int | None) -> Part | None:
        """The caller, if each of its calls makes many."""
        if caller is None:
            return None
        calls = above[caller]
        if calls < _MANY * max(1, self._calls((group, caller))[0] or 0):
            return None
        return Part(self.tree.timers[caller], 0, int(calls))

    def _waiting(self, group: int, owner: int, ns: float, share: float) -> Place:
        parts = self._callees(group, owner)
        routine = _routine(owner)
        calls, caller = None, None
        awaits: list[tuple[tuple[int, int], Await]] = []
        selected = [key for key in self.selected if key[:2] == (group, owner)]
        if selected and sum(map(self.selected.__getitem__, selected)) >= _MOSTLY * ns:
            # An event loop waits for what coroutines await: the one that does so for longest.
            select = max(selected, key=self.selected.__getitem__)
            parts = [Part(self.tree.timers[select[2]], self.selected[select], 0)]
            awaits = self._awaits(group)
            if awaits:
                key = awaits[0][0]
                routine = key[1]
                _, above = self._calls(key)
                caller = self._loop(group, above, max(above, key=above.__getitem__, default=None))
        if routine >= 0:
            counted, _ = self._calls((group, routine))
            calls = None if counted is None else int(counted)
        timer = self.tree.timers[routine] if routine >= 0 else None
        return Place(
            "waiting", timer, ns, share, calls, parts, caller, awaits=[of for _, of in awaits]
        )

    def _awaits(self, group: int) -> list[tuple[tuple[int, int], Await]]:
        """Where coroutines of a group of threads were suspended, each with its group and routine,
        the one for longest first: of two for which that is alike, the one that was more often.
        `await gather(...)` waits once, for what others wait for many times."""
        timers = self.tree.timers
        waits = [
            ((group, code), Await(timers[code], line, int(number), ns))
            for (of_group, code, line), (number, ns) in self.waits.items()
            if of_group == group
        ]
        waits.sort(key=lambda pair: (-pair[1].ns, pair[1].timer, pair[1].line))
        if waits:
            longest = waits[0][1]
            first = next(
                (pair for pair in waits
                 if pair[1].ns * _ALIKE >= longest.ns and pair[1].times >= _MANY * longest.times),
                waits[0],
            )  # fmt: skip
            waits.remove(first)
            waits.insert(0, first)
        return waits


_Role = Literal[
    "own", "imports", "exit", "waits", "selects", "measuring", "awaited", "library", "passes"
]  # fmt: skip
"""What a routine is for the program; "awaited": what coroutines wait for; "passes": a library's
wrapper, which passes calls on."""
_LIBRARIES = ("library", "awaited", "passes")
_ROLES: tuple[_Role, ...] = get_args(_Role)

_ROUTINE, _LOOP, _CHILD, _NONE = range(4)
"""What an owner has called: a routine, one of an event loop or of `subprocess`; nothing."""


def _number(role: int, outer: int, entered: int, uncalled: int) -> int:
    """The number of a move: from a context to that of a routine that is called there.

    Args:
        role: the position of the routine's among `_ROLES`.
        outer: the owner: 0 for all routines, `_WAITING - 1` for the waiting of all.
        entered: `_ROUTINE` ... `_NONE`.
        uncalled: 1 for a call path without calls of a thread with calls: the caller of a fork, in
            the parent process.
    """
    return ((role * (2 - _WAITING) - outer) * 4 + entered) * 2 + uncalled


@cache
def _moves() -> list[_Move]:
    """The moves by their numbers."""
    owners = range(0, _WAITING - 2, -1)
    return [_move(*of) for of in product(_ROLES, owners, range(4), (False, True))]


def _move(role: _Role, outer: int, entered: int, uncalled: bool) -> _Move:
    if role == "own":
        is_called = outer >= 0 or outer < _WAITING
        return _Move(4, 1, by=is_called and entered != _LOOP)
    if role == "imports":
        return _Move(2, 0 if outer == _IMPORTS else 2)
    if role == "exit":
        return _Move(3, 1)
    if role == "measuring":
        return _Move(1, 1)
    calls = entered == _NONE
    if role in ("library", "passes"):
        if uncalled:
            return _Move(1, 1)
        calls = calls and outer >= 0 and role != "passes"
        return _Move(0, 2 if calls else 0, calls)
    if role == "awaited":
        calls = calls and outer >= 0
        return _Move(0, 2 if calls else 0, calls, awaits=outer >= 0)
    waits = outer > _WAITING and outer != _IMPORTS and entered != _CHILD
    calls = calls and waits
    selects = role == "selects" and (waits or outer <= _WAITING)
    return _Move(5 if waits else 0, 2 if calls else 0, calls, selects=selects)


def _entered(timer: TimerRow) -> int:
    if timer.file == _CHILDREN:
        return _CHILD
    return _LOOP if _is_loop(timer) else _ROUTINE


def _role(timer: TimerRow) -> _Role:
    """That of a routine that is not the program's own."""
    groups, file = timer.groups.split("|"), timer.file or ""
    if "IMPORT" in groups:
        return "imports"
    if groups == ["EXIT"]:
        return "exit"
    if file != _CHILDREN and is_wait(timer):
        return "selects" if is_select(timer) else "waits"
    if "TAUPY" in groups or _STARTS(timer):
        return "measuring"
    if file.startswith(AWAITED) or is_awaited(timer):
        return "awaited"
    return "library"


_TEST_RUNNERS = ("pytest", "_pytest", "unittest")
"""Packages that run the tests of others."""
calls_tests = among(
    ("_pytest/python.py:pytest_pyfunc_call", "unittest/case.py:TestCase._callTestMethod")
)
"""The routines of these that call the tests."""


def _is_runner(package: str | None) -> bool:
    return (package or "").rpartition("/")[2].removesuffix(".py") in _TEST_RUNNERS


def _is_loop(timer: TimerRow) -> bool:
    return (timer.file or "").startswith(LOOPS)


_ALIKE = 1.5
"""Ratio of two times that say no more than how often does."""

_MANY = 10
"""Calls of a routine for each call of its caller from which on there is a loop around it."""


def _waiting(owner: int) -> int:
    """The waiting of a routine, or of no routine, as an owner."""
    return _WAITING - 1 - owner if owner >= 0 else _WAITING


def _routine(waiting: int) -> int:
    """The routine that waits; `_OUTSIDE` if there is none."""
    return _WAITING - 1 - waiting if waiting < _WAITING else _OUTSIDE


class _InOrder:
    """Owners with their times, the largest first; of equal ones the first by name, which is looked
    at where an owner is asked for: there may be hundreds of thousands.

    Attributes:
        times: of each.
    """

    def __init__(self, sums: Sequence[tuple[int, float]], name: Callable[[int], str]) -> None:
        in_order = sorted(sums, key=itemgetter(1), reverse=True)
        self._owners = [owner for owner, _ in in_order]
        self.times = [ns for _, ns in in_order]
        self._name, self._is_settled = name, False
        self._alike: set[int] = set()

    def owner(self, at: int) -> int:
        """The one at a position."""
        self._settle(at)
        return self._owners[at]

    def all(self) -> Sequence[int]:
        """All, in order."""
        times, end = self.times, 0
        for at in compress(range(len(times)), map(eq, times, times[1:])):
            if at >= end:
                end = self._settle(at)
        self._is_settled = True
        return self._owners

    def positions(self, owners: Collection[int]) -> list[int]:
        """The positions of these."""
        for at in self._found(owners):
            self._settle(at)
        return self._found(owners)

    def _found(self, owners: Collection[int]) -> list[int]:
        return [*compress(range(len(self._owners)), map(owners.__contains__, self._owners))]

    def move_first(self, to: int) -> None:
        """Move the first one to another position, when all are in order."""
        self._owners.insert(to, self._owners.pop(0))
        self.times.insert(to, self.times.pop(0))

    def _settle(self, at: int) -> int:
        """Put those with the same time as this one in order; the position after them."""
        if self._is_settled:
            return len(self.times)
        begin = bisect_left(self.times, -self.times[at], key=neg)
        end = bisect_right(self.times, -self.times[at], lo=begin, key=neg)
        if end > begin + 1 and begin not in self._alike:
            self._alike.add(begin)
            self._owners[begin:end] = sorted(self._owners[begin:end], key=self._name)
        return end


def _position(place: Place) -> tuple[int, float, str]:
    """Where what is apart comes."""
    name = "" if place.timer is None else place.timer.timer
    return APART.index(place.kind), -place.ns, name
