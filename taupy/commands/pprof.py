"""Show where a trial spent its time, as TAU's pprof does.

    taupy pprof                          the latest trial, thread by thread
    taupy pprof 12 --sort exclusive -n 20
    taupy pprof latest --tree --depth 5
    taupy pprof running                  a program that is still running, so far
    taupy pprof --callers forward --thread 0.0.0

Rows are routines; `--tree`, `--callers` and `--callees` follow their calls.
"""

from __future__ import annotations

import argparse
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from taupy.answers import events, routines
from taupy.answers.answer import column_of
from taupy.commands import bar, options, running
from taupy.commands.pprof_arguments import PEOPLE_ROWS, TREE_MIN_PERCENT, check
from taupy.commands.pprof_arguments import add_arguments as add_arguments
from taupy.errors import TaupyError, UsageError
from taupy.escaping import columns
from taupy.model import job
from taupy.model.answer import Answer
from taupy.model.rows import ThreadRow
from taupy.model.sampled import is_answered
from taupy.model.thread_groups import groups_of
from taupy.pprof import figures, flat, selection, terminal
from taupy.pprof.figures import Order
from taupy.pprof.flat import number_of
from taupy.pprof.selection import Test
from taupy.pprof.view import View
from taupy.profiledb import metrics, query
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import TimerNames, following
from taupy.profiledb.meaning import Resolved

if TYPE_CHECKING:  # these views are imported only when they are shown
    from taupy.pprof import tree

_REMARKS = ("taupy.health.", "taupy.invariants")
"""Prefix of metadata that describes problems of the measurement."""

_MOST_LAWS = 2
"""Violations listed in full; a flat profile of a thousand ranks has thousands."""

_NUMBERS_WIDTH = 44
"""Columns of a tree to the left of the names."""

_ANSWERED = "`taupy events` also lists the user events that other commands make their answers of"

_SEVERAL = 3
"""Threads of one kind from which on people see their sums."""

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip


def run(args: argparse.Namespace) -> int:
    check(args)
    with running.selected_trial(args) as (db, trial):
        request = Request(db, trial.id, args)
        with bar.shown(f"reading trial {trial.id}"):
            views = request.views()
        if trial.is_sampled:
            from taupy.pprof.estimated import marked

            views = [marked(view) for view in views]
        notes = [*views[-1].notes, *_remarks(db, trial.id, trial.state)]
        notes += [_ANSWERED] if request.leaves_out else []
    if (
        args.limit is None
        and request.limit
        and any(len(view.rows) > request.limit for view in views)
    ):
        notes.insert(
            0,
            f"only the first {request.limit} rows of each table and the sum of the rest; "
            "--all shows all rows",
        )
    views[-1] = replace(views[-1], notes=notes)
    terminal.show_all(views, args.form, color=options.colored(args))
    return 0


def _remarks(db: ProfileDB, trial_id: int, state: str) -> list[str]:
    """Notes on how the trial was measured."""
    remarks = [f"trial {trial_id} is {state}"] if state != "complete" else []
    remarks += job.lines_of(job.missing(query.node_facts(db, trial_id)))
    for row in query.trial_metadata(db, trial_id):
        if row.name.startswith(_REMARKS):
            node = f"node {row.node}: " if row.node is not None else ""
            lines = row.value.splitlines()
            if len(lines) > _MOST_LAWS and row.name == "taupy.invariants":
                lines = [
                    f"{len(lines)} call tree invariants are violated: taupy trials show {trial_id}"
                ]
            remarks += [node + line for line in lines]
    return remarks


def _kind_of(view: View) -> str | None:
    """The kind of threads that a table adds up, as its rows name it."""
    names = [column.name for column in view.columns]
    if not view.rows or "thread_name" not in names:
        return None
    name = view.rows[0][names.index("thread_name")]
    return None if name is None else str(name)


@dataclass(slots=True)
class Request:
    """The trial, and what the user wants to see of it.

    Attributes:
        leaves_out: events of which other commands say more are not in these views.
    """

    db: ProfileDB
    trial_id: int
    args: argparse.Namespace
    chosen: set[str] | None = None
    leaves_out: bool = False

    @property
    def limit(self) -> int | None:
        """Rows per table; None for all, the default for trees, CSV, JSON and pipes."""
        args = self.args
        whole = args.all or args.tree or args.list or args.form != "text"
        if args.limit is not None or whole or not columns(sys.stdout, piped=0):
            return args.limit  # type: ignore[no-any-return]
        return PEOPLE_ROWS

    def views(self) -> list[View]:
        """At least one view.

        Raises:
            TaupyError: nothing matches; the message says what the trial has.
        """
        args = self.args
        threads = selection.selected_threads(query.threads(self.db, self.trial_id), self.selection)
        if args.events:
            return self._events(threads)
        if args.kernels:
            return self._kernels(threads)
        name = args.metric or routines.usual_metric(self.db, self.trial_id)
        metric = metrics.resolve(self.db, self.trial_id, name)
        self.chosen = self._where(threads)
        views = self._of_metric(threads, metric)
        if metric.name == "time" and not terminal.is_for_programs(args.form):
            views = self._with_lines(views, threads)
        if others := self._others(threads):
            from taupy.pprof import beside

            kinds = self._kinds(threads)
            views = [beside.with_metrics(view, others, self.args.plain, kinds) for view in views]
        return views if metric.additive else [figures.without_shares(view) for view in views]

    def _with_lines(self, views: list[View], threads: Sequence[ThreadRow]) -> list[View]:
        """Flat tables with the line that each routine was in most."""
        from taupy.pprof import line_notes
        from taupy.profiledb.lines import line_sums

        lines = line_sums(self.db, self.trial_id)
        if not lines:
            return views
        kinds = self._kinds(threads)
        chosen = [selection.place_of(thread) for thread in threads]
        noted = [
            line_notes.with_lines(
                view,
                lines,
                [selection.place_of(thread) for thread in kinds[title]]
                if (title := _kind_of(view)) in kinds
                else chosen,
            )
            for view in views
        ]
        if noted != views:
            noted[-1] = replace(noted[-1], notes=[*noted[-1].notes, line_notes.NOTE])
        return noted

    def _others(self, threads: Sequence[ThreadRow]) -> list[Answer]:
        """The metrics of --also."""
        ask = self._call_paths if self.args.tree else self._flat
        names = (name.strip() for text in self.args.also for name in text.split(","))
        return [ask(threads, name) for name in names]

    def _of_metric(self, threads: Sequence[ThreadRow], metric: Resolved) -> list[View]:
        args = self.args
        order = Order(sort=args.sort, reverse=args.reverse, limit=self.limit, plain=args.plain)
        if args.tree:
            return self._tree(threads, metric)
        if args.by:
            from taupy.pprof import grouping

            answer = self._call_paths(threads, metric.name)
            source, labels = following(self.db, self.trial_id, args.by)
            meant = self._meant(answer)
            column = column_of(args.by)
            return [grouping.view(answer, column, source, labels, order, meant)]  # type: ignore[arg-type]
        if args.callers is not None or args.callees is not None:
            return self._call_graph(threads, metric.name, order)
        return self._tables(threads, metric.name)

    def _where(self, threads: Sequence[ThreadRow]) -> set[str] | None:
        """The routines that meet all conditions; None without conditions."""
        chosen: set[str] | None = None
        for name, comparison, number in self.args.where:
            over = metrics.flat_profile(self.db, self.trial_id, name, self._places(threads))
            over = over.by("timer")
            true = {
                timer.timer
                for timer, value in zip(over.timers, over.values("inclusive"), strict=True)
                if _COMPARISONS[comparison](value, number)
            }
            if not true:
                raise TaupyError(
                    f"no routine of trial {self.trial_id} has {name} {comparison} "
                    f"{number:g} on these threads"
                )
            chosen = true if chosen is None else chosen & true
        return chosen

    def _places(self, threads: Sequence[ThreadRow]) -> list[selection.Place] | None:
        """The chosen threads; None for all."""
        chosen = self.args.thread or self.args.node
        return [selection.place_of(thread) for thread in threads] if chosen else None

    @property
    def selection(self) -> selection.Selection:
        args = self.args
        return selection.Selection(
            tuple(args.thread), tuple(args.node), tuple(args.group), tuple(args.filter)
        )

    def _meant(self, answer: Answer) -> Test | None:
        chosen = self.chosen
        if chosen is None and not (self.args.group or self.args.filter):
            return None
        timers = set(answer.timers)
        named = selection.routine_test(timers, self.selection)
        if chosen is None:
            test = named
        elif named is None:
            test = lambda timer: timer.timer in chosen  # noqa: E731
        else:
            test = lambda timer: named(timer) and timer.timer in chosen  # noqa: E731
        if test is not None and not any(map(test, timers)):
            where = " and to each --where" if self.args.where else ""
            raise UsageError(f"no routine is in a group of --group and matches a --filter{where}")
        return test

    def _events(self, threads: Sequence[ThreadRow]) -> list[View]:
        """What `taupy events --callpaths` shows, of these threads."""
        choice = events.Options(callpaths=True, limit=self.args.limit)
        return events.tables(self.db, self.trial_id, threads, choice, self.args.filter)

    def _kernels(self, threads: Sequence[ThreadRow]) -> list[View]:
        """What `taupy kernels` shows, of these threads; for people, also how busy the GPUs were."""
        from taupy.answers import kernels

        args = self.args
        places = [".".join(map(str, thread[:3])) for thread in threads]
        choice = kernels.Options(args.by or "kernel", limit=self.limit)
        launches = kernels.launched(self.db, self.trial_id, choice.by, places)
        of = self.db, self.trial_id, launches
        views = kernels.tables(*of, choice, args.filter, args.sort, args.reverse)
        if args.filter or terminal.holds_rows_only(args.form):
            return views
        return [*views, *kernels.tables(*of, kernels.Options(activity=True))]

    def _flat(self, threads: Sequence[ThreadRow], name: str, ids: Sequence[str] = ()) -> Answer:
        """The flat profile of these threads, with libraries folded on request."""
        if self.args.fold_libraries:
            from taupy.pprof import paths

            return paths.flattened(self._call_paths(threads, name))
        places = self._places(threads)
        return self._not_empty(metrics.flat_profile(self.db, self.trial_id, name, places, ids))

    def _tables(self, threads: Sequence[ThreadRow], name: str) -> list[View]:
        args = self.args
        naming = None
        if args.list or args.fold_libraries or args.group or args.filter or args.where:
            answer = self._flat(threads, name)  # whose routines all have their names
        else:
            naming = TimerNames(self.db)
            answer = self._flat(threads, name, ids=("timer",))
        meant = self._meant(answer)
        if args.list:
            return [flat.names(answer.timers, meant)]
        events_of = {}
        if meant is None and not terminal.holds_rows_only(args.form):
            every = query.user_events(self.db, self.trial_id)
            whole = terminal.is_for_programs(args.form)
            shown = [row for row in every if whole or not is_answered(row.event)]
            events_of = events.by_thread(events.over_callpaths(shown), threads)
            self.leaves_out = bool(events_of) and len(shown) < len(every)
        choice = flat.FlatOptions(
            sort=args.sort,
            reverse=args.reverse,
            limit=self.limit,
            plain=args.plain,
            summaries=tuple(dict.fromkeys(sum(args.summary, ()))) or None,
            summary_only=args.summary_only,
        )
        return flat.views(answer, threads, choice, meant, events_of, self._kinds(threads), naming)

    def _kinds(self, threads: Sequence[ThreadRow]) -> dict[str, list[ThreadRow]]:
        """For people who choose no threads: kinds that have several, which are shown together."""
        args = self.args
        if terminal.is_for_programs(args.form) or args.thread or args.node or args.summary_only:
            return {}
        host = [thread for thread in threads if thread.kind == "host"]
        kinds: dict[str, list[ThreadRow]] = {}
        for thread, group in zip(
            host, groups_of(host, query.node_facts(self.db, self.trial_id)), strict=True
        ):
            kinds.setdefault(group, []).append(thread)
        streams = [thread for thread in threads if thread.kind != "host"]
        if streams:
            kinds["GPU streams"] = streams
        return {
            f"{number_of(mine)} {kind.upper()}, ADDED UP (--thread all: one by one)": mine
            for kind, mine in kinds.items()
            if len(mine) >= _SEVERAL
        }

    def _tree(self, threads: Sequence[ThreadRow], metric: Resolved) -> list[View]:
        from taupy.pprof import tree

        args = self.args
        share = args.min_share
        if not metric.additive:
            if share:
                raise UsageError(
                    f"--min-share needs an additive metric, and {metric.name} is a ratio; "
                    f"use --where '{metric.name} > VALUE'"
                )
            share = 0.0
        elif share is None:
            short = not terminal.is_for_programs(args.form) and args.limit is None and not args.all
            share = TREE_MIN_PERCENT if short else 0.0
        width = columns(sys.stdout, piped=0)
        choice = tree.TreeOptions(
            sort=args.sort,
            reverse=args.reverse,
            limit=self.limit,
            plain=args.plain,
            depth=args.depth,
            min_percent=share,
            summary_only=args.summary_only,
            # Up to half of the space for names may be indentation.
            indent=max(3, (width - _NUMBERS_WIDTH) // 4) if width else tree.TreeOptions().indent,
        )
        kinds = self._kinds(threads)
        answer = self._call_paths(threads, metric.name, choice, sums=bool(kinds))
        return tree.views(answer, threads, choice, self._meant(answer), kinds)

    def _call_graph(self, threads: Sequence[ThreadRow], name: str, order: Order) -> list[View]:
        from taupy.pprof import callgraph

        args = self.args
        answer = self._call_paths(threads, name)
        views = []
        if args.callers is not None:
            routine = selection.one_routine(answer.timers, args.callers)
            views.append(callgraph.callers(answer, routine, order))
        if args.callees is not None:
            routine = selection.one_routine(answer.timers, args.callees)
            views.append(callgraph.callees(answer, routine, order))
        return views

    def _call_paths(
        self,
        threads: Sequence[ThreadRow],
        name: str,
        choice: tree.TreeOptions | None = None,
        sums: bool = False,
    ) -> Answer:
        """Call paths of these threads, with libraries folded on request.

        Args:
            choice: leave out call paths that this selection would not show.
            sums: whether threads are added up, so that a small call path of one counts.
        """
        args = self.args
        # In imported trees, rows without values may have children with values.
        imported = self.db.trial(self.trial_id).is_capture
        if imported or args.fold_libraries or args.filter or args.group or args.where:
            choice = None
        answer = metrics.call_tree(
            self.db,
            self.trial_id,
            name,
            self._places(threads),
            least=None if choice is None or sums else self._least(threads, name, choice),
            deepest=None if choice is None else choice.depth,
        )
        self._not_empty(answer)
        if args.fold_libraries:
            from taupy.pprof import fold
            from taupy.profiledb import sources

            return fold.libraries_folded(answer, sources.timer_paths(self.db, self.trial_id))
        return answer

    def _least(
        self, threads: Sequence[ThreadRow], name: str, choice: tree.TreeOptions
    ) -> float | None:
        """Inclusive value below which no tree of these threads shows a call path."""
        if not choice.min_percent or choice.summary_only:
            return None
        whole: dict[selection.Place, float] = {}
        profile = metrics.flat_profile(self.db, self.trial_id, name, self._places(threads))
        for thread, value in zip(profile.threads, profile.values("inclusive"), strict=True):
            place = selection.place_of(thread)
            whole[place] = max(whole.get(place, 0), value)
        return min(whole.values(), default=0) * choice.min_percent / 100

    def _not_empty(self, answer: Answer) -> Answer:
        if not len(answer):
            raise TaupyError(
                f"trial {self.trial_id} has no values of '{answer.metric.name}' on these "
                "threads; omit --thread and --node to see all threads"
            )
        return answer
