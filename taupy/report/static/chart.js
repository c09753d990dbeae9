// Quantities over time as lines, with a legend.
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

/** The largest value of each coordinate; at least a little, to divide by. */
export function extent(series) {
  let [right, top] = [1e-9, 1e-9];
  for (const { points } of series) {
    for (const [x, y] of points) {
      right = Math.max(right, x);
      top = Math.max(top, y);
    }
  }
  return [right, top];
}

/** Points of a polyline, "x,y x,y", with the origin at the lower left. */
export function polyline(points, right, top) {
  const wide = WIDTH - LEFT - 10;
  const high = HEIGHT - BOTTOM - 10;
  return points
    .map(([x, y]) => [LEFT + (x / right) * wide, HEIGHT - BOTTOM - (y / top) * high])
    .map((point) => point.map((value) => value.toFixed(1)).join(","))
    .join(" ");
}

/** @param series [{name, kind, points: [[seconds, value], ...]}], of one kind. */
export function lineChart(series) {
  const [right, top] = extent(series);
  const { kind } = series[0];
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "lines", role: "img" });
  chart.append(svg("title", {}, `${series.map(({ name }) => name).join(", ")} over time`));
  for (const part of [0, 0.5, 1]) {
    const y = HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - 10);
    chart.append(svg("line", { x1: LEFT, x2: WIDTH - 10, y1: y, y2: y, class: "grid" }));
    chart.append(svg("text", { x: LEFT - 6, y: y + 4, class: "end" }, shown(part * top, kind)));
    const x = LEFT + part * (WIDTH - LEFT - 10);
    const time = shown(part * right * 1e9, "time_ns");
    chart.append(svg("text", { x, y: HEIGHT - 6, class: part ? "end" : "" }, time));
  }
  series.forEach(({ name, points }, at) => {
    const line = svg("polyline", { points: polyline(points, right, top), stroke: COLORS[at % 8] });
    line.append(svg("title", {}, name));
    chart.append(line);
    chart.append(svg("text", { x: LEFT + 8, y: 22 + 14 * at, fill: COLORS[at % 8] }, name));
  });
  return chart;
}
