"""Charts as data: roofs end at ridges, symbols stand where their numbers say."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taupy.profiledb.ceilings import best_of
from taupy.roofline import chart as charts
from taupy.roofline import classic, timebased
from taupy.roofline.naming import LONGEST, labels
from taupy.roofline.placement import place
from taupy.roofline.roofs import roofs_of
from taupy.roofline.verdict import verdict
from tests.unit.roofline.build import ceiling
from tests.unit.roofline.test_placement import CEILINGS, V100, point, roofs

ALL = ("classic", "hierarchical", "complexity", "time", "combined")


def build(kind, placed, level="DRAM", **how):
    return {
        "classic": lambda: classic.classic(placed, level, **how),
        "hierarchical": lambda: classic.hierarchical(placed, **how),
        "complexity": lambda: timebased.complexity(placed, level, **how),
        "time": lambda: timebased.time_plane(placed, level, **how),
        "combined": lambda: timebased.combined(placed, level, **how),
    }[kind]()


def many(number):
    """Kernels of all kinds: with and without flop, without bytes, extreme, long-named."""
    placed = []
    for n in range(number):
        flop = {"fp32": 0.0 if n % 5 == 4 else 10.0 ** (n % 13)}
        moved = {"L2": 3 * 10.0 ** (n % 11), "DRAM": 0.0 if n % 7 == 6 else 10.0 ** (n % 11)}
        name = f"void kernel_{n}<{'int, ' * 60}>(float*)"
        made = point(flop, moved, 1e-3 / (n + 1), n + 1, name=name, share=1 / number)
        placed.append(place(made, roofs()))
    return placed


def lines(chart, role):
    return [line for line in chart.lines if line.role == role]


def test_roofs_meet_at_their_ridges():
    placed = [
        place(point({"fp32": 1e9, "tensor fp16": 1e9}, {"DRAM": 1e8, "L2": 4e8}), roofs()),
    ]
    chart = classic.hierarchical(placed)
    slanted = {line.label.split()[0]: line for line in lines(chart, "bandwidth")}
    assert slanted["DRAM"].points[1] == (pytest.approx(129.6803, abs=1e-3), 107.47904e12)
    assert slanted["L2"].points[1][0] == pytest.approx(107479.04 / 2996.8)
    for line in slanted.values():
        for x, y in line.points:
            assert y / x == pytest.approx(line.value)
    flat = {line.label.rsplit(" ", 3)[0]: line for line in lines(chart, "compute")}
    assert flat["tensor fp16"].points[0][0] == pytest.approx(107479.04 / 2996.8)
    assert flat["fp32"].points[0] == (pytest.approx(15160 / 2996.8), 15.16e12)
    assert flat["fp32"].label == "fp32 15.2 Tflop/s (measured)"


def test_only_roofs_that_some_point_needs_are_drawn():
    chart = classic.classic([place(point({"fp32": 1e9}, {"DRAM": 1e8}), roofs())], "DRAM")
    assert [line.label.split()[0] for line in lines(chart, "compute")] == ["fp32"]


def test_one_symbol_a_level_at_one_height():
    placed = [place(point({"fp32": 8e9}, {"L2": 4e9, "DRAM": 1e9}), roofs())]
    symbols = classic.hierarchical(placed).symbols
    assert [(symbol.level, symbol.x, symbol.y) for symbol in symbols] == [
        ("L2", 2.0, 8e12),
        ("DRAM", 8.0, 8e12),
    ]
    assert [symbol.color for symbol in symbols] == ["L2", "DRAM"]


def test_points_without_flop_are_marks_as_long_as_their_time():
    placed = [
        place(point({"fp32": 8e9}, {"DRAM": 1e9}, share=0.7), roofs()),
        place(point({"fp32": 0.0}, {"DRAM": 1e9}, share=0.2), roofs()),
        place(point({"fp32": 0.0}, {"DRAM": 1e9}, share=0.1), roofs()),
    ]
    chart = classic.classic(placed, "DRAM")
    assert len(chart.symbols) == 1
    (strip,) = chart.strips
    assert [(mark.point, mark.low, pytest.approx(mark.high)) for mark in strip.marks] == [
        (1, 0.0, 0.2),
        (2, 0.2, 0.3),
    ]
    assert strip.label == "no flop: 2, 30.0 % of time"
    assert len(chart.points) == 3


def test_points_without_bytes_have_a_strip_of_their_own():
    chart = classic.classic([place(point({"fp32": 8e9}, {"DRAM": 0.0}), roofs())], "DRAM")
    assert [strip.label for strip in chart.strips] == ["no bytes: 1, 100.0 % of time"]
    assert not chart.symbols


def test_open_and_closed_symbols_show_the_distance_from_the_roof():
    flop, moved, time = 8e9, 1e9, 4e-3
    placed = [place(point({"fp32": flop}, {"DRAM": moved}, time), roofs())]
    closed, opened = timebased.combined(placed, "DRAM").symbols
    assert (closed.filled, closed.x, closed.y) == (True, moved, flop)
    assert not opened.filled
    assert opened.y / opened.x == pytest.approx(flop / moved)
    assert opened.x / closed.x == pytest.approx(1 / placed[0].roof_share)
    # Bandwidth-bound (AI 8 under a balance of 18.3): all of the time is bandwidth time.
    assert opened.x / 828.8e9 == pytest.approx(time)


def test_the_other_axes_are_the_first_ones_over_the_roofs():
    placed = [place(point({"fp32": 8e9}, {"DRAM": 1e9}), roofs())]
    chart = timebased.combined(placed, "DRAM")
    for end in ("low", "high"):
        assert getattr(chart.x, end) / getattr(chart.x2, end) == pytest.approx(828.8e9)
        assert getattr(chart.y, end) / getattr(chart.y2, end) == pytest.approx(15.16e12)


def test_kernels_stand_for_one_launch_and_the_box_is_of_one_launch():
    placed = [place(point({"fp32": 8e9}, {"DRAM": 1e9}, 4e-3, launches=4), roofs())]
    chart = timebased.complexity(placed, "DRAM")
    assert [(symbol.x, symbol.y) for symbol in chart.symbols] == [(0.25e9, 2e9)]
    (box,) = chart.boxes
    assert box.x == pytest.approx(3.48096e6)
    assert box.y == pytest.approx(15.16e12 * 4.2e-6)
    assert "one launch of each kernel" in chart.title


def test_programs_stand_for_themselves_and_the_box_is_of_all_their_launches():
    made = point({"tensor fp16": 1e8}, {"DRAM": 1e7}, 2e-4, launches=36, of="program")
    chart = timebased.complexity([place(made, roofs())], "DRAM")
    assert [(symbol.x, symbol.y) for symbol in chart.symbols] == [(1e7, 1e8)]
    assert chart.boxes[0].y == pytest.approx(16.2508e9, rel=1e-5)
    assert chart.boxes[0].label == "overhead of 36 launches: 151 us"
    in_time = timebased.time_plane([place(made, roofs())], "DRAM").boxes[0]
    assert in_time.x == in_time.y == pytest.approx(151.2e-6)


def test_isochrones_are_squares_of_time():
    placed = [place(point({"fp32": 8e9}, {"DRAM": 1e9}), roofs())]
    found = lines(timebased.combined(placed, "DRAM"), "isochrone")
    assert found
    for line in found:
        assert line.points[1] == (
            pytest.approx(line.value * 828.8e9),
            pytest.approx(line.value * 15.16e12),
        )


def test_a_machine_balance_for_every_precision_in_use():
    placed = [place(point({"fp32": 8e9, "tensor fp16": 1e9}, {"DRAM": 1e9}), roofs())]
    found = lines(timebased.complexity(placed, "DRAM"), "balance")
    assert sorted(round(line.value, 2) for line in found) == [18.29, 129.68]


def test_trajectories_are_solid_through_closed_and_dashed_through_open_symbols():
    placed = [
        place(
            replace(
                point({"fp32": 1e9 * batch}, {"DRAM": 1e8 * batch}, 1e-3 * batch, of="phase"),
                series="PyTorch",
                parameter=float(batch),
            ),
            roofs(),
        )
        for batch in (64, 16, 32)
    ]
    solid, dashed = lines(timebased.combined(placed, "DRAM"), "trajectory")
    assert solid.points == ((16e8, 16e9), (32e8, 32e9), (64e8, 64e9))
    assert (solid.style, dashed.style) == ("solid", "dashed")
    assert len(dashed.points) == 3


def test_two_machines_keep_their_own_roofs():
    other = replace(roofs(), processor="A100")
    placed = [
        place(point({"fp32": 1e9}, {"DRAM": 1e8}), roofs()),
        place(point({"fp32": 1e9}, {"DRAM": 1e8}, trial=2, processor="A100"), other),
    ]
    chart = classic.classic(placed, "DRAM")
    assert {line.processor for line in lines(chart, "bandwidth")} == {"V100", "A100"}
    assert all(line.label.startswith(("V100: ", "A100: ")) for line in lines(chart, "compute"))
    assert {symbol.color for symbol in chart.symbols} == {"c0", "c1"}
    assert timebased.combined(placed, "DRAM").x2 is None  # times have no common axis


def test_a_stray_point_without_time_does_not_press_the_others_together():
    placed = [
        place(point({"fp32": 8e9}, {"DRAM": 1e9}, share=0.9), roofs()),
        place(point({"fp32": 4.0}, {"DRAM": 16.0}, share=1e-5), roofs()),
        place(point({"fp32": 4e9}, {"DRAM": 1e9}, share=1e-5), roofs()),
    ]
    for kind in ("classic", "complexity", "time", "combined"):
        chart = build(kind, placed)
        assert {symbol.point for symbol in chart.symbols} == {0, 2}, kind
        assert "1 far outside the chart, not drawn: 0.0 % of the time" in chart.notes
        assert len(chart.points) == 3
    placed[1] = place(replace(placed[1].point, share=0.01), roofs())
    assert len(build("classic", placed).symbols) == 3


def test_further_roofs_are_dashed_and_bear_their_names():
    other = roofs_of(
        "H200",
        partial(
            best_of,
            [
                ceiling("compute", "fp32", 67e12, "H200"),
                ceiling("bandwidth", "DRAM", 4.8e12, "H200"),
            ],
        ),
    )
    placed = [place(point({"fp32": 1e9}, {"DRAM": 1e8}), roofs())]
    chart = classic.classic(placed, "DRAM", also=[other])
    dashed = [line for line in chart.lines if line.style == "dashed"]
    assert [line.label for line in dashed] == [
        "H200: DRAM 4.80 TB/s (measured)",
        "H200: fp32 67.0 Tflop/s (measured)",
    ]
    assert chart.y.high > 67e12
    assert len(lines(chart, "compute")) == 2


def test_further_roofs_are_whole_where_the_processors_own_are_unknown():
    one = place(point({"fp32": 8e9}, {"DRAM": 1e9}), roofs(found=[]))
    chart = classic.classic([one], "DRAM", also=[roofs()])
    assert sorted(line.label.split(": ")[1].split()[0] for line in chart.lines) == ["DRAM", "fp32"]


def test_the_launch_ceiling_is_that_of_the_kernel_with_the_most_time():
    """It stands over that kernel's symbol, in its colour: 4.4 Gflop, 11 flop/B."""
    placed = [
        place(point({"fp32": 4e9}, {"DRAM": 4e8}, launches=500), roofs()),
        place(point({"fp32": 4.4e9}, {"DRAM": 4e8}, 2e-3, launches=400, short="large"), roofs()),
    ]
    chart = classic.classic(placed, "DRAM")
    (line,) = lines(chart, "launch")
    assert line.value == pytest.approx(4.4e9 / (400 * 4.2e-6))
    assert [x for x, _ in line.points] == [pytest.approx(11 / 4), pytest.approx(11 * 4)]
    assert line.color == next(symbol.color for symbol in chart.symbols if symbol.point == 1)
    assert line.label == "launch ceiling of large 2.62 Tflop/s"
    assert f"{line.label}: its flop in 400 launches of 4.20 us (measured)" in chart.notes


def test_a_roof_is_drawn_where_its_precision_matters():
    """A few indices in double precision do not make fp64 a roof of the chart."""
    found = [*CEILINGS, ceiling("compute", "fp64", 7.6e12, V100)]
    few = place(point({"fp32": 1e9, "fp64": 1e6}, {"DRAM": 1e8}), roofs(found=found))
    much = place(point({"fp32": 1e9, "fp64": 1e8}, {"DRAM": 1e8}), roofs(found=found))
    named = [
        {line.label.split()[0] for line in lines(classic.classic([one], "DRAM"), "compute")}
        for one in (few, much)
    ]
    assert named == [{"fp32"}, {"fp32", "fp64"}]


def test_the_overhead_box_of_each_processor_has_its_own_peak():
    work = point({"fp32": 8e9}, {"DRAM": 1e9}, 4e-3, launches=4)
    found = [
        ceiling("compute", "fp32", 67e12, "H200"),
        ceiling("bandwidth", "DRAM", 4.8e12, "H200"),
        ceiling("latency", "launch", 2e-6, "H200"),
    ]
    other = roofs_of("H200", partial(best_of, found))
    boxes = timebased.complexity([place(work, roofs()), place(work, other)], "DRAM").boxes
    assert [(box.x, box.y) for box in boxes] == [
        (pytest.approx(828.8e9 * 4.2e-6), pytest.approx(15.16e12 * 4.2e-6)),
        (pytest.approx(4.8e12 * 2e-6), pytest.approx(67e12 * 2e-6)),
    ]


@pytest.mark.parametrize("kind", ALL)
def test_the_legend_names_only_what_is_drawn(kind):
    """The point that nobody counted takes neither an entry nor a colour; "others" leave it out."""
    missed = point({}, {}, flop_tier="unknown", name="missed", short="missed", share=0.5)
    counted = [
        place(point({"fp32": 4e9}, {"DRAM": 4e8}, name=name, short=name, share=0.1), roofs())
        for name in ("a", "b", "c")
    ]
    made = build(kind, [place(missed, roofs()), *counted], top=1)
    names = [entry.label.split("  ")[0] for entry in made.legend]
    levels = ["DRAM"] if kind == "hierarchical" else []
    signs = {
        "complexity": ["closed: complexity (B, F)"],
        "combined": ["closed: complexity (B, F)", "open: time, on the other axes"],
    }
    assert names == [*levels, "a", "others (2)", *signs.get(kind, [])]


def test_equal_overhead_boxes_are_one():
    made = [
        place(
            replace(
                point({"fp32": 1e8}, {"DRAM": 1e7}, launches=36, of="program"),
                series=series,
                parameter=1.0,
            ),
            roofs(),
        )
        for series in ("jax", "torch")
    ]
    (box,) = timebased.complexity(made, "DRAM").boxes
    assert box.label == "torch, jax: overhead of 36 launches: 151 us"


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("number", [1, 3, 300])
def test_any_chart_can_be_drawn_on_logarithmic_axes(kind, number):
    chart = build(kind, many(number))
    for axis in (chart.x, chart.y):
        assert 0 < axis.low < axis.high < math.inf
        assert axis.high / axis.low >= 29
    for symbol in chart.symbols:
        assert chart.x.low <= symbol.x <= chart.x.high
        assert chart.y.low <= symbol.y <= chart.y.high
        assert 0 <= symbol.area <= 1
    for line in chart.lines:
        assert all(x > 0 and y > 0 for x, y in line.points)
    marks = [mark for strip in chart.strips for mark in strip.marks]
    assert all(0 <= mark.low <= mark.high <= 1 for mark in marks)
    assert len(chart.points) == number
    assert len(chart.legend) <= 16
    assert all(len(entry.label) < 90 for entry in chart.legend)
    json.dumps(charts.to_json(chart), allow_nan=False)


extreme = st.sampled_from([0.0, 1e-300, 1e-9, 1.0, 1e6, 1e18, 1e300])
works = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(["fp32", "fp16", "any", "tensor", "fp64"]), extreme),
        st.dictionaries(st.sampled_from(["L2", "DRAM", "L1"]), extreme),
        st.sampled_from([0.0, 1e-9, 1e-3, 1e5, math.nan]),
        st.sampled_from([0, 1, 10**9]),
        st.sampled_from(["kernel", "phase", "program"]),
        st.floats(0, 1),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(works, st.sampled_from(ALL))
def test_no_work_is_too_odd_for_a_chart(some, kind):
    placed = [
        place(
            point(
                flop,
                moved,
                time,
                launches,
                of=of,
                share=share,
                flop_tier="measured" if flop else "unknown",
            ),
            roofs(),
        )
        for flop, moved, time, launches, of, share in some
    ]
    chart = build(kind, placed)
    assert 0 < chart.x.low < chart.x.high < math.inf
    assert 0 < chart.y.low < chart.y.high < math.inf
    assert all(x > 0 and y > 0 for line in chart.lines for x, y in line.points)
    json.dumps(charts.to_json(chart), allow_nan=False)


def test_a_chart_of_nothing_but_copies_still_has_its_roofs():
    chart = classic.classic([place(point({"fp32": 0.0}, {"DRAM": 1e9}), roofs())], "DRAM")
    assert lines(chart, "bandwidth")
    assert not chart.symbols


def named(*names, short="kernel", trial=1):
    made = [
        point({"fp32": 1e9}, {"DRAM": 1e9}, name=name, short=short, trial=trial) for name in names
    ]
    return [place(one, roofs()) for one in made]


def test_similar_names_are_distinguished_by_what_differs():
    placed = named("void kernel<float, Exp>(int)", "void kernel<float, Log2>(int)")
    assert labels(placed) == ["kernel (…Exp…)", "kernel (…Log2…)"]
    assert [entry.label for entry in build("classic", placed).legend] == [
        "kernel (…Exp…)  100.0 %",
        "kernel (…Log2…)  100.0 %",
    ]
    long = named(*(f"{'x' * 60}_{number}<{number}>" for number in "ab"), short="y" * 60)
    assert len(set(labels(long))) == 2
    assert all(len(label) <= LONGEST for label in labels(long))


def test_the_same_kernel_of_two_trials_has_one_name():
    placed = named("k<int>") + named("k<int, 2>", trial=2)
    assert labels(placed) == ["kernel", "kernel"]
    assert labels(named("k<1>", "k<1>")) == ["kernel", "kernel"]


def test_a_point_with_neither_flop_nor_bytes_is_a_mark_in_every_plane():
    placed = [
        place(point({"fp32": 1e9}, {"DRAM": 1e9}, share=0.75), roofs()),
        place(point({"fp32": 0.0}, {"DRAM": 0.0}, name="idle", share=0.25), roofs()),
    ]
    for kind in ("classic", "complexity", "time", "combined"):
        made = build(kind, placed)
        (strip,) = made.strips
        assert [(mark.point, mark.high) for mark in strip.marks] == [(1, 0.25)]
        assert not any("without a roof" in note for note in made.notes)


def test_what_was_not_counted_is_reported():
    counted = {"flop_tier": "analytic", "bytes_tier": "analytic", "of": "routine", "launches": 0}
    half = place(point({"fp32": 1e9}, {"DRAM": 1e9}, covered=0.25, **counted), roofs())
    said = "counted routines take 25.0 % of the run time; the work of the others is UNKNOWN"
    assert said in build("classic", [half]).notes
    assert "flop unknown: 75.0 %" in verdict([half])[-1]
    whole = place(point({"fp32": 1e9}, {"DRAM": 1e9}, covered=1.0, **counted), roofs())
    assert not any("UNKNOWN" in note for note in build("classic", [whole]).notes)
    assert "unknown" not in verdict([whole])[-1]


def test_what_nobody_counted_in_several_trials_is_one_remark():
    made = [
        place(point({"fp32": 1e9}, {"DRAM": 1e6}, trial=trial, covered=covered), roofs())
        for trial, covered in ((1, 0.25), (2, 0.5), (3, 0.4))
    ]
    said = [text for text in charts.remarks(made) if text.startswith("counted routines")]
    assert said == [
        "counted routines take 25.0 to 50.0 % of the run time; the work of the others is UNKNOWN"
    ]


@pytest.mark.parametrize("kind", ALL)
def test_equal_decades_only_widen_the_axes(kind):
    plain, equal = build(kind, many(12)), build(kind, many(12), equal_decades=True)
    assert (plain.equal_decades, equal.equal_decades) == (False, True)
    assert equal.symbols == plain.symbols
    for before, after in ((plain.x, equal.x), (plain.y, equal.y)):
        assert after.low <= before.low * 1.0001
        assert after.high >= before.high * 0.9999
    if kind == "time":
        assert (equal.x.low, equal.x.high) == (equal.y.low, equal.y.high)
    else:
        assert equal.x.decades / equal.y.decades == pytest.approx(charts.SHAPE)
