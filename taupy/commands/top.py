"""Show what runs: the processes, hottest routines, phases and layers of runs under way; or, of any
Python program by its process id, its threads, routines and lines of the last ten seconds.

    taupy top                 every 2 s, until the last run has ended, or Ctrl-C
    taupy top 4711            a process; one that taupy did not start is sampled (`taupy attach`)
    taupy top --once          once, for a script or a pipe
    taupy top -n 20           more routines

What is shown is read from outside; the programs do not notice.
"""

from __future__ import annotations

import argparse
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from taupy.commands import options
from taupy.commands.messages import say
from taupy.live import LiveRun, live_runs
from taupy.model.flat import flat_sums
from taupy.model.processes import resident_bytes
from taupy.model.profile import TIME, Profile, Steps
from taupy.network.phases import kind_of
from taupy.pprof import terminal
from taupy.pprof.view import Cell, Column, View
from taupy.state.folder import open_run
from taupy.units import prefixed, several
from taupy.watch.part_threads import identity

if TYPE_CHECKING:
    from taupy.record.so_far import SoFar

_EVERY_S = 2.0
_PACE_NS = 10_000_000_000
_ROUTINES = 10
_PROCESSES_AT_MOST = 32

_PROCESSES = (
    Column("run", audience="machines"),
    Column("pid", "int", "PID"),
    Column("node", "int", "Node"),
    Column("resident_bytes", "bytes", "Memory"),
    Column("threads", "int", "Threads"),
    Column("running_ns", "time_ns", "Running"),
    Column("thread", heading="Thread"),
    Column("open", heading="In"),
)
_ROUTINE = (
    Column("run", audience="machines"),
    Column("exclusive_percent", "percent", "%Time"),
    Column("exclusive_ns", "time_ns", "Exclusive"),
    Column("calls", "int", "#Call"),
    Column("timer", heading="Name"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pid", nargs="?", type=int, metavar="PID", help="only this process (default: all runs)"
    )
    parser.add_argument("--once", action="store_true", help="print once and end")
    options.add_limit_argument(
        parser, f"show N routines of each run (default: {_ROUTINES})", _ROUTINES
    )
    parser.add_argument("--db", metavar="FILE", help="only runs of this database (default: all)")
    options.add_form_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.pid is not None and not _runs(args):
        from taupy.commands import top_of_process

        return top_of_process.run(args, _EVERY_S)
    if args.once or not sys.stdout.isatty():
        return _once(args)
    try:
        while runs := _runs(args):
            views = [view for run in runs for view in _views(run, args.limit)]
            terminal.redraw(views)
            time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        return 0
    say("no run is under way")
    return 0


def _runs(args: argparse.Namespace) -> list[LiveRun]:
    runs = live_runs(args.db)
    return runs if args.pid is None else [run for run in runs if _has(run, args.pid)]


def _has(run: LiveRun, pid: int) -> bool:
    """Whether a process is one of the run's."""
    if run.settings.root_pid == pid:
        return True
    with suppress(OSError), open_run(str(run.path)) as folder:
        return any(identity(file.name)[0] == pid for file in folder.files(".part"))
    return False


def _once(args: argparse.Namespace) -> int:
    runs = _runs(args)
    if not runs:
        say("no run is under way; `taupy run SCRIPT` begins one")
        return 0
    terminal.show_all([view for run in runs for view in _views(run, args.limit)], form=args.form)
    return 0


def _views(run: LiveRun, limit: int) -> Iterator[View]:
    """The tables of one run."""
    from taupy.record.so_far import so_far

    now = so_far(str(run.path), run.settings)
    title = f"{run.name} (process {run.settings.root_pid}, {run.settings.database})"
    if now is None:
        yield View(title, _PROCESSES, (), ("it has measured nothing yet, or is being stored",))
        return
    processes = list(_processes(run, now))
    notes = list(_paces(now.profile))
    if (more := len(processes) - _PROCESSES_AT_MOST) > 0:
        notes.append(f"not shown: {more} threads")
    yield View(title, _PROCESSES, processes[:_PROCESSES_AT_MOST], notes)
    yield View("", _ROUTINE, [(run.name, *row) for row in _hottest(now.profile, limit)])
    yield from _training(now.profile, limit)


def _paces(profile: Profile) -> Iterator[str]:
    """For each thread that trains or validates: steps so far, and recent steps per second."""
    for measured in profile.threads:
        place = f"node {measured.thread.node}, {measured.thread.name or measured.thread.thread}"
        for series in measured.steps:
            if len(series):
                ended = f"{several(sum(series.count), 'step')} of {series.kind} have ended"
                yield f"{place}: {ended}, lately {prefixed(_pace(series), 'a second')}"


def _pace(series: Steps) -> float:
    """Steps per second over the last ten seconds, or over the last row of steps if it is longer."""
    ended_ns = series.start_ns[-1] + series.time_ns[-1]
    first = bisect_left(series.start_ns, ended_ns - _PACE_NS, 0, len(series) - 1)
    return sum(series.count[first:]) * 1e9 / max(1, ended_ns - series.start_ns[first])


def _training(profile: Profile, limit: int) -> Iterator[View]:
    """Phases and layers of the thread that trained longest; no views if there are none."""
    kinds = {kind_of("|".join(timer.groups)) for timer in profile.timers}
    if kinds <= {None, "import", "exit"}:
        return
    from taupy.answers import layers, phases
    from taupy.answers.answer import Nothing
    from taupy.commands.running import stored
    from taupy.profiledb.database import ProfileDB

    with stored(profile) as path, ProfileDB.open(path) as db:
        for answer in (phases, layers):
            with suppress(Nothing):
                yield answer.views(db, 1, answer.Options())[0].first(limit)


def _processes(run: LiveRun, now: SoFar) -> Iterator[tuple[Cell, ...]]:
    """A row for each thread of each running process; facts about the process in its first row."""
    from taupy.record.endings import open_path

    for node, part in sorted(now.parts.items()):
        if not part.runs:
            continue
        threads = [numbered for numbered in enumerate(part.threads) if not numbered[1].ended]
        about: tuple[Cell, ...] = (
            part.pid,
            node,
            resident_bytes(part.pid),
            len(threads),
            part.end_ns - part.start_ns,
        )
        for number, thread in threads:
            opened = open_path(part, thread) or "no routine"
            yield (run.name, *about, thread.name or f"thread {number}", opened)
            about = (None,) * len(about)


def _hottest(profile: Profile, limit: int) -> list[tuple[Cell, ...]]:
    """Routines with the most exclusive time, over all threads and processes."""
    time_ns, calls = [0] * len(profile.timers), [0] * len(profile.timers)
    for thread in profile.threads:
        for timer, sums in flat_sums(thread.tree, thread.tree.timer).items():
            calls[timer] += sums.calls
            time_ns[timer] += sums.exclusive.get(TIME.name, 0)
    whole = sum(time_ns) or 1
    order = sorted(range(len(time_ns)), key=time_ns.__getitem__, reverse=True)
    return [
        (100 * time_ns[at] / whole, time_ns[at], calls[at], profile.timers[at].full_name)
        for at in order[:limit]
        if time_ns[at]
    ]
