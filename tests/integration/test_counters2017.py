"""The printed counter tables of examples/counters2017, reproduced to their digits."""

import csv
import io
import json
import runpy
import sys
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.model.answer import flat_rows
from taupy.model.question import Condition
from taupy.profiledb import metrics, query, selector
from taupy.profiledb.database import ProfileDB

FOLDER = Path(__file__).parents[2] / "examples" / "counters2017"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    database = tmp_path_factory.mktemp("counters2017") / "counters2017.db"
    before = sys.argv
    sys.argv = ["make_trials.py", str(database)]
    try:
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(FOLDER / "make_trials.py"), run_name="__main__")
    finally:
        sys.argv = before
    assert end.value.code == 0
    return database


@pytest.fixture
def db(path):
    with ProfileDB.open(path) as opened:
        yield opened


@pytest.fixture
def taupy(path, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path))

    def ask(*arguments):
        assert main([*arguments, "--db", str(path)]) == 0
        return capsys.readouterr().out

    return ask


def printed(name):
    with open(FOLDER / name, newline="") as file:
        return list(csv.DictReader(file))


def values(db, trial, metric):
    rows = flat_rows(metrics.flat_profile(db, selector.trial(db, trial).id, metric))
    return {row.timer: float(row.exclusive) for row in rows if row.exclusive == row.exclusive}


def test_the_neon_table_is_the_printed_one(taupy):
    """Means over two threads: TIME in s, instructions and cycles to three decimals, calls."""
    columns = {"time": "time_s", "inst_executed": "inst_executed", "cycles_active": "active_cycles"}
    for metric, column in columns.items():
        text = taupy("pprof", "alexnet", "--metric", metric, "-s", "--summary", "mean", "--csv")
        means = {row["timer"]: row for row in csv.DictReader(io.StringIO(text))}
        unit = {"time": "ns", "inst_executed": "inst", "cycles_active": "cycle"}[metric]
        for row in printed("neon_alexnet.csv"):
            mean = means[row["timer"]]
            value = float(mean[f"exclusive_{unit}"]) / (1e9 if metric == "time" else 1)
            assert f"{value:.3f}" == f"{float(row[column]):.3f}", (metric, row["timer"])
            assert float(mean["calls"]) == float(row["calls"])


def test_instructions_per_cycle_of_the_neon_kernels(db):
    ipc = values(db, "alexnet", "ipc")
    for row in printed("neon_alexnet.csv"):
        expected = float(row["inst_executed"]) / float(row["active_cycles"])
        assert ipc[row["timer"]] == pytest.approx(expected, rel=1e-12)
    assert f"{ipc['sconv_direct_updat_64x32']:.2f}" == "4.36"  # above the GPU's 3: a slip
    assert f"{ipc['prepare']:.3f}" == "0.345"


def test_the_ratio_of_all_kernels_is_that_of_their_sums(db):
    trial = selector.trial(db, "alexnet").id
    kernels = metrics.answer(db, trial, "ipc", where=[Condition("group", ("GPU_KERNEL",))])
    table = printed("neon_alexnet.csv")
    expected = sum(float(row["inst_executed"]) for row in table) / sum(
        float(row["active_cycles"]) for row in table
    )
    assert kernels.values("exclusive") == [pytest.approx(expected, rel=1e-12)]
    ratios = metrics.answer(
        db, trial, "ipc", ("timer",), [Condition("group", ("GPU_KERNEL",))]
    ).values("exclusive")
    mean_of_ratios = sum(ratios) / len(ratios)
    assert abs(mean_of_ratios - expected) > 0.1  # which would be another number


@pytest.mark.parametrize("gpu", ["M40", "P100"])
def test_the_vgg_candidates_come_in_their_order_with_their_products(taupy, gpu):
    answer = json.loads(
        taupy("candidates", f"vgg/*/{gpu}", "--metric", "warps_per_inst_by_time", "--json")
    )
    table = [row for row in printed("vgg_candidates.csv") if row["gpu"] == gpu]
    assert [(row["timer"], f"{row['value']:.2f}") for row in answer["rows"]] == [
        (row["timer"], row["warps_per_inst_by_time"]) for row in table
    ]
    answer = json.loads(
        taupy("candidates", f"vgg/*/{gpu}", "--metric", "gmem_per_inst_by_time", "--json")
    )
    found = {row["timer"]: f"{row['value']:.4f}" for row in answer["rows"]}
    assert found == {row["timer"]: row["gmem_per_inst_by_time"] for row in table}


def test_the_vgg_ratios_are_those_of_the_whole_run(db):
    """The slip: one ratio for all kernels of a GPU, but for `prepare`."""
    for gpu, constant in (("M40", 0.008876), ("P100", 0.0010895)):
        found = values(db, f"vgg/*/{gpu}", "gmem_per_warp")
        odd = found.pop("prepare", None)
        assert all(value == pytest.approx(constant, rel=1e-4) for value in found.values())
        assert odd is None or odd < constant / 100


@pytest.mark.parametrize("row", printed("resnet_measured.csv"), ids=lambda row: "-".join(
    (row["gpu"], row["model"])))  # fmt: skip
def test_the_exercises_rates_and_intensities_are_the_printed_ones(db, row):
    trial = f"resnet/{row['gpu']}/{row['model']}"
    assert f"{values(db, trial, 'intensity_dram')['training']:.2f}" == row["intensity"]
    assert f"{values(db, trial, 'flop_rate')['training'] / 1e12:.2f}" == row["printed_gflops"]
    resolved = metrics.resolve(db, selector.trial(db, trial).id, "flop_rate")
    assert resolved.unit == "flop/s"


def test_the_exercises_work_by_hand_is_the_printed_one(db):
    for model, total in (("ResNet18", 1_839_251_456), ("ResNet34", 3_162_292_224)):
        found = values(db, f"resnet/by hand/{model}", "mac")
        for row in printed("resnet_by_hand.csv"):
            if row["model"] == model:
                kernel, inside, outside, shape, times = (
                    int(row[key]) for key in ("kernel", "input", "output", "shape", "repetitions")
                )
                name = f"conv {kernel}x{kernel} {inside} to {outside}"
                own = kernel**2 * inside * shape**2 * outside * times
                assert found[name] == own == int(row["computation"])
        assert sum(found.values()) == total
        assert sum(values(db, f"resnet/by hand/{model}", "flop_of_mac").values()) == 2 * total


def test_the_exercises_formulas_give_operations_and_intensity(tmp_path):
    """flop = add + mul + 2 fma; AI = flop / ((read + write sectors) x 32 B)."""
    from array import array

    from taupy.model.profile import CallTree, Metric, Profile, Thread, ThreadProfile, Timer
    from taupy.profiledb import derived
    from taupy.profiledb.writer import add_profile

    module = runpy.run_path(str(FOLDER / "make_trials.py"), run_name="not main")
    assert module["main"]
    sass = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    counted = {sass.format("fadd"): (100.0, "inst"), sass.format("fmul"): (200.0, "inst"),
               sass.format("ffma"): (350.0, "inst"), "dram__sectors_read.sum": (3.0, "sector"),
               "dram__sectors_write.sum": (1.0, "sector")}  # fmt: skip
    columns = {name: array("d", [value]) for name, (value, _) in counted.items()}
    one = array("q", [1])
    zero = array("q", [0])
    tree = CallTree(zero, array("q", [-1]), one, zero, columns, columns)
    profile = Profile("0190a2b3-0000-7000-8000-0000000000aa", "a", "b", 0.0, 1,
                      [Timer("k", groups=("GPU_KERNEL",))],
                      [ThreadProfile(Thread(0, 0, 0), tree)],
                      [Metric(name, unit) for name, (_, unit) in counted.items()])  # fmt: skip
    with ProfileDB.open(tmp_path / "x.db", create=True) as db:
        trial = add_profile(db, profile)
        for name, expression in module["FORMULAS"].items():
            derived.define(db, name, expression)
        (row,) = flat_rows(metrics.flat_profile(db, trial, "exercise_flop"))
        assert row.exclusive == 100 + 200 + 2 * 350
        (row,) = flat_rows(metrics.flat_profile(db, trial, "exercise_intensity"))
        assert row.exclusive == 1000 / (4 * 32)
        assert metrics.resolve(db, trial, "exercise_intensity").unit == "flop/B"


def test_the_slips_of_the_originals_stand_in_the_trials(db):
    for trial in db.trials():
        facts = {row.name: row.value for row in query.trial_metadata(db, trial.id)}
        assert "Slip 1" in facts and "Source" in facts, trial.name
