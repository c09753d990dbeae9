// What is known over time without a trace, as lanes of the timeline: the steps of a training by
// phase, and memory. A lane has a name, a height, the kinds that it paints and what it says of a
// moment.
import { duration, shown } from "./numbers.js";
import { after } from "./timeline.js";

/** Each step as wide as it was long, its phases above each other by their share. */
export function paintMade(context, steps, x, [top, height, kinds]) {
  steps.ns.forEach((ns, at) => {
    const left = x(steps.start[at]), whole = x(steps.start[at] + ns) - left;
    const wide = Math.max(whole - (whole > 4 ? 1 : 0), 0.5);
    context.fillStyle = kinds.lib;
    context.fillRect(left, top, wide, height);
    let y = top + height;
    for (const phase of steps.phases) {
      const tall = Math.min((phase.ns[at] / (ns || 1)) * height, y - top);
      context.fillStyle = kinds[phase.kind];
      context.fillRect(left, y - tall, wide, tall);
      y -= tall;
    }
  });
}

/** @param steps as `report/front.py` has them. */
export function phasesLane(steps) {
  return {
    name: "phases of steps", height: 96, kinds: steps.phases.map(({ kind }) => kind),
    paint: (context, x, [top, height, colors]) => paintMade(context, steps, x, [top, height, colors.kinds]),
    described(time) {
      const at = after(steps.start, time) - 1;
      if (at < 0 || time > steps.start[at] + steps.ns[at]) return null;
      const phases = steps.phases.filter(({ ns }) => ns[at] > 0).map(({ name, ns }) => `${name} ${duration(ns[at])}`);
      return [`step ${steps.number[at]}${steps.count[at] > 1 ? " and others" : ""}`, duration(steps.ns[at]), ...phases];
    },
  };
}

/** @param points [ns, bytes], as `report/front.py` has them. */
export function memoryLane({ points }) {
  const peak = Math.max(...points.map(([, bytes]) => bytes), 1);
  const times = points.map(([ns]) => ns);
  return {
    name: "resident memory", height: 96, kinds: [],
    paint(context, x, [top, height, colors]) {
      const y = (bytes) => top + height - (bytes / peak) * (height - 14);
      context.beginPath();
      context.moveTo(x(times[0]), top + height);
      for (const [ns, bytes] of points) context.lineTo(x(ns), y(bytes));
      context.lineTo(x(times.at(-1)), top + height);
      context.fillStyle = colors.kinds.rest;
      context.fill();
      context.strokeStyle = colors.soft;
      context.stroke();
      context.fillStyle = colors.soft;
      context.fillText(`peak ${shown(peak, "bytes")}`, Math.max(x(0), x.left) + 4, top + 6);
    },
    described(time) {
      const at = after(times, time) - 1;
      return at < 0 || time > times.at(-1) ? null
        : ["resident memory", `${shown(points[at][1], "bytes")}, ${duration(times[at])} after the start`];
    },
  };
}
