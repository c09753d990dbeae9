"""A chart as a picture: PNG, SVG or PDF by matplotlib, in light or dark.

Only this file knows matplotlib; what stands where in the plane comes with the chart.
"""

from __future__ import annotations

import math
import os
import textwrap
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taupy.errors import UsageError
from taupy.roofline.chart import Axis, Chart, Line
from taupy.roofline.palette import Theme, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")
_STYLES = {"solid": "-", "dashed": (0, (5, 3)), "dotted": (0, (1.2, 2.2))}
_SMALLEST, _LARGEST = 16.0, 300.0  # area in points^2
_WIDTHS = {"compute": 1.6, "bandwidth": 1.6, "balance": 1.6, "trajectory": 1.4}
_STRIP = 0.014
_LETTER = 5.6  # width of a letter of a line's label, in pixels at 100 to the inch
_CORNER = 14.0  # room at the ends of a slanted label, in such pixels
_APART = 13.0  # between labels, in such pixels

Spread = list[tuple[float, float]]
"""Points along a label, in pixels."""
_WIDTH, _LEFT, _RIGHT, _RIGHT_OF_TWO = 11.2, 0.84, 7.95, 7.39  # inches
_NARROWEST = 7.5
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
    """Draw a chart into a file; its ending says the format.

    Args:
        size: width and height of the whole picture in inches; None for the usual one.

    Raises:
        UsageError: the ending is none of `FORMATS`, matplotlib is missing, or the file
            cannot be written.
    """
    name = os.fspath(path)
    ending = name.rpartition(".")[2].lower()
    if ending not in FORMATS:
        raise UsageError(f"{name}: pictures end in .{', .'.join(FORMATS)}")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # letters that its font does not have
            figure = _figure(chart, theme, size)
            figure.savefig(name, format=ending, dpi=160, facecolor=figure.get_facecolor())
    except OSError as problem:
        raise UsageError(f"{name} cannot be written: {problem.strerror or problem}") from None


def _figure(chart: Chart, theme: Theme, size: tuple[float, float] | None = None) -> Figure:
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("pictures need matplotlib: pip install matplotlib") from None
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    matplotlib.rcParams["pdf.fonttype"] = 42  # as TrueType, not as drawings of letters
    matplotlib.rcParams["text.parse_math"] = False  # a name with `$` is a name
    matplotlib.rcParams["font.family"] = ["DejaVu Sans", *_further_fonts()]
    colors = palette(theme)
    above = 1.15 if chart.x2 else 0.72
    right = _RIGHT_OF_TWO if chart.y2 else _RIGHT
    beside = _WIDTH - (right - _LEFT)
    room = (right - _LEFT, 5.38 - above)
    if size is not None:
        lines = len(_notes(chart, int(165 * size[0] / _WIDTH)))
        room = (size[0] - beside, size[1] - 0.72 - 0.17 * lines - above)
        if min(room) < _LEAST_PLANE:
            raise UsageError(
                f"--size {size[0]:g}x{size[1]:g} leaves no room for the chart beside its legend "
                f"and notes: {beside + _LEAST_PLANE:.1f} x "
                f"{0.72 + 0.17 * lines + above + _LEAST_PLANE:.1f} inches or more"
            )
    wide, high = _plane(chart, *room)
    width = size[0] if size is not None else max(beside + wide, _NARROWEST)
    notes = _notes(chart, int(165 * width / _WIDTH))
    legend_rows = len(chart.legend)
    below = 0.17 * len(notes) + 0.1
    height = size[1] if size is not None else 0.62 + below + high + above
    figure = Figure(figsize=(width, height), facecolor=colors["ground"])
    FigureCanvasAgg(figure)
    bottom = (0.62 + below) / height
    axes = figure.add_axes((_LEFT / width, bottom, wide / width, high / height))
    _axes(axes, chart, colors)
    _boxes(axes, chart, colors)
    _lines(axes, chart, colors)
    _symbols(axes, chart, colors)
    _strips(axes, chart, colors)
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
    """Fonts of this machine with letters that matplotlib's own does not have."""
    from matplotlib.font_manager import fontManager

    there = {font.name for font in fontManager.ttflist}
    return [name for name in _MORE_LETTERS if name in there]


def _plane(chart: Chart, wide: float, high: float) -> tuple[float, float]:
    """Width and height of the plane: all there is room for, or less, for equal decades."""
    if not chart.equal_decades:
        return wide, high
    across, up = chart.x.decades, chart.y.decades
    inches = min(wide / across, high / up)
    return inches * across, inches * up


def _notes(chart: Chart, letters: int) -> list[tuple[str, bool]]:
    found = [(f"! {text}", True) for text in chart.warnings]
    found += [(text, False) for text in chart.notes]
    lines = []
    for text, warn in found:
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


def ticks(axis: Axis, most: int = 9) -> list[float]:
    """Powers of ten within an axis, thinned out to at most so many; 2 and 5 times them too
    where they are few."""
    first = math.ceil(math.log10(axis.low) - 1e-9)
    last = math.floor(math.log10(axis.high) + 1e-9)
    step = max(1, -(-(last - first + 1) // most))
    if step > 1 and step % 3:
        step += 3 - step % 3  # whole SI prefixes
    if last - first < 2:  # too few powers of ten to read from
        found = [
            part * 10.0**exponent for exponent in range(first - 1, last + 1) for part in (1, 2, 5)
        ]
        return [value for value in found if axis.low <= value <= axis.high]
    start = first + (-first) % step
    return [10.0**exponent for exponent in range(start, last + 1, step)]


_SUPERSCRIPT = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)


def tick_label(value: float) -> str:
    """A power of ten; with 2 or 5 in front of it where there are few powers."""
    exponent = math.floor(math.log10(value) + 1e-9)
    front = round(value / 10.0**exponent)
    power = f"10{str(exponent).translate(_SUPERSCRIPT)}"
    return power if front == 1 else f"{front}\u00b7{power}"


def _ticks(side: Any, axis: Axis) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter

    values = ticks(axis)
    side.set_major_locator(FixedLocator(values))
    side.set_major_formatter(FixedFormatter([tick_label(value) for value in values]))
    side.set_minor_formatter(NullFormatter())


def _boxes(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    from matplotlib.patches import Rectangle

    for number, box in enumerate(chart.boxes):
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
        lowest = sum(1 for other in chart.boxes[:number] if abs(math.log(other.y / box.y)) < 0.4)
        axes.annotate(
            box.label,
            (chart.x.low, box.y),
            xytext=(16, -4 - 10 * lowest),
            textcoords="offset points",
            ha="left",
            va="top",
            fontsize=7.2,
            color=color,
            zorder=6,
            clip_on=True,
            bbox=_ground(colors),
        )


def _ground(colors: dict[str, str]) -> dict[str, Any]:
    """Text stays readable where it crosses lines, and stays text in SVG."""
    return {"facecolor": colors["ground"], "alpha": 0.72, "edgecolor": "none", "pad": 0.4}


def _rgb(color: str) -> tuple[float, float, float]:
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _lines(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    taken: list[Spread] = []
    places = [(symbol.x, symbol.y) for symbol in chart.symbols]
    spots = [(float(x), float(y)) for x, y in axes.transData.transform(places)] if places else []
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
    roofs = [
        (line, [(float(x), float(y)) for x, y in axes.transData.transform(line.points)])
        for line in chart.lines
        if line.role in ("compute", "bandwidth", "balance", "launch")
    ]
    # From the top down: the upper of two near roofs has its label above, the lower below.
    # What isochrones are called stands at their corners, wherever the others are.
    for line in sorted(
        chart.lines,
        key=lambda each: (
            each.role != "isochrone",
            each.style == "dashed",
            -max(y for _, y in each.points),
        ),
    ):
        if line.label and line.role not in ("trajectory", "pair"):
            others = [ends for name, ends in roofs if name is not line]
            _line_label(axes, line, colors, taken, spots, others)


def _line_label(
    axes: Axes,
    line: Line,
    colors: dict[str, str],
    taken: list[Spread],
    spots: Sequence[tuple[float, float]],
    others: Sequence[Spread],
) -> None:
    """Along the line: of places on it, the one that hides no other label and few symbols.

    Args:
        taken: where labels are so far; this one is added. In pixels.
        spots: where symbols are, in pixels; others: the ends of the other lines.
    """
    long = _LETTER * len(line.label)
    if line.role == "isochrone":
        corner = line.points[1]
        right, up = map(float, axes.transData.transform(corner))
        side = 1 if up + 14 < axes.bbox.y1 else -1  # above, where there is room
        axes.annotate(
            line.label, corner, xytext=(-2, 2 * side), textcoords="offset points", ha="right",
            va="bottom" if side > 0 else "top", fontsize=6.8, color=colors["muted"], zorder=5,
            clip_on=True, bbox=_ground(colors),
        )  # fmt: skip
        taken.append(_spread(right - long / 2, up + 6 * side, 1.0, 0.0, long))
        return
    (x1, y1), (x2, y2) = line.points[0], line.points[-1]
    (left, bottom), (right, top) = axes.transData.transform([(x1, y1), (x2, y2)])
    across, up = float(right - left), float(top - bottom)
    whole = math.hypot(across, up) or 1.0
    across, up = across / whole, up / whole
    first = {"compute": 0.985, "launch": 0.985, "bandwidth": 0.14, "balance": 0.80}[line.role]
    # Of the line; a slanted label needs some room more, since its corners stand out.
    half = (long / 2 + (_CORNER if abs(up) > 0.05 else 0)) / whole
    middle = first + (half if first < 0.2 else -half if first > 0.9 else 0.0)
    move = 0.1 if first < 0.2 else -0.1
    # What isochrones are called stands above the balance.
    sides = (-1, 1) if line.role == "balance" else (1, -1)
    best: tuple[tuple[int, int], float, int, Spread] | None = None
    for step in range(8):
        along = middle + move * step
        # Within the line; of one that is too short, from its beginning or up to its end.
        along = min(max(along, half), 1 - half) if first > 0.2 else max(min(along, 1 - half), half)
        for side in sides:
            x = float(left) + whole * along * across - 8 * side * up
            y = float(bottom) + whole * along * up + 8 * side * across
            place = _spread(x, y, across, up, long)
            clashes = sum(_clash(place, other) for other in taken)
            hidden = sum(
                abs((b - y) * across - (a - x) * up) < 13
                and abs((a - x) * across + (b - y) * up) < long / 2 + 5
                for a, b in spots
            )
            hidden += 2 * sum(_crosses(place, other) for other in others)
            if best is None or (clashes, hidden) < best[0]:
                best = ((clashes, hidden), along, side, place)
    assert best is not None
    (clashes, _), along, side, place = best
    if clashes and line.style == "dashed":
        return  # the notes have it
    taken.append(place)
    axes.annotate(
        line.label,
        (x1 * (x2 / x1) ** along, y1 * (y2 / y1) ** along),
        xytext=(-2.5 * side * up, 2.5 * side * across),
        textcoords="offset points",
        rotation=math.degrees(math.atan2(up, across)),
        rotation_mode="anchor",
        ha="center",
        va="bottom" if side > 0 else "top",
        fontsize=7.8,
        color=colors[line.color],
        zorder=5,
        clip_on=True,
        bbox=_ground(colors),
    )


def _spread(x: float, y: float, across: float, up: float, long: float) -> Spread:
    """Points along a label of that middle, direction and length."""
    count = max(2, int(long / _APART) + 1)
    steps = [(at / (count - 1) - 0.5) * long for at in range(count)]
    return [(x + step * across, y + step * up) for step in steps]


def _crosses(label: Spread, line: Spread) -> bool:
    """Does a straight line go through a label?"""
    (x1, y1), (x2, y2) = line[0], line[-1]
    whole = math.hypot(x2 - x1, y2 - y1) or 1.0
    across, up = (x2 - x1) / whole, (y2 - y1) / whole
    return any(
        abs((y - y1) * across - (x - x1) * up) < 7
        and -7 < (x - x1) * across + (y - y1) * up < whole + 7
        for x, y in label
    )


def _clash(one: Spread, other: Spread) -> bool:
    """Do two labels run into each other?"""
    return any((a - x) ** 2 + (b - y) ** 2 < _APART**2 for a, b in one for x, y in other)


def _symbols(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    written: list[tuple[float, float]] = []
    # The named ones on top, small ones on top of large ones.
    for symbol in sorted(chart.symbols, key=lambda each: (each.color != "other", -each.area)):
        size = _SMALLEST + symbol.area * (_LARGEST - _SMALLEST)
        color = colors[symbol.color]
        axes.scatter(
            [symbol.x],
            [symbol.y],
            s=size,
            marker=_MARKERS[symbol.marker % len(_MARKERS)],
            facecolors=color if symbol.filled else "none",
            edgecolors=colors["ground"] if symbol.filled else color,
            linewidths=0.7 if symbol.filled else 1.3,
            alpha=0.9,
            zorder=4,
        )
        if symbol.text:
            right, up = axes.transData.transform((symbol.x, symbol.y))
            if any(abs(right - at) < 24 and abs(up - height) < 9 for at, height in written):
                continue
            written.append((float(right), float(up)))
            axes.annotate(
                symbol.text,
                (symbol.x, symbol.y),
                xytext=(math.sqrt(size) / 2 + 1.5, -2.5),
                textcoords="offset points",
                fontsize=6.8,
                color=color,
                zorder=5,
                clip_on=True,
            )


def _strips(axes: Axes, chart: Chart, colors: dict[str, str]) -> None:
    """Points without a place in the plane: an edge of the chart, as long as their share."""
    from matplotlib.patches import Rectangle

    for mark in chart.marks:
        if mark.high <= mark.low:
            continue
        long = mark.high - mark.low
        corner, width, height = {
            "left": ((0.0, mark.low), _STRIP, long),
            "right": ((1 - _STRIP, mark.low), _STRIP, long),
            "bottom": ((mark.low, 0.0), long, _STRIP * 1.3),
        }[mark.edge]
        axes.add_patch(
            Rectangle(
                corner,
                width,
                height,
                transform=axes.transAxes,
                facecolor=colors[mark.color],
                edgecolor=colors["ground"],
                linewidth=0.4,
                zorder=6,
            )
        )
    if chart.marks_label:
        # Behind the strip where there is room, else beside it.
        below = any(mark.edge == "bottom" for mark in chart.marks)
        end = max((m.high for m in chart.marks if m.edge in ("left", "bottom")), default=0.0)
        after = end < 0.6
        along = end + 0.008 if after else 0.012
        beside = 0.002 if after else _STRIP * (1.3 if below else 1.0) + 0.006
        axes.text(
            along if below else beside,
            beside if below else along,
            chart.marks_label,
            transform=axes.transAxes,
            rotation=0 if below else 90,
            fontsize=7.2,
            color=colors["muted"],
            ha="left",
            va="bottom",
            zorder=6,
            bbox=_ground(colors),
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
