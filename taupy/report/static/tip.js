// What is shown beside the pointer.
import { element } from "./table.js";

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
