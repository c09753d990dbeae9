// How much longer a node is in the second of two trials, for colors and words.
import { duration, percent } from "./numbers.js";

export class Change {
  /** @param forest has threads with a `side`, 0 or 1, and names with `noise`. */
  constructor(forest) {
    this.forest = forest;
  }

  /** Time in the first and in the second trial. */
  times(node) {
    const { thread, threads } = this.forest;
    node.times ??= this.pairs(node).reduce((times, [row, time]) => {
      times[threads[thread[row]].side] += time;
      return times;
    }, [0, 0]);
    return node.times;
  }

  pairs(node) {
    if (node.rows.length === 0) return node.children.flatMap((child) => this.pairs(child));
    const { time } = this.forest;
    return node.values // those of an inverted tree
      ? node.rows.map(([row]) => [row, node.values[row]])
      : node.rows.map((row) => [row, time[row]]);
  }

  /** -1 to 1: a change by the half is full color; null for what is within noise. */
  of(node) {
    const [before, after] = this.times(node);
    if (node.key >= 0 && this.forest.names[node.key].noise) return null;
    const larger = Math.max(before, after);
    return larger > 0 ? (2 * (after - before)) / larger : null;
  }

  text(node) {
    const [before, after] = this.times(node);
    const change = before > 0 ? `, ${percent((100 * (after - before)) / before)} %` : ", new";
    const noise = node.key >= 0 && this.forest.names[node.key].noise ? " (within noise)" : "";
    return `${duration(before)} → ${duration(after)}${change}${noise}`;
  }
}
