// The tab of the flame graph: its controls, and the tree that they ask for.
import { Change } from "./change.js";
import { Flame, pathTo } from "./flame.js";
import { foldedRows, grouped, hottest, Inverted, mergedLayers, outermostWhere, TopDown } from "./flame_tree.js";
import { bar, legend } from "./kinds.js";
import { count, shareOf, timeOf } from "./numbers.js";
import { element } from "./table.js";

const GROUPINGS = {
  main: "main thread",
  all: "all threads together",
  thread: "by thread",
  process: "by process",
  layer: "by layer",
};

export class FlamePanel {
  /** @param settings those of the address; `remember` is called with changes of them. */
  constructor(forest, { panel, tip, settings, remember }) {
    Object.assign(this, { panel, settings, remember });
    this.forest = forest;
    this.folded = null;
    const part = (name) => this.panel.querySelector(`[data-part=${name}]`);
    this.parts = Object.fromEntries(
      ["group", "inverted", "folded", "merged", "merging", "find", "share", "callers", "reset", "path", "canvas", "legend", "hottest"]
        .map((name) => [name, part(name)]),
    );
    const change = forest.compares ? new Change(forest) : undefined;
    this.flame = new Flame(this.parts.canvas, tip, (node) => this.zoomed(node), change);
    part("colors").hidden = !forest.compares;
    const kinds = new Set(forest.names.map((name) => name.color));
    if (!forest.compares) part("legend").replaceWith(legend(kinds));
    this.parts.merging.hidden = !forest.names.some((name) => /\b(LAYER|AUTOGRAD)\b/.test(name.groups));
    this.fillGroupings();
    this.restore();
    this.listen();
    window.addEventListener("resize", () => this.flame.draw());
    window.addEventListener("beforeprint", () => this.flame.drawAll());
  }

  fillGroupings() {
    const layered = this.forest.names.some((name) => /\bLAYER\b/.test(name.groups));
    for (const [value, text] of Object.entries(GROUPINGS)) {
      if (value === "layer" && !layered) continue;
      if (value === "main" && !this.main().length) continue;
      if (value === "thread" && this.forest.threads.length < 2) continue;
      if (value === "process" && new Set(this.forest.threads.map(({ node }) => node)).size < 2) continue;
      this.parts.group.append(element("option", text, { value }));
    }
  }

  restore() {
    const { group, inverted, folded, merged, find } = this.parts;
    const { settings } = this;
    const has = (value) => [...group.options].some((option) => option.value === value);
    group.value = has(settings.group) ? settings.group : this.usual();
    inverted.checked = settings.inverted === "1";
    folded.checked = settings.folded ? settings.folded === "1" : !this.forest.compares;
    merged.checked = settings.merged !== "0";
    find.value = settings.find ?? "";
    this.callersOf = settings.callers ?? "";
  }

  /** The main thread, unless that mostly waits for others: then thread by thread. */
  usual() {
    const { forest, parts: { group } } = this;
    this.mostlyWaits ??= waitingShare(forest) >= MOSTLY;
    const others = [...group.options].find(({ value }) => value === "thread");
    return (this.mostlyWaits && others ? others : group.options[0]).value;
  }

  listen() {
    const { group, inverted, folded, merged, find, callers, reset } = this.parts;
    for (const control of [group, inverted, folded, merged]) {
      control.addEventListener("change", () => this.rebuild(""));
    }
    find.addEventListener("input", () => { this.remember({ find: find.value }); this.find(); });
    callers.addEventListener("click", () => {
      this.callersOf = this.flame.selected.key < 0 ? "" : this.flame.selected.name;
      this.rebuild("");
    });
    reset.addEventListener("click", () => { this.callersOf = ""; this.rebuild(""); });
  }

  /** Build the tree that the controls ask for, and zoom to a path of names. */
  rebuild(zoom = this.settings.zoom ?? "") {
    const { group, inverted, folded, merged } = this.parts;
    if (folded.checked) this.folded ??= foldedRows(this.forest);
    const rowsFolded = folded.checked ? this.folded : null;
    this.merged ??= mergedLayers(this.forest);
    this.remember({
      group: group.value === this.usual() ? "" : group.value,
      inverted: inverted.checked ? "1" : "",
      folded: folded.checked !== !this.forest.compares ? String(Number(folded.checked)) : "",
      merged: merged.checked ? "" : "0",
      callers: this.callersOf,
    });
    const [tree, root] = this.build(rowsFolded, inverted.checked);
    this.parts.hottest.hidden = tree instanceof Inverted || this.forest.compares;
    this.flame.show(tree, root);
    this.find();
    this.flame.zoom(nodeAt(tree, root, zoom));
  }

  build(folded, inverted) {
    const { forest } = this;
    const merged = this.parts.merged.checked ? this.merged : null;
    if (this.callersOf) {
      const tree = new Inverted(forest, folded, forest.time, merged);
      const rows = outermostWhere(forest, (name) => name.name === this.callersOf);
      return [tree, tree.of(rows, `callers of ${this.callersOf}`)];
    }
    const tree = inverted ? new Inverted(forest, folded, forest.own, merged) : new TopDown(forest, folded, merged);
    const rows = inverted
      ? Array.from({ length: forest.rows }, (_, row) => row)
        .filter((row) => forest.own[row] > 0 && this.isShown(row))
      : forest.roots().filter((row) => this.isShown(row));
    return [tree, this.grouped(tree, rows)];
  }

  grouped(tree, rows) {
    const { forest } = this;
    const by = this.parts.group.value;
    if (by === "layer") {
      const layers = outermostWhere(forest, (name) => /\bLAYER\b/.test(name.groups));
      return tree.of(layers, "all layers");
    }
    if (by === "main") return only(tree.of(rows, "main thread"));
    if (by === "all") return tree.of(rows, "all threads");
    const label = by === "process" ? (thread) => `process ${thread.node}` : (thread) => thread.name;
    const groups = grouped(rows, (row) => label(forest.threads[forest.thread[row]]));
    const nodes = [...groups].map(([name, own]) => tree.of(own, name));
    return tree.root(by === "process" ? "all processes" : "all threads",
      nodes.sort((a, b) => b.time - a.time));
  }

  /** Whether a row belongs to the threads that are asked for. */
  isShown(row) {
    return this.parts.group.value !== "main" || this.forest.threads[this.forest.thread[row]].isMain;
  }

  main() {
    return this.forest.threads.filter(({ isMain }) => isMain);
  }

  find() {
    const text = this.parts.find.value;
    this.flame.find(text);
    const words = text.trim().toLowerCase();
    if (!words) { this.parts.share.textContent = ""; return; }
    const rows = outermostWhere(this.forest,
      (name) => `${name.name} ${name.place}`.toLowerCase().includes(words)).filter((row) => this.isShown(row));
    const time = rows.reduce((total, row) => total + this.forest.time[row], 0);
    const whole = this.forest.roots().filter((row) => this.isShown(row)).reduce((total, row) => total + this.forest.time[row], 0);
    this.parts.share.textContent = `${timeOf(time)} in these and what they call, ${shareOf(time, whole)}`;
  }

  zoomed(node) {
    const path = pathTo(node);
    this.remember({ zoom: path.slice(1).map((each) => each.name).join("\u001f") });
    this.parts.path.replaceChildren(...path.map((step) => {
      const button = element("button", step.name);
      button.addEventListener("click", () => this.flame.zoom(step));
      return button;
    }));
    clearTimeout(this.ranking);
    if (!this.parts.hottest.hidden) this.ranking = setTimeout(() => this.rank(node), AFTER);
  }

  /** The list of the routines with the most own time in what is shown. */
  rank(node) {
    const routines = hottest(this.flame.tree, node).filter(({ own }) => own >= LEAST * node.time).slice(0, MOST);
    const largest = Math.max(...routines.map(({ own }) => own), 1);
    const list = element("div", undefined, { class: "ranking" });
    for (const each of routines) {
      const row = element("button", undefined, { title: "find it in the graph" });
      const where = element("small", [each.place, each.calls > 0 && `${count(each.calls)} call${each.calls === 1 ? "" : "s"}`]
        .filter(Boolean).join(" · "));
      row.append(element("b", timeOf(each.own), { class: "num" }), element("span", shareOf(each.own, node.time), { class: "num soft" }),
        bar({ [each.color]: each.own }, largest), element("span", each.name), where);
      row.addEventListener("click", () => {
        this.parts.find.value = each.name;
        this.parts.find.dispatchEvent(new Event("input"));
      });
      list.append(row);
    }
    const title = element("h2", "Most own time");
    title.append(element("small", `in ${node.key < 0 ? "all that is shown" : node.name}${this.parts.folded.checked ? "; what is folded counts for its caller" : ""}`));
    this.parts.hottest.replaceChildren(title, list);
  }
}

const MOSTLY = 0.5;
const MOST = 12; // routines of the list
const LEAST = 0.001; // share of what is shown
const AFTER = 50; // ms: the graph is drawn first

/** The share of the main threads' time in outermost calls that wait. */
function waitingShare(forest) {
  const waits = outermostWhere(forest, ({ color }) => color === "wait");
  const mine = (rows) => rows.filter((row) => forest.threads[forest.thread[row]].isMain)
    .reduce((total, row) => total + forest.time[row], 0);
  return mine(waits) / (mine(forest.roots()) || 1);
}

/** The only child of a root that adds nothing to it, or the root. */
function only(root) {
  if (root.children.length !== 1) return root;
  root.children[0].parent = null;
  return root.children[0];
}

/** The node at a path of names; if there is none, the deepest node on it. */
function nodeAt(tree, root, zoom) {
  let node = root;
  for (const name of zoom.split("\u001f").filter(Boolean)) {
    const next = tree.children(node).find((child) => child.name === name);
    if (!next) break;
    node = next;
  }
  return node;
}
