"""The time of each step of a training in the trials of a comparison.

A trial records of its steps their times alone: no other metric is known step by step.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from taupy.analysis.match import Key
from taupy.comparison.sides import Side
from taupy.comparison.trial_values import Over
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.steps import steps_of


@dataclass(slots=True)
class StepTimes:
    """Of each trial of each side, by the key of the step, its time [ns] and how many there were."""

    keys: dict[Hashable, Key] = field(default_factory=dict)
    of_sides: list[list[dict[Hashable, float]]] = field(default_factory=list)
    calls: list[list[dict[Hashable, float]]] = field(default_factory=list)


def step_times(db: ProfileDB, sides: Sequence[Side], over: Over) -> StepTimes:
    """The steps of all threads, those of one number and kind joined as `over` says."""
    times = StepTimes()
    for side in sides:
        times.of_sides.append([])
        times.calls.append([])
        for trial in side.trials:
            of_step: dict[Hashable, list[tuple[int, int]]] = {}
            for _, series in steps_of(db, trial.id):
                for row in range(len(series)):
                    name = _name(series.kind, series.number[row], series.count[row])
                    times.keys.setdefault(name, Key(name, name, name, None, None, "", "same"))
                    pair = (series.time_ns[row], series.count[row])
                    of_step.setdefault(name, []).append(pair)
            times.of_sides[-1].append(
                {name: _joined((time for time, _ in rows), over) for name, rows in of_step.items()}
            )
            times.calls[-1].append(
                {name: sum(count for _, count in rows) for name, rows in of_step.items()}
            )
    return times


def _name(kind: str, number: int, count: int) -> str:
    place = str(number) if count == 1 else f"{number}-{number + count - 1}"
    return place if kind == "training" else f"{kind} {place}"


def _joined(times: Iterable[int], over: Over) -> float:
    of_threads = list(times)
    if over == "max":
        return max(of_threads)
    return sum(of_threads) / (len(of_threads) if over == "mean" else 1)
