"""A chart as a picture: PNG, SVG or PDF, drawn with matplotlib in a light or dark theme.

The only module here that imports matplotlib. The chart contains the positions; `lettering` places
the labels.
"""

from __future__ import annotations

import io
import os
import textwrap
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taupy.drawing import import_matplotlib
from taupy.errors import UsageError
from taupy.roofline.chart import Axis, Chart
from taupy.roofline.lettering import Label, lettering, radius
from taupy.roofline.palette import Theme, palette
from taupy.roofline.ticks import tick_label, ticks
from taupy.state.saving import save_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")
_STYLES = {"solid": "-", "dashed": (0, (5, 3)), "dotted": (0, (1.2, 2.2))}
_WIDTHS = {"compute": 1.6, "bandwidth": 1.6, "balance": 1.6, "trajectory": 1.4}
_AXIS = 0.62  # below the plane: ticks and the name of the axis, in inches
_STRIP, _BAR = 0.36, 0.11  # height of a strip with its label, and without, in inches
_WIDTH, _LEFT, _RIGHT, _RIGHT_OF_TWO = 11.2, 0.84, 7.95, 7.39  # inches
_NARROWEST = 7.5
_POINTS = 72.0  # per inch
_LEAST_PLANE = 1.5
_MOST_NOTES = 14
_MORE_LETTERS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei"),
    *("Droid Sans Fallback", "Microsoft YaHei", "PingFang SC", "Yu Gothic", "Malgun Gothic"),
    *("Arial Unicode MS", "Unifont"),
)


def write_picture(
    chart: Chart,
    path: str | os.PathLike[str],
    theme: Theme = "light",
    size: tuple[float, float] | None = None,
) -> None:
    """Draw a chart into a file; the suffix determines the format.

    Args:
        size: width and height of the whole picture in inches; None for automatic.

    Raises:
        UsageError: the suffix is not in `FORMATS`, matplotlib is missing, or the file cannot be
            written.
    """
    name = os.fspath(path)
    ending = name.rpartition(".")[2].lower()
    if ending not in FORMATS:
        raise UsageError(f"{name}: the name of a picture must end in .{', .'.join(FORMATS)}")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # characters missing from its font
            figure = _figure(chart, theme, size)
            data = io.BytesIO()
            figure.savefig(data, format=ending, dpi=160, facecolor=figure.get_facecolor())
        save_named(name, data.getvalue())
    except OSError as problem:
        raise UsageError(f"{name} cannot be written: {problem.strerror or problem}") from None


def _figure(chart: Chart, theme: Theme, size: tuple[float, float] | None = None) -> Figure:
    try:
        import_matplotlib()
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise UsageError(
            f"pictures need matplotlib ({problem}): pip install 'taupy-profiler[plots]'; pages, as "
            "in -o roofline.html, do not"
        ) from None
    matplotlib.rcParams["svg.fonttype"] = "none"  # text, not outlines
    matplotlib.rcParams["pdf.fonttype"] = 42  # TrueType, not outlines
    matplotlib.rcParams["text.parse_math"] = False  # `$` in names has no meaning
    matplotlib.rcParams["font.family"] = ["DejaVu Sans", *_further_fonts()]
    colors = palette(theme)
    above = 1.15 if chart.x2 else 0.72
    right = _RIGHT_OF_TWO if chart.y2 else _RIGHT
    beside = _WIDTH - (right - _LEFT)
    room = (right - _LEFT, 5.38 - above)
    if size is not None:
        lines = len(_notes(chart, int(165 * size[0] / _WIDTH)))
        below = _AXIS + 0.1 + _STRIP * len(chart.strips) + 0.17 * lines
        room = (size[0] - beside, size[1] - below - above)
        if min(room) < _LEAST_PLANE:
            raise UsageError(
                f"--size {size[0]:g}x{size[1]:g} is too small for the chart with its legend "
                f"and notes: use at least {beside + _LEAST_PLANE:.1f}x"
                f"{below + above + _LEAST_PLANE:.1f}"
            )
    wide, high = _plane(chart, *room)
    width = size[0] if size is not None else max(beside + wide, _NARROWEST)
    notes = _notes(chart, int(165 * width / _WIDTH))
    legend_rows = len(chart.legend)
    below = _AXIS + 0.1 + _STRIP * len(chart.strips) + 0.17 * len(notes)
    height = size[1] if size is not None else below + high + above
    figure = Figure(figsize=(width, height), facecolor=colors["ground"])
    FigureCanvasAgg(figure)
    axes = figure.add_axes((_LEFT / width, below / height, wide / width, high / height))
    _axes(axes, chart, colors)
    _boxes(axes, chart, colors)
    _lines(axes, chart, colors)
    _symbols(axes, chart, colors)
    _labels(axes, lettering(chart, _POINTS * wide, _POINTS * high), colors)
    _strips(axes, chart, colors, high)
    _legend(figure, axes, chart, colors, legend_rows)
    figure.text(
        0.13 / width,
        1 - 0.30 / height,
        chart.title,
        color=colors["ink"],
        fontsize=13,
        weight="bold",
    )
    figure.text(
        0.13 / width, 1 - 0.52 / height, chart.subtitle, color=colors["muted"], fontsize=8.5
    )
    for number, (text, warn) in enumerate(notes):
        figure.text(
            0.13 / width,
            (0.10 + 0.165 * (len(notes) - 1 - number)) / height,
            text,
            color=colors["warn" if warn else "muted"],
            fontsize=7.6,
        )
    return figure


def _further_fonts() -> list[str]:
    """Installed fonts with characters that matplotlib's default font lacks."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return [name for name in _MORE_LETTERS if name in installed]


def _plane(chart: Chart, wide: float, high: float) -> tuple[float, float]:
    """Width and height of the plane: all available space, or less for equal decades."""
    if not chart.equal_decades:
        return wide, high
    across, up = chart.x.decades, chart.y.decades
    inches = min(wide / across, high / up)
    return inches * across, inches * up


def _notes(chart: Chart, letters: int) -> list[tuple[str, bool]]:
    texts = [(f"! {text}", True) for text in chart.warnings]
    texts += [(text, False) for text in chart.notes]
    lines = []
    for text, warn in texts:
        wrapped = textwrap.wrap(text, letters) or [""]
        lines += [(part, warn) for part in wrapped]
    return lines[:_MOST_NOTES]


def _axes(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    axes.set_facecolor(colors["ground"])
    for spine in axes.spines.values():
        spine.set_color(colors["muted"])
        spine.set_linewidth(0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(chart.x.low, chart.x.high)
    axes.set_ylim(chart.y.low, chart.y.high)
    _ticks(axes.xaxis, chart.x)
    _ticks(axes.yaxis, chart.y)
    axes.set_xlabel(f"{chart.x.label} [{chart.x.unit}]", color=colors["ink"], fontsize=9.5)
    axes.set_ylabel(f"{chart.y.label} [{chart.y.unit}]", color=colors["ink"], fontsize=9.5)
    axes.grid(True, which="major", color=colors["grid"], linewidth=0.7, zorder=0)
    axes.tick_params(which="both", color=colors["muted"], labelcolor=colors["ink"], labelsize=8.5)
    if chart.x2 is not None:
        above: Any = axes.twiny()
        _second(above, above.xaxis, chart.x2, colors, across=True)
    if chart.y2 is not None:
        beside: Any = axes.twinx()
        _second(beside, beside.yaxis, chart.y2, colors, across=False)


def _second(axes: Any, side: Any, axis: Axis, colors: dict[str, str], across: bool) -> None:
    for spine in axes.spines.values():
        spine.set_visible(False)
    if across:
        axes.set_xscale("log")
        axes.set_xlim(axis.low, axis.high)
        axes.set_xlabel(f"{axis.label} [{axis.unit}]", color=colors["muted"], fontsize=8.5)
    else:
        axes.set_yscale("log")
        axes.set_ylim(axis.low, axis.high)
        axes.set_ylabel(f"{axis.label} [{axis.unit}]", color=colors["muted"], fontsize=8.5)
    _ticks(side, axis)
    axes.tick_params(which="both", color=colors["muted"], labelcolor=colors["muted"], labelsize=8)
    axes.set_zorder(0)


def _ticks(side: Any, axis: Axis) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

    values = ticks(axis)
    side.set_major_locator(FixedLocator(values))
    side.set_major_formatter(FixedFormatter([tick_label(value) for value in values]))
    side.set_minor_formatter(NullFormatter())


def _boxes(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    from matplotlib.patches import Rectangle

    for box in chart.boxes:
        color = colors[box.color]
        axes.add_patch(
            Rectangle(
                (chart.x.low, chart.y.low),
                box.x - chart.x.low,
                box.y - chart.y.low,
                facecolor=(*_rgb(color), 0.10),
                edgecolor=(*_rgb(color), 0.75),
                linewidth=1.0,
                zorder=1,
            )
        )


def _ground(colors: dict[str, str]) -> dict[str, Any]:
    """An outline keeps text readable on lines; in SVG it stays text."""
    return {"facecolor": colors["ground"], "alpha": 0.72, "edgecolor": "none", "pad": 0.4}


def _rgb(color: str) -> tuple[float, float, float]:
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _lines(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    for line in chart.lines:
        xs = [x for x, _ in line.points]
        ys = [y for _, y in line.points]
        pair = line.role == "pair"
        faint = pair or line.role == "isochrone"
        axes.plot(
            xs,
            ys,
            color=colors[line.color],
            linestyle=_STYLES[line.style],
            linewidth=0.6 if pair else _WIDTHS.get(line.role, 0.9),
            alpha=0.55 if faint else (0.9 if line.role == "trajectory" else 1.0),
            zorder=2 if line.role != "trajectory" else 3,
            solid_capstyle="round",
        )


def _labels(axes: Axes, labels: Sequence[Label], colors: dict[str, str]) -> None:
    for label in labels:
        axes.text(
            label.x,
            label.y,
            label.text,
            transform=axes.transAxes,
            rotation=label.angle,
            rotation_mode="anchor",
            ha="left" if label.anchor == "start" else "right",
            va="center_baseline",
            fontsize=label.size,
            color=colors[label.color],
            zorder=3.5,
            bbox=_ground(colors),
        )


def _symbols(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    # Named symbols go on top, and small ones on top of large ones.
    for symbol in sorted(chart.symbols, key=lambda symbol: (symbol.color != "other", -symbol.area)):
        color = colors[symbol.color]
        axes.scatter(
            [symbol.x],
            [symbol.y],
            s=(2 * radius(symbol)) ** 2,
            marker=_MARKERS[symbol.marker % len(_MARKERS)],
            facecolors=color if symbol.filled else "none",
            edgecolors=colors["ground"] if symbol.filled else color,
            linewidths=0.7 if symbol.filled else 1.3,
            alpha=0.9,
            zorder=4,
        )


def _strips(axes: Axes, chart: Chart, colors: dict[str, str], high: float) -> None:
    """Strips below the plane, for points it cannot show; lengths are shares of the time.

    Args:
        high: height of the plane in inches.
    """
    from matplotlib.patches import Rectangle

    for number, strip in enumerate(chart.strips):
        top = -(_AXIS + number * _STRIP) / high
        thick = _BAR / high
        outline = Rectangle(
            (0.0, top - thick),
            1.0,
            thick,
            facecolor="none",
            edgecolor=colors["grid"],
            linewidth=0.8,
        )
        bars = [
            Rectangle(
                (mark.low, top - thick),
                mark.high - mark.low,
                thick,
                facecolor=colors[mark.color],
                edgecolor=colors["ground"],
                linewidth=0.4,
            )
            for mark in strip.marks
        ]
        for patch in (outline, *bars):
            patch.set(transform=axes.transAxes, clip_on=False)
            axes.add_patch(patch)
        axes.text(
            0.0,
            top - thick - 0.03 / high,
            strip.label,
            transform=axes.transAxes,
            fontsize=7.2,
            color=colors["muted"],
            ha="left",
            va="top",
        )


def _legend(figure: Figure, axes: Axes, chart: Chart, colors: dict[str, str], rows: int) -> None:
    from matplotlib.lines import Line2D

    width = figure.get_figwidth()
    handles = []
    for entry in chart.legend:
        color = colors[entry.color]
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker=_MARKERS[entry.marker % len(_MARKERS)],
                markersize=7,
                markerfacecolor=color if entry.filled else "none",
                markeredgecolor=color,
                color=color,
                label=entry.label,
            )
        )
    if not handles:
        return
    box = axes.get_position()
    legend = figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(box.x1 + (0.69 if chart.y2 else 0.09) / width, box.y1 + 0.012),
        fontsize=7.6 if rows < 26 else 6.4,
        frameon=False,
        labelcolor=colors["ink"],
        handletextpad=0.3,
        borderaxespad=0.0,
        labelspacing=0.55,
    )
    legend.set_zorder(7)
    room = figure.get_figwidth() * figure.dpi - 4 - legend.get_window_extent().x0
    need = legend.get_window_extent().width
    if need > room:
        for text in legend.get_texts():
            text.set_fontsize(text.get_fontsize() * room / need)
