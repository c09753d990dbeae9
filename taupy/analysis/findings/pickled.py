"""Rule: the same data is pickled for each job of a pool of processes.

The time is measured: the workers take jobs, of which unpickling is a part, while the pool pickles
them. That it is the same data each time is read from the source: a variable that is assigned
before the jobs are made, and is part of each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import source, waiting
from taupy.analysis.findings.calls import Sum, place
from taupy.analysis.findings.hot_lines import at_line
from taupy.analysis.findings.trial import HOST, Trial
from taupy.analysis.findings.workers import workers
from taupy.analysis.known_routines import among
from taupy.model.finding import Finding
from taupy.model.question import Condition
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

KIND = "data pickled for each job"
NEEDS = ("host",)

LEAST = 0.05
"""Minimum share of elapsed time that a worker waits for jobs and unpickles them."""

LEAST_EACH_NS = 200_000
"""Minimum time to pickle a job: numbers, names and small tuples take some 20 us."""

LEAST_JOBS = 4

_JOBS = frozenset(
    {"apply", "apply_async", "map", "map_async", "imap", "imap_unordered", "starmap",
     "starmap_async", "submit"}
)  # fmt: skip
_is_pickled = among(("multiprocessing/reduction.py:ForkingPickler.dumps",))
_is_sent = among(
    (*(f"multiprocessing/pool.py:Pool.{name}" for name in _JOBS),
     "concurrent/futures/process.py:ProcessPoolExecutor.submit",
     "concurrent/futures/process.py:ProcessPoolExecutor.map")
)  # fmt: skip
_is_taken = among(
    ("multiprocessing/queues.py:SimpleQueue.get", "multiprocessing/queues.py:Queue.get")
)
_is_put = among(("multiprocessing/queues.py:SimpleQueue.put",))
_is_worker = among(("multiprocessing/pool.py:worker",))
_sends_back = among(("concurrent/futures/process.py:_sendback_result",))


def find(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    main = min(calls.threads)
    here = [row for row in calls.outermost(_is_pickled) if calls.thread[row].node == main.node]
    pickled = max(calls.by_thread(here).values(), default=Sum())
    taken = calls.by_thread(
        row for row in calls.outermost(_is_taken) if calls.thread[row].node != main.node
    )
    longest = max(taken.values(), default=Sum())
    # Not what is taken or pickled: that also tells workers to end, but none that is replaced.
    answers = [row for row in calls.rows(_is_put) if _is_worker(calls.timer[calls.parent[row]])]
    jobs = int(sum(calls.calls[row] for row in (*answers, *calls.rows(_sends_back))))
    if (
        pickled.calls < LEAST_JOBS
        or pickled.ns < LEAST_EACH_NS * pickled.calls
        or longest.ns < LEAST * trial.wall_ns
    ):
        return
    sent = trial.by_place(row for row in calls.outermost(_is_sent)
                          if calls.thread[row].node == main.node)  # fmt: skip
    for timer, _ in sent:
        names = _same(trial, timer) if timer else []
        if not names:
            continue
        working = max((worker.ns for worker in workers(trial)), default=0.0)
        main_life, *_ = waiting.lives(trial)
        in_vain = main_life.whole_ns - main_life.working_ns - working
        waited = f"{duration(longest.ns)}, {percent(100 * longest.ns / trial.wall_ns)} % of the run"
        yield Finding(
            KIND,
            f"{_where(trial, timer)} sends {', '.join(names)} to other processes with each job: "
            f"{count(jobs)} jobs are pickled in {duration(pickled.ns)}, and a worker "
            f"waits for its jobs and unpickles them for {waited}",
            saved_ns=max(longest.ns, in_vain),
            wall_ns=trial.wall_ns,
            evidence=(
                trial.evidence(("thread", "timer"), (_OF_PICKLING, HOST), ("inclusive", "calls")),
            ),
            confidence="high",
            attempt=f"send {names[0]} once: Pool(initializer=..., initargs=...)",
            refuted_by="it is small, or differs from job to job",
        )
        return


def _where(trial: Trial, timer: TimerRow | None) -> str:
    """The routine with the line that makes the jobs, if there is one such line."""
    function = source.function(trial, timer) if timer else None
    lines = {part.lineno for part in ast.walk(function or ast.Module([], []))
             if isinstance(part, ast.Call) and source.called(part) in _JOBS}  # fmt: skip
    return at_line(timer, *lines) if timer and len(lines) == 1 else place(timer)


_OF_PICKLING = Condition("file", ("multiprocessing/reduction.py", "multiprocessing/queues.py"))


_Repeats = ast.For | ast.While | ast.ListComp | ast.GeneratorExp | ast.SetComp
_ONE = frozenset({"apply", "apply_async", "submit"})


def _same(trial: Trial, timer: TimerRow) -> list[str]:
    """What this routine makes part of each job, and does not make again for each."""
    function = source.function(trial, timer) or source.module(trial, timer)
    if function is None:
        return []
    parts = list(ast.walk(function))
    values = {
        target.id: part.value
        for part in parts if isinstance(part, ast.Assign)
        for target in part.targets if isinstance(target, ast.Name)
    }  # fmt: skip
    names: dict[str, None] = {}
    for call in parts:
        if not (isinstance(call, ast.Call) and source.called(call) in _JOBS and call.args):
            continue
        around = [part for part in parts if isinstance(part, _Repeats)
                  and any(node is call for node in ast.walk(part))]  # fmt: skip
        fresh = set().union(*map(_fresh, around))
        does, *given = call.args
        if source.called(call) in _ONE:
            if not around:
                continue  # a single job
            parts_of_job = [element for value in given for element in _elements(value)]
        else:
            tasks = [values.get(value.id, value) if isinstance(value, ast.Name) else value
                     for value in given]  # fmt: skip
            parts_of_job = [element for value in tasks for element in _of_each(value)]
        parts_of_job += _bound(does)
        names |= dict.fromkeys(
            ast.unparse(part) for part in parts_of_job
            if isinstance(part, ast.Name | ast.Attribute) and not source.names(part) & fresh
        )  # fmt: skip
    return list(names)


def _fresh(repeats: ast.AST) -> set[str]:
    """Variables that a loop or comprehension assigns."""
    return {part.id for part in ast.walk(repeats)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip


def _elements(value: ast.expr) -> list[ast.expr]:
    return list(value.elts) if isinstance(value, ast.Tuple | ast.List) else [value]


def _of_each(tasks: ast.expr) -> list[ast.expr]:
    """What all tasks have in common: `table` of `[(table, n) for n in range(9)]`, or of
    `itertools.repeat(table)`."""
    if isinstance(tasks, ast.ListComp | ast.GeneratorExp):
        variables = _fresh(tasks)
        return [part for part in _elements(tasks.elt) if not source.names(part) & variables]
    if isinstance(tasks, ast.Call) and source.called(tasks) == "repeat":
        return tasks.args[:1]
    return []


def _bound(does: ast.expr) -> list[ast.expr]:
    """What is bound to the function that does a job: by `partial`, or as its object."""
    if isinstance(does, ast.Call) and source.called(does) == "partial":
        return [*does.args[1:], *(word.value for word in does.keywords)]
    if isinstance(does, ast.Attribute) and source.names(does.value) == {"self"}:
        return [does.value]
    return []
