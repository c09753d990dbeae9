"""Derived metrics of stored trials: sums first, then the ratio; absent is not zero."""

import math
from array import array

import pytest

from taupy.collectors import requested
from taupy.errors import MissingMetric, UsageError
from taupy.model.answer import flat_rows, tree_rows
from taupy.model.profile import Timer
from taupy.profiledb import derived, derived_sql, metrics
from taupy.profiledb.writer import add_profile
from tests.builders import call, database_at, host, profile_of, small_profile
from tests.unit.analysis.counted import counted_profile


@pytest.fixture
def db(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no pyproject.toml of ours
    with database_at(tmp_path / "taupy.db") as opened:
        yield opened


@pytest.fixture
def counted(db):
    add_profile(db, counted_profile())
    return db


def flat(db, name, trial=1):
    return {
        (row.thread if row.context == 0 else "gpu", row.short_name): (row.inclusive, row.exclusive)
        for row in flat_rows(metrics.flat_profile(db, trial, name))
    }


def tree(db, name, trial=1):
    return {
        (row.thread if row.context == 0 else "gpu", row.short_name): row.inclusive
        for row in tree_rows(metrics.call_tree(db, trial, name))
    }


def test_a_measured_metric_is_what_it_was(counted):
    assert metrics.resolve(counted, 1, "TIME") == ("time", "ns", True, "measured", None, "")


def test_a_ratio_of_kernels_and_of_what_launched_them(counted):
    found = flat(counted, "warps_per_inst")
    assert found["gpu", "gemm"] == (0.002, 0.002)
    assert found["gpu", "relu"] == (0.4, 0.4)
    assert ("gpu", "copy_kernel") not in found  # not counted is not zero
    # 5000 warps in 510000 instructions were launched below step.
    assert tree(counted, "warps_per_inst")["gpu", "step"] == 5000 / 510000
    assert not any(key[0] != "gpu" for key in found)


def test_the_sum_of_threads_is_the_ratio_of_the_sums(counted):
    """instructions / cycles of main: 1000/500 on one thread, 10/0 on the other."""
    rows = flat_rows(metrics.flat_profile(counted, 1, "cpu_ipc"))
    one, other = (row for row in rows if row.line == 1)
    assert (one.exclusive, one.inclusive) == (2.0, 7000 / 2000)
    assert math.isnan(other.exclusive)  # 10/0 has no value of its own, but counts in the sum
    over = metrics.answer(counted, 1, "cpu_ipc", ("thread", "timer")).by("timer")
    rows = zip(over.timers, over.values("exclusive"), strict=True)
    assert [value for timer, value in rows if timer.line == 1] == [1010 / 500]
    assert metrics.answer(counted, 1, "cpu_ipc").values("exclusive") == [7010 / 2000]


def test_a_divisor_of_zero_gives_no_value(counted):
    derived.define(counted, "warps_per_gld", "warps_launched / gld")
    found = flat(counted, "warps_per_gld")
    assert found["gpu", "gemm"] == (2.5, 2.5)
    assert all(map(math.isnan, found["gpu", "relu"]))
    whole = metrics.answer(counted, 1, "warps_per_gld", ("timer",)).by()
    assert whole.values("exclusive") == [5000 / 400]
    assert tree(counted, "warps_per_gld")["gpu", "step"] == 5000 / 400  # of the sums


def test_rates_of_counters_take_the_time_of_the_counted_launches(counted):
    """gemm ran for 5000 ns in 10 launches, of which 5 with 4e6 flop in 2500 were counted."""
    found = flat(counted, "flop_rate")
    assert found["gpu", "gemm"][1] == pytest.approx(4e6 / 2500e-9)
    assert tree(counted, "flop_rate")["gpu", "step"] == pytest.approx(4000100 / 3300e-9)
    derived.define(counted, "inst_per_launch", "inst_issued / calls")
    assert flat(counted, "inst_per_launch")["gpu", "gemm"][1] == 100_000  # 5 launches, not 10


def test_a_ratio_times_the_time_takes_the_whole_time(counted):
    """TAU's candidates: what a kernel costs is all of its launches, counted or not."""
    derived.define(counted, "tau", "warps_launched / inst_issued * time")
    assert flat(counted, "tau")["gpu", "gemm"][1] == 0.002 * 5000
    derived.define(counted, "tau", "time * (warps_launched / inst_issued)")
    assert flat(counted, "tau")["gpu", "gemm"][1] == 0.002 * 5000
    derived.define(counted, "counted_rate", "inst_issued * 2 / time")
    assert flat(counted, "counted_rate")["gpu", "gemm"][1] == pytest.approx(1e6 / 2500e-9)


def test_time_alone_is_the_whole_time(counted):
    assert flat(counted, "time_per_call")["gpu", "gemm"][1] == 500
    assert flat(counted, "time_per_call")["gpu", "copy_kernel"][1] == 50


def test_only_call_paths_with_all_metrics_count_in_a_sum(counted):
    """step launched 6000 ns of kernels; copy_kernel's 200 were not counted."""
    derived.define(counted, "warps_in_whole_time", "warps_launched / first(time)")
    found = tree(counted, "warps_in_whole_time")
    assert found["gpu", "step"] == pytest.approx(5000 / 5800e-9)
    # The flat profile of a stream has kernels only; all of them together are the same.
    kernels = flat_rows(metrics.flat_profile(counted, 1, "warps_in_whole_time"))
    assert [row.short_name for row in kernels] == ["relu", "gemm"]
    on_gpu = metrics.answer(counted, 1, "warps_in_whole_time", ("kind", "timer")).by("kind")
    assert on_gpu.values("exclusive") == [found["gpu", "step"]]


def test_counters_read_at_some_routines_go_with_all_that_these_called(db):
    """main 10 [ step 20 [ f 30 ], g 40 ] ns; faults were read at main, 6, and step, 5 of them."""
    f, g = call("f", 1, 30), call("g", 1, 40)
    step = call("step", 1, {"time": 20, "faults": 5})
    step = type(step)(step.timer, 1, step.exclusive, (f,))
    profile = profile_of(host(call("main", 1, {"time": 10, "faults": 1}, [step, g])))
    tree_of_it = profile.threads[0].tree
    absent = [row for row, timer in enumerate(tree_of_it.timer)
              if profile.timers[timer].name in "fg"]  # fmt: skip
    for table in (tree_of_it.inclusive, tree_of_it.exclusive):
        column = array("d", table["faults"])
        for row in absent:
            column[row] = math.nan
        table["faults"] = column
    add_profile(db, profile)
    derived.define(db, "rate", "faults / time", "count/ns")
    found = flat(db, "rate")
    # g's 40 ns have no faults of their own: main had 1 in its 10 and those 40.
    assert found[0, "main"] == (6 / 100, 1 / 50)
    assert found[0, "step"] == (5 / 50, 5 / 50)
    assert found.keys() == {(0, "main"), (0, "step")}
    assert tree(db, "rate") == {(0, "main"): 6 / 100, (0, "step"): 5 / 50}


def test_the_tree_keeps_the_way_to_what_has_a_value(counted):
    rows = tree_rows(metrics.call_tree(counted, 1, "warps_per_inst"))
    assert [(row.depth, row.short_name) for row in rows] == [
        (0, ".taupy application"),
        (1, "<module>"),
        (2, "step"),
        (3, "cudaLaunchKernel"),
        (4, "relu"),
        (4, "gemm"),
    ]
    tree = metrics.call_tree(counted, 1, "warps_per_inst", deepest=1)
    assert [row.depth for row in tree_rows(tree)] == [
        0,
        1,
    ]
    assert tree_rows(metrics.call_tree(counted, 1, "warps_per_inst", [(0, 0, 0)])) == []
    with pytest.raises(Exception, match=r"no thread 7.7.7"):
        tree_rows(metrics.call_tree(counted, 1, "warps_per_inst", [(7, 7, 7)]))


def test_a_recursive_routine_counts_once(db):
    """f [ f [ g ] ]: inclusive instructions of f are 30, in 60 ns."""
    f, g = Timer("f", "r.py", 1), Timer("g", "r.py", 9)

    def at(time, inst):
        return {"time": time, "inst": inst}

    root = call(f, 1, at(10, 5), [call(f, 2, at(20, 10), [call(g, 3, at(30, 15))])])
    add_profile(db, profile_of(host(root)))
    derived.define(db, "rate", "inst / time", "count/ns")
    assert flat(db, "rate")[0, "f"] == (0.5, 0.5)
    # The same by way of the tree: g was not counted, its instructions are those of f.
    inner = call(f, 2, at(20, 25), [call(g, 3, 30)])
    profile = profile_of(host(call(f, 1, at(10, 5), [inner])), number=2)
    columns = profile.threads[0].tree
    for table in (columns.inclusive, columns.exclusive):
        table["inst"] = array("d", [*table["inst"][:2], math.nan])
    add_profile(db, profile)
    assert flat(db, "rate", 2) == {(0, "f"): (0.5, 0.5)}


def test_definitions_may_stand_on_each_other_but_not_in_a_circle(counted):
    derived.define(counted, "a", "warps_launched / b")
    derived.define(counted, "b", "c * 2")
    derived.define(counted, "c", "inst_issued")
    assert flat(counted, "a")["gpu", "gemm"][1] == 0.001
    derived.define(counted, "c", "a * inst_issued")
    with pytest.raises(UsageError, match="depend on each other in a circle: a -> b -> c -> a"):
        metrics.resolve(counted, 1, "a")
    with pytest.raises(UsageError, match="cannot be derived from itself"):
        derived.define(counted, "d", "d / 2")


def test_definitions_that_grow_beyond_measure_are_refused(counted):
    """Each twice the one before: a thousand million metrics, in thirty lines."""
    derived.define(counted, "n0", "gld")
    for n in range(1, 31):
        derived.define(counted, f"n{n}", f"n{n - 1} + n{n - 1}")
    assert flat(counted, "n5")["gpu", "gemm"][1] == 32 * 400
    with pytest.raises(UsageError, match="'n30' depends on too many other derived metrics"):
        metrics.resolve(counted, 1, "n30")
    long = " + ".join(["{}"] + ["gld"] * 199)
    derived.define(counted, "m0", "gld")
    for n in range(1, 9):
        derived.define(counted, f"m{n}", long.format(f"m{n - 1}"))
    with pytest.raises(UsageError, match="'m8' depends on too many"):
        metrics.resolve(counted, 1, "m8")
    with pytest.raises(UsageError, match="200 metrics and numbers at most"):
        derived.define(counted, "longer", long.format("gld + gld"))


def test_a_measured_metric_wins_then_the_database_then_the_project(counted, tmp_path):
    assert metrics.resolve(counted, 1, "flop_rate").source == "predefined"
    (tmp_path / "pyproject.toml").write_text(
        '[tool.taupy.derived]\nflop_rate = "flop_fp32 / time * 2"\n'
        'mine = {expression = "gld / inst_issued", description = "loads"}\n'
    )
    assert metrics.resolve(counted, 1, "flop_rate").source == "project"
    assert metrics.resolve(counted, 1, "mine").description == "loads"
    derived.define(counted, "flop_rate", "flop_fp32 / time * 3")
    assert metrics.resolve(counted, 1, "flop_rate").source == "database"
    derived.define(counted, "gld", "inst_issued * 2")
    assert metrics.resolve(counted, 1, "gld").source == "measured"
    derived.forget(counted, "flop_rate")
    assert metrics.resolve(counted, 1, "flop_rate").source == "project"
    with pytest.raises(MissingMetric, match=r"no derived metric 'flop_rate' of its own .*gld"):
        derived.forget(counted, "flop_rate")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('derived = "x"', "[tool.taupy.derived] in pyproject.toml is not a table"),
        ("[tool.taupy.derived]\na = 3", "a is neither an expression"),
        ('[tool.taupy.derived]\na = {unit = "s"}', "a is neither an expression"),
        ('[tool.taupy.derived]\na = "b +"', "a: the expression 'b +' is not understood"),
        ('[tool.taupy.derived]\n"a b" = "c"', "'a b' is not a valid name"),
        ('[tool.taupy.metrics]\n"sum" = "c"', "'sum' is not a valid name"),
    ],
)
def test_broken_definitions_of_a_project_are_reported_with_their_place(
    counted, tmp_path, text, part
):
    head = "" if text.startswith("[") else "[tool.taupy]\n"
    (tmp_path / "pyproject.toml").write_text(head + text)
    with pytest.raises(UsageError) as refused:
        metrics.resolve(counted, 1, "flop_rate")
    assert part in str(refused.value)
    assert flat_rows(metrics.flat_profile(counted, 1, "time"))  # what is measured needs none of it


def test_a_list_of_metrics_to_measure_is_no_definition(counted, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.taupy]\nmetrics = ["instructions"]\n')
    assert derived.project_definitions() == {}
    assert requested.listed([], {"metrics": ["instructions"]})[0] == ["instructions"]
    assert requested.listed([], {"metrics": {"mine": "gld / 2"}})[0] == []


def test_what_is_missing_is_named_with_the_way_to_it(counted):
    with pytest.raises(MissingMetric) as missing:
        metrics.resolve(counted, 1, "ipc")
    assert "no metric 'inst_executed', from which 'ipc' is derived" in str(missing.value)
    assert str(missing.value).endswith("taupy run --metrics inst_executed SCRIPT")
    with pytest.raises(MissingMetric, match=r"near it: .*warps_launched.*`taupy derive` lists"):
        metrics.resolve(counted, 1, "warps_lunched")
    with pytest.raises(MissingMetric, match="no metric 'flop'"):
        metrics.resolve(counted, 1, "intensity_dram_read")


def test_names_of_other_tools_are_taken(counted):
    assert metrics.resolve(counted, 1, "warps/inst").name == "warps_per_inst"


def test_available_derived_metrics_are_listed(counted):
    found = {one.name for one in metrics.available(counted, 1) if one.source != "measured"}
    assert found == {
        "warps_per_inst",
        "flop_total",
        "flop_rate",
        "time_per_call",
        "cpu_ipc",
        "cpu_clock",
    }


def test_sql_gives_the_same_where_all_was_measured_everywhere(db):
    add_profile(db, small_profile())
    derived.define(db, "rate", "misses / time", "count/us")
    derived.define(db, "mixed", "sum(misses, nothing) / first(nothing, time) + 2[count/s]")
    for name in ("rate", "mixed", "time_per_call"):
        asked = db.rows(derived_sql.statement(db, 1, name))
        values = {tuple(row[:4]): (row[4], row[5]) for row in asked}
        rows = flat_rows(metrics.flat_profile(db, 1, name))
        assert rows
        for row in rows:
            exclusive, inclusive = values[row.node, row.context, row.thread, row.timer]
            assert inclusive == pytest.approx(float(row.inclusive))
            assert exclusive == pytest.approx(float(row.exclusive))
        there = {key for key, pair in values.items() if pair[1] is not None}
        assert there == {(row.node, row.context, row.thread, row.timer) for row in rows}


def test_frames_hold_derived_metrics_with_their_unit(counted):
    pytest.importorskip("pandas")
    from taupy.profiledb import api

    trial = api.Database(counted.path).trial(1)
    frame = trial.profile("warps_per_inst")
    assert frame.attrs["unit"] == "warp/inst"
    assert frame["inclusive"].dtype == float
    assert set(trial.derived_metrics()["name"]) >= {"warps_per_inst", "flop_rate"}
    assert trial.callpaths("warps_per_inst")["depth"].max() == 4
