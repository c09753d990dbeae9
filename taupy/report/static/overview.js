// The overview: where the time goes, in the words and lines of the program (see report/front.py).
import { lineChart } from "./chart.js";
import { paintMade } from "./course.js";
import { bar, legend, palette, shareOfFullBar } from "./kinds.js";
import { count, duration, shareOf, timeOf, withUnits } from "./numbers.js";
import { element } from "./table.js";
import { fitting } from "./tip.js";
import { spans } from "./timeline.js";
import { plain } from "./words.js";

const MOST_PLACES = 8;
const MOST_OTHERS = 3;
const LEAST = 0.005; // share of the threads' time below which a place is not shown
const LEAST_TRACED = 0.2; // share of the run that a trace must have recorded to be shown as all of it
const LEAST_GAP = 0.01; // share of the run from which on a pause between steps is named
const SIGNS = { large: "▲", medium: "◆", small: "●" };

/** The head of the page: run time, command, facts. */
export function head(data) {
  const run = element("div", undefined, { class: "run" });
  duration(data.run_ns).split(" ").forEach((part, at) => run.append(at % 2 ? element("span", part) : ` ${part}`));
  const words = element("div", undefined, { class: "words" });
  const facts = element("p", undefined, { class: "facts" });
  data.facts.forEach((fact, at) => {
    if (at) facts.append(" · ");
    facts.append(...starred(fact));
  });
  words.append(element("h1", data.command, { class: "command" }), facts);
  return [run, words];
}

/** "*3* steps" with the 3 in bold. */
function starred(text) {
  return text.split("*").map((part, at) => (at % 2 ? element("b", part) : part)).filter((part) => part !== "");
}

/**
 * @param go called with {file, line} when one chooses a place.
 * @param code the element of the hottest lines, or null.
 */
export function overview(data, go, code) {
  const panel = element("div", undefined, { class: "overview" });
  panel.append(element("section", undefined, { class: "over", hidden: "" }), strip(data));
  const columns = element("div", undefined, { class: "columns" });
  const [left, right, course] = [element("div"), element("div"), element("div", undefined, { class: "course" })];
  if (data.gpu.length) left.append(noted("Why the GPU did not compute", data.gpu));
  left.append(places(data, go), ...data.lanes.map((of) => lanes(of, of.title === "Ranks" ? data.ranks : [])));
  right.append(findings(data));
  if (data.steps?.number.length > 1) course.append(...steps(data.steps));
  if (data.memory) course.append(memory(data));
  if (code) {
    // Several findings, or facts without a verdict, fill their column.
    const shown = data.findings.length + data.silent.filter(({ fact }) => fact).length;
    if (shown > 1) course.prepend(code);
    else right.append(code);
  }
  columns.append(left, right); // in a narrow window, findings come before what is over time
  if (course.childElementCount) columns.append(course);
  panel.append(columns, ...health(data));
  return panel;
}

function noted(title, lines) {
  const section = element("section");
  section.append(titled(title), ...lines.map((line) => element("p", plain(line))));
  return section;
}

function titled(title, small) {
  const heading = element("h2", title);
  if (small) heading.append(element("small", small));
  return heading;
}

// --- the strip ---

/** Whether most of the main thread's time is of kinds that its recorded activities do not have. */
export function hidesMost(strip, kinds) {
  const sum = (parts) => parts.reduce((total, { ns }) => total + ns, 0);
  return sum(strip.filter(({ kind }) => ["wait", "lib", "c"].includes(kind) && !kinds.has(kind))) > sum(strip) / 2;
}

/**
 * The main thread over time: its activities where they were recorded, inner ones above outer ones, else what its steps
 * were made of. Without either there is nothing to show, nor where that would contradict the strip by kind.
 */
export function paintOver(section, timeline, made, strip) {
  const main = timeline.lanes.find(({ kind }) => kind === "host")?.rows ?? [];
  const kinds = new Set(main.flatMap(({ name }) => [...new Set(name)].map((each) => timeline.names[each].color)));
  const isTraced = kinds.size > 1 && main[0].busy.at(-1) >= LEAST_TRACED * timeline.end && !hidesMost(strip, kinds);
  if (!isTraced && !made?.phases.length) return;
  const around = made ? besideSteps(made, timeline.end) : [];
  const words = around.map(([, , text]) => text).join(", ");
  const canvas = element("canvas", undefined, { role: "img", "aria-label": `main thread over time${words && ": "}${words}` });
  const ends = element("div", undefined, { class: "ends" });
  for (const part of [0, 0.25, 0.5, 0.75, 1]) ends.append(element("span", part ? duration(part * timeline.end) : "0 s"));
  section.append(titled("Main thread", isTraced ? "over time" : "over time; each step is divided by what it did, not by when"), canvas, ends);
  section.hidden = false;
  const paint = () => {
    const width = canvas.clientWidth, height = 40;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    const colors = palette();
    context.fillStyle = colors.kinds.rest;
    context.fillRect(0, 0, width, height);
    if (isTraced) {
      for (const row of main) {
        for (const [at, x, wide, busy] of spans(row, [0, timeline.end], width)) {
          context.fillStyle = colors.kinds[timeline.names[row.name[at]].color] ?? colors.kinds.lib;
          context.globalAlpha = 0.3 + 0.7 * busy;
          context.fillRect(x, 0, wide, height);
        }
      }
    } else {
      paintMade(context, made, (ns) => ns * (width / timeline.end), [0, height, colors.kinds]);
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      context.fillStyle = colors.ink;
      for (const [start, ns, text] of around) {
        const room = (ns / timeline.end) * width - 16;
        const isShort = context.measureText(text).width > room;
        context.fillText(fitting(context, isShort ? duration(ns) : text, room), (start / timeline.end) * width + 8, height / 2);
      }
    }
  };
  for (const event of ["resize", "beforeprint"]) window.addEventListener(event, paint);
  paint();
}

/** The long times without a step: [start, ns, words]. */
export function besideSteps({ start, ns, number }, end) {
  const gaps = [];
  for (let at = 0; at <= start.length; at++) {
    const from = at ? start[at - 1] + ns[at - 1] : 0;
    const until = at < start.length ? start[at] : end;
    if (until - from < LEAST_GAP * end) continue;
    const where = !at ? "before the first step" : at < start.length ? `before step ${count(number[at])}` : "after the last step";
    gaps.push([from, until - from, `${duration(until - from)} ${where}`]);
  }
  return gaps;
}

function strip(data) {
  const section = element("section");
  const whole = data.strip.reduce((sum, each) => sum + each.ns, 0) || 1;
  const kinds = data.strip.filter((each) => each.ns / whole >= 0.0005);
  const box = element("div", undefined, {
    class: "strip", role: "img",
    "aria-label": kinds.map((each) => `${each.name} ${timeOf(each.ns)}`).join(", "),
  });
  const words = element("div", undefined, { class: "legend" });
  for (const each of kinds) {
    const part = element("i", undefined, { class: `k-${each.kind}`, title: `${each.name} ${timeOf(each.ns)}` });
    part.style.flexGrow = each.ns;
    box.append(part);
    const item = element("span");
    item.append(element("i", undefined, { class: `k-${each.kind}` }), `${each.name} `,
      element("b", timeOf(each.ns)), " ", element("em", shareOf(each.ns, whole)));
    words.append(item);
  }
  if (!kinds.length) return section;
  section.append(titled("Main thread", "by kind of work"), box, words);
  return section;
}

// --- places ---

function places(data, go) {
  const section = element("section");
  const [main] = data.groups;
  if (!main) {
    section.append(titled("Where the time goes"), element("p", "No times of routines on host threads.", { class: "note" }));
    return section;
  }
  section.append(titled("Where the time goes", "your code; what libraries and C functions do counts for the routine that calls them"));
  const fullShare = shareOfFullBar(data.groups);
  const list = element("div", undefined, { class: "hot" });
  const kinds = new Set();
  data.groups.forEach((group, at) => {
    const shown = group.places.filter((place) => place.share >= LEAST).slice(0, at ? MOST_OTHERS : MOST_PLACES);
    const own = shown.length ? shown : group.places.slice(0, at ? 0 : 1);
    const apart = at ? [] : group.apart.filter((each) => each.share >= LEAST);
    if (at && !own.length) return;
    if (group.title) list.append(element("h3", `In ${group.title}, beside the main thread`));
    for (const each of merged(own, apart)) {
      for (const kind of Object.keys(each.parts)) kinds.add(kind);
      list.append(placeRow(each, fullShare, go));
    }
    for (const { title, parts } of group.notes) list.append(element("p", `${title}: ${parts.join(", ")}`, { class: "soft small" }));
  });
  const named = new Set(data.strip.map(({ kind }) => kind));
  section.append(list);
  if ([...kinds].some((kind) => !named.has(kind))) section.append(legend(kinds));
  return section;
}

/** Own places in their order, and each other one before the first that takes less time. */
function merged(own, apart) {
  const rows = [...own];
  for (const each of apart) {
    const at = rows.findIndex((row) => row.ns < each.ns);
    rows.splice(at < 0 ? rows.length : at, 0, each);
  }
  return rows;
}

/** A place of the program that works or waits, which leads to its line; or what is apart from all of them. */
function placeRow(place, fullShare, go) {
  const row = element("div", undefined, place.file ? { role: "link", tabindex: "0", class: "place" } : { class: "apart" });
  if (place.file) {
    const open = () => go({ file: place.file, line: place.line });
    row.addEventListener("click", open);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
  }
  const text = element("span", undefined, { class: "src" });
  const { routine, at, name } = place;
  const words = withUnits(place.about.join(", "));
  if (place.file) {
    const below = element("small");
    if (place.text) below.append(element("code", place.text));
    below.append([place.text && words ? " · " : "", words].join(""));
    text.append(element("span", withUnits([routine, at].join(" · "))), below);
  } else text.append(element("span", withUnits([name, place.text].filter(Boolean).join(": "))));
  text.title = [[routine, at].join(" · "), place.text, words].filter(Boolean).join("\n");
  row.append(element("b", timeOf(place.ns), { class: "num" }),
    element("span", shareOf(place.share, 1), { class: "num soft" }), bar(place.parts, (fullShare * place.ns) / place.share), text);
  return row;
}

/** A bar for each rank, process or thread of a group, and what is said about them. */
function lanes({ title, lanes: all, more }, notes) {
  const section = element("section");
  section.append(titled(title, title === "Ranks" ? "" : "beside the main thread, at the same time"));
  const sum = (bands) => bands.reduce((whole, { ns }) => whole + ns, 0);
  const whole = Math.max(...all.map(({ bands }) => sum(bands)), 1);
  const list = element("div", undefined, { class: "lanes" });
  const words = new Map();
  for (const { name, bands } of all) {
    const parts = Object.fromEntries(bands.map(({ kind, ns }) => [kind, ns]));
    for (const band of bands) if (band.ns >= LEAST * whole) words.set(band.kind, band.name);
    const waits = parts.wait >= LEAST * whole ? `, waits ${timeOf(parts.wait)}` : "";
    const made = element("b", timeOf(sum(bands) - (parts.wait ?? 0)), { class: "num" });
    const said = bands.map((band) => `${band.name} ${timeOf(band.ns)}`).join(", ");
    const row = element("div", undefined, { title: said });
    row.append(element("span", name, { class: "name" }), bar(parts, whole), made, element("small", waits.replace(/^, /, "")));
    list.append(row);
  }
  section.append(list, legend(new Set(words.keys()), words));
  if (more) section.append(element("p", `and ${more} more, which ${more > 1 ? "do" : "does"} less`, { class: "soft small" }));
  section.append(...notes.map((line) => element("p", plain(line))));
  return section;
}

// --- findings ---

function findings(data) {
  const section = element("section");
  const number = data.findings.length;
  section.append(titled("Findings", number ? `${number} · seconds are upper bounds` : ""));
  const facts = data.silent.filter(({ fact }) => fact);
  if (!number && !facts.length) section.append(element("p", capital(plain(data.nothing))));
  for (const each of data.findings) section.append(finding(each));
  for (const { kind, fact, reason } of facts) section.append(element("p", `No verdict on ${kind}: ${fact}. ${capital(reason)}.`));
  if (data.ranks.length && !data.lanes.some(({ title }) => title === "Ranks")) section.append(noted("What the ranks say", data.ranks));
  return section;
}

function capital(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function finding(each) {
  const box = element("article", undefined, { class: `finding ${each.severity}` });
  const top = element("div", undefined, { class: "top" });
  top.append(element("span", `${SIGNS[each.severity]} ${each.severity}`, { class: "tag" }), element("b", each.kind),
    element("span", each.saved, { class: "saved" }));
  box.append(top, element("p", plain(each.sentence)));
  if (each.attempt) {
    const advice = element("p");
    advice.append(element("b", "Try "), each.attempt);
    box.append(advice);
  }
  box.append(element("p", `Confidence ${each.confidence}. Refuted by: ${each.refuted}`, { class: "soft small" }));
  for (const table of each.evidence) box.append(evidence(table));
  return box;
}

function evidence({ title, headings, rows, more }) {
  const table = element("table", undefined, { class: "evidence" });
  table.append(element("caption", more ? `${title}, the first ${rows.length} of ${count(rows.length + more)}` : title));
  const head = element("tr");
  head.append(...headings.map((text, at) => element("th", text, { scope: "col", class: isNumber(rows, at) ? "num" : "" })));
  table.append(head);
  for (const row of rows) {
    const line = element("tr");
    line.append(...row.map((text, at) => element("td", plain(text), { class: isNumber(rows, at) ? "num" : "" })));
    table.append(line);
  }
  return table;
}

function isNumber(rows, at) {
  return rows.every((row) => /^[-\d.,]+( \S+)?$|^$/.test(row[at]));
}

// --- steps and memory ---

function steps(data) {
  const section = element("section");
  const each = data.ns.map((ns, at) => ns / data.count[at]);
  const sorted = [...each].sort((a, b) => a - b);
  const median = sorted[sorted.length >> 1];
  const slowest = data.longest.indexOf(Math.max(...data.longest));
  section.append(titled("Steps", `median ${duration(median)}, slowest ${count(data.number[slowest])}: ${duration(data.longest[slowest])}`));
  const canvas = element("canvas", undefined, { class: "steps", role: "img",
    "aria-label": `${each.length} steps, median ${duration(median)}, slowest ${duration(data.longest[slowest])}` });
  const ends = element("div", undefined, { class: "ends" });
  ends.append(element("span", `step ${count(data.number[0])}`), element("span", `- - median`), element("span", `step ${count(data.number.at(-1))}`));
  section.append(canvas, ends);
  const paint = () => paintSteps(canvas, data, each, median);
  for (const event of ["resize", "beforeprint"]) window.addEventListener(event, paint);
  const kinds = new Set(data.phases.map((phase) => phase.kind));
  section.append(legend(kinds.add("rest")));
  const charts = data.logged.map((series) => {
    const part = element("section");
    const last = series.points.at(-1)[1];
    part.append(titled(series.name, `last ${Number(last.toPrecision(4))}`), lineChart([{ ...series, kind: "float", over: "step" }], { named: false }));
    return part;
  });
  return [section, ...charts];
}

function paintSteps(canvas, data, each, median) {
  const width = canvas.clientWidth, height = 88;
  if (!width) return;
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const high = Math.min(Math.max(...each), 4 * median) || 1; // an outlier leaves the others visible
  const wide = width / each.length;
  each.forEach((ns, at) => {
    const x = at * wide, gap = wide > 4 ? 1 : 0;
    context.fillStyle = color("rest");
    const top = Math.min(ns / high, 1) * height;
    context.fillRect(x, height - top, wide - gap, top);
    let y = height;
    for (const phase of data.phases) {
      const tall = Math.min((phase.ns[at] / data.count[at] / high) * height, y);
      context.fillStyle = color(phase.kind);
      context.fillRect(x, y - tall, wide - gap, tall);
      y -= tall;
    }
  });
  context.strokeStyle = color("ink");
  context.setLineDash([3, 3]);
  context.beginPath();
  const y = height - (median / high) * height;
  context.moveTo(0, y);
  context.lineTo(width, y);
  context.stroke();
}

function memory(data) {
  const section = element("section");
  const { points, processes } = data.memory;
  const peak = Math.max(...points.map(([, bytes]) => bytes));
  const chart = lineChart([{ name: "resident memory", kind: "bytes", over: "second", points: points.map(([ns, bytes]) => [ns / 1e9, bytes]) }], { named: false });
  section.append(titled("Memory", `${processes > 1 ? "of the first process, " : ""}resident, sampled`), chart);
  chart.dataset.peak = peak;
  return section;
}

// --- the end ---

function health(data) {
  const list = element("section", undefined, { class: data.health.length ? "health bad" : "health" });
  if (data.health.length) {
    list.append(titled("Health of the measurement"));
    for (const line of data.health) list.append(element("p", line, { class: "warning" }));
  } else list.append(element("p", "Measured completely: every call."));
  if (data.unmeasured.length) list.append(element("p", `Not measured: ${data.unmeasured.join("; ")}.`));
  if (!data.silent.length) return [list];
  const folded = element("details");
  folded.append(element("summary", `${data.silent.length} rule${data.silent.length > 1 ? "s" : ""} gave no verdict`));
  for (const { kind, reason } of data.silent) folded.append(element("p", `${kind}: ${reason}`, { class: "soft small" }));
  list.append(folded);
  return [list];
}
