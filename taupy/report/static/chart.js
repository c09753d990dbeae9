// Quantities over time or steps as lines, with a legend.
import { shown } from "./numbers.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [900, 220, 90, 24];
const SVG = "http://www.w3.org/2000/svg";
const COLORS = ["#0b57a4", "#b54708", "#2e7d32", "#7b3fa0", "#a8326e", "#00737a", "#6d6d00", "#555"];

function svg(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/** The largest place, the smallest value (at most 0), and the largest. */
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

/** Points of a polyline, "x,y x,y", of what lies between 0 and right, bottom and top. */
export function polyline(points, [right, bottom, top]) {
  const wide = WIDTH - LEFT - 10;
  const high = HEIGHT - BOTTOM - 10;
  return points
    .map(([x, y]) => [(x / right) * wide, ((y - bottom) / (top - bottom)) * high])
    .map(([x, y]) => [LEFT + x, HEIGHT - BOTTOM - y])
    .map((point) => point.map((value) => value.toFixed(1)).join(","))
    .join(" ");
}

/** @param series [{name, kind, over, points: [[place, value], ...]}], of one kind. */
export function lineChart(series) {
  const bounds = extent(series);
  const [right, bottom, top] = bounds;
  const { kind, over } = series[0];
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "lines", role: "img" });
  chart.append(svg("title", {}, `${series.map(({ name }) => name).join(", ")} over ${over}s`));
  for (const part of [0, 0.5, 1]) {
    const y = HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - 10);
    chart.append(svg("line", { x1: LEFT, x2: WIDTH - 10, y1: y, y2: y, class: "grid" }));
    const value = shown(bottom + part * (top - bottom), kind);
    chart.append(svg("text", { x: LEFT - 6, y: y + 4, class: "end" }, value));
    const x = LEFT + part * (WIDTH - LEFT - 10);
    const place = over === "step" ? `step ${Math.round(part * right)}` : shown(part * right * 1e9, "time_ns");
    chart.append(svg("text", { x, y: HEIGHT - 6, class: part ? "end" : "" }, place));
  }
  series.forEach(({ name, points }, at) => {
    const line = svg("polyline", { points: polyline(points, bounds), stroke: COLORS[at % 8] });
    line.append(svg("title", {}, name));
    chart.append(line);
    chart.append(svg("text", { x: LEFT + 8, y: 22 + 14 * at, fill: COLORS[at % 8] }, name));
  });
  return chart;
}
