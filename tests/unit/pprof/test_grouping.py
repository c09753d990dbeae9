import pytest

from taupy.model.names import module_of
from taupy.pprof import grouping
from taupy.pprof.figures import Order
from taupy.pprof.view import Column
from tests.unit.pprof.build import answer, tree

# net.py calls itself and, through util.py, is called again.
ROWS = tree(
    (0, "root", 1, 1),
    (1, "train", 1, 2),
    (2, "forward", 3, 4),
    (3, "layer", 6, 8),
    (4, "helper", 6, 16),
    (5, "layer", 1, 32),
    (2, "len", 9, 64),
    files={"train": "train.py", "forward": "net.py", "layer": "net.py", "helper": "lib/util.py"},
    groups={"forward": "PHASE|PYTHON", "len": "PYTHON_C", "root": "TAUPY"},
)


NAMES = {
    "file": lambda timer: [timer.file or "(no file)"],
    "module": lambda timer: [module_of(timer.file)],
    "group": lambda timer: timer.groups.split("|"),
}


def lines(by, rows=ROWS, meant=None, **order):
    asked = answer(rows)
    labels = {timer: NAMES[by](timer) for timer in asked.table.labels["timer"]}
    view = grouping.view(asked, Column(by, heading=by), "timer", labels, Order(**order), meant)
    return {line[-1]: line[:-1] for line in view.rows}


def test_a_files_time_is_counted_once_however_its_routines_call_each_other():
    made = lines("file")
    # %Time, exclusive, inclusive, calls, subroutines, routines
    assert made["net.py"] == (pytest.approx(100 * 60 / 127), 44, 60, 10, 12, 2)
    assert made["lib/util.py"] == (pytest.approx(100 * 48 / 127), 16, 48, 6, 1, 1)
    assert made["(no file)"] == (100.0, 65, 127, 10, 1, 2)
    assert list(made) == ["(no file)", "train.py", "net.py", "lib/util.py"]


def test_exclusive_of_all_files_is_the_whole():
    assert sum(line[1] for line in lines("file").values()) == 127


def test_a_routine_in_two_groups_counts_in_each():
    made = lines("group")
    assert made["PHASE"][1:3] == (4, 60)
    assert made["PYTHON"][1:3] == (62, 126)
    assert made["PYTHON_C"][1:3] == (64, 64)
    assert made["TAUPY"][1:3] == (1, 127)


def test_threads_are_summed_and_so_is_what_100_percent_is():
    rows = [*ROWS, *tree((0, "root", 1, 73), place=(0, 0, 1))]
    assert lines("file", rows)["(no file)"][:3] == (100.0, 138, 200)
    assert lines("file", rows)["train.py"][0] == pytest.approx(63.0)


def test_a_filter_an_order_and_a_limit():
    assert list(lines("file", meant=lambda row: row.timer == "layer")) == ["net.py"]
    assert lines("file", meant=lambda row: row.timer == "layer")["net.py"][1:3] == (40, 56)
    assert list(lines("file", sort="exclusive", limit=1)) == ["(no file)", "-others-"]
    assert list(lines("module", sort="name"))[:2] == ["(no file)", "lib.util"]


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("train.py", "train"),
        ("pkg/sub/net.py", "pkg.sub.net"),
        ("pkg/__init__.py", "pkg"),
        ("__init__.py", "__init__"),
        ("<frozen importlib._bootstrap>", "importlib._bootstrap"),
        ("<string>", "<string>"),
        ("/opt/x/run.py", "/opt/x/run.py"),
        ("my-script.py", "my-script.py"),
        ("script", "script"),
        (None, "(no file)"),
    ],
)
def test_a_module_is_named_by_its_file(file, module):
    assert module_of(file) == module


def test_call_paths_are_summed_by_what_follows_from_their_thread():
    asked = answer(ROWS)
    labels = {thread: [f"node {thread.node}"] for thread in asked.table.labels["thread"]}
    (line,) = grouping.view(asked, Column("node"), "thread", labels, Order()).rows
    # 27 calls, all but the root below another one; layer is at two places.
    assert line == (100.0, 127, 127, 27, 26, 6, "node 0")
