"""What grows while a routine works on all of it, told from its source."""

import ast
from types import SimpleNamespace

import pytest

from taupy.analysis.findings import growing_history
from taupy.analysis.findings.calls import Sum
from taupy.model.rows import TimerRow

CLASS = """
class History:
    def __init__(self):
        self.kept = []
    def add(self, value):
        self.kept.append(value)
    def {name}(self{more}):
        {body}
"""


def kept(text, name):
    """What is said of a routine beside which all others of the file are called as often."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    timers = [TimerRow(node.name, node.name, "a.py", node.lineno, "") for node in nodes]
    calls = SimpleNamespace(
        parent=[-1] + [0] * len(timers),
        timer=[None, *timers],
        calls=[1] + [500] * len(timers),
        rows_of=lambda timer: [1 + timers.index(timer)],
        children=lambda row: range(1, len(timers) + 1) if row == 0 else [],
    )
    trial = SimpleNamespace(calls=calls, source=lambda timer: text)
    (timer,) = [timer for timer in timers if timer.short_name == name]
    (routine,) = [node for node in nodes if node.name == name]
    return growing_history._kept(trial, timer, routine)


@pytest.mark.parametrize(
    "body",
    [
        "return sum(self.kept)",
        "return torch.cat(self.kept).median()",
        "for x in self.kept: print(x)",
        "return [x for x in self.kept]",
        "return sum(map(len, self.kept))",
    ],
)
def test_a_routine_that_goes_through_all_that_another_adds_to(body):
    assert kept(CLASS.format(name="value", more="", body=body), "value") == "self.kept"


@pytest.mark.parametrize(
    "body",
    ["return sum(self.kept[-20:])", "return self.kept[-1]", "return len(self.kept)",
     "return sum(self.others)"],
)  # fmt: skip
def test_a_routine_that_takes_a_part_is_none(body):
    assert kept(CLASS.format(name="value", more="", body=body), "value") is None


@pytest.mark.parametrize(
    "body",
    ["self.kept.pop(0)", "self.kept.clear()", "self.kept = self.kept[-100:]", "del self.kept[:9]"],
)
def test_what_is_bounded_anywhere_in_the_file_is_none(body):
    text = CLASS.format(name="value", more="", body="return sum(self.kept)")
    assert kept(f"{text}    def trim(self):\n        {body}\n", "value") is None


def test_a_deque_with_a_largest_size_is_none():
    text = CLASS.format(name="value", more="", body="return sum(self.kept)")
    assert kept(text.replace("= []", "= deque(maxlen=9)"), "value") is None


@pytest.mark.parametrize(
    "body",
    ["self.x = np.vstack([self.x, row])", "self.x = np.append(self.x, row)",
     "self.x = torch.cat((self.x, row))", "self.x = pd.concat([self.x, row])"],
)  # fmt: skip
def test_an_array_that_is_joined_to_itself(body):
    assert kept(CLASS.format(name="learn", more=", row", body=body), "learn") == "self.x"


def test_arrays_that_are_joined_to_each_other_are_none():
    body = "self.x = np.vstack([row, row])"
    assert kept(CLASS.format(name="learn", more=", row", body=body), "learn") is None


def test_an_argument_that_the_routine_itself_adds_to():
    text = "def step(history, x):\n    history.insert(0, x)\n    return sum(history)\n"
    assert kept(text, "step") == "history"
    assert kept(text.replace("history.insert(0, x)", "print(x)"), "step") is None


def add_grows(spills=540_000, queued=0.0):
    """Whether a routine is said to grow whose last calls took 15 times as long as the first."""
    trial, add = with_growth(spills, queued)
    return growing_history._growing(trial) == [add]


def with_growth(spills, queued):
    """A trial, and its routine whose last calls took 15 times as long as the first."""
    add, spill = (
        TimerRow(name, name, "a.py", line, "") for line, name in enumerate(("add", "spill"))
    )
    calls = SimpleNamespace(
        timer=[add, spill],
        calls=[540_000, spills],
        inclusive=[100, 90],
        children=lambda row: [1] if row == 0 else [],
        below=lambda row: [0, 1],
        lasting=lambda least: [add],
        of_timer=lambda timer: {"main": Sum(100, 540_000, (0,))},
        entries=lambda timer: 540_000,
    )
    trial = SimpleNamespace(
        calls=calls, worked_ns=100, is_own=lambda timer: True, states={},
        growth={add: SimpleNamespace(grows=True, stays=False, first_ns=80.0, last_ns=1200.0)},
        source=lambda timer: None, queued=lambda thread: queued,
        wall_ns=100, finding=lambda kind, timer, *_, **of: timer,
    )  # fmt: skip
    return trial, add


@pytest.mark.parametrize(("spills", "grows"), [(4, False), (540_000, True)])
def test_what_a_few_calls_do_for_many_is_no_growth(spills, grows):
    """A routine that writes out what it has collected takes longer when that is due."""
    assert add_grows(spills) == grows


@pytest.mark.parametrize(("queued", "grows"), [(0.5, True), (0.86, True), (0.87, False)])
def test_what_waits_for_a_processor_may_explain_is_no_growth(queued, grows):
    """With 0.87 of the time in the queue, 1,200 ns have 156 of CPU time, and half of that is less
    than the 80 ns of the first calls, which may have waited for nothing."""
    assert add_grows(queued=queued) == grows


@pytest.mark.parametrize(("queued", "grows"), [(0.5, True), (0.86, True), (0.87, False)])
def test_nor_is_it_where_all_that_was_kept_is_processed(queued, grows, monkeypatch):
    trial, add = with_growth(540_000, queued)
    monkeypatch.setattr(growing_history.source, "function", lambda *_: ast.parse(""))
    for name in ("_kept", "hottest", "_attempt"):
        monkeypatch.setattr(growing_history, name, lambda *_: "self.days")
    assert [*growing_history._processed(trial)] == [(add, add)] * grows


PRIME = """
import math
FOUND = []
def is_prime(n):
    if n % 2 == 0:
        return n == 2
    for k in range(3, int(math.sqrt(n)) + 1, 2):
        if n % k == 0:
            return False
    return True
"""
STEPS = """
def steps(n, most=100):
    count = 0
    while n > 1 and count < most:
        n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
    return count
"""


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        (PRIME, True),
        (STEPS, True),
        (PRIME.replace("return True", "FOUND.append(n)"), False),
        (PRIME.replace("range(3, int(math.sqrt(n)) + 1, 2)", "FOUND"), False),
        (PRIME.replace("(n):", "(n, found):").replace("range(3, int(math.sqrt(n)) + 1, 2)",
                                                       "found"), False),
        (PRIME.replace("(n):", "(self, n):"), False),
        (PRIME.replace("(n):", "(*n):"), False),
        (PRIME.replace("return True", "return prepared(n)"), False),
        (STEPS.replace("count = 0", "global last"), False),
        ("def total(values, x):\n    return ((values - x) % 2).sum() if x > 0 else 0\n", False),
        ("def some(values):\n    return 1 if (values % 2).any() else 0\n", False),
        ("def now():\n    return 1\n", False),
    ],
)  # fmt: skip
def test_what_has_nothing_but_numbers_has_no_history(text, alone):
    """Larger numbers may take longer, whatever was done before."""
    module = ast.parse(text)
    (function,) = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    assert growing_history._has_numbers_alone(module, function) == alone
