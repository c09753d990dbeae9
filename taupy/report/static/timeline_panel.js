// The tab of the timeline: a canvas with one lane per thread and stream.
import { memoryLane, phasesLane } from "./course.js";
import { KINDS, hatched, legend, palette } from "./kinds.js";
import { duration } from "./numbers.js";
import { after, spans, within } from "./timeline.js";
import { fitting, showTip } from "./tip.js";

const ROW = 19;
const LANE = 12; // between lanes
const HEAD = 24; // the times above
const LABELS = [110, 340]; // beside lanes, for their names: the least and the most
const MOST_LABEL = 0.3; // of the width
const NARROW = 700;
const TITLE = "600 13px system-ui, sans-serif";

/** What is left out, and how to record it. */
export function notes({ activities, of, names, isCapture }) {
  const has = (...kinds) => names.some(({ kind }) => kinds.includes(kind));
  return [
    of > activities && `The longest ${activities} of ${of} activities are shown.`,
    has("call") && "Calls of your own routines are shown from 1 ms on; their waiting, libraries and C functions are in them.",
    !isCapture && !has("call", "range") && "`taupy run --trace=host` also records when layers, phases and your own routines ran.",
  ].filter(Boolean);
}

export class TimelinePanel {
  /**
   * @param steps, memory what is known without a trace, or null.
   * @param keep called with the state to keep in the address: {from, to} in ns.
   */
  constructor(timeline, { panel, tip, from, to, keep, steps, memory }) {
    Object.assign(this, { timeline, panel, tip, keep });
    const part = (name) => panel.querySelector(`[data-part=${name}]`);
    this.canvas = part("canvas");
    this.said = part("said");
    const isTraced = timeline.names.some(({ kind }) => kind === "call" || kind === "range");
    this.below = [steps?.phases.length && !isTraced && phasesLane(steps), memory && memoryLane(memory)].filter(Boolean);
    this.shown = within([Number(from ?? 0), Number(to ?? timeline.end)], timeline.end);
    for (const [name, factor] of [["in", 0.5], ["out", 2]]) {
      part(name).addEventListener("click", () => this.scale(factor));
    }
    part("whole").addEventListener("click", () => this.look([0, timeline.end]));
    part("note").textContent = notes(timeline).join(" ");
    this.listen();
    this.legend(part("legend"));
  }

  legend(list) {
    const colors = this.timeline.names.map(({ color }) => color).filter((color) => color !== "c");
    list.replaceWith(legend(new Set([...colors, ...this.below.flatMap(({ kinds }) => kinds)])));
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

  /** The width of the lanes' names. */
  get left() {
    const width = this.canvas.clientWidth;
    if (width <= NARROW) return 0;
    this.longest ??= this.longestName();
    return Math.round(Math.min(Math.max(this.longest + 16, LABELS[0]), LABELS[1], MOST_LABEL * width));
  }

  longestName() {
    const context = this.canvas.getContext("2d", { alpha: false });
    context.save();
    context.font = TITLE;
    const wide = [...this.timeline.lanes, ...this.below].map(({ name }) => context.measureText(name).width);
    context.restore();
    return Math.max(...wide);
  }

  time(x) {
    const [from, to] = this.shown;
    return from + ((x - this.left) / (this.canvas.clientWidth - this.left)) * (to - from);
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
      "=": () => this.scale(0.5), "0": () => this.look([0, this.timeline.end]),
      Escape: () => this.look([0, this.timeline.end]),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation(); // digits choose tabs elsewhere
  }

  move(event) {
    if (this.held && event.buttons) {
      const [from, to] = this.held.shown;
      const far = ((this.held.x - event.offsetX) / (this.canvas.clientWidth - this.left)) * (to - from);
      this.look([from + far, to + far]);
    }
    const lines = this.described(event.offsetX, event.offsetY);
    showTip(this.tip, lines, event.clientX, event.clientY);
  }

  /** A description of the position on the canvas, or null. */
  described(x, y) {
    const { row, lane } = this.places?.find(({ top, lane: at }) => y >= top && y < top + (at?.height ?? ROW)) ?? {};
    if (lane) return lane.described(this.time(x));
    if (!row) return null;
    const pixel = (this.shown[1] - this.shown[0]) / (this.canvas.clientWidth - this.left);
    const at = after(row.start, this.time(x) + pixel / 2) - 1;
    if (at < 0 || row.end[at] < this.time(x) - pixel) return null;
    const { name, kind, color } = this.timeline.names[row.name[at]];
    const took = duration(row.end[at] - row.start[at]);
    return [name, KINDS[color] && color !== "c" ? KINDS[color] : kind, `${took}, from ${duration(row.start[at])} on`];
  }

  draw() {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    this.places = [];
    let top = HEAD;
    const titles = this.timeline.lanes.map((lane) => {
      if (!this.left) top += ROW;
      const title = [lane.name, this.left ? top + ROW / 2 : top - ROW / 2];
      for (const row of lane.rows) { this.places.push({ row, top }); top += ROW; }
      top += LANE;
      return title;
    });
    for (const lane of this.below) {
      if (!this.left) top += ROW;
      titles.push([lane.name, this.left ? top + ROW / 2 : top - ROW / 2]);
      this.places.push({ lane, top });
      top += lane.height + LANE;
    }
    this.paint(width, top, titles);
  }

  paint(width, height, titles) {
    const ratio = window.devicePixelRatio || 1;
    const { canvas, left } = this;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d", { alpha: false });
    const colors = palette();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.textBaseline = "middle";
    context.fillStyle = colors.paper;
    context.fillRect(0, 0, width, height);
    this.hatch = hatched(context, colors);
    context.font = "12px system-ui, sans-serif";
    this.paintTimes(context, width, height, colors);
    context.fillStyle = colors.ink;
    context.font = TITLE;
    context.textAlign = "left";
    for (const [title, y] of titles) context.fillText(fitting(context, title, (left || width) - 10), 0, y);
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, height);
    context.clip();
    context.font = "11px system-ui, sans-serif";
    const scale = (width - left) / (this.shown[1] - this.shown[0]);
    const x = Object.assign((ns) => left + (ns - this.shown[0]) * scale, { left });
    for (const { row, lane, top } of this.places) {
      if (lane) lane.paint(context, x, [top, lane.height, colors]);
      else this.paintRow(context, row, top, width - left, colors);
    }
    context.restore();
  }

  paintTimes(context, width, height, colors) {
    const { left } = this;
    const [from, to] = this.shown;
    const step = distance((to - from) / Math.max((width - left) / 110, 2));
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = left + ((at - from) / (to - from)) * (width - left);
      context.fillStyle = colors.line;
      context.fillRect(x, 18, 1, height);
      context.fillStyle = colors.soft;
      context.textAlign = x > width - 40 ? "right" : x < left + 20 ? "left" : "center";
      context.fillText(moment(at, step), x, 9);
    }
  }

  paintRow(context, row, top, width, colors) {
    const { left } = this;
    for (const [at, x, wide, busy] of spans(row, this.shown, width)) {
      const { name, color } = this.timeline.names[row.name[at]];
      context.fillStyle = color === "wait" ? this.hatch : colors.kinds[color] ?? colors.kinds.lib;
      if (color === "c" && at % 2) context.fillStyle = colors.kinds.rest; // steps: each apart from the next
      context.globalAlpha = 0.25 + 0.75 * busy;
      context.fillRect(left + x, top, Math.max(wide - (wide > 3 ? 1 : 0), 1), ROW - 2);
      context.globalAlpha = 1;
      if (wide < 16) continue;
      context.fillStyle = colors.on(color);
      const took = `  ${duration(row.end[at] - row.start[at])}`;
      const text = fitting(context, wide > 120 ? name + took : name, wide - 8)
        || fitting(context, name.replace(/^step /, ""), wide - 8);
      context.fillText(text, left + x + 4, top + ROW / 2 - 0.5);
    }
  }
}

/** A round distance of times, at least this. */
function distance(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((part) => part * power).find((each) => each >= least);
}

/** A time on an axis, with the digits that its step needs. */
function moment(ns, step) {
  const [unit, name] = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : [1e3, "us"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit)));
  return `${(ns / unit).toFixed(digits)} ${name}`;
}
