// The page of a trial: tabs, their contents, and the address that restores them.
import { read, written } from "./address.js";
import { bars } from "./bars.js";
import { lineChart } from "./chart.js";
import { unpacked } from "./columns.js";
import { FlamePanel } from "./flame_panel.js";
import { Forest } from "./forest.js";
import { Heat } from "./heat.js";
import { HeatPanel } from "./heat_panel.js";
import { KINDS } from "./kinds.js";
import { layersPanel } from "./layers.js";
import { hottestCode } from "./listing.js";
import { estimate } from "./numbers.js";
import { head, overview, paintOver } from "./overview.js";
import { RooflinePanel } from "./roofline.js";
import { SourcePanel } from "./source.js";
import { element, SortedTable } from "./table.js";
import { Timeline } from "./timeline.js";
import { TimelinePanel } from "./timeline_panel.js";
import { plain, quiet } from "./words.js";

const byId = (id) => document.getElementById(id);
const settings = read(location.hash);
const LEAST = 0.02; // share of the threads' time from which on a place is one of the hottest code

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

function tabs() {
  return [...byId("tabs").querySelectorAll("[role=tab]")];
}

function showTab(name) {
  const buttons = tabs();
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
  tabs().forEach((each, number) => {
    let key = each.querySelector("kbd");
    if (!key) each.append((key = element("kbd", undefined, { "aria-hidden": "true" })));
    key.textContent = number < 9 ? number + 1 : "";
  });
  panel.id = `tab-${name}`;
  panel.hidden = true;
  panel.setAttribute("role", "tabpanel");
  panel.setAttribute("aria-labelledby", button.id);
  panel.dataset.title = title; // a printout has no tabs
  byId("panels").insertBefore(panel, byId("panels").children[at] ?? null); // in the order of a printout
}

byId("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const buttons = tabs();
  const at = buttons.findIndex((button) => button.getAttribute("aria-selected") === "true");
  const next = buttons[(at + step + buttons.length) % buttons.length];
  chooseTab(next.dataset.tab);
  next.focus();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const button = /^[1-9]$/.test(event.key) && tabs()[Number(event.key) - 1];
  if (button) { chooseTab(button.dataset.tab); button.focus(); }
  if (/^n$/i.test(event.key) && source && !source.panel.hidden) source.key(event);
});

// --- the tables ---

function list(lines, name) {
  const items = element("ul", undefined, { class: name });
  items.append(...lines.map((line) => element("li", plain(line))));
  return items;
}

function panelOf(section) {
  const panel = element("div");
  let count = 0;
  const table = (data) => sortedTable(data, `${section.name}.${count++}`);
  if (section.name === "layers" && section.parts[0].tables[0]?.columns.some(({ name }) => name === "own_ns")) {
    return layersPanel(section, table);
  }
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
  if (part.title) section.append(element(part.folded ? "summary" : "h2", quiet(part.title)));
  if (part.lines.length) section.append(list(part.lines, part.style));
  if (part.bars.length) section.append(bars(part.bars));
  if (part.series.length) section.append(lineChart(part.series));
  section.append(...part.tables.map(table));
  return section;
}

// --- beginning ---

/** The head: run time, command and facts; of other pages, their title. */
function addHead(data) {
  const theme = element("button", "◐", { id: "theme", "aria-label": "switch light and dark colours", title: "light / dark" });
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.theme = isDark() ? "light" : "dark";
    remember({ theme: root.dataset.theme });
    window.dispatchEvent(new Event("resize"));
  });
  if (data) byId("head").replaceChildren(...head(data));
  else {
    const words = element("div", undefined, { class: "words" });
    words.append(...byId("head").children);
    byId("head").append(words);
  }
  byId("head").append(theme);
}

function addOverview(data, files) {
  const go = (place) => {
    if (!source || !source.files.some(({ file }) => file === place.file)) { chooseTab("flame"); return; }
    chooseTab("source");
    source.open(source.files.findIndex(({ file }) => file === place.file));
    source.choose(source.shownLine(place.line), true);
    source.list.focus({ preventScroll: true });
  };
  const own = data.groups.flatMap(({ places }) => places).filter(({ kind, share }) => kind === "own" && share >= LEAST);
  const code = data.hottest && hottestCode(files, [data.hottest, ...own], go);
  addTab("overview", "Overview", overview(data, go, code), 0);
}

let source = null;

function addSource(files) {
  const { file, line } = settings;
  source = new SourcePanel(files, { file, line, keep: remember });
  addTab("source", "Source", source.panel, 0);
}

async function addTimeline(layout, at, { steps, memory, strip: ofKinds } = {}) {
  const timeline = new Timeline(await unpacked(byId("activities").textContent), layout);
  const panel = byId("timeline").content.cloneNode(true).firstElementChild;
  const { from, to } = settings;
  const shown = new TimelinePanel(timeline, { panel, tip: byId("tip"), from, to, keep: remember, steps, memory });
  addTab("timeline", "Timeline", panel, at);
  const strip = byId("tab-overview")?.querySelector(".over");
  if (strip) paintOver(strip, timeline, steps, ofKinds);
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
  if (layout.overview) KINDS.own = layout.overview.own;
  if (layout.sampled) estimate();
  addHead(layout.overview);
  layout.sections.forEach((section) => addTab(section.name, section.title, panelOf(section)));
  if (layout.source.length) addSource(layout.source);
  if (layout.overview) addOverview(layout.overview, layout.source);
  byId("end").append(...layout.end.map((line) => element("p", line)));
  showTab(settings.tab); // the contents may have to wait for the call paths
  const first = tabs().findIndex(({ dataset }) => !["overview", "source"].includes(dataset.tab));
  const at = first < 0 ? Infinity : layout.overview ? first : Math.min(first + 1, 1);
  if (layout.forest) {
    const forest = new Forest(await unpacked(byId("forest").textContent), layout.forest);
    const panel = byId("flame").content.cloneNode(true).firstElementChild;
    const flame = new FlamePanel(forest, { panel, tip: byId("tip"), settings, remember });
    addTab("flame", "Flame graph", flame.panel, at);
    flame.rebuild();
  }
  if (layout.roofline) addRoofline(layout.roofline);
  if (layout.timeline) await addTimeline(layout.timeline, at + Number(Boolean(layout.forest)), layout.overview ?? {});
  if (layout.heat) await addHeat(layout.heat);
  showTab(settings.tab);
  document.documentElement.dataset.ready = "yes";
}

// --- printing: all tabs, and folded parts ---

const WIDE = 1000; // a table that is narrower on the screen fits on paper upright
let folded = [];

window.addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printed");
  for (const panel of byId("panels").children) panel.classList.toggle("wide", [...panel.querySelectorAll("table")].some((table) => table.offsetWidth > WIDE));
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const part of folded) part.open = true;
});

window.addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printed");
  for (const part of folded) part.open = false;
  window.dispatchEvent(new Event("resize"));
});

begin().catch((error) => {
  byId("panels").textContent = `This page could not be read: ${error.message}`;
});
