// Tables that can be sorted and filtered.
import { count, percent, shown } from "./numbers.js";
import { plain, quiet, threadNames } from "./words.js";

const MOST_ROWS = 200; // more are shown on request
const COUNTS = new Set(["int", "any", "float", "tau_count"]);
const MOST_BARS = 3; // columns
const MORE_ROWS = 1000; // at a time: a browser takes minutes for the layout of tens of thousands

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null); // unknown: last
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

/** The rows whose text contains all words of `text`, sorted by a column. */
export function arranged(rows, text, column, descending) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = rows.filter((row) => {
    const all = row.join(" ").toLowerCase();
    return words.every((word) => all.includes(word));
  });
  if (column === null) return kept;
  return kept.sort((a, b) => {
    if (a[column] === null || b[column] === null) return compare(a[column], b[column]);
    return descending ? compare(b[column], a[column]) : compare(a[column], b[column]);
  });
}

export function element(name, text, attributes = {}) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

/** The table without columns that are empty in all rows. */
export function filled(data) {
  const kept = data.columns.map((_, at) => at)
    .filter((at) => !data.rows.length || data.rows.some((row) => row[at] !== null && row[at] !== ""));
  return {
    ...data,
    columns: kept.map((at) => data.columns[at]),
    rows: data.rows.map((row) => kept.map((at) => row[at])),
  };
}

/** A cell in the words of people: whole numbers with separators, no exponents, no small share as 0. */
export function cell(value, { kind, right }) {
  if (kind === "percent" && value > 0 && percent(value) === "0.0") return "<0.1";
  const isLarge = right && COUNTS.has(kind) && typeof value === "number" && Math.abs(value) >= 1000;
  if (isLarge && (kind === "tau_count" || Number.isInteger(value))) return count(Math.round(value));
  return plain(shown(value, kind));
}

/** The table with threads called as elsewhere on the page. */
function withThreads(data) {
  const names = data.columns.map(({ kind }, at) =>
    (kind === "text" ? threadNames(data.rows.map((row) => row[at])) : new Map()));
  if (names.every(({ size }) => !size)) return data;
  return { ...data, rows: data.rows.map((row) => row.map((value, at) => names[at].get(value) ?? value)) };
}

export class SortedTable {
  /**
   * @param data {title, columns: [{heading, kind, right}], rows, notes}.
   * @param state {sort, find, keep}: `sort` ("2d" is the third column, descending) and `find` are
   *   the address's; `keep` is called with {sort, find} when they change.
   */
  constructor(data, { sort = "", find = "", keep = () => {} } = {}) {
    data = withThreads(filled(data));
    const column = parseInt(sort, 10);
    this.data = data;
    this.column = column < data.columns.length ? column : null;
    this.descending = sort.endsWith("d");
    this.text = find;
    this.keep = keep;
    this.most = MOST_ROWS;
  }

  /** The table's section. */
  element() {
    const section = element("section", undefined, { class: "table" });
    if (this.data.title) section.append(element("h3", quiet(this.data.title)));
    if (this.data.rows.length > 12 || this.text) section.append(this.filter());
    const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "region",
      "aria-label": quiet(this.data.title) || "table" });
    this.table = element("table");
    scroll.append(this.table);
    this.more = element("button", "", { class: "more" });
    this.more.addEventListener("click", () => { this.most += MORE_ROWS; this.fill(); });
    section.append(scroll, this.more);
    for (const note of this.data.notes) section.append(element("p", plain(note), { class: "note" }));
    this.fill();
    return section;
  }

  filter() {
    const label = element("label", "filter ");
    const input = element("input", undefined, { type: "search" });
    input.value = this.text;
    input.addEventListener("input", () => {
      this.text = input.value;
      this.keep({ find: this.text });
      this.fill();
    });
    label.append(input);
    return label;
  }

  fill() {
    const rows = arranged([...this.data.rows], this.text, this.column, this.descending);
    const head = element("thead");
    head.append(this.heading());
    const body = element("tbody");
    body.append(...rows.slice(0, this.most).map((row) => this.row(row)));
    this.table.replaceChildren(head, body);
    this.more.hidden = rows.length <= this.most;
    const next = Math.min(rows.length - this.most, MORE_ROWS);
    this.more.textContent = `show ${count(next)} more of ${count(rows.length)} rows`;
  }

  heading() {
    const row = element("tr");
    this.data.columns.forEach((column, at) => {
      const cell = element("th", undefined, { scope: "col", "aria-sort": this.order(at) });
      const button = element("button", column.heading);
      button.addEventListener("click", () => this.sort(at, column.right));
      cell.append(button);
      if (column.right) cell.className = "right";
      row.append(cell);
    });
    return row;
  }

  order(at) {
    if (at !== this.column) return "none";
    return this.descending ? "descending" : "ascending";
  }

  sort(at, numeric) {
    this.descending = at === this.column ? !this.descending : numeric;
    this.column = at;
    this.keep({ sort: `${at}${this.descending ? "d" : ""}` });
    this.fill();
    this.table.querySelectorAll("th button")[at].focus(); // the previous button was replaced
  }

  /** The columns with bars: the first times, which say what there is to gain; no differences. */
  get barred() {
    const isTime = ({ kind, heading }, at) => kind === "time_ns" && !/error|per |^(after|from)\b/i.test(heading)
      && this.data.rows.every((row) => row[at] === null || row[at] >= 0);
    this.times ??= new Set(this.data.columns.map((_, at) => at).filter((at) => isTime(this.data.columns[at], at)).slice(0, MOST_BARS));
    return this.times;
  }

  /** The largest time with a bar: those of a row are as long as they compare. */
  get largest() {
    this.most_of ??= this.data.rows.reduce((most, row) => Math.max(most, ...[...this.barred].map((at) => row[at] ?? 0)), 0) || 1;
    return this.most_of;
  }

  row(values) {
    const row = element("tr");
    this.data.columns.forEach((column, at) => {
      const made = element("td", cell(values[at], column));
      if (column.right) made.className = "right";
      if (this.barred.has(at) && values[at] !== null) {
        made.style.setProperty("--share", `${(100 * values[at]) / this.largest}%`);
        made.classList.add("bar");
      }
      if (/percent$/.test(column.kind) && values[at] !== null) {
        made.style.setProperty("--share", `${Math.min(100, Math.max(0, values[at]))}%`);
        made.classList.add("bar");
      }
      row.append(made);
    });
    return row;
  }
}
