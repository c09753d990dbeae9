// The tab of the timeline: a canvas with one lane per thread and stream.
import { duration } from "./numbers.js";
import { element } from "./table.js";
import { after, spans, within } from "./timeline.js";
import { showTip } from "./tip.js";

const ROW = 14;
const LANE = 22; // the title of a lane
const COLORS = { kernel: 130, copy: 205, memset: 180, api: 35, sync: 0, range: 265, call: 48 };

export class TimelinePanel {
  /** @param keep called with the state to keep in the address: {from, to} in ns. */
  constructor(timeline, { panel, tip, from, to, keep }) {
    Object.assign(this, { timeline, panel, tip, keep });
    const part = (name) => panel.querySelector(`[data-part=${name}]`);
    this.canvas = part("canvas");
    this.said = part("said");
    this.shown = within([Number(from ?? 0), Number(to ?? timeline.end)], timeline.end);
    for (const [name, factor] of [["in", 0.5], ["out", 2]]) {
      part(name).addEventListener("click", () => this.scale(factor));
    }
    part("whole").addEventListener("click", () => this.look([0, timeline.end]));
    if (timeline.of > timeline.count) {
      part("note").textContent = `The longest ${timeline.count} of ${timeline.of} activities are shown.`;
    }
    this.listen();
    this.legend(part("legend"));
  }

  legend(list) {
    const kinds = [...new Set(this.timeline.names.map(({ kind }) => kind))];
    for (const kind of kinds) {
      const item = element("span", kind);
      item.style.setProperty("--hue", COLORS[kind] ?? 300);
      list.append(item);
    }
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("mousemove", (event) => this.move(event));
    canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("mousedown", (event) => { this.held = { x: event.offsetX, shown: this.shown }; });
    window.addEventListener("mouseup", () => { this.held = null; });
    canvas.addEventListener("dblclick", (event) => this.scale(0.25, this.time(event.offsetX)));
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const event of ["resize", "beforeprint"]) window.addEventListener(event, () => this.draw());
  }

  time(x) {
    const [from, to] = this.shown;
    return from + (x / this.canvas.clientWidth) * (to - from);
  }

  /** Show a part, and keep it in the address. */
  look(part) {
    const { end } = this.timeline;
    this.shown = within(part, end);
    const [from, to] = this.shown;
    const isWhole = from === 0 && to === end;
    this.keep(isWhole ? { from: "", to: "" } : { from: Math.round(from), to: Math.round(to) });
    this.said.textContent = `${duration(from)} to ${duration(to)} of ${duration(end)}`;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  scale(factor, around = (this.shown[0] + this.shown[1]) / 2) {
    const [from, to] = this.shown;
    this.look([around - (around - from) * factor, around + (to - around) * factor]);
  }

  shift(share) {
    const [from, to] = this.shown;
    this.look([from + share * (to - from), to + share * (to - from)]);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    this.scale(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, this.time(event.offsetX));
  }

  key(event) {
    const act = {
      ArrowLeft: () => this.shift(-0.2), ArrowRight: () => this.shift(0.2),
      "+": () => this.scale(0.5), "-": () => this.scale(2),
      Escape: () => this.look([0, this.timeline.end]),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  }

  move(event) {
    if (this.held && event.buttons) {
      const [from, to] = this.held.shown;
      const far = ((this.held.x - event.offsetX) / this.canvas.clientWidth) * (to - from);
      this.look([from + far, to + far]);
    }
    const lines = this.described(event.offsetX, event.offsetY);
    showTip(this.tip, lines, event.clientX, event.clientY);
  }

  /** A description of the position on the canvas, or null. */
  described(x, y) {
    const row = this.places?.find(({ top }) => y >= top && y < top + ROW)?.row;
    if (!row) return null;
    const pixel = (this.shown[1] - this.shown[0]) / this.canvas.clientWidth;
    const at = after(row.start, this.time(x) + pixel / 2) - 1;
    if (at < 0 || row.end[at] < this.time(x) - pixel) return null;
    const { name, kind } = this.timeline.names[row.name[at]];
    const took = duration(row.end[at] - row.start[at]);
    return [name, kind, `${took}, from ${duration(row.start[at])} on`];
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    this.places = [];
    let top = LANE;
    const titles = this.timeline.lanes.map((lane) => {
      const title = [lane.name, top + LANE - 8];
      top += LANE;
      for (const row of lane.rows) { this.places.push({ row, top }); top += ROW; }
      return title;
    });
    this.paint(width, top + 6, titles);
  }

  paint(width, height, titles) {
    const ratio = window.devicePixelRatio || 1;
    const { canvas } = this;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d", { alpha: false });
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = color("--paper");
    context.fillRect(0, 0, width, height);
    this.paintTimes(context, width, height, color);
    context.globalAlpha = 1;
    context.fillStyle = color("--ink");
    for (const [title, y] of titles) context.fillText(title, 2, y);
    for (const { row, top } of this.places) this.paintRow(context, row, top, width, color);
  }

  paintTimes(context, width, height, color) {
    const [from, to] = this.shown;
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const x = Math.min(Math.round(part * width), width - 1);
      context.fillStyle = color("--line");
      context.fillRect(x, 14, 1, height);
      context.fillStyle = color("--faint");
      context.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
      const later = `+${duration(part * (to - from))}`;
      context.fillText(part === 0 ? duration(from) : later, x, 10);
    }
    context.textAlign = "left";
  }

  paintRow(context, row, top, width, color) {
    const dark = color("--dark") === "1";
    for (const [at, x, wide, busy] of spans(row, this.shown, width)) {
      const { name, kind } = this.timeline.names[row.name[at]];
      context.fillStyle = `hsl(${COLORS[kind] ?? 300} 50% ${dark ? 42 : 68}%)`;
      context.globalAlpha = 0.25 + 0.75 * busy;
      context.fillRect(x, top, Math.max(wide - (wide > 3 ? 1 : 0), 1), ROW - 1);
      if (wide < 40) continue;
      context.fillStyle = color("--ink");
      const letters = Math.floor((wide - 6) / 6);
      context.fillText(name.length <= letters ? name : `${name.slice(0, letters - 1)}…`, x + 3, top + 10);
    }
  }
}
