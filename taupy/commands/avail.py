"""Show the available counters, what they mean, and how many passes they need.

    taupy avail                        counters of this machine's GPUs and CPU
    taupy avail --chip H100            counters of any chip: GH100, H100, 9.0, Hopper
    taupy avail bytes                  counters with this word in name or description
    taupy avail gld                    one counter in detail
    taupy avail --sets                 named groups of counters, and their passes
    taupy avail -c tau,ipc,dram__bytes.sum    check a list, and count its passes
    taupy avail --sampling             counters that --pm-sampling can sample over time
    taupy avail --raw lts__t           NVIDIA's own metrics (asks CUPTI)
    taupy avail --chips                the chips

Passes are how often each kernel is replayed to collect all counters. CUPTI computes them if it
is installed (nvidia-cuda-cupti; no GPU is needed); otherwise taupy uses a recorded table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from taupy.catalog import architectures, spelling, timeline
from taupy.catalog.architectures import Chip
from taupy.catalog.counters import BY_NAME, COUNTERS, Counter
from taupy.catalog.ratios import RATIOS, Ratio
from taupy.catalog.sets import CounterSet, expanded, of_ratio, sets
from taupy.collectors import metric_sources, requested
from taupy.collectors.metric_sources import MetricSource
from taupy.commands import avail_sampling, bar, options
from taupy.errors import UsageError
from taupy.model.project import project_settings
from taupy.pprof import terminal
from taupy.pprof.view import Cell, Column, View

_COUNTER_COLUMNS = (
    Column("chip", audience="machines"),
    Column("name", heading="Counter"),
    Column("unit", heading="Unit"),
    Column("passes", "int", "Passes"),
    Column("description", heading="What it counts"),
    Column("caution", audience="machines"),
    Column("metrics", audience="machines"),
    Column("legacy", audience="machines"),
    Column("status", heading="Status"),
)
_FACTS = (Column("name", heading="What"), Column("value", heading="Is"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("search", nargs="?", metavar="WORD", help="a counter, or part of a name")
    parser.add_argument(
        "--chip", metavar="CHIP", help="GH100, H100, 9.0 ...; default: this machine"
    )
    parser.add_argument("--chips", action="store_true", help="list the chips")
    parser.add_argument("--sets", action="store_true", help="list the sets of counters")
    parser.add_argument(
        "--sampling", action="store_true", help="list (or, with -c, check) what can be sampled"
    )
    parser.add_argument("--raw", action="store_true", help="list NVIDIA's own metrics")
    parser.add_argument(
        "-c",
        "--check",
        action="append",
        default=[],
        metavar="LIST",
        help="check counters, sets and ratios, separated by commas; exit code 1 if one is "
        "not available",
    )
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    questions = ("chips", "sets", "raw", "sampling") + (() if args.sampling else ("check",))
    chosen = [name for name in questions if getattr(args, name)]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} cannot be combined: use one of them")
    if args.chips:
        terminal.show_all([_chips()], form=args.form)
        return 0
    if args.check and not _split(args.check):
        raise UsageError("-c needs a list of names: taupy avail -c tau,ipc")
    with bar.shown("looking at counters"):
        views, missing = _views(args)
    terminal.show_all(views, form=args.form)
    return 1 if missing else 0


def _views(args: argparse.Namespace) -> tuple[list[View], bool]:
    """The tables, and whether counters that were asked for are missing."""
    chips = metric_sources.chips(args.chip)
    missing = False
    views: list[View] = []
    if args.sampling:
        views, missing = _sampling(args, chips.chips)
    elif args.check:
        for chip in chips.chips:
            view, problem = _checked(_split(args.check), chip)
            views.append(view)
            missing |= problem
        if not chips.chips:
            view, missing = _checked_without_gpu(_split(args.check))
            views.append(view)
    elif args.raw:
        if not chips.chips:
            raise UsageError("name a chip: taupy avail --raw --chip H100")
        views = [_raw(chip, args.search) for chip in chips.chips]
    elif args.sets:
        views = [_sets(chip) for chip in chips.chips] or [_sets(None)]
    else:
        views = _listed(chips.chips, args.search, with_cpu=args.chip is None)
    views[-1] = View(
        views[-1].title, views[-1].columns, views[-1].rows, (*views[-1].notes, *chips.notes)
    )
    return views, missing


def _sampling(args: argparse.Namespace, chips: Sequence[MetricSource]) -> tuple[list[View], bool]:
    if not args.check:
        return avail_sampling.listed(chips, args.search), False
    if not chips:
        raise UsageError("name a chip: taupy avail --sampling -c LIST --chip H100")
    user = {name: list(set_.counters) for name, set_ in _all_sets().items() if set_.user}
    checked = [avail_sampling.checked(chip, _split(args.check), user) for chip in chips]
    return [view for view, _ in checked], any(bad for _, bad in checked)


# --- lists -------------------------------------------------------------------


def _chips() -> View:
    rows = [
        (
            chip.name,
            chip.architecture,
            chip.compute_capability,
            ", ".join(chip.known_as),
            "Nsight Compute's files"
            if chip.compute_capability in architectures.WITHOUT_RANGE_PROFILER
            else "taupy run --metrics",
        )
        for chip in architectures.CHIPS
    ]
    columns = [
        Column("chip", heading="Chip"),
        Column("architecture", heading="Architecture"),
        Column("compute_capability", heading="CC"),
        Column("known_as", heading="Known as"),
        Column("counted_by", heading="Counted by"),
    ]
    return View(f"{len(rows)} CHIPS:", columns, rows)


def _listed(chips: Sequence[MetricSource], search: str | None, with_cpu: bool) -> list[View]:
    exact = spelling.canonical(search) if search else None
    if exact is not None:
        return [_counter(BY_NAME[exact], chips)]
    ratio = next(
        (candidate for candidate in RATIOS if search in (candidate.name, *candidate.legacy)),
        None,
    )
    if ratio is not None:
        return [_ratio(ratio, chips)]
    if search in _all_sets():
        return [_sets(chip, search) for chip in chips] or [_sets(None, search)]
    if search in (*timeline.BY_NAME, timeline.TIMELINE):
        return avail_sampling.listed(chips, search)
    counters = _matching(search or "")
    views = [_counters(chip, counters) for chip in chips if counters]
    cpu = _cpu(search) if with_cpu else None
    if cpu is not None:
        views.append(cpu)
    if views:
        return views
    if not chips and counters:
        return [View("COUNTERS OF NVIDIA GPUS:", _COUNTER_COLUMNS,
                     [_row("", counter, None, "") for counter in counters])]  # fmt: skip
    near = spelling.near(search or "")
    more = f"; near it: {', '.join(near)}" if near else "; `taupy avail` lists all"
    raise UsageError(f"no counter has '{search}' in its name or description{more}")


def _matching(search: str) -> list[Counter]:
    wanted = search.lower()
    return [
        counter
        for counter in COUNTERS
        if any(
            wanted in text.lower() for text in (counter.name, counter.description, *counter.legacy)
        )
    ]


def _counters(chip: MetricSource, counters: Sequence[Counter]) -> View:
    rows = []
    cautions = []
    for counter in counters:
        terms = spelling.spelled(counter.name, chip.name)
        if terms is None:
            rows.append(_row(chip.name, counter, None, f"not available: {counter.missing}"))
            continue
        metrics = [term.metric for term in terms]
        rows.append(
            _row(chip.name, counter, chip.passes_of(counter.name, metrics), "", _spelling(terms))
        )
        if counter.caution:
            cautions.append(f"{counter.name}: {counter.caution}")
    title = f"COUNTERS OF {chip.name} ({chip.title}):"
    return View(title, _COUNTER_COLUMNS, rows, (*cautions, *chip.notes))


def _row(
    chip: str, counter: Counter, passes: int | None, status: str, metrics: str = ""
) -> tuple[Cell, ...]:
    return (
        chip, counter.name, counter.unit, passes, counter.description, counter.caution, metrics,
        ", ".join(counter.legacy), status,
    )  # fmt: skip


def _spelling(terms: Sequence[spelling.Term]) -> str:
    return " + ".join(
        term.metric if term.weight == 1 else f"{term.weight}*{term.metric}" for term in terms
    )


def _cpu(search: str | None) -> View | None:
    """Counters of this machine's CPU; None if the search matches none of them."""
    cpu_counters = metric_sources.cpu_counters()
    wanted = (search or "").lower()
    rows = [
        ("cpu", counter.name, counter.unit, None, counter.description, "", "", "",
         "" if counter.status == "ok" else counter.status)
        for counter in cpu_counters
        if wanted in counter.name.lower() or wanted in counter.description.lower()
    ]  # fmt: skip
    if not rows:
        return None
    reasons = {str(row[-1]) for row in rows if row[-1]}
    notes: list[str] = []
    if len(reasons) == 1 and len(rows) > 3:  # reported once, not on every line
        notes = [f"cannot be counted here: {reasons.pop()}"]
        rows = [(*row[:-1], "not here" if row[-1] else "") for row in rows]
    return View("COUNTERS OF THE CPU:", _COUNTER_COLUMNS, rows, notes)


def _counter(counter: Counter, chips: Sequence[MetricSource]) -> View:
    facts: list[tuple[str, str]] = [
        ("Name", counter.name),
        ("Unit", counter.unit),
        ("Counts", counter.description),
    ]
    if counter.caution:
        facts.append(("Caution", counter.caution))
    if counter.legacy:
        facts.append(("Also called", ", ".join(counter.legacy)))
    shown = [chip.name for chip in chips] or _chip_of_each_architecture()
    for name in shown:
        terms = spelling.spelled(counter.name, name)
        facts.append((name, _spelling(terms) if terms else f"not available: {counter.missing}"))
    facts.append(("In the sets", ", ".join(_sets_with(counter.name)) or "none"))
    used = [ratio.name for ratio in RATIOS if counter.name in of_ratio(ratio.name)]
    facts.append(("For the ratios", ", ".join(used) or "none"))
    return View(f"COUNTER {counter.name}:", _FACTS, facts)


def _ratio(ratio: Ratio, chips: Sequence[MetricSource]) -> View:
    counters = of_ratio(ratio.name)
    facts: list[tuple[str, str]] = [
        ("Name", ratio.name),
        ("Is", ratio.description),
        ("Derived as", ratio.expression),
        ("Needs", ", ".join(counters) or "counters of the CPU, or the time alone"),
    ]
    if ratio.legacy:
        facts.append(("Also called", ", ".join(ratio.legacy)))
    for chip in chips:
        passes = chip.passes_of(ratio.name, spelling.plan(counters, chip.name).metrics)
        if counters:
            facts.append((f"Passes on {chip.name}", "unknown" if passes is None else str(passes)))
    return View(f"DERIVED METRIC {ratio.name}:", _FACTS, facts)


def _chip_of_each_architecture() -> list[str]:
    first: dict[str, Chip] = {}
    for chip in architectures.CHIPS:
        if chip.name != "GV11B":
            first.setdefault(chip.architecture, chip)
    return [chip.name for chip in first.values()]


def _sets_with(name: str) -> list[str]:
    return [set_.name for set_ in _all_sets().values() if name in set_.counters]


def _all_sets() -> dict[str, CounterSet]:
    table = project_settings().get("sets", {})
    if not isinstance(table, dict):
        raise UsageError("[tool.taupy.sets] in pyproject.toml is not a table of lists")
    return sets(table)


def _sets(chip: MetricSource | None, name: str | None = None) -> View:
    by_name = _all_sets()
    rows = []
    for set_ in by_name.values() if name is None else [by_name[name]]:
        counters = expanded(
            [set_.name], {n: list(s.counters) for n, s in by_name.items() if s.user}
        )
        passes = None
        if chip is not None:
            passes = chip.passes_of(set_.name, spelling.plan(counters, chip.name).metrics)
        rows.append(
            (chip.name if chip else "", set_.name, passes, set_.description, ", ".join(counters))
        )
    columns = [
        Column("chip", audience="machines"),
        Column("name", heading="Set"),
        Column("passes", "int", "Passes"),
        Column("description", heading="What for"),
        Column("counters", heading="Counters", spare=True),
    ]
    title = f"SETS OF COUNTERS, {chip.name} ({chip.title}):" if chip else "SETS OF COUNTERS:"
    return View(title, columns, rows, chip.notes if chip else ())


def _raw(chip: MetricSource, search: str | None) -> View:
    wanted = (search or "").lower()
    rows: list[tuple[Cell, ...]] = [
        (chip.name, name, kind, unit, description)
        for name, kind, unit, description in chip.raw()
        if wanted in name.lower() or wanted in description.lower()
    ]
    if not rows:
        raise UsageError(f"no metric of {chip.name} has '{search}' in its name or description")
    columns = [
        Column("chip", audience="machines"),
        Column("metric", heading="Metric"),
        Column("kind", heading="Kind"),
        Column("unit", heading="Unit"),
        Column("description", heading="NVIDIA's description"),
    ]
    note = (
        "request a counter as NAME.sum, .avg, .min or .max, also .per_second and "
        ".pct_of_peak_sustained_elapsed; a ratio as NAME.ratio or .pct"
    )
    title = f"{len(rows)} METRICS OF {chip.name} ({chip.title}):"
    return View(title, columns, rows, (note, *chip.notes))


# --- checking a list ---------------------------------------------------------


def _split(lists: Sequence[str]) -> list[str]:
    """Names separated by commas or, as in TAU_METRICS, by colons."""
    names = [name.strip() for text in lists for name in text.replace(":", ",").split(",")]
    return [name for name in names if name]


_CHECK_COLUMNS = (
    Column("chip", audience="machines"),
    Column("name", heading="Name"),
    Column("means", heading="Means"),
    Column("unit", heading="Unit"),
    Column("passes", "int", "Passes"),
    Column("metrics", heading="Asked for as"),
    Column("status", heading="Status"),
)


def _checked(names: Sequence[str], chip: MetricSource) -> tuple[View, bool]:
    """Each name with its meaning, and whether any of them is unavailable."""
    rows: list[tuple[Cell, ...]] = []
    metrics: dict[str, None] = {}
    together: list[str] = []
    bad = False
    user = {name: list(set_.counters) for name, set_ in _all_sets().items() if set_.user}
    cpu = {counter.name: counter for counter in metric_sources.cpu_counters()}
    for name in names:
        if name in cpu and spelling.canonical(name) is None:
            own = cpu[name]
            rows.append((chip.name, name, "of the CPU", own.unit, None, "perf_event_open",
                         "" if own.status == "ok" else own.status))  # fmt: skip
            bad |= own.status != "ok"
            continue
        try:
            counters = expanded([name], user)
            planned = spelling.plan(counters, chip.name)
        except UsageError as problem:
            rows.append((chip.name, name, None, None, None, None, str(problem).partition(";")[0]
                         + _near(name)))  # fmt: skip
            bad = True
            continue
        unknown = [metric for metric in planned.metrics if not chip.has(metric)]
        lacks = [counter for counter, _ in planned.missing]
        wrong = bool(unknown) or not planned.metrics
        bad |= wrong
        status = f"{chip.name} has no {', '.join(unknown or lacks)}" if unknown or lacks else ""
        if unknown and (close := chip.near(unknown[0])):
            status += f"; near it: {', '.join(close)}"
        unit = planned.recipes[0].unit if len(planned.recipes) == 1 else ""
        spelled = " + ".join(_spelling(recipe.terms) for recipe in planned.recipes[:1])
        if len(planned.recipes) > 1:
            spelled = f"{len(planned.metrics)} metrics"
        passes = None if wrong else chip.passes_of(name, planned.metrics)
        rows.append((chip.name, name, ", ".join(counters), unit, passes, spelled, status))
        if not wrong:
            metrics |= dict.fromkeys(planned.metrics)
            together.append(name)
    notes = [chip.together(together, list(metrics))] if len(together) > 1 else []
    view = View(f"CHECKED FOR {chip.name} ({chip.title}):", _CHECK_COLUMNS, rows, notes)
    return View(view.title, view.columns, rows, (*notes, *chip.notes)), bad


def _near(name: str) -> str:
    close = spelling.near(name, _all_sets())
    return f"; near it: {', '.join(close)}" if close else ""


def _checked_without_gpu(names: Sequence[str]) -> tuple[View, bool]:
    """Without a GPU: how `taupy run --metrics` interprets each name on this machine."""
    cpu = {counter.name: counter for counter in metric_sources.cpu_counters()}
    project = project_settings()
    rows: list[tuple[Cell, ...]] = []
    bad = False
    for name in names:
        try:
            wanted = requested.metrics([name], "--check", project, False)
        except UsageError as problem:
            text = str(problem).removeprefix("--check: ").removesuffix(_SEE_AVAIL)
            rows.append(("cpu", name, None, None, None, None, text))
            bad = True
            continue
        # A raw event needs the same permissions as `instructions`.
        states = {event: cpu.get(event, cpu["instructions"]).status for event in wanted.cpu}
        lacks = [f"{event}: {state}" for event, state in states.items() if state != "ok"]
        means, source, status = (
            [f"{event} of the CPU" for event in wanted.cpu],
            "perf_event_open",
            "",
        )
        if wanted.analytic == "always" or (wanted.analytic and lacks):
            means, source, lacks = ["operations and bytes of BLAS calls"], "their shapes", []
        elif wanted.calls or not (wanted.cpu or wanted.notes):
            means, source = wanted.calls or ["measured in every run"], ""
        if not means:
            status = "needs an NVIDIA GPU, and this machine has none; --chip CHIP checks for a chip"
        elif lacks:
            status = lacks[0] if len(wanted.cpu) > 1 else lacks[0].partition(": ")[2]
        bad |= bool(status)
        unit = cpu[wanted.cpu[0]].unit if len(wanted.cpu) == 1 and wanted.cpu[0] in cpu else None
        rows.append(("cpu", name, ", ".join(means) or None, unit, None, source if means else None,
                     status))  # fmt: skip
    return View("CHECKED FOR THIS MACHINE:", _CHECK_COLUMNS, rows), bad


_SEE_AVAIL = "; `taupy avail` lists all counters"
