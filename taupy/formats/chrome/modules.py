"""The modules of a backward pass, which runs no Python and so is in no call of a module.

PyTorch numbers the nodes of its graph as the forward pass makes them. An operator of the backward
pass has the number of the operator that made its node, which ran in a module.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from taupy.model.profile import Timer
from taupy.network.layers import BACKWARD, GROUP


class Modules:
    """Finds the modules of backward operators; slices come in order of their start, the forward
    pass's threads first.

    Args:
        backward_of: timer of a module's calls -> that of its backward passes.
    """

    def __init__(self, backward_of: Mapping[int, int]) -> None:
        self._backward_of = backward_of
        self._made_in: dict[tuple[Hashable, int], tuple[int, int]] = {}
        self._process: Hashable = None
        self._thread = 0
        self._open: list[tuple[int, int]] = []
        self._until = 0

    def __bool__(self) -> bool:
        return bool(self._backward_of)

    def begin_thread(self, process: Hashable) -> None:
        self._process = process
        self._thread += 1
        self._open = []
        self._until = 0

    def above(self, start: int, end: int, timer: int, number: int) -> tuple[int, ...]:
        """The timer to put above a slice: of the backward pass that it begins.

        Args:
            number: twice the sequence number of an operator, 1 more in a backward pass; negative
                for other slices.
        """
        while self._open and self._open[-1][0] <= start:
            self._open.pop()
        if timer in self._backward_of:
            self._open.append((end, timer))
        elif number >= 0 and not number & 1:
            if self._open:
                key = self._process, number >> 1
                node = self._made_in.setdefault(key, (self._thread, self._open[-1][1]))
                if node[0] != self._thread:  # threads number their nodes apart
                    self._made_in[key] = (0, -1)
        elif number >= 0 and start >= self._until:
            _, module = self._made_in.get((self._process, number >> 1), (0, -1))
            if module >= 0:
                self._until = end
                return (self._backward_of[module],)
        return ()


def backward_timer(calls: Timer) -> Timer:
    """The timer of the backward passes of a module, from that of its calls."""
    short = BACKWARD + (calls.short or calls.name)
    return Timer(BACKWARD + calls.name, groups=(GROUP, "PHASE_BACKWARD"), short=short)
