"""`taupy derive`, and derived metrics where `taupy pprof` takes metrics."""

import json
import sqlite3

import pytest

from taupy.commands import main
from taupy.profiledb.writer import add_profile
from tests.builders import database_at
from tests.unit.analysis.counted import counted_profile


@pytest.fixture(autouse=True)
def database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_DB", str(tmp_path / "taupy.db"))
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    with database_at(tmp_path / "taupy.db") as db:
        add_profile(db, counted_profile())
    return tmp_path / "taupy.db"


@pytest.fixture
def taupy(capsys):
    def ask(*arguments, code=0):
        assert main(list(arguments)) == code
        return capsys.readouterr()

    return ask


def test_all_definitions_are_listed_with_what_the_trial_can_give(taupy):
    rows = {row["name"]: row for row in json.loads(taupy("derive", "--json").out)["rows"]}
    assert rows["warps_per_inst"]["unit"] == "warp/inst"
    assert rows["warps_per_inst"]["in_trial"] == "yes"
    assert rows["ipc"]["in_trial"] == "no"
    assert rows["ipc"]["source"] == "predefined"


def test_a_definition_is_made_shown_used_and_deleted(taupy, database):
    said = taupy("derive", "add", "loads", "gld / inst_issued", "--description", "loads").err
    assert said == "taupy: loads = gld / inst_issued [ratio]\n"
    facts = {row["name"]: row["value"] for row in
             json.loads(taupy("derive", "show", "loads", "--json").out)["rows"]}  # fmt: skip
    assert facts["Derived as"] == "gld / inst_issued"
    assert facts["Adds up"] == "no: a ratio of sums"
    assert facts["Is"] == "loads"
    rows = json.loads(taupy("pprof", "--metric", "loads", "--json").out)[0]["rows"]
    gemm = next(row for row in rows if row["short_name"] == "gemm")
    assert gemm["exclusive_ratio"] == 400 / 500000
    assert "percent" not in gemm and not any(key.endswith("per_call") for key in gemm)
    statement = taupy("derive", "sql", "loads").out
    found = {row[3]: row[4] for row in sqlite3.connect(database).execute(statement)}
    assert found["gemm(float*)"] == 400 / 500000
    assert "deleted: loads" in taupy("derive", "delete", "loads").err
    assert "no metric 'loads'" in taupy("pprof", "--metric", "loads", code=1).err


def test_what_is_replaced_or_missing_is_reported(taupy):
    assert "in place" not in taupy("derive", "add", "a", "gld * 2").err
    assert "this replaces gld * 2 (database)" in taupy("derive", "add", "a", "gld * 3").err
    said = taupy("derive", "add", "b", "nix * 2").err
    assert "note: trial 1 has no metric 'nix'" in said and "--metrics nix" not in said
    said = taupy("derive", "add", "c", "bytes_l2 / calls").err
    assert "measure it with: taupy run --metrics bytes_l2 SCRIPT" in said


def test_options_may_stand_before_the_name(taupy):
    taupy(
        "derive", "add", "--unit", "us/call", "--description", "a call takes", "d", "time / calls"
    )
    text = taupy("derive", "show", "d").out
    assert "us/call" in text and "a call takes" in text


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["add", "a", "gld +"], 2, "at character 6 is the end"),
        (["add", "a", "gld + time"], 2, "mixes units: gld is in inst, time in ns"),
        (["add", "a", "bytes_dram + inst_executed"], 2, "mixes units: bytes_dram is in B"),
        (["add", "a", "flop_fp32 / cycles_active + ipc"], 2, "mixes units"),
        (["add", "--unit", "B", "a", "bytes_dram / calls"], 2, "is in B/call, not in B"),
        (["add", "a b", "gld"], 2, "'a b' is not a valid name"),
        (["add", "a", "gld", "--unit", "s"], 2, "is in inst, not in s"),
        (["add", "time", "calls"], 2, "'time' is the name of a measured metric of this database"),
        (["add", "gld", "time"], 2, "'gld' is the name of a measured metric of this database"),
        (["add", "bytes_l1", "gld"], 2, "'bytes_l1' is the name of a counter (`taupy avail`"),
        (["add", "cache_misses", "gld"], 2, "'cache_misses' is the name of a counter"),
        (["add", "calls", "gld"], 2, "'calls' is the name of a metric that taupy measures itself"),
        (["add", "a"], 2, "write: taupy derive add NAME"),
        (["show", "nix"], 1, "no derived metric 'nix' (available: warps_per_inst"),
        (["delete", "ipc"], 1, "no derived metric 'ipc' of its own (it has: none)"),
        (["nix"], 2, "'nix' is not an action"),
        (["list", "--unit", "s"], 2, "apply to `taupy derive add"),
        (["sql", "ipc"], 1, "no metric 'inst_executed'"),
    ],
)
def test_what_is_no_definition_is_refused_in_one_line(taupy, arguments, code, part):
    answer = taupy("derive", *arguments, code=code)
    assert part in answer.err
    assert answer.err.count("\n") == 1 and answer.out == ""


def test_a_refused_definition_leaves_the_one_that_was_there(taupy):
    taupy("derive", "add", "a", "gld * 2")
    taupy("derive", "add", "a", "gld + time", code=2)
    assert "gld * 2" in taupy("derive", "show", "a").out


@pytest.mark.slow
def test_every_view_of_pprof_takes_a_ratio(taupy):
    def rows(*arguments):
        answer = json.loads(taupy("pprof", "--metric", "warps_per_inst", "--json", *arguments).out)
        lines = [row for view in answer for row in view["rows"]]
        return [
            (row.get("short_name") or row["group"], row["inclusive_warp_inst"])
            for row in lines
            if "inclusive_warp_inst" in row
        ]

    both = 5000 / 510000
    assert rows() == [("relu", 0.4), ("gemm", 0.002)]
    assert rows("--sort", "exclusive", "--reverse")[0] == ("gemm", 0.002)
    assert dict(rows("--tree"))["step"] == both
    assert dict(rows("--by", "group"))["GPU_KERNEL"] == both
    assert rows("--callees", "cudaLaunchKernel")[0] == ("cudaLaunchKernel", both)
    assert dict(rows("-s", "--summary", "total,mean,min,max"))["gemm"] == 0.002
    assert rows("--filter", "gemm") == [("gemm", 0.002)]
    assert rows("--where", "warps_per_inst > 0.1") == [("relu", 0.4)]
    assert rows("--where", "time>1000") == [("gemm", 0.002)]
    assert rows("-n", "1")[0] == ("relu", 0.4)
    others = json.loads(taupy("pprof", "--metric", "warps_per_inst", "--json", "-n", "0").out)
    assert others[0]["rows"][0]["exclusive_warp_inst"] == both  # of all that is left out


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["--where", "ipc <"], 2, "is not a condition: write METRIC < NUMBER"),
        (["--where", "gld > 1e9"], 1, "no routine of trial 1 has gld > 1e+09"),
        (["--where", "nix > 1"], 1, "no metric 'nix'"),
        (["--where", "gld > 1", "--filter", "relu"], 2, "--filter and to each --where"),
        (["--metric", "flop_rate", "--tree", "--min-share", "5"], 2, "flop_rate is a ratio"),
    ],
)
def test_what_pprof_cannot_filter_is_refused_in_one_line(taupy, arguments, code, part):
    assert part in taupy("pprof", *arguments, code=code).err


# --- metrics beside each other -----------------------------------------------


def tables(taupy, *arguments):
    answer = json.loads(taupy("pprof", "--json", *arguments).out)
    return [row for view in answer for row in view["rows"] if "calls" in row]


def test_more_metrics_stand_beside_the_one(taupy):
    rows = {(row["context"], row["short_name"]): row
            for row in tables(taupy, "--also", "warps_per_inst, gld", "--also", "cpu_ipc")
            if row["table"] == "thread"}  # fmt: skip
    gemm, step = rows[1, "gemm"], rows[0, "step"]
    assert gemm["warps_per_inst_exclusive_warp_inst"] == 0.002
    assert gemm["gld_exclusive_inst"] == 400
    assert gemm["cpu_ipc_exclusive_ratio"] is None  # not counted there
    assert (step["cpu_ipc_exclusive_ratio"], step["gld_exclusive_inst"]) == (4, None)
    assert rows[1, "copy_kernel"]["gld_exclusive_inst"] is None
    assert list(gemm)[-1] == "groups" and "percent" in gemm  # names still come last


def test_totals_beside_are_ratios_of_sums_and_means_those_of_threads(taupy):
    rows = {(row["table"], row["short_name"]): row
            for row in tables(taupy, "-s", "--also", "cpu_ipc,instructions",
                              "--summary", "total,mean,max")}  # fmt: skip
    main = rows["total", "<module>"]
    assert main["cpu_ipc_exclusive_ratio"] == 1010 / 500  # 1000/500 and 10/0
    assert main["instructions_exclusive_count"] == 1010
    assert rows["mean", "<module>"]["cpu_ipc_exclusive_ratio"] == 1010 / 500
    assert rows["mean", "<module>"]["instructions_exclusive_count"] == 505
    assert rows["max", "<module>"]["instructions_exclusive_count"] is None


def test_a_tree_has_the_inclusive_of_what_stands_beside(taupy):
    rows = {(row["context"], row["short_name"]): row
            for row in tables(taupy, "--tree", "--also", "warps_per_inst")}  # fmt: skip
    assert rows[1, "step"]["warps_per_inst_inclusive_warp_inst"] == 5000 / 510000
    assert rows[0, "step"]["warps_per_inst_inclusive_warp_inst"] is None
    rows = {row["short_name"]: row for row in tables(taupy, "--tree", "-s", "--also", "cpu_ipc")}
    assert rows["<module>"]["cpu_ipc_inclusive_ratio"] == 7010 / 2000


def test_what_cannot_stand_beside_is_refused(taupy):
    assert "no metric 'nix'" in taupy("pprof", "--also", "nix", code=1).err
    by_group = taupy("pprof", "--also", "gld", "--by", "group", code=2)
    assert "--also does not apply to --by" in by_group.err
