// The charts of the roofline: points under their roofs, and the numbers of the one pointed at.
import { svg } from "./chart.js";
import { element } from "./table.js";
import { showTip } from "./tip.js";

const WIDTH = 960;
const STRIP = 34;
const DASHES = { solid: "none", dashed: "7 5", dotted: "2 3" };
const WIDTHS = { pair: 0.8, isochrone: 1 };
const FAINT = ["pair", "isochrone"];
const ROOFS = ["compute", "bandwidth", "balance"];
const OF_PAGE = { ground: "--paper", ink: "--ink", muted: "--faint", grid: "--line" };

const turned = (corners, degrees) => {
  const [sine, cosine] = [Math.sin, Math.cos].map((of) => of((degrees * Math.PI) / 180));
  const places = corners.map(([x, y]) => [x * cosine - y * sine, x * sine + y * cosine]);
  return `M${places.map((place) => place.map((at) => at.toFixed(2)).join(",")).join("L")}Z`;
};
const polygon = (corners, radius, degrees, inner = radius) =>
  turned(Array.from({ length: corners }, (_, at) => {
    const angle = (2 * Math.PI * at) / corners;
    const far = at % 2 ? inner : radius;
    return [far * Math.cos(angle), far * Math.sin(angle)];
  }), degrees);
const cross = (radius, degrees) => {
  const thin = radius * 0.36;
  const corner = [[thin, -radius], [thin, -thin], [radius, -thin], [radius, thin], [thin, thin], [thin, radius]];
  return turned([...corner, ...corner.map(([x, y]) => [-x, -y])], degrees);
};
const MARKERS = [
  (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0Z`,
  (r) => polygon(4, r * 1.26, 45), (r) => polygon(3, r * 1.25, -90), (r) => polygon(4, r * 1.2, 0),
  (r) => polygon(3, r * 1.25, 90), (r) => cross(r * 1.15, 0), (r) => cross(r * 1.15, 45),
  (r) => polygon(10, r * 1.35, -90, r * 0.57), (r) => polygon(5, r * 1.12, -90),
  (r) => polygon(6, r * 1.08, 0),
];

/** The outline of a marker; there are ten. */
export function outline(marker, radius) {
  return MARKERS[marker % MARKERS.length](radius);
}

/** Places in the plane, in pixels, of values on logarithmic axes. */
export function scales({ x, y }, { left, right, top, bottom }) {
  const along = (value, { low, high }) => Math.log(value / low) / Math.log(high / low);
  return {
    across: (value, axis = x) => left + along(value, axis) * (right - left),
    up: (value, axis = y) => bottom - along(value, axis) * (bottom - top),
  };
}

export class RooflinePanel {
  /**
   * @param data {points, charts, titles, palettes}, see taupy/roofline/tab.py.
   * @param isDark says which palette is to be used.
   * @param keep called with the state to keep in the address: {chart, level, equal}.
   */
  constructor(data, { panel, tip, chart, level, equal, isDark, keep }) {
    Object.assign(this, { data, panel, tip, isDark, keep });
    const part = (name) => panel.querySelector(`[data-part=${name}]`);
    const names = ["kind", "levels", "level", "equal", "title", "plane", "legend", "warnings", "notes"];
    this.parts = Object.fromEntries(names.map((name) => [name, part(name)]));
    const [first] = data.charts;
    this.fill(this.parts.kind, new Set(data.charts.map(({ kind }) => kind)), data.titles);
    this.parts.kind.value = data.titles[chart] ? chart : first.kind;
    this.fillLevels(level ?? first.level);
    this.parts.equal.checked = equal ? equal === "1" : first.equal_decades;
    this.parts.kind.addEventListener("change", () => { this.fillLevels(this.chart.level); this.changed(); });
    for (const name of ["level", "equal"]) {
      this.parts[name].addEventListener("change", () => this.changed());
    }
    for (const event of ["resize", "beforeprint"]) window.addEventListener(event, () => this.draw());
  }

  fill(select, values, titles = {}) {
    select.replaceChildren(...[...values].map((value) => element("option", titles[value] ?? value, { value })));
  }

  /** The levels of the chosen kind of chart. */
  fillLevels(wanted) {
    const { kind, level, levels } = this.parts;
    const measured = this.data.charts.filter((chart) => chart.kind === kind.value && chart.level)
      .map((chart) => chart.level);
    this.fill(level, measured);
    if (measured.includes(wanted)) level.value = wanted;
    levels.hidden = measured.length < 2;
  }

  changed() {
    const { kind, level, equal } = this.parts;
    this.keep({ chart: kind.value, level: level.value, equal: equal.checked ? "1" : "0" });
    this.draw();
  }

  get chart() {
    const { kind, level } = this.parts;
    const charts = this.data.charts.filter((chart) => chart.kind === kind.value);
    return charts.find((chart) => chart.level === level.value) ?? charts[0];
  }

  color(name) {
    const palette = this.data.palettes[this.isDark() ? "dark" : "light"];
    return OF_PAGE[name] ? `var(${OF_PAGE[name]})` : palette[name];
  }

  draw() {
    const { chart } = this;
    const { plane, title, legend, warnings, notes, equal } = this.parts;
    const box = chart.planes[equal.checked ? "equal" : "usual"];
    const below = box.bottom + 52;
    plane.setAttribute("viewBox", `0 0 ${WIDTH} ${below + STRIP * chart.strips.length}`);
    plane.setAttribute("aria-label", chart.title);
    title.textContent = `${chart.title}: ${chart.subtitle}`;
    const place = scales(chart, box);
    const clip = svg("clipPath", { id: "roofline-plane" });
    clip.append(this.frame(box, {}));
    const inside = svg("g", { "clip-path": "url(#roofline-plane)" });
    inside.append(
      ...this.boxes(chart, box, place), ...this.lines(chart, place), ...this.labels(box),
      ...this.symbols(chart, place),
    );
    plane.replaceChildren(
      clip, ...this.axes(chart, box, place), this.frame(box, { class: "frame" }), inside,
      ...this.strips(chart, box, below),
    );
    legend.replaceChildren(...chart.legend.map((entry) => this.entry(entry)));
    warnings.replaceChildren(...chart.warnings.map((text) => element("li", text)));
    notes.replaceChildren(...chart.notes.map((text) => element("li", text)));
  }

  frame({ left, right, top, bottom }, more) {
    return svg("rect", { x: left, y: top, width: right - left, height: bottom - top, ...more });
  }

  *axes(chart, box, { across, up }) {
    const { left, right, top, bottom } = box;
    const [middle, half] = [(left + right) / 2, (top + bottom) / 2];
    const name = ({ label, unit }) => `${label} [${unit}]`;
    for (const [value, text] of chart.x.ticks) {
      const x = across(value);
      yield svg("line", { x1: x, x2: x, y1: top, y2: bottom, class: "grid" });
      yield svg("text", { x, y: bottom + 16, class: "middle" }, text);
    }
    for (const [value, text] of chart.y.ticks) {
      const y = up(value);
      yield svg("line", { x1: left, x2: right, y1: y, y2: y, class: "grid" });
      yield svg("text", { x: left - 6, y: y + 4, class: "end" }, text);
    }
    yield svg("text", { x: middle, y: bottom + 38, class: "middle" }, name(chart.x));
    yield svg("text", { transform: `translate(16 ${half}) rotate(-90)`, class: "middle" }, name(chart.y));
    for (const [value, text] of chart.x2?.ticks ?? []) {
      const x = across(value, chart.x2);
      yield svg("text", { x, y: top - 8, class: "middle faint" }, text);
    }
    if (chart.x2) yield svg("text", { x: middle, y: 14, class: "middle faint" }, name(chart.x2));
    for (const [value, text] of chart.y2?.ticks ?? []) {
      yield svg("text", { x: right + 7, y: up(value, chart.y2) + 4, class: "faint" }, text);
    }
    if (chart.y2) {
      const turn = `translate(${right + 70} ${half}) rotate(-90)`;
      yield svg("text", { transform: turn, class: "middle faint" }, name(chart.y2));
    }
  }

  /** What is launch-bound: all that is within. */
  *boxes(chart, { left, bottom }, { across, up }) {
    for (const { x, y, color } of chart.boxes) {
      const [wide, high] = [Math.max(0, across(x) - left), Math.max(0, bottom - up(y))];
      const [fill, stroke] = [this.color(color), this.color(color)];
      yield svg("rect", { x: left, y: up(y), width: wide, height: high, fill, stroke, class: "overhead" });
    }
  }

  *lines(chart, { across, up }) {
    for (const { role, points, color, style, label, reference } of chart.lines) {
      const line = svg("polyline", {
        points: points.map(([x, y]) => `${across(x)},${up(y)}`).join(" "),
        fill: "none", stroke: this.color(color), "stroke-width": WIDTHS[role] ?? 1.9,
        "stroke-opacity": FAINT.includes(role) ? 0.55 : 1, "stroke-dasharray": DASHES[style],
      });
      if (ROOFS.includes(role)) line.append(svg("title", {}, [label, reference].filter(Boolean).join(" - ")));
      yield line;
    }
  }

  *symbols(chart, { across, up }) {
    const isNamed = ({ color }) => color !== "other";
    const order = [...chart.symbols].sort((a, b) => isNamed(a) - isNamed(b) || b.area - a.area);
    for (const { point, x, y, area, color, marker, filled, level } of order) {
      const [own, ground] = [this.color(color), this.color("ground")];
      const symbol = svg("path", {
        d: outline(marker, Math.sqrt(10 + area * 160)),
        transform: `translate(${across(x)} ${up(y)})`, class: "symbol", tabindex: 0,
        fill: filled ? own : ground, "fill-opacity": filled ? 0.9 : 0.01,
        stroke: filled ? ground : own, "stroke-width": filled ? 1 : 1.8,
      });
      this.tells(symbol, point, level);
      yield symbol;
    }
  }

  /** Points without a place in the plane; lengths are shares of the time. */
  *strips(chart, { left, right }, below) {
    for (const [number, { label, marks }] of chart.strips.entries()) {
      const [y, wide, height] = [below + STRIP * number, right - left, 11];
      yield svg("rect", { x: left, y, width: wide, height, class: "frame" });
      for (const { point, low, high, color } of marks) {
        const [x, width] = [left + low * wide, (high - low) * wide];
        const mark = svg("rect", { x, y, width, height, fill: this.color(color), class: "symbol" });
        this.tells(mark, point, "");
        yield mark;
      }
      yield svg("text", { x: left, y: y + 24, class: "faint" }, label);
    }
  }

  labels({ left, right, top, bottom, labels }) {
    return labels.map(({ text, color, x, y, anchor, angle, size }) => svg("text", {
      transform: `translate(${left + x * (right - left)} ${bottom - y * (bottom - top)}) rotate(${-angle})`,
      dy: ".35em", "font-size": size, fill: this.color(color), "text-anchor": anchor, class: "label",
    }, text));
  }

  entry({ label, color, marker, filled }) {
    const item = element("li");
    const icon = svg("svg", { viewBox: "-9 -9 18 18", width: 16, height: 16 });
    const own = this.color(color);
    icon.append(svg("path", { d: outline(marker, 6), fill: filled ? own : "none", stroke: own, "stroke-width": 1.6 }));
    item.append(icon, element("span", label));
    return item;
  }

  /** Show the numbers of a point where the pointer, or the focus of the keys, is. */
  tells(node, point, level) {
    const [name, ...numbers] = this.data.points[point];
    const lines = [level ? `${name}, ${level}` : name, ...numbers];
    node.setAttribute("aria-label", lines.join("; "));
    node.addEventListener("mousemove", (event) => showTip(this.tip, lines, event.clientX, event.clientY));
    node.addEventListener("focus", () => {
      const { right, bottom } = node.getBoundingClientRect();
      showTip(this.tip, lines, right, bottom);
    });
    for (const event of ["mouseleave", "blur"]) {
      node.addEventListener(event, () => { this.tip.hidden = true; });
    }
  }
}
