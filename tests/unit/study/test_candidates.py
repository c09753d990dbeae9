"""Tuning candidates: their order, their bounds, and the command."""

import csv
import io
import json

import pytest

from taupy.commands import main
from taupy.model.finding import amdahl
from taupy.model.machine import Ceiling
from taupy.profiledb.ceilings import add_ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.study import gains as candidates
from taupy.study.gains import Routine
from taupy.study.tunable import program
from tests.builders import call, gpu_profile, host, profile_of
from tests.unit.analysis.counted import counted_profile


def routine(name, time, value):
    return Routine(name, name, 1, time, time, value)


ROUTINES = [routine("a", 600.0, 0.5), routine("b", 300.0, 2.0), routine("c", 100.0, 1.0)]


def order(found):
    return [one.routine.name for one in found]


def test_a_product_ranks_by_ratio_times_time():
    found = candidates.ranked(ROUTINES, "product", 2000)
    assert [(one.routine.name, one.score) for one in found] == [("b", 600), ("a", 300), ("c", 100)]
    assert found[1].share == 0.6
    assert (found[1].saved_ns, found[1].saved_share) == (600, 0.3)
    assert found[1].speedup == pytest.approx(2000 / 1400)


def test_a_shortfall_ranks_by_the_time_that_a_target_would_save():
    found = candidates.ranked(ROUTINES, "shortfall", 2000)  # the best has 2
    assert [(one.routine.name, one.score) for one in found] == [("a", 450), ("c", 50), ("b", 0)]
    assert found[0].speedup == pytest.approx(2000 / 1550)
    assert found[2].speedup == 1
    found = candidates.ranked(ROUTINES, "shortfall", 2000, target=1.0)
    assert [(one.routine.name, one.score) for one in found] == [("a", 300), ("b", 0), ("c", 0)]


def test_a_value_ranks_by_itself_and_needs_no_time():
    found = candidates.ranked([Routine("a", "a", value=1.0), Routine("b", "b", value=3.0),
                               Routine("c", "c")], "value", 0)  # fmt: skip
    assert [(one.routine.name, one.saved_ns, one.speedup) for one in found] == [
        ("b", None, None),
        ("a", None, None),
    ]


def test_roofs_rank_by_the_time_above_them():
    shares = {"a": 0.9, "b": 0.2, "c": 1.3}
    found = candidates.under_roofs(ROUTINES, shares, 1000)
    assert [(one.routine.name, round(one.score)) for one in found] == [
        ("b", 240),
        ("a", 60),
        ("c", 0),
    ]


def test_the_bound_is_amdahls():
    assert amdahl(250, 1000) == (0.25, 1 / 0.75)
    assert amdahl(1500, 1000) == (1.0, None)  # everything: no bound
    assert amdahl(None, 1000) == (None, None)
    assert amdahl(10, 0) == (None, None)


def test_nodes_run_beside_each_other(tmp_path):
    def main(f, g):
        return call("main", 1, 0, [call("f", 1, f), call("g", 1, g)])

    with ProfileDB.open(tmp_path / "nodes.db", create=True) as db:
        threads = host(main(300, 0)), host(main(200, 0), thread=1), host(main(400, 50), node=1)
        add_profile(db, profile_of(*threads))
        routines = {one.name: one for one in program(db, 1, [], "time").routines}
    f, g = routines["f"], routines["g"]
    assert (f.calls, f.time_ns, f.longest_ns, f.value) == (3, 900, 500, 900)
    assert g.longest_ns == 50


# --- the command -------------------------------------------------------------


@pytest.fixture
def database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_DB", str(tmp_path / "taupy.db"))
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        add_profile(db, counted_profile())
        yield db


def shown(capsys, *arguments):
    assert main(["candidates", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_first_ratio_of_kernels_is_taken(database, capsys):
    answer = shown(capsys)
    assert answer["title"] == "TUNING CANDIDATES of trial 1 by warps_per_inst x time:"
    first, second = answer["rows"]
    assert (first["timer"], first["value"]) == ("relu(float*)", 0.4)
    assert first["score"] == pytest.approx(0.4 * 0.8)  # us
    assert second["score"] == pytest.approx(0.002 * 5)  # all 10 launches, not the counted 5
    assert second["percent"] == pytest.approx(100 * 5000 / 6000)
    # The program took 460 ns on the host, the GPU longer: it cannot save more than all.
    assert (first["saved_ns"], first["speedup"]) == (460, None)
    assert "flop_rate" in first["evidence"]
    assert "Amdahl" in answer["notes"][0]


def test_a_ratio_that_is_good_when_large_is_held_against_the_best(database, capsys):
    answer = shown(capsys, "--metric", "flop_rate")
    assert "time lost against flop_rate = 1.6E+12 flop/s" in answer["title"]
    assert [row["timer"] for row in answer["rows"]] == ["relu(float*)", "gemm(float*)"]
    answer = shown(capsys, "--metric", "flop_rate", "--target", "3.2e12")
    assert [row["timer"] for row in answer["rows"]] == ["gemm(float*)", "relu(float*)"]
    assert answer["rows"][0]["lost_ns"] == pytest.approx(2500)


def test_any_metric_ranks(database, capsys):
    assert [
        row["value"] for row in shown(capsys, "--metric", "gld", "--order", "value")["rows"]
    ] == [
        400,
        0,
    ]
    by_time = shown(capsys, "--metric", "time", "-n", "2")
    assert [row["timer"] for row in by_time["rows"]] == ["gemm(float*)", "relu(float*)"]
    assert by_time["notes"][-1] == "1 more; --limit N shows them"
    hosts = shown(capsys, "--metric", "cpu_ipc")
    assert hosts["rows"][0]["timer"] == "<module> [{train.py}{1}]"
    calls = shown(capsys, "--metric", "time", "--group", "cuda_api")
    assert [row["timer"] for row in calls["rows"]] == ["cudaLaunchKernel"]


def test_the_evidence_names_the_routine_that_launched_a_kernel(database, capsys):
    add_profile(database, gpu_profile(5))
    answer = shown(capsys, "--metric", "time")
    assert answer["rows"][0]["evidence"].startswith(
        "launched by step [{train.py}{5}]; occupancy limited to 0.5, by registers"
    )


def roof(kind, name, value, unit):
    return Ceiling("1", "", "NVIDIA Test GPU", "", kind, name, "", 0, value, unit, "user")


def test_the_roofs_rank_by_what_they_would_allow(database, capsys, refused):
    add_profile(database, counted_profile(2, metadata={"GPU Name": "NVIDIA Test GPU"}))
    line = refused("--metric", "roofline")
    assert "bytes" in line or "roofs" in line
    profile = counted_profile(3, metadata={"GPU Name": "NVIDIA Test GPU"})
    stream = profile.threads[2].tree
    for table in (stream.inclusive, stream.exclusive):
        table["bytes_dram"] = type(table["gld"])("d", [0.0] * 4 + [1000.0, 8000.0, float("nan")])
    profile.metrics.append(type(profile.metrics[0])("bytes_dram", "B"))
    add_profile(database, profile)
    add_ceilings(database, [roof("compute", "fp32", 3.2e12, "flop/s"),
                            roof("bandwidth", "DRAM", 2e10, "B/s")])  # fmt: skip
    answer = shown(capsys, "--metric", "roofline")
    assert "against the roof" in answer["title"]
    rows = {row["timer"]: row for row in answer["rows"]}
    # gemm: 4e6 flop in 2500 ns is half of 3.2e12 flop/s; relu: 8000 B in 800 ns half of 2e10 B/s.
    assert rows["gemm(float*)"]["roof_percent"] == pytest.approx(50)
    assert rows["gemm(float*)"]["lost_ns"] == pytest.approx(2500)
    assert rows["relu(float*)"]["roof_percent"] == pytest.approx(50)
    # With flop that nobody counted, another roof may bind: no verdict.
    assert rows["relu(float*)"]["evidence"].startswith("at most: fp64, fp16, tensor not counted")
    same = shown(capsys, "--ceilings", "NVIDIA Test GPU")
    assert same["rows"] == answer["rows"]
    assert "'X1' is not a file, a source" in refused("--ceilings", "X1", code=2)
    assert "--ceilings needs --metric roofline" in refused(
        "--metric", "gld", "--ceilings", "X1", code=2
    )


@pytest.fixture
def refused(capsys):
    def ask(*arguments, code=1):
        assert main(["candidates", *arguments]) == code
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        return err

    return ask


def test_what_cannot_be_ranked_is_refused_in_one_line(database, refused):
    assert "has no metric 'nix'" in refused("--metric", "nix")
    said = refused("--group", "phase", code=2)
    assert "no group with warps_per_inst 'phase'" in said
    assert "cannot be combined with --metric roofline" in refused(
        "--metric", "roofline", "--target", "1", code=2
    )
    assert "0 or more" in refused("--limit=-1", code=2)
    add_profile(database, profile_of(host(call("f", 1, {"misses": 3})), number=9))
    assert "none of the usual ratios; choose one with --metric (it has: misses)" in refused("2")
    assert "no time to rank by" in refused("2", "--metric", "misses", "--order", "product")


def test_csv_and_text_have_the_same_rows(database, capsys):
    assert main(["candidates", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["candidates"]) == 0
    text = capsys.readouterr().out
    assert [row["rank"] for row in rows] == ["1", "2"]
    assert "relu" in text and "Saved" in text
    assert {row["speedup"] for row in rows} == {""} and "Speedup" not in text


def test_candidates_are_files_or_groups_where_these_are_asked_for(database, capsys):
    """Times and values are summed first; of a ratio the formula is applied to the sums."""
    by_routine = shown(capsys, "--metric", "time", "--group", "GPU_KERNEL")
    (one,) = shown(capsys, "--metric", "time", "--group", "GPU_KERNEL", "--by", "group")["rows"]
    assert one["timer"] == "GPU_KERNEL"
    assert one["time_ns"] == sum(row["time_ns"] for row in by_routine["rows"])


def test_a_dimension_does_not_go_with_roofs(database, refused):
    assert "--by cannot be combined with --metric roofline" in refused(
        "--metric", "roofline", "--by", "file", code=2
    )
