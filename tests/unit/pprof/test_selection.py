import pytest

from taupy.errors import UsageError
from taupy.pprof.selection import (
    Selection,
    name_test,
    one_routine,
    routine_test,
    selected_threads,
)
from tests.unit.pprof.build import flat, thread

THREADS = [thread(0, 0, 0), thread(0, 0, 1), thread(0, 1, 7, kind="stream"), thread(1, 0, 0)]
ROWS = [
    flat("main [{train.py}{10}]", 1, 0, 1, 1),
    flat("Net.forward [{net.py}{3}]", 1, 0, 1, 1, groups="PYTHON|PHASE"),
    flat("Loss.forward [{net.py}{9}]", 1, 0, 1, 1),
    flat("<module> [{net.py}{1}]", 1, 0, 1, 1),
    flat("<module> [{train.py}{1}]", 1, 0, 1, 1),
    flat("len", 1, 0, 1, 1, groups="PYTHON_C"),
]


def chosen(*patterns, nodes=()):
    found = selected_threads(THREADS, Selection(threads=patterns, nodes=nodes))
    return [(one.node, one.context, one.thread) for one in found]


def meant(*patterns, groups=()):
    test = routine_test(ROWS, Selection(names=patterns, groups=groups))
    return [row.short_name for row in ROWS if test(row)]


def refusal(ask, *args, **named):
    with pytest.raises(UsageError) as caught:
        ask(*args, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- threads -----------------------------------------------------------------


def test_threads_are_named_by_node_context_and_thread():
    assert chosen("0.0.1") == [(0, 0, 1)]
    assert chosen("0.*.*") == [(0, 0, 0), (0, 0, 1), (0, 1, 7)]
    assert chosen("*.0.0") == [(0, 0, 0), (1, 0, 0)]
    assert chosen("1") == [(1, 0, 0)]
    assert chosen("0.1") == [(0, 1, 7)]
    assert chosen("1", "0.0.1") == [(0, 0, 1), (1, 0, 0)]
    assert chosen(nodes=(1,)) == [(1, 0, 0)]
    assert chosen("*.*.0", nodes=(0,)) == [(0, 0, 0)]
    assert len(chosen()) == 4


def test_a_thread_that_is_not_there_is_refused_with_those_that_are():
    assert refusal(chosen, "0.0.9") == (
        "no thread matches '0.0.9' (the trial has: 0.0.0, 0.0.1, 0.1.7, 1.0.0)"
    )
    assert refusal(chosen, nodes=(3,)) == "no node 3 (the trial has: 0, 1)"
    for wrong in ("x", "0.0.0.0", "-1", "", "²"):
        assert "write NODE.CONTEXT.THREAD" in refusal(chosen, wrong)


# --- routines ----------------------------------------------------------------


def test_a_plain_text_is_a_part_of_the_full_name():
    assert meant("forward") == ["Net.forward", "Loss.forward"]
    assert meant("train.py") == ["main", "<module>"]
    assert meant("[{net.py}{3}]") == ["Net.forward"]


def test_a_glob_is_the_whole_of_a_name_and_brackets_are_letters():
    assert meant("*.forward") == ["Net.forward", "Loss.forward"]
    assert meant("*[{net.py}*") == ["Net.forward", "Loss.forward", "<module>"]
    assert meant("?ain") == ["main"]
    assert meant("*a*", groups=("python_c", "phase")) == ["Net.forward"]


def test_between_slashes_stands_a_regular_expression():
    assert meant(r"/^(len$|main\b)/") == ["main", "len"]
    assert "is not a regular expression" in refusal(name_test, "/(/")


def test_groups_count_whatever_their_letters_size():
    assert meant(groups=("python_c",)) == ["len"]
    assert meant(groups=("PHASE", "PYTHON_C")) == ["Net.forward", "len"]
    assert refusal(meant, groups=("GPU",)) == (
        "no group 'GPU' (there are: PHASE, PYTHON, PYTHON_C)"
    )


def test_without_a_wish_there_is_no_test():
    assert routine_test(ROWS, Selection()) is None


def test_a_name_that_is_not_there_is_refused_with_what_comes_close():
    assert refusal(meant, "Net.forwrad") == (
        "no routine matches 'Net.forwrad' (5 names, such as Net.forward [{net.py}{3}], "
        "Loss.forward [{net.py}{9}]); `taupy pprof -l` lists them"
    )


def test_one_routine_is_found_by_any_name_that_only_it_has():
    assert one_routine(ROWS, "Net.forward [{net.py}{3}]") == "Net.forward [{net.py}{3}]"
    assert one_routine(ROWS, "Net.forward") == "Net.forward [{net.py}{3}]"
    assert one_routine(ROWS, "len") == "len"
    assert one_routine(ROWS, "ma*") == "main [{train.py}{10}]"
    only = [flat("Net.forward [{net.py}{3}]", 1, 0, 1, 1), flat("forwards", 1, 0, 1, 1)]
    assert one_routine(only, "forward") == "Net.forward [{net.py}{3}]"


def test_of_several_routines_all_are_named():
    assert refusal(one_routine, ROWS, "forward") == (
        "'forward' matches 2 routines: Loss.forward [{net.py}{9}], "
        "Net.forward [{net.py}{3}]; give the full name of one"
    )
    assert "matches 2 routines" in refusal(one_routine, ROWS, "<module>")
    assert "no routine matches" in refusal(one_routine, ROWS, "mai")


def test_a_refusal_is_one_line_whatever_the_names_hold():
    evil = [flat("x\x1b[0m\ny", 1, 0, 1, 1)]
    assert r"x\x1b[0m\ny" in refusal(one_routine, evil, "q\n")
