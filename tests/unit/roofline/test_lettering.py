"""Labels of charts: within the plane, along their roofs, those of near roofs apart."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from taupy.roofline import classic, timebased
from taupy.roofline.lettering import ROOF_SIZE, lettering
from taupy.roofline.placement import place
from tests.unit.roofline.test_charts import ALL, build, many
from tests.unit.roofline.test_placement import point, roofs

PLANES = [(512.0, 335.0), (612.0, 390.0), (330.0, 190.0), (335.0, 335.0)]
"""Of the usual picture, the page, a picture of 8 x 5 inches, and a square one, in points."""


def launched():
    """A kernel near its launch ceiling, under the roofs of three precisions and levels."""
    flop = {"fp32": 4e9, "fp64": 1e9, "tensor fp16": 4e10}
    moved = {"DRAM": 4e8, "L2": 8e8, "L1": 2e9}
    some = {"launches": 500, "short": "softmax_warp_forward"}
    return [place(point(flop, moved, 3e-3, **some), roofs())]


def swept():
    made = []
    for series in ("torch", "jax"):
        for step in range(6):
            flop = 10.0 ** (8 + 0.3 * step) * (1 + (series == "jax"))
            one = point({"fp32": flop}, {"DRAM": flop / 8 / (step + 1)}, 5e-4 * (step + 1), 36)
            one = replace(one, of="program", parameter=2.0**step, series=series)
            made.append(place(one, roofs()))
    return made


ROOFS = ("compute", "bandwidth", "balance", "launch")
CHARTS = {
    f"{name} {kind}": (kind, make)
    for name, make in {"many": lambda: many(12), "launched": launched, "swept": swept}.items()
    for kind in ALL
}


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("name", CHARTS)
def test_labels_of_parallel_roofs_are_apart_and_in_the_order_of_the_roofs(name, plane):
    kind, make = CHARTS[name]
    chart = build(kind, make())
    roofs = {line.label: line for line in chart.lines if line.role in ROOFS}
    across = {}
    for label in lettering(chart, *plane):
        if label.text in roofs:
            angle = math.radians(label.angle)
            x, y = label.x * plane[0], label.y * plane[1]
            height = y * math.cos(angle) - x * math.sin(angle)
            line = roofs[label.text]
            key = (line.role == "balance", round(label.angle, 1))
            across.setdefault(key, []).append(
                (
                    height,
                    line.points[-1][1] / line.points[-1][0]
                    if abs(label.angle) > 1
                    else line.points[-1][1],
                )
            )
    assert sum(map(len, across.values())) == len(roofs)
    for heights in across.values():
        heights.sort()
        assert all(upper[0] - lower[0] > 1.2 * ROOF_SIZE
                   for lower, upper in itertools.pairwise(heights))  # fmt: skip
        assert [size for _, size in heights] == sorted(size for _, size in heights)


@pytest.mark.parametrize("name", CHARTS)
def test_no_label_is_cut_by_the_edge_of_a_picture(name):
    pytest.importorskip("matplotlib")
    from taupy.roofline.picture import _figure

    kind, make = CHARTS[name]
    figure = _figure(build(kind, make()), "light")
    figure.canvas.draw()
    plane = figure.axes[0].get_window_extent()
    texts = [text for text in figure.axes[0].texts if text.get_zorder() == 3.5]
    assert texts
    for text in texts:
        extent = text.get_window_extent()
        assert extent.x0 > plane.x0 and extent.x1 < plane.x1, text.get_text()
        assert extent.y0 > plane.y0 and extent.y1 < plane.y1, text.get_text()


def test_every_roof_has_its_label():
    chart = classic.hierarchical(launched())
    texts = {label.text for label in lettering(chart, *PLANES[0])}
    assert {line.label for line in chart.lines} <= texts


def test_a_label_runs_along_its_roof():
    chart = classic.classic(launched(), "DRAM")
    width, height = PLANES[0]
    (label,) = [one for one in lettering(chart, width, height) if one.text.startswith("DRAM")]
    slope = (height / chart.y.decades) / (width / chart.x.decades)
    assert label.angle == pytest.approx(math.degrees(math.atan(slope)))


def test_texts_of_a_sweep_say_which_point_they_are_of():
    chart = timebased.complexity(swept(), "DRAM")
    texts = {one.point: one.text for one in lettering(chart, *PLANES[0]) if one.point >= 0}
    assert texts.items() <= {at: f"{2 ** (at % 6):g}" for at in range(12)}.items()
    assert len(texts) == 12
