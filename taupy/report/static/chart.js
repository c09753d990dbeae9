// Quantities over time or steps as lines, with a legend.
import { shown } from "./numbers.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [900, 220, 90, 24];
const SVG = "http://www.w3.org/2000/svg";
const COLORS = ["#0b57a4", "#b54708", "#2e7d32", "#7b3fa0", "#a8326e", "#00737a", "#6d6d00", "#555"];

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
export function polyline(points, [right, bottom, top]) {
  const wide = WIDTH - LEFT - 10;
  const high = HEIGHT - BOTTOM - 10;
  return points
    .map(([x, y]) => [(x / right) * wide, ((y - bottom) / (top - bottom)) * high])
    .map(([x, y]) => [LEFT + x, HEIGHT - BOTTOM - y])
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
  return over === "step" ? `step ${Math.round(place)}` : shown(place * 1e9, "time_ns");
}

/** A line below the chart with the values at the pointer, or at the place chosen by arrow keys. */
function cursor(chart, series, right) {
  const { kind, over } = series[0];
  const words = document.createElement("figcaption");
  words.setAttribute("aria-live", "polite");
  words.textContent = "Point at the chart, or use its arrows, for values.";
  const line = svg("line", { y1: 10, y2: HEIGHT - BOTTOM, class: "cursor" });
  const wide = WIDTH - LEFT - 10;
  let at = -1;
  const show = (next) => {
    at = Math.max(0, Math.min(next, series[0].points.length - 1));
    const [place] = series[0].points[at];
    const values = series.map(({ name, points }) =>
      `${name}: ${shown(points[nearest(points, place)][1], kind)}`);
    const x = LEFT + (place / right) * wide;
    for (const name of ["x1", "x2"]) line.setAttribute(name, x);
    chart.append(line);
    words.textContent = `${placeText(place, over)}: ${values.join(", ")}`;
  };
  chart.addEventListener("mousemove", (event) => {
    const x = (event.offsetX / chart.clientWidth) * WIDTH;
    show(nearest(series[0].points, ((x - LEFT) / wide) * right));
  });
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    show(at + step);
    event.preventDefault();
  });
  return words;
}

/** @param series [{name, kind, over, points: [[place, value], ...]}], of one kind. */
export function lineChart(series) {
  const bounds = extent(series);
  const [right, bottom, top] = bounds;
  const { kind, over } = series[0];
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "lines", role: "application", tabindex: 0 });
  chart.append(svg("title", {}, `${series.map(({ name }) => name).join(", ")} over ${over}s`));
  for (const part of [0, 0.5, 1]) {
    const y = HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - 10);
    chart.append(svg("line", { x1: LEFT, x2: WIDTH - 10, y1: y, y2: y, class: "grid" }));
    const value = shown(bottom + part * (top - bottom), kind);
    chart.append(svg("text", { x: LEFT - 6, y: y + 4, class: "end" }, value));
    const x = LEFT + part * (WIDTH - LEFT - 10);
    const place = placeText(part * right, over);
    chart.append(svg("text", { x, y: HEIGHT - 6, class: part ? "end" : "" }, place));
  }
  series.forEach(({ name, points }, at) => {
    const line = svg("polyline", { points: polyline(points, bounds), stroke: COLORS[at % 8] });
    line.append(svg("title", {}, name));
    chart.append(line);
    chart.append(svg("text", { x: LEFT + 8, y: 22 + 14 * at, fill: COLORS[at % 8] }, name));
  });
  const figure = document.createElement("figure");
  figure.append(chart, cursor(chart, series, right));
  return figure;
}
