from taupy.model.rows import TreeRow
from taupy.pprof import tree
from tests.unit.pprof.build import answer, thread
from tests.unit.pprof.build import tree as build

ROWS = build(
    (0, "root", 1, 10),
    (1, "load", 1, 5),
    (2, "read", 3, 15),
    (1, "train", 1, 0),
    (2, "forward", 4, 30),
    (3, "dot", 8, 20),
    (2, "backward", 4, 20),
)  # inclusive: root 100, train 70, forward 50, load 20, dot 20, backward 20, read 15
THREAD = thread(name="MainThread")


def outline(rows=ROWS, threads=(THREAD,), meant=None, **choice):
    (view,) = tree.views(answer(rows), threads, tree.TreeOptions(**choice), meant)
    at = [column.name for column in view.columns].index("outline")
    return [line[at] for line in view.rows]


def names(*args, **choice):
    return [line.lstrip("│├└ ") for line in outline(*args, **choice)]


def test_every_routine_stands_under_its_caller():
    assert outline() == [
        "root",
        "├ train",
        "│ ├ forward",
        "│ │ └ dot",
        "│ └ backward",
        "└ load",
        "  └ read",
    ]


def test_a_line_has_the_figures_of_its_call_path():
    (view,) = tree.views(answer(ROWS), [THREAD], tree.TreeOptions())
    assert view.title == "CALL TREE NODE 0;CONTEXT 0;THREAD 0: MainThread"
    forward = dict(zip([column.name for column in view.columns], view.rows[2], strict=True))
    assert forward == {
        "table": "thread", "node": 0, "context": 0, "thread": 0, "thread_name": "MainThread",
        "percent": 50.0, "exclusive_ns": 30, "inclusive_ns": 50, "calls": 4, "subroutines": 8,
        "inclusive_ns_per_call": 12.5, "outline": "│ ├ forward", "depth": 2,
        "callpath_id": 5, "parent_id": 4, "timer": "forward", "short_name": "forward",
        "file": None, "line": None, "groups": "PYTHON",
    }  # fmt: skip


def test_siblings_stand_in_the_chosen_order():
    assert names(sort="name") == ["root", "load", "read", "train", "backward", "forward", "dot"]
    assert names(sort="name", reverse=True)[1] == "train"
    assert names(sort="exclusive")[1:3] == ["load", "read"]
    assert names(reverse=True) == ["root", "load", "read", "train", "backward", "forward", "dot"]


def test_depth_share_and_limit_leave_call_paths_out_and_say_so():
    assert outline(depth=1) == ["root", "├ train", "└ load"]
    assert names(depth=0) == ["root"]
    assert names(min_percent=20) == ["root", "train", "forward", "dot", "backward", "load"]
    assert names(min_percent=20.1) == ["root", "train", "forward"]
    assert names(limit=3) == ["root", "train", "forward"]
    assert names(limit=4) == ["root", "train", "forward", "load"]
    (view,) = tree.views(
        answer(ROWS), [THREAD], tree.TreeOptions(depth=1, min_percent=2.5, limit=9)
    )
    assert list(view.notes) == [
        "not shown: call paths below 2.5 % (--min-share), call paths below level 1 "
        "(--depth), all but the 9 largest call paths (--limit)"
    ]
    assert list(tree.views(answer(ROWS), [THREAD], tree.TreeOptions())[0].notes) == []


def test_a_filter_keeps_the_ways_to_what_is_meant():
    assert outline(meant=lambda row: row.timer in ("dot", "load")) == [
        "root",
        "├ train",
        "│ └ forward",
        "│   └ dot",
        "└ load",
    ]


def test_a_callee_that_took_longer_than_its_caller_does_not_hang_in_the_air():
    rows = [row._replace(inclusive=1) if row.timer == "load" else row for row in ROWS]
    assert "read" not in names(rows, limit=6)
    assert "read" not in names(rows, min_percent=10)


def test_threads_have_trees_of_their_own_or_one_together():
    rows = [*ROWS, *build((0, "root", 1, 100), (1, "load", 1, 100), place=(0, 0, 1))]
    threads = [THREAD, thread(0, 0, 1), thread(0, 0, 2)]
    made = tree.views(answer(rows), threads, tree.TreeOptions())
    assert [view.title for view in made] == [
        "CALL TREE NODE 0;CONTEXT 0;THREAD 0: MainThread",
        "CALL TREE NODE 0;CONTEXT 0;THREAD 1:",
    ]
    assert [line[5] for line in made[1].rows] == [100.0, 50.0]
    (view,) = tree.views(answer(rows), threads, tree.TreeOptions(summary_only=True))
    assert view.title == "CALL TREE SUMMARY (total):"
    assert [line[:6] for line in view.rows][:2] == [
        ("total", None, None, None, None, 100.0),
        ("total", None, None, None, None, 40.0),  # load: 120 of 300
    ]


def test_deep_levels_keep_their_indent_and_show_their_depth():
    rows = [
        TreeRow(0, 0, 0, at, at - 1 if at else None, at, f"f{at}", "f", None, None, "PYTHON",
                1, 1, 100_000 - at, 1)
        for at in range(100_000)
    ]  # fmt: skip
    made = outline(rows, indent=3)
    assert made[:6] == ["f0", "└ f1", "  └ f2", "    └ f3", "      [4] f4", "      [5] f5"]
    assert made[-1] == "      [99999] f99999"
