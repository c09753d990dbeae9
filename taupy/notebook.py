"""The classes behind `taupy.open`: those of `profiledb/api.py`, plus trainings and comparisons.

    db = taupy.open("taupy.db")
    db.trial("latest").layers()
    db.compare("tag:base", "latest")
    db.pivot(rows=["application", "kernel"], columns=["gpu"], cells=["warps_per_inst"])
    db.gate("time > +5%", baseline="tag:base")
    db.sweep(over="batch_size").frame("routines")
    db.trial("latest").report()

Frames have the columns of the command's `--csv`, and in `attrs["notes"]` what it notes; of what a
trial lacks, a frame is empty and notes why. See docs/compare.md.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from taupy.analysis.match import Level, NameTable
from taupy.analysis.significance import Correction
from taupy.answers import (
    compare,
    events,
    kernel,
    kernels,
    layers,
    lines,
    memory,
    phases,
    places,
    routines,
    steps,
    waiting,
)
from taupy.answers.answer import Nothing
from taupy.comparison import verdicts
from taupy.comparison.comparison import By, Statistic
from taupy.comparison.trial_values import Over, Value
from taupy.escaping import framed
from taupy.model.kinds import StepKind
from taupy.model.options import Asked
from taupy.pprof import forms
from taupy.pprof.view import View
from taupy.profiledb import api, selector
from taupy.profiledb.address import is_address
from taupy.profiledb.database import ProfileDB
from taupy.ranks import answer as ranks
from taupy.report import cell, screen
from taupy.report.report import Report, report
from taupy.state.saving import save_named
from taupy.study import candidates, conditions, gate, gate_view, pivot, pivot_view
from taupy.study.gains import Way
from taupy.study.pivot import Layout
from taupy.study.pivot_cells import Across
from taupy.study.scaling import Scaling
from taupy.study.sweep import Across as SweepAcross
from taupy.study.sweep import SweepOptions
from taupy.study.sweep_plot import DrawnSweep
from taupy.units import size

if TYPE_CHECKING:
    import pandas as pd

_Options = TypeVar("_Options", bound=Asked)


def open(path: str | os.PathLike[str] | None = None) -> Database:
    """Open a trial database for reading.

    Args:
        path: by default `taupy.db` in the current folder, unless another user owns it.

    Raises:
        taupy.errors.DatabaseError: the file does not exist or cannot be read.
    """
    database = Database(api.usual() if path is None else path)
    with database._opened():
        pass
    return database


@dataclass(frozen=True, slots=True)
class Page:
    """A report that a notebook shows.

    Attributes:
        text: the whole page.
        title: for screen readers.
        height: in the notebook, in pixels.
    """

    text: str
    title: str
    height: int = 700

    def __repr__(self) -> str:
        return f"<{self.title}, {size(len(self.text))}>"

    def _repr_html_(self) -> str:
        return framed(self.text, self.title, self.height)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        save_named(path, self.text)


class Trial(api.Trial):
    """A trial that can show its report, and the training in it."""

    def screen(self) -> str:
        """The lines that `taupy report` prints."""
        return screen.text(self._told()).rstrip()

    def as_cell(self, page: str = "") -> str:
        """The same as HTML: the first places with their source text, and findings.

        Args:
            page: address of the trial's page, which is linked.
        """
        shown = self._told()
        return cell.fragment(shown, page) if shown.places else super()._repr_html_()

    def _repr_html_(self) -> str:
        return self.as_cell()

    def _told(self) -> Report:
        with self._database._opened() as db:
            path = self._database.path
            is_usual = is_address(path) or path == os.path.abspath("taupy.db")
            return report(db, self.row, database="" if is_usual else f" --db {shlex.quote(path)}")

    def report(self, height: int = 700) -> Page:
        """The page of `taupy report -o`: a notebook shows it, `.save(FILE)` writes it."""
        from taupy.report import contents, page

        with self._database._opened() as db:
            text = page.html_page(contents.of_trial(db, self.row))
        return Page(text, f"report of trial {self.row.id}", height)

    def places(self, limit: int | None = None) -> pd.DataFrame:
        """Where the time went in the program's own code, the dearest places first.

        Columns: threads_group, kind ["own", "waiting", "imports", "exit", "outside"],
        share_percent [of the group], time_ns, calls, routine, file, line; hottest_line, hottest_ns,
        source, hottest_calls [its line with the most time, estimated, with its text and what it
        mostly called]; callee_ns, callee_calls, callee, callee_file, callee_line [the library's
        routine below, or the import, with the most time]; caller, caller_file, caller_line,
        calls_by_caller [of a place that is called in a loop]; asleep_ns [how long it waited,
        sampled]; off_cpu_ns [how long it waited at least, as CPU times say]; awaits [of a loop's
        waiting: the lines at which coroutines were suspended, how often and for how long].

        Args:
            limit: own places of each group of threads; None for all.
        """
        return self._answer(places.views, places.Options(limit))

    def lines(self, detail: str = "line", limit: int | None = None) -> pd.DataFrame:
        """Which lines of the program took the time, the dearest first; estimated from looks.

        Columns: threads_group, share_percent [of the group], time_ns, error_ns [its standard
        error], looks, source [text], calls [what it mostly called], routine, file, line; state,
        cpu_ns, gil_ns, lock_ns, wait_ns, disk_ns; callee, callee_file, callee_line [the library's
        routine that it called]. Lines that were seen less than 10 times are left out.

        Args:
            detail: one row for each "line", "call" of a line, or "state" of a line.
            limit: at most so many rows for each group of threads; None for all.
        """
        return self._answer(lines.views, lines.Options(detail, limit))

    def steps(self, kind: StepKind | None = None, metric: str | None = None) -> pd.DataFrame:
        """One row per step of a training or validation, thread by thread.

        Columns: node, thread, kind [training or validation], step [its number], steps [that the
        row stands for], start_ns [since the epoch], time_ns, longest_ns, one `KIND_ns` for each
        kind of phase that there is, other_ns, samples, samples_per_second, tokens_per_second,
        one for each value that was logged, mark. No rows: the trial has no steps.

        Args:
            metric: what each step used of it, in a column, such as "cpu_time"; None: its time.

        Raises:
            taupy.errors.TaupyError: no step has the metric.
        """
        return self._answer(steps.views, steps.Options(kind=kind, metric=metric))

    def phases(self, by: phases.By = "thread") -> pd.DataFrame:
        """Where the time of a training goes, thread by thread.

        Columns: node, thread (or the requested dimension), share_percent, time_ns, calls,
        per_step_ns, p50_ns, p95_ns (of threads), phase. The times of a thread add up to its whole
        time.

        Args:
            by: "thread", "rank", "node", "trial" or "phase" (all threads together), "layer",
                "layer_type", or "step": one row for each phase of each step, with kind, step and,
                where rows stand for several steps, steps.
        """
        return self._answer(phases.views, phases.Options(by))

    def layers(
        self,
        by: layers.By = "layer",
        depth: int | None = None,
        tree: bool = False,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """The layers of a network, thread by thread, the largest own time first.

        Columns: those of `taupy layers --csv`, among them own_ns, which adds up to the thread's
        time, forward_ns, backward_ns, calls, parameters, flop and the layer.

        Args:
            by: "layer", or "layer_type", its class; "phase"; "rank": the layers of each rank's
                threads; "step": the layers in each step, with kind, step and steps, in order of
                time, of a trial with `--trace=host`.
            depth: cut names of layers after so many parts, and add up; None for whole names.
            tree: in the order in which layers call each other, with indented names.
            limit: rows of each table, or of each step; None for all.

        Raises:
            taupy.errors.UsageError: the trial has no steps, or no trace.
        """
        return self._answer(layers.views, layers.Options(by, depth, tree, limit))

    def ranks(
        self,
        by: ranks.By = "rank",
        step: int | None = None,
        attempt: int | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """What the ranks of a job did, and which one the others waited for.

        Columns: those of `taupy ranks --csv`. No rows: the trial has no ranks.

        Args:
            by: one row per "rank", "step", "collective", "layer", "layer_type" or "phase".
            step: only the ranks in this step.
            attempt: of a job that was restarted after a failure; None for the last.
            limit: rows; None for all.

        Raises:
            taupy.errors.UsageError: there is no such step, or no such attempt.
        """
        return self._answer(ranks.views, ranks.Options(by, step, attempt, limit))

    def kernels(
        self,
        by: str = "kernel",
        kernel: str | None = None,
        activity: bool = False,
        critical_path: bool = False,
        step: int | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """What ran on the GPUs, GPU by GPU, by decreasing time.

        Columns: node, context [1 + the GPU's ordinal], percent [of the GPU's time], time_ns,
        launches, untimed, mean_ns, minimum_ns, maximum_ns, stddev_ns [of single launches],
        occupancy_percent, limiter, bytes, configurations, short_name, kernel, groups, routine
        [that launched most of it], routines. Unknown values are missing. No rows: nothing of the
        trial ran on a GPU.

        Args:
            by: another dimension of `taupy kernels --by`, whose labels are in a column of that name
                instead of `kernel`: "layer", "phase" and so on, or "step", in order of time, of a
                trial with `--trace=gpu`.
            kernel: only kernels of this name, part of a name, or pattern.
            activity: one row per GPU: kernel_ns, copy_ns, busy_ns, overlap_ns, gaps and others.
            critical_path: what the length of the last step consists of: step, kind, path_ns,
                path_percent, bound_ns, place.
            step: of that one instead: the last 8 are kept.
            limit: rows for each GPU; the rest is summed. None for all.

        Raises:
            taupy.errors.UsageError: there is no such dimension, or the trial has no steps or trace;
                no kernel has the name; there is no path of that step.
        """
        options = kernels.Options(by, kernel, activity, critical_path, step, limit)
        return self._answer(kernels.views, options)

    def kernel(self, name: str) -> pd.DataFrame:
        """One kernel: a row for each launch site and configuration on each stream.

        Columns: those of `taupy kernel --csv`; kernels with stored code have rows for it, too.

        Args:
            name: of the kernel, part of it, or a pattern.

        Raises:
            taupy.errors.UsageError: no kernel has the name.
        """
        return self._answer(kernel.views, kernel.Options(name))

    def waiting(self, by: str = "routine", limit: int | None = None) -> pd.DataFrame:
        """What threads did: compute, wait for a processor, sleep, wait for a disk (sampled).

        Columns: those of `taupy waiting --csv`. No rows: the trial has no record of it.

        Args:
            by: a dimension of `taupy waiting --by`, or "step": measured in each step.
            limit: rows of each table; None for all.
        """
        return self._answer(waiting.views, waiting.Options(by, limit))

    def memory(
        self, by: str = "routine", series: bool = False, gpu: bool = False, limit: int | None = None
    ) -> pd.DataFrame:
        """Where memory grew, the largest growth first (sampled).

        Columns: share_percent, growth_bytes, doubt_bytes, net_bytes, looks and the dimension.

        Args:
            by: a dimension of `taupy memory --by`, or "step": memory in each step of a training.
            series: memory over time: node, event, start_ns, end_ns, resident_bytes, least_bytes,
                most_bytes.
            gpu: memory that PyTorch has allocated on GPUs.
            limit: rows of each table; None for all.
        """
        return self._answer(memory.views, memory.Options(by, series, gpu, limit))

    def routines(self, metric: str | None = None) -> pd.DataFrame:
        """The flat profile: every routine on every thread, the largest exclusive value first.

        Columns: those of `taupy pprof --csv`; `profile` has the same values by plain names.

        Args:
            metric: None for time, or for the trial's only metric.

        Raises:
            taupy.errors.MissingMetric: the trial does not have the metric.
        """
        return self._answer(routines.views, routines.Options(metric))

    def events(
        self, callpaths: bool = False, event: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """User events, thread by thread: samples, maximum, minimum, mean, stddev, event, unit.

        Args:
            callpaths: call path by call path, as `user_events`.
            event: only events of this name, part of a name, or pattern.
            limit: rows of each thread; None for all.

        Raises:
            taupy.errors.UsageError: no event has the name.
        """
        return self._answer(events.views, events.Options(callpaths, event, limit))

    def candidates(
        self,
        metric: str | None = None,
        by: str = "routine",
        order: Way | None = None,
        target: float | None = None,
        group: str | Sequence[str] = (),
        ceilings: str | Sequence[str] = (),
        limit: int | None = None,
    ) -> pd.DataFrame:
        """The routines worth tuning, the largest possible gain first.

        Columns: those of `taupy candidates --csv`.

        Args:
            metric: what ranks; None for the first usual ratio of the trial, else its roofs.
            order: "product", "shortfall" or "value", as in `taupy candidates --help`.
            target: attainable value for "shortfall"; None for the best one.
            ceilings: roofs for `metric="roofline"`; none for the machine's own.
            limit: rows; None for all.

        Raises:
            taupy.errors.MissingMetric, UsageError: as for `taupy candidates`.
        """
        question = candidates.Options(metric, by, order, target, group, ceilings, limit)
        return self._answer(candidates.views, question)

    def _answer(
        self, views: Callable[[ProfileDB, int, _Options], list[View]], options: _Options
    ) -> pd.DataFrame:
        with self._database._opened() as db:
            try:
                return forms.frame(views(db, self.row.id, options))
            except Nothing as nothing:
                return forms.frame([], [str(nothing)])


class Database(api.Database):
    """A trial database that can compare its trials, and show their reports."""

    def trial(self, which: str | int = selector.LATEST, **conditions: Any) -> Trial:
        """As `taupy.profiledb.api.Database.trial`; with `report()`, `layers()` and the like."""
        return Trial(self, super().trial(which, **conditions).row)

    def compare(
        self,
        *trials: str | int,
        baseline: str | int | None = None,
        by: By = "routine",
        metric: str = "time",
        value: Value | Statistic | None = None,
        over: Over = "total",
        match: Level = "auto",
        table: Mapping[str, object] | None = None,
        filter: str | Sequence[str] = (),
        group: str | Sequence[str] = (),
        alpha: float = verdicts.ALPHA,
        min_effect: float = verdicts.MIN_EFFECT,
        min_share: float = verdicts.MIN_SHARE,
        correction: Correction = "maxt",
        sort: str = "impact",
        reverse: bool = False,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Compare trials; the row with the largest impact comes first.

        Args:
            trials: two or more sides; each is a selector that may match repeated runs.
            baseline: side that the others are compared with, instead of the first.
            table: name patterns, name -> pattern or list of patterns.

        Returns:
            One row per routine, kernel, call path ...: table, in, match, a value for each side
            (`a_ns`, `b_ns`), difference, ratio, impact, shares in percent, calls, and with
            repeated runs ratio_low, ratio_high, p, p_adjusted, verdict. Absent values are
            missing, never 0. `attrs` has `metric`, `unit`, `sides` [letter -> trial ids] and
            `not_comparable` and `warnings` [lists of texts that are also in `notes`].

        Raises:
            taupy.errors.NoSuchTrial, MissingMetric, UsageError: as for `taupy compare`.
        """
        question = compare.Options(
            baseline=None if baseline is None else str(baseline),
            by=by,
            metric=metric,
            value=value,  # type: ignore[arg-type]  # None: the usual one
            over=over,
            match=match,
            table=NameTable(table) if table else None,
            filter=filter,
            group=group,
            alpha=alpha,
            min_effect=min_effect,
            min_share=min_share,
            correction=correction,
            sort=sort,
            reverse=reverse,
            limit=limit,
        )
        with self._opened() as db:
            compared = compare.compared(db, list(map(str, trials)), question, lenient=True)
            frame = forms.frame(compared.tables(), compared.remarks())
            answers = compared.answers
            frame.attrs.update(
                metric=metric,
                unit=answers[0].metric.unit if answers else "",
                sides={side.letter: [trial.id for trial in side.trials] for side in compared.sides},
                not_comparable=[difference.text for difference in compared.apart],
                warnings=[*compared.omitted, *compared.names_apart],
            )
        return frame

    def sweep(
        self,
        *trials: str | int,
        over: str | None = None,
        of: str | None = None,
        metric: str = "time",
        scaling: Scaling | None = None,
        baseline: str | int | float | None = None,
        across: SweepAcross | None = None,
        failed: bool = False,
        limit: int | None = None,
    ) -> DrawnSweep:
        """The effect of a parameter: speed-up, efficiency, load imbalance, correlations.

        Args:
            trials: selectors; the default is the last sweep over the parameter.
            over: name of metadata, or `threads`, `nodes` or `gpus`, counted in the trials; by
                default the first parameter of the last `taupy run --sweep`.
            of: a routine or phase with everything it calls, or "program"; by default the
                program without imports and start-up.
            scaling: "strong", "weak" or "none"; by default strong if the parameter is counted.
            baseline: value that the others are compared with; None for the first.
            across: how to combine threads: "max", "mean" or "total".
            failed: include failed and incomplete trials, and snapshots.
            limit: routines in each frame; None for all.

        Returns:
            A `DrawnSweep` with `frame("totals")`, `frame("routines")` and others, the tables of
            `taupy sweep --show`, and `plot(FILE)`.

        Raises:
            taupy.errors.NoSuchTrial, MissingMetric, UsageError: as for `taupy sweep`.
        """
        against = None if baseline is None else str(baseline)
        question = SweepOptions(over, of, metric, scaling, against, across, failed, limit)
        with self._opened() as db:
            return DrawnSweep(db, list(map(str, trials)), question)

    def gate(
        self,
        *fail_on: str,
        baseline: str | int,
        trials: Sequence[str | int] = (selector.LATEST,),
        over: Over = "total",
        match: Level = "auto",
        table: Mapping[str, object] | None = None,
        alpha: float = verdicts.ALPHA,
        min_share: float = verdicts.MIN_SHARE,
    ) -> pd.DataFrame:
        """Test conditions on trials, as `taupy compare --fail-on` does.

        Returns:
            One row for each condition and judged row: verdict [FAILED, UNDECIDED or passed],
            condition, name, value_a, value_b, unit, change [relative], ratio_low, ratio_high,
            p_adjusted, why. `attrs["exit_code"]` is the command's exit code for comparable
            trials; `attrs["not_comparable"]` lists reasons why they are not.

        Raises:
            taupy.errors.UsageError: a condition is invalid, or its pattern matches nothing.
        """
        parsed = [conditions.parse(text) for text in fail_on]
        question = compare.Options(
            baseline=str(baseline),
            over=over,
            match=match,
            table=NameTable(table) if table else None,
            alpha=alpha,
            min_share=min_share,
        )
        with self._opened() as db:
            compared = compare.compared(db, list(map(str, trials)), question)
            judgement = gate.judge(compared, parsed)
            conclusion = gate.concluded(compared, judgement)
        rulings = gate_view.conclusion_view(parsed, judgement, conclusion, True, 1 - alpha)
        frame = forms.frame([rulings])
        frame.attrs.update(
            exit_code=judgement.exit_code,
            not_comparable=[difference.text for difference in compared.apart],
        )
        return frame

    def pivot(
        self,
        *trials: str | int,
        rows: Sequence[str] = ("application",),
        columns: Sequence[str] = ("gpu",),
        cells: Sequence[str] = ("time",),
        value: Value = "exclusive",
        over: Over = "total",
        across: Across = "median",
        baseline: str | None = None,
        peak: bool = False,
        ceiling: str | None = None,
        group: str | Sequence[str] = (),
        filter: str | Sequence[str] = (),
        match: Level = "auto",
        table: Mapping[str, object] | None = None,
        limit: int | None = None,
    ) -> pd.DataFrame:
        """Tabulate many trials, as `taupy pivot` does.

        Args:
            trials: selectors; none for all trials.
            peak: show percentages of each device's peak, which `ceiling` names.
            table: name patterns, as for `compare`.
            limit: routines or kernels under each label; None for all.

        Returns:
            The row labels as columns, then one column per column label. `attrs` has `metrics`
            [cell -> unit].

        Raises:
            taupy.errors.NoSuchTrial, MissingMetric, UsageError: as for `taupy pivot`.
        """
        layout = Layout(
            rows=rows,
            columns=columns,
            cells=cells,
            value=value,
            over=over,
            across=across,
            baseline=baseline,
            peak=peak,
            ceiling=ceiling,
            group=group,
            filter=filter,
            match=match,
            table=NameTable(table) if table else None,
            limit=limit,
        )
        with self._opened() as db:
            answer = pivot.pivot_table(db, list(map(str, trials)), layout)
        frame = forms.frame([pivot_view.view(answer)])
        frame.attrs["metrics"] = {name: metric.unit for name, metric in answer.metrics.items()}
        return frame
