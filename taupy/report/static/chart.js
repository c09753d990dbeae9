// Quantities over time or steps as lines, with a legend.
import { shown } from "./numbers.js";
import { element } from "./table.js";

const [HEIGHT, LOW, LEFT, BOTTOM] = [220, 130, 76, 24];
const NARROW = 900; // a narrower chart is lower, too
const SIZE = [900, HEIGHT];
const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** The largest place, the smallest value (at most 0), and the largest value. */
export function extent(series) {
  let [right, bottom, top] = [1e-9, 0, 1e-9];
  for (const { points } of series) {
    for (const [x, y] of points) {
      right = Math.max(right, x);
      bottom = Math.min(bottom, y);
      top = Math.max(top, y);
    }
  }
  return [right, bottom, top];
}

/** The points of a polyline, "x,y x,y", for values from 0 to right and bottom to top. */
export function polyline(points, [right, bottom, top], [width, height] = SIZE) {
  const wide = width - LEFT - 10;
  const high = height - BOTTOM - 10;
  return points
    .map(([x, y]) => [(x / right) * wide, ((y - bottom) / (top - bottom)) * high])
    .map(([x, y]) => [LEFT + x, height - BOTTOM - y])
    .map((point) => point.map((value) => value.toFixed(1)).join(","))
    .join(" ");
}

/** The index of the point nearest to a place. */
export function nearest(points, place) {
  return points.reduce(
    (best, [x], at) => (Math.abs(x - place) < Math.abs(points[best][0] - place) ? at : best), 0,
  );
}

function placeText(place, over) {
  if (over === "step") return `step ${Math.round(place)}`;
  return place ? shown(place * 1e9, "time_ns") : "0 s";
}

/** @param series [{name, kind, over, points: [[place, value], ...]}], of one kind. */
export function lineChart(series, { named = true } = {}) {
  const { over } = series[0];
  const chart = svg("svg", { class: "lines", role: "application", tabindex: 0 });
  chart.append(svg("title", {}, `${series.map(({ name }) => name).join(", ")} over ${over}s`));
  const figure = document.createElement("figure");
  const cursor = new Cursor(chart, series);
  if (named) figure.append(namesOf(series));
  figure.append(chart, cursor.words);
  const draw = () => {
    const width = Math.max(chart.clientWidth || SIZE[0], 200);
    if (cursor.size?.[0] === width) return;
    cursor.size = [width, width < NARROW ? LOW : HEIGHT];
    paint(chart, series, cursor.size);
  };
  for (const event of ["resize", "beforeprint"]) window.addEventListener(event, draw);
  draw();
  return figure;
}

/** The names of lines with their colours, above the chart: on it they would lie on the lines. */
function namesOf(series) {
  const list = element("div", undefined, { class: "legend" });
  series.forEach(({ name }, at) => {
    const item = element("span");
    item.append(element("i", undefined, { style: `background: var(--line${at % 8})` }), name);
    list.append(item);
  });
  return list;
}

function paint(chart, series, size) {
  const bounds = extent(series);
  const [right, bottom, top] = bounds;
  const [width, height] = size;
  const { kind, over } = series[0];
  chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.setAttribute("height", height);
  chart.replaceChildren(chart.firstElementChild); // its title
  for (const part of [0, 0.5, 1]) {
    const y = height - BOTTOM - part * (height - BOTTOM - 10);
    chart.append(svg("line", { x1: LEFT, x2: width - 10, y1: y, y2: y, class: "grid" }));
    const value = shown(bottom + part * (top - bottom), kind);
    chart.append(svg("text", { x: LEFT - 6, y: y + 4, class: "end" }, value));
    const x = LEFT + part * (width - LEFT - 10);
    const place = placeText(part * right, over);
    chart.append(svg("text", { x, y: height - 6, class: part ? "end" : "" }, place));
  }
  series.forEach(({ name, points }, at) => {
    const line = svg("polyline", { points: polyline(points, bounds, size), style: `stroke: var(--line${at % 8})` });
    line.append(svg("title", {}, name));
    chart.append(line);
  });
}

/** A line below the chart with the values at the pointer, or at the place chosen by arrow keys. */
class Cursor {
  constructor(chart, series) {
    Object.assign(this, { chart, series, at: -1, size: null });
    this.words = document.createElement("figcaption");
    this.words.setAttribute("aria-live", "polite");
    this.words.textContent = "Point at the chart, or use its arrows, for values.";
    this.line = svg("line", { class: "cursor" });
    const { points } = series[0];
    chart.addEventListener("mousemove", (event) => {
      const [right] = extent(series);
      const x = (event.offsetX / chart.clientWidth) * this.size[0];
      this.show(nearest(points, ((x - LEFT) / (this.size[0] - LEFT - 10)) * right));
    });
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      this.show(this.at + step);
      event.preventDefault();
    });
  }

  show(next) {
    const { series, size: [width, height] } = this;
    const { kind, over } = series[0];
    this.at = Math.max(0, Math.min(next, series[0].points.length - 1));
    const [place] = series[0].points[this.at];
    const values = series.map(({ name, points }) =>
      `${name}: ${shown(points[nearest(points, place)][1], kind)}`);
    const x = LEFT + (place / extent(series)[0]) * (width - LEFT - 10);
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 10, y2: height - BOTTOM })) this.line.setAttribute(name, value);
    this.chart.append(this.line);
    this.words.textContent = `${placeText(place, over)}: ${values.join(", ")}`;
  }
}
