// The page of a trial: tabs, their contents, and the address that restores them.
import { read, written } from "./address.js";
import { Change } from "./change.js";
import { lineChart } from "./chart.js";
import { Flame, pathTo } from "./flame.js";
import { foldedRows, grouped, Inverted, outermostWhere, TopDown } from "./flame_tree.js";
import { unpacked } from "./columns.js";
import { Forest } from "./forest.js";
import { Heat } from "./heat.js";
import { HeatPanel } from "./heat_panel.js";
import { duration, percent } from "./numbers.js";
import { RooflinePanel } from "./roofline.js";
import { element, SortedTable } from "./table.js";
import { Timeline } from "./timeline.js";
import { TimelinePanel } from "./timeline_panel.js";

const byId = (id) => document.getElementById(id);
const settings = read(location.hash);

let writing = 0;

/** Keep the state in the address, with a delay: that takes the browser too long for a frame. */
function remember(changes) {
  Object.assign(settings, changes);
  clearTimeout(writing);
  writing = setTimeout(write, 100);
}

function write() {
  if (location.protocol === "about:") return; // a frame in a notebook has no address
  history.replaceState(null, "", written(settings));
}

// --- tabs ---

function showTab(name) {
  const buttons = [...byId("tabs").children];
  const chosen = buttons.find((button) => button.dataset.tab === name) ?? buttons[0];
  for (const button of buttons) {
    button.setAttribute("aria-selected", String(button === chosen));
    button.tabIndex = button === chosen ? 0 : -1;
    byId(`tab-${button.dataset.tab}`).hidden = button !== chosen;
  }
  window.dispatchEvent(new Event("resize")); // draws elements that were hidden and had no width
}

function chooseTab(name) {
  remember({ tab: name });
  showTab(name);
}

function addTab(name, title, panel, at = Infinity) {
  const button = element("button", title, {
    role: "tab", id: `of-${name}`, "aria-controls": `tab-${name}`,
  });
  button.dataset.tab = name;
  button.addEventListener("click", () => chooseTab(name));
  byId("tabs").insertBefore(button, byId("tabs").children[at] ?? null);
  panel.id = `tab-${name}`;
  panel.hidden = true;
  panel.setAttribute("role", "tabpanel");
  panel.setAttribute("aria-labelledby", button.id);
  panel.dataset.title = title; // a printout has no tabs
  byId("panels").append(panel);
}

byId("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const buttons = [...byId("tabs").children];
  const at = buttons.findIndex((button) => button.getAttribute("aria-selected") === "true");
  const next = buttons[(at + step + buttons.length) % buttons.length];
  chooseTab(next.dataset.tab);
  next.focus();
});

// --- the overview and the tables ---

function list(lines, name) {
  const items = element("ul", undefined, { class: name });
  items.append(...lines.map((line) => element("li", line)));
  return items;
}

function panelOf(section) {
  const panel = element("div");
  let count = 0;
  const table = (data) => sortedTable(data, `${section.name}.${count++}`);
  panel.append(...section.parts.map((part) => partElement(part, table)));
  return panel;
}

/** A table whose order and filter are kept in the address. */
function sortedTable(data, key) {
  const [sort, find] = [`sort.${key}`, `find.${key}`];
  const names = { sort, find };
  const keep = (changes) => remember(
    Object.fromEntries(Object.entries(changes).map(([name, value]) => [names[name], value])),
  );
  return new SortedTable(data, { sort: settings[sort], find: settings[find], keep }).element();
}

function partElement(part, table) {
  const section = element(part.folded ? "details" : "section");
  if (part.title) section.append(element(part.folded ? "summary" : "h2", part.title));
  if (part.lines.length) section.append(list(part.lines, part.style));
  if (part.series.length) section.append(lineChart(part.series));
  section.append(...part.tables.map(table));
  return section;
}

// --- the flame graph ---

const GROUPINGS = {
  all: "all threads together",
  thread: "by thread",
  process: "by process",
  layer: "by layer",
};

class FlamePanel {
  constructor(forest) {
    this.forest = forest;
    this.folded = null;
    this.panel = byId("flame").content.cloneNode(true).firstElementChild;
    const part = (name) => this.panel.querySelector(`[data-part=${name}]`);
    this.parts = Object.fromEntries(
      ["group", "inverted", "folded", "find", "share", "callers", "reset", "path", "canvas"]
        .map((name) => [name, part(name)]),
    );
    const change = forest.compares ? new Change(forest) : undefined;
    this.flame = new Flame(this.parts.canvas, byId("tip"), (node) => this.zoomed(node), change);
    part("colors").hidden = !forest.compares;
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
      this.parts.group.append(element("option", text, { value }));
    }
  }

  restore() {
    const { group, inverted, folded, find } = this.parts;
    group.value = GROUPINGS[settings.group] ? settings.group : "all";
    inverted.checked = settings.inverted === "1";
    folded.checked = settings.folded === "1";
    find.value = settings.find ?? "";
    this.callersOf = settings.callers ?? "";
  }

  listen() {
    const { group, inverted, folded, find, callers, reset } = this.parts;
    for (const control of [group, inverted, folded]) {
      control.addEventListener("change", () => this.rebuild(""));
    }
    find.addEventListener("input", () => { remember({ find: find.value }); this.find(); });
    callers.addEventListener("click", () => {
      this.callersOf = this.flame.selected.key < 0 ? "" : this.flame.selected.name;
      this.rebuild("");
    });
    reset.addEventListener("click", () => { this.callersOf = ""; this.rebuild(""); });
  }

  /** Build the tree that the controls ask for, and zoom to a path of names. */
  rebuild(zoom = settings.zoom ?? "") {
    const { group, inverted, folded } = this.parts;
    if (folded.checked) this.folded ??= foldedRows(this.forest);
    const rowsFolded = folded.checked ? this.folded : null;
    remember({
      group: group.value === "all" ? "" : group.value,
      inverted: inverted.checked ? "1" : "",
      folded: folded.checked ? "1" : "",
      callers: this.callersOf,
    });
    const [tree, root] = this.build(rowsFolded, inverted.checked);
    this.flame.show(tree, root);
    this.find();
    this.flame.zoom(nodeAt(tree, root, zoom));
  }

  build(folded, inverted) {
    const { forest } = this;
    if (this.callersOf) {
      const tree = new Inverted(forest, folded, forest.time);
      const rows = outermostWhere(forest, (name) => name.name === this.callersOf);
      return [tree, tree.of(rows, `callers of ${this.callersOf}`)];
    }
    const tree = inverted ? new Inverted(forest, folded, forest.own) : new TopDown(forest, folded);
    const rows = inverted
      ? Array.from({ length: forest.rows }, (_, row) => row).filter((row) => forest.own[row] > 0)
      : forest.roots();
    return [tree, this.grouped(tree, rows)];
  }

  grouped(tree, rows) {
    const { forest } = this;
    const by = this.parts.group.value;
    if (by === "layer") {
      const layers = outermostWhere(forest, (name) => /\bLAYER\b/.test(name.groups));
      return tree.of(layers, "all layers");
    }
    if (by === "all") return tree.of(rows, "all threads");
    const label = by === "process" ? (thread) => `process ${thread.node}` : (thread) => thread.name;
    const groups = grouped(rows, (row) => label(forest.threads[forest.thread[row]]));
    const nodes = [...groups].map(([name, own]) => tree.of(own, name));
    return tree.root(by === "process" ? "all processes" : "all threads",
      nodes.sort((a, b) => b.time - a.time));
  }

  find() {
    const text = this.parts.find.value;
    this.flame.find(text);
    const words = text.trim().toLowerCase();
    if (!words) { this.parts.share.textContent = ""; return; }
    const rows = outermostWhere(this.forest,
      (name) => `${name.name} ${name.place}`.toLowerCase().includes(words));
    const time = rows.reduce((total, row) => total + this.forest.time[row], 0);
    const whole = this.forest.roots().reduce((total, row) => total + this.forest.time[row], 0);
    const share = whole ? percent((100 * time) / whole) : "0";
    this.parts.share.textContent = `${duration(time)} in these and what they call, ${share} %`;
  }

  zoomed(node) {
    const path = pathTo(node);
    remember({ zoom: path.slice(1).map((each) => each.name).join("\u001f") });
    this.parts.path.replaceChildren(...path.map((step) => {
      const button = element("button", step.name);
      button.addEventListener("click", () => this.flame.zoom(step));
      return button;
    }));
  }
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

// --- beginning ---

async function addTimeline(layout) {
  const timeline = new Timeline(await unpacked(byId("activities").textContent), layout);
  const panel = byId("timeline").content.cloneNode(true).firstElementChild;
  const { from, to } = settings;
  const shown = new TimelinePanel(timeline, { panel, tip: byId("tip"), from, to, keep: remember });
  addTab("timeline", "Timeline", panel, 2);
  shown.draw();
}

/** Above the tables of ranks. */
async function addHeat(layout) {
  const heat = new Heat(await unpacked(byId("heats").textContent), layout);
  const panel = byId("heat").content.cloneNode(true).firstElementChild;
  const shown = new HeatPanel(heat, { panel, tip: byId("tip"), shown: settings.heat, keep: remember });
  byId("tab-ranks").prepend(panel);
  shown.draw();
}

/** Above the table of its points. */
function addRoofline(data) {
  const panel = byId("roofline").content.cloneNode(true).firstElementChild;
  const { chart, level, equal } = settings;
  const shown = new RooflinePanel(data, { panel, tip: byId("tip"), chart, level, equal, isDark, keep: remember });
  byId("tab-roofline").prepend(panel);
  shown.draw();
}

function isDark() {
  return getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
}

async function begin() {
  const layout = JSON.parse(new TextDecoder().decode(await unpacked(byId("contents").textContent)));
  document.documentElement.dataset.theme = settings.theme ?? layout.theme;
  layout.sections.forEach((section) => addTab(section.name, section.title, panelOf(section)));
  showTab(settings.tab); // the contents may have to wait for the call paths
  if (layout.forest) {
    const forest = new Forest(await unpacked(byId("forest").textContent), layout.forest);
    const flame = new FlamePanel(forest);
    addTab("flame", "Flame graph", flame.panel, 1);
    flame.rebuild();
  }
  if (layout.roofline) addRoofline(layout.roofline);
  if (layout.timeline) await addTimeline(layout.timeline);
  if (layout.heat) await addHeat(layout.heat);
  showTab(settings.tab);
  document.documentElement.dataset.ready = "yes";
}

// --- printing: all tabs, and folded parts ---

let folded = [];

window.addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printed");
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const part of folded) part.open = true;
});

window.addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printed");
  for (const part of folded) part.open = false;
  window.dispatchEvent(new Event("resize"));
});

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = isDark() ? "light" : "dark";
  remember({ theme: root.dataset.theme });
  window.dispatchEvent(new Event("resize"));
});

begin().catch((error) => {
  byId("panels").textContent = `This page could not be read: ${error.message}`;
});
