// What time is spent in: one colour and one word for each kind, in every tab.
import { element } from "./table.js";

export const KINDS = {
  own: "your Python", layer: "models", forward: "forward", backward: "backward",
  data: "data", optimizer: "optimizer", checkpoint: "checkpoint", import: "imports",
  lib: "libraries", c: "C functions", gpu: "GPU work", wait: "waiting",
  rest: "other", exit: "exit",
};

/** Colours as the page's style has them: kind -> colour, ink -> colour of letters on it. */
export function palette() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  const kinds = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, value(`--${kind}`)]));
  const dark = new Set(["own"]);
  const on = (kind) => value(dark.has(kind) ? "--on-own" : ["rest", "exit", "c", "wait"].includes(kind) ? "--ink" : "--on");
  return {
    kinds, on, ink: value("--ink"), paper: value("--paper"), soft: value("--soft"),
    line: value("--line"), isDark: value("--dark") === "1",
  };
}

/** A pattern of stripes for what waits, in the colour of waiting. */
export function hatched(context, colors) {
  const tile = document.createElement("canvas");
  [tile.width, tile.height] = [6, 6];
  const painter = tile.getContext("2d");
  painter.fillStyle = colors.isDark ? "#2c3238" : "#eceff2";
  painter.fillRect(0, 0, 6, 6);
  painter.strokeStyle = colors.kinds.wait;
  painter.lineWidth = 1.6;
  for (const at of [-6, 0, 6]) {
    painter.beginPath();
    painter.moveTo(at, 6);
    painter.lineTo(at + 6, 0);
    painter.stroke();
  }
  return context.createPattern(tile, "repeat");
}

const SAME = [["layer", "forward"], ["rest", "exit"]]; // kinds of one colour

/** The colours that occur, with their words. @param words kind -> another word for it */
export function legend(kinds, words = new Map()) {
  const list = element("div", undefined, { class: "legend" });
  for (const kind of Object.keys(KINDS).filter((each) => kinds.has(each))) {
    const same = SAME.find((pair) => pair.includes(kind))?.filter((each) => kinds.has(each)) ?? [kind];
    if (same[0] !== kind) continue;
    const item = element("span");
    item.append(element("i", undefined, { class: `k-${kind}` }), same.map((each) => words.get(each) ?? KINDS[each]).join(", "));
    list.append(item);
  }
  return list;
}

/** A bar of parts {kind: ns}, as wide as their share of `whole`. */
export function bar(parts, whole) {
  const made = element("span", undefined, { class: "bar", "aria-hidden": "true" });
  for (const kind of Object.keys(KINDS).filter((each) => parts[each])) {
    const part = element("i", undefined, { class: `k-${kind}` });
    part.style.width = `${Math.max((100 * parts[kind]) / whole, 0.6)}%`;
    made.append(part);
  }
  return made;
}

const LEAST_FULL = 0.1; // share of its threads' time that a full bar stands for, at least

/** The share of a group's time that a full bar stands for: the largest in any group, so that bars can be compared. */
export function shareOfFullBar(groups) {
  return Math.max(...groups.flatMap((group) => [...group.places, ...group.apart].map(({ share }) => share)), LEAST_FULL);
}
