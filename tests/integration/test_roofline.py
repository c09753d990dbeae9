"""`taupy roofline` on stored trials: tables, files, errors; and the way there without counters."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.model.gpu import Fact
from taupy.model.machine import Ceiling
from taupy.profiledb.ceilings import add_ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call
from tests.unit.profiledb.test_layers import backward_of, known
from tests.unit.roofline.build import EPYC, Kernel, cpu_trial, gpu_trial, phases_trial

SHARED = Path(os.environ.get("TAUPY_SHARED_DATA") or "/nonexistent") / "gpu"
needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="TAUPY_SHARED_DATA names no data")
EXAMPLES = Path(__file__).parents[2] / "examples"
GEMM = {"flop_fp32": 2.4e10, "bytes_l2": 1e9, "bytes_dram": 2e8}
COPY = {"flop_fp32": 0, "bytes_l2": 8e8, "bytes_dram": 6e8}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Trials: 1 on a V100, 2 on an A100, 3 on a CPU with ceilings, 4 without counters,
    5 to 7 a sweep."""
    path = tmp_path_factory.mktemp("roofline") / "taupy.db"
    kernels = [Kernel("gemm", 10, 2_000_000, GEMM), Kernel("copy", 5, 1_000_000, COPY)]
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, gpu_trial(*kernels))
        add_profile(db, gpu_trial(*kernels, gpu="NVIDIA A100-SXM4-40GB", number=2))
        add_profile(db, cpu_trial(3))
        add_profile(db, phases_trial({"step": 1.0}, 4))
        for number, batch in enumerate((16, 32, 64), 5):
            values = {name: value * batch for name, value in GEMM.items()}
            trial = gpu_trial(
                Kernel("gemm", 10, 100_000 * batch, values),
                number=number,
                application="sweep",
                metadata={"batch": str(batch), "framework": "PyTorch"},
            )
            add_profile(db, trial)
        add_ceilings(db, EPYC)
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch, database):
    """A folder with a copy of that database."""
    shutil.copy(database, tmp_path / "taupy.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TAUPY_DB", raising=False)
    return tmp_path


def taupy(capsys, *words, code=0):
    assert main(["roofline", *words]) == code
    return capsys.readouterr()


def refused(capsys, *words, code=1):
    shown = taupy(capsys, *words, code=code)
    assert shown.out == ""
    assert shown.err.startswith("taupy: ")
    assert shown.err.count("\n") == 1
    return shown.err


def test_the_table_shows_intensity_rate_share_and_bound(folder, capsys):
    (row, _) = csv.DictReader(io.StringIO(taupy(capsys, "1", "--csv").out))
    assert row["name"] == "gemm"
    assert float(row["intensity_DRAM"]) == 120
    assert float(row["flop_s"]) == pytest.approx(1.2e13)
    assert float(row["roof_share"]) == pytest.approx(1.2e13 / 15.7e12)
    assert (row["bound_by"], row["flop_tier"]) == ("compute (fp32)", "measured")
    text = taupy(capsys, "1").out
    assert "1. gemm: bound by compute (fp32), at 76.4 % of its roof (1.31x faster at best)" in text
    assert "fp32 15.7 Tflop/s (datasheet)" in text
    assert "launch 4.20 us (report)" in text
    assert "without flop (copies, conversions, layout): 1 of 2 kernels, 33.3 %" in text


def test_measured_ceilings_come_before_a_datasheet(folder, capsys):
    text = taupy(capsys, "3").out
    assert "roofs of AMD EPYC: fp32 550 Gflop/s (measured)" in text
    assert "flop of unknown precision compared with the fp32 peak" in text


def test_published_rates_only_where_asked_for(folder, capsys):
    assert "DRAM 829 GB/s (report)" in taupy(capsys, "1", "--ceilings", "report").out
    refusal = refused(capsys, "1", "--ceilings", "A100", code=2)
    assert "'A100 SXM4 40 GB'" in refusal and "choose one" in refusal


def test_ceilings_from_a_file(folder, capsys):
    Path("mine.csv").write_text("kind,name,value\ncompute,fp32,1.2e13\nbandwidth,DRAM,8e11\n")
    (row, _) = json.loads(taupy(capsys, "1", "--ceilings", "mine.csv", "--json").out)["rows"]
    assert row["roof_share"] == pytest.approx(1.0)
    Path("bad.csv").write_text("a,b\n")
    assert "kind,name,value" in refused(capsys, "1", "--ceilings", "bad.csv")


@pytest.mark.slow
def test_pictures_take_a_title_other_names_and_a_size(folder, capsys):
    words = ("--title", "My network", "--alias", "ge*=Product", "--size", "9x5")
    taupy(capsys, "1", "-o", "a.svg", *words)
    drawn = Path("a.svg").read_text("utf-8")
    assert "My network" in drawn and "Product" in drawn and 'width="648pt"' in drawn
    assert "--alias: no point 'x' (there are: copy, gemm)" in refused(
        capsys, "1", "--alias", "x=y", code=2
    )
    assert "such as 11x6" in refused(capsys, "1", "--size", "large", code=2)


def test_a_run_on_one_thread_is_held_against_the_roofs_of_one(folder, capsys):
    one = [replace(each, threads=1, value=each.value / 2, characterization="1") for each in EPYC]
    used = {"CPU Type": "AMD EPYC", "CPU Time User (s)": "1.5", "CPU Time System (s)": "0.05"}
    with ProfileDB.open(folder / "taupy.db", readonly=False) as db:
        add_profile(db, cpu_trial(20, metadata=used))
        add_profile(db, cpu_trial(21, metadata={**used, "CPU Time User (s)": "3.0"}))
        add_ceilings(db, one)
    assert "fp32 275 Gflop/s (measured)" in roofs_named(taupy(capsys, "8"))
    assert "(1 thread)" in roofs_named(taupy(capsys, "8"))
    assert "fp32 550 Gflop/s (measured)" in roofs_named(taupy(capsys, "9"))
    assert "fp32 550 Gflop/s (measured)" in roofs_named(taupy(capsys, "8", "--threads", "2"))


def test_a_page_alone_writes_no_other_file(folder, capsys):
    shown = taupy(capsys, "1", "2", "-o", "alone.html")
    assert shown.err.splitlines() == ["taupy: wrote alone.html"]
    assert [path.name for path in folder.glob("alone*")] == ["alone.html"]


def test_one_page_one_csv_one_json(folder, capsys):
    files = [f"both.{ending}" for ending in ("html", "csv", "json")]
    shown = taupy(capsys, "1", "2", *(word for file in files for word in ("-o", file)))
    assert shown.err.splitlines() == [f"taupy: wrote {file}" for file in files]
    made = json.loads(Path("both.json").read_text("utf-8"))
    assert [one["kind"] for one in made] == [
        *("classic", "classic", "hierarchical", "complexity", "complexity"),
        *("time", "time", "combined", "combined"),
    ]
    assert len(list(csv.DictReader(io.StringIO(Path("both.csv").read_text("utf-8"))))) == 4
    processors = {line["processor"] for line in made[0]["lines"]}
    assert processors == {"Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB"}


def test_several_charts_get_names_of_their_own(folder, capsys):
    taupy(capsys, "1", "-o", "a.svg", "--chart", "classic", "--chart", "combined")
    assert {path.name for path in folder.glob("a*")} == {
        *("a-classic.svg", "a-combined.svg", "a.csv", "a.json"),
    }


def test_an_old_spelling_works_and_says_the_new_one(folder, capsys):
    assert main(["roofline", "1", "--csv", "--by", "launch"]) == 0
    wanted = capsys.readouterr()
    assert wanted.out.count("\n") > 1
    assert main(["roofline", "1", "--csv", "--of", "launch"]) == 0
    told = capsys.readouterr()
    assert told.out == wanted.out
    assert told.err.splitlines()[0] == "taupy: --of is now --by"


def test_a_sweep_draws_a_trajectory_of_programs(folder, capsys):
    words = ("5", "6", "7", "--sweep", "batch", "--series", "framework", "-o", "s.json")
    taupy(capsys, *words, "--chart", "combined")
    (chart,) = json.loads(Path("s.json").read_text("utf-8"))
    solid, dashed = [line for line in chart["lines"] if line["role"] == "trajectory"]
    assert solid["label"] == "PyTorch"
    assert [point[0] for point in solid["points"]] == [2e8 * batch for batch in (16, 32, 64)]
    assert dashed["style"] == "dashed"
    assert [point["parameter"] for point in chart["points"]] == [16, 32, 64]


def test_exports_for_other_tools(folder, capsys):
    exports = ("--export", "ncu-csv", "n.csv", "--export", "ert-json", "e.json")
    taupy(capsys, "1", *exports)
    rows = list(csv.DictReader(io.StringIO(Path("n.csv").read_text("utf-8"))))
    values = {row["Metric Name"]: row["Metric Value"] for row in rows if row["ID"] == "0"}
    assert values["dram__bytes.sum"] == "200000000"
    assert json.loads(Path("e.json").read_text())["empirical"]["gbytes"]["data"]
    shown = taupy(capsys, "1", "--ceilings", "e.json")
    assert "(report)" in shown.out


def test_what_nsight_form_says_comes_back_through_import(folder, capsys):
    taupy(capsys, "1", "--export", "ncu-csv", "n.csv")
    assert main(["import", "n.csv"]) == 0
    capsys.readouterr()
    rows = json.loads(taupy(capsys, "--json").out)["rows"]
    gemm = next(row for row in rows if row["name"] == "gemm")
    assert gemm["flop"] == 2.4e10
    assert gemm["intensity_DRAM"] == 120


@pytest.mark.parametrize("precision", ["", "_fp64", "_tf32", "_fp16", "_bf16", "_fp8", "_int8"])
def test_tensor_flop_come_back_through_nsights_form(folder, capsys, precision):
    values = {f"flop_tensor{precision}": 8e9, "flop_fp32": 1e6, "bytes_dram": 1e7}
    with ProfileDB.open(folder / "taupy.db", readonly=False) as db:
        add_profile(db, gpu_trial(Kernel("mma", 2, 1000_000, values), number=9))
    taupy(capsys, "latest", "--export", "ncu-csv", "n.csv")
    assert main(["import", "--db", "other.db", "n.csv"]) == 0
    capsys.readouterr()
    (row,) = json.loads(taupy(capsys, "--db", "other.db", "--json").out)["rows"]
    assert row["flop"] == 8e9 + 1e6
    assert row[f"flop_tensor{precision or '_fp16'}"] == 8e9


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("4",), 1, "without hardware counters: taupy run -m taupy.count SCRIPT"),
        (("4", "--by", "kernel"), 1, "taupy run --metrics roofline SCRIPT"),
        (
            ("1", "-o", "roof.gif"),
            2,
            "the file name must end in .png, .svg, .pdf, .html, .csv, .json",
        ),
        (("1", "-o", "no/where.csv"), 2, "cannot be written"),
        (("1", "--level", "L1"), 2, ""),
        (("1", "--peak", "fp128"), 2, "no peak 'fp128' (it has:"),
        (("1", "--latency", "soon"), 2, "a time such as 4.2us"),
        (("1", "--timer", "nothing*"), 2, "no kernel matches 'nothing*' (the trial has 2"),
        (("1", "--sweep", "batch"), 2, "no parameter 'batch'"),
        (("1", "--ceilings", "GTX 285"), 2, "or a GPU with a known datasheet"),
        (("1", "--export", "xml", "f"), 2, "--export takes ncu-csv or ert-json"),
        (("99",), 1, "no trial matches '99'"),
        (("3", "--also", "datasheet"), 2, "no datasheet ceilings known for AMD EPYC"),
        (("1", "--timing", "4"), 2, "a run of the same program"),
        (("1", "3"), 1, "use --by routine or --by program"),
    ],
)
def test_errors_say_what_is_there_and_what_to_do(folder, capsys, words, code, said):
    if "--level" in words:
        words = (*words, "-o", "x.csv")
        said = "no point has bytes of level L1 (measured: L2, DRAM)"
    assert said in refused(capsys, *words, code=code)


def test_time_charts_need_roofs(folder, capsys):
    profile = gpu_trial(Kernel("gemm", 1, 1000, GEMM), gpu="Unheard-of GPU", number=8)
    with ProfileDB.open(folder / "taupy.db", readonly=False) as db:
        add_profile(db, profile)
    assert "no ceilings known for Unheard-of GPU" in taupy(capsys, "latest").out
    said = refused(capsys, "latest", "-o", "x.png", "--chart", "time", code=2)
    assert "needs a compute roof and a DRAM roof for Unheard-of GPU" in said


@pytest.mark.slow
def test_a_program_without_counters_is_counted_by_its_shapes(runs):
    pytest.importorskip("numpy")
    source = """
import numpy as np, taupy
def product(a, b):
    return a @ b
a = np.ones((64, 64), np.float32)
for _ in range(10):
    with taupy.step():
        product(a, a)
"""
    assert runs.run(source).returncode == 0
    done = runs.taupy("run", "--db", str(runs.database), "-m", "taupy.count", "prog.py")
    assert done.returncode == 0, done.stderr
    assert runs.sql("SELECT name FROM application") == [("prog",)]
    alone = runs.taupy("roofline", "--db", str(runs.database), "--json")
    (row,) = json.loads(alone.stdout)["rows"]
    assert row["flop_fp32"] == 10 * 2 * 64**3
    inside = runs.one(
        "SELECT sum(exclusive) FROM timer_value JOIN timer ON timer.id = timer_id"
        " JOIN metric ON metric.id = metric_id"
        " WHERE trial_id = 2 AND short_name IN ('product', 'binary') AND metric.name = 'time'"
    )
    assert row["run_time_s"] == pytest.approx(inside / 1e9)
    assert "minus the estimated cost of counting" in row["notes"]
    shown = runs.taupy("roofline", "--db", str(runs.database), "--by", "step", "--json")
    rows = json.loads(shown.stdout)["rows"]
    assert len(rows) == 10 and {row["flop_fp32"] for row in rows} == {2 * 64**3}
    assert "times include counting" in rows[0]["notes"]
    shown = runs.taupy("roofline", "--db", str(runs.database), "--timing", "1", "--json")
    (row,) = json.loads(shown.stdout)["rows"]
    assert row["name"].startswith("product ")
    assert (row["calls"], row["flop_fp32"]) == (10, 10 * 2 * 64**3)
    assert row["bytes_DRAM"] == 10 * 3 * 64 * 64 * 4
    assert (row["flop_tier"], row["bytes_tier"]) == ("analytic", "analytic")
    timed = runs.one(
        "SELECT sum(exclusive) FROM timer_value JOIN timer ON timer.id = timer_id"
        " JOIN metric ON metric.id = metric_id"
        " WHERE trial_id = 1 AND short_name = 'product' AND metric.name = 'time'"
    )
    assert row["run_time_s"] == pytest.approx(timed / 1e9)


def imported(capsys, name, *words):
    """Rows of a real file of Nsight Compute."""
    assert main(["import", "--db", "real.db", str(SHARED / name)]) == 0
    capsys.readouterr()
    return json.loads(taupy(capsys, "--db", "real.db", "--json", *words).out)["rows"]


@needs_data
def test_a_product_on_an_a100_has_the_flop_that_are_stated(folder, capsys):
    """2 x 64 x 2304 x 768: the file has no counter of the tensor cores' operations."""
    words = ("--ceilings", "A100 SXM4 80 GB")
    rows = imported(capsys, "a100_gpt2_flashattn.ncu.csv", *words)
    gemm = next(row for row in rows if "s16816gemm" in row["name"])
    assert (gemm["uncounted"], gemm["bound_by"]) == ("tensor", None)
    assert not any(row.get("flop_tensor") for row in rows)
    stated = "ampere_fp16_s16816gemm*=2*64*2304*768, tensor fp16"
    shown = taupy(capsys, "--db", "real.db", "--json", *words, "--flop", stated)
    gemm = next(row for row in json.loads(shown.out)["rows"] if "s16816gemm" in row["name"])
    assert (gemm["flop"], gemm["flop_tier"], gemm["bound_by"]) == (226_492_416, "analytic", "DRAM")
    assert gemm["intensity_DRAM"] == pytest.approx(226_492_416 / 3_642_496)


def test_kernels_without_counters_are_placed_by_what_is_stated(folder, capsys):
    with ProfileDB.open(folder / "taupy.db", readonly=False) as db:
        kernels = (Kernel("gemm_64", 10, 2_000_000), Kernel("copy", 5, 1_000_000))
        add_profile(db, gpu_trial(*kernels, number=9, metadata={"M": "1024"}))
    words = ("latest", "--flop", "gemm*=2*M*M*M", "--bytes", "gemm*=3*4*M*M", "--json")
    gemm = next(
        row for row in json.loads(taupy(capsys, *words).out)["rows"] if row["name"] == "gemm_64"
    )
    assert (gemm["flop"], gemm["flop_tier"]) == (10 * 2 * 1024**3, "analytic")
    assert gemm["intensity_DRAM"] == pytest.approx(2 * 1024**3 / (12 * 1024**2))
    said = refused(capsys, "latest", "--flop", "gemm*=2*N*M*K", code=2)
    assert "metadata has no number 'N' (it has: M)" in said


@needs_data
def test_levels_of_a_double_precision_kernel_on_an_rtx_4060(folder, capsys):
    (row,) = imported(capsys, "rtx4060_gpp_step1.ncu.csv")
    rate = row["flop_fp64"] / row["run_time_s"]
    assert rate == pytest.approx(85.16e9, rel=1e-4)
    assert rate / row["intensity_L2"] == pytest.approx(21.02e9, rel=1e-3)
    assert rate / row["intensity_L1"] == pytest.approx(42.26e9, rel=1e-3)


def of_a_report(folder):
    """A trial with the roofs of its own launches, on a GPU that was also measured."""
    slow = {
        "Roof fp32": (3e12, "flop/s"),
        "Roof DRAM": (1e11, "B/s"),
        "Clock of the Roofs": (1e9, "Hz"),
    }
    trial = gpu_trial(Kernel("gemm", 10, 20_000_000, GEMM), gpu="Tesla V100-SXM2-16GB", number=9)
    facts = tuple(Fact(name, *value) for name, value in slow.items())
    trial.devices = [replace(device, facts=facts) for device in trial.devices]
    fast = [
        Ceiling("m", "host", "Tesla V100-SXM2-16GB", "GPU-1", kind, name, "", 0, value, unit,
                "measured")
        for kind, name, value, unit in (
            ("compute", "fp32", 1.4e13, "flop/s"), ("bandwidth", "L2", 3e12, "B/s"),
            ("bandwidth", "DRAM", 8e11, "B/s"),
        )
    ]  # fmt: skip
    with ProfileDB.open(folder / "taupy.db", readonly=False) as db:
        add_profile(db, trial)
        add_ceilings(db, fast)


def roofs_named(shown):
    return next(line for line in shown.out.splitlines() if line.startswith("note: roofs of"))


def test_roofs_that_came_with_the_counts_come_first(folder, capsys):
    """They hold at the clocks at which the counting tool locked the GPU."""
    of_a_report(folder)
    named = roofs_named(taupy(capsys, "latest"))
    assert "at 1.00 GHz: fp32 3.00 Tflop/s (report)" in named and "DRAM 100 GB/s (report)" in named
    assert "L2 3.00 TB/s (measured)" in named
    named = roofs_named(taupy(capsys, "1"))  # another trial of that GPU
    assert "fp32 14.0 Tflop/s (measured)" in named and " at " not in named
    named = roofs_named(taupy(capsys, "latest", "--ceilings", "measured"))
    assert "fp32 14.0 Tflop/s (measured)" in named and "report" not in named
    named = roofs_named(taupy(capsys, "latest", "--timing", "1"))
    assert "fp32 14.0 Tflop/s (measured)" in named


@needs_data
def test_a_report_of_an_rtx_4060_is_held_against_its_own_roofs(folder, capsys):
    """NVIDIA's own roofline: 48 fp64 units at 1.62 GHz, 32 B x 7.993 GHz of DRAM."""
    path = SHARED / "rtx4060_gpp_step1.ncu-rep"
    (row,) = imported(capsys, path.name)
    roof = 2 * 48 * 1.62e9
    assert row["roof_share"] == pytest.approx(85.16e9 / roof, rel=1e-3)
    shown = taupy(capsys, "--db", "real.db", "--ceilings", str(path))
    assert "DRAM 256 GB/s (report)" in roofs_named(shown)
    csv_file = str(path).replace(".ncu-rep", ".ncu.csv")
    assert "has no peaks" in refused(capsys, "--db", "real.db", "--ceilings", csv_file)


@needs_data
def test_a_file_without_flop_counters_is_an_error_with_the_remedy(folder, capsys):
    assert main(["import", "--db", "real.db", str(SHARED / "rtx5070/saxpy.csv")]) == 0
    capsys.readouterr()
    assert "no flop in any precision" in refused(capsys, "--db", "real.db")


@pytest.mark.slow
def test_the_page_draws_in_a_browser_without_network(folder, capsys):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    taupy(capsys, "1", "2", "-o", "page.html")
    taupy(capsys, "1", "--equal-decades", "-o", "equal.html")
    for page, kind, theme in (
        ("page", "hierarchical", "light"),
        ("page", "combined", "dark"),
        ("equal", "classic", "light"),
    ):
        done = subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
                "--virtual-time-budget=60000",
                *(
                    "--user-data-dir=" + str(folder / "browser"),
                    "--host-resolver-rules=MAP * ~NOTFOUND",
                ),
                f"file://{folder}/{page}.html#chart={kind}&theme={theme}",
            ],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "HOME": str(folder)},
        )
        assert 'data-ready="yes"' in done.stdout
        assert f'data-theme="{theme}"' in done.stdout
        assert done.stdout.count('class="symbol"') >= (2 if page == "equal" else 4)
        assert bool(re.search(r"rotate\(-45(\.0+\d*)?\)", done.stdout)) == (page == "equal")
        assert "gemm" in done.stdout


@pytest.mark.slow
def test_the_sweep_example_runs_on_a_cpu(runs):
    pytest.importorskip("torch")
    shutil.copy(EXAMPLES / "time_roofline" / "sweep.py", runs.folder)
    words = ("sweep.py", "conv2d", "--small", "--rounds", "2", "--over", "filters")
    done = runs.taupy("run", "--db", str(runs.database), *words)
    assert done.returncode == 0, done.stderr
    shown = runs.taupy("roofline", "--db", str(runs.database), "--sweep", "filters", "--json")
    rows = json.loads(shown.stdout)["rows"]
    assert [row["parameter"] for row in rows] == [16, 32, 64, 128]
    # 2 rounds of 4 images, 13 x 13 places, 16 channels, 3 x 3
    assert rows[0]["flop_fp32"] == 2 * 2 * 4 * 16 * 13 * 13 * 16 * 9


@pytest.fixture
def of_layers(tmp_path, monkeypatch):
    """A training without counters: the flop of two layers and one backward pass are known."""
    monkeypatch.chdir(tmp_path)
    passes = call(backward_of("body.0", "Linear"), 6, 1)
    with ProfileDB.open("taupy.db", create=True) as db:
        add_profile(db, known(passes))


def test_without_counters_layers_have_the_flop_that_is_derived_for_them(of_layers, capsys):
    """As `taupy layers` shows them: 60 of each of 4 calls, 70 of each of 2, 120 of each of 6."""
    rows = {row["name"]: row for row in json.loads(taupy(capsys, "--json").out)["rows"]}
    assert {name: (row["flop"], row["uncounted"], row["flop_tier"]) for name, row in rows.items()} \
        == {
            "body.0 [Linear]": (240, None, "analytic"),
            "body.1 [Linear]": (140, "operations without a formula", "analytic"),
            "backward of body.0 [Linear]": (720, None, "analytic"),
        }  # fmt: skip
    assert all(row["flop_s"] > 0 and row["bytes_tier"] == "unknown" for row in rows.values())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--by", "routine"), "the flop of its layers, without bytes, are known: --by layer"),
        (("--by", "kernel"), "the flop of its layers, without bytes, are known: --by layer"),
        (("-o", "x.html"), "has no bytes at any level"),
        (("--sweep", "batch"), "taupy run --metrics roofline SCRIPT"),
    ],
)
def test_charts_and_others_than_layers_need_counters(of_layers, capsys, words, says):
    assert main(["roofline", *words]) == 1
    assert says in capsys.readouterr().err
