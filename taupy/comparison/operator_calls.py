"""Calls of operators that launched GPU work, one by one, and which of the trials' belong together.

The database has each work of a trace, in the order of the calls that launched it, and sums over the
calls of an operator at a call path, by their inputs. These tell which works are of one call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from taupy import units
from taupy.analysis.call_order import MOST_CALLS, paired
from taupy.analysis.match import Key, Rule
from taupy.comparison.operators import operators_above, recorded_inputs
from taupy.comparison.sides import Side
from taupy.comparison.trial_values import Runs
from taupy.errors import MissingMetric, UsageError
from taupy.model.rows import TimerRow
from taupy.network.operators import plain_name
from taupy.pprof.selection import name_test
from taupy.profiledb.activities import LaunchedWork, works
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import labels, steps_up
from taupy.profiledb.operator_inputs import Signed


@dataclass(slots=True)
class OperatorCall:
    """A call and its GPU work.

    Attributes:
        operator, outer: its name, and that of the outermost operator around it.
        inputs: their sizes and types: all those of its call path, if they are not told apart.
        number: from 1 among the calls of this operator in its process.
    """

    operator: str
    outer: str
    inputs: str
    number: int
    time_ns: int = 0
    kernels: dict[TimerRow, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.operator}({self.inputs}) #{self.number}"


class Place(NamedTuple):
    """A call among those of its process; `side`: 0 for a call with its partners."""

    side: int
    node: int
    at: int


class PairedCalls(NamedTuple):
    """Calls of the sides' trials as rows, each side's values and kernels, and how many have a
    partner."""

    keys: dict[Hashable, Key]
    runs: Sequence[Sequence[Runs]]
    kernels: Sequence[Mapping[Hashable, Sequence[TimerRow]]]
    notes: Sequence[str]


def paired_calls(db: ProfileDB, sides: Sequence[Side], names: Sequence[str]) -> PairedCalls:
    """The calls of operators that have one of these names, with their partners.

    The calls of all operators are paired, since those around a call tell which one it is.

    Raises:
        MissingMetric: a side has no single works, or no inputs of operators.
        UsageError: a side has several trials, or no operator has such a name.
    """
    if any(len(side.trials) > 1 for side in sides):
        raise UsageError(
            "calls are compared one by one in one trial on each side; without --filter, --by "
            "signature compares sums"
        )
    of_sides = [operator_calls(db, side.trials[0].id) for side in sides]
    notes = [
        f"of {side.letter}, the first {units.count(MOST_CALLS)} calls of a process are compared"
        for side, calls in zip(sides, of_sides, strict=True)
        if any(len(mine) > MOST_CALLS for mine in calls.values())
    ]
    wanted = _wanted(of_sides, names)
    rows: dict[Place, dict[int, OperatorCall]] = {}
    for side, calls in enumerate(of_sides):
        for node, mine in calls.items():
            mates = partners(of_sides[0].get(node, ()), mine) if side else {}
            for at, call in enumerate(mine[:MOST_CALLS]):
                place = Place(0, node, mates[at]) if at in mates else Place(side, node, at)
                rows.setdefault(place, {})[side] = call
    rows = {
        place: row
        for place, row in rows.items()
        if any(call.operator in wanted for call in row.values())
    }
    own = [{place: row[side] for place, row in rows.items() if side in row}
           for side in range(len(sides))]  # fmt: skip
    times: list[dict[Hashable, float]] = [
        {place: float(call.time_ns) for place, call in calls.items()} for calls in own
    ]
    counts = (
        f"{side.letter} {sum(len(rows[place]) > 1 for place in calls)} of {len(calls)}"
        for side, calls in zip(sides, own, strict=True)
    )
    return PairedCalls(
        {place: _key(place, row) for place, row in rows.items()},
        [[Runs(values, dict.fromkeys(values, 1.0), {})] for values in times],
        [{place: sorted(call.kernels, key=call.kernels.__getitem__, reverse=True)
          for place, call in calls.items()} for calls in own],
        [f"calls paired in the order of their launches: {', '.join(counts)}", *notes],
    )  # fmt: skip


def _wanted(
    of_sides: Sequence[Mapping[int, Sequence[OperatorCall]]], names: Sequence[str]
) -> set[str]:
    operators = {call.operator for calls in of_sides for mine in calls.values() for call in mine}
    wanted = set[str]()
    for name in names:
        test = name_test(name)
        matching = {operator for operator in operators if test(operator, operator)}
        if not matching:
            raise UsageError(units.no_such("operator with GPU work", name, operators))
        wanted |= matching
    return wanted


def partners(first: Sequence[OperatorCall], second: Sequence[OperatorCall]) -> dict[int, int]:
    """Calls of the second by position -> their partners in the first: by name and inputs, then by
    the outermost operator and inputs."""
    pairs = paired(
        first[:MOST_CALLS],
        second[:MOST_CALLS],
        [lambda call: (call.operator, call.inputs), lambda call: (call.outer, call.inputs)],
    )
    return {other: at for at, other in pairs}


def _key(place: Place, row: Mapping[int, OperatorCall]) -> Key:
    name = " = ".join(dict.fromkeys(call.name for call in row.values()))
    of_row = next(iter(row.values()))
    if place.node:
        name = f"{name} of process {place.node}"
    rule: Rule = "order" if len(row) > 1 else "same"
    return Key(place, name, of_row.operator, None, None, "OPERATOR", rule)


def operator_calls(db: ProfileDB, trial: int) -> dict[int, list[OperatorCall]]:
    """The calls of a trial that launched GPU work, by process, in the order of their launches.

    Raises:
        MissingMetric: the trial has no single works, or no inputs of operators.
    """
    of_nodes = works(db, trial)
    if not of_nodes:
        raise MissingMetric(
            f"trial {trial} has sums of its launches, not single ones: `taupy run --trace=gpu` "
            "records them, `taupy import FILE` keeps those of a file"
        )
    inputs: dict[int, list[Signed]] = {}
    for own in recorded_inputs(db, [trial])[trial]:
        if own.launches:
            inputs.setdefault(own.path, []).append(own)
    paths = {work.callpath for mine in of_nodes.values() for work in mine}
    above = operators_above(db, paths)
    steps = steps_up(db, paths)
    timers = labels(db, "timer", [*{steps[path][1] for path in paths}])
    kernels = {path: timers[steps[path][1]][0] for path in paths}
    return {
        node: [*_called([work for work in mine if above[work.callpath]], above, inputs, kernels)]
        for node, mine in of_nodes.items()
    }


def _called(
    mine: Sequence[LaunchedWork],
    above: Mapping[int, Sequence[tuple[int, str]]],
    inputs: Mapping[int, Sequence[Signed]],
    kernels: Mapping[int, TimerRow],
) -> Iterator[OperatorCall]:
    """The calls that launched these works: as many of one call path and inputs as a call launches;
    where that differs from call to call, those in succession."""
    of_paths: dict[int, list[int]] = {}
    for at, work in enumerate(mine):
        of_paths.setdefault(above[work.callpath][0][0], []).append(at)
    inputs_of: dict[int, _Inputs] = {}
    for path, places in of_paths.items():
        ran = _told_apart([mine[at].time_ns for at in places], inputs.get(path, ()))
        inputs_of.update(zip(places, ran, strict=True))
    numbers: dict[str, int] = {}
    incomplete: dict[tuple[int, str], tuple[OperatorCall, int]] = {}
    calls: list[OperatorCall] = []
    before = None
    for at, work in enumerate(mine):
        (path, name), (_, outer) = above[work.callpath][0], above[work.callpath][-1]
        here = path, inputs_of[at].text
        call, works_left = incomplete.pop(here, (None, 0))
        if call is None or (not works_left and here != before):
            operator = plain_name(name)
            numbers[operator] = numbers.get(operator, 0) + 1
            call = OperatorCall(operator, plain_name(outer), inputs_of[at].text, numbers[operator])
            calls.append(call)
            works_left = inputs_of[at].works
        if works_left != 1:
            incomplete[here] = call, max(works_left - 1, 0)
        call.time_ns += work.time_ns
        kernel = kernels[work.callpath]
        call.kernels[kernel] = call.kernels.get(kernel, 0) + work.time_ns
        before = here
    return iter(calls)


class _Inputs(NamedTuple):
    """The inputs of a call, and how many works it launched; 0 if that is not known."""

    text: str
    works: int


def _told_apart(times: Sequence[int], signatures: Sequence[Signed]) -> list[_Inputs]:
    """The inputs with which each work of a call path was launched.

    If calls of a path had different inputs, a work is that of a single launch with its time; what
    is then left of one signature, and else of all of those that are left.
    """
    left = list(signatures)
    inputs_of: list[_Inputs | None] = [None] * len(times)
    for own in signatures:
        alike = [
            at for at, time in enumerate(times) if time == own.gpu_ns and inputs_of[at] is None
        ]
        if len(signatures) > 1 and own.launches == len(alike) == 1:
            inputs_of[alike[0]] = _Inputs(own.signature, 1)
            left.remove(own)
    text = " or ".join(sorted({own.signature for own in left})) or "inputs not recorded"
    works, rest = divmod(sum(own.launches for own in left), sum(own.calls for own in left) or 1)
    others = _Inputs(text, 0 if rest else works)
    return [inputs or others for inputs in inputs_of]
