"""Rule: one thread is busy while others wait for its data, for the GIL, or for a lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taupy.analysis.findings import source, waiting
from taupy.analysis.findings.calls import place
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.findings.waiting import Life
from taupy.analysis.findings.workers import workers
from taupy.model.finding import Evidence, Finding
from taupy.model.question import Condition, Question
from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.sampled import STATES
from taupy.units import duration, percent, several

KIND = "one thread busy while others wait"
NEEDS = ("host",)

LEAST_TAKEN = 0.1
"""Minimum share of elapsed time that a thread waits for another thread's data."""

BUSY = 0.8
"""Minimum share of its lifetime that a busy thread does not wait: below this, it waits for
something else itself."""

LEAST_ON_CPU = 0.2
"""Minimum share of a busy thread's time without waits that it uses a CPU: below this, it waits
where no wait is recorded, such as in C. Busy machines leave a thread more than this."""

LEAST_PYTHON = 0.5
"""Minimum share of a thread's lifetime in routines that hold the GIL all the time."""

LEAST_OVERLAP = 1.5
"""Minimum sum of the lifetimes of such threads, in lifetimes of the main thread: the mean number of
threads at a time, so that threads started one after the other do not count."""

_HOLDING = frozenset(
    {"abs", "len", "range", "enumerate", "zip", "min", "max", "sum", "int", "float", "str", "bool",
     "divmod", "pow", "round", "isinstance", "list", "dict", "set", "tuple", "append", "pop",
     "extend", "add", "get", "items", "keys", "values", "split", "strip", "startswith", "sorted"}
)  # fmt: skip
"""C functions that are short or keep the GIL."""

_COMPUTING = _HOLDING | frozenset(
    {"compress", "decompress", "md5", "sha1", "sha256", "sha512", "blake2b", "pbkdf2_hmac",
     "digest", "hexdigest", "crc32", "adler32", "encode", "decode", "dumps", "loads", "copy",
     "format", "setdefault", "update", "discard", "remove", "clear", "insert", "count", "sort",
     "time", "perf_counter", "monotonic"}
)  # fmt: skip
"""C functions that never wait, although some release the GIL."""

LEAST_LOCKED = 0.2
"""Minimum share of the workers' time without CPU use in a routine that takes a lock."""


def find(trial: Trial) -> Iterator[Finding]:
    lives = waiting.lives(trial)
    if len(lives) < 2:
        return
    yield from _taking(trial, lives)
    yield from _interpreter(trial, lives)
    yield from _locked(trial, lives)


def _taking(trial: Trial, lives: list[Life]) -> Iterator[Finding]:
    """The main thread, or threads that it waits for, wait for data of a single other thread."""
    calls = trial.calls
    main, *others = lives
    least = LEAST_TAKEN * trial.wall_ns
    takes = calls.by_thread(calls.outermost(waiting.is_take))
    takers = {thread: taken for thread, taken in takes.items() if taken.ns >= least}
    if main.thread in takers:
        takers = {main.thread: takers[main.thread]}
    if not takers or main.whole_ns - main.working_ns < least:
        return
    taken = min(takers.values(), key=lambda waits: waits.ns)
    busy = [life for life in others if life.thread not in takers
            and life.working_ns >= max(BUSY * life.whole_ns, BUSY * taken.ns)
            and (life.cpu_ns or 0) >= LEAST_ON_CPU * life.working_ns]  # fmt: skip
    if len(busy) != 1:
        return
    (maker,) = busy
    given = {worker.thread: worker.work for worker in workers(trial)}
    same = [work for work in given.values() if work == given.get(maker.thread)]
    if len(same) > 1:
        return  # others do the same work: the rule `imbalance` judges how it was divided
    timer = trial.caller(calls.largest(taken.rows))
    yield Finding(
        KIND,
        f"{place(timer)} waits {duration(taken.ns)}, {percent(100 * taken.ns / trial.wall_ns)} % "
        f"of the run, for what {maker.thread.name or 'another thread'} hands over; that thread "
        f"uses a CPU for {duration(maker.cpu_ns or 0)} of its {duration(maker.whole_ns)}",
        taken.ns,
        trial.wall_ns,
        (_of_threads(trial),),
        "high",
        "let several processes make it, or make it cheaper",
        "the maker itself waits for something that cannot be divided, such as a network",
    )


def _interpreter(trial: Trial, lives: list[Life]) -> Iterator[Finding]:
    """Threads that run Python take turns because of the GIL."""
    main, *others = lives
    python = _holding_gil(trial)
    turns = [life for life in others if life.thread.node == main.thread.node
               and python.get(life.thread, 0.0) >= LEAST_PYTHON * life.whole_ns]  # fmt: skip
    together = sum(life.whole_ns for life in turns)
    if len(turns) < 2 or together < LEAST_OVERLAP * main.whole_ns:
        return
    cores = min(len(turns), trial.cores or 1)
    longest = max(life.whole_ns for life in turns)
    yield Finding(
        KIND,
        f"{several(len(turns), 'thread')} run Python code that never releases the GIL, for "
        f"{duration(together)} in {duration(longest)}: one runs while the others wait",
        longest * (1 - 1 / cores),
        trial.wall_ns,
        (_of_threads(trial),),
        "medium",
        "use processes, a free-threaded Python, or calls that release the GIL (NumPy, zlib)",
        "the same threads take as long in a free-threaded Python",
    )


def _holding_gil(trial: Trial) -> dict[ThreadRow, float]:
    """Each thread's exclusive time in routines whose source calls nothing that releases the GIL."""
    calls = trial.calls
    own_ns: dict[ThreadRow, float] = {}
    for timer in calls.timers:
        if not trial.is_own(timer):
            continue
        function = source.function(trial, timer)
        rows = calls.rows_of(timer)
        below = {calls.timer[child].short_name for row in rows for child in calls.children(row)}
        if function is None or source.enters(function):
            continue
        if source.calls(function) <= _last_parts(below) | _HOLDING:
            for row in rows:
                own_ns[calls.thread[row]] = own_ns.get(calls.thread[row], 0) + calls.exclusive[row]
    return own_ns


def _last_parts(names: Iterable[str]) -> set[str]:
    return {name.split(".")[-1] for name in names}


def _of_threads(trial: Trial) -> Evidence:
    where = (Condition("event", ("Thread CPU Time",)),)
    return trial.evidence(("thread", "event"), where, ("event.total",), ())


# --- locks -----------------------------------------------------------------------


def _locked(trial: Trial, lives: list[Life]) -> Iterator[Finding]:
    """Threads that wait in a routine that takes a lock."""
    calls = trial.calls
    lockers = {life.thread: life for life in lives[1:] if life.cpu_ns is not None}
    whole = sum(life.whole_ns for life in lockers.values())
    slept = _slept(trial)
    for timer in calls.timers:
        if not trial.is_own(timer):
            continue
        rows = [row for row in calls.rows_of(timer) if calls.thread[row] in lockers]
        threads = {calls.thread[row] for row in rows}
        own = sum(calls.exclusive[row] for row in rows)
        cpu = sum(lockers[thread].cpu_ns or 0 for thread in threads)
        waited = min(own - cpu, slept.get(timer, 0.0)) if slept else own - cpu
        if len(threads) < 2 or waited < LEAST_LOCKED * whole:
            continue
        below = [child for row in rows for child in calls.children(row)]
        if not _takes_lock(trial, timer, {calls.timer[child].short_name for child in below}):
            continue
        yield Finding(
            KIND,
            f"{several(len(threads), 'thread')} wait {duration(waited)} in all for the lock that "
            f"{place(timer)} takes, while one of them works",
            waited / len(threads),
            trial.wall_ns,
            (trial.evidence(("thread",), (Condition("timer", (timer.timer,)), HOST)),),
            "medium",
            "do the slow part outside the lock, or take a lock for each key",
            "the work under the lock must not run concurrently",
        )


def _slept(trial: Trial) -> dict[TimerRow, float]:
    """How long the watch saw workers asleep in each routine; empty without a watch."""
    where = (Condition("event", (STATES[2],)),)
    by = ("thread", "timer")
    table = trial.ask(Question((trial.id,), (), by, where, values=("event.total",)))
    main = min(trial.calls.threads, default=None)
    slept: dict[TimerRow, float] = {}
    for thread, timer, total in zip(
        table.row_labels("thread"), table.row_labels("timer"), table.column("event.total"),
        strict=True,
    ):  # fmt: skip
        if timer is not None and thread != main:
            slept[timer] = slept.get(timer, 0.0) + (total or 0)
    return slept


def _takes_lock(trial: Trial, timer: TimerRow, recorded: set[str]) -> bool:
    """Whether the routine takes a lock and otherwise only computes or calls recorded routines.

    If so, its exclusive time contains no other waits: those of recorded routines count as theirs.
    """
    function = source.function(trial, timer)
    if function is None:
        return False
    words = " ".join(
        name.lower() for lock in source.enters(function) for name in source.names(lock)
    )
    others = source.calls(function) - _last_parts(recorded) - _COMPUTING - {"acquire", "release"}
    return not others and any(word in words for word in ("lock", "mutex", "semaphore"))
