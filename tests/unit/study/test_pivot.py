"""`taupy pivot`: applications, libraries and kernels against GPUs."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from taupy.commands import main
from taupy.model.machine import Ceiling
from taupy.profiledb.ceilings import add_ceilings
from taupy.profiledb.writer import add_profile
from tests.builders import database_at, gpu_profile, small_profile

UUID = "01900000-0000-7000-8000-{:012d}"
K80, H200, A100 = "Tesla K80", "NVIDIA H200", "NVIDIA A100-SXM4-40GB"


def trial(number, application, library, gpu, factor=1, **more):
    """The trial of `builders.gpu_profile`, every time so many times as long."""
    made = gpu_profile(
        uuid=UUID.format(number),
        application=application,
        metadata={"library": library, "GPU Name": gpu},
        duration_ns=1000 * factor,
        **more,
    )
    made.devices = [replace(made.devices[0], name=gpu)]
    for thread in made.threads:
        for columns in (thread.tree.inclusive, thread.tree.exclusive):
            columns["time"] = columns["time"].__class__("q", [v * factor for v in columns["time"]])
    return made


@pytest.fixture(autouse=True)
def database(tmp_path, monkeypatch):
    """alexnet and vgg in neon and torch on two GPUs; vgg in torch on the K80 only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("TAUPY_DB", raising=False)
    with database_at("taupy.db") as db:
        add_profile(db, trial(1, "alexnet", "neon", K80, 4))
        add_profile(db, trial(2, "alexnet", "neon", H200, 1))
        add_profile(db, trial(3, "alexnet", "torch", K80, 8))
        add_profile(db, trial(4, "alexnet", "torch", H200, 2))
        add_profile(db, trial(5, "vgg", "torch", K80, 3))
        yield db


@pytest.fixture
def pivot(capsys):
    """Runs the command; gives exit code, rows of the CSV, errors."""

    def command(*arguments):
        code = main(["pivot", *arguments, "--csv"])
        captured = capsys.readouterr()
        return code, list(csv.DictReader(io.StringIO(captured.out))), captured.err

    return command


def test_time_by_application_library_and_gpu(pivot):
    _, rows, _ = pivot("--rows", "application,library")
    # The host's time is 100 + 300 + 40 + 60 = 500 ns, times the factor.
    assert rows == [
        {"application": "alexnet", "library": "neon", H200: "500.0", K80: "2000.0"},
        {"application": "alexnet", "library": "torch", H200: "1000.0", K80: "4000.0"},
        {"application": "vgg", "library": "torch", H200: "", K80: "1500.0"},
    ]


def test_kernels_and_several_metrics(pivot):
    _, rows, _ = pivot("--rows", "application,kernel", "--cell", "time", "--cell", "flop_rate",
                       "gpu=H200,meta.library=neon")  # fmt: skip
    assert [(row["metric"], row["kernel"], row[H200]) for row in rows] == [
        # relu's flop were not counted
        ("flop_rate", "void gemm<float, 128>(float*, int)", "800000000000.0"),
        ("time", "void gemm<float, 128>(float*, int)", "5000.0"),
        ("time", "Memcpy HtoD", "2000.0"),
        ("time", "relu(float*)", "800.0"),
    ]


def test_trials_that_meet_in_a_cell_and_what_is_done_with_them(pivot):
    rows = ("--rows", "application", "--columns", "gpu")
    assert pivot(*rows)[1][0][K80] == "3000.0"  # the median of 2000 and 4000
    assert pivot(*rows, "--across", "max")[1][0][K80] == "4000.0"
    assert pivot(*rows, "--across", "count")[1][0][K80] == "2.0"


def test_durations_and_calls_of_trials(pivot):
    assert pivot("--cell", "duration")[1][1][K80] == "3000.0"
    assert pivot("--value", "calls")[1][1][K80] == "42.0"  # root 1, main 1, step 10, 20 + 10
    assert pivot("--rows", "id", "--columns", "application", "3", "5")[1] == [
        {"id": "3", "alexnet": "4000.0", "vgg": ""},
        {"id": "5", "alexnet": "", "vgg": "1500.0"},
    ]


def test_relative_to_a_column(pivot):
    _, rows, _ = pivot("--rows", "application,library", "--baseline", "K80")
    assert [(row[H200], row[K80]) for row in rows] == [
        ("0.25", "1.0"),
        ("0.25", "1.0"),
        ("", "1.0"),
    ]


def test_groups_and_files_of_timers(pivot):
    _, rows, _ = pivot("--rows", "group", "--columns", "library", "gpu=H200")
    found = {row["group"]: row["neon"] for row in rows}
    assert found["CUDA_API"] == "100.0" and found["GPU_KERNEL"] == "5800.0"
    _, rows, _ = pivot("--rows", "routine", "--columns", "gpu", "--filter", "step", "1", "2")
    assert rows == [{"routine": "step", H200: "300.0", K80: "1200.0"}]


def test_kernels_with_other_template_arguments_share_a_row(database, pivot):
    other = trial(6, "alexnet", "jax", A100, 2)
    other.timers[5] = other.timers[5]._replace(name="void gemm<float, 64>(float*, int)")
    add_profile(database, other)
    _, rows, _ = pivot("--rows", "kernel", "--columns", "library", "4", "6")
    assert rows[0] == {"kernel": "gemm", "torch": "10000.0", "jax": "10000.0"}


def test_each_device_is_held_against_its_own_peak(database, pivot):
    add_profile(database, trial(6, "alexnet", "jax", A100, 1))
    add_ceilings(
        database,
        [Ceiling("c", "m", H200, "", "compute", "fp32", "fma", 0, 1.6e12, "flop/s", "measured")],
    )
    _, rows, _ = pivot("--rows", "kernel", "--cell", "flop_fp32", "--peak", "2", "6")
    # 4e6 flop in 5000 ns are 8e11 flop/s: half of what was measured, of the A100's
    # datasheet 19.5e12 flop/s.
    assert float(rows[0][H200]) == pytest.approx(50.0)
    assert float(rows[0][A100]) == pytest.approx(100 * 8e11 / 19.5e12)


def test_a_device_without_a_known_peak_is_reported_and_not_zero(capsys):
    main(["pivot", "--rows", "kernel", "--cell", "flop_fp32", "--peak", "1", "2"])
    out = capsys.readouterr().out
    assert "no peak known for fp32 of Tesla K80" in out
    assert "peak fp32 of NVIDIA H200: 6.7e+13 flop/s, datasheet" in out
    assert "K80" not in out.splitlines()[2]


def test_people_see_a_label_once_and_the_largest_rows(capsys):
    main(["pivot", "--rows", "application,library,kernel", "--limit", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "PIVOT: exclusive time by application, library, kernel and GPU"
    assert [line.split()[:3] for line in lines[4:7]] == [
        ["alexnet", "neon", "gemm"],
        ["torch", "gemm", "10.0"],
        ["vgg", "torch", "gemm"],
    ]
    assert "note: 6 smaller rows: --limit N or --all shows them" in lines


def test_trials_without_the_metric_are_left_out_and_named(database, capsys):
    add_profile(database, small_profile(7))
    main(["pivot", "--rows", "application,kernel", "--cell", "flop_fp32"])
    assert "1 of 6 trials has no flop_fp32: 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--rows", "librari"), "'librari' is not a label of these trials"),
        (("--rows", "gpu"), "gpu cannot be in both rows and columns"),
        (("--cell", "nope"), "has no metric 'nope'"),
        (("--baseline", "B200"), "none of the columns (NVIDIA H200, Tesla K80)"),
        (
            ("--rows", "kernel", "--cell", "time", "--peak"),
            "peaks exist for operations and bytes only",
        ),
        (("--rows", "kernel", "--cell", "duration"), "trials have a duration"),
        (("nothing",), "no trial matches 'nothing'"),
    ],
)
def test_errors_are_one_line(pivot, arguments, complaint):
    code, rows, err = pivot(*arguments)
    assert code in (1, 2) and rows == [] and err.count("\n") == 1
    assert complaint in err
