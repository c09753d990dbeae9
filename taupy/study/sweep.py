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

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import median
from typing import Literal, NamedTuple, get_args

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
    Run,
    SweptTimer,
    TimerKey,
    known_phases,
    measured,
    operators,
    stepped,
    totals,
)
from taupy.units import listing, several

Across = Literal["max", "mean", "total"]
ACROSS: tuple[Across, ...] = get_args(Across)

Part = Literal[
    "totals",
    "steps",
    "routines",
    "phases",
    "operators",
    "imbalance",
    "correlation",
    "outliers",
    "top",
]
PARTS: tuple[Part, ...] = get_args(Part)

_TIMES = ("ns", "us", "ms", "s")
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


class Side(NamedTuple):
    """The runs of a series that share a value of the parameter."""

    series: str
    value: str
    runs: list[Run]


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
        self._of = question.of
        self.counted = selected.counted
        self.scaling: Scaling = question.scaling or ("strong" if selected.counted else "none")
        self._facts = selected.facts
        self.notes = [*selected.notes, *_mixed(selected)]
        ids = [run.trial.id for run in selected.trials]
        values = TrialValues.of(db, ids, question.metric, lenient=True)
        self.metric = values.metric
        self._additive = values.additive
        is_time = self.metric.unit in _TIMES
        self.across: Across = question.across or ("max" if is_time else "total")
        if not self._additive:
            self.across = "total"
            self.notes.append(
                f"{visible(question.metric)} is a ratio: over threads it is the ratio of the sums, "
                "and it has no shares"
            )
        self.notes += _omitted(values.missing, question.metric)
        read = [run for meant in values.meant for run in measured(db, meant, selected, self._of)]
        self._runs = sorted(read, key=lambda run: ids.index(run.trial))
        for run in self._runs:
            run.total = self._total(run)
        self._note_part(ids)
        self.values = in_order([run.value for run in self._runs])
        self.series = list(dict.fromkeys(run.series for run in self._runs))
        if len(self.values) < 2:
            raise UsageError(
                f"only one value of {over} has {question.metric}: a sweep needs at least two"
            )
        self.baseline = self.values[0] if question.baseline is None else question.baseline
        if self.baseline not in self.values:
            raise UsageError(
                f"no trial has {over} = {self.baseline} for a baseline (values: "
                f"{', '.join(self.values)})"
            )
        every = (
            Side(series, value, [r for r in self._runs if (r.series, r.value) == (series, value)])
            for series, value in product(self.series, self.values)
        )
        self.sides = [side for side in every if side.runs]
        self.warnings = self._names_apart() if self._additive else []

    def _note_part(self, ids: Sequence[int]) -> None:
        """Note which part of the program is measured."""
        if any(run.trimmed for run in self._runs):
            self.notes.append(
                f"without imports and start-up: --of {PROGRAM} includes them, --of NAME selects a "
                "routine or phase"
            )
        elif self._of is not None and self._of != PROGRAM:
            having = {run.trial for run in self._runs}
            self.notes.append(f"only {visible(self._of)} and everything it calls")
            self.notes += _omitted([trial for trial in ids if trial not in having], self._of)

    def _total(self, run: Run) -> float:
        """Combine the values of a trial's threads."""
        threads = (run.threads or run.streams).values()
        if self.across == "max":
            return float(max(threads, default=0.0))
        if self.across == "mean":
            return sum(threads) / max(len(threads), 1)
        if self.metric.unit in _TIMES:
            return float(sum(threads))
        # Counters of the GPU and the host are added.
        return run.whole if run.whole == run.whole else 0.0

    def _names_apart(self) -> list[str]:
        texts: dict[str, None] = {}
        for series in self.series:
            sums_of: dict[str, dict[Hashable, float]] = {f"{self.over}={self.baseline}": {}}
            for side in self.sides:
                if side.series == series:
                    sums = sums_of[f"{self.over}={side.value}"] = {}
                    for key, timer in (pair for run in side.runs for pair in run.timers.items()):
                        if key[1] not in NOT_ROUTINES:
                            sums[key] = sums.get(key, 0.0) + timer.exclusive.total
            texts |= dict.fromkeys(names_apart(sums_of, self.metric.name))
        return list(texts)

    def __repr__(self) -> str:
        return visible(
            f"<sweep over {self.over}: {len(self._runs)} trials, "
            f"{len(self.values)} values, {self.metric.name} [{self.metric.unit}]>"
        )

    @property
    def is_numeric(self) -> bool:
        """Whether all values of the parameter are numbers."""
        return all(as_number(value) is not None for value in self.values)

    # --- the operations -------------------------------------------------------

    @cached_property
    def _totals(self) -> dict[str, list[Scaled]]:
        totals: dict[str, dict[str, list[float]]] = {}
        for side in self.sides:
            totals.setdefault(side.series, {})[side.value] = [run.total for run in side.runs]
        return {
            series: scaled(samples, self.scaling, self.baseline, series)
            for series, samples in totals.items()
        }

    def totals(self) -> list[Scaled]:
        """The whole program: median over runs, speed-up, relative efficiency."""
        return [row for rows in self._totals.values() for row in rows]

    def steps(self) -> list[StepsRow]:
        """The steps of a training: their time, samples per second, memory."""
        with opened(self._path) as db:
            of_runs = {run.trial: stepped(db, run.trial) for run in self._runs}
        rows = []
        for side in self.sides:
            columns = [*zip(*filter(None, (of_runs[run.trial] for run in side.runs)), strict=True)]
            present = ([x for x in column if x is not None] for column in columns)
            medians = [median(numbers) if numbers else None for numbers in present]
            if columns:
                rows.append(StepsRow(side.series, side.value, len(columns[0]), *medians))  # type: ignore[arg-type]
        return rows

    def routines(self) -> list[TimerRow]:
        """The same by routine, exclusive; the largest at any value come first."""
        return self._by_timer("exclusive", {run.trial: run.timers for run in self._runs})

    def phases(self) -> list[TimerRow]:
        """The same by phase, inclusive: those that the program named, and in times those of
        trainings."""
        phases = {
            run.trial: {
                key: timer
                for key, timer in run.timers.items()
                if "PHASE" in timer.groups.split("|")
            }
            for run in self._runs
        }
        if self.metric.name == TIME.name and self._of in (None, PROGRAM):
            with opened(self._path) as db:
                phases = {trial: known_phases(db, trial) | own for trial, own in phases.items()}
        return self._by_timer("inclusive", phases)

    def operators(self) -> list[TimerRow]:
        """The same by operator, on the GPU if all values have GPU work there: the nearest operator,
        or what is at other values in its place, as `taupy compare --by operator` finds it."""
        sides = [[run.trial for run in side.runs] for side in self.sides]
        with opened(self._path) as db:
            trials = [trial for side in sides for trial in side]
            of_trials = operators(TrialValues.of(db, trials, self.metric.name), sides)
        return self._by_timer("exclusive", of_trials)

    def _by_timer(
        self,
        which: Literal["inclusive", "exclusive"],
        timers: Mapping[int, Mapping[TimerKey, SweptTimer]],
    ) -> list[TimerRow]:
        by_key: list[list[TimerRow]] = []
        for key in dict.fromkeys(key for of_run in timers.values() for key in of_run):
            rows: list[TimerRow] = []
            for series in self.series:
                rows += self._timer_rows(key, series, which, timers)
            if any(row.median for row in rows):
                by_key.append(rows)
        by_key.sort(key=lambda rows: (-max(row.share or row.median for row in rows), rows[0].timer))
        return [row for rows in by_key for row in rows]

    def _timer_rows(
        self,
        key: TimerKey,
        series: str,
        which: Literal["inclusive", "exclusive"],
        timers: Mapping[int, Mapping[TimerKey, SweptTimer]],
    ) -> Iterator[TimerRow]:
        samples: dict[str, list[float]] = {}
        calls: dict[str, list[int]] = {}
        for run in self._runs:
            timer = timers[run.trial].get(key) if run.series == series else None
            if timer is not None and (spent := getattr(timer, which)).threads:
                samples.setdefault(run.value, []).append(spent.joined(self.across))
                calls.setdefault(run.value, []).append(timer.calls)
        totals = {row.value: row.median for row in self._totals[series]}
        where, name = key
        for row in scaled(samples, self.scaling, self.baseline):
            whole = totals.get(row.value, 0.0)
            share = row.median / whole if whole > 0 and self._additive else None
            of_runs = row.runs, median(calls[row.value]), row.median, row.minimum, row.maximum
            # A routine that did not run at the baseline has no reference.
            ratios = (row.speedup, row.efficiency) if self.baseline in samples else (None, None)
            yield TimerRow(series, name, where, row.value, *of_runs, share, *ratios)

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
            for rank, ((where, timer), total) in enumerate(longest, 1):
                cumulative += total / whole if is_share else 0.0
                calls = median([run[where, timer].calls for run in runs if (where, timer) in run])
                shares = (total / whole, cumulative) if is_share else (None, None)
                place = side.series, side.value, rank
                rows.append(TopRow(*place, timer, where, calls, total, *shares))
        return rows

    def imbalance(self) -> list[BalanceRow]:
        """Load balance over host threads, nodes and GPUs: the program, then each routine.

        Uses the median run of each value. A routine counts on the threads that ran it. Rows are
        ordered by value, then by possible gain.
        """
        rows: list[BalanceRow] = []
        for side in self.sides if self._additive else ():
            run = sorted(side.runs, key=lambda run: run.total)[(len(side.runs) - 1) // 2]
            shared = ((over, timer, balance(parts)) for over, timer, parts in _shared(run))
            balances = [
                BalanceRow(side.series, side.value, run.trial, over, timer, *balanced)
                for over, timer, balanced in shared
                if balanced is not None
            ]
            rows += sorted(balances, key=lambda r: (r.timer != "", -r.lost, r.timer, r.over))
        return rows

    def correlation(self) -> list[Correlation]:
        """Correlate metadata with the total, the largest routines, and other metrics' totals."""
        values = [run.value for run in self._runs]
        facts: dict[str, list[str | None]] = {}
        for name in sorted({name for facts in self._facts.values() for name in facts}):
            texts = [self._facts[run.trial].get(name) for run in self._runs]
            own = name in OWN or name.startswith("taupy.") or _says_the_same(texts, values)
            if name == self.over or not own:
                facts[name] = texts
        if self.counted:
            facts[self.over] = [*values]
        quantities: dict[str, list[float | None]] = {"(total)": [run.total for run in self._runs]}
        largest = dict.fromkeys((row.where, row.timer) for row in self.routines())
        for key in list(largest)[:_MOST_CORRELATED]:
            quantities[key[1]] = [
                run.timers[key].exclusive.joined(self.across) if key in run.timers else None
                for run in self._runs
            ]
        ids = [run.trial for run in self._runs]
        with opened(self._path) as db:
            others = totals(db, ids)
        for (name, unit), of_trial in others.items():
            if name != self.metric.name:
                what = f"total {name} [{unit}]" if unit else f"total {name}"
                quantities[what] = [of_trial.get(id) for id in ids]
        return sorted(correlations(facts, quantities), key=lambda row: row.fact != self.over)

    def outliers(self) -> list[OutlierRow]:
        """Outliers among the runs of a value, and among the threads of a run."""
        rows = []
        for side in self.sides:
            groups = [[(run.trial, "run", run.total) for run in side.runs]]
            groups += [
                [(run.trial, f"thread {place}", total) for place, total in _alike(run.threads)]
                for run in side.runs
            ]
            for group in groups:
                totals = [total for *_, total in group]
                for at, score in outliers(totals):
                    trial, what, total = group[at]
                    among = (len(group), total, median(totals))
                    rows.append(OutlierRow(side.series, side.value, trial, what, *among, score))
        return rows


def _omitted(trials: Sequence[int], what: str) -> list[str]:
    """A note on trials that lack a metric or a routine."""
    ids = ", ".join(map(str, trials[:10]))
    lacking = several(len(trials), "trial")
    return [f"omitted {lacking} without {visible(what)} ({ids})"] if trials else []


def _shared(run: Run) -> Iterator[tuple[str, str, list[float]]]:
    """What threads, nodes and GPUs share: of the program, whose timer is "", and of each timer."""

    def summed(parts: Iterable[tuple[Hashable, float]]) -> list[float]:
        sums: dict[Hashable, float] = {}
        for place, value in parts:
            sums[place] = sums.get(place, 0.0) + value
        return list(sums.values())

    yield "threads", "", list(run.threads.values())
    yield "nodes", "", summed((place.split(".")[0], own) for place, own in run.threads.items())
    for (where, name), timer in run.timers.items():
        threads = timer.exclusive.threads
        places = summed(((node, context), value) for node, context, value in threads)
        yield "gpus" if where == "gpu" else "nodes", name, places
        if where == "host":
            yield "threads", name, [float(value) for *_, value in threads]


def _alike(threads: dict[str, float]) -> list[tuple[str, float]]:
    """Comparable threads: if nodes have several, the first of each node, which waits for the
    others, is omitted."""
    others = [(place, total) for place, total in threads.items() if not place.endswith(".0.0")]
    return others or list(threads.items())


def _says_the_same(texts: Sequence[str | None], values: Sequence[str]) -> bool:
    """Metadata that repeats the parameter, such as a command line with its value."""
    pairs = set(zip(texts, values, strict=True))
    same = len(pairs) == len(set(texts)) == len(set(values))
    return same and any(text is None or as_number(text) is None for text in texts)
