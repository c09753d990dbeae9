"""How long routines of the program waited, of their exact times, as CPU times and looks tell.

What a thread waited for a processor is no wait of its own where it works, and one where it has just
slept. Looks cannot tell which, so that this time of a line is divided as the rest of it: on a busy
machine it waits for the same part of its time as on a quiet one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from taupy.analysis.trees import Looks, Seen

_MOSTLY = 0.5
_HARDLY = 0.05
_LOOKS = 3
"""With fewer samples nothing is said about sleep."""


class Waited:
    """By group of threads and routine, as their numbers in a tally.

    Args:
        spent: the exact time of each thread in each routine.
        whole: the exact time of each thread.
        looked: what looks at threads found in routines, at each place in them.
        groups: that of each thread.
        main: those of main threads.
    """

    def __init__(
        self,
        spent: Mapping[tuple[int, int], float],
        whole: Mapping[int, float],
        looked: Mapping[tuple[int, int], Sequence[Looks]],
        seen: Seen,
        groups: Sequence[int],
        main: Collection[int],
    ) -> None:
        self.spent, self.whole, self.looked = spent, whole, looked
        self.seen, self.groups, self.main = seen, groups, main

    def asleep(self, key: tuple[int, int], ns: float) -> float:
        """Of a routine's time, that without work, as the looks at it tell."""
        looks, slept = self.slept.get(key, (0, 0.0))
        return slept if looks >= _LOOKS and slept >= _HARDLY * ns else 0.0

    def off_cpu(self, key: tuple[int, int], ns: float) -> float:
        """How long it had no CPU at least: of what is exact, if it is some of its time, and else if
        it is most; else 0."""
        beyond, least = self.beyond.get(key, 0.0), _HARDLY if key[0] in self.main else _MOSTLY
        return beyond if beyond >= least * ns else 0.0

    @cached_property
    def slept(self) -> dict[tuple[int, int], tuple[int, float]]:
        """Of routines that were seen without work, how often, and the part of their time that these
        looks stand for; at most that in which their threads were on no CPU."""
        slept: dict[tuple[int, int], tuple[int, float]] = {}
        for (thread, routine), looks in self.looked.items():
            idle, ns = sum(of.idle for of in looks), self.spent.get((thread, routine), 0.0)
            if idle and ns:
                share = sum(of.waits_ns for of in looks) / sum(of.ns for of in looks)
                off_cpu = max(0.0, self.whole[thread] - self.seen.cpu_ns.get(thread, 0.0))
                key = self.groups[thread], routine
                number, before_ns = slept.get(key, (0, 0.0))
                slept[key] = number + idle, before_ns + min(ns * share, off_cpu)
        return slept

    @cached_property
    def of_all(self) -> dict[int, float]:
        """How long threads waited at least, in all routines together, where that is exact."""
        together: dict[int, float] = defaultdict(float)
        for (thread, _), ns in self.spent.items():
            together[thread] += ns
        beyond: dict[int, float] = defaultdict(float)
        for thread in self.seen.delay_ns.keys() & together.keys():
            beyond[self.groups[thread]] += max(0.0, together[thread] - self.seen.ready_ns(thread))
        return beyond

    @cached_property
    def beyond(self) -> dict[tuple[int, int], float]:
        """The time of routines beyond what each of their threads can have worked; nothing of a main
        thread whose run delay is not known: its work on a busy machine would count as waiting."""
        beyond: dict[tuple[int, int], float] = defaultdict(float)
        for (thread, routine), ns in self.spent.items():
            group, worked = self.groups[thread], self.seen.ready_ns(thread)
            timed = self.seen.delay_ns if group in self.main else self.seen.cpu_ns
            if thread in timed and ns > worked:
                beyond[group, routine] += ns - worked
        return dict(beyond)
