// Ranks and steps as a map of colours (see taupy/report/heat.py).
import { columns } from "./columns.js";

export class Heat {
  /** @param layout {ranks, first, unit, widths}: the rows' ranks, the columns' first steps. */
  constructor(bytes, layout) {
    this.ranks = layout.ranks;
    this.first = layout.first;
    this.unit = layout.unit;
    this.wide = layout.first.length - 1;
    this.cells = columns(bytes, layout.widths, this.ranks.length * this.wide);
    this.scales = Object.fromEntries(
      Object.entries(this.cells).map(([name, values]) => [name, scale(values, name)]),
    );
  }

  /** In nanoseconds; null if the rank did no such step. */
  value(name, row, column) {
    const value = this.cells[name][row * this.wide + column];
    return value < 0 ? null : value * this.unit;
  }

  /** From 0 to 1 on the scale of colours; null if nothing is known. */
  shade(name, row, column) {
    const value = this.cells[name][row * this.wide + column];
    if (value < 0) return null;
    const [low, high] = this.scales[name];
    return Math.min(Math.max((value - low) / (high - low || 1), 0), 1);
  }

  /** The limits of the scale of colours, in nanoseconds. */
  ends(name) {
    return this.scales[name].map((value) => value * this.unit);
  }

  /** "step 7" or "steps 8 to 15". */
  steps(column) {
    const [first, last] = [this.first[column], this.first[column + 1] - 1];
    return first === last ? `step ${first}` : `steps ${first} to ${last}`;
  }
}

/** The longest 1 % have the last colour, so that a few long steps leave the others distinct. */
function scale(values, name) {
  const known = Float64Array.from(values.filter((value) => value >= 0)).sort();
  if (!known.length) return [0, 1];
  const high = known[Math.floor((known.length - 1) * 0.99)];
  return [name === "wait" ? 0 : known[0], Math.max(high, name === "wait" ? 1 : known[0] + 1)];
}

/** The ranks or steps to label, at round distances, as far as there is space. */
export function labelled(count, room) {
  const least = Math.max(Math.ceil(count / Math.max(room, 1)), 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const distance = [1, 2, 5, 10].map((part) => part * power).find((each) => each >= least);
  return Array.from({ length: Math.ceil(count / distance) }, (_, at) => at * distance);
}
