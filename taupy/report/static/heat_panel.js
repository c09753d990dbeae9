// The map of ranks and steps: a canvas with one row per rank.
import { labelled } from "./heat.js";
import { duration } from "./numbers.js";
import { element } from "./table.js";
import { showTip } from "./tip.js";

const LEFT = 56; // for the ranks' numbers
const TOP = 16; // for the steps' numbers
const HIGHEST = 20;
const TALL = 640;
const WORDS = { time: "took", own: "without waiting", wait: "waited" };

export class HeatPanel {
  /** @param keep called with the state to keep in the address: {heat: "own", "wait" or ""}. */
  constructor(heat, { panel, tip, shown, keep }) {
    Object.assign(this, { heat, panel, tip, keep });
    const part = (name) => panel.querySelector(`[data-part=${name}]`);
    this.parts = Object.fromEntries(
      ["quantity", "canvas", "said", "low", "high", "note"].map((name) => [name, part(name)]),
    );
    this.parts.quantity.value = WORDS[shown] ? shown : "time";
    this.at = [0, 0];
    this.listen();
    const joined = heat.first[1] - heat.first[0] > 1;
    this.parts.note.hidden = !joined;
  }

  get name() {
    return this.parts.quantity.value;
  }

  listen() {
    const { canvas, quantity } = this.parts;
    quantity.addEventListener("change", () => {
      this.keep({ heat: this.name === "time" ? "" : this.name });
      this.draw();
    });
    canvas.addEventListener("mousemove", (event) => this.move(event));
    canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.draw());
    for (const event of ["resize", "beforeprint"]) window.addEventListener(event, () => this.draw());
  }

  /** The cell at a position on the canvas, or null. */
  cell(x, y) {
    const row = Math.floor((y - TOP) / this.high);
    const column = Math.floor(((x - LEFT) / (this.parts.canvas.clientWidth - LEFT)) * this.heat.wide);
    const inside = row >= 0 && row < this.heat.ranks.length && column >= 0 && column < this.heat.wide;
    return inside ? [row, column] : null;
  }

  described([row, column]) {
    const { heat } = this;
    const times = Object.entries(WORDS).map(([name, word]) => {
      const value = heat.value(name, row, column);
      return value === null ? `${word}: not known` : `${word} ${duration(value)}`;
    });
    return [`rank ${heat.ranks[row]}, ${heat.steps(column)}`, ...times];
  }

  move(event) {
    const cell = this.cell(event.offsetX, event.offsetY);
    showTip(this.tip, cell && this.described(cell), event.clientX, event.clientY);
  }

  key(event) {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    const most = [this.heat.ranks.length - 1, this.heat.wide - 1];
    this.at = this.at.map((place, axis) => Math.min(Math.max(place + move[axis], 0), most[axis]));
    this.parts.said.textContent = this.described(this.at).join(", ");
    this.draw();
    event.preventDefault();
  }

  draw() {
    const { heat } = this;
    const { canvas, low, high } = this.parts;
    const width = canvas.clientWidth;
    if (width === 0) return;
    this.high = Math.max(1, Math.min(HIGHEST, Math.floor(TALL / heat.ranks.length)));
    const height = TOP + this.high * heat.ranks.length;
    const ratio = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    canvas.style.height = `${height}px`;
    const [least, most] = heat.ends(this.name);
    low.textContent = duration(least);
    high.textContent = `${duration(most)} or more`;
    const context = canvas.getContext("2d", { alpha: false });
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = color("--paper");
    context.fillRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    const shades = [color("--cold"), color("--hot"), color("--line")].map(rgb);
    context.drawImage(this.image(shades), LEFT, TOP, width - LEFT, height - TOP);
    this.paintLabels(context, width, color);
    if (document.activeElement === canvas) this.paintCursor(context, width, color);
  }

  /** The cells, one pixel each. */
  image([cold, hot, none]) {
    const { heat, name } = this;
    const [wide, tall] = [heat.wide, heat.ranks.length];
    const canvas = element("canvas", undefined, { width: wide, height: tall });
    const context = canvas.getContext("2d");
    const image = context.createImageData(wide, tall);
    for (let row = 0, at = 0; row < tall; row++) {
      for (let column = 0; column < wide; column++, at += 4) {
        const shade = heat.shade(name, row, column);
        for (let part = 0; part < 3; part++) {
          image.data[at + part] = shade === null
            ? none[part] : cold[part] + shade * (hot[part] - cold[part]);
        }
        image.data[at + 3] = 255;
      }
    }
    context.putImageData(image, 0, 0);
    return canvas;
  }

  paintLabels(context, width, color) {
    const { heat, high } = this;
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = color("--faint");
    context.textAlign = "right";
    const tall = heat.ranks.length;
    for (const row of labelled(tall, (tall * high) / 14)) {
      const text = row === 0 ? `rank ${heat.ranks[row]}` : `${heat.ranks[row]}`;
      context.fillText(text, LEFT - 6, TOP + (row + 0.5) * high + 4);
    }
    const column = (width - LEFT) / heat.wide;
    context.textAlign = "left";
    for (const at of labelled(heat.wide, (width - LEFT) / 70)) {
      const text = at === 0 ? `step ${heat.first[at]}` : `${heat.first[at]}`;
      context.fillText(text, LEFT + at * column, 11);
    }
  }

  paintCursor(context, width, color) {
    const [row, at] = this.at;
    const column = (width - LEFT) / this.heat.wide;
    context.strokeStyle = color("--ink");
    context.lineWidth = 2;
    context.strokeRect(LEFT + at * column, TOP + row * this.high, Math.max(column, 3), Math.max(this.high, 3));
  }
}

/** The components of a colour `#rrggbb`. */
function rgb(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}
