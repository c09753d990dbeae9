"""How much less looks at several threads at one moment tell than as many independent ones.

Threads of a pool that begin together often do the same in step, and looks at them at one moment
then find the same place. The squares of looks, from which standard errors follow
(`analysis/line_times.py`), are multiplied by the design effect, 1 + r B / S: B is the sum over
pairs of looks at one moment of the products of their times, S that of the squares of the looks in
such pairs, and r the part of pairs at the same place beyond those by chance (Kish, Survey Sampling,
1965, 5.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable


class InStep:
    """Pairs of looks in the same group of places, such as a routine.

    Attributes:
        together: groups that several threads were seen in.
    """

    def __init__(self) -> None:
        self._times: dict[Hashable, dict[Hashable, dict[Hashable, int]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(int))
        )
        self.together: set[Hashable] = set()

    def add(self, group: Hashable, place: Hashable, thread: Hashable, time_ns: int) -> None:
        """A thread was seen there for so long."""
        self._times[group][place][thread] += time_ns

    def effect(self, pairs: float, alike: float, paired: float) -> float:
        """The factor of the squares in `together`.

        Args:
            pairs, alike, paired: as in `state.lines.Head`.
        """
        possible = same = 0
        for group, of_places in self._times.items():
            whole: dict[Hashable, int] = defaultdict(int)
            for of_place in of_places.values():
                same += _of_two(of_place.values())
                for thread, time_ns in of_place.items():
                    whole[thread] += time_ns
            possible += _of_two(whole.values())
            if len(whole) > 1:
                self.together.add(group)
        if not (same < possible and pairs and paired):
            return 1.0
        by_chance = same / possible
        return max(1.0, 1 + (alike / pairs - by_chance) / (1 - by_chance) * pairs / paired)


def _of_two(times: Collection[int]) -> int:
    """The products of two different ones, added up."""
    return sum(times) ** 2 - sum(time_ns**2 for time_ns in times)
