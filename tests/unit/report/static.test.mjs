// Unit tests of the page's modules: node --test tests/unit/report/static.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import { read, written } from "../../../taupy/report/static/address.js";
import { segments } from "../../../taupy/report/static/bars.js";
import { extent, nearest, polyline } from "../../../taupy/report/static/chart.js";
import { Change } from "../../../taupy/report/static/change.js";
import { memoryLane, phasesLane } from "../../../taupy/report/static/course.js";
import { boxes, pathTo } from "../../../taupy/report/static/flame.js";
import { foldedRows, hottest, Inverted, outermostWhere, TopDown } from "../../../taupy/report/static/flame_tree.js";
import { Forest } from "../../../taupy/report/static/forest.js";
import { Heat, labelled } from "../../../taupy/report/static/heat.js";
import { shareOfFullBar } from "../../../taupy/report/static/kinds.js";
import { after, spans, Timeline, within } from "../../../taupy/report/static/timeline.js";
import { outline, scales } from "../../../taupy/report/static/roofline.js";
import { plain, quiet } from "../../../taupy/report/static/words.js";
import { count, estimate, shareOf, timeOf } from "../../../taupy/report/static/numbers.js";
import { besideSteps, hidesMost } from "../../../taupy/report/static/overview.js";
import { fitting } from "../../../taupy/report/static/tip.js";
import { arranged, cell, SortedTable } from "../../../taupy/report/static/table.js";

// main 100 (own 10) -> f 60 (own 20) -> g 40; main -> g 30; another thread: f 5
const ROWS = [
  // depth, timer, calls + 1, own, rest, and a verdict (default 0)
  [0, 0, 2, 10, 0],
  [1, 1, 4, 20, 0],
  [2, 2, 11, 40, 0],
  [1, 2, 6, 30, 0],
  [0, 1, 2, 5, 0],
];
const NAMES = [
  { name: "main", place: "a.py:1", kind: 0, groups: "PYTHON" },
  { name: "f", place: "site-packages/l.py:2", kind: 1, groups: "PYTHON" },
  { name: "g", place: "site-packages/l.py:9", kind: 1, groups: "PYTHON|LAYER" },
];
const THREADS = [
  { name: "0.0.0 main", kind: "host", node: 0, side: 0, start: 0 },
  { name: "0.0.1 other", kind: "host", node: 0, side: 1, start: 4 },
];

function forest(rows = ROWS, extra = {}) {
  const bytes = [];
  for (const column of [0, 1, 2, 3, 4, 5]) {
    for (const row of rows) {
      const value = row[column] ?? 0;
      bytes.push(value >= 0 ? 2 * value : -2 * value - 1);
    }
  }
  const widths = { depth: 1, timer: 1, calls: 1, own: 1, rest: 1, verdict: 1 };
  return new Forest(Uint8Array.from(bytes), {
    rows: rows.length, widths, names: NAMES, threads: THREADS, ...extra,
  });
}

const names = (nodes) => nodes.map((node) => [node.name, node.time]);

test("a forest adds up what it holds", () => {
  const trees = forest();
  assert.deepEqual([...trees.parent], [-1, 0, 1, 0, -1]);
  assert.deepEqual([...trees.time], [100, 60, 40, 30, 5]);
  assert.deepEqual([...trees.thread], [0, 0, 0, 0, 1]);
  assert.deepEqual(trees.roots(), [0, 4]);
});

test("negative numbers and wide ones come back", () => {
  const rows = [[0, 0, 1, -5, 7]];
  const trees = forest(rows);
  assert.deepEqual([trees.own[0], trees.time[0]], [-5, 2]);
  const wide = new Forest(Uint8Array.from([0, 0, 0, 0, 2, 0, 0]), {
    rows: 1, widths: { depth: 1, timer: 1, calls: 1, own: 2, rest: 1, verdict: 1 }, names: NAMES, threads: [],
  });
  assert.equal(wide.own[0], 256);
});

test("from the root down, threads together", () => {
  const tree = new TopDown(forest(), null);
  const root = tree.of([0, 4], "all");
  assert.deepEqual(names(root.children), [["main", 100], ["f", 5]]);
  const [main] = root.children;
  assert.deepEqual(names(tree.children(main)), [["f", 60], ["g", 30]]);
  assert.deepEqual([main.own, main.calls], [10, 1]);
  assert.deepEqual(pathTo(tree.children(main)[0]).map((node) => node.name), ["all", "main", "f"]);
});

test("inverted: routines by own time, callers below", () => {
  const trees = forest();
  const tree = new Inverted(trees, null, trees.own);
  const root = tree.of([0, 1, 2, 3, 4], "all");
  assert.deepEqual(names(root.children), [["g", 70], ["f", 25], ["main", 10]]);
  assert.deepEqual(names(tree.children(root.children[0])), [["f", 40], ["main", 30]]);
  assert.equal(root.time, 105);
});

test("a library is folded into the call that enters it", () => {
  const trees = forest();
  const folded = foldedRows(trees);
  assert.deepEqual([...folded], [0, 0, 1, 0, 0]);
  const tree = new TopDown(trees, folded);
  const [main] = tree.of([0], "all").children;
  const [f] = tree.children(main);
  assert.deepEqual([f.time, f.own, tree.children(f).length], [60, 60, 0]);
  const inverted = new Inverted(trees, folded, trees.own);
  assert.deepEqual(names(inverted.of([0, 1, 2, 3, 4], "all").children),
    [["f", 65], ["g", 30], ["main", 10]]);
});

test("a library that waits in what is folded into it waits", () => {
  // main 1 -> f 2 -> g 40 (waits) -> f 30; main -> f 9: of the calls of f, most of the time
  const rows = [[0, 0, 2, 1, 0], [1, 1, 2, 2, 0], [2, 2, 2, 40, 0], [3, 1, 2, 30, 0], [1, 1, 2, 9, 0]];
  const trees = forest(rows, { names: NAMES.map((name, at) => ({ ...name, color: ["own", "lib", "wait"][at] })) });
  const tree = new TopDown(trees, foldedRows(trees));
  const [main] = tree.of([0], "all").children;
  const [f] = tree.children(main);
  assert.deepEqual([main.color, f.color, f.time, f.own], ["own", "wait", 81, 81]);
  assert.deepEqual(hottest(tree, main).map(({ name, color }) => [name, color]), [["main", "own"], ["f", "wait"]]);
  const open = new TopDown(trees, null);
  const [apart] = open.children(open.of([0], "all").children[0]);
  assert.deepEqual([apart.name, apart.color], ["f", "lib"]);
});

test("recursion counts once", () => {
  const rows = [[0, 1, 2, 1, 0], [1, 1, 2, 2, 0], [2, 1, 2, 4, 0]];
  assert.deepEqual(outermostWhere(forest(rows), (name) => name.name === "f"), [0]);
});

test("calls that were not counted are unknown", () => {
  const tree = new TopDown(forest([[0, 0, 0, 3, 0]]), null);
  assert.equal(tree.of([0], "all").children[0].calls, null);
});

test("boxes of what is zoomed to, and its callers at full width", () => {
  const tree = new TopDown(forest(), null);
  const root = tree.of([0], "all");
  const [main] = root.children;
  const [f] = tree.children(main);
  const placed = [...boxes(tree, f, 400)].map(([node, x, wide, depth]) => [node.name, x, wide, depth]);
  assert.deepEqual(placed.slice(0, 3), [["all", 0, 400, 0], ["main", 0, 400, 1], ["f", 0, 400, 2]]);
  assert.deepEqual(placed[3].slice(0, 2), ["g", 0]);
  assert.ok(Math.abs(placed[3][2] - (400 * 40) / 60) < 1e-9);
  assert.deepEqual([...boxes(tree, root, 0)].length, 1); // nothing is as wide as a pixel
});

test("a change is grey within noise, and full at the half", () => {
  const trees = forest(ROWS, { compares: true });
  const nodes = new TopDown(trees, null).of([1, 4], "all").children;
  const [f] = nodes; // 60 in the first trial, 5 in the second
  const change = new Change(trees);
  assert.deepEqual(change.times(f), [60, 5]);
  assert.ok(change.of(f) < -1);
  assert.match(change.text(f), /60 ns → 5 ns, -91.7 %$/);
  const [callers] = new Inverted(trees, null, trees.time).of([1, 4], "callers of f").children;
  assert.deepEqual(change.times(callers), [60, 5]); // with callees, as the tree itself
});

function judgedNode(verdict) {
  const rows = ROWS.map((row) => [...row, row[1] === 1 ? verdict : 0]);
  const trees = forest(rows, { compares: true, judged: true });
  return [new Change(trees), new TopDown(trees, null).of([1, 4], "all").children[0]];
}

test("where changes were tested, only what passed is colored", () => {
  const said = [0, 1, 2].map((verdict) => {
    const [change, f] = judgedNode(verdict);
    return [change.of(f) === null, /\(.*\)|$/.exec(change.text(f))[0]];
  });
  assert.deepEqual(said, [[true, "(not tested)"], [true, "(within noise)"], [false, ""]]);
});

test("an inverted tree has the verdicts on own times", () => {
  const trees = forest(ROWS, { compares: true, judged: true });
  trees.names = trees.names.map((name) => ({ ...name, verdict: 1 }));
  const tree = new Inverted(trees, null, trees.own);
  const [g, f] = tree.of([0, 1, 2, 3, 4], "all").children;
  const change = new Change(trees);
  assert.equal(change.of(f), null);
  assert.match(change.text(f), /within noise/);
  assert.match(change.text(tree.children(f)[0]), /not in B/);
  assert.notEqual(change.of(g), null); // only in the first trial
});

test("rows are filtered by all words and sorted, unknown ones last", () => {
  const rows = [["conv one", 2], ["conv two", null], ["pool", 3], ["conv three", 10]];
  assert.deepEqual(arranged(rows.slice(), "CONV", 1, true).map((row) => row[1]), [10, 2, null]);
  assert.deepEqual(arranged(rows.slice(), "conv t", 1, false).map((row) => row[1]), [10, null]);
});

test("the address keeps what is shown", () => {
  const settings = { tab: "flame", find: "a&b=c #1", zoom: "f\u001fg" };
  assert.deepEqual(read(written(settings)), settings);
  assert.equal(written({ tab: "overview", find: "" }), "#tab=overview");
});

test("a cursor finds the nearest point", () => {
  const points = [[0, 5], [10, 6], [30, 7]];
  assert.deepEqual([-4, 6, 19, 21, 99].map((place) => nearest(points, place)), [0, 1, 1, 2, 2]);
});

test("counts have separators", () => {
  assert.deepEqual([0, 999, 1000, 1234567].map(count), ["0", "999", "1,000", "1,234,567"]);
});

test("a line begins at the left and ends at the right", () => {
  const series = [{ points: [[0, 0], [10, 4]] }];
  assert.deepEqual(extent(series), [10, 0, 4]);
  assert.equal(polyline(series[0].points, extent(series)), "76.0,196.0 890.0,10.0");
  const negative = [{ points: [[0, -2], [10, 2]] }];
  assert.equal(polyline(negative[0].points, extent(negative)), "76.0,196.0 890.0,10.0");
});

// A lane of two rows: [100, 200), [300, 301), [302, 303), [304, 404) above [120, 150).
function timeline() {
  const columns = [[100, 200, 2, 2, 120], [100, 1, 1, 100, 30], [0, 1, 1, 0, 1]];
  const bytes = columns.flatMap((values) => [
    ...values.map((value) => (2 * value) % 256), ...values.map((value) => (2 * value) >> 8),
  ]);
  return new Timeline(Uint8Array.from(bytes), {
    count: 5, of: 5, end: 404, widths: { gap: 2, length: 2, name: 2 },
    names: [{ name: "gemm", kind: "kernel" }, { name: "copy", kind: "copy" }],
    lanes: [{ name: "0.1.0 stream 7", kind: "stream", rows: [4, 1] }],
  });
}

test("activities stand where they began", () => {
  const [lane] = timeline().lanes;
  assert.deepEqual(lane.rows.map(({ start, end }) => [[...start], [...end]]),
    [[[100, 300, 302, 304], [200, 301, 303, 404]], [[120], [150]]]);
  assert.deepEqual([...lane.rows[0].name], [0, 1, 1, 0]);
});

test("what is narrower than a pixel is drawn once for each pixel, and nothing wide is lost", () => {
  const [row] = timeline().lanes[0].rows;
  assert.deepEqual([...spans(row, [0, 404], 404)].map(([at, x, , busy]) => [at, x, busy]),
    [[0, 100, 1], [1, 300, 1], [2, 302, 1], [3, 304, 1]]);
  const coarse = [...spans(row, [0, 404], 101)];
  assert.deepEqual(coarse.map(([at, , , busy]) => [at, busy]), [[0, 1], [1, 0.5], [3, 1]]);
  assert.ok(coarse.every(([, x, wide]) => x >= 0 && x + wide <= 101));
  assert.deepEqual([...spans(row, [150, 160], 10)].map(([at, x, wide]) => [at, x, wide]), [[0, 0, 10]]);
  assert.deepEqual([...spans(row, [210, 220], 10)], []);
});

test("a part of the time lies within the whole", () => {
  assert.deepEqual(within([-50, 50], 400), [0, 100]);
  assert.deepEqual(within([350, 450], 400), [300, 400]);
  assert.deepEqual(within([0, 900], 400), [0, 400]);
  assert.equal(after([1, 3, 3, 5], 3), 3);
});

test("a map of ranks has its colours between the ends, and knows what is not known", () => {
  // two ranks, three columns of two steps; times in us, zigzag-coded: -1 is 1
  const bytes = new Uint8Array([10, 20, 1, 30, 40, 50].map((value) => (value === 1 ? 1 : 2 * value)));
  const heat = new Heat(bytes, { ranks: [0, 7], first: [1, 3, 5, 6], unit: 1000, widths: { time: 1 } });
  assert.equal(heat.value("time", 1, 0), 30_000);
  assert.equal(heat.value("time", 0, 2), null);
  assert.equal(heat.shade("time", 0, 2), null);
  assert.deepEqual([heat.shade("time", 0, 0), heat.shade("time", 1, 2)], [0, 1]);
  assert.deepEqual(heat.ends("time"), [10_000, 40_000]); // one in a hundred may be beyond
  assert.equal(heat.steps(1), "steps 3 to 4");
  assert.equal(heat.steps(2), "step 5");
});

test("labels have room", () => {
  assert.deepEqual(labelled(4, 10), [0, 1, 2, 3]);
  assert.deepEqual(labelled(100, 6), [0, 20, 40, 60, 80]);
  assert.deepEqual(labelled(3, 0), [0]);
});

test("decades are equally long on a logarithmic axis", () => {
  const axes = { x: { low: 1, high: 100 }, y: { low: 1e9, high: 1e12 } };
  const { across, up } = scales(axes, { left: 50, right: 250, top: 10, bottom: 310 });
  assert.deepEqual([1, 10, 100].map((value) => Math.round(across(value))), [50, 150, 250]);
  assert.deepEqual([1e9, 1e10, 1e12].map((value) => Math.round(up(value))), [310, 210, 10]);
  assert.equal(Math.round(across(30, { low: 3, high: 300 })), 150);
});

test("each of ten markers has an outline of its own", () => {
  const outlines = Array.from({ length: 10 }, (_, marker) => outline(marker, 8));
  assert.equal(new Set(outlines).size, 10);
  assert.ok(outlines.every((path) => /^M[-\d.,LaHVZ ]+Z$/.test(path)));
  assert.equal(outline(12, 8), outlines[2]);
});

test("bars have the widths of their times, beside the widest", () => {
  const parts = [{ kind: "gpu", words: "computing", ns: 3e6 }, { kind: "wait", words: "idle", ns: 1e6 }];
  const drawn = segments([{ parts }, { parts: [{ kind: "gpu", words: "B", ns: 2e6 }] }, { parts: [] }]);
  assert.deepEqual(drawn.map((row) => row.map(({ width }) => width)), [[75, 25], [50], []]);
  assert.deepEqual(drawn[0].map(({ text }) => text), ["computing 3.00 ms (75.0 %)", "idle 1.00 ms (25.0 %)"]);
});

test("a text on a canvas ends before its box does", () => {
  const wide = (text) => [...text].reduce((sum, letter) => sum + (letter === "W" ? 14 : 6), 0);
  const context = { measureText: (text) => ({ width: wide(text) }) };
  for (const text of ["WWWWiiiiiiiiiiiiiiii", "enumerate(DataLoader)", "iiiiiiiiiiiiWWWWWWWW"]) {
    for (let room = 0; room < 300; room += 7) assert.ok(wide(fitting(context, text, room)) <= room || room < 0);
  }
  assert.equal(fitting(context, "abc", 18), "abc");
  assert.equal(fitting(context, "abc", 17), "");
});

test("times without a step are named: before, between and after", () => {
  const made = { start: [2e9, 3e9, 6e9], ns: [1e9, 1e9, 1e9], number: [1, 2, 3] };
  assert.deepEqual(besideSteps(made, 8e9).map(([start, ns, words]) => [start / 1e9, ns / 1e9, words]), [
    [0, 2, "2.00 s before the first step"],
    [4, 2, "2.00 s before step 3"],
    [7, 1, "1.00 s after the last step"],
  ]);
  assert.deepEqual(besideSteps({ start: [0], ns: [8e9], number: [1] }, 8e9), []);
});

test("the routines with the most own time are those at and below a node, waiting ones last", () => {
  const waiting = NAMES.map((name, at) => ({ ...name, color: at ? "lib" : "wait" }));
  const trees = forest(ROWS, { names: waiting });
  const tree = new TopDown(trees, null);
  const found = (of, node) => hottest(of, node).map(({ name, own, calls }) => [name, own, calls]);
  const [main] = tree.of(trees.roots(), "all").children;
  assert.deepEqual(found(tree, main), [["g", 70, 15], ["f", 20, 3], ["main", 10, 1]]);
  assert.deepEqual(found(tree, main.parent), [["g", 70, 15], ["f", 25, 4], ["main", 10, 1]]);
  const folded = new TopDown(trees, foldedRows(trees)); // g in f is f's, g in main its own
  assert.deepEqual(found(folded, folded.of([0], "main").children[0]), [["f", 60, 3], ["g", 30, 5], ["main", 10, 1]]);
});

test("a lane of steps and one of memory tell what there was at a moment", () => {
  const steps = { start: [10, 40], ns: [20, 30], number: [1, 2], count: [1, 4],
    phases: [{ name: "forward", kind: "forward", ns: [12, 0] }] };
  const phases = phasesLane(steps);
  assert.deepEqual(phases.described(15), ["step 1", "20 ns", "forward 12 ns"]);
  assert.equal(phases.described(35), null); // between two
  assert.deepEqual(phases.described(40), ["step 2 and others", "30 ns"]);
  const memory = memoryLane({ points: [[5, 1024], [50, 2048]] });
  assert.equal(memory.described(2), null);
  assert.deepEqual(memory.described(20), ["resident memory", "1.0 KiB, 5 ns after the start"]);
});

test("a cell has separators and no exponents, and no small share is nothing", () => {
  assert.equal(cell(7025837, { kind: "int", right: true }), "7,025,837");
  assert.equal(cell(-1234, { kind: "any", right: true }), "-1,234");
  assert.equal(cell(2026, { kind: "int", right: false }), "2026"); // a name of digits
  assert.equal(cell(416812.4, { kind: "tau_count", right: true }), "416,812");
  assert.equal(cell(0.6667, { kind: "tau_count", right: true }), "0.6667");
  assert.equal(cell(0.04, { kind: "percent", right: true }), "<0.1");
  assert.equal(cell(0, { kind: "percent", right: true }), "0.0");
  assert.equal(cell(null, { kind: "int", right: true }), "");
});

test("bars of a row are as long as they compare, and differences have none", () => {
  const columns = ["Name", "A", "B", "B - A"].map((heading, at) => ({ heading, kind: at ? "time_ns" : "text", right: at > 0 }));
  const table = new SortedTable({ columns, rows: [["f", 30, 10, -20], ["g", 5, 40, 35]], notes: [] });
  assert.deepEqual([...table.barred], [1, 2]);
  assert.equal(table.largest, 40);
});

test("what was recorded over time is not shown where most of the time is of kinds that it lacks", () => {
  const strip = [{ kind: "own", ns: 4 }, { kind: "wait", ns: 5 }, { kind: "import", ns: 0.5 }];
  assert.equal(hidesMost(strip, new Set(["own", "import"])), true);
  assert.equal(hidesMost(strip, new Set(["own", "wait"])), false);
  assert.equal(hidesMost([{ kind: "own", ns: 6 }, { kind: "lib", ns: 5 }], new Set(["own"])), false);
});

test("threads have the words of people, and their numbers where others are called so", () => {
  const words = {
    "0.0.0 MainThread": "main thread", "0.0.3 w2": "w2", "2.0.0 MainThread": "process 2, main thread",
    "2.0.1 w2": "process 2, w2 (1)", "2.0.4 w2": "process 2, w2 (4)", "1.0.0 rank 1": "rank 1",
    "0.1.7 stream 7": "GPU 0, stream 7", "2.0.0": "2.0.0",
  };
  const columns = [{ heading: "Thread", kind: "text" }, { heading: "Calls", kind: "int", right: true }];
  const table = new SortedTable({ columns, rows: Object.keys(words).map((label) => [label, 1]), notes: [] });
  assert.deepEqual(table.data.rows, Object.values(words).map((shown) => [shown, 1]));
});

test("a title names threads, whose names may hold spaces and parentheses", () => {
  const titles = {
    "LAYERS OF NODE 0, CONTEXT 0, THREAD 0 (thread 12 (python3))": "Layers of the main thread",
    "LAYERS OF NODE 0, CONTEXT 0, THREAD 3 (pool (2))": "Layers of the pool (2)",
    "THREAD 0.0.0: thread 12 (python3) (1 step)": "The main thread (1 step)",
    "THREAD 0.0.4: my worker (1,000 steps)": "The my worker (1,000 steps)",
    "TRAINING OF THREAD 0.0.0: MainThread": "Training of the main thread",
    "USER EVENTS of NODE 1, CONTEXT 2": "User events of GPU 1 of process 1",
  };
  for (const [title, shown] of Object.entries(titles)) assert.equal(quiet(title), shown);
});

test("a call path begins with its end", () => {
  assert.equal(plain(".taupy application => main [{a.py}{1}] => work"), "work \u2190 main (a.py:1)");
});

test("all times of routines of a sampled trial are estimates", () => { // the last test: a page is of one trial
  assert.deepEqual([timeOf(3.1e9), shareOf(1, 2)], ["3.10 s", "50.0 %"]);
  estimate();
  assert.deepEqual([timeOf(3.1e9), shareOf(1, 2)], ["~3.10 s", "~50.0 %"]);
});

test("bars of all groups of threads have one scale, and a place of hardly any time has no full one", () => {
  const group = (places, apart = []) => ({ places: places.map((share) => ({ share })), apart: apart.map((share) => ({ share })) });
  assert.equal(shareOfFullBar([group([0.93, 0.02]), group([0.31])]), 0.93);
  assert.equal(shareOfFullBar([group([0.2], [0.6])]), 0.6);
  assert.equal(shareOfFullBar([group([0.0004])]), 0.1);
  assert.equal(shareOfFullBar([group([])]), 0.1);
});
