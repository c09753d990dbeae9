// A flame graph on a canvas: the root at the top, callees below, without boxes narrower than a
// pixel. It draws a tree of flame_tree.js from the node that it is zoomed to.
import { KINDS, hatched, palette } from "./kinds.js";
import { count, shareOf, timeOf } from "./numbers.js";
import { fitting, showTip } from "./tip.js";

const HEIGHT = 22; // of a row, in pixels
const TALL = 36; // of a row with two lines of text, in graphs of few rows
const MOST_TALL = 9; // rows, with the list below
const MOST_ALONE = 16;
const NARROWEST = 1;
const MOST_ROWS = 300; // below the zoomed node; deeper ones are drawn after zooming in
const MOST_ABOVE = 12;
const LEAST_TEXT = 34; // narrower boxes show no name
const DRAWING = 4; // ms per frame; the browser also needs time to show it
const AT_ONCE = 32; // boxes between readings of the clock
const MOST_PATHS = 50000;
const MOST_COUNTED = 2000; // boxes that are counted for that
const LOWEST = 30 * HEIGHT;

/** Grey for no change or noise, red for longer, blue for shorter; -1 to 1. */
function changeColor(change, dark) {
  if (change === null || change === 0) return dark ? "hsl(0 0% 34%)" : "hsl(0 0% 82%)";
  const strength = Math.min(1, Math.abs(change));
  const lightness = dark ? 30 + 12 * strength : 84 - 24 * strength;
  return `hsl(${change > 0 ? 8 : 215} ${30 + 50 * strength}% ${lightness}%)`;
}

/** The node and its callers, outermost first. */
export function pathTo(node) {
  const path = [];
  for (let at = node; at !== null; at = at.parent) path.unshift(at);
  return path;
}

/** The boxes of a tree: [node, x, width, depth], callers before callees and from above to below. */
export function* boxes(tree, zoomed, width) {
  const above = pathTo(zoomed).slice(-MOST_ABOVE);
  for (const [depth, node] of above.slice(0, -1).entries()) yield [node, 0, width, depth];
  const scale = zoomed.time > 0 ? width / zoomed.time : 0;
  const queue = [[zoomed, 0, zoomed.time * scale, above.length - 1]];
  for (const box of queue) { // it grows
    yield box;
    const [node, x, , depth] = box;
    if (depth >= above.length + MOST_ROWS) continue;
    let left = x;
    for (const child of tree.children(node)) {
      const wide = child.time * scale;
      if (wide < NARROWEST) break; // the rest is even narrower
      queue.push([child, left, wide, depth + 1]);
      left += wide;
    }
  }
}

export class Flame {
  /**
   * @param canvas takes focus, clicks and keys.
   * @param tip element in which a box is described.
   * @param onChange called with the zoomed node.
   * @param change optional: a node's color as a number from -1 to 1, null for noise.
   */
  constructor(canvas, tip, onChange, change) {
    Object.assign(this, { canvas, tip, onChange, change, said: canvas.nextElementSibling });
    this.matches = null;
    this.selected = null;
    canvas.addEventListener("mousemove", (event) => this.point(event));
    canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  show(tree, root) {
    this.canvas.height = 0; // the next tree may need less
    Object.assign(this, { tree, root, zoomed: root, selected: root });
    this.draw();
  }

  /** Highlight names that contain a text, and return the time of the outermost of them. */
  find(text) {
    const words = text.trim().toLowerCase();
    this.matches = words ? (node) => `${node.name} ${node.place}`.toLowerCase().includes(words) : null;
    this.draw();
  }

  zoom(node) {
    this.zoomed = node;
    this.select(node);
    this.onChange(node);
  }

  select(node) {
    this.selected = node;
    this.draw();
    this.said.textContent = this.described(node).join(", "); // for screen readers
  }

  described(node) {
    const lines = [node.name, node.place];
    if (!this.change) lines.push(`${timeOf(node.time)}, ${shareOf(node.time, this.root.time)}`);
    if (node.own !== null && !this.change) lines.push(`own: ${timeOf(node.own)}`);
    if (node.calls !== null) lines.push(`calls: ${count(node.calls)}`);
    if (this.change) lines.push(this.change.text(node));
    else if (node.key >= 0 && KINDS[node.color]) lines.push(KINDS[node.color]);
    if (node.lines?.length) lines.push("wherever it is called:", ...node.lines);
    return lines.filter(Boolean);
  }

  /** Draw from the next frame on, top to bottom, over several frames if necessary. */
  draw() {
    const width = this.canvas.clientWidth;
    if (!this.tree || width === 0) return;
    const waiting = boxes(this.tree, this.zoomed, width);
    Object.assign(this, { width, waiting, boxes: [], deepest: 0, row: this.isShallow() ? TALL : HEIGHT });
    this.height = this.row;
    this.resize(this.canvas.height / this.ratio());
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.more());
  }

  /** Whether few rows are drawn, which leaves room for taller ones. */
  isShallow() {
    if (this.tree.forest.rows > MOST_PATHS) return false; // counting would hold up the first picture
    const most = this.change ? MOST_ALONE : MOST_TALL;
    let count = 0;
    for (const [, , , depth] of boxes(this.tree, this.zoomed, this.canvas.clientWidth)) {
      if (depth >= most || ++count > MOST_COUNTED) return false;
    }
    return true;
  }

  /** Draw all at once, for printing. */
  drawAll() {
    this.draw();
    cancelAnimationFrame(this.frame);
    if (this.waiting) this.more(Infinity);
  }

  ratio() {
    return window.devicePixelRatio || 1;
  }

  more(time = DRAWING) {
    const until = performance.now() + time;
    const colors = this.colors();
    let goesOn = true;
    while (goesOn && performance.now() < until) goesOn = this.paintSome(colors) || this.placeSome();
    if (goesOn) this.frame = requestAnimationFrame(() => this.more());
    Object.assign(this.canvas.parentElement.style, { // the canvas may be higher; on paper it is narrower
      height: `${this.height}px`, aspectRatio: `${this.width} / ${this.height}`,
    });
  }

  /** Place some boxes. Returns whether more are left. */
  placeSome() {
    for (let count = 0; count < AT_ONCE; count++) {
      const { value: box, done } = this.waiting.next();
      if (done) break;
      this.boxes.push(box);
      this.height = Math.max(this.height, (box[3] + 1) * this.row);
    }
    if (this.height * this.ratio() > this.canvas.height) this.resize(1.2 * this.height);
    return this.painted < this.boxes.length;
  }

  /** Clear the canvas. It only ever grows, because allocating it takes time. */
  resize(height) {
    const wide = Math.round(this.width * this.ratio());
    const high = Math.round(Math.max(height, LOWEST) * this.ratio());
    if (this.canvas.width !== wide || this.canvas.height < high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.height = `${high / this.ratio()}px`;
    }
    this.painted = 0;
  }

  colors() {
    return palette();
  }

  /** Paint some of the placed boxes. Returns whether there were any. */
  paintSome(colors) {
    const context = this.canvas.getContext("2d", { alpha: false });
    const boxes = this.boxes.slice(this.painted, this.painted + AT_ONCE);
    if (boxes.length && this.painted === 0) this.clear(context, colors.paper);
    for (const box of boxes) this.paint(context, colors, box);
    this.painted += boxes.length;
    return boxes.length > 0;
  }

  clear(context, paper) {
    context.setTransform(this.ratio(), 0, 0, this.ratio(), 0, 0);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.hatch = hatched(context, this.colors());
    context.globalAlpha = 1;
    context.fillStyle = paper;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  paint(context, colors, [node, x, wide, depth]) {
    const y = depth * this.row;
    if (this.matches) context.globalAlpha = this.matches(node) ? 1 : 0.25;
    const waits = !this.change && node.color === "wait";
    context.fillStyle = this.change ? changeColor(this.change.of(node), colors.isDark)
      : waits ? this.hatch : colors.kinds[node.color] ?? colors.kinds.lib;
    context.fillRect(x, y, Math.max(wide - (wide > 3 ? 1 : 0.5), 0.5), this.row - 1);
    if (node === this.selected) {
      context.strokeStyle = colors.ink;
      context.strokeRect(x + 0.5, y + 0.5, Math.max(wide - 1.5, 0.5), this.row - 2);
    }
    if (wide < LEAST_TEXT) return;
    const ink = this.change ? colors.ink : colors.on(node.color);
    this.label(context, { ink, paper: waits ? colors.paper : null }, [node, x, wide, y]);
  }

  /** The name of a box, and where there is room its time and share: beside it, or below. */
  label(context, { ink, paper }, [node, x, wide, y]) {
    const room = wide - 10;
    if (this.row === TALL) { this.twoLines(context, { ink, paper }, [node, x, room, y]); return; }
    const [whole, brief] = this.took(node);
    const took = room > 190 ? whole : room > 110 ? brief : "";
    const beside = took ? context.measureText(took).width + 10 : 0;
    const name = fitting(context, node.name, room - beside);
    if (!name) return;
    const long = context.measureText(name).width;
    if (paper) {
      context.fillStyle = paper;
      context.fillRect(x + 3, y + 3, long + (took ? beside + 2 : 0) + 4, HEIGHT - 7);
    }
    context.fillStyle = ink;
    context.fillText(name, x + 5, y + HEIGHT / 2);
    if (took) context.fillText(took, x + 5 + long + 8, y + HEIGHT / 2);
  }

  /** A box's time in words, long and short: with its share, or, of a comparison, both times and the difference. */
  took(node) {
    if (!this.change) {
      const part = shareOf(node.time, this.root.time);
      return [`${timeOf(node.time)} · ${part}`, part];
    }
    const [before, after] = this.change.times(node);
    const sign = { 1: "+", [-1]: "-" }[Math.sign(after - before)] ?? "";
    const more = sign + timeOf(Math.abs(after - before));
    return [`${timeOf(before)} → ${timeOf(after)}`, more];
  }

  twoLines(context, { ink, paper }, [node, x, room, y]) {
    const took = [...this.took(node), ""].find((words) => context.measureText(words).width <= room);
    const lines = [fitting(context, node.name, room), took].filter(Boolean);
    lines.forEach((words, at) => {
      const middle = y + this.row / 2 + 15 * (at - (lines.length - 1) / 2);
      if (paper) {
        context.fillStyle = paper;
        context.fillRect(x + 3, middle - 8, context.measureText(words).width + 4, 15);
      }
      context.fillStyle = ink;
      context.fillText(words, x + 5, middle);
    });
  }

  at(event) {
    const depth = Math.floor(event.offsetY / this.row);
    const place = event.offsetX;
    const isHere = (box) => box[3] === depth && place >= box[1] && place < box[1] + box[2];
    return this.boxes?.find(isHere)?.[0] ?? null;
  }

  point(event) {
    const node = this.at(event);
    showTip(this.tip, node && this.described(node), event.clientX, event.clientY);
  }

  click(event) {
    const node = this.at(event);
    if (node !== null) this.zoom(node);
  }

  /** Arrow keys move in the tree, Enter zooms in, Escape and Backspace zoom out. */
  key(event) {
    const next = this.neighbor(event.key);
    if (event.key === "Enter") this.zoom(this.selected);
    else if (event.key === "Escape" || event.key === "Backspace") this.zoom(this.zoomed.parent ?? this.root);
    else if (next) this.select(next);
    else return;
    event.preventDefault();
  }

  neighbor(key) {
    const node = this.selected;
    if (key === "ArrowUp") return node.parent;
    if (key === "ArrowDown") return this.tree.children(node)[0];
    const siblings = node.parent ? this.tree.children(node.parent) : [];
    const at = siblings.indexOf(node);
    if (key === "ArrowLeft") return siblings[at - 1];
    if (key === "ArrowRight") return siblings[at + 1];
    return null;
  }
}
