"""Files: other tools' ceilings in, our points and roofs out, pictures and pages."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from taupy.errors import FormatError, UsageError
from taupy.roofline import chart as charts
from taupy.roofline import classic, export, timebased
from taupy.roofline.ceilings_file import ert_json, read_ceilings
from taupy.roofline.drawing import Drawing
from taupy.roofline.picture import _figure, write_picture
from taupy.roofline.placement import place
from taupy.roofline.tab import html_page
from taupy.roofline.ticks import tick_label, ticks
from tests.unit.roofline.test_charts import build, many
from tests.unit.roofline.test_placement import point, roofs

SHARED = Path(os.environ.get("TAUPY_SHARED_DATA", ""))


def saved(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return str(path)


def test_ert_json_gives_double_precision_and_levels(tmp_path):
    text = json.dumps(
        {
            "empirical": {
                "gflops": {"data": [["GFLOPs", 1225.48], ["FP16 Tensor GFLOPs", 9000]]},
                "gbytes": {"data": [["L1", 559.14], ["DRAM", 160.66]]},
            }
        }
    )
    found = read_ceilings(saved(tmp_path, "roofline.json", text))
    assert [(one.kind, one.name, one.value, one.source) for one in found] == [
        ("compute", "fp64", 1225.48e9, "report"),
        ("compute", "tensor fp16", 9e12, "report"),
        ("bandwidth", "L1", 559.14e9, "report"),
        ("bandwidth", "DRAM", 160.66e9, "report"),
    ]


def test_what_we_write_for_ert_we_read_again(tmp_path):
    found = read_ceilings(saved(tmp_path, "ours.json", ert_json(roofs())))
    values = {one.name: one.value for one in found}
    assert values == {
        "tensor fp16": pytest.approx(107.47904e12),
        "fp16": pytest.approx(29.18e12),
        "fp32": pytest.approx(15.16e12),
        "L2": pytest.approx(2996.8e9),
        "DRAM": pytest.approx(828.8e9),
    }


def test_a_table_of_peaks_is_fp32_and_dram(tmp_path):
    text = "label,peak_flops,peak_bandwidth\ntheoretical,3.2e13,6.7e11\nmeasured,3.3e13,5.9e11\n"
    found = read_ceilings(saved(tmp_path, "peaks.csv", text))
    assert [(one.name, one.value, one.source) for one in found] == [
        ("fp32", 3.2e13, "datasheet"),
        ("DRAM", 6.7e11, "datasheet"),
        ("fp32", 3.3e13, "user"),
        ("DRAM", 5.9e11, "user"),
    ]


def test_a_table_of_ones_own(tmp_path):
    text = "\ufeffkind,name,value\ncompute,FP64,7.8e12\nbandwidth,hbm,9e11\nlatency,launch,4e-6\n"
    found = read_ceilings(saved(tmp_path, "mine.csv", text))
    assert [(one.name, one.value, one.unit) for one in found] == [
        ("fp64", 7.8e12, "flop/s"),
        ("DRAM", 9e11, "B/s"),
        ("launch", 4e-6, "s"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "{}", "'empirical' is missing"),
        ("a.json", '{"empirical": {"gflops": {"data": [["x", "many"]]}}}', "invalid "),
        ("a.json", '{"empirical": {"gflops": {"data": [["x", -1]]}}}', "invalid "),
        ("a.json", "[" * 100000, "'empirical' is missing"),
        ("a.csv", "a,b\n1,2\n", "kind,name,value"),
        ("a.csv", "kind,name,value\ncompute,fp65,1\n", "unknown precision 'fp65'"),
        ("a.csv", "kind,name,value\nspeed,fp64,1\n", "invalid "),
        ("a.csv", "kind,name,value\ncompute,fp64,nan\n", "invalid "),
        ("a.csv", "", "kind,name,value"),
        ("a.csv", f'kind,name,value\n"{"x" * 200_000}",b,3\n', "field larger than"),
    ],
)
def test_a_file_that_holds_no_ceilings_is_refused_in_one_line(tmp_path, name, text, words):
    with pytest.raises(FormatError, match=re.escape(words)) as caught:
        read_ceilings(saved(tmp_path, name, text))
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(
    not (SHARED / "gpu/ert_p100").is_dir(), reason="TAUPY_SHARED_DATA names no data"
)
def test_real_files_of_ert_and_of_a_profiler():
    (ert,) = (SHARED / "gpu/ert_p100").glob("roofline*.json")
    found = {ceiling.name: ceiling.value for ceiling in read_ceilings(str(ert))}
    assert found == {"fp64": 1225.48e9, "L1": 559.14e9, "DRAM": 160.66e9}
    peaks = read_ceilings(str(SHARED / "gpu/rtx5070/peaks.csv"))
    measured = [peak.value for peak in peaks if peak.pattern == "measured"]
    assert measured == [33739119771597.6, 590061393638.3]


def test_the_csv_beside_a_chart_holds_every_number():
    placed = [
        place(point({"fp32": 8e9, "tensor": 1e9}, {"L2": 4e9, "DRAM": 1e9}), roofs()),
        place(point({}, {}, flop_tier="unknown", bytes_tier="unknown", name="=cmd()"), roofs()),
    ]
    text = export.table_csv(classic.classic(placed, "DRAM").points)
    first, second = csv.DictReader(io.StringIO(text))
    assert float(first["flop"]) == 9e9
    assert (float(first["flop_fp32"]), float(first["flop_tensor"])) == (8e9, 1e9)
    assert (float(first["bytes_DRAM"]), float(first["intensity_L2"])) == (1e9, 2.25)
    assert float(first["ideal_DRAM_time_s"]) == pytest.approx(1e9 / 828.8e9)
    assert first["bound_by"] == "L2"
    assert (second["flop"], second["bytes_DRAM"], second["flop_tier"]) == ("", "", "unknown")
    assert second["name"] == "'=cmd()"  # no formula for a spreadsheet


NO_TENSOR_WORK = (
    *("fp64", "tf32_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "int8", "fp8_dst_fp16"),
    *("fp8_dst_fp32", "fp4_fp6_dst_fp16", "fp4_fp6_dst_fp32", "fp4_dst_fp32"),
)


def test_kernels_as_nsight_compute_prints_them():
    made = point({"fp32": 8e9, "fp16": 4.0, "tensor bf16": 6.0}, {"DRAM": 1e9, "L1": 2e9}, 1e-3)
    rows = list(csv.DictReader(io.StringIO(export.ncu_csv([made]))))
    values = {row["Metric Name"]: float(row["Metric Value"]) for row in rows}
    assert values == {
        "gpu__time_duration.sum": 1e6,
        "sm__sass_thread_inst_executed_op_fadd_pred_on.sum": 8e9,
        "sm__sass_thread_inst_executed_op_fmul_pred_on.sum": 0,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum": 0,
        "sm__sass_thread_inst_executed_op_hadd_pred_on.sum": 2,
        "sm__sass_thread_inst_executed_op_hmul_pred_on.sum": 0,
        "sm__sass_thread_inst_executed_op_hfma_pred_on.sum": 0,
        "sm__ops_path_tensor_src_bf16_dst_fp32.sum": 6,
        "dram__bytes.sum": 1e9,
        "l1tex__t_bytes.sum": 2e9,
        **{f"sm__ops_path_tensor_src_{path}.sum": 0 for path in NO_TENSOR_WORK},
    }
    assert {row["Kernel Name"] for row in rows} == {"kernel"}


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_pictures_are_what_their_ending_says(tmp_path, ending, start):
    path = tmp_path / f"roof.{ending}"
    write_picture(timebased.combined(many(12), "DRAM"), path, "dark")
    assert path.read_bytes().startswith(start)


def test_text_of_a_picture_stays_text(tmp_path):
    path = tmp_path / "roof.svg"
    write_picture(classic.hierarchical(many(3)), path)
    text = path.read_text("utf-8")
    assert "Hierarchical roofline of kernels" in text
    assert "DRAM 829 GB/s (measured)" in text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_odd_names_are_drawn_as_they_are_and_nothing_is_warned_of(tmp_path, ending):
    names = ["a $x^{$ b", "_attn_fwd", "卷积<浮点>", "red\x1b[31m\x01"]
    made = [
        place(point({"fp32": 1e9}, {"DRAM": 1e6 * at}, name=name, short=name), roofs())
        for at, name in enumerate(names, 1)
    ]
    path = tmp_path / f"roof.{ending}"
    write_picture(classic.classic(made, "DRAM"), path)
    if ending == "svg":
        words = " ".join(ElementTree.parse(path).getroot().itertext())
        assert all(name in words for name in [*names[:3], r"red\x1b[31m\x01"])


def test_labels_stay_within_the_plane():
    """The balance lies in the lower right corner only, hardly longer than its label."""
    one = place(point({"fp32": 2.4e9}, {"DRAM": 20e6}, 2e-4), replace(roofs(), launch=None))
    figure = _figure(timebased.combined([one], "DRAM"), "light")
    axes = figure.axes[0]
    (label,) = [text for text in axes.texts if text.get_text().startswith("balance")]
    inside, box = axes.get_window_extent(), label.get_window_extent()
    assert inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0


@pytest.mark.parametrize("kind", ["classic", "complexity", "combined"])
def test_in_equal_decades_roofs_and_balances_rise_at_45_degrees(tmp_path, kind):
    path = tmp_path / "roof.svg"
    for equal in (False, True):
        write_picture(build(kind, many(12), equal_decades=equal), path)
        words = r"DRAM 829|balance"
        turned = re.findall(rf"rotate\((-?[\d.]+)[^>]*>(?:{words})", path.read_text("utf-8"))
        assert turned
        assert all((float(angle) == pytest.approx(-45)) == equal for angle in turned)


def test_a_picture_of_another_kind_is_refused(tmp_path):
    with pytest.raises(UsageError, match="png"):
        write_picture(classic.classic(many(3), "DRAM"), tmp_path / "roof.gif")
    with pytest.raises(UsageError, match="cannot be written"):
        write_picture(classic.classic(many(3), "DRAM"), tmp_path / "missing" / "roof.svg")


def test_ticks_are_powers_of_ten_thinned_out_or_filled_up():
    assert ticks(charts.Axis("", "B", 0.5, 2e3)) == [1, 10, 100, 1000]
    assert ticks(charts.Axis("", "B", 1, 3e30)) == [10.0**e for e in range(0, 31, 6)]
    assert ticks(charts.Axis("", "B", 4, 130)) == [5, 10, 20, 50, 100]
    assert [tick_label(value) for value in (0.01, 1, 1e3, 1e-3, 1e12, 5e-4, 20)] == [
        *("10\u207b\u00b2", "10\u2070", "10\u00b3", "10\u207b\u00b3", "10\u00b9\u00b2"),
        *("5\u00b710\u207b\u2074", "2\u00b710\u00b9"),
    ]


def test_a_picture_has_the_size_that_was_asked_for(tmp_path):
    chart = classic.classic([place(point({"fp32": 8e9}, {"DRAM": 1e9}), roofs())], "DRAM")
    write_picture(chart, tmp_path / "a.svg", size=(9, 5))
    assert 'width="648pt" height="360pt"' in (tmp_path / "a.svg").read_text("utf-8")
    with pytest.raises(UsageError, match="is too small for the chart"):
        write_picture(chart, tmp_path / "b.svg", size=(3, 2))


def test_a_page_needs_no_network_and_takes_names_as_text():
    bad = "</script><script>alert(1)</script>"
    placed = [place(point({"fp32": 8e9}, {"DRAM": 1e9}, name=bad, short=bad), roofs())]
    drawing = Drawing(placed)
    page = html_page([classic.classic(placed, "DRAM")], drawing)
    assert bad not in page
    assert page.count("<script") == 5
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href)=["']?http|@import|url\(http""", page)
    packed = re.search(r'id="contents">([^<]*)</script>', page)[1]
    data = json.loads(zlib.decompress(base64.b64decode(packed)))["roofline"]
    labels = {label["text"] for label in data["charts"][0]["planes"]["usual"]["labels"]}
    assert labels == {"DRAM 829 GB/s (measured)", "fp32 15.2 Tflop/s (measured)"}
    assert data["points"][0][0] == bad
    assert "points" not in data["charts"][0]


def test_a_page_takes_the_theme_that_was_asked_for():
    placed = [place(point({"fp32": 8e9}, {"DRAM": 1e9}), roofs())]
    for theme, kept in ((None, ""), ("dark", "dark")):
        page = html_page([classic.classic(placed, "DRAM")], Drawing(placed, theme=theme))
        packed = re.search(r'id="contents">([^<]*)</script>', page)[1]
        assert json.loads(zlib.decompress(base64.b64decode(packed)))["theme"] == kept
