// Activities over time: one lane per thread and stream (see taupy/report/timeline.py).
import { columns } from "./columns.js";

/** Rows of activities that do not overlap: {start, end, busy, name}, ordered by time. */
export class Timeline {
  /** @param layout {count, of, end, widths, names: [{name, kind}], lanes: [{name, kind, rows}]}. */
  constructor(bytes, layout) {
    const read = columns(bytes, layout.widths, layout.count);
    this.names = layout.names;
    this.end = layout.end;
    this.count = layout.count;
    this.of = layout.of;
    this.isCapture = layout.isCapture;
    this.activities = layout.activities ?? layout.count;
    let first = 0;
    this.lanes = layout.lanes.map(({ name, kind, rows }) => ({
      name, kind, rows: rows.map((size) => row(read, first, (first += size))),
    }));
  }
}

function row({ gap, length, name }, first, end) {
  const start = gap.slice(first, end);
  for (let at = 1; at < start.length; at++) start[at] += start[at - 1];
  const ends = start.map((value, at) => value + length[first + at]);
  const busy = new Float64Array(start.length + 1); // in all earlier activities
  for (let at = 0; at < start.length; at++) busy[at + 1] = busy[at] + length[first + at];
  return { start, end: ends, busy, name: name.slice(first, end) };
}

/** The index of the first of the sorted values that is above a limit. */
export function after(values, limit) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * The boxes of a row to draw between two times: [position, x, width, busy share]. Activities that
 * begin in the same pixel and are narrower are one box, so there are at most as many as pixels.
 */
export function* spans({ start, end, busy }, [from, to], width) {
  const scale = width / (to - from);
  for (let at = after(end, from); at < start.length && start[at] < to; ) {
    const x = (start[at] - from) * scale;
    const wide = (end[at] - start[at]) * scale;
    if (wide >= 1) {
      yield [at, Math.max(x, 0), Math.min(wide, wide + x, width - Math.max(x, 0)), 1];
      at += 1;
      continue;
    }
    const pixel = Math.floor(Math.max(x, 0));
    let next = Math.max(after(start, from + (pixel + 1) / scale), at + 1);
    if (next > at + 1 && (end[next - 1] - start[next - 1]) * scale >= 1) next -= 1; // the last may be wide
    yield [at, pixel, 1, Math.min((busy[next] - busy[at]) * scale, 1)];
    at = next;
  }
}

/** The part, moved and if necessary shortened to be between 0 and the end. */
export function within([from, to], end) {
  const wide = Math.min(Math.max(to - from, 10), end);
  const begin = Math.min(Math.max(from, 0), end - wide);
  return [begin, begin + wide];
}
