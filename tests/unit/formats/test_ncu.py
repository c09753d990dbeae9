"""Nsight Compute: counters of kernels from CSV and reports, with the numbers of the papers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.errors import FormatError
from taupy.formats import limits, registry
from taupy.formats.nsight import ncu_csv, ncu_rep, ncu_units
from taupy.formats.registry import IMPORT_NOTES
from taupy.model import invariants
from taupy.model.machine import reported
from taupy.model.progress import SILENT
from tests.unit.formats import ncu_files as made

SHARED = os.environ.get("TAUPY_SHARED_DATA")
shared = pytest.mark.skipif(not SHARED, reason="TAUPY_SHARED_DATA names no folder of real files")
FLOPS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"


def read(path):
    module = ncu_rep if path.suffix == ".ncu-rep" else ncu_csv
    assert module.recognises(path, path.read_bytes()[:65536])
    (profile,) = module.read(path, SILENT)
    assert invariants.check(profile) == []
    return profile


def counted(profile, kernel=""):
    """Values of the kernels whose name begins so, summed up."""
    found = {}
    for thread in profile.threads:
        tree = thread.tree
        for row in range(len(tree)):
            timer = profile.timers[tree.timer[row]]
            if "GPU_KERNEL" in timer.groups and timer.name.startswith(kernel):
                for name, column in tree.exclusive.items():
                    if column[row] == column[row]:
                        found[name] = found.get(name, 0) + column[row]
                found["calls"] = found.get("calls", 0) + tree.calls[row]
    return found


def events(profile):
    return {event.name: event for measured in profile.threads for event in measured.user_events}


def test_our_counters_are_made_of_those_of_ncu(tmp_path):
    metrics = [
        ("dram__bytes_read.sum", "Kbyte", "1.50"),
        ("dram__bytes_write.sum", "byte", "500"),
        ("l1tex__t_bytes.sum", "Mbyte", "2"),
        ("gpu__time_duration.sum", "usecond", "12.5"),
        (FLOPS.format("fadd"), "inst", "1,000"),
        (FLOPS.format("fmul"), "inst", "2,000"),
        (FLOPS.format("ffma"), "inst", "3,000"),
        (FLOPS.format("hadd"), "inst", "1"),
        (FLOPS.format("hmul"), "inst", "1"),
        (FLOPS.format("hfma"), "inst", "1"),
        ("lts__t_sectors.sum", "sector", "77"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "40"),
    ]
    other = [(name, unit, "60" if unit == "%" else value) for name, unit, value in metrics]
    path = made.long_csv(
        tmp_path / "a.csv", made.long_rows(metrics), made.long_rows(other, id=1), between=["step 2"]
    )
    profile = read(path)
    values = counted(profile)
    assert values["bytes_dram"] == 2 * 2000
    assert values["bytes_l1"] == 4_000_000
    assert values["flop_fp32"] == 2 * (1000 + 2000 + 2 * 3000)
    assert values["flop_fp16"] == 2 * (2 + 2 + 4)
    assert values["time"] == values["counted_time"] == 25_000
    assert values["counted_launches"] == values["calls"] == 2
    assert values["lts__t_sectors.sum"] == 154
    load = events(profile)["sm__throughput.avg.pct_of_peak_sustained_elapsed"]
    assert (load.count, load.minimum, load.maximum, load.mean) == (2, 40, 60, 50)
    units = {metric.name: metric.unit for metric in profile.metrics}
    assert (units["bytes_dram"], units["flop_fp32"], units["counted_launches"]) == (
        "B",
        "flop",
        "launch",
    )
    assert "l1tex__t_bytes.sum" not in values  # is bytes_l1 already


def test_the_raw_page_has_a_column_for_each_metric(tmp_path):
    metrics = [("gpu__time_duration.sum", "ms"), ("smsp__inst_executed.sum", "inst")]
    metrics += [("launch__registers_per_thread", "register/thread"), ("device__name", "")]
    rows = [
        (made.place(0), ["1.5", "1,234", "32", "H200"]),
        (made.place(1, kernel="other"), ["nan", "", "n/a", ""]),
        (made.place(2, device=1, stream=9), ["2", "6", "32", ""]),
        (made.place(0, process=8), ["1", "1", "40", ""]),
    ]
    profile = read(made.wide_csv(tmp_path / "raw.csv", metrics, rows))
    assert counted(profile, "k(")["inst_executed"] == 1234 + 6 + 1
    assert counted(profile, "k(")["time"] == 4_500_000
    assert [
        (thread.thread.node, thread.thread.context, thread.thread.native_id)
        for thread in profile.threads
    ] == [
        (0, 1, 7),
        (0, 2, 9),
        (1, 1, 7),
    ]
    first = profile.threads[0]
    assert {launch.configuration.registers for launch in first.launches} == {32, None}
    assert "1 of 4 launches without a duration" in profile.metadata[IMPORT_NOTES]


def test_a_kernel_without_a_value_has_none_rather_than_zero(tmp_path):
    one = [("dram__bytes.sum", "byte", "100"), ("gpu__time_duration.sum", "ns", "5")]
    rows = [made.long_rows(one), made.long_rows([one[1]], id=1, kernel="bare")]
    profile = read(made.long_csv(tmp_path / "a.csv", *rows))
    assert counted(profile, "k(")["bytes_dram"] == 100
    assert "bytes_dram" not in counted(profile, "bare")


OPS = "sm__ops_path_tensor_src_{}.sum"


def kernels(tmp_path, *metrics, cc="8.0"):
    """The counters of one launch of each kernel k0, k1 ..., and the notes of the import."""
    rows = [
        made.long_rows([(name, "inst", value) for name, value in metric.items()], id=n,
                       kernel=f"k{n}", cc=cc)
        for n, metric in enumerate(metrics)
    ]  # fmt: skip
    profile = read(made.long_csv(tmp_path / "a.csv", *rows))
    values = [counted(profile, f"k{n}") for n in range(len(metrics))]
    return values, profile.metadata.get(IMPORT_NOTES, "")


def test_no_tensor_flop_are_made_of_instructions(tmp_path):
    """A predicated HFMA2 has fewer than 32 threads: what is left of the pipe is no product."""
    pipe = "sm__inst_executed_pipe_tensor.sum"
    fp32 = dict.fromkeys((FLOPS.format("fadd"), FLOPS.format("fmul")), 0)
    fp32[FLOPS.format("ffma")] = 1_100_000_000
    hfma = FLOPS.format("hfma")
    values, notes = kernels(
        tmp_path,
        {**fp32, pipe: 1_001_000, hfma: 96_000},
        {**fp32, pipe: 0, hfma: 0},
        {pipe: 10, "sm__inst_executed_pipe_tensor_op_hmma.sum": 10},
    )
    assert [value.get("flop_tensor") for value in values] == [None, 0, None]
    assert values[0]["flop_fp32"] == 2_200_000_000
    assert "flop_tensor of 2 launches is unknown" in notes
    assert "sm__ops_path_tensor_src_" in notes


@pytest.mark.parametrize(
    ("cc", "counted_types", "whole"),
    [
        ("8.0", ("fp64", "tf32_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "bf16_dst_fp32"), 5),
        ("8.0", ("bf16_dst_fp32",), None),
        ("8.0", ("fp16_dst_fp16", "fp16_dst_fp32"), None),
        ("7.0", ("fp16_dst_fp16", "fp16_dst_fp32"), 2),
        ("9.0", ("fp64", "tf32_dst_fp32", "fp16", "bf16_dst_fp32", "fp8"), 5),
        ("9.0", ("fp64", "tf32_dst_fp32", "fp16", "bf16_dst_fp32"), None),
        ("", ("fp16_dst_fp16", "fp16_dst_fp32"), None),
        ("6.1", (), 0),
    ],
)
def test_tensor_flop_are_known_where_all_types_of_the_chip_were_counted(
    tmp_path, cc, counted_types, whole
):
    metrics = {OPS.format(one): 1 for one in counted_types}
    (values,), _ = kernels(tmp_path, {"dram__bytes.sum": 1, **metrics}, cc=cc)
    assert values.get("flop_tensor") == whole
    assert values.get("flop_tensor_bf16") == (1 if "bf16_dst_fp32" in counted_types else None)


def test_dense_and_sparse_products_are_added_up(tmp_path):
    metrics = {OPS.format(f"bf16_dst_fp32_sparsity_{which}"): 3 for which in ("on", "off")}
    (both, dense), _ = kernels(
        tmp_path, metrics, {OPS.format("bf16_dst_fp32_sparsity_off"): 3, "dram__bytes.sum": 1}
    )
    assert both["flop_tensor_bf16"] == 6
    assert "flop_tensor_bf16" not in dense


def test_what_is_not_available_is_absent_and_named(tmp_path):
    rows = [("flop_count_sp.sum", "", "n/a"), (OPS.format("bf16_dst_fp32"), "", "0")]
    profile = read(made.long_csv(tmp_path / "a.csv", made.long_rows(rows)))
    assert "flop_fp32" not in counted(profile)
    assert counted(profile)["flop_tensor_bf16"] == 0
    assert "not counted (n/a): flop_count_sp.sum" in profile.metadata[IMPORT_NOTES]


def test_sums_come_from_rates_where_only_those_were_taken(tmp_path):
    metrics = [("gpu__time_duration.sum", "us", "2"), ("dram__bytes.sum.per_second", "Gbyte/s", 3)]
    metrics.append(("smsp__cycles_elapsed.avg.per_second", "Ghz", "1"))
    for operation, rate in (("fadd", 1), ("fmul", 2), ("ffma", 10)):
        name = f"smsp__sass_thread_inst_executed_op_{operation}_pred_on.sum.per_cycle_elapsed"
        metrics.append((name, "inst/cycle", rate))
    profile = read(made.long_csv(tmp_path / "a.csv", made.long_rows(metrics)))
    assert counted(profile)["bytes_dram"] == pytest.approx(6000)
    assert counted(profile)["flop_fp32"] == pytest.approx((1 + 2 + 20) * 2000)
    assert "computed from rates" in profile.metadata[IMPORT_NOTES]


def test_the_details_page_has_labels_and_rules(tmp_path):
    columns = [*made.LONG, "Rule Name", "Rule Type", "Rule Description"]
    rows = [made.line(columns)]
    for label, unit, value in (("Duration", "us", "23.42"), ("Elapsed Cycles", "cycle", "46,970"),
                               ("DRAM Frequency", "Ghz", "13.77")):  # fmt: skip
        rows.append(made.line([*made.place(), "Speed Of Light", label, unit, value]) + ",")
    rule = 'Memory is "more"\nused, than compute'
    rows.append(made.line([*made.place(), "SpeedOfLight", "", "", "", "SOL", "OPT", rule]))
    path = tmp_path / "details.csv"
    path.write_text("\n".join(rows))
    profile = read(path)
    assert counted(profile)["time"] == 23_420
    assert events(profile)["dram__cycles_elapsed.avg.per_second"].mean == 13.77e9
    assert events(profile)["Elapsed Cycles"].unit == "cycle"


def test_a_launch_that_failed_is_kept_and_reported(tmp_path):
    rows = made.long_rows([("dram__bytes.sum", "byte", "nan")], block="(0, 0, 0)", grid="(0, 0, 0)")
    path = made.long_csv(tmp_path / "a.csv", rows, before=["==PROF== x", "==ERROR== LaunchFailed"])
    profile = read(path)
    assert counted(profile) == {"calls": 1, "time": 0}
    assert "1 of 1 launches failed" in profile.metadata[IMPORT_NOTES]
    assert profile.metadata["ncu errors"] == "LaunchFailed"


NOT_PERMITTED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0. For instructions on enabling permissions and to "
    "get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)


def test_a_file_without_permission_for_counters_says_so(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"==PROF== Connected to process 7\n{NOT_PERMITTED}\n==PROF== Disconnected\n")
    assert registry.recognised(path).name == "ncu-csv"
    with pytest.raises(FormatError, match="ncu profiled nothing: ERR_NVGPUCTRPERM - The user does"):
        read(path)
    rows = made.long_rows([("dram__bytes.sum", "byte", "5")])
    path = made.long_csv(tmp_path / "b.csv", rows, before=[NOT_PERMITTED])
    assert "ncu said: ERR_NVGPUCTRPERM - The user" in read(path).metadata[IMPORT_NOTES]


def test_csv_that_is_not_what_it_seems_is_refused(tmp_path):
    good = made.long_csv(tmp_path / "good.csv", made.long_rows([("a__b.sum", "", "1")])).read_text()
    cases = {
        "header.csv": (good.splitlines()[0], "no kernel was profiled"),
        "cut.csv": (good[: len(good) - 8], "cut short"),
        "other.csv": ("a,b\n1,2\n", "no header line"),
        "empty.csv": ("", "no header line"),
        "long.csv": ("x" * (17 << 20), "longer than any line"),
    }
    for name, (text, reason) in cases.items():
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(FormatError, match=reason) as refused:
            list(ncu_csv.read(path, SILENT))
        assert name in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.slow
def test_more_metrics_than_there_are_is_refused_before_memory_is_gone(tmp_path):
    rows = [made.long_rows([(f"m{n}__x.sum", "", 5)], id=n, kernel=f"k{n}") for n in range(6000)]
    with pytest.raises(FormatError, match="more than any program has"):
        read(made.long_csv(tmp_path / "many.csv", *rows))


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_none(text):
    value = ncu_units.number(text)
    assert value is None or abs(value) < limits.VALUE
    factor, base = ncu_units.base(text)
    assert factor > 0 and isinstance(base, str)


@given(st.integers(-(10**18), 10**18))
def test_thousands_separators_do_not_change_a_number(value):
    assert ncu_units.number(f"{value:,}") == value == ncu_units.number(str(value))


def of_country(value, country):
    """A value as ncu writes it there."""
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
    point, comma = country
    return text.translate(str.maketrans({".": point, ",": comma}))


COUNTRIES = {"us": (".", ","), "de": (",", "."), "fr": (",", "\u202f"), "pl": (",", "\xa0"),
             "ch": (".", "\u2019"), "za": (",", " ")}  # fmt: skip


@pytest.mark.parametrize("country", COUNTRIES)
@pytest.mark.parametrize("page", ["long", "wide"])
def test_numbers_are_the_same_in_every_country(tmp_path, country, page):
    values = {"gpu__time_duration.sum": ("ns", 117_344), "dram__bytes.sum": ("byte", 27_595_520),
              "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 65.77),
              "launch__registers_per_thread": ("register/thread", 24)}  # fmt: skip
    written = [
        (name, unit, of_country(value, COUNTRIES[country]))
        for name, (unit, value) in values.items()
    ]
    if page == "long":
        file = made.long_csv(tmp_path / "x.csv", made.long_rows(written))
    else:
        metrics = [one[:2] for one in written]
        file = made.wide_csv(
            tmp_path / "x.csv", metrics, [(made.place(), [one[2] for one in written])]
        )
    (launch,) = list(ncu_csv.launches(file, SILENT))
    assert {name: launch.values[name] for name in values} == {
        name: value for name, (_, value) in values.items()
    }


def test_sums_alone_determine_the_decimal_mark(tmp_path):
    rows = made.long_rows([("gpu__time_duration.sum", "ns", "117.344")])
    (launch,) = list(ncu_csv.launches(made.long_csv(tmp_path / "de.csv", rows), SILENT))
    assert launch.values["gpu__time_duration.sum"] == 117_344
    rows = made.long_rows([("gpu__time_duration.sum", "us", "117.344")])
    (launch,) = list(ncu_csv.launches(made.long_csv(tmp_path / "us.csv", rows), SILENT))
    assert launch.values["gpu__time_duration.sum"] == pytest.approx(117_344)


def test_a_comma_for_the_decimal_mark_is_reported(tmp_path):
    rows = made.long_rows([("gpu__time_duration.sum", "ns", "7.344"), ("a__b.avg", "%", "6,70")])
    profile = read(made.long_csv(tmp_path / "de.csv", rows))
    assert "numbers are read as 1.234,5" in profile.metadata[IMPORT_NOTES]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("Gbyte/s", (1e9, "B/s")), ("Kbyte", (1e3, "B")), ("Ghz", (1e9, "Hz")), ("hz", (1, "Hz")),
     ("cycle/nsecond", (1e9, "cycle/s")), ("cycle/second", (1, "cycle/s")), ("us", (1e3, "ns")),
     ("nsecond", (1, "ns")), ("%", (1, "%")), ("", (1, "")), ("inst/cycle", (1, "inst/cycle")),
     ("byte/block", (1, "B/block")), ("Tbyte/s", (1e12, "B/s")), ("second", (1e9, "ns"))],
)  # fmt: skip
def test_units_have_a_base(unit, expected):
    factor, base = ncu_units.base(unit)
    assert (pytest.approx(factor), base) == expected


METRICS = {"gpu__time_duration.sum": 1500.0, "dram__bytes.sum": 4096, "launch__stream_id": 13,
           "launch__device_id": 2, "launch__registers_per_thread": 32,
           "device__attribute_display_name": "NVIDIA A100",
           "device__attribute_compute_capability_major": 8,
           "device__attribute_compute_capability_minor": 0}  # fmt: skip


def test_a_report_is_read_without_software_of_nvidia(tmp_path):
    launches = [
        ("void f<float>(int)", (8, 2, 1), (128, 1, 1), METRICS),
        ("g", (1, 1, 1), (1, 1, 1), {}),
    ]
    profile = read(made.report(tmp_path / "r.ncu-rep", launches))
    values = counted(profile, "void f")
    assert (values["time"], values["bytes_dram"], values["calls"]) == (1500, 4096, 1)
    places = {(thread.thread.context, thread.thread.native_id) for thread in profile.threads}
    assert places == {(3, 13), (1, 0)}
    assert (profile.devices[-1].name, profile.devices[-1].compute_capability) == (
        "NVIDIA A100",
        "8.0",
    )
    launch = next(
        one
        for measured in profile.threads
        for one in measured.launches
        if one.configuration.registers
    )
    assert launch.configuration[:3] == ((8, 2, 1), (128, 1, 1), 32)
    assert "1 of 2 launches failed" in profile.metadata[IMPORT_NOTES]


PEAKS = {
    "gpu__time_duration.sum": 1000.0,
    "device__attribute_display_name": "NVIDIA H200",
    "sm__cycles_elapsed.avg.per_second": 1.5e9,
    "lts__cycles_elapsed.avg.per_second": 1.6e9,
    "dram__cycles_elapsed.avg.per_second": 6.5e9,
    "sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained": 8448,
    "derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2": 33792,
    "sm__ops_path_tensor_src_fp16_dst_fp16_sparsity_off.sum.peak_sustained": 540_672,
    "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_off.sum.peak_sustained": 270_336,
    "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_on.sum.peak_sustained": 1_081_344,
    "sm__ops_path_tensor_src_int8.sum.peak_sustained_elapsed.per_second": 1.9e15,
    "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained": 16_896,
    "lts__lts2xbar_cycles_active.sum.peak_sustained": 160,
    "dram__bytes.sum.peak_sustained": 640,
    "derived__lts__lts2xbar_bytes.sum.per_second": 2e9,
    "l1tex__t_sectors.sum": 100,
}


def test_a_report_brings_the_roofs_at_the_clocks_of_its_launches(tmp_path):
    slower = {**PEAKS, "sm__cycles_elapsed.avg.per_second": 1.1e9}
    launches = [("f", (8, 1, 1), (128, 1, 1), one) for one in (slower, PEAKS, slower)]
    profile = read(made.report(tmp_path / "r.ncu-rep", launches))
    (device,) = profile.devices
    found = {one.name: one for one in reported(device.name, device.facts, "r.ncu-rep")}
    assert {name: (one.value, one.unit) for name, one in found.items()} == {
        "fp64": (2 * 8448 * 1.5e9, "flop/s"),
        "fp32": (33792 * 1.5e9, "flop/s"),
        "tensor fp16": (540_672 * 1.5e9, "flop/s"),
        "tensor int8": (1.9e15, "op/s"),
        "L1": (16_896 * 1.5e9, "B/s"),
        "L2": (160 * 32 * 1.6e9, "B/s"),
        "DRAM": (640 * 6.5e9, "B/s"),
    }
    assert {one.clock_hz for one in found.values()} == {1.5e9}
    assert {(one.processor, one.source) for one in found.values()} == {("NVIDIA H200", "report")}
    values = counted(profile)
    assert (values["bytes_l1"], values["bytes_l2"]) == (3 * 32 * 100, 3 * 2000)
    assert "bytes_l2 of 3 launches: data delivered by the caches" in profile.metadata[IMPORT_NOTES]


def test_a_file_without_peaks_brings_no_roofs(tmp_path):
    profile = read(made.report(tmp_path / "r.ncu-rep", [("f", (8, 1, 1), (1, 1, 1), METRICS)]))
    assert profile.devices[0].facts == ()


def test_reports_that_lie_are_refused_in_one_line(tmp_path):
    launches = [("f", (8, 2, 1), (128, 1, 1), METRICS)]
    whole = made.report(tmp_path / "r.ncu-rep", launches).read_bytes()
    path = tmp_path / "bad.ncu-rep"
    for cut in range(4, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError) as refused:
            list(ncu_rep.read(path, SILENT))
        assert "bad.ncu-rep" in str(refused.value) and "\n" not in str(refused.value)
    made.report(path, launches, results=10**12)
    with pytest.raises(FormatError, match="a block claims"):
        list(ncu_rep.read(path, SILENT))


@shared
@pytest.mark.parametrize(
    ("name", "kernel", "expected"),
    [
        ("a100_gpt2_flashattn.ncu.csv", "ampere_fp16_s16816gemm", {"flop_tensor": None}),
        ("a100_gpt2_flashattn.ncu.csv", "void fmha_fwd", {"flop_tensor": None}),
        ("a100_gpt2_flashattn.ncu.csv", "void at::native", {"calls": 5}),
        (
            "rtx4060_gpp_step1.ncu.csv",
            "sigma_gpp_gpu_34",
            {
                "bytes_dram": 516_327_794_816,
                "bytes_l1": 1_288_549_677_760,
                "flop_fp64": 158_180_752_242 + 803_017_623_077 + 2 * 817_773_953_820,
                "counted_launches": 1,
            },
        ),
        ("rtx4060_gpp_step8_launchfailed.ncu.csv", "", {"calls": 1, "time": 0}),
        ("rtx5070/gemm_tiled.csv", "", {"bytes_dram": 53_261_312 + 3_377_920, "time": 10_195_552}),
        ("rtx5070/saxpy.csv", "", {"bytes_dram": 134_221_568 + 43_631_104, "time": 292_928}),
        ("rtx5090_dsocr/kernel_0003.sol.csv", "", {"time": 23_420}),
    ],
)
def test_real_files_give_the_figures_of_the_papers(name, kernel, expected):
    values = counted(read(Path(SHARED, "gpu", name)), kernel)
    assert {key: values.get(key) for key in expected} == expected


@shared
def test_a_tensor_kernel_shows_little_single_precision_work():
    """The default roofline section of a bf16 GEMM: 79.9 GFLOP/s of FP32, no tensor term."""
    profile = read(Path(SHARED, "gpu/rtx5090_dsocr/kernel_0003.roofline.csv"))
    rate = {name: one.mean for name, one in events(profile).items()}
    base = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    per_cycle = (
        rate[base.format("fadd")] + rate[base.format("fmul")] + 2 * rate[base.format("ffma")]
    )
    assert per_cycle * rate["smsp__cycles_elapsed.avg.per_second"] == pytest.approx(
        79.9e9, rel=1e-3
    )


@shared
def test_the_details_page_of_the_roofline_section_holds_the_roofs():
    """RTX 5090 at 2.01 GHz: 21,760 FP32 units, 128 B a cycle at 13.77 GHz."""
    profile = read(Path(SHARED, "gpu/rtx5090_dsocr/kernel_0003.roofline.csv"))
    found = {one.name: one.value for one in reported("", profile.devices[0].facts, "")}
    assert found == pytest.approx(
        {"fp64": 680 * 2.01e9, "fp32": 2 * 21_760 * 2.01e9, "DRAM": 128 * 13.77e9}, rel=1e-9
    )


@shared
@pytest.mark.parametrize("name", ["rtx4060_gpp_step1.ncu-rep", "a100_exgpu/ex-gpu.s1000.ncu-rep"])
def test_reports_give_the_durations_that_nvidia_shows(name):
    ours = read(Path(SHARED, "gpu", name))
    assert counted(ours)["time"] == {"r": 30_492_305_568, "a": 336_640}[name[0]]


NVIDIAS = """
import json, sys
import ncu_report
report = ncu_report.load_report(sys.argv[1])
for taken in map(report.range_by_idx, range(report.num_ranges())):
    for action in map(taken.action_by_idx, range(taken.num_actions())):
        metrics = map(action.metric_by_name, action.metric_names())
        print(json.dumps({one.name(): one.value() for one in metrics if one.has_value()}))
"""


@shared
@pytest.mark.skipif(importlib.util.find_spec("ncu_report") is None, reason="no ncu-report here")
@pytest.mark.parametrize("name", ["rtx4060_gpp_step1.ncu-rep", "a100_exgpu/ex-gpu.s1000.ncu-rep"])
def test_every_number_is_that_of_nvidias_reader(name):
    path = Path(SHARED, "gpu", name)
    said = subprocess.run(
        [sys.executable, "-c", NVIDIAS, str(path)], capture_output=True, text=True, check=True
    ).stdout
    theirs = [json.loads(line) for line in said.splitlines()]
    ours = [launch.values for launch in ncu_rep.launches(path, SILENT)]
    assert len(ours) == len(theirs) and all(len(text) > 50 for text in ours)
    for mine, all_of_them in zip(ours, theirs, strict=True):
        assert mine == {key: value for key, value in all_of_them.items() if key in mine}
