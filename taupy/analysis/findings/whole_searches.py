"""Rule: a line goes through everything, each time, to find or to place one thing.

The watch saw which expression was at work; that it goes through everything is read from the source:
`in` and `index` of a list, `sort()` after each `append`, a table filtered for each key, a query by
a column without an index, a pattern that can match one text in many ways.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from taupy.analysis.findings import hot_lines, query_plans
from taupy.analysis.findings.growing_history import LEAST_COPY_NS
from taupy.analysis.findings.hot_lines import Hot, Part, Tree, name, share, short
from taupy.analysis.findings.source import Function, called, names
from taupy.analysis.findings.trial import Trial
from taupy.dataclass import NamedTuple
from taupy.model.finding import Confidence, Finding
from taupy.units import count

KIND = "search through everything"
NEEDS = ("host",)

LEAST = 0.2
"""Minimum share of the time outside imports in such parts of a line: short lists take less."""

LEAST_SCANNED = 0.1
"""The same of queries that read a whole table, by SQLite's plan, which short ones take less of."""

LEAST_TIMES = 100
"""Minimum calls of the routine, if no loop of it repeats the line."""

NO_INDEX = "no index"


class _Search(NamedTuple):
    of: str
    what: str
    attempt: str
    refuted_by: str
    confidence: Confidence = "high"


def find(trial: Trial) -> Iterator[Finding]:
    for hot in hot_lines.hot_lines(trial, LEAST_SCANNED):
        tree = hot_lines.tree(trial, hot.timer)
        if tree is None:
            continue
        is_searched = hot.sure_ns >= LEAST * trial.worked_ns
        if is_searched and (by_key := _by_key(trial, hot, tree)) is not None:
            yield by_key
            continue
        sums: dict[_Search, int] = {}
        for part in hot_lines.parts(hot, tree):
            search = _search(trial, hot, tree, part)
            if search is not None:
                sums[search] = sums.get(search, 0) + part.ns
        search = max(sums, key=lambda search: sums[search], default=None)
        least = LEAST_SCANNED if search is not None and search.of == NO_INDEX else LEAST
        if search is None or sums[search] * hot.sure_ns / hot.ns < least * trial.worked_ns:
            continue
        entries = int(trial.calls.entries(hot.timer))
        times = f" in {count(entries)} calls" if entries > 1 else ""
        yield trial.finding(
            f"{KIND}: {search.of}",
            hot.timer,
            f"{hot.place} {search.what}: {share(trial, sums[search])}{times}",
            hot_lines.bound(trial, hot, sums[search]),
            search.attempt,
            search.refuted_by,
            search.confidence,
        )


def _search(trial: Trial, hot: Hot, tree: Tree, part: Part) -> _Search | None:
    node = part.node
    often = trial.calls.entries(hot.timer) >= LEAST_TIMES
    repeated = tree.repeats(node) is not None
    if not (often or repeated):
        return None
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return _in_list(tree, node)
    if isinstance(node, hot_lines.Comprehension):
        rows = node.generators[0].iter  # the next row is looked for when it is asked for
        return _without_index(trial, tree, rows) if isinstance(rows, ast.Call) else None
    if isinstance(node, ast.Subscript):
        above = next(tree.above(node))
        rest = _rest(trial, hot, tree, part)
        return rest or (_prefix(tree, above) if isinstance(above, ast.Call) else None)
    if isinstance(node, ast.Call):
        above = next(tree.above(node))
        if isinstance(above, ast.Compare) and isinstance(above.ops[0], ast.In | ast.NotIn):
            return _in_list(tree, above) if above.comparators[0] is node else None
        return (
            _of_list(tree, node)
            or _sorted_anew(tree, node)
            or _smallest_taken(tree, node)
            or _prefix(tree, node)
            or _ambiguous(tree, node)
            or _without_index(trial, tree, node)
        )
    return None


# --- lists -----------------------------------------------------------------------

_SETS = frozenset(
    {"set", "frozenset", "dict", "deque", "Counter", "defaultdict", "OrderedDict", "array", "range"}
)
_LISTS = frozenset({"list", "sorted", "split", "splitlines", "readlines", "tolist"})


@lru_cache(maxsize=64)
def _lists(module: ast.Module) -> frozenset[str]:
    """The last parts of names that stand for lists and for nothing else in a file."""
    lists: set[str] = set()
    others: set[str] = set()
    for part in ast.walk(module):
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            names = {name(target).split(".")[-1] for target in targets}
            value = part.value
            built = called(value) if isinstance(value, ast.Call) else ""
            if isinstance(value, ast.List | ast.ListComp) or built in _LISTS:
                lists |= names
            elif built in _SETS or isinstance(
                value, ast.Set | ast.Dict | ast.SetComp | ast.DictComp | ast.Constant
            ):
                others |= names
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            last = name(part.func.value).split(".")[-1]
            if part.func.attr in ("add", "popleft", "appendleft", "keys", "items"):
                others.add(last)
            elif part.func.attr == "append":
                lists.add(last)
    return frozenset(lists - others - {""})


def _is_list(tree: Tree, node: ast.expr) -> bool:
    return (
        name(node).split(".")[-1] in _lists(tree.module)
        and _made(tree, node, tree.function(node)) is not False
        and not _is_short(tree, node)
    )


def _made(tree: Tree, value: ast.expr, where: Function | ast.Module, depth: int = 4) -> bool | None:
    """Whether an expression stands for a list; None if that is not known."""
    if isinstance(value, ast.List | ast.ListComp):
        return True
    if isinstance(value, ast.Set | ast.Dict | ast.SetComp | ast.DictComp | ast.Constant
                  | ast.JoinedStr | ast.GeneratorExp):  # fmt: skip
        return False
    values: list[bool | None] = []
    if isinstance(value, ast.Call):
        if (built := called(value)) in _LISTS:
            return True
        if built in _SETS or built in _TEXTS:
            return False
        for function in _defined(tree.module, built) if depth and name(value.func) == built else ():
            values += [
                _made(tree, part.value, function, depth - 1)
                for part in ast.walk(function)
                if isinstance(part, ast.Return) and part.value is not None
            ]
    elif isinstance(value, ast.Name) and depth:
        values = [_made(tree, single, where, depth - 1) for single in _values(where, value.id)]
        if isinstance(where, Function) and not values:
            arguments = [*where.args.posonlyargs, *where.args.args]
            at = next((at for at, single in enumerate(arguments) if single.arg == value.id), None)
            if at is None:
                values = [_made(tree, single, tree.module, depth - 1)
                          for single in _values(tree.module, value.id)]  # fmt: skip
            else:
                values = [
                    _made(tree, part.args[at], tree.function(part), depth - 1)
                    for part in ast.walk(tree.module)
                    if isinstance(part, ast.Call) and name(part.func) == where.name
                    and at < len(part.args)
                ]  # fmt: skip
    if False in values:
        return False
    return True if True in values else None


_TEXTS = frozenset(
    {"str", "read", "join", "strip", "lower", "upper", "format", "decode", "encode", "bytes",
     "read_text", "read_bytes"}
)  # fmt: skip


def _defined(module: ast.Module, called_as: str) -> list[Function]:
    return [part for part in module.body if isinstance(part, Function) and part.name == called_as]


def _values(where: ast.AST, variable: str) -> list[ast.expr]:
    """What a variable is set to, in a function or at the top of a file."""
    inside = where.body if isinstance(where, ast.Module) else [*ast.walk(where)]
    return [
        part.value for part in inside
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None
        and variable in map(name, part.targets if isinstance(part, ast.Assign) else [part.target])
    ]  # fmt: skip


SHORT = 32
"""Elements of a list that is written out, up to which a search takes no longer than hashing."""


def _is_short(tree: Tree, node: ast.expr) -> bool:
    """Whether a list is written out once, with few elements, and nothing is added to it."""
    value = _assigned(tree, node)
    return (
        isinstance(value, ast.List)
        and 0 < len(value.elts) <= SHORT
        and not any(
            isinstance(part, ast.Call) and called(part) in ("append", "extend", "insert")
            and isinstance(part.func, ast.Attribute)
            and name(part.func.value).split(".")[-1] == name(node).split(".")[-1]
            for part in ast.walk(tree.module)
        )
    )  # fmt: skip


def _is_new(tree: Tree, node: ast.AST, where: ast.expr) -> bool:
    """Whether the list is made for this one search: in the same iteration, or, outside of loops,
    in the same call."""
    function, repeats = tree.function(node), tree.repeats(node)
    return isinstance(where, ast.Name) and any(
        isinstance(part, ast.Assign | ast.AnnAssign)
        and isinstance(part.value, ast.Call | ast.List | ast.ListComp | ast.BinOp)
        and not (isinstance(part.value, ast.Call) and called(part.value) in ("get", "setdefault"))
        and where.id in map(name, part.targets if isinstance(part, ast.Assign) else [part.target])
        and tree.repeats(part) is repeats
        and tree.function(part) is function
        and isinstance(function, Function)
        for part in ast.walk(function if repeats is None else repeats)
    )


def _is_bounded(tree: Tree, node: ast.AST, where: ast.expr) -> bool:
    """Whether the function keeps the list short: `if len(window) > 5`; or by a number that is not
    known."""
    for part in ast.walk(tree.function(node)):
        if not (
            isinstance(part, ast.Compare) and isinstance(part.left, ast.Call)
            and called(part.left) == "len" and part.left.args
            and name(part.left.args[0]) == name(where)
        ):  # fmt: skip
            continue
        limit = part.comparators[0]
        if isinstance(limit, ast.Name | ast.Attribute):
            limit = _assigned(tree, limit) or limit
        if not isinstance(limit, ast.Constant):
            return True
        if isinstance(limit.value, int) and 1 < limit.value <= 8 * SHORT:
            return True
    return False


def _in_list(tree: Tree, node: ast.Compare) -> _Search | None:
    where = node.comparators[0]
    if isinstance(where, ast.Call) and name(where.func) in ("list", "sorted") and where.args:
        return _Search(
            "list",
            f"makes a list for each search, `{short(where)}`, and looks through it (`in`)",
            "look in what the list is made of, or in a set or dict",
            "it has few elements",
        )
    if not _is_list(tree, where) or _is_new(tree, node, where):
        return None
    return _Search(
        "list",
        f"searches the list `{short(where)}` for an element, one after another (`in`)",
        "keep a set, or a dict, beside the list and look there",
        "the list has few elements, or they cannot be hashed",
    )


def _of_list(tree: Tree, node: ast.Call) -> _Search | None:
    if not (isinstance(node.func, ast.Attribute) and _is_list(tree, node.func.value)):
        return None
    where, method = short(node.func.value), node.func.attr
    first = node.args[0] if node.args else None
    is_front = isinstance(first, ast.Constant) and first.value == 0
    if _is_new(tree, node, node.func.value):
        return None
    if method in ("pop", "insert") and is_front:
        if _is_bounded(tree, node, node.func.value):
            return None
        return _Search(
            "list moved",
            f"moves all elements of the list `{where}` (`{method}(0)`)",
            "use a collections.deque: popleft(), appendleft()",
            "the list has few elements",
        )
    if method in ("index", "count", "remove"):
        return _Search(
            "list",
            f"goes through the list `{where}` (`{method}()`)",
            "keep a dict from element to position or count",
            "the list has few elements, or they cannot be hashed",
        )
    return None


LEAST_BY_KEY = 0.4
"""Minimum share of the time outside imports in a loop that looks for a key."""

LEAST_SEARCH_NS = 3_000
"""Minimum CPU time of a search for a key, if it is known: some fifty elements."""


def _by_key(trial: Trial, hot: Hot, tree: Tree) -> Finding | None:
    """A loop that compares a field of one element after another with a key, and ends at the first
    that is equal: `for one in rows: if one.name == name: return one`."""
    searches = [
        (search, of) for part in hot_lines.parts(hot, tree)
        for search in (part.node, *tree.above(part.node))
        if isinstance(search, ast.stmt | ast.expr) and (of := _key_loop(tree, search))
    ]  # fmt: skip
    if not searches:
        return None
    search, (iterated, key) = searches[0]
    lines = range(search.lineno, (search.end_lineno or search.lineno) + 1)
    ns = sum(
        row.line.time_ns for row in trial.lines
        if row.timer == hot.timer and row.thread == hot.thread and row.line.line in lines
    )  # fmt: skip
    entries = int(trial.calls.entries(hot.timer))
    cpu_ns = ns * (1 - (trial.runnable(hot.thread) or 0.0))
    if (
        ns < LEAST_BY_KEY * trial.worked_ns
        or _is_short(tree, iterated)
        or (tree.repeats(search) is None and cpu_ns < LEAST_SEARCH_NS * max(entries, LEAST_TIMES))
    ):
        return None
    times = f" in {count(entries)} calls" if entries > 1 else ""
    return trial.finding(
        f"{KIND}: by key",
        hot.timer,
        f"{hot_lines.at_line(hot.timer, key.lineno)} compares one element of `{short(iterated)}` "
        f"after another with `{short(key)}` until one is equal (linear search): "
        f"{share(trial, ns)}{times}",
        hot_lines.bound(trial, hot, ns),
        "make a dict by this key once, and look there",
        "there are few elements, or their keys change all the time",
    )


def _key_loop(tree: Tree, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """What a loop goes through and the key that it compares; None if it is no such search."""
    if isinstance(node, ast.For) and len(node.body) == 1 and isinstance(node.body[0], ast.If):
        test = node.body[0]
        if test.orelse or not isinstance(test.body[-1], ast.Return | ast.Break):
            return None
        target, iterated, compared = node.target, node.iter, test.test
    elif (
        isinstance(node, ast.GeneratorExp)
        and len(node.generators) == 1
        and len(node.generators[0].ifs) == 1
        and isinstance(above := next(tree.above(node)), ast.Call)
        and name(above.func) == "next"
    ):
        target, iterated = node.generators[0].target, node.generators[0].iter
        compared = node.generators[0].ifs[0]
    else:
        return None
    if isinstance(iterated, ast.Call) and called(iterated) == "enumerate" and iterated.args:
        iterated = iterated.args[0]
    if not (isinstance(compared, ast.Compare) and isinstance(compared.ops[0], ast.Eq)):
        return None
    if len(compared.comparators) != 1 or not name(iterated):
        return None
    targets = names(target)
    sides = [compared.left, compared.comparators[0]]
    of_element = [side for side in sides if names(side) & targets]
    if len(of_element) != 1 or any(isinstance(part, ast.Call) for part in ast.walk(of_element[0])):
        return None
    (key,) = (side for side in sides if side is not of_element[0])
    return (iterated, key) if not isinstance(key, ast.Constant) else None


def _sorted_anew(tree: Tree, node: ast.Call) -> _Search | None:
    """A list that is sorted after each element that is added."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "sort":
        where = node.func.value
    elif isinstance(node.func, ast.Name) and node.func.id == "sorted" and node.args:
        where = node.args[0]
    else:
        return None
    repeats = tree.repeats(node) or tree.function(node)
    adds = [
        part for part in ast.walk(repeats)
        if isinstance(part, ast.Call) and called(part) in ("append", "insert")
        and isinstance(part.func, ast.Attribute) and name(part.func.value) == name(where)
        and tree.repeats(part) is tree.repeats(node)
    ]  # fmt: skip
    if not name(where) or not adds or _is_new(tree, node, where):
        return None
    if not _is_list(tree, where) or _is_bounded(tree, node, where):
        return None  # a window of a few elements is sorted as quickly as it is kept in order
    return _Search(
        "sorted again",
        f"sorts all of `{short(where)}` again for each element that is added",
        "bisect.insort(...) into the sorted list, or a heap if only the smallest is taken: heapq",
        "many elements are added before each sort",
    )


def _smallest_taken(tree: Tree, node: ast.Call) -> _Search | None:
    """The smallest of a list from which elements are taken, and to which others are added."""
    if name(node.func) not in ("min", "max") or not node.args or not _is_list(tree, node.args[0]):
        return None
    where = node.args[0]
    within = tree.repeats(node) or tree.function(node)
    changes = {
        part.func.attr for part in ast.walk(within)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute)
        and name(part.func.value) == name(where)
    }  # fmt: skip
    if not changes & {"remove", "pop"} or _is_new(tree, node, where):
        return None
    return _Search(
        "smallest",
        f"goes through all of `{short(where)}` for each element that is taken "
        f"(`{name(node.func)}()`)",
        "keep a heap: heapq.heappush(), heapq.heappop()",
        "the list has few elements",
    )


def _rest(trial: Trial, hot: Hot, tree: Tree, part: Part) -> _Search | None:
    """A list, or text, that is copied to leave out its first or last elements, in a loop, or in
    each call: `x = x[1:]`, `self.rest = self.rest[k:]`."""
    node = part.node
    if not isinstance(node, ast.Subscript) or not is_rest(tree, node):
        return None
    if tree.repeats(node) is None:
        cpu_ns = part.ns * (1 - (trial.runnable(hot.thread) or 0.0))
        if cpu_ns < LEAST_COPY_NS * trial.calls.entries(hot.timer):
            return None
    of_each = isinstance(_left_out(node), ast.Constant)
    return _Search(
        "list moved",
        f"copies all that is left of `{short(node.value)}` for each element that is taken "
        f"(`{short(tree.statement(node))}`)",
        "keep a position in it"
        + (", or use a collections.deque: popleft()" if of_each else ", and move that"),
        "it has few elements",
    )


def is_rest(tree: Tree, node: ast.Subscript) -> bool:
    """Whether it is what is left of a variable, in a loop, or of an attribute, and is assigned to
    it again; not if it is the last or first few elements (`x[-9:]`, `x[:9]`), a window that does
    not grow, nor if it is a view."""
    kept, above = name(node.value), next(tree.above(node))
    left_out = _left_out(node)
    if not kept or left_out is None or (tree.repeats(node) is None and "." not in kept):
        return False
    if isinstance(above, ast.Tuple) and isinstance(outer := next(tree.above(above)), ast.Assign):
        (target, *others), at = outer.targets, above.elts.index(node)
        if others or not isinstance(target, ast.Tuple) or len(target.elts) != len(above.elts):
            return False
        assigned = [target.elts[at]]
    elif isinstance(above, ast.Assign):
        assigned = above.targets
    else:
        return False
    return [name(target) for target in assigned] == [kept] and not any(
        isinstance(part, ast.Call) and called(part) == "len"
        and any(name(given) == kept for given in part.args)
        for part in ast.walk(left_out)
    ) and not _is_view(tree.module, kept)  # fmt: skip


def _left_out(node: ast.Subscript) -> ast.expr | None:
    """`k` of `x[k:]` and `x[:-k]`: how many elements are left out."""
    if not isinstance(node.slice, ast.Slice) or node.slice.step is not None:
        return None
    lower, upper = node.slice.lower, node.slice.upper
    if upper is None and lower is not None:
        is_none_left_out = isinstance(lower, ast.Constant) and not lower.value
        return None if isinstance(lower, ast.UnaryOp) or is_none_left_out else lower
    if lower is None and isinstance(upper, ast.UnaryOp) and isinstance(upper.op, ast.USub):
        return upper.operand
    return None


def _is_view(module: ast.Module, kept: str) -> bool:
    """Whether a variable or attribute is a `memoryview`, whose parts are no copies."""
    return any(
        isinstance(part, ast.Assign) and isinstance(part.value, ast.Call)
        and called(part.value) == "memoryview"
        and any(name(target) == kept for target in part.targets)
        for part in ast.walk(module)
    )  # fmt: skip


_RUNNING = frozenset({"sum", "min", "max", "mean", "fmean", "prod", "any", "all", "std", "median"})


def _prefix(tree: Tree, node: ast.Call) -> _Search | None:
    """A sum, or the like, of all elements up to each position: `sum(x[:i])`."""
    repeats = tree.repeats(node)
    part = node.args[0] if node.args else None
    if (
        repeats is None
        or called(node) not in _RUNNING
        or not isinstance(part, ast.Subscript)
        or not isinstance(part.slice, ast.Slice)
        or (part.slice.lower is None) == (part.slice.upper is None)
    ):
        return None
    targets = (
        [repeats.target] if isinstance(repeats, ast.For)
        else [generator.target for generator in getattr(repeats, "generators", [])]
    )  # fmt: skip
    bound = part.slice.lower or part.slice.upper
    if bound is None or not names(bound) & {name for target in targets for name in names(target)}:
        return None
    return _Search(
        "each prefix",
        f"goes through all elements before, or behind, each position (`{short(node)}`, quadratic)",
        "carry the result on from one position to the next: itertools.accumulate(), np.cumsum()",
        "there are few elements",
        "medium",
    )


# --- patterns --------------------------------------------------------------------

_MATCHING = frozenset(
    {"match", "search", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
)


def _ambiguous(tree: Tree, node: ast.Call) -> _Search | None:
    """A regular expression with a repetition within a repetition."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr in _MATCHING):
        return None
    pattern = _pattern(tree, node)
    if pattern is None or not is_ambiguous(pattern):
        return None
    return _Search(
        "regex backtracks",
        f"matches a pattern that repeats a repetition, `{_shortened(pattern)}`: where it does not "
        "match, the regex tries all ways to divide the text (backtracking, exponential)",
        "write the pattern so that each text has one way to match: no nested quantifier, or a "
        "possessive one (`++`)",
        "the texts are short",
        "medium",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}..."


def _pattern(tree: Tree, node: ast.Call) -> str | None:
    assert isinstance(node.func, ast.Attribute)
    built: ast.expr = node.func.value
    if name(built) == "re":
        return _text(tree, node.args[0]) if node.args else None
    value = _assigned(tree, built)
    if isinstance(value, ast.Call) and called(value) == "compile" and value.args:
        return _text(tree, value.args[0])
    return None


def _assigned(tree: Tree, node: ast.expr) -> ast.expr | None:
    """The value of a variable or attribute that is assigned once in its file."""
    last = name(node).split(".")[-1]
    values = [
        part.value for part in ast.walk(tree.module)
        if isinstance(part, ast.Assign)
        and any(name(target).split(".")[-1] == last for target in part.targets)
    ]  # fmt: skip
    return values[0] if last and len(values) == 1 else None


def _text(tree: Tree, node: ast.expr) -> str | None:
    if isinstance(node, ast.Name | ast.Attribute):
        node = _assigned(tree, node) or node
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@lru_cache(maxsize=256)
def is_ambiguous(pattern: str) -> bool:
    """Whether a regular expression repeats, without limit, what is itself a repetition without
    limit and can be followed by itself at once: `(\\w+[ -]?)+`, but not `(\\w+,)+`."""
    from re import _constants, _parser  # type: ignore[attr-defined]

    try:
        parsed = _parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return _repeats_repetition(parsed, _constants.MAXREPEAT)


def _repeats_repetition(parsed: Any, unlimited: Any) -> bool:
    for operation, argument in parsed:
        kind = str(operation)
        inside = []
        if kind in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, body = argument
            if most is unlimited and _is_divisible(body, unlimited):
                return True
            inside = [body]
        elif kind == "SUBPATTERN":
            inside = [argument[-1]]
        elif kind == "BRANCH":
            inside = argument[1]
        elif kind in ("ASSERT", "ASSERT_NOT"):
            inside = [argument[1]]
        if any(_repeats_repetition(body, unlimited) for body in inside):
            return True
    return False


def _is_divisible(body: Any, unlimited: Any) -> bool:
    """Whether a text of such a body may be divided into several of them."""
    items = list(body)
    for at, (operation, argument) in enumerate(items):
        kind = str(operation)
        if kind == "SUBPATTERN":
            divisible = _is_divisible(argument[-1], unlimited)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT"):
            divisible = argument[1] is unlimited or _is_divisible(argument[2], unlimited)
        else:
            continue
        if divisible and all(map(_can_be_empty, (*items[:at], *items[at + 1 :]))):
            return True
    return False


def _can_be_empty(item: Any) -> bool:
    operation, argument = item
    return str(operation) in ("MAX_REPEAT", "MIN_REPEAT") and argument[0] == 0


# --- databases -------------------------------------------------------------------


def _without_index(trial: Trial, tree: Tree, node: ast.Call) -> _Search | None:
    """A query by a column that the program's own tables have no index for."""
    while called(node).startswith("fetch") and isinstance(node.func, ast.Attribute):
        if not isinstance(node.func.value, ast.Call):
            return None
        node = node.func.value
    if called(node) != "execute" or not node.args:
        return None
    first = node.args[0]
    query = _text(tree, first) or _local_text(tree.function(node), first)
    makers = query_plans.statements(trial) if query else None
    scan = query_plans.scan(makers, query) if makers and query else None
    if scan is None:
        return None
    why = "which has no index"
    advice = f"CREATE INDEX {scan.table}_{scan.column} ON {scan.table} ({scan.by})"
    if scan.by != scan.column:
        advice += ", or store what is compared in a column of its own"
    if scan.has_index:
        why = f"for which the index of {scan.column} is of no use"
    return _Search(
        NO_INDEX,
        f"looks for rows of {scan.table} by {scan.by}, {why}, so that each query reads the whole "
        "table (full table scan, by SQLite's plan)",
        advice,
        "another program makes an index: EXPLAIN QUERY PLAN tells",
        "medium",
    )


def _local_text(function: Function | ast.Module, node: ast.expr) -> str | None:
    values = [
        part.value for part in ast.walk(function)
        if isinstance(part, ast.Assign) and name(node)
        and any(name(target) == name(node) for target in part.targets)
    ]  # fmt: skip
    value = values[0] if len(values) == 1 else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
