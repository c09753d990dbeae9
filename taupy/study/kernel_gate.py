"""Compare kernels' machine code between versions, chips or compilers.

Code has no noise, so one reading decides: a condition of `--fail-on` fails or passes, and is
undecided only if the value cannot be determined from the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from taupy.analysis import match
from taupy.analysis.match import Key, Level, NameTable
from taupy.errors import UsageError
from taupy.model.kernel_code import KernelCode
from taupy.model.kernel_names import told_apart
from taupy.model.metric import Metric
from taupy.model.rows import TimerRow
from taupy.pprof.selection import name_test
from taupy.pprof.view import Cell, Column, View
from taupy.study import conditions as gate
from taupy.study.conditions import Condition, Ruling
from taupy.study.gate import Judgement
from taupy.study.kernel_quantities import QUANTITIES, Quantity
from taupy.units import listing, several

_SHOWN = ("registers", "spills", "stack", "shared", "instructions", "occupancy")


@dataclass(frozen=True)
class CodeSide:
    """One side's kernels. `label`: the file, as the user specified it."""

    label: str
    codes: tuple[KernelCode, ...]


@dataclass(frozen=True)
class Pair:
    """A kernel on two sides; None if one lacks it. Kernels that the matcher cannot distinguish
    share a row, with the largest of their values. `shown`: the short name, with template
    arguments if other kernels have the same one."""

    key: Key
    chips: tuple[str, str]
    codes: tuple[Sequence[KernelCode], Sequence[KernelCode]]
    shown: str

    @property
    def name(self) -> str:
        """The kernel's name, and the chips if they differ."""
        old, new = self.chips
        return f"{self.shown} ({old if old == new else f'{old}, {new}'})"

    def values(self, quantity: Quantity) -> tuple[float | None, float | None]:
        """Each side's value."""
        first, second = self.codes
        return _largest(first, quantity), _largest(second, quantity)


def _largest(codes: Iterable[KernelCode], quantity: Quantity) -> float | None:
    return max((value for code in codes if (value := quantity.of(code)) is not None), default=None)


def pairs(
    first: CodeSide, second: CodeSide, level: Level = "auto", table: NameTable | None = None
) -> tuple[list[Pair], list[str]]:
    """The kernels of two sides, matched chip by chip; sides with one chip each match regardless.

    Returns:
        The pairs by name, and notes on chips that one side lacks.
    """
    old, new = _by_chip(first.codes), _by_chip(second.codes)
    both = sorted(old.keys() & new.keys(), key=float)
    chips = [(chip, chip) for chip in both]
    if not both and len(old) == len(new) == 1:
        chips = [(next(iter(old)), next(iter(new)))]
    elif not both:
        raise UsageError(
            f"{first.label} has code for {', '.join(old)}, {second.label} for {', '.join(new)}: "
            "name one chip of each, such as FILE@sm_80 FILE@sm_90"
        )
    rows = [
        pair for chip, other in chips for pair in _matched(old[chip], new[other], level, table)
    ]  # fmt: skip
    notes = [
        f"only in {side.label}: code for {chip}"
        for side, own, others in ((first, old, new), (second, new, old))
        for chip in sorted(own, key=float)
        if both and chip not in others
    ]
    return sorted(rows, key=lambda pair: (pair.key.timer, pair.chips)), notes


def _by_chip(codes: Iterable[KernelCode]) -> dict[str, list[KernelCode]]:
    by_chip: dict[str, list[KernelCode]] = {}
    for code in codes:
        by_chip.setdefault(code.chip, []).append(code)
    return by_chip


def _matched(
    old: Sequence[KernelCode], new: Sequence[KernelCode], level: Level, table: NameTable | None
) -> list[Pair]:
    named = [
        {
            code.name: TimerRow(code.full_name, code.short_name, None, None, "GPU_KERNEL")
            for code in side
        }
        for side in (old, new)
    ]
    keys = match.matched(named, level, table)
    rows: dict[object, tuple[Key, tuple[list[KernelCode], list[KernelCode]]]] = {}
    for at, side in enumerate((old, new)):
        for code in side:
            key = keys[at][code.name]
            rows.setdefault(key.identity, (key, ([], [])))[1][at].append(code)
    chips = (old[0].chip, new[0].chip)
    shown = told_apart(key.timer for key, _ in rows.values())
    return [Pair(key, chips, codes, shown[key.timer]) for key, codes in rows.values()]


def judge(judged_pairs: Sequence[Pair], conditions: Sequence[Condition]) -> Judgement:
    """Test every condition on every kernel that it applies to.

    Raises:
        UsageError: a quantity does not exist, or no kernel has that name.
    """
    judged: list[Ruling] = []
    apart: list[str] = []
    for condition in conditions:
        if condition.metric not in QUANTITIES or condition.value or condition.of_event:
            raise UsageError(
                f"--fail-on '{condition.text}': code has no {condition.metric} "
                f"(it has: {', '.join(QUANTITIES)})"
            )
        quantity = QUANTITIES[condition.metric]
        limit = condition.in_unit(quantity.unit)
        worst, alone = [], []
        for name, couples in _rows(judged_pairs, condition, quantity):
            rulings = [gate.without_test(condition, name, *couple, limit) for couple in couples]
            if rulings:
                worst.append(min(rulings, key=lambda ruling: ruling.rank))
            else:
                alone.append(name)
        metric = Metric(quantity.name, quantity.unit)
        judged += [ruling._replace(metric=metric) for ruling in worst or [gate.unjudged(condition)]]
        if alone:
            shown = listing(alone, 5)
            apart.append(f"'{condition.text}': not judged, because on one side only: {shown}")
    return Judgement(sorted(judged, key=lambda ruling: ruling.rank), apart)


_Couple = tuple[float | None, float | None]
"""Both sides' values; None if the code does not tell, or a side lacks the kernel."""


def _rows(
    chosen: Sequence[Pair], condition: Condition, quantity: Quantity
) -> Iterator[tuple[str, list[_Couple]]]:
    """Each name, and the values to judge."""
    if condition.pattern is not None:
        test = name_test(condition.pattern)
        chosen = [pair for pair in chosen if test(pair.key.timer, pair.key.short_name)]
        if not chosen:
            raise UsageError(
                f"--fail-on '{condition.text}': no kernel matches '{condition.pattern}'"
            )
    if condition.scope == "total":
        first, second = (
            _sum(quantity.of(code) for pair in chosen for code in pair.codes[side])
            for side in (0, 1)
        )
        yield "total", [(first, second)]
        return
    for pair in chosen:
        yield pair.name, _couples(pair, condition, quantity)


def _sum(values: Iterable[float | None]) -> float | None:
    numbers = list(values)
    return None if None in numbers else sum(value or 0 for value in numbers)


def _couples(pair: Pair, condition: Condition, quantity: Quantity) -> list[_Couple]:
    """The values of a pair's kernels, matched in order of size: if no variant changed by more
    than a limit, no couple did. Variants that only the second side has are judged by limits on
    the value itself."""
    old, new = ([quantity.of(code) for code in side] for side in pair.codes)
    if None in new or (condition.change and None in old):
        return [(None, None)] if new and (old or not condition.change) else []
    first, second = (
        sorted((value for value in side if value is not None), reverse=condition.rises)
        for side in (old, new)
    )
    if condition.change:
        return list(zip(first, second, strict=False))
    return list(zip_longest(first[: len(second)], second))


def table(
    compared: Sequence[Pair],
    sides: tuple[CodeSide, CodeSide],
    notes: Sequence[str],
    limit: int | None,
) -> View:
    """Both sides' numbers; kernels that differ come first."""
    ordered = sorted(compared, key=lambda pair: not _differs(pair))
    columns = [
        Column("kernel", heading="Kernel", audience="people"),
        Column("name", audience="machines"),
        Column("chip_a", audience="machines"),
        Column("chip_b", audience="machines"),
        *(column for name in QUANTITIES for column in _columns(name)),
    ]
    rows: list[tuple[Cell, ...]] = [
        (pair.name, pair.key.timer, *pair.chips, *_cells(pair)) for pair in ordered[:limit]
    ]
    differing = sum(map(_differs, compared))
    remarks = [f"A: {sides[0].label}", f"B: {sides[1].label}",
            f"{differing} of {len(compared)} kernels differ", *notes]  # fmt: skip
    several_codes = sum(max(map(len, pair.codes)) > 1 for pair in compared)
    if several_codes:
        remarks.append(f"{several(several_codes, 'name')} of several kernels, of which the largest "
                    "values are shown; conditions judge all")  # fmt: skip
    if limit is not None and len(compared) > limit:
        remarks.append(f"{several(len(compared) - limit, 'more kernel')}; --all shows them")
    return View("KERNELS AT REST, compared:", columns, rows, remarks)


def _columns(name: str) -> tuple[Column, Column]:
    heading = name.capitalize()
    audience = "all" if name in _SHOWN else "machines"
    return (
        Column(f"{name}_a", "any", f"{heading}\nA", audience),  # type: ignore[arg-type]
        Column(f"{name}_b", "any", "\nB", audience),  # type: ignore[arg-type]
    )


def _cells(pair: Pair) -> list[float | None]:
    return [value for quantity in QUANTITIES.values() for value in pair.values(quantity)]


def _differs(pair: Pair) -> bool:
    cells = _cells(pair)
    return cells[::2] != cells[1::2]
