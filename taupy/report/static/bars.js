// Times beside each other: a bar for each GPU, or for each side of a comparison.
import { shown } from "./numbers.js";
import { element } from "./table.js";
import { plain } from "./words.js";

/** Each part's share of the widest bar, and its text: {kind, width in %, text}. */
export function segments(rows) {
  const sums = rows.map(({ parts }) => parts.reduce((sum, { ns }) => sum + ns, 0));
  const widest = Math.max(1, ...sums);
  return rows.map(({ parts }, at) => parts.map(({ kind, words, ns }) => ({
    kind, width: (100 * ns) / widest,
    text: `${words} ${shown(ns, "time_ns")} (${((100 * ns) / Math.max(1, sums[at])).toFixed(1)} %)`,
  })));
}

/** @param rows [{name, note, named, parts: [{kind, words, ns}]}] */
export function bars(rows) {
  const figure = element("div", undefined, { class: "bars" });
  segments(rows).forEach((parts, at) => {
    const { name, note, named } = rows[at];
    const text = parts.map((part) => part.text).join(", ");
    const made = element("span", undefined, { class: "bar", role: "img", "aria-label": `${name}: ${text}` });
    for (const part of parts) {
      const piece = element("i", undefined, { class: `k-${part.kind}`, title: part.text });
      piece.style.width = `${part.width}%`;
      made.append(piece);
    }
    const head = element("div", undefined, { class: "name" });
    head.append(element("code", plain(name)), element("span", note, { class: "soft" }));
    figure.append(...(name || note ? [head, made] : [made]));
    if (named) figure.append(wordsOf(parts));
  });
  return figure;
}

function wordsOf(parts) {
  const list = element("div", undefined, { class: "legend" });
  for (const part of parts) {
    const item = element("span");
    item.append(element("i", undefined, { class: `k-${part.kind}` }), part.text);
    list.append(item);
  }
  return list;
}
