"""Labels of charts: within the plane, over no other label, crossed by no roof."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taupy.roofline import classic, timebased
from taupy.roofline.geometry import Rectangle
from taupy.roofline.lettering import lettering, text_width
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


CHARTS = {
    f"{name} {kind}": (kind, make)
    for name, make in {"many": lambda: many(12), "launched": launched, "swept": swept}.items()
    for kind in ALL
}


def box(label, width, height):
    angle = math.radians(label.angle)
    half, high = text_width(label.text, label.size) / 2, 0.55 * label.size
    place = (label.x * width, label.y * height, half, high, math.cos(angle), math.sin(angle))
    return Rectangle(*place)


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("name", CHARTS)
def test_no_label_is_cut_covered_or_crossed_by_a_roof(name, plane):
    kind, make = CHARTS[name]
    chart = build(kind, make())
    labels = lettering(chart, *plane)
    boxes = [box(label, *plane) for label in labels]
    assert labels
    for one in boxes:
        assert one.within(*plane, 0)
    pairs = [(a, b) for n, a in enumerate(boxes) for b in boxes[:n]]
    assert not any(a.overlaps(b) for a, b in pairs)

    def spot(x, y):
        return tuple(
            side * math.log10(value / axis.low) / axis.decades
            for side, value, axis in zip(plane, (x, y), (chart.x, chart.y), strict=True)
        )

    for line in chart.lines:
        if line.role in ("compute", "bandwidth", "balance"):
            ends = spot(*line.points[0]), spot(*line.points[-1])
            crossed = [
                label.text for label, one in zip(labels, boxes, strict=True) if one.crossed(*ends)
            ]
            assert crossed == []


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
    assert len(texts) > 8


@pytest.mark.parametrize(
    "text",
    ["launch ceiling of gemm 2.62 Tflop/s", "DRAM 829 GB/s (measured)", "MWm@%", "…iiil", "卷积"],
)
def test_texts_are_no_wider_than_they_are_taken_for(text):
    pytest.importorskip("matplotlib")
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    drawn = TextPath((0, 0), text, size=10, prop=FontProperties("DejaVu Sans")).get_extents()
    assert drawn.width <= text_width(text, 10) <= 1.6 * drawn.width


coordinates = st.floats(-50, 50)


@given(coordinates, coordinates, st.floats(0, math.pi), coordinates, coordinates)
def test_a_line_that_ends_in_a_rectangle_crosses_it(x, y, angle, from_x, from_y):
    one = Rectangle(x, y, 10, 3, math.cos(angle), math.sin(angle))
    assert one.crossed((from_x, from_y), (x, y))
    assert one.crossed((x, y), (from_x, from_y))
    assert one.distance((x, y)) == 0
    far = Rectangle(
        x + 30 * math.cos(angle), y + 30 * math.sin(angle), 10, 3, *(one.across, one.up)
    )
    near = Rectangle(x + 19 * math.cos(angle), y + 19 * math.sin(angle), 10, 3, one.across, one.up)
    assert not one.overlaps(far)
    assert one.overlaps(near) and near.overlaps(one)
