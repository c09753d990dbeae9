"""Rule: a routine keeps more with each call, until the end of the run.

What it keeps and where is measured; what holds it is read from the source: a container that
outlives the call, that is only ever added to, and that nothing reads as a whole. A list that is a
result, a cache that is full, and memory that is loaded once are none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from taupy.analysis.findings import source
from taupy.analysis.findings.calls import phase, place
from taupy.analysis.findings.trial import Moment, Trial
from taupy.dataclass import NamedTuple
from taupy.model.finding import Abstention, Finding
from taupy.model.question import Condition, Question
from taupy.model.rows import TimerRow
from taupy.model.sampled import BETWEEN, GROWTH, RELEASED
from taupy.units import count, size

KIND = "memory growth"
NEEDS = ("host",)

LEAST_BYTES = 128 * 1024 * 1024
"""Minimum growth: the data and libraries of any larger program take as much; less does no harm."""

PARTS, LEAST_PARTS = 5, 3
"""Number of equal parts into which the run after its imports is divided; fewer if it is so short
that the watch, which looks every 100 ms, has not seen the end of each. Memory must grow in all
but the first, in which programs load their data, by at least half of the mean growth."""

LATEST = 0.85
"""Earliest share of the run before its exit at which memory may reach its peak, give or take
`AT_PEAK`: what ends before is a cache that is full, or a list that is complete."""

AT_PEAK = 0.98

LEAST_CALLS = 10
"""Minimum calls of the routine in which memory grew: one that is called less often builds a
result."""

_KIB = 1024
_GROWN = (GROWTH, BETWEEN)


class _Holder(NamedTuple):
    """What holds what a routine keeps, and the line that adds to it."""

    name: str
    line: int


def find(trial: Trial) -> Iterator[Finding | Abstention]:
    if not trial.memory:
        yield Abstention(KIND, "the trial has no memory over time: it was run without a watch")
        return
    if not _grows_to_the_end(trial):
        return
    kept = sorted(_kept(trial).items(), key=lambda pair: pair[1])
    large = [(timer, grown) for timer, grown in kept if grown >= LEAST_BYTES
             and trial.calls.entries(timer) >= LEAST_CALLS]  # fmt: skip
    unseen = [timer for timer, _ in large if source.function(trial, timer) is None]
    for timer, grown in large:  # callees before their callers, which keep it as well
        holder = _holder(trial, timer)
        if holder is not None:
            yield _finding(trial, timer, grown, holder)
            return
    if unseen:
        yield Abstention(
            KIND,
            f"memory grows to the end, but the source of {place(unseen[0])} is missing or has "
            "changed, so what holds it is not known",
        )


def _finding(trial: Trial, timer: TimerRow, grown: float, holder: _Holder) -> Finding:
    calls = int(trial.calls.entries(timer))
    where = (Condition("event", (*_GROWN, RELEASED)),)
    return Finding(
        KIND,
        f"memory grows by {size(grown / calls)} with each call of {place(timer)}, by "
        f"{size(grown)} in {count(calls)} calls, and still at the end: {holder.name} holds it "
        f"(line {holder.line}), and nothing is removed from it",
        saved_ns=0,
        wall_ns=trial.wall_ns,
        evidence=(trial.evidence(("timer", "event"), where, ("event.total", "event.count"), ()),),
        confidence="medium",
        attempt="remove what is not read again, or limit its size",
        refuted_by="the program needs all of it",
        saved_bytes=int(grown),
    )


# --- over time -------------------------------------------------------------------


def _grows_to_the_end(trial: Trial) -> bool:
    """Whether memory grows in each part of the run after its imports except the first, in which
    programs load their data, and until shortly before the process ends."""
    imported_ns = trial.calls.longest(phase("import")).ns
    looks = [look for look in trial.memory if look.end_ns >= imported_ns]
    largest = max((look.mean for look in looks), default=0.0)
    last = next((at for at, look in enumerate(looks) if look.mean >= AT_PEAK * largest), 0)
    looks = looks[: last + 1]
    worked_ns = trial.wall_ns - trial.calls.longest(phase("exit")).ns  # which gives memory back
    parts = min(PARTS, len(looks) - 1)  # a look for the end of each, and the first
    if parts < LEAST_PARTS or looks[-1].end_ns < LATEST * worked_ns:
        return False
    ends = [_at(looks, part / parts) for part in range(1, parts + 1)]
    share = (ends[-1] - ends[0]) / (parts - 1)
    return ends[-1] - looks[0].mean >= LEAST_BYTES and all(
        after - before >= share / 2 for before, after in pairwise(ends)
    )


def _at(looks: Sequence[Moment], share: float) -> float:
    """Memory after this share of the time [byte]."""
    first, last = looks[0].end_ns, looks[-1].end_ns
    until = first + share * (last - first)
    return next(look.mean for look in reversed(looks) if look.end_ns <= until)


# --- what keeps it ---------------------------------------------------------------


def _kept(trial: Trial) -> dict[TimerRow, float]:
    """Memory allocated minus memory freed [bytes] by each of the program's routines and all that
    they call. Allocators reuse memory, so growth in a library's routine says little about what is
    kept."""
    calls = trial.calls
    rows = {
        key: row
        for row, key in enumerate(
            zip(calls.thread, calls.table.row_labels("callpath"), strict=True)
        )
    }
    where = (Condition("event", (*_GROWN, RELEASED)),)
    by = ("thread", "callpath", "event")
    table = trial.ask(Question((trial.id,), (), by, where, values=("event.total",)))
    kept: dict[TimerRow, float] = {}
    for thread, callpath, event, total in zip(
        *(table.row_labels(name) for name in by), table.column("event.total"), strict=True
    ):
        row = rows.get((thread, callpath), -1)
        sign = -1 if event.name == RELEASED else 1
        seen = set()
        while row >= 0:
            timer = calls.timer[row]
            if timer not in seen and trial.is_own(timer):
                seen.add(timer)
                kept[timer] = kept.get(timer, 0.0) + sign * (total or 0) * _KIB
            row = calls.parent[row]
    return kept


def _holder(trial: Trial, timer: TimerRow) -> _Holder | None:
    function, text = source.function(trial, timer), trial.source(timer)
    return _held(function, text) if function and text else None


def _held(function: source.Function, text: str) -> _Holder | None:
    """A container that outlives the function, and that its file only adds to."""
    local = {argument.arg for argument in function.args.args} - {"self", "cls"}
    local |= {part.id for part in ast.walk(function)
              if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}  # fmt: skip
    for part in ast.walk(function):
        container = _added(part)
        if container is None:
            continue
        if not source.names(container) & local and _only_grows(text, ast.unparse(container)):
            return _Holder(ast.unparse(container), container.lineno)
    return None


def _added(part: ast.AST) -> ast.expr | None:
    """The container to which a statement or call adds."""
    target = part.targets[0] if isinstance(part, ast.Assign) else None
    if isinstance(target, ast.Subscript):
        return None if isinstance(target.slice, ast.Constant | ast.Slice) else target.value
    if (
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in _ADDING
    ):
        return part.func.value
    return None


_ADDING = frozenset({"append", "add", "extend", "insert", "setdefault"})
_SINGLE = _ADDING | {"get"}
_CONTAINERS = frozenset({"dict", "list", "set", "defaultdict", "OrderedDict", "deque", "field"})


def _only_grows(text: str, name: str) -> bool:
    """Whether a file makes this container once, empty and without a limit, and then only adds to
    it or reads its length, single elements or the last few: it removes nothing, and reads it
    nowhere as a whole."""
    single: set[int] = set()
    values: list[ast.expr] = []
    of_class: set[int] = set()
    for part in ast.walk(source.tree(text)):
        if isinstance(part, ast.ClassDef):
            of_class |= {id(statement) for statement in part.body}
        elif isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            short = _attribute(name) if id(part) in of_class else name
            values += [part.value for target in targets if ast.unparse(target) == short]
        elif (isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Del)) or (
            isinstance(part, ast.Attribute) and part.attr in _SINGLE
        ):
            single.add(id(part.value))
        elif isinstance(part, ast.Compare):
            single |= {id(side) for side in part.comparators}
        elif isinstance(part, ast.Call) and source.called(part) == "len":
            single |= {id(argument) for argument in part.args}
    reads = [part for part in ast.walk(source.tree(text))
             if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load)
             and _is_same(part, name)]  # fmt: skip
    return len(values) == 1 and _is_empty(values[0]) and all(id(part) in single for part in reads)


def _attribute(name: str) -> str:
    return name.rpartition(".")[2]


def _is_same(part: ast.Name | ast.Attribute, name: str) -> bool:
    """Whether it may be the container. An attribute is reached by more than one name: `Net.seen`,
    `self.seen`."""
    if isinstance(part, ast.Attribute) and "." in name:
        return part.attr == _attribute(name)
    return ast.unparse(part) == name


def _is_empty(value: ast.expr) -> bool:
    """Whether it is an empty container, such as `[]` or `collections.defaultdict(list)`."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    limited = isinstance(value, ast.Call) and any(word.arg == "maxlen" for word in value.keywords)
    return isinstance(value, ast.Call) and source.called(value) in _CONTAINERS and not limited
