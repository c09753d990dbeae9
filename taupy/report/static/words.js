// Names in the words of people instead of TAU's: `work (a.py:4)`, `whole program`, `the main thread`.

const PLACE = / \[\{([^{}]*)\}(?:\{(\d+)\})?\]/g;
const ALONE = /\{([^{}]+)\}\{(\d+)\}/g;
const PHASE = /\bPHASE_([A-Z]+)/g;
const NAME = String.raw`(?:[^()]|\([^()]*\))*`; // a thread's may hold parentheses: "thread 12 (python3)"
const THREAD = new RegExp(String.raw`\b(?:NODE (\d+), CONTEXT (\d+)(?:, THREAD (\d+)(?: \((${NAME})\))?)?|` +
  String.raw`THREAD (\d+)\.(\d+)\.(\d+)(?:: (${NAME}?)(?= \((?:no|[\d,]+) steps?\b|$))?)`, "g");
const NAMED = /^(\d+)\.(\d+)\.(\d+) (\S.*)$/;
const CAPITALS = /^[A-Z]{2,}(?:[ ,]+(?:[A-Z]{2,}|[A-Z](?= )))*/;
const ABBREVIATIONS = /\b(gpu|cpu|cuda|nccl|mpi)(s?)\b/g;

/** A text of a table: a routine with its place, without the functions around it. */
export function plain(text) {
  return text
    .replaceAll(".taupy application", "whole program")
    .replace("(no phase)", "outside of phases")
    .replace(/^.* => .*$/, innermostFirst)
    .replace(PLACE, (_, file, line) => ` (${file}${line ? `:${line}` : ""})`)
    .replace(ALONE, "$1:$2")
    .replace(/\.?<locals>/g, "")
    .replace(PHASE, (_, name) => `phase ${name.toLowerCase()}`);
}

/** What the threads of a column are called; those of one name have their numbers, as everywhere (report/lanes.py). */
export function threadNames(labels) {
  const threads = [...new Set(labels)].map((label) => NAMED.exec(label ?? "")).filter(Boolean);
  const names = threads.map((parts) => named(...parts));
  const times = new Map();
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
  return new Map(threads.map(([label, , , number], at) =>
    [label, times.get(names[at]) > 1 ? `${names[at]} (${number})` : names[at]]));
}

/** A thread by its numbers and name, as `lane_name` in report/forest.py calls it. */
function named(_, node, context, number, name) {
  if (context !== "0") return `GPU ${context - 1}, ${name}`;
  const words = name === "MainThread" ? "main thread" : name;
  return node === "0" || words === `rank ${node}` ? words : `process ${node}, ${words}`;
}

/** A call path from its end, which is what a narrow column shows. */
function innermostFirst(path) {
  const steps = path.split(" => ");
  return steps.slice(steps[0] === "whole program" ? 1 : 0).reverse().join(" \u2190 ");
}

function thread(...match) {
  const [node, context, number, name] = [1, 2, 3, 4].map((at) => match[at] ?? match[at + 4]);
  if (context !== "0") {
    const stream = number ? `, ${name ?? `stream ${number}`}` : "";
    return `GPU ${context - 1}${stream}${node === "0" ? "" : ` of process ${node}`}`;
  }
  const words = number === "0" ? "main thread" : name ?? `thread ${number}`;
  return node === "0" ? `the ${words}` : `process ${node}, ${words}`;
}

/** A title, which terminals show in capitals. */
export function quiet(title) {
  const words = plain(title).replace(THREAD, thread).replace(CAPITALS, (capitals) =>
    capitals.toLowerCase().replace(ABBREVIATIONS, (_, word, many) => word.toUpperCase() + many));
  return words.slice(0, 1).toUpperCase() + words.slice(1);
}
