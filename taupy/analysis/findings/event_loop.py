"""Rules on event loops of asyncio, trio and anyio: what holds up the other tasks of a loop, and
awaits one after another.

That a line waits or computes while the loop runs it is seen by the watch; that it is run by the
loop, and how long a call takes, is exact. How long a loop waited for events is exact, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from taupy.analysis.event_loops import (
    CHANNELS,
    TOGETHER,
    is_around_tasks,
    is_lock,
    library,
    of_streams,
    opens,
    runs,
    starts_others,
)
from taupy.analysis.findings import source
from taupy.analysis.findings.calls import Sum, place
from taupy.analysis.findings.hot_lines import (
    Hot,
    Tree,
    bound,
    changed,
    hot_lines,
    hottest,
    parts,
    share,
    short,
    tree,
)
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import is_select, is_wait
from taupy.dataclass import NamedTuple
from taupy.model.finding import Finding
from taupy.model.profile import LEAST_LOOKS
from taupy.model.rows import ThreadRow, TimerRow
from taupy.state.lines import READY
from taupy.units import count, duration, percent

KIND = "event loop"
NEEDS = ("host",)

LEAST = 0.1
"""Minimum share of the time outside imports in which the loop is kept from its tasks, or waits."""

LEAST_TASKS = 3
"""Minimum starts of coroutines that the loop runs as tasks: a single one keeps nobody."""

LEAST_AWAITS = 10
"""Minimum awaits one after another."""

LEAST_COMPUTED = 0.2
"""Minimum share of the time outside imports in which a coroutine computes without giving way."""

LEAST_STEP_NS = 10_000_000
"""Minimum CPU time of each of these steps: a parser or a handler gives way after less, and a reply
that comes 10 ms late is late for a user."""

LEAST_STEPS = 10

_WAITS = ("wait", "lock", "disk")


def _is_beside(timer: TimerRow) -> bool:
    """Whether it starts tasks, or hands something to others, so that more than one is under way."""
    return starts_others(timer) or (timer.file or "").startswith(CHANNELS)


def has_order(timers: Sequence[TimerRow]) -> bool:
    """Whether calls would wait for each other all the same: under one lock, or on one connection,
    on which two at a time would mix what they say."""
    if any(map(is_lock, timers)):
        return True
    return any(map(of_streams, timers)) and not any(map(opens, timers))


_PACED = frozenset({"sleep", "wait_for", "acquire"})


def find(trial: Trial) -> Iterator[Finding]:
    tasks: dict[ThreadRow, int] = {}
    for row in _tasks(trial):
        thread = trial.calls.thread[row]
        tasks[thread] = tasks.get(thread, 0) + int(trial.calls.calls[row])
    if not tasks:
        return
    yield from _blocked(trial, tasks)
    yield from _computing(trial, tasks)
    yield from _in_turn(trial)


def _tasks(trial: Trial) -> Iterator[int]:
    """The rows of the program's coroutines that a loop runs by itself."""
    calls = trial.calls
    stack = calls.rows(runs)
    while stack:
        for row in calls.children(stack.pop()):
            if is_around_tasks(calls.timer[row]):
                stack.append(row)
            elif _is_coroutine(trial, calls.timer[row]):
                yield row


def _is_coroutine(trial: Trial, timer: TimerRow) -> bool:
    return trial.is_own(timer) and isinstance(source.function(trial, timer), ast.AsyncFunctionDef)


# --- what blocks it --------------------------------------------------------------


def _blocked(trial: Trial, tasks: dict[ThreadRow, int]) -> Iterator[Finding]:
    calls = trial.calls
    for hot in hot_lines(trial, LEAST):
        if tasks.get(hot.thread, 0) < LEAST_TASKS:
            continue
        waits = [
            row.line
            for row in hot.rows
            if row.line.state in _WAITS and not (row.callee and is_wait(row.callee))
        ]
        # On a busy machine, what waits for a processor after that is no wait of this kind, and not
        # to be counted in the run, either.
        run_ns = trial.worked_ns * (1 - (trial.runnable(hot.thread) or 0.0))
        if (
            sum(line.time_ns for line in waits) < LEAST * run_ns
            or sum(line.looks for line in waits) < LEAST_LOOKS
        ):
            continue
        rows = [row for row in calls.rows_of(hot.timer) if calls.thread[row] == hot.thread]
        above = [_coroutine(trial, row) for row in rows]
        inside = sum(calls.inclusive[row] for row, top in zip(rows, above, strict=True) if top)
        whole = sum(calls.inclusive[row] for row in rows)
        if inside < 0.9 * whole or not _comes_again(trial, hot):
            continue
        coroutine = max((timer for timer in above if timer), key=lambda timer: above.count(timer))
        yield trial.finding(
            f"{KIND}: blocked",
            hot.timer,
            f"the event loop stands still while {hot.place} waits{_in_what(trial, hot)}"
            f"{_from(trial, coroutine, hot.timer)}: {share(trial, hot.ns)}, in which none of "
            f"{count(tasks[hot.thread])} tasks goes on",
            bound(trial, hot),
            f"run what blocks in a thread: {library(trial.source(coroutine)).in_thread}, or use "
            "an asynchronous library for it",
            "the tasks need each other's results in this order",
            "high",
        )


def _comes_again(trial: Trial, hot: Hot) -> bool:
    """Whether the line is run several times, and not by one routine that begins or ends the
    program, while no other task is there."""
    if trial.calls.entries(hot.timer) >= LEAST_TASKS:
        return True
    parsed = tree(trial, hot.timer)
    return parsed is not None and any(_gives_way(parsed, part.node) for part in parts(hot, parsed))


def _coroutine(trial: Trial, row: int) -> TimerRow | None:
    """The nearest coroutine of the program at or above a row, if a loop runs it."""
    calls = trial.calls
    hit: TimerRow | None = None
    while row >= 0:
        timer = calls.timer[row]
        if hit is None and _is_coroutine(trial, timer):
            hit = timer
        if runs(timer):
            return hit
        row = calls.parent[row]
    return None


def _in_what(trial: Trial, hot: Hot) -> str:
    hit = tree(trial, hot.timer)
    at_work = parts(hot, hit) if hit else []
    called = next((part.node for part in at_work if isinstance(part.node, ast.Call)), None)
    return "" if called is None else f" in {short(called.func)}()"


def _from(trial: Trial, coroutine: TimerRow, blocking: TimerRow) -> str:
    """Where a coroutine calls what blocks."""
    if coroutine == blocking:
        return ", a coroutine"
    function = source.function(trial, coroutine)
    last = blocking.short_name.split(".")[-1]
    lines = [part.lineno for part in ast.walk(function or ast.Module([], []))
             if isinstance(part, ast.Call) and source.called(part) == last]  # fmt: skip
    if len(lines) == 1:
        return f", called by the coroutine {coroutine.short_name} ({coroutine.file}:{lines[0]})"
    return f", called by the coroutine {place(coroutine)}"


# --- what computes in it ---------------------------------------------------------


class _Step(NamedTuple):
    """What a coroutine computes without giving way.

    Attributes:
        timer: the routine that does it; the coroutine itself, if it is one of its lines.
        line: of the coroutine, where it does.
        ns: the time in which it computes, or could.
        most_ns: its time in all, at most.
        calls: how often, at most.
    """

    timer: TimerRow
    coroutine: TimerRow
    line: int
    ns: float
    most_ns: float
    calls: int


def _computing(trial: Trial, tasks: dict[ThreadRow, int]) -> Iterator[Finding]:
    """Steps that keep the other tasks waiting for as long as they compute."""
    for thread, started in tasks.items():
        if started < LEAST_TASKS:
            continue
        ready = 1 - (trial.runnable(thread) or 0.0)
        for step in (*_routines(trial, thread), *_own_lines(trial, thread)):
            each_ns = step.ns * ready / step.calls
            if (
                step.ns < LEAST_COMPUTED * trial.worked_ns
                or step.calls < LEAST_STEPS
                or each_ns < LEAST_STEP_NS
            ):
                continue
            frees = _frees_the_gil(trial, step.timer)
            offers = library(trial.source(step.coroutine))
            where = f"{step.coroutine.file}:{step.line}"
            called = "" if step.timer == step.coroutine else (
                f", called by the coroutine {step.coroutine.short_name} ({where})")  # fmt: skip
            what = (
                f"{step.coroutine.short_name} ({where})"
                if step.timer == step.coroutine
                else hottest(trial, step.timer)
            )
            yield trial.finding(
                f"{KIND}: blocked",
                step.timer,
                f"the event loop stands still while {what} computes{called}: "
                f"{duration(each_ns)} of CPU time each, {count(step.calls)} times, "
                f"{percent(100 * step.ns / trial.wall_ns)} % of the run, in which none of "
                f"{count(started)} tasks goes on",
                step.most_ns,
                f"run what computes in a thread: {offers.in_thread}; it works without the GIL"
                if frees
                else f"run what computes in another process: {offers.in_process}",
                "all tasks need these results before they can go on",
                values=("inclusive", "calls"),
            )


def _routines(trial: Trial, thread: ThreadRow) -> Iterator[_Step]:
    """Plain routines of the program that coroutines call."""
    calls = trial.calls
    computed = _computed(trial, thread)
    below: dict[tuple[TimerRow, TimerRow], list[int]] = {}
    for timer in calls.timers:
        if not trial.is_own(timer) or not _is_plain(trial, timer):
            continue
        for row in calls.rows_of(timer):
            above = calls.parent[row]
            if calls.thread[row] == thread and above >= 0:
                caller = calls.timer[above]
                if _is_coroutine(trial, caller) and _coroutine(trial, above) is not None:
                    below.setdefault((timer, caller), []).append(row)
    for (timer, caller), rows in below.items():
        function = source.function(trial, caller)
        parsed = tree(trial, caller)
        if function is None or parsed is None:
            continue
        last = timer.short_name.split(".")[-1]
        sites = [part for part in ast.walk(function)
                 if isinstance(part, ast.Call) and source.called(part) == last]  # fmt: skip
        is_task = calls.entries(caller) >= LEAST_TASKS
        if not sites or not (is_task or any(_gives_way(parsed, site) for site in sites)):
            continue
        inside = {calls.timer[inner] for row in rows for inner in calls.below(row)}
        seen = [computed[called] for called in inside if called in computed]
        whole = sum(whole_ns for _, whole_ns in seen)
        share_of_cpu = sum(cpu_ns for cpu_ns, _ in seen) / whole if whole else 0.0
        whole_ns = sum(calls.inclusive[row] for row in rows)
        number = sum(int(calls.calls[row]) for row in rows)
        yield _Step(
            timer, caller, sites[0].lineno, whole_ns * share_of_cpu, whole_ns, max(number, 1)
        )


def _own_lines(trial: Trial, thread: ThreadRow) -> Iterator[_Step]:
    """Lines of coroutines that compute, in C functions or by themselves."""
    calls = trial.calls
    turns = max(
        sum(int(calls.calls[row]) for row in calls.rows(turn) if calls.thread[row] == thread)
        for turn in (runs, is_select)  # trio's loop is run once
    )
    for hot in hot_lines(trial, LEAST_COMPUTED):
        parsed = tree(trial, hot.timer)
        if hot.thread != thread or parsed is None or not _is_coroutine(trial, hot.timer):
            continue
        ns = hot.ready_ns
        node = next((part.node for part in parts(hot, parsed)), None)
        if node is None or any(isinstance(part, ast.Await) for part in ast.walk(node)):
            continue
        entries = int(calls.entries(hot.timer))
        if _gives_way(parsed, node):
            yield _Step(hot.timer, hot.timer, hot.line, ns, bound(trial, hot), max(turns, 1))
        elif entries >= LEAST_TASKS:
            yield _Step(hot.timer, hot.timer, hot.line, ns, bound(trial, hot), entries)


def _is_plain(trial: Trial, timer: TimerRow) -> bool:
    """Whether a call of it runs to its end at once."""
    function = source.function(trial, timer)
    return isinstance(function, ast.FunctionDef) and not any(
        isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(function)
    )


def _gives_way(parsed: Tree, node: ast.AST) -> bool:
    """Whether it is in a loop of the coroutine that awaits something, or takes from what does."""
    repeats = parsed.repeats(node)
    while repeats is not None:
        if isinstance(repeats, ast.AsyncFor) or any(
            isinstance(part, ast.Await | ast.AsyncFor) for part in ast.walk(repeats)
        ):
            return True
        repeats = parsed.repeats(repeats)
    return False


def _computed(trial: Trial, thread: ThreadRow) -> dict[TimerRow, tuple[int, int]]:
    """How long each routine was seen to compute on a thread, and how long it was seen [ns]."""
    sums: dict[TimerRow, tuple[int, int]] = {}
    for row in trial.lines:
        if row.thread == thread:
            cpu, whole = sums.get(row.timer, (0, 0))
            ns = row.line.time_ns
            sums[row.timer] = cpu + (ns if row.line.state in READY else 0), whole + ns
    return sums


_WITHOUT_GIL = frozenset({"hashlib", "zlib", "bz2", "lzma", "gzip", "bcrypt", "scrypt"})
"""Modules whose functions release the GIL while they compute."""


def _frees_the_gil(trial: Trial, timer: TimerRow) -> bool:
    """Whether its hottest line computes in a function that releases the GIL."""
    parsed, line = tree(trial, timer), trial.hottest.get(timer)
    return parsed is not None and any(
        isinstance(part, ast.Call) and part.lineno == line
        and not _WITHOUT_GIL.isdisjoint(source.names(part.func))
        for part in ast.walk(parsed.module)
    )  # fmt: skip


# --- one after another -----------------------------------------------------------


def _in_turn(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    waits = calls.by_thread(calls.outermost(is_select))
    if all(waited.ns < LEAST * trial.worked_ns for waited in waits.values()):
        return
    for timer in calls.timers:
        if not _is_coroutine(trial, timer):
            continue
        entries = calls.of_timer(timer)
        thread, sums = max(entries.items(), key=lambda item: item[1].calls)
        waited = waits.get(thread, Sum())
        if calls.entries(timer) != 1 or waited.ns < LEAST * trial.worked_ns:
            continue  # several may be under way at a time, or the loop has no time to lose
        function = source.function(trial, timer)
        for await_, callee in _awaits(function) if function else ():
            begun = [
                child for row in sums.rows for child in calls.children(row)
                if calls.timer[child].short_name.split(".")[-1] == callee
                and _is_coroutine(trial, calls.timer[child])
            ]  # fmt: skip
            number = int(sum(calls.calls[row] for row in begun))
            below = [calls.timer[row] for top in begun for row in calls.below(top)]
            if number < LEAST_AWAITS or any(map(_is_beside, below)) or has_order(below):
                continue  # others are at work meanwhile, or wait for it; or one has to wait
            share_of_run = percent(100 * waited.ns / trial.wall_ns)
            yield trial.finding(
                f"{KIND}: one after another",
                timer,
                f"{timer.short_name} ({timer.file}:{await_.lineno}) awaits {callee} "
                f"{count(number)} times, one after another, while the event loop waits for "
                f"{duration(waited.ns)}, {share_of_run} % of the run",
                waited.ns,
                f"start them together: {library(trial.source(timer)).all_together}",
                "each needs what the one before it has done",
            )


def _awaits(function: source.Function) -> Iterator[tuple[ast.Await, str]]:
    """Awaits of the loops of a coroutine that need nothing of the iteration before, with the name
    of what is awaited."""
    loops = [part for part in ast.walk(function) if isinstance(part, ast.For)]
    if source.calls(function) & TOGETHER:
        return
    for loop in loops:
        awaits = [part for part in ast.walk(loop) if isinstance(part, ast.Await)]
        if len(awaits) != 1 or not isinstance(call := awaits[0].value, ast.Call):
            continue
        inside = [part for part in ast.walk(loop) if isinstance(part, ast.Call)]
        if {source.called(part) for part in inside} & _PACED or any(
            isinstance(part, ast.Break | ast.Return) for part in ast.walk(loop)
        ):
            continue
        given = {name for value in (*call.args, *(word.value for word in call.keywords))
                 for name in source.names(value)}  # fmt: skip
        targets = source.names(loop.target)
        if given & (changed(loop) - targets):
            continue
        yield awaits[0], source.called(call)
