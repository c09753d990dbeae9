// The tab of source text, with what the chosen line does.
import { KINDS, bar, legend } from "./kinds.js";
import { Listing, about, exactness } from "./listing.js";
import { count, duration, shareOf, timeOf } from "./numbers.js";
import { element } from "./table.js";

const FOLDED = 4; // so many lines without time become one
const AROUND = 1; // lines that stay beside a definition

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
