"""Programs that are counted do what they did before, and what they did is counted."""

from __future__ import annotations

import ast
import textwrap

import pytest

from taupy import count

numpy = pytest.importorskip("numpy")


class Noted:
    """Stands in for the profile's user events."""

    def __init__(self):
        self.totals = {}

    def user_event(self, name, unit):
        noted = self

        class Event:
            def sample(self, value):
                noted.totals[name] = noted.totals.get(name, 0) + value

        return Event()


@pytest.fixture
def noted(monkeypatch):
    here = Noted()
    monkeypatch.setattr(count.taupy, "user_event", here.user_event)
    return here


def run(source, **names):
    space = {"np": numpy, count._HELPER: count, **names}
    exec(count.compiled(textwrap.dedent(source), "prog.py"), space)
    return space


@pytest.mark.parametrize(
    ("source", "flop"),
    [
        ("c = np.ones((4, 5)) @ np.ones((5, 6))", 2 * 4 * 5 * 6),
        ("c = np.ones((4, 5)).dot(np.ones((5, 6)))", 2 * 4 * 5 * 6),
        ("c = np.matmul(np.ones((3, 4, 5)), np.ones((5, 6)))", 3 * 2 * 4 * 5 * 6),
        ("c = np.ones(7) + 1.0 * np.ones(7)", 14),
        ("a = np.ones(7)\na -= 0.5 / np.ones(7)", 14),
        ("a = np.ones((3, 7))\na[0] *= 2.0\na[:, 1:3] += 1.0", 7 + 6),
        ("c = np.exp(np.ones((2, 3))).sum()", 6 + 5),
        ("c = np.einsum('ij,jk->ik', np.ones((2, 3)), np.ones((3, 4)))", 2 * 2 * 3 * 4),
        ("c = np.tensordot(np.ones((2, 3)), np.ones((3, 4)), 1)", 2 * 2 * 3 * 4),
        ("c = np.outer(np.ones(3), np.ones(4))", 12),
        ("c = np.linalg.norm(np.ones(9))", 17),
        ("c = np.ones(9, complex) + np.ones(9, complex)", 2 * 9),
        ("c = np.ones(9, complex) * np.ones(9, complex)", 6 * 9),
        ("c = np.ones((4, 5), complex) @ np.ones((5, 6), complex)", 8 * 4 * 5 * 6),
        ("c = np.cumsum(np.ones(9))", 9),
        ("c = np.maximum(np.ones(5), 0.0).copy()", 0),
        ("c = 2 * 3 + len('abc' * 4)", None),
        ("c = np.arange(5) + 1", None),  # integers are no flop
    ],
)
def test_operations_of_arrays_are_counted(noted, source, flop):
    run(source)
    assert noted.totals.get("flop_fp64") == flop


def test_precisions_and_bytes_follow_the_arrays(noted):
    run("c = np.ones((4, 5), np.float32) @ np.ones((5, 6), np.float32)")
    assert noted.totals == {"flop_fp32": 240, "bytes_dram": 4 * (20 + 30 + 24)}


def test_functions_that_no_formula_counts_are_named(noted, monkeypatch):
    monkeypatch.setattr(count, "_unknown", {})
    run("a = np.eye(3)\nc = np.linalg.solve(a, np.fft.fft(a).real)\nd = [1].copy()")
    assert count._unknown == {"solve": 1, "fft": 1}
    assert noted.totals == {}


PROGRAM = """
class Box:
    total = 1
    def __iadd__(self, other):
        self.total += other
        return self
    def __add__(self, other): return NotImplemented
class Right:
    def __radd__(self, other): return "radd"
box = Box()
alias = box
box += 5
box.total *= 3
table = {"a": [1]}
table["a"] += (2, 3)
items = [n * 2 for n in range(3) if n + 1]
text = "%s %s" % (1, 2)
other = Box() + Right()
def outer():
    n = 1
    def inner():
        nonlocal n
        n += 1
        return n
    return inner() + n
nested = outer()
class Child(Box):
    def __init__(self): super().__init__(); self.copy = lambda: "mine"
copied = Child().copy()
log = []
def f(x): log.append(x); return x
f(1) + f(2) * f(3)
matrix = [[1, 2], [3, 4]]
matrix[f(0)][f(1)] += f(10)
try: 1 / 0
except ZeroDivisionError as error: caught = type(error).__name__
power = 2 ** 3 ** 2
"""


def test_a_counted_program_does_what_it_did(noted):
    plain: dict = {}
    exec(compile(PROGRAM, "prog.py", "exec"), plain)
    counted = run(PROGRAM)
    for name in ("table", "items", "text", "other", "nested", "copied", "caught", "power"):
        assert counted[name] == plain[name], name
    assert counted["box"] is counted["alias"]
    assert counted["box"].total == plain["box"].total == 18
    assert counted["matrix"] == plain["matrix"]
    assert counted["log"] == plain["log"]
    assert noted.totals == {}


def test_lines_stay_where_they_were():
    source = "x = 1\n\ny = (x +\n     x)\ny += 1\nz = abs(sum([y]))\n"

    def lines(code):
        return {line for *_, line in code.co_lines() if line}

    assert lines(count.compiled(source, "p.py")) <= lines(compile(source, "p.py", "exec"))


def test_future_imports_and_docstrings_stay_first():
    source = '"""Doc."""\nfrom __future__ import annotations\nx: Undefined = 1 + 1\n'
    space = run(source)
    assert space["__doc__"] == "Doc."
    assert space["x"] == 2


def test_every_kind_of_index_can_be_added_to(noted):
    source = "a = np.zeros((4, 4, 4))\na[1:3, ..., ::2] += 1.0\na[(0, 1)] += 1.0\na[None, 0] += 1.0"
    plain: dict = {"np": numpy}
    exec(source, plain)
    assert (run(source)["a"] == plain["a"]).all()
    assert isinstance(ast.parse(source), ast.Module)
