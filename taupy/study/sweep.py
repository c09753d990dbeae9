"""Show the effect of a parameter: speed-up, efficiency, load imbalance, correlations.

    taupy run --sweep batch_size=16,32,64 -- train.py {batch_size}
    taupy sweep                                      the last sweep
    taupy sweep --by batch_size
    taupy sweep --by threads --scaling strong --show all
    taupy sweep --by batch_size meta.gpu=H200 --plot sweep.svg
    taupy sweep --block 64,128,256 --kernel gemm     block sizes, ranked by the kernel's stored code

The parameter is metadata of the trials, or `threads`, `nodes` or `gpus`, which are counted.
Select trials as for `taupy trials`.

In a notebook, `taupy.open("taupy.db").sweep(over="batch_size")` has methods of these names, such as
`totals()`, and `frame("routines")`. `sweep_views.py` makes tables, `sweep_plot.py` pictures.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Literal, get_args

from taupy.analysis import comparable
from taupy.comparison.matching import names_apart
from taupy.comparison.trial_values import TrialValues
from taupy.errors import UsageError
from taupy.escaping import visible
from taupy.model import options
from taupy.model.metric import NOT_ROUTINES, TIME
from taupy.model.options import Asked, option
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import METADATA
from taupy.profiledb.opening import opened
from taupy.profiledb.sweeps import OWN, SweptTrials, last_parameter, swept_trials
from taupy.study.scaling import (
    SCALINGS,
    Correlation,
    Scaled,
    Scaling,
    as_number,
    balance,
    correlations,
    in_order,
    outliers,
    scaled,
)
from taupy.study.sweep_rows import BalanceRow, OutlierRow, StepsRow, TimerRow, TopRow
from taupy.study.swept_values import (
    PROGRAM,
    Measured,
    SweptSide,
    SweptTimer,
    TimerKey,
    known_phases,
    measured,
    stepped,
    swept_sides,
    totals,
)
from taupy.units import listing, several

Across = Literal["max", "mean", "total"]
ACROSS: tuple[Across, ...] = get_args(Across)

Part = Literal[
    "totals", "steps", "routines", "phases", "imbalance", "correlation", "outliers", "top"
]
PARTS: tuple[Part, ...] = get_args(Part)

_TIMES = ("ns", "us", "ms", "s")
_PHASE = "PHASE"
_MOST_CORRELATED = 20

PEOPLE_ROWS = 10
"""Default number of routines in tables for people, and in pictures."""


def _mixed(selected: SweptTrials) -> list[str]:
    """A note if trials with the same value of the parameter differ in other ways."""
    together: dict[tuple[str, str], list[dict[str, str]]] = {}
    for trial in selected.trials:
        together.setdefault((trial.series, trial.value), []).append(selected.facts[trial.trial.id])
    apart: dict[str, set[str]] = {}
    for facts in together.values():
        for fact in comparable.within(facts):
            apart.setdefault(fact.name, set()).update(filter(None, fact.values))
    if not apart:
        return []
    listed = [
        f"{visible(name)} ({', '.join(map(visible, sorted(values)[:4]))})"
        for name, values in apart.items()
    ]
    return [
        f"trials with the same {visible(selected.over)} differ in {listing(listed, 4)}, but "
        "are treated as repeated runs; select trials to exclude some"
    ]


@dataclass(frozen=True)
class SweepOptions(Asked):
    """What a sweep measures.

    Attributes:
        over: the parameter: a metadata name, or threads, nodes, gpus; None for the first one of
            the last `taupy run --sweep`.
        limit: routines (rows of each value, by imbalance and top).
    """

    over: str | None = option(
        None,
        "the parameter: a metadata name, or threads, nodes, gpus (default: the first one of "
        "the last `taupy run --sweep`)",
        names=("--by", "--over"),
        metavar="DIMENSION",
        is_text=True,
    )
    of: str | None = option(
        None,
        "a routine or phase with everything it calls, or `program` (default: the program "
        "without imports and start-up)",
        metavar="NAME",
        is_text=True,
    )
    metric: str = option("time", "default: time", metavar="NAME", is_text=True)
    scaling: Scaling | None = option(
        None,
        "strong: constant work; weak: work grows with the parameter; none: no efficiency "
        "(default: strong for threads, nodes and gpus, else none)",
        choices=SCALINGS,
    )
    baseline: str | None = option(
        None,
        "reference for speed-up (default: the first value)",
        metavar="VALUE",
        is_text=True,
    )
    across: Across | None = option(
        None,
        "how to combine threads: the longest, the mean or the sum "
        "(default: max for times, total for other metrics)",
        choices=ACROSS,
    )
    failed: bool = option(False, "include failed and incomplete trials, and snapshots")
    limit: int | None = options.limit(
        f"routines (default: {PEOPLE_ROWS} for people, all in CSV and JSON)", least=1
    )
    whole: bool = options.whole("all routines")

    @property
    def rows(self) -> int | None:
        """The number of routines in a table; None for all."""
        return PEOPLE_ROWS if self.limit is None and not self.whole else self.limit


USUAL = SweepOptions()


class Sweep:
    """Trials over a parameter.

    Attributes:
        over: the parameter; `counted` if it was counted in the trials.
        sides: the trials with each value, series by series.
        metric: the metric, with its unit.
        scaling, across, baseline: see `taupy sweep --help`.
        limit: number of routines in tables; None for all.
        notes: what was omitted, and why.
        warnings: values at which the names hardly match those at the baseline.
    """

    def __init__(
        self, db: ProfileDB, selectors: Sequence[str] = (), question: SweepOptions = USUAL
    ) -> None:
        metric, of, baseline = question.metric, question.of, question.baseline
        over = question.over.removeprefix(METADATA) if question.over else last_parameter(db)
        if over is None:
            raise UsageError(
                "name the parameter: taupy sweep --by NAME, with NAME a metadata name, or "
                "threads, nodes, gpus (no trial comes from `taupy run --sweep`)"
            )
        selected = swept_trials(db, over, selectors, failed=question.failed)
        self.over = over
        self.limit = question.rows
        self._path = db.path
        self._of = of
        self.counted = selected.counted
        self.notes = list(selected.notes)
        self.scaling: Scaling = question.scaling or ("strong" if selected.counted else "none")
        self._facts = selected.facts
        self.notes += _mixed(selected)
        ids = [run.trial.id for run in selected.trials]
        sides = swept_sides(selected)
        values = TrialValues.of(db, ids, metric, lenient=True)
        self.metric = values.metric
        self._additive = values.additive
        is_time = self.metric.unit in _TIMES
        self.across: Across = question.across or ("max" if is_time else "total")
        if not self._additive:
            self.across = "total"
            self.notes.append(
                f"{visible(metric)} is a ratio: over threads it is the ratio of the sums, and it "
                "has no shares"
            )
        if values.missing:
            self.notes.append(
                f"omitted {several(len(values.missing), 'trial')} without {visible(metric)} "
                f"({', '.join(map(str, values.missing[:10]))})"
            )
        read = [run for meant in values.meant for run in measured(db, meant, sides, of)]
        self._measured = sorted(read, key=lambda run: ids.index(run.trial))
        self._note_part(of, ids)
        for run in self._measured:
            run.total = self._total(run)
            run.side.runs.append(run)
        self.values = in_order([run.side.value for run in self._measured])
        self.series = list(dict.fromkeys(run.side.series for run in self._measured))
        self.sides = sorted(
            (side for side in sides if side.runs),
            key=lambda side: (self.series.index(side.series), self.values.index(side.value)),
        )
        if len(self.values) < 2:
            raise UsageError(f"only one value of {over} has {metric}: a sweep needs at least two")
        if baseline is not None and baseline not in self.values:
            raise UsageError(
                f"no trial has {over} = {baseline} for a baseline (values: "
                f"{', '.join(self.values)})"
            )
        self.baseline = baseline if baseline is not None else self.values[0]
        self.warnings = self._names_apart() if self._additive else []

    def _note_part(self, of: str | None, ids: Sequence[int]) -> None:
        """Note which part of the program is measured."""
        if any(run.trimmed for run in self._measured):
            self.notes.append(
                f"without imports and start-up: --of {PROGRAM} includes them, --of NAME selects a "
                "routine or phase"
            )
        elif of is not None and of != PROGRAM:
            self.notes.append(f"only {visible(of)} and everything it calls")
            having = {run.trial for run in self._measured}
            if left := [trial for trial in ids if trial not in having]:
                self.notes.append(
                    f"omitted {several(len(left), 'trial')} without {visible(of)} "
                    f"({', '.join(map(str, left[:10]))})"
                )

    def _names_apart(self) -> list[str]:
        texts: list[str] = []
        for series in self.series:
            of_series = [side for side in self.sides if side.series == series]
            sums_of: dict[str, dict[Hashable, float]] = {f"{self.over}={self.baseline}": {}}
            sums_of |= {side.argument: self._sums(side) for side in of_series}
            texts += names_apart(sums_of, self.metric.name)
        return list(dict.fromkeys(texts))

    def _sums(self, side: SweptSide) -> dict[Hashable, float]:
        """The exclusive value of each timer on a side, over all runs."""
        sums: dict[Hashable, float] = {}
        for run in side.runs:
            for key, timer in run.timers.items():
                if key[1] not in NOT_ROUTINES:
                    sums[key] = sums.get(key, 0.0) + timer.exclusive.total
        return sums

    def __repr__(self) -> str:
        return visible(
            f"<sweep over {self.over}: {len(self._measured)} trials, "
            f"{len(self.values)} values, {self.metric.name} [{self.metric.unit}]>"
        )

    # --- the operations -------------------------------------------------------

    @cached_property
    def _totals(self) -> dict[str, list[Scaled]]:
        return {
            series: scaled(
                {
                    side.value: [run.total for run in side.runs]
                    for side in self.sides
                    if side.series == series
                },
                self.scaling,
                self.baseline,
                series,
            )
            for series in self.series
        }

    def totals(self) -> list[Scaled]:
        """The whole program: median over runs, speed-up, relative efficiency."""
        return [row for series in self.series for row in self._totals[series]]

    def steps(self) -> list[StepsRow]:
        """The steps of a training: their time, samples per second, memory."""
        with opened(self._path) as db:
            of_runs = {run.trial: stepped(db, run.trial) for run in self._measured}
        rows = []
        for side in self.sides:
            with_steps = filter(None, (of_runs[run.trial] for run in side.runs))
            columns = list(zip(*with_steps, strict=True))
            medians = [
                median(numbers) if (numbers := [x for x in column if x is not None]) else None
                for column in columns
            ]
            if columns:
                rows.append(StepsRow(side.series, side.value, len(columns[0]), *medians))  # type: ignore[arg-type]
        return rows

    def routines(self) -> list[TimerRow]:
        """The same by routine, exclusive; the largest at any value come first."""
        return self._by_timer("exclusive", phases=False)

    def phases(self) -> list[TimerRow]:
        """The same by phase, inclusive."""
        return self._by_timer("inclusive", phases=True)

    def top(self, most: int | None = 10) -> list[TopRow]:
        """The largest routines at each value, summed over threads."""
        rows = []
        for side in self.sides:
            runs = [run.timers for run in side.runs]
            spent = {
                key: median([run[key].exclusive.total if key in run else 0 for run in runs])
                for key in dict.fromkeys(key for run in runs for key in run)
            }
            whole = median([sum(t.exclusive.total for t in run.values()) for run in runs])
            is_share = self._additive and whole > 0
            longest = sorted(spent.items(), key=lambda item: (-item[1], item[0]))[:most]
            cumulative = 0.0
            for rank, (key, total) in enumerate(longest, 1):
                cumulative += total / whole if is_share else 0.0
                calls = median([run[key].calls for run in runs if key in run])
                shares = (total / whole, cumulative) if is_share else (None, None)
                where, timer = key
                rows.append(
                    TopRow(side.series, side.value, rank, timer, where, calls, total, *shares)
                )
        return rows

    def imbalance(self) -> list[BalanceRow]:
        """Load balance over host threads, nodes and GPUs: the program, then each routine.

        Uses the median run of each value. A routine counts on the threads that ran it. Rows are
        ordered by value, then by possible gain.
        """
        rows = []
        for side in self.sides if self._additive else ():
            runs = sorted(side.runs, key=lambda run: run.total)
            rows += self._balances(runs[(len(runs) - 1) // 2])
        return rows

    def correlation(self) -> list[Correlation]:
        """Correlate metadata with the total, the largest routines, and other metrics' totals."""
        names = sorted({name for facts in self._facts.values() for name in facts})
        facts: dict[str, list[str | None]] = {
            name: [self._facts[run.trial].get(name) for run in self._measured]
            for name in names
            if name == self.over or (name not in OWN and not name.startswith("taupy."))
        }
        values = [run.side.value for run in self._measured]
        if self.counted:
            facts[self.over] = [*values]
        facts = {
            name: texts
            for name, texts in facts.items()
            if name == self.over or not _says_the_same(texts, values)
        }
        quantities: dict[str, list[float | None]] = {
            "(total)": [run.total for run in self._measured]
        }
        largest = dict.fromkeys((row.where, row.timer) for row in self.routines())
        for key in list(largest)[:_MOST_CORRELATED]:
            quantities[key[1]] = [
                run.timers[key].exclusive.joined(self.across) if key in run.timers else None
                for run in self._measured
            ]
        quantities |= self._other_metrics()
        return sorted(correlations(facts, quantities), key=lambda row: row.fact != self.over)

    def outliers(self) -> list[OutlierRow]:
        """Outliers among the runs of a value, and among the threads of a run."""
        rows = []
        for side in self.sides:
            runs = [(run.trial, "run", run.total) for run in side.runs]
            of_threads = [
                [(run.trial, f"thread {place}", total) for place, total in _alike(run.threads)]
                for run in side.runs
            ]
            for group in (runs, *of_threads):
                totals = [total for *_, total in group]
                for at, score in outliers(totals):
                    trial, what, total = group[at]
                    among, middle = len(group), median(totals)
                    rows.append(
                        OutlierRow(
                            side.series, side.value, trial, what, among, total, middle, score
                        )
                    )
        return rows

    # --- within ---------------------------------------------------------------

    def _other_metrics(self) -> dict[str, list[float | None]]:
        """Totals of all other metrics that were measured in every trial."""
        ids = [run.trial for run in self._measured]
        with opened(self._path) as db:
            metric_totals = totals(db, ids)
        return {
            f"total {name} [{unit}]" if unit else f"total {name}": [of_trial.get(id) for id in ids]
            for (name, unit), of_trial in metric_totals.items()
            if name != self.metric.name
        }

    def _total(self, run: Measured) -> float:
        """Combine the values of a trial's threads."""
        threads = run.threads or run.streams
        if self.across == "max":
            return float(max(threads.values(), default=0.0))
        if self.across == "mean":
            return sum(threads.values()) / max(len(threads), 1)
        if self.metric.unit in _TIMES:
            return float(sum(threads.values()))
        # Counters of the GPU and the host are added.
        return run.whole if run.whole == run.whole else 0.0

    def _by_timer(
        self, which: Literal["inclusive", "exclusive"], *, phases: bool
    ) -> list[TimerRow]:
        keys: dict[TimerKey, None] = {}
        of_runs = {run.trial: self._phases(run) if phases else run.timers for run in self._measured}
        for timers in of_runs.values():
            keys |= dict.fromkeys(timers)
        by_time: list[tuple[float, list[TimerRow]]] = []
        for key in keys:
            rows: list[TimerRow] = []
            for series in self.series:
                rows += self._timer_rows(key, series, which, of_runs)
            if rows and any(row.median for row in rows):
                by_time.append((max(row.share or row.median for row in rows), rows))
        by_time.sort(key=lambda pair: (-pair[0], pair[1][0].timer))
        return [row for _, rows in by_time for row in rows]

    def _phases(self, run: Measured) -> dict[TimerKey, SweptTimer]:
        """The phases that the program named, and in times those of trainings."""
        own = {key: timer for key, timer in run.timers.items() if _PHASE in timer.groups.split("|")}
        if self.metric.name != TIME.name or self._of not in (None, PROGRAM):
            return own
        with opened(self._path) as db:
            return known_phases(db, run.trial) | own

    def _timer_rows(
        self,
        key: TimerKey,
        series: str,
        which: Literal["inclusive", "exclusive"],
        of_runs: Mapping[int, Mapping[TimerKey, SweptTimer]],
    ) -> list[TimerRow]:
        samples: dict[str, list[float]] = {}
        calls: dict[str, list[int]] = {}
        for run in self._measured:
            timer = of_runs[run.trial].get(key)
            if run.side.series == series and timer is not None:
                values = timer.exclusive if which == "exclusive" else timer.inclusive
                if values.threads:
                    samples.setdefault(run.side.value, []).append(values.joined(self.across))
                    calls.setdefault(run.side.value, []).append(timer.calls)
        totals = {row.value: row.median for row in self._totals[series]}
        baseline = self.baseline if self.baseline in samples else None
        rows = []
        for row in scaled(samples, self.scaling, self.baseline):
            whole = totals.get(row.value, 0.0)
            share = row.median / whole if whole > 0 and self._additive else None
            rows.append(
                TimerRow(
                    *(series, key[1], key[0], row.value, row.runs, median(calls[row.value])),
                    *(row.median, row.minimum, row.maximum, share),
                    # A routine that did not run at the baseline has no reference.
                    *((row.speedup, row.efficiency) if baseline else (None, None)),
                )
            )
        return rows

    def _balances(self, run: Measured) -> list[BalanceRow]:
        rows: list[BalanceRow] = []

        def add(over: str, timer: str, values: Sequence[float]) -> None:
            shared = balance(values)
            if shared is not None:
                side = run.side
                rows.append(BalanceRow(side.series, side.value, run.trial, over, timer, *shared))

        nodes: dict[int, float] = {}
        for place, total in run.threads.items():
            node = int(place.split(".")[0])
            nodes[node] = nodes.get(node, 0.0) + total
        add("threads", "", list(run.threads.values()))
        add("nodes", "", list(nodes.values()))
        for (where, name), timer in run.timers.items():
            by_thread = [float(value) for _, _, value in timer.exclusive.threads]
            by_place: dict[tuple[int, int], float] = {}
            for node, context, value in timer.exclusive.threads:
                place_of = (node, context)
                by_place[place_of] = by_place.get(place_of, 0.0) + value
            add("gpus" if where == "gpu" else "nodes", name, list(by_place.values()))
            if where == "host":
                add("threads", name, by_thread)
        rows.sort(key=lambda row: (row.timer != "", -row.lost, row.timer, row.over))
        return rows


def _alike(threads: dict[str, float]) -> list[tuple[str, float]]:
    """Comparable threads: if nodes have several, the first of each node, which waits for the
    others, is omitted."""
    firsts = [place for place in threads if place.endswith(".0.0")]
    several = len(firsts) < len(threads)
    return [
        (place, total) for place, total in threads.items() if place not in firsts or not several
    ]


def _says_the_same(texts: Sequence[str | None], values: Sequence[str]) -> bool:
    """Metadata that repeats the parameter, such as a command line with its value."""
    pairs = set(zip(texts, values, strict=True))
    same = len(pairs) == len(set(texts)) == len(set(values))
    return same and any(text is None or as_number(text) is None for text in texts)
