// The program's own files with times beside their lines (see report/front.py).
import { KINDS, bar, legend } from "./kinds.js";
import { count, duration, isEstimated, shareOf, timeOf } from "./numbers.js";
import { element } from "./table.js";

const FOLDED = 4; // so many lines without time become one
const AROUND = 1; // lines that stay beside a definition
const BODY = 60; // lines of a hot routine that stay below its definition
const [ABOVE, BELOW] = [6, 12]; // lines of an excerpt around its own
const HOT = 0.005; // share of the file's time from which on a line is one of the hot ones
const about = (lines) => (isEstimated() || lines?.some((line) => line.count === null) ? "~" : ""); // exact lines have a count
const exactness = () => (isEstimated() ? "estimated" : "exact"); // of routines
const WORDS = new Set(("False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally"
  + "|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield").split("|"));
const TOKEN = /("""|'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(#.*)|([A-Za-z_]\w*)/g;

/** Lines as lists of [class, text]: k a keyword, s a string, c a comment. */
export function coloured(lines) {
  let open = ""; // the quotes of a string of several lines
  return lines.map((line) => {
    const parts = [];
    let at = 0;
    const add = (kind, text) => { if (text) parts.push([kind, text]); };
    const close = (from) => {
      const end = line.indexOf(open, from);
      const until = end < 0 ? line.length : end + 3;
      add("s", line.slice(at, until));
      if (end >= 0) open = "";
      at = until;
    };
    if (open) close(0);
    TOKEN.lastIndex = at;
    for (let match; at < line.length && (match = TOKEN.exec(line)); TOKEN.lastIndex = at) {
      const [whole, string, comment, word] = match;
      if (word && !WORDS.has(word)) { add("", line.slice(at, match.index + whole.length)); at = match.index + whole.length; continue; }
      add("", line.slice(at, match.index));
      at = match.index;
      if (string === '"""' || string === "'''") { open = string; close(at + 3); continue; }
      add(string ? "s" : comment ? "c" : "k", whole);
      at += whole.length;
    }
    add("", line.slice(at));
    return parts;
  });
}

/** A file's lines, with the times beside them. */
class Listing {
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
    const timed = this.looked.size ? this.looked : this.byLine;
    const ns = (entry) => entry[1].reduce((sum, each) => sum + each.ns, 0);
    const byTime = [...timed].sort((a, b) => ns(b) - ns(a));
    this.largest = byTime.length ? ns(byTime[0]) : 1;
    const whole = byTime.reduce((sum, entry) => sum + ns(entry), 0);
    this.hot = byTime.filter((entry) => ns(entry) >= HOT * whole).map(([number]) => number);
    this.kinds = new Set([...timed.values()].flat().flatMap((each) => Object.keys(each.parts)));
  }

  /** Where a routine is shown: at its `def`, below its decorators. */
  shownLine(line) {
    for (let at = line; at < Math.min(line + 20, this.lines.length); at++) {
      if (/^\s*(async\s+def|def|class)\b/.test(this.lines[at - 1])) return at;
      if (!/^\s*(@|#|$|\)|\w+=)/.test(this.lines[at - 1])) break;
    }
    return line;
  }

  row(number) {
    const routines = this.byLine.get(number) ?? [];
    const looked = this.looked.get(number) ?? [];
    const timed = this.looked.size ? looked : routines; // beside lines, only one kind of times
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

/** The lines around a place, {file, line}, which lead to it; null if there is none with text. */
export function excerpt(files, place, go) {
  const of = place && files.find(({ file }) => file === place.file);
  if (!of) return null;
  const listing = new Listing();
  listing.read(of);
  const { file } = of, chosen = listing.looked.size ? place.line : listing.shownLine(place.line);
  if (!(chosen <= listing.lines.length)) return null;
  const rows = element("div", undefined, { class: "listing", role: "link", tabindex: "0", "aria-label": `${file}, line ${chosen}` });
  let [from, until] = [Math.max(chosen - ABOVE, 1), Math.min(chosen + BELOW, listing.lines.length)];
  const begun = [...listing.byLine.keys()].filter((at) => at >= from && at <= chosen);
  from = Math.max(...begun, from); // its routine's definition, unless that is far above
  while (from < chosen && !listing.lines[from - 1].trim()) from++;
  while (until > chosen && !listing.lines[until - 1].trim()) until--;
  const indents = listing.lines.slice(from - 1, until).filter((text) => text.trim()).map((text) => text.search(/\S/));
  const indent = Math.min(...indents);
  for (let at = from; at <= until; at++) {
    const row = listing.row(at);
    row.querySelector("pre").style.textIndent = `-${indent}ch`;
    rows.append(row);
  }
  rows.querySelector(`[data-line="${chosen}"]`)?.setAttribute("aria-current", "true");
  const open = (at) => go({ file, line: Number(at ?? chosen) });
  rows.addEventListener("click", (event) => open(event.target.closest("[data-line]")?.dataset.line));
  rows.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
  return rows;
}

export class SourcePanel extends Listing {
  /**
   * @param files [{file, of, note, ns, text, routines}], the dearest first; `of`: whose it is.
   * @param state {run, file, line, keep}: `keep` is called with what the address shall have.
   */
  constructor(files, state) {
    super();
    Object.assign(this, { files, ...state });
    this.panel = element("div", undefined, { class: "source" });
    this.controls = element("div", undefined, { class: "controls" });
    this.select = element("select", undefined, { "aria-label": "file" });
    for (const of of new Set(files.map((file) => file.of))) {
      const group = element("optgroup", undefined, { label: of });
      files.forEach((file, at) => {
        if (file.of === of) group.append(element("option", `${file.file}  ${timeOf(file.ns)}`, { value: at }));
      });
      this.select.append(...(files[0].of === files.at(-1).of ? group.children : [group]));
    }
    this.select.addEventListener("change", () => this.open(Number(this.select.value)));
    const all = element("label");
    this.all = element("input", undefined, { type: "checkbox" });
    this.all.addEventListener("change", () => this.fill());
    all.append(this.all, " all lines");
    this.keys = element("span", "↑ ↓ line · n N next hot line", { class: "soft hint" });
    this.controls.append(this.select, this.legendPlace = element("span"), all, this.keys);
    this.list = element("div", undefined, { class: "listing", tabindex: "0", role: "listbox", "aria-label": "lines" });
    this.side = element("aside", undefined, { class: "side", "aria-live": "polite" });
    this.note = element("p", "", { class: "note" });
    const columns = element("div", undefined, { class: "beside" });
    columns.append(this.list, this.side);
    this.panel.append(this.controls, this.note, columns);
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => this.click(event));
    window.addEventListener("resize", () => this.reveal()); // the tab is shown, or laid out anew
    this.isReached = Boolean(this.line); // an address leads to the line itself
    this.open(Math.max(files.findIndex((each) => each.file === this.file), 0), Number(this.line) || 0);
  }

  /** Show a file, and choose a line of it: by default the one with the most time. */
  open(at, line = 0) {
    this.number = at;
    this.select.value = at;
    const file = this.files[at];
    this.read(file);
    this.note.textContent = file.note;
    this.note.hidden = !file.note;
    this.legendPlace.replaceChildren(legend(this.kinds));
    this.chosen = line || this.hot[0] || 1;
    this.isRevealed = false;
    this.fill();
    this.tell();
    this.reveal();
  }

  /** Have the chosen line in view, once: in the list, and where it has no scroll bar, in the page. */
  reveal() {
    const { list } = this;
    if (this.isRevealed || !list.clientHeight) return;
    this.isRevealed = true;
    const row = list.querySelector(`[data-line="${this.chosen}"]`);
    if (list.scrollHeight > list.clientHeight + 1) {
      list.scrollTop += row.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 2;
    } else if (this.isReached) row.scrollIntoView({ block: "center" });
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

  shownLines() {
    const kept = new Set([this.chosen]);
    for (const line of this.looked.keys()) {
      for (let at = line - AROUND; at <= line + AROUND; at++) kept.add(at);
    }
    for (const line of this.byLine.keys()) {
      const end = this.hot.includes(line) ? this.bodyEnd(line) : line;
      for (let at = line - AROUND; at <= end; at++) kept.add(at);
    }
    return kept;
  }

  /** The lines without blank ones that are not between two lines of a routine. */
  withoutBlanks(kept) {
    const indent = (line) => (this.lines[line - 1] ?? "").search(/\S/);
    return new Set([...kept].filter((line) => {
      const isInside = kept.has(line - 1) && kept.has(line + 1) && indent(line + 1) >= Math.max(indent(line - 1), 1);
      return line === this.chosen || indent(line) >= 0 || isInside;
    }));
  }

  fill() {
    const kept = this.all.checked ? null : this.withoutBlanks(this.shownLines());
    const isHidden = (line) => kept && line <= this.lines.length && !kept.has(line);
    const rows = [this.headRow()];
    for (let at = 1; at <= this.lines.length; at++) {
      let end = at;
      while (isHidden(end)) end++;
      if (end - at >= FOLDED) {
        const gap = element("div", undefined, { class: "gap" });
        const button = element("button", `··· ${end - at} lines without time`);
        button.addEventListener("click", () => { this.all.checked = true; this.fill(); });
        gap.append(button);
        rows.push(gap);
        at = end - 1;
        continue;
      }
      if (!isHidden(at) || this.lines[at - 1].trim()) rows.push(this.row(at));
    }
    this.list.replaceChildren(...rows);
  }

  headRow() {
    const head = element("div", undefined, { class: "ln head" });
    head.append(element("span", "time", { class: "t" }), element("span", "by kind"));
    return head;
  }

  row(number) {
    const row = super.row(number);
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(number === this.chosen));
    return row;
  }

  choose(line, scroll = false) {
    this.chosen = Math.min(Math.max(line, 1), this.lines.length);
    if (!this.list.querySelector(`[data-line="${this.chosen}"]`)) this.fill();
    for (const row of this.list.querySelectorAll("[aria-selected=true]")) row.setAttribute("aria-selected", "false");
    const row = this.list.querySelector(`[data-line="${this.chosen}"]`);
    row.setAttribute("aria-selected", "true");
    if (scroll) row.scrollIntoView({ block: "nearest" });
    this.keep({ file: this.number ? this.files[this.number].file : "", line: this.chosen });
    this.tell();
  }

  click(event) {
    const row = event.target.closest("[data-line]");
    if (row) this.choose(Number(row.dataset.line));
  }

  /** The keys of the list; those of hot lines are the tab's. */
  key(event) {
    const sorted = [...this.hot].sort((a, b) => a - b);
    const lines = [...this.list.querySelectorAll("[data-line]")].map((row) => Number(row.dataset.line));
    const at = lines.indexOf(this.chosen);
    const next = {
      ArrowDown: () => lines[at + 1],
      ArrowUp: () => lines[at - 1],
      n: () => sorted.find((line) => line > this.chosen) ?? sorted[0],
      N: () => [...sorted].reverse().find((line) => line < this.chosen) ?? sorted.at(-1),
    }[event.key]?.();
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    this.choose(next, true);
  }

  /** What the chosen line does, beside the listing. */
  tell() {
    const routines = this.byLine.get(this.chosen) ?? [];
    const parts = [];
    const heading = element("h2", `Line ${this.chosen}`);
    heading.append(element("small", (this.looked.get(this.chosen) ?? routines)[0]?.name ?? ""));
    parts.push(heading, element("code", this.lines[this.chosen - 1].trim(), { class: "chosen" }));
    const looked = this.looked.get(this.chosen) ?? [];
    for (const line of looked) parts.push(...this.aboutLine(line));
    for (const routine of routines) parts.push(...this.about(routine));
    if (this.looked.size && !looked.length && !routines.length) {
      parts.push(element("p", "This line was seen too rarely for an estimate.", { class: "note" }));
    } else if (!routines.length && !looked.length) parts.push(element("p", "No routine begins here: its time stands at the line of its definition.", { class: "note" }));
    if (this.hot.length) {
      parts.push(element("h2", "Hottest here"));
      for (const line of this.hot.slice(0, 8)) {
        const all = this.looked.get(line) ?? this.byLine.get(line);
        const button = element("button", undefined, { class: "callee" });
        button.append(element("code", `${line} ${this.looked.size ? this.lines[line - 1].trim() : all[0].name}`), element("span", about(this.looked.get(line)) + duration(all.reduce((sum, each) => sum + each.ns, 0)), { class: "num" }));
        button.addEventListener("click", () => { this.choose(line, true); this.list.focus({ preventScroll: true }); });
        parts.push(button);
      }
    }
    this.side.replaceChildren(...parts);
  }

  /** A line's time: of most, only that of their routine is exact, and its division an estimate. */
  aboutLine(line) {
    const facts = element("dl");
    const fact = (name, value) => facts.append(element("dt", name), element("dd", value, { class: "num" }));
    if (line.group) fact("in", line.group);
    if (about([line])) fact("this line, estimated", `~${duration(line.ns)} ± ${duration(line.error)}`);
    else {
      fact("this line", duration(line.ns));
      fact("with all that it calls", duration(line.whole));
      fact("times", `${count(line.count)}, ${duration(line.ns / line.count)} each`);
    }
    const kinds = Object.entries(line.parts).filter(([, ns]) => ns >= 0.01 * line.ns);
    if (kinds.length > 1) for (const [kind, ns] of kinds) fact(`  ${KINDS[kind]}`, `~${duration(ns)}`);
    if (line.looks) fact("looks", count(line.looks));
    const parts = [facts];
    if (line.calls) parts.push(element("p", `Mostly ${line.calls}`, { class: "soft small" }));
    return parts;
  }

  about(routine) {
    const facts = element("dl");
    const fact = (name, value) => facts.append(element("dt", name), element("dd", value, { class: "num" }));
    if (routine.group) fact("in", routine.group);
    fact(this.files[this.number].of === "libraries" ? "own time" : "time, with libraries", `${timeOf(routine.ns)}, ${shareOf(routine.share, 1)}`);
    const names = { own: KINDS.own, lib: "libraries", c: "C functions", layer: "models", backward: "backward", wait: "waiting, beside it" };
    const kinds = Object.entries(routine.parts).filter(([, ns]) => ns >= 0.001 * routine.ns);
    if (kinds.length > 1) for (const [kind, ns] of kinds) fact(`  ${names[kind] ?? kind}`, timeOf(ns));
    if (routine.whole !== null) fact("with all that it calls", timeOf(routine.whole));
    if (routine.calls) fact("calls", `${count(routine.calls)}, ${duration(routine.ns / routine.calls)} each`);
    if (!routine.callees.length) return [facts];
    const heading = element("h2", "Calls");
    heading.append(element("small", `libraries and C functions, ${exactness()}`));
    const largest = routine.callees[0].ns;
    const rows = routine.callees.map((callee) => {
      const row = element("div", undefined, { class: "callee" });
      const time = element("span", timeOf(callee.ns), { class: "num" });
      if (callee.calls) time.append(element("small", ` ${count(callee.calls)}×`));
      row.append(element("code", callee.name, { title: callee.name }), time, bar({ [callee.kind]: callee.ns }, largest));
      return row;
    });
    return [facts, heading, ...rows];
  }
}
