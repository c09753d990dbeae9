import pytest

from taupy.pprof import callgraph
from taupy.pprof.figures import Order
from tests.unit.pprof.build import answer, tree

# main 1 => f 2 => g 4, main => g 8; and, in recursion, f => f 16 => g 32.
ROWS = tree(
    (0, "main", 1, 1),
    (1, "f", 2, 2),
    (2, "g", 3, 4),
    (2, "f", 5, 16),
    (3, "g", 7, 32),
    (1, "g", 11, 8),
)


def lines(view):
    """Relation, name -> percent, exclusive, inclusive, calls, subroutines."""
    return {(line[0], line[7]): tuple(line[1:6]) for line in view.rows}


def test_callers_show_for_whom_a_routine_worked():
    made = lines(callgraph.callers(answer(ROWS), "g", Order()))
    assert made == {
        ("itself", "g"): (100.0, 44, 44, 21, 0),
        ("caller", "f"): (pytest.approx(100 * 36 / 44), 36, 36, 10, 0),
        ("caller", "main"): (pytest.approx(100 * 8 / 44), 8, 8, 11, 0),
    }
    assert [one for _, one in made] == ["g", "f", "main"]


def test_in_recursion_a_call_inside_a_call_of_the_same_pair_counts_once():
    made = lines(callgraph.callers(answer(ROWS), "f", Order()))
    assert made[("itself", "f")] == (100.0, 18, 54, 7, 15)
    assert made[("caller", "main")] == (100.0, 2, 54, 2, 8)
    assert made[("caller", "f")] == (pytest.approx(100 * 48 / 54), 16, 48, 5, 7)
    deeper = tree((0, "f", 1, 1), (1, "f", 1, 2), (2, "f", 1, 4))
    made = lines(callgraph.callers(answer(deeper), "f", Order()))
    assert made[("caller", "f")] == (pytest.approx(100 * 6 / 7), 6, 6, 2, 1)
    assert made[("caller", "(root)")] == (100.0, 1, 7, 1, 1)


def test_callees_show_where_a_routines_time_went():
    view = callgraph.callees(answer(ROWS), "f", Order())
    assert view.title == "CALLEES of f:"
    assert lines(view) == {
        ("itself", "f"): (100.0, 18, 54, 7, 15),
        ("callee", "f"): (pytest.approx(100 * 48 / 54), 16, 48, 5, 7),
        ("callee", "g"): (pytest.approx(100 * 36 / 54), 36, 36, 10, 0),
    }


def test_a_line_is_the_same_seen_from_either_side():
    for caller, callee in (("main", "f"), ("f", "g"), ("f", "f"), ("main", "g")):
        one = lines(callgraph.callers(answer(ROWS), callee, Order()))[("caller", caller)]
        other = lines(callgraph.callees(answer(ROWS), caller, Order()))[("callee", callee)]
        assert one[1:] == other[1:]


def test_threads_are_summed():
    rows = [*ROWS, *tree((0, "root", 1, 0), (1, "g", 1, 6), place=(0, 0, 1))]
    made = lines(callgraph.callers(answer(rows), "g", Order()))
    assert made[("itself", "g")][1:4] == (50, 50, 22)
    assert made[("caller", "root")][1:4] == (6, 6, 1)


def test_lines_follow_the_order_and_the_limit():
    view = callgraph.callees(answer(ROWS), "main", Order(sort="calls", limit=1))
    assert [line[7] for line in view.rows] == ["main", "g", "-others-"]


def test_what_calls_nobody_has_no_callees():
    view = callgraph.callees(answer(ROWS), "g", Order())
    assert [line[0] for line in view.rows] == ["itself"]
