"""Charts of one known trial, whole: whoever changes them reads the difference.

TAUPY_UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from taupy.roofline import chart as charts
from taupy.roofline.placement import place
from taupy.roofline.points import points
from taupy.roofline.verdict import verdict
from tests.unit.roofline.build import Kernel, gpu_trial
from tests.unit.roofline.test_charts import ALL, build
from tests.unit.roofline.test_placement import roofs

GOLDEN = Path(__file__).parents[2] / "golden" / "roofline"

TRIAL = (
    Kernel(
        "void gemm<float, 128>(float*)",
        10,
        2_000_000,
        {"flop_fp32": 2.4e10, "bytes_l2": 1e9, "bytes_dram": 2e8},
        short="gemm",
    ),
    Kernel("hmma", 4, 500_000, {"flop_tensor_fp16": 3e10, "bytes_l2": 4e8, "bytes_dram": 2e8}),
    Kernel("relu(float*)", 20, 60_000, {"flop_fp32": 1e6, "bytes_l2": 1e7, "bytes_dram": 2e7}),
    Kernel("transpose", 5, 1_000_000, {"flop_fp32": 0, "bytes_l2": 8e8, "bytes_dram": 6e8}),
    Kernel("missed", 5, 100_000),
)


@pytest.fixture
def placed(work):
    return [place(point, roofs()) for point in points(work(gpu_trial(*TRIAL)), "kernel")]


def rounded(value):
    """Nine digits: sums of floats differ in their last ones between machines."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def compare(name, text):
    path = GOLDEN / name
    if os.environ.get("TAUPY_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("kind", ALL)
def test_the_chart_is_the_golden_one(placed, kind):
    made = charts.to_json(build(kind, placed))
    if kind != "classic":
        del made["points"]  # the same in all of them
    compare(f"{kind}.json", json.dumps(rounded(made), indent=1) + "\n")


def test_the_verdict_is_the_golden_one(placed):
    compare("verdict.txt", "\n".join(verdict(placed, wall=0.01)) + "\n")
