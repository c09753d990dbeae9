"""The GPU tab of a page, and the operators of a page of two trials."""

from __future__ import annotations

import pytest

from taupy.commands import main
from taupy.model.gpu_time import Gap, GpuTime
from taupy.profiledb.database import ProfileDB
from taupy.report import contents
from taupy.study import versus
from tests.builders import gpu_profile
from tests.unit.formats import chrome_files as made

US = 1000


def test_gaps_of_several_gpus_say_which():
    time = GpuTime(5, 0, 0, gaps=(Gap(1, 7, (("host", "read", 7),)),))
    view = contents._gaps({(0, 1): "GPU 0", (0, 2): "GPU 1"}, {(0, 1): time, (0, 2): time})
    assert view.rows == [(f"GPU {gpu}", 1, 7, "host", "read", 7) for gpu in (0, 1)]


def test_operators_that_nobody_would_see_are_not_drawn():
    pairs = [("aten::mm", 1000.0, 1200.0), ("aten::eq", 2.0, 5.0), ("aten::mul", 900.0, 300.0)]
    drawn = [bar.name for bar in versus._bars(pairs, 24, "gpu") if bar.name]
    assert drawn == ["aten::mul", "aten::mm"]


def trace(path, took):
    """Two operators, and a host that waits and then reads for 300 us."""
    events = [
        made.slice_("python_function", "train.py(1): main", 0, 900 * US),
        made.slice_("cpu_op", "aten::mm", 10 * US, 40 * US),
        made.slice_("cuda_runtime", "cudaLaunchKernel", 20 * US, 25 * US, correlation=1),
        made.kernel("gemm", 30 * US, (30 + took) * US, 1),
        made.slice_("cuda_runtime", "cudaStreamSynchronize", 45 * US, (35 + took) * US),
        made.slice_("python_function", "data.py(7): read", 240 * US, 540 * US),
        made.slice_("cpu_op", "aten::add", 600 * US, 650 * US),
        made.slice_("cuda_runtime", "cudaLaunchKernel", 610 * US, 615 * US, correlation=2),
        made.kernel("add", 620 * US, 640 * US, 2),
    ]
    return made.written(path, events)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "taupy.db"
    for number, took in enumerate((100, 160)):
        file = trace(tmp_path / f"{number}.json", took)
        assert main(["import", str(file), "--db", str(path)]) == 0
    return path


def test_the_gpu_tab_says_where_the_time_went(database):
    with ProfileDB.open(database) as db:
        sections = contents.of_trial(db, db.trial(1)).sections
    (tab,) = (section for section in sections if section.name == "kernels")
    went, gaps, path, operators, *tables = tab.parts
    (bar,) = went.bars
    assert bar.name == "GPU 0 (NVIDIA H200): 610 us"
    parts = {words: ns // US for _, words, ns in bar.parts}
    assert parts == {"computing": 120, "idle: synchronisation": 480, "idle: launch latency": 10}
    ((at, gap, cause, place, ns),) = gaps.views[0].rows  # of one GPU, which the bar names
    assert (at // US, gap // US, cause) == (100, 490, "synchronisation")
    assert place.startswith("cudaStreamSynchronize in ") and ns == 480 * US
    assert path.views[0].title.startswith("CRITICAL PATH")
    (view,) = operators.views
    time = [column.name for column in view.columns].index("time_ns")
    assert [(row[0], row[time]) for row in view.rows] == [
        ("aten::mm", 100 * US),
        ("aten::add", 20 * US),
    ]
    assert tables[0].views[0].title.startswith("KERNELS")


def test_a_trial_without_a_trace_has_the_tables_alone(tmp_path):
    with ProfileDB.open(tmp_path / "b.db", create=True) as db:
        from taupy.profiledb.writer import add_profile

        trial = add_profile(db, gpu_profile())
        sections = contents.of_trial(db, db.trial(trial)).sections
    (tab,) = (section for section in sections if section.name == "kernels")
    assert not any(part.bars for part in tab.parts)
    titles = [view.title for part in tab.parts for view in part.views]
    assert not any("OPERATOR" in title for title in titles), "none was recorded"


def test_a_page_of_two_trials_draws_operators_by_lost_time(database):
    with ProfileDB.open(database) as db:
        made_of, _ = versus.of_sides(db, "1", "2")
    (tab,) = (section for section in made_of.sections if section.name == "operators")
    picture, table = tab.parts
    drawn = [(bar.name, *bar.parts[0], bar.note) for bar in picture.bars]
    assert drawn == [
        ("aten::mm", "gpu", "A", 100 * US, "+60.0 us, 1.6 times A"),
        ("", "more", "B", 160 * US, ""),
        ("aten::add", "gpu", "A", 20 * US, "+0 ns, 1 times A"),
        ("", "less", "B", 20 * US, ""),
    ]
    assert "OPERATOR" in table.views[0].title
