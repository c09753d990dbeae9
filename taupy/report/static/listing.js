// Source text with the times beside its lines (see report/front.py), in the tab and in the overview.
import { bar } from "./kinds.js";
import { count, duration, isEstimated, timeOf } from "./numbers.js";
import { element } from "./table.js";

const BODY = 60; // lines of a hot routine that stay below its definition
const [ABOVE, BELOW] = [6, 8]; // lines of an excerpt around its own
const MOST = 24; // lines of all excerpts together
const HOT = 0.005; // share of the file's time from which on a line is one of the hot ones
export const about = (lines) => (isEstimated() || lines?.some((line) => line.count === null) ? "~" : ""); // exact lines have a count
export const exactness = () => (isEstimated() ? "estimated" : "exact"); // of routines
const WORDS = new Set(("False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally"
  + "|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield").split("|"));
const STRING = [
  /"""(?:[^\\"]+|\\[^]?|"(?!""))*(?:"""|$)/, /'''(?:[^\\']+|\\[^]?|'(?!''))*(?:'''|$)/,
  /"(?:[^"\\\n]|\\[^])*"/, /'(?:[^'\\\n]|\\[^])*'/,
].map(({ source }) => source).join("|");
const TOKEN = new RegExp(`[bfrtu]{0,2}(?:${STRING})|(#.*)|([\\p{L}_][\\p{L}\\p{N}_]*)`, "giu");

/** Lines as lists of [class, text]: k a keyword, s a string, c a comment. */
export function coloured(lines) {
  const text = lines.join("\n");
  const shown = [[]];
  const add = (kind, part) => part.split("\n").forEach((line, number) => {
    if (number) shown.push([]);
    if (line) shown.at(-1).push([kind, line]);
  });
  let at = 0;
  for (const { 0: whole, 1: comment, 2: word, index } of text.matchAll(TOKEN)) {
    if (word && !WORDS.has(word)) continue;
    add("", text.slice(at, index));
    add(word ? "k" : comment ? "c" : "s", whole);
    at = index + whole.length;
  }
  add("", text.slice(at));
  return shown;
}

/** A file's lines, with the times beside them. */
export class Listing {
  read({ text, routines, lines }) {
    this.lines = text.split("\n");
    this.colours = coloured(this.lines);
    this.byLine = new Map();
    for (const routine of routines) {
      const here = this.byLine.get(this.shownLine(routine.line)) ?? [];
      here.push(routine);
      this.byLine.set(this.shownLine(routine.line), here);
    }
    this.looked = new Map(); // times of lines, by line
    for (const each of lines) this.looked.set(each.line, [...(this.looked.get(each.line) ?? []), each]);
    this.timed = this.looked.size ? this.looked : this.byLine; // beside lines, only one kind of times
    const ns = (entry) => entry[1].reduce((sum, each) => sum + each.ns, 0);
    const byTime = [...this.timed].sort((a, b) => ns(b) - ns(a));
    this.largest = byTime.length ? ns(byTime[0]) : 1;
    const whole = byTime.reduce((sum, entry) => sum + ns(entry), 0);
    this.hot = byTime.filter((entry) => ns(entry) >= HOT * whole).map(([number]) => number);
    this.kinds = new Set([...this.timed.values()].flat().flatMap((each) => Object.keys(each.parts)));
    return this;
  }

  /** Where a routine is shown: at its `def`, below its decorators. */
  shownLine(line) {
    for (let at = line; at < Math.min(line + 20, this.lines.length); at++) {
      if (/^\s*(async\s+def|def|class)\b/.test(this.lines[at - 1])) return at;
      if (!/^\s*(@|#|$|\)|\w+=)/.test(this.lines[at - 1])) break;
    }
    return line;
  }

  /** The last line of the routine that begins at a line, by its indentation. */
  bodyEnd(line) {
    if (!/^\s*(async\s+def|def|class)\b/.test(this.lines[line - 1])) return line;
    const depth = (text) => text.length - text.trimStart().length;
    let end = line;
    for (let at = line + 1; at <= Math.min(line + BODY, this.lines.length); at++) {
      const text = this.lines[at - 1];
      if (!text.trim()) continue;
      if (depth(text) <= depth(this.lines[line - 1]) && !/^\s*\)/.test(text)) break;
      end = at;
    }
    return end;
  }

  /** The first and last line of what is shown around a line: of its routine, if that is not long. */
  around(line) {
    const routine = Math.max(...[...this.byLine.keys()].filter((at) => at <= line && this.bodyEnd(at) >= line), 0);
    const end = this.bodyEnd(routine) > routine ? this.bodyEnd(routine) : this.lines.length;
    let [from, until] = [Math.max(routine, line - ABOVE, 1), Math.min(end, line + BELOW)];
    while (from < line && !this.lines[from - 1].trim()) from++;
    while (until > line && !this.lines[until - 1].trim()) until--;
    return [from, until];
  }

  row(number) {
    const routines = this.byLine.get(number) ?? [];
    const looked = this.looked.get(number) ?? [];
    const timed = this.timed.get(number) ?? [];
    const row = element("div", undefined, { class: timed.length ? "ln" : "ln cold" });
    row.dataset.line = number;
    const sum = (value) => routines.reduce((total, each) => total + (value(each) ?? 0), 0);
    const parts = {};
    for (const each of timed) {
      for (const [kind, ns] of Object.entries(each.parts)) parts[kind] = (parts[kind] ?? 0) + ns;
    }
    const ns = timed.reduce((total, each) => total + each.ns, 0);
    const time = element("span", "", { class: "t" });
    let shownBar = element("span");
    if (timed.length) {
      time.textContent = about(looked) + duration(ns);
      shownBar = bar(parts, this.largest + (looked.length ? 0 : parts.wait ?? 0));
    }
    const words = []; // what else is known of the line, behind it
    const callees = (whole, own) => { if (whole > 1.005 * own) words.push(`${timeOf(whole)} with callees`); };
    if (routines.length) {
      if (this.looked.size) words.push(`${timeOf(sum((each) => each.ns))} ${exactness()}`);
      callees(sum((each) => each.whole), sum((each) => each.ns));
      if (sum((each) => each.calls)) words.push(`${count(sum((each) => each.calls))}×`);
    } else if (looked.length && !about(looked)) {
      callees(looked.reduce((total, each) => total + each.whole, 0), ns);
      words.push(`${count(looked.reduce((total, each) => total + each.count, 0))}×`);
    }
    const groups = [...new Set([...routines, ...looked].map((each) => each.group).filter(Boolean))];
    if (groups.length) words.push(`in ${groups.join(", ")}`);
    const code = element("pre");
    code.append(...this.colours[number - 1].map(([kind, text]) => (kind ? element("i", text, { class: kind }) : text)));
    code.title = this.lines[number - 1].trim();
    const both = element("span", undefined, { class: "text" });
    both.append(code);
    if (words.length) both.append(element("span", words.join(" · "), { class: "rt" }));
    row.append(time, shownBar, element("span", String(number), { class: "n" }), both);
    return row;
  }
}

/**
 * The section of the hottest lines, each with those around it in its routine, which lead to them.
 * @param places [{file, line}], the first to look at first.
 * @return null if there is no text.
 */
export function hottestCode(files, places, go) {
  const listings = new Map();
  const seen = new Set();
  const shown = [];
  let left = MOST;
  for (const { file, line } of places) {
    const of = files.find((each) => each.file === file);
    if (!of) continue;
    if (!listings.has(file)) listings.set(file, new Listing().read(of));
    const listing = listings.get(file);
    const chosen = listing.looked.size ? line : listing.shownLine(line);
    if (!(chosen <= listing.lines.length) || seen.has(`${file}:${chosen}`)) continue;
    if (shown.length && !listing.timed.has(chosen)) continue;
    let [from, until] = listing.around(chosen);
    while (seen.has(`${file}:${from}`)) from++;
    for (let at = chosen; at < until; at++) if (seen.has(`${file}:${at + 1}`)) until = at;
    if (shown.length && until - from >= left) break;
    left -= until - from + 1;
    for (let at = from; at <= until; at++) seen.add(`${file}:${at}`);
    shown.push({ file, listing, at: [from, chosen, until] });
  }
  if (!shown.length) return null;
  const section = element("section", undefined, { class: "code" });
  const heading = element("h2", "Hottest code");
  heading.append(element("small", shown[0].file));
  section.append(heading);
  const largest = Math.max(...shown.map(({ listing }) => listing.largest)); // one scale for all
  shown.forEach(({ file, listing, at }, number) => {
    if (number && file !== shown[number - 1].file) section.append(element("h3", file));
    listing.largest = largest;
    section.append(excerpt(listing, file, at, go));
  });
  return section;
}

function excerpt(listing, file, [from, chosen, until], go) {
  const rows = element("div", undefined, { class: "listing", role: "link", tabindex: "0", "aria-label": `${file}, line ${chosen}` });
  const indents = listing.lines.slice(from - 1, until).filter((text) => text.trim()).map((text) => text.search(/\S/));
  const indent = Math.min(...indents);
  for (let at = from; at <= until; at++) {
    const row = listing.row(at);
    row.querySelector("pre").style.textIndent = `-${indent}ch`;
    rows.append(row);
  }
  rows.querySelector(`[data-line="${chosen}"]`).setAttribute("aria-current", "true");
  const open = (at) => go({ file, line: Number(at ?? chosen) });
  rows.addEventListener("click", (event) => open(event.target.closest("[data-line]")?.dataset.line));
  rows.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
  return rows;
}
