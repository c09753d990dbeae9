"""What a routine makes again in each call, though nothing has changed: the text of a file, a
connection, an optimizer.

Part of the rule `same_work.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from taupy.analysis.findings import hot_lines, source
from taupy.analysis.findings.hot_lines import Tree, short
from taupy.analysis.findings.source import Function, called
from taupy.analysis.findings.trial import Trial
from taupy.analysis.known_routines import among
from taupy.model.finding import Confidence, Finding
from taupy.model.question import Value
from taupy.model.rows import TimerRow
from taupy.units import count, duration, percent

SAME_WORK = "same work again"

LEAST_READ = 0.3
"""Minimum share of the time outside imports in a routine that reads a file or connects."""

LEAST_TIMES = 100
"""Minimum calls of such a routine."""

LEAST_MADE = 20
"""Minimum optimizers: some trainings have several, or begin again."""


def again(
    trial: Trial, what: str, timer: TimerRow | None, sentence: str, ns: float, attempt: str,
    refuted_by: str, confidence: Confidence = "high",
) -> Finding:  # fmt: skip
    values: tuple[Value, ...] = ("inclusive", "calls")
    kind = f"{SAME_WORK}: {what}"
    return trial.finding(kind, timer, sentence, ns, attempt, refuted_by, confidence, values)


def made_again(trial: Trial) -> Iterator[Finding]:
    calls = trial.calls
    for timer in calls.lasting(LEAST_READ * trial.worked_ns):
        if not trial.is_own(timer) or calls.entries(timer) < LEAST_TIMES:
            continue
        function, tree = source.function(trial, timer), hot_lines.tree(trial, timer)
        if function is None or tree is None:
            continue
        longest = max(calls.of_timer(timer).values(), key=lambda sums: sums.ns)
        yield from _opened(trial, timer, function, tree, longest.ns)
    yield from _optimizers(trial)


def _opened(
    trial: Trial, timer: TimerRow, function: Function, tree: Tree, ns: float
) -> Iterator[Finding]:
    """A file that each call reads, or a connection that each call makes and closes."""
    for part in ast.walk(function):
        if not isinstance(part, ast.Call) or not part.args:
            continue
        where = part.args[0]
        if not is_constant(tree, where):
            continue
        times = count(int(trial.calls.entries(timer)))
        spent = f"{duration(ns)}, {percent(100 * ns / trial.wall_ns)} % of the run"
        at = hot_lines.at_line(timer, part.lineno)
        if called(part) == "open" and _reads(part) and not _is_written(tree, where):
            yield again(
                trial, "same file read", timer,
                f"{at} opens and reads the same file, {short(where)}, in each of {times} calls: "
                f"{spent}", ns, "read it once, and keep what was read", "it changes meanwhile",
                "medium",
            )  # fmt: skip
            return
        if called(part) == "connect" and "close" in source.calls(function):
            yield again(
                trial, "connected again", timer,
                f"{at} opens a connection to {short(where)}, and closes it, in each of {times} "
                f"calls: {spent}", ns, "connect once, and keep the connection",
                "connections may not be kept", "medium",
            )  # fmt: skip
            return


def is_constant(tree: Tree, node: ast.expr) -> bool:
    """Whether it is written out, or a variable of the file that is set once, at its top."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if not isinstance(node, ast.Name):
        return False
    stores = [part for part in ast.walk(tree.module)
              if isinstance(part, ast.Name) and part.id == node.id
              and not isinstance(part.ctx, ast.Load)]  # fmt: skip
    arguments = [part for part in ast.walk(tree.module)
                 if isinstance(part, ast.arg) and part.arg == node.id]  # fmt: skip
    return (
        len(stores) == 1 and not arguments and isinstance(tree.function(stores[0]), ast.Module)
        and tree.repeats(stores[0]) is None
    )  # fmt: skip


def _mode(call: ast.Call) -> str | None:
    given = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    if not given:
        return "r"
    return given[0].value if isinstance(given[0], ast.Constant) and isinstance(
        given[0].value, str) else None  # fmt: skip


def _reads(call: ast.Call) -> bool:
    mode = _mode(call)
    return mode is not None and mode.startswith("r") and "+" not in mode


def _is_written(tree: Tree, where: ast.expr) -> bool:
    """Whether a file is written more than once, as far as the source shows: by a routine that is
    called, other than at the top of the file or from there."""
    for part in ast.walk(tree.module):
        if (
            isinstance(part, ast.Call)
            and called(part) == "open"
            and part.args
            and ast.dump(part.args[0]) == ast.dump(where)
            and not _reads(part)
        ):
            inside = tree.function(part)
            if not isinstance(inside, Function):
                continue
            sites = [site for site in ast.walk(tree.module)
                     if isinstance(site, ast.Call) and called(site) == inside.name]  # fmt: skip
            if len(sites) != 1 or tree.repeats(sites[0]) is not None:
                return True
    return False


_makes_optimizer = among(("torch/optim/optimizer.py:Optimizer.__init__",))


def _optimizers(trial: Trial) -> Iterator[Finding]:
    """An optimizer for each step, which has forgotten what it knew of the steps before."""
    calls = trial.calls
    for timer, optimizers in trial.by_place(calls.outermost(_makes_optimizer)):
        if timer is None or optimizers.calls < LEAST_MADE:
            continue
        whole = {calls.parent[row] for row in optimizers.rows} - {-1}
        first = calls.timer[next(iter(whole))] if whole else None
        ns = sum(calls.inclusive[row] for row in whole)
        if first is None or trial.is_own(first):
            ns = optimizers.ns
        steps = sum(
            calls.calls[row] for row, single in enumerate(calls.timer)
            if single.short_name.split(".")[-1] == "step" and "torch/optim/" in (single.file or "")
        )  # fmt: skip
        if steps > 3 * optimizers.calls:
            continue
        names = {(first.short_name.split(".")[0] if first else "Optimizer")}
        yield again(
            trial, "optimizer made again", timer,
            f"{hot_lines.line_of_call(trial, timer, names)} creates an optimizer "
            f"{count(optimizers.calls)} times, for each step again, which forgets what it knew of "
            f"the steps before: {duration(ns)}, {percent(100 * ns / trial.wall_ns)} % of the run",
            ns, "create it once, before the loop", "each is for another model", "medium",
        )  # fmt: skip
