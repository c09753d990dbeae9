"""Match collectives across ranks: which rank waited for which, and for how long.

A rank's time in a collective is split into *waiting* until the last rank has arrived, *transfer*
until the last rank has left, and the *rest*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taupy.model.collectives import NOT_ENDED, UNKNOWN_BYTES, Collectives, is_pair
from taupy.model.profile import Steps
from taupy.model.step_times import step_times
from taupy.ranks.clocks import clocks
from taupy.ranks.data import Array, Matched, Rank, Ranks
from taupy.ranks.pairs import as_pair, note_open

_TOGETHER = ("all_reduce", "all_gather", "all_to_all", "barrier", "reduce_scatter")
"""Collectives that no rank leaves before all ranks have arrived."""


def listed(text: str) -> list[int]:
    """The numbers in a list such as `0-2,5`; incomplete pieces of a truncated list are ignored."""
    ranks: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        if first.isascii() and first.isdigit() and (not last or last.isdigit()):
            ranks += range(int(first), int(last or first) + 1)
    return ranks


def of_ranks(ranks: Sequence[Rank]) -> Ranks:
    """Match the collectives of the ranks."""
    for rank in ranks:
        rank.communicators = [kept.of_pair(rank.number) for kept in rank.communicators]
    every = [kept for rank in ranks for kept in rank.communicators]
    starts = [min(kept.asked_ns) for kept in every if len(kept)]
    start = min(starts, default=0)
    here = {rank.number for rank in ranks}
    members = {number for kept in every for number in listed(kept.ranks)}
    job = Ranks([*ranks], [], start, sorted(members - here))
    left = {rank.number: _left(rank, start) for rank in ranks}
    job.clocks = clocks(left, {rank.number: rank.host for rank in ranks})
    names = {kept.communicator: kept.is_pair for kept in every if len(kept)}
    for name, between_two in names.items():
        matched = _match(job, name)
        if matched is not None and between_two:
            matched = as_pair(job, matched, _members(job, name), left)
        if matched is not None:
            job.matched.append(matched)
    note_open(job)
    job.unmatched = {rank.number: _unmatched(job, rank) for rank in ranks}
    return job


def _left(rank: Rank, start: int) -> dict[tuple[str, int], float]:
    return {
        (kept.communicator, number): float(ended - start)
        for kept in rank.communicators
        for number, operation, ended in zip(kept.number, kept.operation, kept.ended_ns, strict=True)
        if ended != NOT_ENDED and operation.partition(":")[2].startswith(_TOGETHER)
    }


def _unmatched(job: Ranks, rank: Rank) -> Array:
    """As in `Ranks.unmatched`; a group of a single rank waits for nobody."""
    matched = {of.communicator: of.number for of in job.matched if rank.number in of.ranks}
    rows = [np.empty((0, 3))]
    for kept in rank.communicators:
        if not len(kept) or kept.size == 1 or kept.is_pair:
            continue
        alone = np.isin(kept.number, matched.get(kept.communicator, []), invert=True)
        requested = aligned_moments(job, rank.number, _arrivals(kept))[alone]
        ended = aligned_moments(job, rank.number, kept.ended_ns)[alone]
        rows.append(np.stack([requested, ended, _steps_at(job, rank, requested)], 1))
    return np.concatenate(rows)


def _members(job: Ranks, name: str) -> dict[int, Collectives]:
    return {
        rank.number: kept
        for rank in job.ranks
        for kept in rank.communicators
        if kept.communicator == name and len(kept)
    }


def _match(job: Ranks, name: str) -> Matched | None:
    mine = _members(job, name)
    if len(mine) < 2:
        return None
    between_two = next(iter(mine.values())).is_pair
    if not between_two:
        _note_behind(job, name, mine)
    operations: dict[int, Counter[str]] = {}
    for kept in mine.values():
        for number, operation in zip(kept.number, kept.operation, strict=True):
            shared = f"{operation.partition(':')[0]}:send" if is_pair(operation) else operation
            operations.setdefault(number, Counter())[shared] += 1
    numbers = _agreed(job, name, mine, operations)
    column = {number: at for at, number in enumerate(numbers)}
    requested = np.full((len(mine), len(numbers)), np.nan)
    ended = np.full_like(requested, np.nan)
    moved = [UNKNOWN_BYTES] * len(numbers)
    for row, (rank, kept) in enumerate(mine.items()):
        at = [(place, column[n]) for place, n in enumerate(kept.number) if n in column]
        places, columns = [place for place, _ in at], [to for _, to in at]
        requested[row, columns] = aligned_moments(job, rank, _arrivals(kept))[places]
        ended[row, columns] = aligned_moments(job, rank, kept.ended_ns)[places]
        for place, to in at:
            moved[to] = max(moved[to], kept.bytes[place])
    matched = Matched(
        name,
        max(kept.size for kept in mine.values()),
        [*mine],
        numbers,
        [next(iter(operations[number])) for number in numbers],
        moved,
        requested,
        ended,
        np.zeros(len(numbers), "i8"),
    )
    if not between_two:
        _note_open(job, matched)
    matched.step = _steps_of(job, matched)
    return matched


def _agreed(
    job: Ranks,
    name: str,
    mine: Mapping[int, Collectives],
    operations: Mapping[int, Counter[str]],
) -> list[int]:
    """Numbers of collectives of at least two ranks, up to the first whose operations differ."""
    apart = min((n for n, names in operations.items() if len(names) > 1), default=None)
    if apart is not None:
        by_name: dict[str, list[int]] = {}
        for rank, kept in mine.items():
            if apart in kept.number:
                by_name.setdefault(kept.operation[kept.number.index(apart)], []).append(rank)
        differing = ", ".join(f"{what} on {_ranks(who)}" for what, who in by_name.items())
        job.apart.append(f"collective {apart} of communicator {name} is {differing}")
    return sorted(
        number
        for number, names in operations.items()
        if sum(names.values()) > 1 and (apart is None or number < apart)
    )


def _note_behind(job: Ranks, name: str, mine: Mapping[int, Collectives]) -> None:
    """Note which ranks did not reach the last collectives: they ended or wait elsewhere."""
    most = max(kept.begun for kept in mine.values())
    by_count: dict[int, list[int]] = {}
    for rank, kept in mine.items():
        by_count.setdefault(kept.begun, []).append(rank)
    for count, ranks in sorted(by_count.items()):
        if count < most:
            job.behind.append(
                f"{_ranks(ranks)} began {count} of the {most} collectives of communicator {name}"
            )


def _ranks(numbers: Sequence[int]) -> str:
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(map(str, numbers[:8]))


def _arrivals(kept: Collectives) -> Iterable[int]:
    """When the process reached its collectives. For NCCL, this is when they began: they are
    requested long before the GPU has finished the preceding work of their stream."""
    is_nccl = kept.operation[0].startswith("nccl:")
    return kept.begun_ns if is_nccl else kept.asked_ns


def aligned_moments(job: Ranks, rank: int, column: Iterable[int]) -> Array:
    """Times by a rank's clock as in `Matched.requested`."""
    whole = np.array(column, "i8")
    moments: Array = np.where(whole == NOT_ENDED, np.nan, (whole - job.start_ns).astype(float))
    clock = job.clocks.get(rank)
    return moments if clock is None else clock.aligned(moments)


def _note_open(job: Ranks, matched: Matched) -> None:
    """Note which ranks had reached the collectives that never ended, and which had not."""
    for at in np.flatnonzero((~np.isnan(matched.requested) & np.isnan(matched.ended)).any(axis=0)):
        came = [rank for row, rank in enumerate(matched.ranks)
                if not np.isnan(matched.requested[row, at])]  # fmt: skip
        lacking = sorted({*matched.ranks} - {*came})
        text = f"{matched.operation[at]} {matched.number[at]} of communicator "
        text += f"{matched.communicator} never ended on all ranks: {_ranks(came)} had come"
        job.never_ended.append(text + (f", {_ranks(lacking)} had not" if lacking else ""))


def _steps_of(job: Ranks, matched: Matched) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each collective, the step in which the first rank with steps requested it; 0 outside
    steps."""
    by_rank = {rank.number: rank for rank in job.ranks}
    step = np.zeros(len(matched.number), "i8")
    for row, number in enumerate(matched.ranks):
        own = _steps_at(job, by_rank[number], matched.requested[row])
        step = np.where(step == 0, own, step)
    return step


def _steps_at(job: Ranks, rank: Rank, moments: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The rank's step at each moment; 0 outside steps."""
    step = np.zeros(len(moments), "i8")
    if rank.steps is not None and len(rank.steps):
        start = aligned_moments(job, rank.number, rank.steps.start_ns)
        end = start + np.array(rank.steps.time_ns, "f8")
        at = np.clip(np.searchsorted(start, moments, "right") - 1, 0, None)
        inside = (moments >= start[at]) & (moments < end[at])
        step[inside] = np.array(rank.steps.number, "i8")[at[inside]]
    return step


# --- sums ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RankTimes:
    """A rank's times over all training steps, or over all collectives if there are no steps.

    Attributes:
        wait_ns: time during which it waited, in any collective, for a rank that arrived later.
        transfer_ns: time during which it was transferring in some collective and waiting in none.
        rest_ns: time during which it was only in collectives that the last rank had left.
        caused_ns: time that other ranks waited for it, summed over ranks and collectives.
        last: number of collectives at which it arrived last.
        elsewhere_ns: the part of `caused_ns` at collectives to which others came last, because it
            had kept them waiting elsewhere.
    """

    rank: int
    wait_ns: float
    transfer_ns: float
    rest_ns: float
    caused_ns: float
    last: int
    elsewhere_ns: float = 0.0


def times(job: Ranks, step: int | None = None, after: int = 0) -> list[RankTimes]:
    """The times of each rank; only in one step, or after a step, if given."""
    waits: dict[int, list[Array]] = {rank.number: [] for rank in job.ranks}
    moves: dict[int, list[Array]] = {rank.number: [] for rank in job.ranks}
    rests: dict[int, list[Array]] = {rank.number: [] for rank in job.ranks}
    caused: Counter[int] = Counter()
    last: Counter[int] = Counter()
    elsewhere: Counter[int] = Counter()
    for matched in job.matched:
        chosen = _chosen(job, matched.step, step, after)
        arrival, waited = matched.arrival[chosen], matched.waited[:, chosen]
        through = matched.through[:, chosen]
        for row, rank in enumerate(matched.ranks):
            requested, ended = matched.requested[row, chosen], matched.ended[row, chosen]
            waits[rank].append(np.stack([requested, requested + waited[row]], 1))
            moves[rank].append(np.stack([np.fmax(arrival, requested), through[row]], 1))
            rests[rank].append(np.stack([np.fmax(through[row], requested), ended], 1))
        for row, total in zip(
            matched.last[chosen].tolist(), matched.direct[chosen].tolist(), strict=True
        ):
            caused[matched.ranks[row]] += total
            last[matched.ranks[row]] += total > 0 or not matched.is_pair
        for at, moved in matched.elsewhere.items():
            if chosen[at]:
                elsewhere.update(moved)
    result = []
    for number, alone in job.unmatched.items():
        moves[number].append(alone[_chosen(job, alone[:, 2], step, after), :2])
    for number in waits:
        wait = union(waits[number])
        both = union([*waits[number], *moves[number]])
        rest = union([*waits[number], *moves[number], *rests[number]]) - both
        for_others = elsewhere[number]
        result.append(
            RankTimes(
                *(
                    number,
                    wait,
                    both - wait,
                    rest,
                    caused[number] + for_others,
                    last[number],
                    for_others,
                )
            )
        )
    return result


def delays(job: Ranks) -> dict[int, float]:
    """How long nothing but a rank was missing in some collective, by rank [ns]: if it had arrived
    when the last of the others did, the job could have ended that much earlier, and not more."""
    alone: dict[int, list[Array]] = {rank.number: [] for rank in job.ranks}
    for matched in job.matched:
        came = np.sort(np.where(np.isnan(matched.requested), -np.inf, matched.requested), axis=0)
        intervals = np.stack([came[-2], came[-1]], 1)
        last, has_waited = matched.last, np.nansum(matched.waited, axis=0) > 0
        for row, rank in enumerate(matched.ranks):
            alone[rank].append(intervals[(last == row) & np.isfinite(came[-2]) & has_waited])
    return {rank: union(intervals) for rank, intervals in alone.items()}


def longest_waits(job: Ranks) -> dict[int, float]:
    """How long the rank that waited longest for a rank waited for it, by rank [ns]."""
    waits = {rank.number: Counter[int]() for rank in job.ranks}
    for matched in job.matched:
        for row, rank in enumerate(matched.ranks):
            took = np.nansum(matched.waited[:, matched.last == row], axis=1)
            waits[rank].update(dict(zip(matched.ranks, took.tolist(), strict=True)))
    return {rank: float(max(by.values(), default=0)) for rank, by in waits.items()}


def after_warm_up(job: Ranks) -> tuple[list[RankTimes], int]:
    """The times of each rank in the steps after the warm-up, and the last step of that; 0 and the
    times in all steps if there was none, or if no rank waited after it."""
    after = max((_warm_up(rank.steps) for rank in job.ranks), default=0)
    later = times(job, after=after)
    return (later, after) if straggler(later) is not None else (times(job), 0)


def _warm_up(steps: Steps | None) -> int:
    """The number of the last step of the warm-up; 0 for none."""
    if steps is None or not len(steps):
        return 0
    settled = sum(mark == "warm-up" for mark in step_times(steps).marks)
    return steps.number[settled] - 1


def _chosen(
    job: Ranks, steps: np.ndarray[Any, Any], step: int | None, after: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which collectives to include, given their steps: those of the step, or of all steps after
    `after`; all if there are no steps."""
    if step is not None:
        chosen: np.ndarray[Any, np.dtype[np.bool_]] = steps == step
        return chosen
    if any(matched.step.any() for matched in job.matched):
        inside: np.ndarray[Any, np.dtype[np.bool_]] = steps > after
        return inside
    return np.ones(len(steps), bool)


def union(intervals: Sequence[Array]) -> float:
    """Total time covered by at least one of the intervals (start, end)."""
    whole = np.concatenate(intervals) if intervals else np.empty((0, 2))
    whole = whole[~np.isnan(whole).any(axis=1) & (whole[:, 1] > whole[:, 0])]
    if not len(whole):
        return 0.0
    whole = whole[np.argsort(whole[:, 0], kind="stable")]
    until = np.maximum.accumulate(whole[:, 1])
    begins = np.concatenate([[whole[0, 0]], np.maximum(whole[1:, 0], until[:-1])])
    return float(np.maximum(whole[:, 1] - begins, 0).sum())


def waits_by_step(job: Ranks, numbers: Sequence[int]) -> dict[int, Array]:
    """How long each rank waited for others, in any collective, in each of the given steps.

    Args:
        numbers: step numbers, ascending.
    """
    steps = np.array(numbers, "i8")
    moments: dict[int, list[Array]] = {rank.number: [] for rank in job.ranks}
    for matched in job.matched:
        waited = matched.waited
        for row, rank in enumerate(matched.ranks):
            requested = matched.requested[row]
            moments[rank].append(np.stack([requested, requested + waited[row], matched.step], 1))
    waits = {}
    for rank, pieces in moments.items():
        whole = np.concatenate(pieces) if pieces else np.empty((0, 3))
        whole = whole[~np.isnan(whole).any(axis=1) & np.isin(whole[:, 2], steps)]
        whole = whole[np.argsort(whole[:, 0], kind="stable")]
        until = np.maximum.accumulate(whole[:, 1])
        begins = np.maximum(whole[:, 0], np.concatenate([[-np.inf], until[:-1]])[: len(whole)])
        at = np.searchsorted(steps, whole[:, 2].astype("i8"))
        times = np.maximum(whole[:, 1] - begins, 0)
        waits[rank] = np.bincount(at, times, len(steps)).astype("f8")
    return waits


def numbers_of_steps(job: Ranks) -> list[int]:
    """Numbers of the steps in which collectives were matched."""
    return sorted({int(step) for matched in job.matched for step in matched.step if step})


def straggler(sums: Sequence[RankTimes]) -> RankTimes | None:
    """The rank that others waited for most; None if no rank waited."""
    worst = max(sums, key=lambda rank: rank.caused_ns, default=None)
    return worst if worst is not None and worst.caused_ns > 0 else None
