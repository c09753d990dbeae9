"""Rule: one thread is busy while others wait for its data, for the GIL, or for a lock."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Iterable, Iterator

from taupy.analysis.findings import source, waiting
from taupy.analysis.findings.calls import LEAST_NAMED, largest_part, place
from taupy.analysis.findings.hot_lines import hottest
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.findings.waiting import Life
from taupy.analysis.findings.workers import workers
from taupy.analysis.known_routines import is_take
from taupy.analysis.line_times import estimates
from taupy.model.finding import Finding
from taupy.model.metric import ROOT_TIMER
from taupy.model.question import Condition
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import STATES
from taupy.state.lines import READY
from taupy.units import duration, percent, several

KIND = "one thread at a time"
NEEDS = ("host",)

LEAST_TAKEN = 0.1
"""Minimum share of elapsed time that a thread waits for another thread's data."""

BUSY = 0.8
"""Minimum share of its lifetime that a busy thread does not wait: below this, it waits for
something else itself."""

LEAST_ON_CPU = 0.2
"""Minimum share of a busy thread's time without waits that it uses a CPU or, on a busy machine,
waits for one: below this, it waits where no wait is recorded, such as in C."""

LEAST_OVERLAP = 1.5
"""Minimum sum of the threads' time without known waits, in lengths of the time in which they ran:
the mean number of threads at a time, so that threads started one after the other do not count."""

ONE_CPU = (0.8, 1.15)
"""The processors that threads use together, or wait for, if only one of them runs at a time: the
hand-over takes a little, and waits for a processor are sampled."""

LEAST_TURN = 0.1
"""Minimum CPU time of a thread that takes part, as a share of the one that uses most."""

LEAST_PYTHON = 0.5
"""Minimum share of a thread's lifetime in such routines."""

_HOLDING = frozenset(
    name for holds in (str, bytes, list, dict, set, tuple, int, float, math) for name in dir(holds)
) | frozenset(dir(builtins)) - {"input", "open", "print", "exec", "eval"}
"""Functions of built-in types, which neither wait nor release the GIL."""

_COMPUTING = _HOLDING | frozenset(
    {"compress", "decompress", "md5", "sha1", "sha256", "sha512", "blake2b", "pbkdf2_hmac",
     "digest", "hexdigest", "crc32", "adler32", "dumps", "loads", "time", "perf_counter",
     "monotonic", "acquire", "release"}
)  # fmt: skip
"""C functions that never wait, besides those that take the lock. Others are taken to wait."""

_WAITING = frozenset(
    {"sleep", "recv", "recv_into", "accept", "connect", "sendall", "select", "poll", "fsync",
     "execute", "commit", "waitpid", "system"}
)  # fmt: skip
"""C functions that wait, and are called by nothing that computes."""

_LOCKS = frozenset({"Lock", "RLock", "Condition"})

LEAST_LOCKED = 0.2
"""Minimum share of the time of the threads that take a lock in which they wait for it."""


def find(trial: Trial) -> Iterator[Finding]:
    lives = waiting.lives(trial)
    if len(lives) < 2:
        return
    yield from _taking(trial, lives)
    locks = list(_locked(trial, lives))
    yield from locks or _interpreter(trial, lives)


def _taking(trial: Trial, lives: list[Life]) -> Iterator[Finding]:
    """The main thread, or threads that it waits for, wait for data of a single other thread."""
    calls = trial.calls
    main, *others = lives
    least = LEAST_TAKEN * trial.wall_ns
    takes = calls.by_thread(calls.outermost(is_take))
    takers = {thread: taken for thread, taken in takes.items() if taken.ns >= least}
    if main.thread in takers:
        takers = {main.thread: takers[main.thread]}
    if not takers or main.whole_ns - main.working_ns < least:
        return
    taken = min(takers.values(), key=lambda waits: waits.ns)
    busy = [life for life in others if life.thread not in takers
            and life.working_ns >= max(BUSY * life.whole_ns, BUSY * taken.ns)
            and _is_busy(trial, life)]  # fmt: skip
    if len(busy) != 1:
        return
    (maker,) = busy
    given = {worker.thread: worker.work for worker in workers(trial)}
    same = [work for work in given.values() if work == given.get(maker.thread)]
    if len(same) > 1:
        return  # others do the same work: the rule `imbalance` judges how it was divided
    timer = trial.caller(calls.largest(taken.rows))
    makes = _own(trial, maker)
    if not _is_of_program(makes, maker):
        return
    most, ns = makes[0]
    of_takers = [_own(trial, life) for life in lives if life.thread in takers]
    if any(own and own[0][0] == most for own in of_takers):
        return  # likewise
    clause = largest_part(place(most), ns, maker.whole_ns)
    yield Finding(
        f"{KIND}: producer",
        f"{place(timer)} waits {duration(taken.ns)}, {percent(100 * taken.ns / trial.wall_ns)} % "
        f"of the run, for what {maker.thread.name or 'another thread'} hands over; that thread "
        f"uses a CPU for {duration(maker.cpu_ns or 0)} of its {duration(maker.whole_ns)}"
        + (f"{clause}: {duration(ns)}" if clause else ""),
        saved_ns=taken.ns,
        wall_ns=trial.wall_ns,
        evidence=(trial.cpu_of_threads(),),
        confidence="high",
        attempt="",
        refuted_by="the maker itself waits for something that cannot be divided, such as a network",
    )


def _own(trial: Trial, life: Life) -> list[tuple[TimerRow, float]]:
    """The program's routines that a thread has called, each with its time: not those in which its
    process was forked, which took no time of it."""
    calls = trial.calls
    stack = [row for row in calls.roots if calls.thread[row] == life.thread]
    called = []
    while stack:
        row = stack.pop()
        if calls.calls[row] and calls.timer[row].short_name != ROOT_TIMER:
            called.append(row)
        else:
            stack += calls.children(row)
    return trial.own_below(called)


def _is_of_program(makes: list[tuple[TimerRow, float]], life: Life) -> bool:
    """Whether a thread does the program's work: a library's own, such as the one that pickles jobs,
    calls the program's generator for a moment at most."""
    return bool(makes) and sum(ns for _, ns in makes) >= LEAST_NAMED * life.working_ns


def _interpreter(trial: Trial, lives: list[Life]) -> Iterator[Finding]:
    """Threads that take turns: together, they use one CPU, and none of them is in a known wait.

    CPU time is exact, waits for a processor are sampled by the watch. With locks judged before,
    this is what threads do that run Python: one holds the GIL while the others wait. Threads that
    sleep or wait in C use one CPU by chance: their source must not do so. On a busy machine, where
    threads wait for processors as well, it must show that they run nothing but Python.
    """
    main, *others = lives
    cores = trial.cores or 1
    waited = main.whole_ns - main.working_ns
    beside = [life for life in others if life.thread.node == main.thread.node]
    most_cpu = max((life.cpu_ns or 0 for life in beside), default=0)
    turns = [life for life in beside if (life.cpu_ns or 0) >= LEAST_TURN * most_cpu]
    longest = max((life.whole_ns for life in turns), default=0.0)
    span = max(waited, longest)
    ready = sum(life.working_ns for life in turns)
    used = sum((life.cpu_ns or 0) for life in turns)
    wanted = sum(_computing(trial, life) for life in turns)
    if cores < 2 or len(turns) < 2 or ready < LEAST_OVERLAP * span:
        return
    least, most_used = (share * span for share in ONE_CPU)
    alone = least <= used <= wanted <= most_used and not _wait_in_c(trial, turns)
    if used > most_used or not (alone or _run_python(trial, turns)) or _rest(trial, turns):
        return
    most, slept = max(_asleep(trial, turns).items(), key=lambda pair: pair[1], default=(None, 0.0))
    asleep = sum(trial.seen_ns(life.thread).get(STATES[2], 0) for life in turns)
    yield Finding(
        f"{KIND}: GIL",
        f"{several(len(turns), 'thread')} are ready to run for {duration(ready)} in "
        f"{duration(span)}, but use one CPU together, for {duration(used)}: one runs while the "
        f"others wait, as for the GIL{largest_part(place(most), slept, asleep, 'this wait')}",
        saved_ns=span - used / min(len(turns), cores),
        wall_ns=trial.wall_ns,
        evidence=(trial.cpu_of_threads(),),
        confidence="medium",
        attempt="use processes (concurrent.futures.ProcessPoolExecutor)",
        refuted_by="the same threads take as long in a free-threaded Python",
    )


def _is_busy(trial: Trial, life: Life) -> bool:
    """Whether a thread computes; on a busy machine, whether it does while it gets a CPU: one that
    sleeps waits for a CPU as often as it wakes."""
    waits_ns = trial.seen_ns(life.thread).get(STATES[1], 0)
    return _computing(trial, life) >= LEAST_ON_CPU * life.working_ns and (
        life.cpu_ns or 0
    ) >= LEAST_ON_CPU * (life.working_ns - waits_ns)


def _computing(trial: Trial, life: Life) -> float:
    """How long a thread used a CPU, which is exact, or waited for one, which the watch samples."""
    return (life.cpu_ns or 0) + trial.seen_ns(life.thread).get(STATES[1], 0)


def _run_python(trial: Trial, lives: Iterable[Life]) -> bool:
    """Whether these threads spend most of their time in routines whose source shows that they
    neither wait nor release the GIL."""
    calls = trial.calls
    own_ns: dict[ThreadRow, float] = {}
    for timer in filter(trial.is_own, calls.timers):
        function = source.function(trial, timer)
        rows = calls.rows_of(timer)
        below = {calls.timer[child].short_name for row in rows for child in calls.children(row)}
        if function is None or source.enters(function):
            continue
        if source.calls(function) <= _last_parts(below) | _HOLDING:
            for row in rows:
                own_ns[calls.thread[row]] = own_ns.get(calls.thread[row], 0) + calls.exclusive[row]
    return all(own_ns.get(life.thread, 0) >= LEAST_PYTHON * life.whole_ns for life in lives)


def _rest(trial: Trial, lives: Iterable[Life]) -> bool:
    """Whether the watch saw these threads wait for other things more than for the GIL."""
    threads, waited = {life.thread for life in lives}, dict.fromkeys(("gil", "lock", "wait"), 0.0)
    for row in trial.lines:
        if row.thread in threads and row.line.state in waited:
            waited[row.line.state] += row.line.time_ns
    return waited["lock"] + waited["wait"] > waited["gil"]


def _wait_in_c(trial: Trial, lives: Iterable[Life]) -> bool:
    """Whether a routine of the program that these threads run calls a C function that waits."""
    calls, threads = trial.calls, {life.thread for life in lives}
    ran = {calls.timer[row] for row, thread in enumerate(calls.thread) if thread in threads}
    functions = (source.function(trial, timer) for timer in filter(trial.is_own, ran))
    return any(function and source.calls(function) & _WAITING for function in functions)


def _asleep(trial: Trial, lives: Iterable[Life]) -> dict[TimerRow, float]:
    """How long the watch saw these threads asleep in each routine of the program."""
    slept: dict[TimerRow, float] = {}
    for life in lives:
        for timer, states in trial.states.get(life.thread, {}).items():
            if timer is not None and trial.is_own(timer):
                slept[timer] = slept.get(timer, 0.0) + states.get(STATES[2], 0)
    return slept


def _last_parts(names: Iterable[str]) -> set[str]:
    return {name.split(".")[-1] for name in names}


# --- locks -----------------------------------------------------------------------


def _locked(trial: Trial, lives: list[Life]) -> Iterator[Finding]:
    """Threads that the watch saw asleep in a routine that takes a lock.

    What else may wait in the routine must be under the lock, where one thread is at a time: it
    explains no more sleep than the time in which they run, which is not the lifetime of one where
    a server has one for each request. The rest is waiting for the lock.
    """
    calls = trial.calls
    lockers = {life.thread: life for life in lives[1:] if life.cpu_ns is not None}
    for timer, slept in _asleep(trial, lockers.values()).items():
        rows = [row for row in calls.rows_of(timer) if calls.thread[row] in lockers]
        threads = {calls.thread[row] for row in rows}
        number = sum(thread.threads for thread in threads)
        whole = sum(lockers[thread].whole_ns for thread in threads)
        if number < 2 or slept < LEAST_LOCKED * whole:
            continue
        below = {calls.timer[child].short_name for row in rows for child in calls.children(row)}
        held = _held(trial, timer, _last_parts(below))
        if held is None:
            continue
        longest = max(thread.most_ns or lockers[thread].whole_ns for thread in threads)
        span = max(longest, min(whole, trial.worked_ns))
        waited = min(sum(calls.exclusive[row] for row in rows), slept) - (span if held else 0)
        if waited < LEAST_LOCKED * whole:
            continue
        yield Finding(
            f"{KIND}: lock held",
            f"{several(number, 'thread')} wait {duration(waited)} in all for the lock that "
            f"{hottest(trial, timer)} takes, while one of them "
            f"holds it{f' and waits for {held}' if held else _within(trial, timer, rows)}"
            f"{_slow_part(trial, timer)}",
            saved_ns=min(span, waited / max(whole / span - 1, 1)),
            wall_ns=trial.wall_ns,
            evidence=(trial.evidence(("thread",), (Condition("timer", (timer.timer,)), HOST)),),
            confidence="medium",
            attempt="do the slow part outside the lock",
            refuted_by="the work under the lock must not run concurrently",
        )


def _held(trial: Trial, timer: TimerRow, recorded: set[str]) -> str | None:
    """What the routine may wait for while it holds a lock, "" if for nothing but recorded
    routines; None if it takes no lock, or may wait without holding it."""
    function = source.function(trial, timer)
    blocks = _blocks(trial, timer)
    if function is None or not blocks:
        return None
    under = {id(node) for part in blocks for node in ast.walk(part)}
    waits = [part for line in function.body for part in ast.walk(line) if isinstance(part, ast.Call)
             and source.called(part) not in recorded | _COMPUTING]  # fmt: skip
    if any(id(part) not in under for part in waits):
        return None
    return ", ".join(sorted({source.called(part) for part in waits}))


def _within(trial: Trial, timer: TimerRow, rows: Iterable[int]) -> str:
    """The routine with most time of those that it calls under the lock, as a clause."""
    calls = trial.calls
    names = {name for part in _blocks(trial, timer) for name in source.calls(part)}
    times: dict[TimerRow, float] = {}
    for child in (child for row in rows for child in calls.children(row)):
        called = calls.timer[child]
        if called.short_name.split(".")[-1] in names:
            times[called] = times.get(called, 0.0) + calls.inclusive[child]
    longest = max(times, key=lambda called: times[called], default=None)
    return "" if longest is None else f" in {longest.short_name} for {duration(times[longest])}"


def _slow_part(trial: Trial, timer: TimerRow) -> str:
    """The line under the lock with most time without waiting, as a clause, if it is known."""
    under = {line for part in _blocks(trial, timer)
             for line in range(part.lineno, (part.end_lineno or part.lineno) + 1)}  # fmt: skip
    working = (row for row in trial.lines if row.timer == timer
               and row.line.line in under and row.line.state in READY)  # fmt: skip
    lines = estimates(working, lambda row: row.line.line)
    line = next((line for line, hit in lines.items() if hit.is_shown), None)
    return "" if line is None else f", mostly at line {line}"


def _blocks(trial: Trial, timer: TimerRow) -> list[ast.stmt]:
    """The statements of a routine that run while it holds a lock."""
    function = source.function(trial, timer)
    locks = _locks(trial.source(timer) or "")
    return [
        part
        for block in (() if function is None else ast.walk(function))
        if isinstance(block, ast.With | ast.Try) and _holds(block, locks)
        for part in block.body
    ]


def _holds(block: ast.With | ast.Try, locks: set[str]) -> bool:
    """Whether a lock is held in its body: `with lock:`, or `try: ... finally: lock.release()`."""
    if isinstance(block, ast.With):
        return any(_is_lock(item.context_expr, locks) for item in block.items)
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
        and part.func.attr == "release" and _is_lock(part.func.value, locks)
        for statement in block.finalbody for part in ast.walk(statement)
    )  # fmt: skip


def _locks(text: str) -> set[str]:
    """The variables and attributes that a file assigns a lock to."""
    return {
        name
        for part in ast.walk(source.tree(text))
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None
        for node in ast.walk(part.value)
        if isinstance(node, ast.Call | ast.keyword) and _makes_lock(node)
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        for name in source.names(target)
    } - {"self"}


def _makes_lock(node: ast.Call | ast.keyword) -> bool:
    maker = node.func if isinstance(node, ast.Call) else node.value
    return bool(source.names(maker) & _LOCKS)


def _is_lock(entered: ast.expr, locks: set[str]) -> bool:
    names = source.names(entered)
    return bool(names & locks) or any(
        word in name.lower() for name in names for word in ("lock", "mutex")
    )
