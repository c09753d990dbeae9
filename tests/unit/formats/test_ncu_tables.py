"""Nsight Compute's other tables: sections, summaries, pivots; and launches that differ."""

from __future__ import annotations

import pytest

from taupy.errors import FormatError
from taupy.formats.nsight import ncu_csv
from taupy.formats.registry import IMPORT_NOTES
from taupy.model import invariants
from taupy.model.gpu import NO_OWNER
from taupy.model.progress import SILENT
from tests.unit.formats import ncu_files as made
from tests.unit.formats.test_ncu import FLOPS, counted, events, read

RATES = {
    "flop_fp32 per second": 1e12,
    "flop_fp64 per second": 0,
    "bytes_dram per second": 500e9,
}


def test_a_section_without_a_duration_keeps_its_rates(tmp_path):
    """(100 adds + 2 x 200 fused ones) a cycle x 2 GHz = 1e12 flop/s."""
    path = made.section_csv(tmp_path / "r.csv", "Roofline", made.ROOFLINE_SECTION)
    profile = read(path)
    found = {name: one.mean for name, one in events(profile).items()}
    assert {name: found[name] for name in RATES} == pytest.approx(RATES)
    assert "flop_fp16 per second" not in found
    assert events(profile)["flop_fp32 per second"].unit == "flop/s"
    assert "flop_fp32" not in counted(profile)
    assert "1 launch with rates only" in profile.metadata[IMPORT_NOTES]


def test_sections_of_one_launch_in_several_files_join(tmp_path):
    rates = made.section_csv(tmp_path / "r.csv", "Roofline", made.ROOFLINE_SECTION)
    light = made.section_csv(
        tmp_path / "s.csv", "GPU Speed Of Light Throughput", [("", "Duration", "us", "3.00")]
    )
    (profile,) = ncu_csv.read_together([rates, light], SILENT)
    assert invariants.check(profile) == []
    values = counted(profile)
    assert (values["time"], values["calls"]) == (3000, 1)
    assert values["flop_fp32"] == pytest.approx(1e12 * 3e-6)
    assert values["bytes_dram"] == pytest.approx(500e9 * 3e-6)
    assert "sections of the same launches joined from 2 files" in profile.metadata[IMPORT_NOTES]


@pytest.mark.parametrize(
    ("other", "same"), [({}, True), ({"process": 8}, False), ({"id": 1}, False)]
)
def test_files_belong_together_that_share_launches(tmp_path, other, same):
    first = made.section_csv(tmp_path / "a.csv", "Roofline", made.ROOFLINE_SECTION)
    second = made.section_csv(tmp_path / "b.csv", "Light", [("", "Duration", "us", "3")], **other)
    assert ncu_csv.share_launches(first, second) is same


def test_cycles_over_their_rate_are_a_duration(tmp_path):
    rows = [("gpc__cycles_elapsed.max", "cycle", "3,000"),
            ("gpc__cycles_elapsed.avg.per_second", "Ghz", "1.5")]  # fmt: skip
    assert counted(read(made.long_csv(tmp_path / "a.csv", made.long_rows(rows))))["time"] == 2000


# --- summaries ---------------------------------------------------------------


def test_a_summary_is_as_many_launches_as_it_sums_up(tmp_path):
    gemm = [("gpu__time_duration.sum", "usecond", "1.00", "3.00", "2.00"),
            ("dram__bytes.sum", "Kbyte", "1", "3", "1.5"),
            ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "10", "30", "15"),
            ]  # fmt: skip
    copy = [("dram__bytes.sum", "byte", "n/a", "n/a", "n/a")]
    path = made.summary_csv(
        tmp_path / "s.csv",
        ("gemm<float>(float *)", "(8, 1, 1)", 4, gemm),
        ("copy", "(1, 1, 1)", 2, copy),
    )
    profile = read(path)
    values = counted(profile, "gemm")
    assert (values["calls"], values["time"], values["counted_launches"]) == (4, 8000, 4)
    assert (values["bytes_dram"], values["counted_time"]) == (6000, 8000)
    load = events(profile)["sm__throughput.avg.pct_of_peak_sustained_elapsed"]
    assert (load.count, load.minimum, load.maximum, load.mean) == (4, 10, 30, 15)
    (gemm,) = [
        launch for measured in profile.threads for launch in measured.launches if launch.time_ns
    ]
    assert (gemm.count, gemm.minimum_ns, gemm.maximum_ns, gemm.configuration.grid) == (
        4,
        1000,
        3000,
        (8, 1, 1),
    )
    assert counted(profile, "copy")["calls"] == 2
    assert "not counted (n/a): dram__bytes.sum" in profile.metadata[IMPORT_NOTES]
    assert "standard deviations are the least" in profile.metadata[IMPORT_NOTES]


def test_a_short_summary_has_neither_host_nor_extents(tmp_path):
    columns = ["Process ID", "Kernel Name", "Invocations", "Section Name", "Metric Name",
               "Metric Unit", "Minimum", "Maximum", "Average"]  # fmt: skip
    rows = [["1", "a", "2", "Light", "Duration", "us", "1", "3", "2"],
            ["1", "b", "1", "Light", "Duration", "ms", "1", "1", "1"]]  # fmt: skip
    path = tmp_path / "s.csv"
    path.write_text("==PROF== x\n" + "\n".join(map(made.line, [columns, *rows])))
    profile = read(path)
    assert counted(profile, "a")["time"] == 4000
    assert counted(profile, "b")["time"] == 1_000_000


# --- pivots ------------------------------------------------------------------

SUMS = (FLOPS.format("fadd"), FLOPS.format("fmul"), FLOPS.format("ffma"), "dram__bytes.sum")


def pivot(path, header, *rows):
    path.write_text("\n".join(made.line(row) for row in (header, *rows)) + "\n")
    return path


def test_a_pivot_table_has_a_row_for_each_kernel(tmp_path):
    path = pivot(
        tmp_path / "p.csv",
        ["Kernel Name", *SUMS, "gpu__time_duration.sum", "AI HBM"],
        ["gemm(int, float)", 100, 0, 200, 5000, 1000, 0.1],
        ["copy", 0, 0, 0, 8000.0, 2000, ""],
    )
    profile = read(path)
    gemm = counted(profile, "gemm")
    assert (gemm["flop_fp32"], gemm["bytes_dram"], gemm["time"]) == (500, 5000, 1000)
    assert counted(profile, "copy")["flop_fp32"] == 0
    notes = profile.metadata[IMPORT_NOTES]
    assert "a pivot table has no units" in notes
    assert "columns that are not metrics were left out: AI HBM" in notes


def test_a_pivot_of_nerscs_scripts_sums_launches_up(tmp_path):
    """Count launches are summed in every column; Time is in seconds."""
    path = pivot(
        tmp_path / "p.csv",
        ["Kernel Name", *SUMS, "Count", "Time", "GFLOP/s"],
        ["gemm", 100, 0, 200, 5000, 4, 8e-06, 0.0625],
    )
    values = counted(read(path))
    assert (values["calls"], values["flop_fp32"], values["bytes_dram"]) == (4, 500, 5000)
    assert values["time"] == 8000


@pytest.mark.parametrize("first", ["", "Metric Name"])
def test_a_pivot_without_kernels_has_a_row_for_each_launch(tmp_path, first):
    path = pivot(tmp_path / "p.csv", [first, *SUMS], [0, 1, 0, 2, 10], [1, 2, 0, 4, 20])
    profile = read(path)
    assert counted(profile, "row_0")["flop_fp32"] == 5
    assert counted(profile, "row_1")["bytes_dram"] == 20


@pytest.mark.parametrize(
    "text",
    ["a,b,c\n1,2,3\n", "name,dram__bytes.sum\nf,1\n", "Kernel Name,seconds\nf,1\n"],
)
def test_other_tables_are_no_pivots(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert not ncu_csv.recognises(path, path.read_bytes())


def test_a_pivot_that_is_cut_short_keeps_its_whole_rows_only(tmp_path):
    path = pivot(tmp_path / "p.csv", ["Kernel Name", *SUMS], ["gemm", 1, 0, 2, 10])
    path.write_text(path.read_text() + '"other","1')
    with pytest.raises(FormatError, match="cut short"):
        read(path)


# --- launches that differ ----------------------------------------------------


def paths(profile):
    """Call paths of kernels: the timers over them, with launches and time."""
    found = []
    for thread in profile.threads:
        tree = thread.tree
        for row in range(len(tree)):
            if "GPU_KERNEL" in profile.timers[tree.timer[row]].groups:
                above = profile.timers[tree.timer[tree.parent[row]]]
                found.append((above.name, tree.calls[row], tree.exclusive["time"][row]))
    return sorted(found)


def timed(*each, **at):
    return [
        made.long_rows([("gpu__time_duration.sum", "us", us), *more], id=n, **at)
        for n, (us, *more) in enumerate(each)
    ]


def test_launches_that_differ_have_call_paths_of_their_own(tmp_path):
    """12 s and 0.1 ms of one kernel: one mean of the two would be of neither."""
    profile = read(made.long_csv(tmp_path / "a.csv", *timed((12e6,), (100,), (150,), (11.5e6,))))
    at = "launches of grid 8x1x1, block 128x1x1"
    assert paths(profile) == [
        (f"{at}, 11.8 s each", 2, 23_500_000_000),
        (f"{at}, 125 us each", 2, 250_000),
    ]
    assert counted(profile)["calls"] == 4
    assert invariants.check(profile) == []


def test_launches_that_are_alike_stay_together(tmp_path):
    profile = read(made.long_csv(tmp_path / "a.csv", *timed((100,), (150,), (190,))))
    assert paths(profile) == [(NO_OWNER, 3, 440_000)]


def test_launches_of_which_other_things_were_counted_are_not_added_up(tmp_path):
    bytes_too = ("dram__bytes.sum", "byte", "500")
    profile = read(made.long_csv(tmp_path / "a.csv", *timed((100, bytes_too), (100,))))
    at = "launches of grid 8x1x1, block 128x1x1, 100 us each"
    assert paths(profile) == [(at, 1, 100_000), (f"{at} (2)", 1, 100_000)]


def test_ever_new_configurations_end_in_one_group(tmp_path):
    rows = [made.long_rows([("gpu__time_duration.sum", "us", 5)], id=n, grid=f"({n + 1}, 1, 1)")
            for n in range(200)]  # fmt: skip
    profile = read(made.long_csv(tmp_path / "a.csv", *rows))
    found = paths(profile)
    assert len(found) == 65
    assert found[0] == ("launches of further configurations", 136, 136 * 5000)
    grids = {
        launch.configuration.grid for measured in profile.threads for launch in measured.launches
    }
    assert len(grids) == 200
