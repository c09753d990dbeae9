"""Tables of nvprof and of nsys stats: every sum is that of the table."""

from __future__ import annotations

import pytest

from taupy.errors import FormatError
from taupy.formats.nsight import nsys_stats, nvprof
from taupy.formats.registry import IMPORT_NOTES
from taupy.model import invariants
from taupy.model.progress import SILENT
from tests.unit.formats import summary_files as made
from tests.unit.formats.test_ncu import counted, events


def read(module, path, text):
    path.write_text(text)
    assert module.recognises(path, text.encode())
    (profile,) = module.read(path, SILENT)
    assert invariants.check(profile) == []
    return profile


def rows(profile):
    """Timer -> calls and exclusive ns, of all threads."""
    found = {}
    for thread in profile.threads:
        tree = thread.tree
        for row in range(len(tree)):
            timer = profile.timers[tree.timer[row]]
            if tree.calls[row] and not timer.name.startswith("."):
                found[timer.name] = (tree.calls[row], tree.exclusive["time"][row])
    return found


def launches(profile):
    return [launch for measured in profile.threads for launch in measured.launches]


# --- nvprof ------------------------------------------------------------------


def test_a_summary_of_nvprof(tmp_path):
    profile = read(nvprof, tmp_path / "s.csv", made.SUMMARY)
    assert rows(profile) == {
        "void stencil<float>(float*, int)": (3, 4_500_000),
        "Memcpy HtoD": (2, 1_000_000),
        "cudaLaunchKernel": (3, 20_000_000),
    }
    stencil = launches(profile)[0]
    assert (stencil.minimum_ns, stencil.maximum_ns) == (1_000_000, 2_000_000)
    assert stencil.sum_squares_ns2 == 1e12 + 1.5e6**2 + 4e12  # the third of three is known


def test_metrics_of_nvprof_are_sums_over_invocations(tmp_path):
    profile = read(nvprof, tmp_path / "m.csv", made.METRICS)
    values = counted(profile)
    assert values["calls"] == values["counted_launches"] == 3
    assert (values["flop_fp32"], values["flop_fp64"], values["flop_tensor"]) == (3000, 0, 0)
    assert "flop_fp16" not in values
    assert values["bytes_dram"] == 32 * 3 * (11 + 5)
    assert values["gld_transactions"] == 210
    assert "achieved_occupancy" not in values
    occupancy, busy = (events(profile)[name] for name in ("achieved_occupancy", "sm_efficiency"))
    assert (occupancy.count, occupancy.minimum, occupancy.mean) == (3, 0.5, 0.6)
    assert (busy.unit, busy.maximum) == ("%", 92)
    assert profile.devices[0].name == "Tesla K20c"
    assert "taupy roofline --timing TRIAL" in profile.metadata[IMPORT_NOTES]


def test_tensor_cores_of_a_v100_are_not_known_to_be_idle(tmp_path):
    volta = made.METRICS.replace("Tesla K20c", "Tesla V100-SXM2-16GB")
    assert "flop_tensor" not in counted(read(nvprof, tmp_path / "m.csv", volta))
    place = '"Tesla V100-SXM2-16GB (0)","void stencil<float>(float*, int)",3'
    load = '"tensor_precision_fu_utilization","Load","Idle (0)","Idle (0)","Idle (0)"'
    idle = f"{place},{load}\n"
    assert counted(read(nvprof, tmp_path / "i.csv", volta + idle))["flop_tensor"] == 0


def test_a_trace_of_nvprof_keeps_moments_and_configuration(tmp_path):
    profile = read(nvprof, tmp_path / "t.csv", made.TRACE)
    assert rows(profile)["saxpy(int)"][0] == 1  # one on each stream
    found = {(thread.thread.context, thread.thread.native_id): thread for thread in profile.threads}
    assert set(found) == {(2, 7), (2, 8)}
    launch = next(one for one in found[2, 7].launches if one.configuration.grid)
    assert (launch.time_ns, *launch.configuration[:2]) == (30_000, (64, 1, 1), (256, 2, 1))
    assert launch.configuration[2:4] == (32, 1024)
    assert [activity.start_ns for activity in found[2, 7].activities] == [100_000, 200_000]
    copy = next(one for one in found[2, 7].launches if one.bytes)
    assert copy.bytes == 2 << 20
    assert {device.name for device in profile.devices} == {"Tesla V100"}


# --- nsys stats --------------------------------------------------------------


def test_sums_of_nsys_stats(tmp_path):
    profile = read(nsys_stats, tmp_path / "k.csv", made.KERNELS)
    assert rows(profile) == {"void gemm<float, 4>(float *)": (3, 600), "copy_kernel": (1, 400)}
    gemm = launches(profile)[0]
    assert (gemm.minimum_ns, gemm.maximum_ns) == (100, 350)
    # 100, 150, 350: the standard deviation of the sample tells the squares.
    assert gemm.sum_squares_ns2 == pytest.approx(100**2 + 150**2 + 350**2, rel=1e-3)


def test_several_reports_make_one_trial_and_none_counts_twice(tmp_path):
    profile = read(nsys_stats, tmp_path / "r.csv", made.REPORTS)
    assert rows(profile) == {
        "void gemm<float, 4>(float *)": (3, 600),
        "copy_kernel": (1, 400),
        "Memcpy HtoD": (2, 5000),
        "cudaLaunchKernel": (4, 9000),
        "poll": (2, 1000),
    }
    assert [launch.bytes for launch in launches(profile)] == [None, None, 3_000_000]
    groups = {timer.name: timer.groups for timer in profile.timers}
    assert (groups["cudaLaunchKernel"], groups["poll"]) == (("CUDA_API",), ("OS_API",))
    notes = profile.metadata[IMPORT_NOTES]
    assert "repeats another one" in notes
    assert "neither of the GPU nor of CUDA" in notes


def test_an_older_report_has_other_columns(tmp_path):
    assert rows(read(nsys_stats, tmp_path / "o.csv", made.OLD_KERNELS)) == {"gemm": (3, 600)}


def test_a_trace_of_nsys_stats(tmp_path):
    profile = read(nsys_stats, tmp_path / "t.csv", made.GPU_TRACE)
    assert rows(profile) == {"gemm(int)": (1, 300), "Memcpy HtoD": (1, 100)}
    gemm, copy = launches(profile)
    assert (gemm.configuration.grid, gemm.configuration.registers, copy.bytes) == (
        (2, 1, 1),
        24,
        1_500_000,
    )
    assert profile.devices[0].name == "NVIDIA H100"


@pytest.mark.parametrize(
    ("module", "text", "reason"),
    [
        (nvprof, made.SUMMARY.partition(",%")[0], "the tables have no rows"),
        (nvprof, "a,b\n", "no table of nvprof"),
        (nsys_stats, made.KERNELS.partition("60.0")[0], "no kernel, copy or API call"),
        (nsys_stats, "a,b\n", "no report of nsys stats"),
        (nsys_stats, made.KERNELS.replace("600,3", "9e29,3"), "no program takes so long"),
    ],
)
def test_tables_without_rows_are_refused_in_one_line(tmp_path, module, text, reason):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=reason) as refused:
        list(module.read(path, SILENT))
    assert "x.csv" in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("module", [nvprof, nsys_stats])
@pytest.mark.parametrize("text", ["Name,Time\nf,1\n", "Duration,Name\n1,f\n", "main;f 12\n"])
def test_other_tables_are_not_taken(tmp_path, module, text):
    assert not module.recognises(tmp_path / "x.csv", text.encode())
