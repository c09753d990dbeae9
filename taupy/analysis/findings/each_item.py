"""What a program pays for each single item, though it could pay once for many: a system call, a job
of a pool, a cell of a data frame, an exception.

Part of the rule `piecemeal.py`; rows of databases and disks are in `each_row.py`. That it is done
for each item is read from the source; how long it takes was measured, or seen by the watch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import hot_lines
from taupy.analysis.findings.calls import Sum
from taupy.analysis.findings.each_row import each_row
from taupy.analysis.findings.hot_lines import Hot, Tree, name, share, short
from taupy.analysis.findings.one_by_one import one_by_one
from taupy.analysis.findings.source import called, names
from taupy.analysis.findings.trial import Trial
from taupy.analysis.findings.workers import workers
from taupy.analysis.known_routines import Matches, among
from taupy.model.finding import Finding
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

LEAST_WRITTEN = 0.3
"""Minimum share of the time outside imports in a line that writes without a buffer."""

LEAST = 0.15
"""The same in other lines: one exception in a hundred items takes a hundredth."""

LEAST_CELLS = 1000

LEAST_JOBS, LONGEST_JOB_NS = 500, 100_000
"""Minimum jobs, and their longest mean time: to hand over a job takes some 0.1 ms."""


def each_item(trial: Trial) -> Iterator[Finding]:
    for hot in hot_lines.hot_lines(trial, LEAST):
        tree = hot_lines.tree(trial, hot.timer)
        if tree is None:
            continue
        statement = _mostly(hot, tree)
        if statement is None:
            continue
        finding = _raised(trial, hot, tree, statement) or each_row(trial, hot, tree, statement)
        if finding is None and hot.sure_ns >= LEAST_WRITTEN * trial.worked_ns:
            finding = _written(trial, hot, tree, statement)
        if finding is not None:
            yield finding
    yield from _cells(trial)
    yield from _proxies(trial)
    yield from _jobs(trial)


def _mostly(hot: Hot, tree: Tree) -> ast.stmt | None:
    """The statement of a line that was at work for longest."""
    return next((tree.statement(part.node) for part in hot_lines.parts(hot, tree)), None)


def _written(trial: Trial, hot: Hot, tree: Tree, statement: ast.stmt) -> Finding | None:
    """A few bytes that are handed to the kernel before the next are made."""
    repeats = tree.repeats(statement)
    if not isinstance(repeats, ast.For | ast.While):
        return None
    for part in ast.walk(statement):
        if not isinstance(part, ast.Call):
            continue
        flushes = called(part) == "flush" or any(
            word.arg == "flush"
            and isinstance(word.value, ast.Constant)
            and word.value.value is True
            for word in part.keywords
        )
        if flushes or name(part.func) == "os.write":
            return one_by_one(
                trial, "written one by one", hot.timer,
                f"{hot.place} hands each piece to the kernel by itself, without a buffer "
                f"(`{short(part)}`, a system call each): {share(trial, hot.ns)}",
                hot_lines.bound(trial, hot),
                "let the file's buffer collect them: open(...).write() without flush",
                "another program waits for each piece",
            )  # fmt: skip
    return None


# --- exceptions ------------------------------------------------------------------


def _raised(trial: Trial, hot: Hot, tree: Tree, statement: ast.stmt) -> Finding | None:
    """An exception that says of each item what a value could say."""
    if not isinstance(statement, ast.Raise) or statement.exc is None:
        return None
    entries = int(trial.calls.entries(hot.timer))
    if tree.repeats(statement) is None and entries < LEAST_CELLS:
        return None
    built = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
    return one_by_one(
        trial, "an exception per item", hot.timer,
        f"{hot.place} raises {short(built)}, which is caught, again and again (exceptions as "
        f"control flow): {share(trial, hot.ns)} in {count(entries)} calls",
        hot_lines.bound(trial, hot),
        "return a value that says so, such as None, or ask first",
        "it is raised seldom",
    )  # fmt: skip


def _many(trial: Trial, matches: Matches) -> Iterator[tuple[TimerRow, Sum]]:
    """Places of the program with many calls of such routines, which take much of its time."""
    for timer, sums in trial.by_place(trial.calls.outermost(matches)):
        if timer is None or sums.calls < LEAST_CELLS or sums.ns < LEAST * trial.worked_ns:
            continue
        yield timer, sums


# --- data frames -----------------------------------------------------------------

_INDEXERS = ("_LocationIndexer", "_ScalarAccessIndexer", "_AtIndexer", "_iAtIndexer")
_reads_cell = among(
    f"pandas/core/indexing.py:{indexer}.{method}"
    for indexer in _INDEXERS for method in ("__getitem__", "__setitem__")
)  # fmt: skip


def _cells(trial: Trial) -> Iterator[Finding]:
    """Single cells of a data frame, in a loop."""
    for timer, sums in _many(trial, _reads_cell):
        yield one_by_one(
            trial, "a cell at a time", timer,
            f"{hot_lines.hottest(trial, timer)} reads or sets {count(sums.calls)} cells of a data "
            f"frame one by one (.loc, .iloc, .at), {duration(sums.ns / sums.calls)} each: "
            f"{duration(sums.ns)}, {percent(100 * sums.ns / trial.wall_ns)} % of the run", sums.ns,
            "compute with whole columns, or with arrays or lists: column.to_numpy(), and store the "
            "result at once",
            "each needs the one before it",
        )  # fmt: skip


# --- proxies ---------------------------------------------------------------------

_asks_manager = among(("multiprocessing/managers.py:BaseProxy._callmethod",))


def _proxies(trial: Trial) -> Iterator[Finding]:
    """Objects of a manager, each use of which is a message to its process and an answer."""
    for timer, sums in _many(trial, _asks_manager):
        yield one_by_one(
            trial, "a message per use", timer,
            f"{hot_lines.hottest(trial, timer)} uses an object of a multiprocessing.Manager "
            f"{count(sums.calls)} times, each of which is a message to another process and its "
            f"answer (a proxy), {duration(sums.ns / sums.calls)}: {duration(sums.ns)}, "
            f"{percent(100 * sums.ns / trial.wall_ns)} % of the run", sums.ns,
            "work on an object of this process, and hand over the result once",
            "others have to see each change at once",
        )  # fmt: skip


# --- jobs ------------------------------------------------------------------------

_sends = among((
    *(f"multiprocessing/pool.py:Pool.{method}" for method in
      ("apply", "apply_async", "map", "imap", "imap_unordered", "starmap")),
    "concurrent/futures/process.py:ProcessPoolExecutor.submit",
    "concurrent/futures/process.py:ProcessPoolExecutor.map",
))  # fmt: skip
_SENDING = {"apply", "apply_async", "map", "imap", "imap_unordered", "starmap", "submit"}
_loops = among(("concurrent/futures/process.py:_process_worker", "multiprocessing/pool.py:worker"))


def _jobs(trial: Trial) -> Iterator[Finding]:
    """Jobs of a pool of processes that take less than to hand them over."""
    calls = trial.calls
    main = min(calls.threads, default=None)
    if main is None:
        return
    working = [worker for worker in workers(trial) if worker.thread.node != main.node]
    tops: dict[TimerRow, Sum] = {}
    for row in calls.outermost(_loops):
        if calls.thread[row].node == main.node:
            continue
        for inner in calls.below(row):
            above = calls.timer[calls.parent[inner]]
            if trial.is_own(calls.timer[inner]) and not trial.is_own(above):
                here = Sum(calls.inclusive[inner], int(calls.calls[inner]), (inner,))
                tops[calls.timer[inner]] = tops.get(calls.timer[inner], Sum()).plus(here)
    if not tops:
        return
    sent = trial.by_place(row for row in calls.outermost(_sends)
                          if calls.thread[row].node == main.node)  # fmt: skip
    busiest = max((worker.ns for worker in working), default=0.0)
    lost = trial.worked_ns - busiest
    handed = max((calls.calls[row] for row in calls.rows(_taken)
                  if calls.thread[row].node != main.node), default=0)  # fmt: skip
    for timer, sums in tops.items():
        if (
            sums.calls < LEAST_JOBS
            or sums.ns > LONGEST_JOB_NS * sums.calls
            or lost < trial.worked_ns / 2
            or handed < LEAST_JOBS / 4
            or not sent
        ):
            continue
        yield one_by_one(
            trial, "a job per item", sent[0][0],
            f"{hot_lines.line_of_call(trial, sent[0][0], _SENDING)} hands {count(sums.calls)} tiny "
            f"tasks to other processes, each of which works {duration(sums.ns / sums.calls)} in "
            f"{timer.short_name}: to pickle and send them takes longer", lost,
            "send many items with each job: map(..., chunksize=...), or a function of a batch",
            "the processes work for longer than that",
        )  # fmt: skip
        return


_taken = among(("multiprocessing/queues.py:Queue.get", "multiprocessing/queues.py:SimpleQueue.get"))


def round_trip(node: ast.AST) -> ast.Call | None:
    """`json.loads(json.dumps(x))`: a copy by way of text."""
    for part in ast.walk(node):
        if (
            isinstance(part, ast.Call)
            and called(part) == "loads"
            and part.args
            and isinstance(part.args[0], ast.Call)
            and called(part.args[0]) == "dumps"
            and names(part.func) - {"loads"} == names(part.args[0].func) - {"dumps"}
        ):
            return part
    return None
