"""`taupy avail --sampling`: what `taupy run --pm-sampling` can sample on a chip in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from taupy.catalog import timeline
from taupy.catalog.counters import COUNTERS
from taupy.collectors.metric_sources import MetricSource
from taupy.errors import TaupyError, UsageError
from taupy.pprof.view import Cell, Column, View

_COLUMNS = (
    Column("chip", audience="machines"),
    Column("name", heading="Name"),
    Column("unit", heading="Unit"),
    Column("set", heading="In the set"),
    Column("description", heading="What it is"),
    Column("metrics", audience="machines"),
)


def listed(chips: Sequence[MetricSource], search: str | None) -> list[View]:
    """The counters that each chip can sample; without a chip, those of the set `timeline`.

    Raises:
        UsageError: no counter matches the word, or CUPTI is needed and not installed.
    """
    wanted = (search or "").lower()
    descriptions = {channel.name: channel.description for channel in timeline.SAMPLED}
    descriptions |= {
        counter.name: counter.description for counter in COUNTERS if counter.unit != "ns"
    }
    order = dict.fromkeys((*timeline.TIMELINE_NAMES, *descriptions))
    shown = {
        name: descriptions[name]
        for name in order
        if wanted in name or wanted in descriptions[name].lower() or wanted == timeline.TIMELINE
    }
    if not shown:
        raise UsageError(f"no sampled counter has '{search}' in its name or description")
    return [_of_chip(chip, shown) for chip in chips] or [_of_any(shown)]


def _of_chip(chip: MetricSource, shown: Mapping[str, str]) -> View:
    planned = timeline.plan(shown, chip.name, chip.can_sample)
    rows: list[tuple[Cell, ...]] = [
        (chip.name, channel.name, channel.unit, _set_of(channel.name), shown[channel.name],
         " + ".join(term.metric for term in channel.terms))
        for channel in planned.channels
    ]  # fmt: skip
    reasons: dict[str, list[str]] = {}
    for name, why in planned.missing:
        reasons.setdefault(why, []).append(name)
    notes = [f"not sampled ({why}): {', '.join(names)}" for why, names in reasons.items()]
    title = f"SAMPLED ON {chip.name} ({chip.title}), IN ONE PASS:"
    return View(title, _COLUMNS, rows, (*notes, *chip.notes))


def _of_any(shown: Mapping[str, str]) -> View:
    planned = timeline.plan(shown, "", lambda metric: True)
    rows: list[tuple[Cell, ...]] = [
        ("", channel.name, channel.unit, _set_of(channel.name), shown[channel.name], "")
        for channel in planned.channels
        if _set_of(channel.name)
    ]
    note = "most other counters can be sampled, too: --chip CHIP lists them"
    return View("SAMPLED ON NVIDIA GPUS:", _COLUMNS, rows, (note,))


def _set_of(name: str) -> str:
    return timeline.TIMELINE if name in timeline.TIMELINE_NAMES else ""


def checked(
    chip: MetricSource, names: Sequence[str], project: Mapping[str, object]
) -> tuple[View, bool]:
    """The meaning of each name in a list, and whether any of them cannot be sampled."""
    columns = (
        Column("chip", audience="machines"),
        Column("name", heading="Name"),
        Column("unit", heading="Unit"),
        Column("metrics", heading="Asked for as"),
        Column("status", heading="Status"),
    )
    rows: list[tuple[Cell, ...]] = []
    bad = False
    together: dict[str, None] = {}
    for name in names:
        try:
            planned = timeline.plan(timeline.names_of([name], project), chip.name, chip.can_sample)
        except UsageError as problem:
            rows.append((chip.name, name, None, None, str(problem).rpartition(";")[0]))
            bad = True
            continue
        together |= dict.fromkeys(timeline.names_of([name], project))
        for channel in planned.channels:
            metrics = " + ".join(term.metric for term in channel.terms)
            rows.append((chip.name, channel.name, channel.unit, metrics, ""))
        rows += [(chip.name, lacks, None, None, f"not sampled: {why}")
                 for lacks, why in planned.missing]  # fmt: skip
        bad |= not planned.channels
    notes = []
    if together:
        try:
            chip.sampled_together(tuple(together))
            notes = ["all together: one pass"]
        except TaupyError as problem:
            notes, bad = [str(problem)], True
    return View(f"CHECKED FOR SAMPLING {chip.name}:", columns, rows, (*notes, *chip.notes)), bad
