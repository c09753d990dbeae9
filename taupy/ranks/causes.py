"""What took a rank longer than the others: phase, layer, routine.

If the trial lists what threads did between collectives, the stretches before those collectives at
which the rank arrived last are compared (`stretches.py`); otherwise the whole run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np

from taupy.model.collectives import THREAD_NAME
from taupy.model.metric import ROOT_TIMER
from taupy.model.names import is_library
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.profiledb.collectives import read_stretches
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.query import threads_by_id
from taupy.profiledb.sources import timer_paths
from taupy.profiledb.values import values
from taupy.ranks.data import Ranks
from taupy.ranks.matching import longest_waits
from taupy.ranks.reading import places, unknown_waits
from taupy.ranks.stretches import LEFT_OUT, Longer, OwnTimes, longer

_SETTING_UP = (
    *("torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py"),
    *("torch/distributed/constants.py", "torch/distributed/c10d_logger.py"),
)
"""Files whose routines, and everything they call, wait for other processes."""
_WAITING = ("_verify_param_shape_across_processes", "_sync_module_states")
"""Routines of torch/distributed/utils.py that do so while DistributedDataParallel is created."""
_PARTS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
"""Groups of routines that are lines of other routines."""
_MOST = 0.6
_NOT_WORK = ("import", "communication", "exit")
_MEASURING = "TAUPY"
"""Group of what taupy itself does in a process, and of the root of call paths."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A routine whose exclusive time was longer on a rank than on the others.

    Attributes:
        layer, phase: in which the routine was called; None if there is none.
        excess_ns: excess over the median of the other ranks.
        share: of the rank's total excess.
        caller: the program's routine that called it, where it took longest.
        path: id of that call path.
    """

    timer: TimerRow
    layer: str | None
    phase: str | None
    excess_ns: float
    share: float
    caller: TimerRow | None
    path: int


class _Path(NamedTuple):
    """A call path: what is called, and from where."""

    timer: TimerRow
    layer: str | None
    phase: str | None
    parent: int | None
    is_compared: bool

    @property
    def key(self) -> tuple[TimerRow, str | None, str | None]:
        return self.timer, self.layer, self.phase


class Causes:
    """What took the ranks of a trial longer.

    Imports, collectives and the creation of process groups are left out: they wait for other ranks.
    So is what taupy itself does: the next run may be without it. Nothing is said of ranks that may
    have been late because they waited themselves.
    """

    def __init__(self, db: ProfileDB, trial: int, job: Ranks) -> None:
        self.db, self.trial, self._job = db, trial, job

    @cached_property
    def since_collectives(self) -> bool:
        """Whether it is known what ranks did between collectives."""
        return bool(self._longer)

    @cached_property
    def unknown_waits(self) -> dict[int, float]:
        """How long each rank at most waited where that is unknown [ns]."""
        return unknown_waits(self.db, self.trial, self._job)

    @cached_property
    def unexplained(self) -> set[int]:
        """The ranks that may have waited themselves for half as long as another waited for them,
        or longer."""
        missed = longest_waits(self._job)
        return {rank for rank, time in self.unknown_waits.items() if 2 * time >= missed[rank] > 0}

    def of_rank(self, rank: int, step: int | None = None, after: int = 0) -> list[Cause]:
        """What took a rank longer, the largest first: before the collectives at which it arrived
        last, in the step or in all steps after one; over the whole run if that is unknown."""
        if rank in self.unexplained:
            return []
        if not self.since_collectives:
            return self._over_the_run(rank)
        has_steps = any(item.step for item in self._longer)
        return self._summed(
            item
            for item in self._longer
            if item.rank == rank and not item.is_repeated
            and (item.step == step if step is not None else item.step > after or not has_steps)
        )  # fmt: skip

    def of_measuring(self) -> tuple[str, float] | None:
        """What taupy itself did on the ranks, and how long on the rank where it took longest
        [ns]; None: nothing."""
        times: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        where = (Condition("kind", ("host",)), Condition("group", (_MEASURING,)))
        table = values(self.db, Question((self.trial,), by=("thread", "timer"), where=where))
        for thread, timer, time in zip(
            table.row_labels("thread"), table.row_labels("timer"),
            table.column("exclusive", "time"), strict=True,
        ):  # fmt: skip
            if timer.timer != ROOT_TIMER and time:
                times[timer.timer][thread.node] += time
        longest = {timer: max(by_rank.values()) for timer, by_rank in times.items()}
        return max(longest.items(), key=lambda item: item[1], default=None)

    def of_collective(self, communicator: str, number: int) -> Cause | None:
        """What delayed the last rank to arrive at a collective."""
        before = self._by_collective.get((communicator, number), ())
        own = (item for item in before if item.rank not in self.unexplained)
        return next(iter(self._summed(own)), None)

    @cached_property
    def _by_collective(self) -> Mapping[tuple[str, int], list[Longer]]:
        held = defaultdict(list)
        for item in self._longer:
            held[item.communicator, item.number].append(item)
        return held

    def _summed(self, items: Iterable[Longer]) -> list[Cause]:
        excess: dict[int, float] = defaultdict(float)
        longest: dict[int, tuple[float, int]] = {}
        for item in items:
            excess[item.key] += item.excess_ns
            mark = item.excess_ns, item.path
            longest[item.key] = max(longest.get(item.key, mark), mark)
        ids = [*self._paths]
        return self._ordered({ids[longest[key][1]]: time for key, time in excess.items()})

    def _ordered(self, excess: Mapping[int, float]) -> list[Cause]:
        """Causes from the excess of call paths, the largest first."""
        total = sum(time for time in excess.values() if time > 0)
        above = sorted((-time, path) for path, time in excess.items() if time > 0)
        return [
            Cause(*self._paths[path].key, -less, -less / total, self._caller(path), path)
            for less, path in above
        ]

    def within(self, causes: Sequence[Cause]) -> tuple[TimerRow, float] | None:
        """The innermost of the program's routines that contains most of a rank's excess, including
        callees, and its share; None if only the outermost one does."""
        shares: dict[int, float] = defaultdict(float)
        depths: dict[int, int] = {}
        for cause in causes:
            above = [path for path in self._upwards(cause.path) if self._is_named(path)]
            for depth, path in enumerate(reversed(above)):
                shares[path] += cause.share
                depths[path] = depth
        inside = [path for path, share in shares.items() if share >= _MOST and depths[path]]
        if not inside:
            return None
        path = max(inside, key=lambda path: (depths[path], shares[path]))
        return self._paths[path].timer, shares[path]

    def _upwards(self, path: int | None) -> Iterator[int]:
        while path is not None:
            yield path
            path = self._paths[path].parent

    def _is_named(self, path: int) -> bool:
        timer = self._paths[path].timer
        return self._is_own(timer) and not timer.short_name.endswith(_PARTS)

    def _caller(self, path: int) -> TimerRow | None:
        """The program's own routine that called a path's routine, however deep in libraries; if
        there is none, the direct caller."""
        own = self._paths[path].timer
        above = []
        at = self._paths[path].parent
        while at is not None:
            timer = self._paths[at].timer
            if timer.file and timer != own and not timer.short_name.endswith(_PARTS):
                above.append(timer)
            at = self._paths[at].parent
        return next((timer for timer in above if self._is_own(timer)), next(iter(above), None))

    def _is_own(self, timer: TimerRow) -> bool:
        path = self._files.get(timer.timer)
        return path is not None and not is_library(path, timer.groups)

    @cached_property
    def _files(self) -> Mapping[str, str | None]:
        return timer_paths(self.db, self.trial)

    @cached_property
    def _paths(self) -> dict[int, _Path]:
        """The call paths of all host threads except those of collectives, by id."""
        by = ("callpath", "parent", "timer", "layer", "phase")
        where = (Condition("kind", ("host",)),)
        table = values(self.db, Question((self.trial,), by=by, where=where))
        columns = {name: table.row_labels(name) for name in by}
        left_out = _setting_up(columns["callpath"], columns["parent"], columns["timer"])
        return {
            callpath: _Path(
                timer, layer, phase, parent,
                parent is not None and phase not in _NOT_WORK and callpath not in left_out
                and _MEASURING not in timer.groups.split("|"),
            )
            for callpath, parent, timer, layer, phase in zip(*columns.values(), strict=True)
        }  # fmt: skip

    @cached_property
    def _longer(self) -> list[Longer]:
        threads = threads_by_id(self.db, self.trial)
        ranks = {rank.place: rank.number for rank in self._job.ranks}
        listed = [
            (ranks[node], stretches, callpaths)
            for thread, stretches, callpaths in read_stretches(self.db, self.trial)
            if (node := threads[thread].node) in ranks
        ]
        if not listed:
            return []
        position = {path: at for at, path in enumerate(self._paths)}
        codes: dict[tuple[TimerRow, str | None, str | None], int] = {}
        keys = np.array(
            [
                codes.setdefault(path.key, len(codes)) if path.is_compared else LEFT_OUT
                for path in self._paths.values()
            ],
            "i8",
        )
        held: dict[int, OwnTimes] = {}
        for rank, stretches, callpaths in listed:  # if several threads have stretches, the first's
            paths = np.array([position[path] for path in callpaths], "i8")
            held.setdefault(rank, OwnTimes(stretches, paths, keys))
        return [*longer(self._job, held)]

    def _over_the_run(self, rank: int) -> list[Cause]:
        node, others = places(self._job, rank)
        table = values(
            self.db,
            Question(
                (self.trial,),
                by=("thread", "callpath"),
                where=(Condition("kind", ("host",)),),
            ),
        )
        own: dict[tuple[TimerRow, str | None, str | None], dict[int, float]] = {}
        longest: dict[tuple[TimerRow, str | None, str | None], tuple[float, int]] = {}
        wanted = {node, *others}
        for thread, callpath, time in zip(
            table.row_labels("thread"), table.row_labels("callpath"),
            table.column("exclusive", "time"), strict=True,
        ):  # fmt: skip
            path = self._paths[callpath]
            if thread.node in wanted and thread.name != THREAD_NAME and path.is_compared and time:
                by_rank = own.setdefault(path.key, {})
                by_rank[thread.node] = by_rank.get(thread.node, 0.0) + time
                if thread.node == node:
                    mark = time, callpath
                    longest[path.key] = max(longest.get(path.key, mark), mark)
        excess = {
            longest[key][1]: by_rank[node] - median(by_rank.get(other, 0.0) for other in others)
            for key, by_rank in own.items()
            if node in by_rank
        }
        return self._ordered(excess)


def _setting_up(
    callpaths: Iterable[int], parents: Iterable[int | None], timers: Iterable[TimerRow]
) -> set[int]:
    """Call paths in which process groups are created, and those below."""
    above: dict[int, int | None] = {}
    begins: set[int] = set()
    for callpath, parent, timer in zip(callpaths, parents, timers, strict=True):
        above[callpath] = parent
        if (timer.file or "").endswith(_SETTING_UP) or timer.short_name in _WAITING:
            begins.add(callpath)
    inside: dict[int, bool] = {}
    for callpath in above:
        path = []
        at: int | None = callpath
        while at is not None and at not in inside and at not in begins:
            path.append(at)
            at = above.get(at)
        verdict = at is not None and (at in begins or inside.get(at, False))
        inside.update(dict.fromkeys(path, verdict))
    return begins | {callpath for callpath, verdict in inside.items() if verdict}
