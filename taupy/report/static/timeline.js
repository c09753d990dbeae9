// Activities over time: a lane for each thread and stream (see taupy/report/timeline.py).
import { columns } from "./columns.js";

/** Rows of activities that do not overlap: {start, end, busy, name} in the order of time. */
export class Timeline {
  /** @param layout {count, of, end, widths, names: [{name, kind}], lanes: [{name, kind, rows}]}. */
  constructor(bytes, layout) {
    const read = columns(bytes, layout.widths, layout.count);
    this.names = layout.names;
    this.end = layout.end;
    this.count = layout.count;
    this.of = layout.of;
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
  const busy = new Float64Array(start.length + 1); // in all activities before one
  for (let at = 0; at < start.length; at++) busy[at + 1] = busy[at] + length[first + at];
  return { start, end: ends, busy, name: name.slice(first, end) };
}

/** The first position of sorted values that is larger than a limit. */
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
 * What of a row is to be drawn between two times: [position, x, width, busy share]. All that begin in
 * one pixel and are narrower are one, so there are never more than pixels.
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

/** A part of the whole, as wide or narrower, that lies within 0 and the end. */
export function within([from, to], end) {
  const wide = Math.min(Math.max(to - from, 10), end);
  const begin = Math.min(Math.max(from, 0), end - wide);
  return [begin, begin + wide];
}
