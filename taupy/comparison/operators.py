"""Operators of different trials: which are the same, how often each was called, and its kernels.

`analysis/operator_match.py` matches them. Their calls are those on the host that launched GPU work
directly; kernels may be several for a call, and other numbers on each GPU.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from taupy import units
from taupy.analysis.match import Key
from taupy.analysis.operator_match import Nested, matched_operators
from taupy.catalog.datasheets import ceilings as published
from taupy.catalog.datasheets import datasheet
from taupy.comparison.sides import Side
from taupy.comparison.trial_values import Runs, TrialValues, Where
from taupy.doors import door
from taupy.errors import MissingMetric
from taupy.model.answer import Answer
from taupy.model.gpu import NO_OWNER
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.network.operators import GROUP, NOT_OPERATORS
from taupy.profiledb import trial_facts
from taupy.profiledb.ceilings import ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import labels, steps_up
from taupy.profiledb.operator_inputs import Signed, signed
from taupy.profiledb.values import values

BY = ("operator", "outer_operator")


@dataclass(frozen=True)
class Operators:
    """The operators of the sides' trials.

    Attributes:
        keys: of each side, by operator and outermost operator.
        calls: trial -> the same -> number of calls; None for what has no operator.
        kernels: of each side: key -> names of its kernels, those with the largest value first.
    """

    keys: Sequence[Mapping[Nested, Key]]
    calls: Mapping[int, Mapping[Nested, int]]
    kernels: Sequence[Mapping[Hashable, Sequence[TimerRow]]]


def place(values: TrialValues, sides: Sequence[Collection[int]]) -> Where:
    """What is asked of operators: GPU work; host time, if a side has no GPU work."""
    on_gpu = {
        trial
        for answer in replace(values, value="exclusive").answers(where="gpu", calls=False)
        for trial in answer.table.row_labels("trial")
    }
    return "host" if any(map(on_gpu.isdisjoint, sides)) else "gpu"


def nested(by: str, answer: Answer) -> list[Nested]:
    """The operator and outermost operator of each row; by the latter, twice that."""
    return list(zip(*(answer.table.row_labels(name) for name in _names(by)), strict=True))


def of_gpu_work(answer: Answer, value: Literal["inclusive", "exclusive"]) -> Answer:
    """The rows that something ran for, without those of the routines that lead to it."""
    counted = zip(answer.calls(), answer.values(value), strict=True)
    rows = [row for row, (calls, number) in enumerate(counted) if calls or number > 0]
    return answer.taken(rows)


def _names(by: str) -> tuple[str, str]:
    return by, "outer_operator"


def of_sides(
    metric_values: TrialValues,
    by: str,
    answers: Sequence[Answer],
    sides: Sequence[Collection[int]],
    where: Where,
    limits: Sequence[Condition],
    exact: bool,
) -> Operators:
    """
    Args:
        metric_values: the metric.
        answers: its values by operator and outermost operator.
        sides: their trials.
        where, limits: the restrictions with which the values were requested.
    """
    pairs: list[dict[Nested, None]] = [{} for _ in sides]
    for answer in answers:
        for trial, pair in zip(answer.table.row_labels("trial"), nested(by, answer), strict=True):
            for side, of_side in zip(sides, pairs, strict=True):
                if trial in side:
                    of_side[pair] = None
    keys = matched_operators(pairs, exact=exact)
    trials = sorted({trial for side in sides for trial in side})
    if where == "host":
        return Operators(keys, {}, [{} for _ in sides])
    return Operators(
        keys,
        _calls(metric_values, by, trials, limits),
        _kernels(metric_values, by, keys, sides, limits),
    )


def _calls(
    metric_values: TrialValues, by: str, trials: Sequence[int], limits: Sequence[Condition]
) -> dict[int, dict[Nested, int]]:
    """The calls, on the host, of the call paths of operators nearest to GPU work; by outermost
    operator, of these."""
    db = metric_values.db
    paths = {
        path
        for answer in metric_values.answers("callpath", where="gpu", limits=limits, calls=False)
        for path in answer.table.labels["callpath"]
    }
    of_operator: dict[int, Nested] = {}
    for above in operators_above(db, paths).values():
        if above:
            path, name = above[-1] if by == "outer_operator" else above[0]
            of_operator[path] = name, above[-1][1]
    where = (Condition("callpath", tuple(of_operator)), Condition("kind", ("host",)))
    question = Question(tuple(trials), (), ("trial", "callpath"), where, values=("calls",))
    table = values(db, question)
    calls: dict[int, dict[Nested, int]] = {trial: {} for trial in trials}
    for trial, path, number in zip(
        table.row_labels("trial"), table.row_labels("callpath"), table.column("calls"), strict=True
    ):
        of_trial, pair = calls[trial], of_operator[path]
        of_trial[pair] = of_trial.get(pair, 0) + int(number or 0)
    return calls


def operators_above(db: ProfileDB, paths: Collection[int]) -> dict[int, list[tuple[int, str]]]:
    """Call path -> the operators on its way to the root, itself included, the nearest first: the
    call path and name of each."""
    steps = steps_up(db, paths)
    timers = labels(db, "timer", list({timer for _, timer in steps.values()}))
    above: dict[int, list[tuple[int, str]]] = {}
    for path in paths:
        own = above[path] = []
        here: int | None = path
        while here is not None:
            caller, timer = steps[here]
            if GROUP in timers[timer][0].groups.split("|"):
                own.append((here, timers[timer][0].short_name))
            here = caller
    return above


def _kernels(
    metric_values: TrialValues,
    by: str,
    keys: Sequence[Mapping[Nested, Key]],
    sides: Sequence[Collection[int]],
    limits: Sequence[Condition],
) -> list[dict[Hashable, list[TimerRow]]]:
    largest: list[dict[Hashable, dict[TimerRow, float]]] = [{} for _ in sides]
    own = replace(metric_values, value="exclusive")
    for every in own.answers(*_names(by), "timer", where="gpu", limits=limits):
        answer = of_gpu_work(every, "exclusive")
        rows = zip(
            answer.table.row_labels("trial"), nested(by, answer), answer.timers,
            answer.values("exclusive"), strict=True,
        )  # fmt: skip
        for trial, pair, timer, value in rows:
            for side, of_side, of_keys in zip(sides, largest, keys, strict=True):
                if trial in side and value == value:
                    names = of_side.setdefault(of_keys[pair].identity, {})
                    names[timer] = names.get(timer, 0.0) + value
    return [
        {key: sorted(names, key=lambda name: -names[name]) for key, names in of_side.items()}
        for of_side in largest
    ]


SIGNATURE = "signature"


def signatures(
    metric_values: TrialValues,
    answers: Sequence[Answer],
    sides: Sequence[Side],
    *,
    exact: bool,
) -> tuple[list[dict[Nested, Key]], list[list[Runs]], list[dict[Hashable, list[TimerRow]]]]:
    """Operators with the sizes and types of their inputs: the keys of each side, the times and
    calls of its trials, and its kernels. The GPU time of other calls has rows by operator.

    Args:
        answers: GPU time by operator and outermost operator.

    Raises:
        MissingMetric: a side has no sizes of inputs.
    """
    trials = [trial.id for side in sides for trial in side.trials]
    of_trials: dict[int, list[Signed]] = {}
    for side in sides:
        of_trials |= recorded_inputs(metric_values.db, [trial.id for trial in side.trials])
    launched = _launched(metric_values)
    times: dict[int, dict[Nested, float]] = {trial: {} for trial in trials}
    calls: dict[int, dict[Nested, int]] = {trial: {} for trial in trials}
    kernels: dict[int, dict[Nested, dict[TimerRow, float]]] = {trial: {} for trial in trials}
    for answer in answers:
        for trial, run in metric_values.runs(answer, nested("operator", answer), "gpu").items():
            left: dict[Hashable, float] = dict(run.values)
            signed_calls = of_trials.get(trial, ())
            ran_here = launched.get(trial, {})
            ran = _told_apart(signed_calls, ran_here)
            with_inputs = {own.path for own in signed_calls}
            for at, own in enumerate(signed_calls):
                whole = own.operator, own.outer
                left[whole] = left.get(whole, 0.0) - own.gpu_ns
                signed_pair = (f"{own.operator}({own.signature})", f"{own.outer}({own.signature})")
                times[trial][signed_pair] = times[trial].get(signed_pair, 0.0) + own.gpu_ns
                calls[trial][signed_pair] = calls[trial].get(signed_pair, 0) + own.calls
                names = kernels[trial].setdefault(signed_pair, {})
                for timer, time in ran[at]:
                    names[timer] = names.get(timer, 0.0) + time
            for pair, time in left.items():
                if time > 0:
                    name = pair[0]  # type: ignore[index]  # the keys of `nested`
                    label = name if name in NOT_OPERATORS else f"{name} (inputs not recorded)"
                    times[trial][label, label] = times[trial].get((label, label), 0.0) + time
                    names = kernels[trial].setdefault((label, label), {})
                    for path, every in ran_here.items():
                        for kernel in every if path not in with_inputs else ():
                            if kernel.operators == pair:
                                timer, took = kernel.timer, kernel.time_ns
                                names[timer] = names.get(timer, 0.0) + took
    pairs = [
        dict.fromkeys(pair for trial in side.trials for pair in times[trial.id]) for side in sides
    ]
    keys = matched_operators(pairs, exact=exact)
    runs = [
        [
            Runs(_by_key(times[trial.id], names), _by_key(calls[trial.id], names), {})
            for trial in side.trials
        ]
        for side, names in zip(sides, keys, strict=True)
    ]
    named = [_largest_first(kernels, side, of) for side, of in zip(sides, keys, strict=True)]
    return keys, runs, named


def recorded_inputs(db: ProfileDB, trials: Sequence[int]) -> dict[int, list[Signed]]:
    """The calls of operators by their inputs, of the trials of a side that have them.

    Raises:
        MissingMetric: none of them has any.
    """
    of_trials = signed(db, trials)
    if not of_trials:
        raise MissingMetric(
            f"trial {trials[0]} has no sizes of operators' inputs: record them with "
            "torch.profiler's record_shapes=True (or emit_nvtx's, for nsys)"
        )
    return of_trials


class _Ran(NamedTuple):
    """A kernel at a call path of an operator.

    Attributes:
        operators: the nearest and the outermost one.
    """

    operators: Nested
    timer: TimerRow
    launches: int
    time_ns: int


def _launched(metric_values: TrialValues) -> dict[int, dict[int, list[_Ran]]]:
    """Trial -> call path of an operator -> what it launched itself; of work in no operator, by its
    own call path."""
    sums: dict[tuple[int, int, Nested, TimerRow], list[int]] = {}
    for every in metric_values.answers(
        "callpath", "operator", "outer_operator", "timer", where="gpu"
    ):
        answer = of_gpu_work(every, "exclusive")
        paths = answer.table.row_labels("callpath")
        above = operators_above(metric_values.db, set(paths))
        for trial, path, pair, timer, count, time in zip(
            answer.table.row_labels("trial"), paths, nested("operator", answer), answer.timers,
            answer.calls(), answer.values("exclusive"), strict=True,
        ):  # fmt: skip
            place = above[path][0][0] if above[path] else path
            own = sums.setdefault((trial, place, pair, timer), [0, 0])
            own[0] += int(count or 0)
            own[1] += int(time)
    of_trials: dict[int, dict[int, list[_Ran]]] = {}
    for (trial, path, pair, timer), numbers in sums.items():
        of_trials.setdefault(trial, {}).setdefault(path, []).append(_Ran(pair, timer, *numbers))
    return of_trials


def _told_apart(
    calls: Sequence[Signed], launched: Mapping[int, Sequence[_Ran]]
) -> list[list[tuple[TimerRow, float]]]:
    """The kernels of each of these calls, with their times.

    The kernels of a call path are known, and each signature's launches and time. If several
    signatures share a call path, a kernel is that of the only one with its numbers. Times of short
    kernels agree by chance, too, so this holds only where it explains all launches of the path:
    what is left is of one signature, or one kernel. Anything else is left out.
    """
    of_paths: dict[int, list[int]] = {}
    for at, own in enumerate(calls):
        of_paths.setdefault(own.path, []).append(at)
    kernels_of: list[list[tuple[TimerRow, float]]] = [[] for _ in calls]
    for path, places in of_paths.items():
        ran = list(launched.get(path, ()))
        places = [at for at in places if calls[at].launches]
        others = sum(kernel.launches for kernel in ran) - sum(calls[at].launches for at in places)
        if len(ran) > 1 and others:
            continue
        assigned = []
        for kernel in list(ran):
            alike = [at for at in places if calls[at][-2:] == kernel[-2:]]
            twins = [other for other in ran if other[-2:] == kernel[-2:]]
            if len(alike) == len(twins) == 1:
                assigned.append((alike[0], kernel))
                places.remove(alike[0])
                ran.remove(kernel)
        if len(places) > 1 and len(ran) > 1:
            continue
        for at, kernel in assigned:
            kernels_of[at].append((kernel.timer, kernel.time_ns))
        for at in places:
            for kernel in ran:
                ns = calls[at].gpu_ns if len(ran) == 1 else kernel.time_ns
                kernels_of[at].append((kernel.timer, ns))
    return kernels_of


def _largest_first(
    kernels: Mapping[int, Mapping[Nested, Mapping[TimerRow, float]]],
    side: Side,
    names: Mapping[Nested, Key],
) -> dict[Hashable, list[TimerRow]]:
    sums: dict[Hashable, dict[TimerRow, float]] = {}
    for trial in side.trials:
        for pair, times in kernels[trial.id].items():
            of_key = sums.setdefault(names[pair].identity, {})
            for timer, time in times.items():
                of_key[timer] = of_key.get(timer, 0.0) + time
    return {key: sorted(times, key=lambda timer: -times[timer]) for key, times in sums.items()}


def _by_key(numbers: Mapping[Nested, float], names: Mapping[Nested, Key]) -> dict[Hashable, float]:
    sums: dict[Hashable, float] = {}
    for pair, number in numbers.items():
        key = names[pair].identity
        sums[key] = sums.get(key, 0) + number
    return sums


def required(answers: Sequence[Answer], by: str, sides: Sequence[Side], where: Where) -> None:
    """
    Raises:
        MissingMetric: a side has no operators; the message says how to record them.
    """
    having = {
        trial
        for answer in answers
        for trial, name in zip(*map(answer.table.row_labels, ("trial", by)), strict=True)
        if name not in NOT_OPERATORS
    }
    for side in sides:
        lacking = [trial for trial in side.trials if trial.id not in having]
        if len(lacking) < len(side.trials):
            continue
        ids = ", ".join(str(trial.id) for trial in lacking)
        whose = f"trial {ids} has" if len(lacking) == 1 else f"the trials {ids} have"
        work = "GPU work in operators" if where == "gpu" else "operators"
        raise MissingMetric(f"{whose} no {work}: {_way(lacking[0].source)}")


def _way(source: str) -> str:
    """How to get operators into a trial."""
    if source.startswith("import nsys"):
        return "record the program within `torch.autograd.profiler.emit_nvtx()`"
    if source.startswith("import chrome"):
        return "let torch.profiler record ProfilerActivity.CPU, too"
    if source.startswith("import"):
        return "files of this format have none"
    return "record them with `taupy run --operators SCRIPT`"


def paired_note(
    sides: Sequence[Side],
    rows: Sequence[tuple[Key, Sequence[float | None]]],
    where: Where,
) -> str:
    """Which share of each side has a partner on another, and by which rule.

    Args:
        rows: the name of each row, and its values on the sides.
    """
    whole = [0.0] * len(sides)
    unknown, lone = [*whole], [*whole]
    by_rule = {"same": [*whole], "outer": [*whole]}
    for key, numbers in rows:
        having = sum(number is not None for number in numbers)
        for at, number in enumerate(numbers):
            if key.timer == NO_OWNER:
                unknown[at] += number or 0
                continue
            whole[at] += number or 0
            if key.timer in NOT_OPERATORS:
                lone[at] += number or 0
            elif having > 1:
                by_rule[key.rule][at] += number or 0
    same, outer = ([100 * part / of if of else 0.0 for part, of in zip(parts, whole, strict=True)]
                   for parts in by_rule.values())  # fmt: skip
    what = "GPU time" if where == "gpu" else "host time in operators"
    if where == "host":
        same, outer = ([100 * part / (of - alone) if of > alone else 0.0
                        for part, of, alone in zip(parts, whole, lone, strict=True)]
                       for parts in by_rule.values())  # fmt: skip
    both = [_floored(sum(shares)) for shares in zip(same, outer, strict=True)]
    text = f"paired, of the {what}: {_of_each(sides, both)}"
    if any(outer):
        by_name, by_outer = (_of_each(sides, map(_floored, shares)) for shares in (same, outer))
        text += f" (by name {by_name}; by the outermost operator {by_outer})"
    else:
        text += ", all by name"
    if where == "gpu" and any(lone):
        shares = [_floored(100 * part / of if of else 0.0)
                  for part, of in zip(lone, whole, strict=True)]  # fmt: skip
        text += f"; in no operator {_of_each(sides, shares)}"
    if any(unknown):
        times = [units.duration(time) for time in unknown]
        text += f"; not counted, since launched from an unknown place: {_of_each(sides, times)}"
    return text


def _of_each(sides: Sequence[Side], texts: Iterable[str]) -> str:
    return ", ".join(f"{side.letter} {text}" for side, text in zip(sides, texts, strict=True))


def _floored(percent: float) -> str:
    """100 % is all of it."""
    return f"{math.floor(10 * percent + 1e-6) / 10:g} %"


def roof_shares(
    db: ProfileDB, by: str, sides: Sequence[Side], keys: Sequence[Mapping[Nested, Key]]
) -> list[dict[Hashable, float]]:
    """Of each side: key -> the share of the roof [%] that its kernels reach together, where flop
    and bytes of all its operators were counted."""
    trials = [trial for side in sides for trial in side.trials]
    of_trials: Mapping[int, Mapping[Nested, tuple[float, float] | None]] = door(
        "roofline.operators"
    ).times(db, trials)
    shares = []
    for side, names in zip(sides, keys, strict=True):
        sums: dict[Hashable, list[tuple[float, float] | None]] = {}
        for trial in side.trials:
            for (inner, outer), times in of_trials.get(trial.id, {}).items():
                pair = (outer if by == "outer_operator" else inner), outer
                if pair in names:
                    sums.setdefault(names[pair].identity, []).append(times)
        of_side: dict[Hashable, float] = {}
        for key, every in sums.items():
            counted = [times for times in every if times is not None]
            if len(counted) == len(every):
                shortest, taken = map(sum, zip(*counted, strict=True))
                of_side[key] = 100 * shortest / taken
        shares.append(of_side)
    return shares


def roofs_note(db: ProfileDB, sides: Sequence[Side]) -> str:
    """What the peaks of the sides' GPUs say about times: a fact about GPUs; "" if the sides have
    one kind, or GPUs without a name."""
    models = trial_facts.gpu_models(db, [trial.id for side in sides for trial in side.trials])
    gpus = [{models[trial.id] for trial in side.trials} for side in sides]
    if any(len(names) != 1 for names in gpus) or len(set[str]().union(*gpus)) == 1:
        return ""
    first, *others = (names.pop() for names in gpus)
    texts = []
    for side, gpu in zip(sides[1:], others, strict=True):
        if gpu in (first, "") or not first:
            continue
        texts.append(_roofs(db, (sides[0].letter, first), (side.letter, gpu)))
    return "; ".join(texts)


def _roofs(db: ProfileDB, first: tuple[str, str], second: tuple[str, str]) -> str:
    """The ratio of times of two GPUs, each a letter and a name, by their peaks."""
    (letter, gpu), (other_letter, other) = first, second
    for source in ("measured", "datasheet"):
        peaks = [_peaks(db, name, source) for name in (gpu, other)]
        if not all(peaks):
            continue
        ratios = {name: peaks[0][name] / peaks[1][name] for name in peaks[0] if name in peaks[1]}
        texts = []
        if dram := ratios.pop("DRAM", None):
            texts.append(f"{dram:.3g} if its DRAM is the bound")
        if ratios:
            low, high = (f"{ratio:.3g}" for ratio in (min(ratios.values()), max(ratios.values())))
            texts.append(f"{low if low == high else f'{low} to {high}'} if its arithmetic is")
        if texts:
            return (
                f"roofs of {gpu} and {other} ({source}): work takes {other_letter} / {letter} = "
                f"{', '.join(texts)}; which one bounds a row is not said by this"
            )
    lacking = " and ".join(name for name in (gpu, other) if not _peaks(db, name, "datasheet"))
    return f"roofs of {lacking} are not known: `taupy ceilings` measures them"


def _peaks(db: ProfileDB, gpu: str, source: str) -> dict[str, float]:
    """DRAM's bandwidth and the rates of arithmetic, by name."""
    if source == "measured":
        of_gpu = [roof for roof in ceilings(db, processor=gpu) if roof.source == source]
    else:
        sheet = datasheet(gpu)
        of_gpu = published(sheet) if sheet is not None else []
    best: dict[str, float] = {}
    for roof in of_gpu:
        if roof.kind == "compute" or (roof.kind == "bandwidth" and roof.name == "DRAM"):
            best[roof.name] = max(roof.value, best.get(roof.name, 0.0))
    return best
