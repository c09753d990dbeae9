// Call trees for drawing, computed where they are needed. A node stands for all rows of a forest
// with the same names above them (in an inverted tree, below them).

const USER = 0;
const LIBRARY = 1; // other kinds belong to their caller

/** The rows inside a library that also contains their caller. */
export function foldedRows(forest) {
  const folded = new Uint8Array(forest.rows);
  const inLibrary = new Uint8Array(forest.rows);
  for (let row = 0; row < forest.rows; row++) {
    const above = forest.parent[row];
    const caller = above >= 0 ? inLibrary[above] : 0;
    const kind = forest.names[forest.timer[row]].kind;
    inLibrary[row] = kind === USER ? 0 : kind === LIBRARY ? 1 : caller;
    folded[row] = caller && inLibrary[row];
  }
  return folded;
}

/** The rows that wait, with what is folded into them. */
function waitingRows({ rows, names, timer, parent }, folded) {
  const waits = names.map(({ color }) => color === "wait");
  const waiting = new Uint8Array(rows);
  for (let row = 0; row < rows; row++) waiting[row] = waits[timer[row]] || (folded[row] && waiting[parent[row]]) ? 1 : 0;
  return waiting;
}

/** Names of repeated layers as one: the first number of each, and its name. */
export function mergedLayers(forest) {
  const first = new Map();
  const label = new Map();
  const key = Int32Array.from(forest.names, (name, at) => {
    if (!/\b(LAYER|AUTOGRAD)\b/.test(name.groups)) return at;
    const merged = name.name.replace(/\.\d+(?=[.\s]|$)/g, ".*");
    const same = `${merged}\n${name.groups}`;
    if (!first.has(same)) first.set(same, at);
    label.set(first.get(same), merged);
    return first.get(same);
  });
  return { key, label };
}

function sum(rows, values) {
  let total = 0;
  for (const row of rows) total += values[row];
  return total;
}

function sumOfCalls(forest, rows) {
  let total = 0;
  for (const row of rows) {
    if (forest.calls[row] === 0) return null;
    total += forest.calls[row] - 1;
  }
  return total;
}

class Tree {
  /**
   * @param folded one byte per row, 1 if it counts as part of its caller; or null.
   * @param merged what `mergedLayers` returns, or null.
   */
  constructor(forest, folded, merged = null) {
    this.forest = forest;
    this.folded = folded;
    this.merged = merged;
    this.keys = merged?.key ?? null;
  }

  key(row) {
    const timer = this.forest.timer[row];
    return this.keys === null ? timer : this.keys[timer];
  }

  label(key) {
    return this.merged?.label.get(key) ?? this.forest.names[key].name;
  }

  /** Whether a row waits, or is folded into one that does. */
  waits(row) {
    if (this.folded === null) return this.forest.names[this.forest.timer[row]].color === "wait";
    this.waiting ??= waitingRows(this.forest, this.folded);
    return this.waiting[row] === 1;
  }

  isFolded(row) {
    return this.folded !== null && this.folded[row] === 1;
  }

  /** The nodes of groups of rows, the largest first. */
  nodes(groups, parent) {
    const nodes = [...groups].map(([key, rows]) => this.node(key, rows, parent));
    return nodes.sort((a, b) => b.time - a.time || (a.name < b.name ? -1 : 1));
  }

  /** A node's children; computed once. */
  children(node) {
    node.children ??= this.nodes(this.groups(node), node);
    return node.children;
  }

  made(key, rows, parent, sums) {
    const { place, kind, color, groups, lines } = this.forest.names[key];
    const name = this.label(key);
    const { time, own, calls, values } = sums;
    return { key, name, place, kind, color, groups, lines, parent, rows, time, own, calls, values, children: null };
  }

  root(name, children) {
    const time = children.reduce((total, child) => total + child.time, 0);
    const root = {
      key: -1, name, place: "", kind: USER, color: "rest", groups: "", parent: null, rows: [], time, own: 0,
      calls: null, values: undefined, children,
    };
    for (const child of children) child.parent = root;
    return root;
  }
}

/** Callers above callees, from the start of each thread. */
export class TopDown extends Tree {
  node(key, rows, parent) {
    const { time, own } = this.forest;
    const calls = sumOfCalls(this.forest, rows);
    const node = this.made(key, rows, parent, { time: sum(rows, time), own: this.ownTime(rows, own), calls });
    if (this.waitsMostly(node)) node.color = "wait";
    return node;
  }

  /** Whether most of a node's time passes in routines that wait and are folded into it. */
  waitsMostly({ kind, own, time, rows }) {
    if (this.folded === null || kind !== LIBRARY || 2 * own <= time) return false;
    let waited = 0;
    const add = (row) => { if (this.waits(row)) waited += this.forest.own[row]; };
    for (const row of rows) this.eachFolded(row, add);
    return 2 * waited > time;
  }

  /** Own time, including that of folded rows below. */
  ownTime(rows, own) {
    let total = sum(rows, own);
    if (this.folded === null) return total;
    for (const row of rows) this.eachFolded(row, (below) => { total += own[below]; });
    return total;
  }

  eachFolded(row, visit) {
    const { end } = this.forest;
    for (let child = row + 1; child < end[row]; ) {
      if (this.isFolded(child)) visit(child++);
      else child = end[child];
    }
  }

  groups(node) {
    const { end } = this.forest;
    const children = [];
    for (const row of node.rows) {
      for (let child = row + 1; child < end[row]; ) {
        if (this.isFolded(child)) { child++; continue; }
        children.push(child);
        child = end[child];
      }
    }
    return grouped(children, (child) => this.key(child));
  }

  /** One node per name among these rows. */
  of(rows, name) {
    return this.root(name, this.nodes(grouped(rows, (row) => this.key(row)), null));
  }
}

export function grouped(items, key) {
  const groups = new Map();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group) group.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}

/** Routines at the top, their callers below. */
export class Inverted extends Tree {
  /** @param values each row's time: a forest's `own`, or `time` of given rows. */
  constructor(forest, folded, values, merged = null) {
    super(forest, folded, merged);
    this.values = values;
  }

  /** @param rows pairs: the row whose time counts, and its ancestor reached so far. */
  node(key, rows, parent) {
    let time = 0;
    for (const [row] of rows) time += this.values[row];
    const calls = sumOfCalls(this.forest, parent === null ? rows.map(([row]) => row) : []);
    const shown = parent === null ? calls : null;
    return this.made(key, rows, parent, { time, own: null, calls: shown, values: this.values });
  }

  /** The row that represents a row: itself, or the caller that it is folded into. */
  shownRow(row) {
    while (row >= 0 && this.isFolded(row)) row = this.forest.parent[row];
    return row;
  }

  groups(node) {
    const climbed = [];
    for (const [row, at] of node.rows) {
      const above = this.shownRow(this.forest.parent[at]);
      if (above >= 0) climbed.push([row, above]);
    }
    return grouped(climbed, ([, at]) => this.key(at));
  }

  of(rows, name) {
    const pairs = rows.map((row) => [row, this.shownRow(row)]);
    return this.root(name, this.nodes(grouped(pairs, ([, at]) => this.key(at)), null));
  }
}

/**
 * The routines at and below a node with the most own time, those that wait after those that work:
 * {key, name, place, color, own, calls}. What is folded into a caller counts for that.
 */
export function hottest(tree, node) {
  const { forest } = tree;
  const own = new Float64Array(forest.names.length);
  const calls = new Float64Array(forest.names.length);
  const waited = new Float64Array(forest.names.length);
  for (const first of rowsOf(tree, node)) {
    const shown = new Int32Array(forest.end[first] - first); // the row that stands for each
    for (let row = first; row < forest.end[first]; row++) {
      const isFolded = row > first && tree.isFolded(row);
      const at = isFolded ? shown[forest.parent[row] - first] : row;
      shown[row - first] = at;
      own[tree.key(at)] += forest.own[row];
      if (tree.waits(row)) waited[tree.key(at)] += forest.own[row];
      if (!isFolded) calls[tree.key(at)] += forest.calls[row] ? forest.calls[row] - 1 : NaN;
    }
  }
  const found = [];
  own.forEach((ns, key) => {
    if (ns <= 0) return;
    const color = 2 * waited[key] > ns ? "wait" : forest.names[key].color;
    found.push({ ...forest.names[key], name: tree.label(key), key, own: ns, calls: calls[key], color });
  });
  const waits = ({ color }) => Number(color === "wait");
  return found.sort((a, b) => waits(a) - waits(b) || b.own - a.own);
}

/** Those of a node; of one that stands for several threads, those of its children. */
function rowsOf(tree, node) {
  return node.rows.length ? node.rows : tree.children(node).flatMap((child) => rowsOf(tree, child));
}

/** The outermost rows that pass a test. */
export function outermostWhere(forest, test) {
  const passes = forest.names.map(test);
  const rows = [];
  for (let row = 0; row < forest.rows; ) {
    if (passes[forest.timer[row]]) {
      rows.push(row);
      row = forest.end[row];
    } else {
      row++;
    }
  }
  return rows;
}
