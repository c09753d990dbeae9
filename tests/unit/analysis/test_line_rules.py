"""What rules on lines read from the source; tests/findings/test_judge.py tries them on programs."""

from __future__ import annotations

import ast

import pytest

from taupy.analysis.findings import (
    each_row,
    event_loop,
    piecemeal,
    polling,
    query_plans,
    same_work,
    source,
    whole_searches,
)
from taupy.analysis.findings.hot_lines import Tree, changed


def call(tree, name):
    return next(
        part
        for part in ast.walk(tree.module)
        if isinstance(part, ast.Call) and ast.unparse(part.func).split(".")[-1] == name
    )


def repeats(text):
    tree = Tree(text)
    found = tree.repeats(call(tree, "f"))
    return type(found).__name__ if found else None


def test_what_repeats_a_call():
    assert repeats("for x in f(1):\n    pass") is None
    assert repeats("for x in y:\n    f(x)") == "For"
    assert repeats("for x in y:\n    pass\nelse:\n    f(x)") is None
    assert repeats("while f(1):\n    pass") == "While"
    assert repeats("[x for x in f(1)]") is None
    assert repeats("[f(x) for x in y]") == "ListComp"
    assert repeats("[x for x in y if x in f(1)]") == "ListComp"
    assert repeats("[x for x in y for z in f(x)]") == "ListComp"
    assert repeats("for x in y:\n    def g():\n        f(x)") is None


def test_what_a_loop_may_change():
    (loop,) = ast.parse(
        "for x in y:\n    a.append(x); b[0] = x; c += 1; d.e = 2; g(h); k.sum()"
    ).body
    assert changed(loop) == {"x", "a", "b", "c", "d.e"}


POLLS = """
def a(self):
    while not self.done:
        time.sleep(0.5)
async def b(self):
    while True:
        if self.box:
            break
        await asyncio.sleep(0)
"""
NO_POLLS = """
def a(self):
    while True:
        self.work()
        time.sleep(1)
def b(self):
    while self.running:
        self.work()
        time.sleep(1)
def c(self):
    for _ in range(9):
        time.sleep(1)
def d(self):
    while True:
        time.sleep(1)
"""


def test_a_loop_that_polls():
    found = [poll for part in ast.parse(POLLS).body for poll in polling._polls(part)]
    assert [(poll.until, poll.seconds, poll.is_async, poll.line) for poll in found] == [
        ("self.done", 0.5, False, 4),
        ("self.box", 0.0, True, 9),
    ]
    assert not [poll for part in ast.parse(NO_POLLS).body for poll in polling._polls(part)]


@pytest.mark.parametrize(
    "body, is_found",
    [
        ("    x = await get(url)\n    out.append(x)", True),
        ("    x = await get(url)\n    await put(x)", False),
        ("    token = await get(url, token)", False),
        ("    x = await get(url)\n    if x:\n        break", False),
        ("    x = await get(url)\n    time.sleep(1)", False),
    ],
)
def test_awaits_that_could_be_started_together(body, is_found):
    loop = f"async def f(urls):\n  for url in urls:\n{body}"
    (function,) = ast.parse(loop).body
    assert bool([*event_loop._awaits(function)]) is is_found


def test_awaits_beside_others_are_no_sequence():
    text = "async def f(u):\n  t = asyncio.create_task(g())\n  for x in u:\n    await get(x)"
    assert not [*event_loop._awaits(ast.parse(text).body[0])]


def test_lists_are_told_from_sets():
    text = (
        "a = []\nb = set()\nc = [1]\nd = deque()\nself.e = list(x)\nc = {1}\nd.append(1)\nf.add(2)"
    )
    assert whole_searches._lists(ast.parse(text)) == {"a", "e"}


@pytest.mark.parametrize("pattern", [r"^(\w+[ -]?)+:\s", r"(a+)+$", r"((\d+)?)*x", r"((?:b*)c?)*"])
def test_a_pattern_with_a_repetition_of_a_repetition(pattern):
    assert whole_searches.is_ambiguous(pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"(\w+,)+", r"[a-z]+", r"\b(\d+)\.(\d\d)\b", r"(ab)*", r"(\w{1,3} )+", r"(", r"(a+b)*"],
)
def test_a_pattern_without_one(pattern):
    assert not whole_searches.is_ambiguous(pattern)


TABLES = '''
SCHEMA = """
CREATE TABLE item (id INTEGER PRIMARY KEY, owner INTEGER, code TEXT UNIQUE, size INTEGER);
CREATE TABLE place (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
"""
INDEX = "CREATE INDEX sizes ON item (size, owner)"
'''


MADE = [statement for text in (TABLES.split('"""')[1], TABLES.split('"')[-2])
        for statement in query_plans._makers(text)]  # fmt: skip


@pytest.mark.parametrize(
    "where, expected",
    [
        ("item WHERE owner = ?", ("item", "owner", "owner", False)),
        ("item WHERE lower(code) = :code", ("item", "lower(code)", "code", True)),
        ("item WHERE abs(owner) IN (?, ?)", ("item", "abs(owner)", "owner", False)),
        ("place WHERE b = ?", ("place", "b", "b", False)),
        ("item WHERE id = ?", None),
        ("item WHERE code = ? AND owner = ?", None),
        ("item WHERE size = ?", None),
        ("place WHERE a = ?", None),
        ("item WHERE rowid = ?", None),
        ("elsewhere WHERE owner = ?", None),
        ("item", None),
        ("item WHERE length(code) > ?", None),
    ],
)
def test_a_query_that_reads_a_whole_table_as_sqlite_plans_it(where, expected):
    assert query_plans.scan(MADE, f"SELECT * FROM {where}") == expected


def test_an_index_of_what_a_function_makes_is_one():
    made = [*MADE, "CREATE INDEX lower_codes ON item (lower(code))"]
    assert query_plans.scan(made, "SELECT size FROM item WHERE lower(code) = ?") is None


@pytest.mark.parametrize(
    "values",
    [
        "randomblob(2000000) AS code",
        "randomblob(900000) AS code FROM item JOIN item AS other JOIN item AS third",
    ],
)
def test_a_table_made_of_a_query_takes_little_memory(values):
    """The statements are a program's, of which a database from elsewhere may have any."""
    made = [
        "CREATE TABLE item AS VALUES (1), (2), (3), (4), (5)",
        f"CREATE TABLE part AS SELECT {values}",
    ]
    query = "SELECT * FROM part WHERE code = ?"
    assert query_plans.scan(made, query) is None
    assert query_plans.scan(["CREATE TABLE part AS SELECT 1 AS code"], query) is not None


STORES = """
def store(con, rows, each=True, size=100):
    pending = 0
    for n, row in enumerate(rows):
        con.execute("INSERT INTO t VALUES (?)", row)
        pending += 1
        if {condition}:
            con.commit()
"""
STORES_ONE = """
class Importer:
    def __init__(self, each):
        self.each, self.pending = each, 0
    def add(self, row, each=True):
        self.pending += 1
        if {condition}:
            self.con.commit()
    def run(self, rows, each):
        for n, row in enumerate(rows):
            self.add({given})
Importer(True).run(read(), True)
"""


@pytest.mark.parametrize(
    "condition, is_chosen",
    [
        ("each", False),
        ("size == 1 and not SLOW", False),
        ("n % size == 0", True),
        ("pending >= size", True),
        ("each and len(rows) > n", True),
        ("row.is_last", True),
    ],
)
def test_only_what_changes_in_a_loop_chooses_rows(condition, is_chosen):
    tree = Tree(STORES.format(condition=condition))
    commit = call(tree, "commit")
    assert each_row._is_chosen(tree, commit, tree.repeats(commit)) is is_chosen


@pytest.mark.parametrize(
    "condition, given, is_chosen",
    [
        ("self.each", "row", False),
        ("each", "row", False),
        ("each", "row, each", False),
        ("each", "row, each=True", False),
        ("each", "row, n % 100 == 0", True),
        ("each", "*row", True),
        ("row.is_last", "row", True),
        ("self.pending % 100 == 0", "row", True),
    ],
)
def test_only_what_changes_between_calls_chooses_rows(condition, given, is_chosen):
    tree = Tree(STORES_ONE.format(condition=condition, given=given))
    commit = call(tree, "commit")
    assert each_row._is_chosen(tree, commit, tree.function(commit)) is is_chosen


@pytest.mark.parametrize(
    "text, row",
    [
        ("x[k:k + 1]", "x"),
        ("x[k].reshape(1, -1)", "x"),
        ("x[k:k + 2]", None),
        ("x[j:j + 1]", None),
        ("x[k]", None),
    ],
)
def test_a_single_row(text, row):
    assert piecemeal._single_row(ast.parse(text, mode="eval").body, {"k"}) == row


def mask(text):
    tree = Tree(text)
    found = [part for part in ast.walk(tree.module) if isinstance(part, ast.Subscript)]
    return any(piecemeal._is_mask(tree, part) for part in found)


def test_a_table_that_is_filtered_for_each_key():
    assert mask("for k in keys:\n    use(t[t['key'] == k])")
    assert mask("def f(self, k):\n    return self.t[self.t.key == k]")
    assert not mask("for k in keys:\n    use(t[t['key'] == 3])")
    assert not mask("for k in keys:\n    use(t[u['key'] == k])")
    assert not mask("for k in keys:\n    use(t[k])")


def test_what_a_loop_hands_to_others_may_change():
    (loop,) = ast.parse("for x in y:\n    shuffle(a); z = sorted(a); w = len(b); self.c.go()").body
    assert same_work._perhaps_changed(loop) >= {"a", "self", "x", "z", "w"}
    assert "b" not in same_work._perhaps_changed(loop)


@pytest.mark.parametrize(
    "decorator, limit",
    [
        ("functools.lru_cache(maxsize=64)", 64),
        ("lru_cache", 128),
        ("lru_cache(32)", 32),
        ("lru_cache(maxsize=None)", None),
        ("cache", None),
    ],
)
def test_the_limit_of_a_cache(decorator, limit):
    assert same_work._limit(ast.parse(f"@{decorator}\ndef f(x): ...").body[0]) == limit


ELEMENTS = """
import numpy as np
def f(rows, index, other):
    work = np.zeros((9, 9))
    for y in range(9):
        for x in range(9):
            work[y, x] = work[y - 1, x] + 1
            work[index[y]] += rows[y]
            other[y] = 1
            work[y] = 2
            work[y, 1:] = 3
"""


def test_elements_of_arrays():
    tree = Tree(ELEMENTS)
    kinds = {
        ast.unparse(part): piecemeal._element(tree, part)
        for part in ast.walk(tree.module)
        if isinstance(part, ast.Subscript)
    }
    assert {text for text, kind in kinds.items() if kind} == {
        "work[y, x]", "work[y - 1, x]", "work[index[y]]",
    }  # fmt: skip
    assert kinds["work[index[y]]"] == "scatter"


@pytest.mark.parametrize(
    "body, is_found",
    [
        ("low = sorted(a)[0]", True),
        ("if x in set(a): n += 1", True),
        ("deck = sorted(a); deck.pop()", False),
        ("deck = list(a); shuffle(deck)", False),
        ("shuffle(a); low = sorted(a)[0]", False),
        ("a.append(x); low = sorted(a)[0]", False),
        ("low = sorted(x)[0]", False),
        ("low = sorted(g(a))[0]", False),
        ("n += sum(a)", True),
    ],
)
def test_what_a_loop_computes_of_what_does_not_change(body, is_found):
    tree = Tree(f"def f(a, y):\n    n = 0\n    for x in y:\n        {body}")
    calls = [part for part in ast.walk(tree.module) if isinstance(part, ast.Call)]
    assert any(same_work.is_unchanged(tree, part) for part in calls) is is_found


PACED = """
def a():
    while time.monotonic() < due:
        time.sleep(0.001)
def b(path):
    while not os.path.exists(path):
        time.sleep(0.02)
def c(self):
    while not self.ready():
        time.sleep(0.002)
def d(self):
    while True:
        if time.time() > self.end:
            return
        time.sleep(0.1)
def ready(self):
    return (time.monotonic() - self.begin) * self.rate > 1
"""
TIMED = """
def e(self):
    while not self.done and time.monotonic() < end:
        time.sleep(0.5)
"""


def test_nobody_tells_the_time_or_of_another_program():
    clocks = polling._reading_clocks(ast.parse(PACED))
    assert "ready" in clocks
    for text, found in ((PACED, []), (TIMED, ["self.done"])):
        polls = [poll for part in ast.parse(text).body for poll in polling._polls(part, clocks)]
        assert [poll.until for poll in polls] == found


LIST_IN = """
def load():
    words = []
    words.append(1)
    return set(words)
def known(paths, words):
    return [path for path in paths if path in words]
words = load()
known(paths, words)
"""


@pytest.mark.parametrize(
    "text, is_found",
    [
        ("def f(rows):\n  seen = []\n  for x in rows:\n    seen.append(x)\n    x in seen", True),
        ("def f(x, seen=[]):\n  seen.append(x)\n  return x in seen", True),
        (LIST_IN, False),
        ("OPS = ['+', '-']\ndef f(text):\n  for x in text:\n    x in OPS", False),
        ("def f(rows):\n  for row in rows:\n    seen = row.split()\n    'x' in seen", False),
        ("def f(rows):\n  seen = rows.split()\n  return 'x' in seen", False),
        ("def f(rows):\n  seen = sorted(rows)\n  return [x for x in rows if x in seen]", True),
    ],
)
def test_a_list_is_searched_again_and_again(text, is_found):
    tree = Tree(text)
    *_, node = (part for part in ast.walk(tree.module) if isinstance(part, ast.Compare))
    assert (whole_searches._in_list(tree, node) is not None) is is_found


@pytest.mark.parametrize(
    "text, is_found",
    [
        ("def f(q):\n  q = list(q)\n  while q:\n    q.pop(0)", True),
        ("def f(q):\n  q = list(q)\n  while len(q) > 0:\n    q.pop(0)", True),
        ("w = []\ndef f(x):\n  w.append(x)\n  if len(w) > 5:\n    w.pop(0)", False),
        ("w = []\ndef f(x, n):\n  w.append(x)\n  if len(w) > n:\n    w.pop(0)", False),
        ("n = 9000\nw = []\ndef f(x):\n  w.append(x)\n  if len(w) > n:\n    w.pop(0)", True),
    ],
)
def test_a_short_window_moves_little(text, is_found):
    tree = Tree(text)
    assert (whole_searches._of_list(tree, call(tree, "pop")) is not None) is is_found


@pytest.mark.parametrize(
    "text, is_found",
    [
        ("def f(self, x):\n  self.a.append(x)\n  self.a.sort()", True),
        ("def f(rows, x):\n  a = list(rows)\n  a.append(x)\n  a.sort()", False),
        ("def f(a, rows):\n  for x in rows:\n    a.append(x)\n    a.sort()", True),
    ],
)
def test_a_new_list_is_sorted_once(text, is_found):
    tree = Tree(text)
    assert (whole_searches._sorted_anew(tree, call(tree, "sort")) is not None) is is_found


@pytest.mark.parametrize(
    "text, is_found",
    [
        ("def f(v, n):\n  for x in v:\n    m = max(v)\n    n.append(x)", True),
        ("v = [1]\ndef g():\n  v[0] = 2\ndef f(n):\n  for x in n:\n    g()\n    m = max(v)", False),
        ("def f(w, n):\n  v = w.cells\n  for x in n:\n    w.step()\n    m = max(v)", False),
        (
            "def f(model, n):\n  opt = SGD(model.parameters())\n  v = model.weight\n"
            "  for x in n:\n    opt.step()\n    m = max(v)",
            False,
        ),
        (
            "import numpy as np\ndef f(n):\n  v = np.ones(9)\n  o = np.ones(9)\n"
            "  for x in n:\n    o += max(v)",
            True,
        ),
    ],
)
def test_what_does_not_change_in_a_loop(text, is_found):
    tree = Tree(text)
    assert same_work.is_unchanged(tree, call(tree, "max")) is is_found


@pytest.mark.parametrize(
    "text, matrix, is_found",
    [
        ("for b in c:\n  x = solve(J, b)", "J", False),
        ("def fill(x, J):\n  J[0] = x\nfor b in c:\n  fill(b, J)\n  x = solve(J, b)", "J", True),
        ("for b in c:\n  np.copyto(J, b)\n  x = solve(J, b)", "J", True),
        ("class A:\n def f(self, b):\n  return solve(self.K, b)", "self.K", False),
        (
            "class A:\n def g(self):\n  K = self.K\n  K[:] = 1\n"
            " def f(self, b):\n  return solve(self.K, b)",
            "self.K",
            True,
        ),
    ],
)
def test_a_matrix_that_is_filled_again(text, matrix, is_found):
    tree = Tree(text)
    assert same_work._is_filled(tree, call(tree, "solve"), matrix) is is_found


@pytest.mark.parametrize(
    "text, is_found",
    [
        ("while x:\n  x = x[1:]", True),
        ("while x:\n  x = x[:-1]", True),
        ("while x:\n  x = x[k:]", True),
        ("while x:\n  y, x = x[:k], x[k:]", True),
        ("def take(self, k):\n  self.x = self.x[k:]", True),
        ("def take(self):\n  self.x = self.x[len(self.token):]", True),
        ("def take(x, k):\n  x = x[k:]", False),
        ("def take(self, k):\n  self.x = self.y[k:]", False),
        ("while x:\n  x = x[0:]", False),
        ("def add(self, y):\n  self.x.append(y)\n  self.x = self.x[-9:]", False),
        ("def add(self, y):\n  self.x.append(y)\n  self.x = self.x[len(self.x) - 9:]", False),
        ("def add(self, y, k):\n  self.x.append(y)\n  self.x = self.x[:k]", False),
        ("while x:\n  x = x[:9]", False),
        ("x = memoryview(x)\nwhile x:\n  x = x[sent:]", False),
    ],
)
def test_what_is_left_of_a_text_is_copied_and_a_window_is_not(text, is_found):
    tree = Tree(text)
    slices = (
        part for part in ast.walk(tree.module)
        if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice)
    )  # fmt: skip
    assert any(whole_searches.is_rest(tree, part) for part in slices) is is_found


def test_a_header_before_a_record_is_no_single_byte():
    loops = [
        Tree(f"while f:\n  a = f.read(8)\n  {rest}").module.body[0]
        for rest in ("b = f.read(size)", "b = unpack('<I', a)")
    ]
    assert [piecemeal._reads_records(loop) for loop in loops] == [True, False]


def test_a_dict_of_pairs_is_no_array():
    text = "import numpy\na = {}\nb = numpy.ones((2, 2))\nif (1, 2) in c: pass"
    assert piecemeal._dicts(ast.parse(text)) == {"a", "c"}


@pytest.mark.parametrize(
    ("text", "is_later"),
    [
        ("async def f(x): return x", True),
        ("def f(xs):\n    for x in xs:\n        yield x", True),
        ("def f(xs): yield from xs", True),
        ("def f(xs):\n    def g():\n        yield 1\n    return [*g(), *xs]", False),
    ],
    ids=["coroutine", "generator", "delegates", "has a generator"],
)
def test_the_time_per_call_says_nothing_of_what_does_its_work_later(text, is_later):
    """The first calls of many at a time begin before any of them has computed."""
    assert source.suspends(ast.parse(text).body[0]) is is_later
