// The tab of layers: names and classes first, and the rate of what a layer computes.
import { duration } from "./numbers.js";
import { element } from "./table.js";

const FIRST = ["layer", "layer_type"];

/** What is outside of layers is in brackets; `(other Linear)` is a layer all the same. */
function isLayer(name) {
  return !name.startsWith("(") || name.startsWith("(other ");
}

/** The table of layers alone, with a rate, and a line about what is outside of them. */
export function layersOf(data) {
  const names = data.columns.map(({ name }) => name);
  const [layer, own, flop, backward] = ["layer", "own_ns", "flop", "backward_flop"].map((name) => names.indexOf(name));
  const order = [...FIRST.map((name) => names.indexOf(name)).filter((at) => at >= 0)];
  names.forEach((_, at) => { if (!order.includes(at)) order.push(at); });
  const rows = data.rows.filter((row) => isLayer(row[layer].trim()));
  const outside = data.rows.filter((row) => !isLayer(row[layer].trim()))
    .map((row) => `${row[layer].trim().slice(1, -1)} ${duration(row[own] ?? 0)}`);
  const rate = (row) => (row[flop] && row[own] ? Number((((row[flop] ?? 0) + (row[backward] ?? 0)) / row[own]).toPrecision(3)) : null);
  const after = order.indexOf(own) + 1;
  const withRate = (cells, cell) => [...cells.slice(0, after), cell, ...cells.slice(after)];
  return {
    outside: outside.length ? `Outside of layers: ${outside.join(", ")}.` : "",
    table: {
      ...data,
      columns: withRate(order.map((at) => data.columns[at]), { name: "gflop", heading: "Gflop/s", kind: "float", right: true }),
      rows: rows.map((row) => withRate(order.map((at) => row[at]), rate(row))),
    },
  };
}

/** The panel of layers. @param sorted makes a table's element. */
export function layersPanel(section, sorted) {
  const panel = element("div");
  for (const part of section.parts) {
    for (const data of part.tables) {
      const { outside, table } = layersOf(data);
      if (outside) panel.append(element("p", outside, { class: "soft" }));
      panel.append(sorted(table));
    }
  }
  return panel;
}
