// How much longer a node takes in the second of two trials, as colors and words.
import { percent, timeOf } from "./numbers.js";

const CHANGED = 2;

export class Change {
  /** @param forest has threads with a `side`, 0 or 1, and rows and names with a `verdict`. */
  constructor(forest) {
    this.forest = forest;
  }

  /** The node's times in the first and in the second trial. */
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

  /**
   * The comparison's verdict on a node: 0 none, 1 within noise, 2 a change. In a tree from the root
   * down, it applies to inclusive times of call paths; in an inverted one, to routines' own times.
   */
  verdict(node) {
    if (node.key < 0) return 0;
    if (!node.values) return largest(node.rows, this.forest.verdict);
    const own = node.parent?.key < 0 && node.values === this.forest.own;
    return own ? this.forest.names[node.key].verdict ?? 0 : 0;
  }

  /** -1 to 1, where a change by half has full color; null unless it is known to have changed. */
  of(node) {
    const [before, after] = this.times(node);
    if (before && after && this.forest.judged && this.verdict(node) !== CHANGED) return null;
    const larger = Math.max(before, after);
    return larger > 0 ? (2 * (after - before)) / larger : null;
  }

  text(node) {
    const [before, after] = this.times(node);
    if (before === 0) return `${timeOf(after)} in B, not in A`;
    if (after === 0) return `${timeOf(before)} in A, not in B`;
    const change = `${percent((100 * (after - before)) / before)} %`;
    return `${timeOf(before)} → ${timeOf(after)}, ${change}${this.remark(node)}`;
  }

  remark(node) {
    if (!this.forest.judged || node.key < 0) return "";
    return [" (not tested)", " (within noise)", ""][this.verdict(node)];
  }
}

function largest(rows, values) {
  return rows.reduce((most, row) => Math.max(most, values[row]), 0);
}
