// Texts on a canvas and beside the pointer.
import { element } from "./table.js";

/** The part of a text that fits into so many pixels of a canvas; "" if hardly anything does. */
export function fitting(context, text, room) {
  const wide = (part) => context.measureText(part).width;
  if (wide(text) <= room) return text;
  let letters = Math.floor((room / wide(text)) * text.length) - 1;
  const cut = () => `${text.slice(0, letters).trimEnd()}…`;
  while (letters > 1 && wide(cut()) > room) letters -= 1; // its first letters may be wide ones
  return letters < 2 ? "" : cut();
}

/** @param lines a description, or null for none; x, y: a position in the window. */
export function showTip(tip, lines, x, y) {
  tip.hidden = lines === null;
  if (lines === null) return;
  tip.replaceChildren(...lines.map((line) => element("div", line)));
  const left = Math.min(x + 14, window.innerWidth - tip.offsetWidth - 8);
  const top = Math.min(y + 16, window.innerHeight - tip.offsetHeight - 8);
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${Math.max(top, 4)}px`;
}
