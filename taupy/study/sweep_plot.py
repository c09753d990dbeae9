"""The picture of a sweep: time, speed-up, where the time went, speed-up by routine.

matplotlib draws it without a window; it is imported on demand.
"""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from taupy import units
from taupy.comparison.trial_values import Where
from taupy.drawing import import_matplotlib
from taupy.errors import TaupyError, UsageError
from taupy.escaping import visible
from taupy.pprof import forms
from taupy.roofline.palette import PALETTES
from taupy.state.saving import save_named
from taupy.study.scaling import as_number
from taupy.study.sweep import PARTS, Part, Sweep
from taupy.study.sweep_views import view

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOR_OF = PALETTES["light"]
_COLORS = [_COLOR_OF[f"c{number}"] for number in range(10)]
_REST, _INK, _SURFACE, _GRID = (_COLOR_OF[name] for name in ("other", "ink", "ground", "grid"))
_MARKERS = "osD^vP*X"
_LONGEST_NAME = 44
_CUT = 32
_MOST_TICKS = 16
_MOST_LABELS = 10
_STEPS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


class DrawnSweep(Sweep):
    """A sweep with frames and a picture, for notebooks."""

    def frame(self, part: Part = "totals") -> pd.DataFrame:
        """One of the tables, as `taupy sweep --csv` gives it.

        `attrs` has `over`, `metric`, `unit` of the values, and `notes`.

        Raises:
            UsageError: there is no such table.
        """
        if part not in PARTS:
            raise UsageError(f"unknown part {part!r}: use one of {', '.join(PARTS)}")
        table = view(self, part, people=False)
        frame = forms.frame([table], self.warnings)
        frame.attrs.update(over=self.over, metric=self.metric.name, unit=self.metric.unit)
        return frame

    def plot(self, path: str | os.PathLike[str], most: int = 8) -> None:
        """Write a picture of the sweep: PNG or SVG.

        Args:
            path: the suffix determines the format: .png or .svg.
            most: number of routines shown individually.

        Raises:
            UsageError, TaupyError: as `write`.
        """
        write(self, os.fspath(path), most)


def write(sweep: Sweep, path: str, most: int = 8) -> None:
    """Write the picture; the suffix determines the format.

    Raises:
        UsageError: the suffix is neither .png nor .svg.
        TaupyError: matplotlib is missing, or the file cannot be written.
    """
    kind = kind_of(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about characters missing in its fonts
        content = _drawn(sweep, kind, most)
    try:
        save_named(path, content)
    except OSError as problem:
        raise TaupyError(f"{path} cannot be written: {problem.strerror}") from None


def kind_of(path: str) -> str:
    """The format of a picture, by its suffix.

    Raises:
        UsageError: it is neither .png nor .svg.
    """
    kind = path.rpartition(".")[2].lower()
    if kind not in ("png", "svg"):
        raise UsageError(
            f"the picture's file name must end in .png or .svg, not {path!r}; `taupy sweep "
            "--markdown` and --csv have the tables"
        )
    return kind


def _drawn(sweep: Sweep, kind: str, most: int) -> bytes:
    try:
        import_matplotlib()
        drawn = figure(sweep, most)
    except ImportError as problem:
        raise TaupyError(
            f"pictures need matplotlib ({problem}): pip install 'taupy-profiler[plots]'"
        ) from None
    data = io.BytesIO()
    if kind == "png":
        drawn.savefig(data, format="png", dpi=150)
        return data.getvalue()
    import matplotlib

    # Without a date, so that the same sweep gives the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "taupy"}):
        drawn.savefig(data, format="svg", metadata={"Date": None, "Creator": "taupy"})
    return data.getvalue()


# --- drawing -----------------------------------------------------------------


def figure(sweep: Sweep, most: int = 8) -> Figure:
    """The sweep as a matplotlib figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(11, 8.2), layout="constrained", facecolor=_SURFACE)
    FigureCanvasAgg(drawing)
    grid = drawing.subplots(2, 2)
    above = f"{sweep.metric.name} over {sweep.over}"
    drawing.suptitle(_text(above), color=_INK, fontsize=14, fontweight="bold")
    _draw_totals(sweep, grid[0][0])
    _draw_speedup(sweep, grid[0][1])
    _draw_shares(sweep, grid[1][0], most)
    _draw_routines(sweep, grid[1][1], most)
    for axes in grid.flat:
        _dress(axes)
    return drawing


def _dress(axes: Axes) -> None:
    axes.set_facecolor(_SURFACE)
    axes.grid(axis="y", color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(_INK)
    _draw_whole_markers(axes)
    axes.tick_params(colors=_INK, labelsize=9)
    axes.title.set_color(_INK)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    legend = axes.get_legend()
    if legend is not None:
        legend.get_frame().set_facecolor(_SURFACE)
        legend.get_frame().set_edgecolor(_GRID)
        for text in legend.get_texts():
            text.set_color(_INK)


def _draw_whole_markers(axes: Axes) -> None:
    """Draw markers at the edge of the axes whole; points beyond a cut axis stay hidden."""
    low, high = sorted(axes.get_ylim())
    for line in list(axes.get_lines()):
        xs, ys = (list(map(float, values)) for values in line.get_data())  # type: ignore[arg-type]
        points = list(zip(xs, ys, strict=True))
        inside = [(x, y) for x, y in points if low <= y <= high]
        if len(inside) == len(points):
            line.set_clip_on(False)
        elif inside:
            (markers,) = axes.plot(*zip(*inside, strict=True), clip_on=False)
            markers.update_from(line)
            markers.set(linestyle="", clip_on=False, label="_markers")
            line.set_marker("")


def _places(sweep: Sweep, axes: Axes) -> dict[str, float]:
    """Positions on the axis: numbers by size, powers evenly spaced, words in order."""
    numbers = [as_number(value) for value in sweep.values]
    axes.set_xlabel(_text(sweep.over))
    if any(number is None for number in numbers):
        places = {value: float(at) for at, value in enumerate(sweep.values)}
    else:
        places = dict(zip(sweep.values, numbers, strict=True))  # type: ignore[arg-type]
        if _grows_by_factors(list(places.values())):
            axes.set_xscale("log", base=2)
            axes.minorticks_off()
            axes.xaxis.set_major_formatter(lambda value, _: units.number(round(value, 4)))
    if len(places) <= _MOST_TICKS:
        axes.set_xticks(list(places.values()), [_text(value, 12) for value in places])
        if any(len(value) > 5 for value in places):
            axes.tick_params(axis="x", rotation=30)
    return places


def _grows_by_factors(values: list[float]) -> bool:
    """1, 2, 4, 8 rather than 1, 2, 3, 4: the middle value is near the geometric mean."""
    least, largest = min(values), max(values)
    if least <= 0 or largest / least < 8:
        return False
    middle = math.log(median(values))
    return abs(middle - math.log(least * largest) / 2) < abs(
        middle - math.log((least + largest) / 2)
    )


def _scale(sweep: Sweep, largest: float) -> tuple[str, float]:
    """The axis's unit and the divisor of values."""
    if sweep.metric.unit != "ns":
        return sweep.metric.unit or "count", 1.0
    return next(((unit, step) for unit, step in _STEPS if largest >= step), ("ns", 1.0))


def _line(axes: Axes, number: int, xs: Sequence[float], ys: Sequence[float], label: str) -> str:
    """A line with markers, of the color that is returned."""
    color = _COLORS[number % len(_COLORS)]
    marker = _MARKERS[number % len(_MARKERS)]
    axes.plot(xs, ys, color=color, marker=marker, markersize=5, label=label)
    return color


def _by_factors(axes: Axes) -> None:
    """Equal factors are equally far apart on the y axis."""
    axes.set_yscale("log", base=2)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: units.number(round(value, 4)))


def _draw_totals(sweep: Sweep, axes: Axes) -> None:
    axes.set_title("The program")
    places = _places(sweep, axes)
    rows = sweep.totals()
    unit, step = _scale(sweep, max((row.maximum for row in rows), default=1))
    axes.set_ylabel(f"{_text(sweep.metric.name)} [{_text(unit)}]")
    for number, series in enumerate(sweep.series):
        own = [row for row in rows if row.series == series]
        at = [places[row.value] for row in own]
        middle = [row.median / step for row in own]
        color = _line(axes, number, at, middle, _text(series or "median"))
        least, most = [row.minimum / step for row in own], [row.maximum / step for row in own]
        axes.vlines(at, least, most, color=color, linewidth=4, alpha=0.35)
    axes.set_ylim(bottom=0)
    if any(row.runs > 1 for row in rows):
        axes.set_title("The program: median, minimum to maximum")
    if len(sweep.series) > 1:
        axes.legend(fontsize=8)


def _draw_speedup(sweep: Sweep, axes: Axes) -> None:
    places = _places(sweep, axes)
    axes.set_title(f"Speed-up relative to {_text(sweep.over)}={_text(sweep.baseline, 16)}")
    axes.set_ylabel("speed-up")
    start, scaling = as_number(sweep.baseline), sweep.scaling != "none"
    if scaling and start is not None and start > 0:
        at = sorted(places.values())
        ideal = [p / start for p in at]
        axes.plot(at, ideal, color=_INK, linestyle=":", linewidth=1.2, label="ideal")
    else:
        axes.axhline(1, color=_INK, linestyle=":", linewidth=1)
    for number, series in enumerate(sweep.series):
        own = [r for r in sweep.totals() if r.series == series and r.speedup is not None]
        points = [(places[row.value], row.speedup or 0) for row in own]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        _line(axes, number, xs, ys, _text(series or "measured"))
        if scaling and len(sweep.series) == 1:
            every = -(-len(own) // _MOST_LABELS)
            for row, point in list(zip(own, points, strict=True))[::every]:
                if row.efficiency is not None:
                    axes.annotate(
                        f"{100 * row.efficiency:.0f} %",
                        point,
                        xytext=(0, 7),
                        textcoords="offset points",
                        ha="center",
                        fontsize=8,
                        color=_INK,
                    )
            axes.set_title(axes.get_title() + ", efficiency")
    if scaling and axes.get_xscale() == "log":
        _by_factors(axes)  # the ideal is a straight line
    else:
        axes.set_ylim(bottom=0)
    if scaling or len(sweep.series) > 1:
        axes.legend(fontsize=8)


def _largest(sweep: Sweep, most: int) -> list[tuple[Where, str]]:
    """The routines of the first series with the largest values or shares at any value."""
    weight: dict[tuple[Where, str], float] = {}
    for row in sweep.top(None):
        if row.series == sweep.series[0]:
            key = (row.where, row.timer)
            weight[key] = max(weight.get(key, 0.0), row.share or row.median)
    return sorted(weight, key=lambda key: -weight[key])[:most]


def _draw_shares(sweep: Sweep, axes: Axes, most: int) -> None:
    """Bars: exclusive values at each value, by routine, over all threads."""
    series = sweep.series[0]
    axes.set_title("By routine" + (f" ({_text(series, 30)})" if series else ", over threads"))
    axes.set_xlabel(_text(sweep.over))
    rows = [row for row in sweep.top(None) if row.series == series]
    whole: dict[str, float] = {}
    for row in rows:
        whole[row.value] = whole.get(row.value, 0.0) + row.median
    spent = {(row.value, row.where, row.timer): row.median for row in rows}
    values = [value for value in sweep.values if value in whole]
    unit, step = _scale(sweep, max(whole.values(), default=1))
    axes.set_ylabel(f"exclusive {_text(sweep.metric.name)} [{_text(unit)}]")
    bottom = [0.0] * len(values)
    at = range(len(values))
    for number, (where, timer) in enumerate(_largest(sweep, most)):
        heights = [spent.get((value, where, timer), 0.0) / step for value in values]
        color, label = _COLORS[number % len(_COLORS)], _name(where, timer)
        axes.bar(at, heights, 0.65, bottom=bottom, color=color, label=label)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    rest = [whole[value] / step - low for value, low in zip(values, bottom, strict=True)]
    if any(height > 1e-9 for height in rest):
        axes.bar(at, rest, 0.65, bottom=bottom, color=_REST, label="others")
    every = -(-len(values) // _MOST_TICKS)
    axes.set_xticks(list(at)[::every], [_text(value, 12) for value in values[::every]])
    if any(len(value) > 5 for value in values):
        axes.tick_params(axis="x", rotation=30)
    handles, labels = axes.get_legend_handles_labels()
    drawing = axes.get_figure()
    assert drawing is not None
    legend = drawing.legend(  # for both charts below
        handles, labels, fontsize=8, loc="outside lower center", ncols=3, frameon=False
    )
    for text in legend.get_texts():
        text.set_color(_INK)


def _draw_routines(sweep: Sweep, axes: Axes, most: int) -> None:
    """Lines: speed-up of each of the largest routines."""
    series = sweep.series[0]
    axes.set_title("Speed-up by routine" + (f" ({_text(series, 30)})" if series else ""))
    axes.set_ylabel("speed-up")
    places = _places(sweep, axes)
    axes.axhline(1, color=_INK, linestyle=":", linewidth=1)
    points: dict[tuple[Where, str], list[tuple[float, float]]] = {}
    for row in sweep.routines():
        if row.series == series and row.speedup and row.speedup > 0:
            points.setdefault((row.where, row.timer), []).append((places[row.value], row.speedup))
    chosen = [points.get(key, []) for key in _largest(sweep, most)]
    for number, own in enumerate(chosen):
        color, marker = _COLORS[number % len(_COLORS)], _MARKERS[number % len(_MARKERS)]
        xs, ys = [x for x, _ in own], [y for _, y in own]
        axes.plot(xs, ys, color=color, marker=marker, markersize=4, linewidth=1.3)
    drawn = [y for own in chosen for _, y in own] or [1.0]
    low, high = min(drawn), max(drawn)
    if high / low < 4:
        axes.set_ylim(bottom=0)
        return
    _by_factors(axes)
    cut = max(_CUT, _ideal(sweep) or 0)
    if low < 1 / cut or high > cut:  # a routine that has almost vanished would hide the others
        axes.set_ylim(max(low, 1 / cut) / 1.1, min(high, cut) * 1.1)
        axes.set_title(axes.get_title() + f", cut at {units.number(cut)}")


def _ideal(sweep: Sweep) -> float | None:
    """The largest expected speed-up; None without a scaling."""
    numbers = [as_number(value) for value in sweep.values]
    start = as_number(sweep.baseline)
    if sweep.scaling == "none" or start is None or start <= 0:
        return None
    return max((number or 0.0) / start for number in numbers)


def _name(where: Where, timer: str) -> str:
    # matplotlib hides names with a leading underscore from the legend.
    return "\u200a" + _text(f"{timer} (GPU)" if where == "gpu" else timer)


def _text(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name for matplotlib: one line, with `$` escaped."""
    text = visible(name)
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return text.replace("$", r"\$")
