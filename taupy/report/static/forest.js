// The call paths of all threads, in depth-first order, as columns (see taupy/report/forest.py).

import { columns } from "./columns.js";

export class Forest {
  /**
   * @param bytes the columns, one after another.
   * @param layout {rows, widths: bytes per number of each column, names, threads, compares, judged};
   *   a thread has {name, kind, node, start}, a name has {name, place, kind, groups}.
   */
  constructor(bytes, layout) {
    const { rows, widths } = layout;
    const read = columns(bytes, widths, rows);
    this.rows = rows;
    this.names = layout.names;
    this.threads = layout.threads;
    this.compares = layout.compares; // the threads belong to two trials: see change.js
    this.timer = Int32Array.from(read.timer);
    this.judged = layout.judged ?? false; // there are verdicts; rows without one were not tested
    this.verdict = read.verdict; // 0: none, 1: within noise, 2: a change
    this.calls = read.calls; // calls + 1; 0: not counted
    this.own = read.own;
    this.#link(read.depth);
    this.#addUp(read.rest);
    this.#findThreads();
  }

  #link(depth) {
    this.parent = new Int32Array(this.rows);
    this.end = new Int32Array(this.rows); // the first row after a row's descendants
    const open = [];
    for (let row = 0; row < this.rows; row++) {
      while (open.length > depth[row]) this.end[open.pop()] = row;
      this.parent[row] = open.length ? open.at(-1) : -1;
      open.push(row);
    }
    for (const row of open) this.end[row] = this.rows;
  }

  #addUp(rest) {
    this.time = new Float64Array(this.rows);
    for (let row = this.rows - 1; row >= 0; row--) {
      this.time[row] += this.own[row] + rest[row];
      if (this.parent[row] >= 0) this.time[this.parent[row]] += this.time[row];
    }
  }

  #findThreads() {
    this.thread = new Int32Array(this.rows);
    this.threads.forEach((thread, at) => {
      const next = this.threads[at + 1];
      this.thread.fill(at, thread.start, next ? next.start : this.rows);
    });
  }

  /** The rows without a caller. */
  roots() {
    const roots = [];
    for (let row = 0; row < this.rows; row = this.end[row]) roots.push(row);
    return roots;
  }
}
