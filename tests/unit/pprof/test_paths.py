"""Call paths: flattened, folded, summed over threads; always against a slow count."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.model import callpaths
from taupy.model.answer import flat_rows, tree_rows
from taupy.model.names import is_library
from taupy.model.rows import TreeRow
from taupy.pprof import fold, paths
from tests.unit.pprof.build import answer, tree

SITE = "/venv/lib/python3.11/site-packages/"


@st.composite
def forests(draw):
    """Two threads of random call paths over five routines, siblings all different."""
    rows = []
    for number in range(2):
        calls, under = [(0, "root", 1, 5)], {0: set()}
        depths, path = [0], [0]
        for _ in range(draw(st.integers(0, 25))):
            depth = draw(st.integers(1, depths[-1] + 1))
            del path[depth:]
            free = sorted(set("abcde") - under[path[-1]])
            if not free:
                break
            timer = draw(st.sampled_from(free))
            under[path[-1]].add(timer)
            under[len(calls)] = set()
            path.append(len(calls))
            calls.append((depth, timer, draw(st.integers(1, 3)), draw(st.integers(0, 9))))
            depths.append(depth)
        rows += tree(*calls, place=(0, 0, number))
    return rows


def ancestors(rows, row):
    by_id = {(one.thread, one.callpath_id): one for one in rows}
    found = []
    while row.parent_id is not None:
        row = by_id[row.thread, row.parent_id]
        found.append(row)
    return found


def assert_lawful(rows):
    """A parent stands before its children, and inclusive is what the tree says."""
    inside, calls, seen = defaultdict(int), defaultdict(int), set()
    for row in reversed(rows):
        key = row.thread, row.callpath_id
        assert row.inclusive == row.exclusive + inside[key]
        assert row.subroutines == calls[key]
        inside[row.thread, row.parent_id] += row.inclusive
        calls[row.thread, row.parent_id] += row.calls
    for row in rows:
        assert row.parent_id is None or (row.thread, row.parent_id) in seen
        assert row.depth == len(ancestors(rows, row))
        seen.add((row.thread, row.callpath_id))
    assert len(seen) == len(rows)


# --- flattened ---------------------------------------------------------------


def test_recursion_counts_inclusive_once():
    rows = tree((0, "main", 1, 10), (1, "f", 1, 1), (2, "g", 1, 2), (3, "f", 1, 4), (1, "g", 2, 8))
    flat = {row.timer: row for row in flat_rows(paths.flattened(answer(rows)))}
    assert {timer: (row.calls, row.exclusive, row.inclusive) for timer, row in flat.items()} == {
        "main": (1, 10, 25),
        "f": (2, 5, 7),  # the outer f: 1 + 2 + 4
        "g": (3, 10, 14),  # 2 + 4 under f, and 8
    }
    assert flat["f"].subroutines == 1


@given(forests())
def test_a_flat_profile_is_what_a_slow_count_gives(rows):
    expected = defaultdict(lambda: [0, 0, 0, 0])
    for row in rows:
        sums = expected[row.thread, row.timer]
        outermost = all(above.timer != row.timer for above in ancestors(rows, row))
        for at, value in enumerate(
            (row.calls, row.subroutines, row.exclusive, row.inclusive * outermost)
        ):
            sums[at] += value
    assert {
        (row.thread, row.timer): [row.calls, row.subroutines, row.exclusive, row.inclusive]
        for row in flat_rows(paths.flattened(answer(rows)))
    } == expected


@pytest.mark.slow
def test_a_path_may_be_very_deep():
    deep = 100_000
    rows = [
        TreeRow(0, 0, 0, at, at - 1 if at else None, at, f"f{at % 2}", "f", None, None, "PYTHON",
                1, 1, deep - at, 1)
        for at in range(deep)
    ]  # fmt: skip
    assert [row.inclusive for row in flat_rows(paths.flattened(answer(rows)))] == [deep, deep - 1]
    folded = fold.libraries_folded(answer(rows), {"f1": SITE + "f.py", "f0": None})
    assert len(folded) == deep  # the user's f0 calls the library and is called back


def test_a_row_whose_parent_is_missing_is_a_root():
    rows = tree((0, "a", 1, 1), (1, "b", 1, 1))[1:]
    assert callpaths.parents(answer(rows).table) == [-1]


# --- over threads ------------------------------------------------------------


def test_threads_are_summed_call_path_by_call_path():
    rows = [
        *tree((0, "root", 1, 1), (1, "f", 2, 10), (2, "g", 2, 5)),
        *tree((0, "root", 1, 2), (1, "g", 1, 7), (1, "f", 1, 20), place=(0, 0, 1), first_id=50),
    ]
    made = tree_rows(paths.over_threads(answer(rows)))
    assert_lawful(made)
    assert [(row.depth, row.timer, row.calls, row.exclusive, row.inclusive) for row in made] == [
        (0, "root", 2, 3, 45),
        (1, "f", 3, 30, 35),
        (2, "g", 2, 5, 5),
        (1, "g", 1, 7, 7),
    ]


# --- folded ------------------------------------------------------------------


def folded(rows, **files):
    return [
        (row.depth, row.timer, row.calls, row.subroutines, row.exclusive, row.inclusive)
        for row in tree_rows(fold.libraries_folded(answer(rows), files))
    ]


def test_a_librarys_inside_is_summed_into_the_call_that_enters_it():
    rows = tree(
        (0, "main", 1, 1), (1, "mean", 2, 10), (2, "reduce", 4, 20), (3, "add", 8, 40),
        (2, "check", 2, 3),
    )  # fmt: skip
    files = {"main": "/home/me/main.py"}
    files |= dict.fromkeys(["mean", "reduce", "add", "check"], SITE + "numpy/x.py")
    assert folded(rows, **files) == [(0, "main", 1, 2, 1, 74), (1, "mean", 2, 0, 73, 73)]


def test_user_code_that_a_library_calls_back_hangs_under_the_boundary_once():
    rows = tree(
        (0, "main", 1, 1), (1, "sort", 1, 10), (2, "inner", 1, 20), (3, "key", 5, 50),
        (4, "abs", 5, 5), (2, "other", 1, 2), (3, "key", 3, 30),
    )  # fmt: skip
    files = {"main": "main.py", "key": "main.py"}
    files |= dict.fromkeys(["sort", "inner", "other", "abs"], SITE + "sorting.py")
    assert folded(rows, **files) == [
        (0, "main", 1, 1, 1, 118),
        (1, "sort", 1, 8, 32, 117),
        (2, "key", 8, 5, 80, 85),
        (3, "abs", 5, 0, 5, 5),
    ]


def test_c_functions_and_code_without_a_file_belong_to_their_caller():
    rows = tree(
        (0, "main", 1, 1), (1, "len", 1, 2), (1, "lib", 1, 4), (2, "len", 1, 8), (2, "made", 1, 16),
        (2, "step", 1, 32), groups={"len": "PYTHON_C", "step": "PHASE"},
    )  # fmt: skip
    files = {"main": "main.py", "lib": SITE + "lib.py", "made": "<string>"}
    assert folded(rows, **files) == [
        (0, "main", 1, 2, 1, 63),
        (1, "len", 1, 0, 2, 2),
        (1, "lib", 1, 1, 28, 60),
        (2, "step", 1, 0, 32, 32),  # a phase is the user's, wherever it begins
    ]


def test_when_the_root_is_a_library_its_inside_still_has_a_place():
    rows = tree((0, "pytest", 1, 1), (1, "run", 1, 2), (2, "test", 1, 4))
    files = {"pytest": SITE + "pytest.py", "run": SITE + "pytest.py", "test": "test.py"}
    assert folded(rows, **files) == [(0, "pytest", 1, 1, 3, 7), (1, "test", 1, 0, 4, 4)]


@given(forests(), st.sets(st.sampled_from("abcde")))
def test_folding_keeps_the_laws_and_all_time(rows, libraries):
    files = {name: SITE + name if name in libraries else name for name in "abcde"}
    made = tree_rows(fold.libraries_folded(answer(rows), files))
    assert_lawful(made)
    for thread in (0, 1):
        before = [row for row in rows if row.thread == thread]
        after = [row for row in made if row.thread == thread]
        assert sum(row.exclusive for row in before) == sum(row.exclusive for row in after)
        assert [row.inclusive for row in before[:1]] == [row.inclusive for row in after[:1]]
        for name in set("abcde") - libraries:  # the user's routines are all still there
            for field in ("calls", "exclusive"):
                assert sum(getattr(row, field) for row in before if row.timer == name) <= sum(
                    getattr(row, field) for row in after if row.timer == name
                )
            assert sum(row.calls for row in before if row.timer == name) == sum(
                row.calls for row in after if row.timer == name
            )
    by_id = {(row.thread, row.callpath_id): row for row in made}
    for row in made:  # no library routine is left inside a library
        if row.timer in libraries and row.parent_id is not None:
            assert by_id[row.thread, row.parent_id].timer not in libraries


@given(forests())
def test_folding_nothing_changes_nothing(rows):
    assert tree_rows(fold.libraries_folded(answer(rows), {})) == rows


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/lib/python3.11/json/decoder.py", True),
        ("/usr/lib64/python3.12/os.py", True),
        ("/opt/python/lib/python3.13t/os.py", True),
        ("/home/me/.venv/lib/python3.11/site-packages/numpy/x.py", True),
        ("/usr/lib/python3/dist-packages/yaml/x.py", True),
        (r"C:\venv\Lib\site-packages\numpy\x.py", True),
        ("<frozen importlib._bootstrap>", True),
        ("site-packages/numpy/x.py", True),
        ("/usr/lib/python3.x/os.py", False),
        ("/usr/lib/python3.11", False),
        ("/home/me/site-packages", False),
        ("/home/me/python3.11/train.py", False),
        ("/home/me/lib/model.py", False),
        ("train.py", False),
        ("<string>", False),
    ],
)
def test_library_code_is_known_by_where_it_lies(path, expected):
    assert is_library(path) is expected
