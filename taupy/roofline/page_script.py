"""The script and the style of the interactive page; they draw what `chart.py` describes.

Plain JavaScript and SVG: no library, no network. Text reaches the page as text only.
"""

# ruff: noqa: E501 - the lines are JavaScript and CSS

from __future__ import annotations

STYLE = """
:root { color-scheme: light; --ground:#ffffff; --panel:#f6f7f9; --ink:#1c2430; --muted:#6b7685;
  --grid:#e3e7ec; --warn:#b3261e; --accent:#0b6fb8; }
:root[data-theme=dark] { color-scheme: dark; --ground:#14181f; --panel:#1d232c; --ink:#e8ecf1;
  --muted:#97a3b3; --grid:#2b333e; --warn:#ff8a80; --accent:#5aaef0; }
* { box-sizing: border-box; }
body { margin:0; padding:18px 22px; background:var(--ground); color:var(--ink);
  font:14px/1.45 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size:20px; margin:0; } .subtitle { color:var(--muted); margin:2px 0 12px; }
.bar { display:flex; flex-wrap:wrap; gap:8px 16px; align-items:center; margin-bottom:10px; }
.tabs { display:inline-flex; flex-wrap:wrap; gap:2px; background:var(--panel); padding:3px;
  border-radius:8px; }
button, select, input { font:inherit; color:inherit; }
button { background:none; border:0; border-radius:6px; padding:4px 10px; cursor:pointer; }
button[aria-pressed=true] { background:var(--accent); color:var(--ground); }
button.plain { border:1px solid var(--grid); }
select, input[type=search] { background:var(--panel); border:1px solid var(--grid);
  border-radius:6px; padding:4px 8px; }
label { color:var(--muted); display:inline-flex; gap:6px; align-items:center; }
.main { display:grid; grid-template-columns:minmax(0,1fr) 300px; gap:14px; align-items:start; }
@media (max-width: 900px) { .main { grid-template-columns:minmax(0,1fr); } }
svg { width:100%; height:auto; display:block; }
svg text { font:11px system-ui, "DejaVu Sans", sans-serif; fill:var(--ink); }
svg .halo { paint-order:stroke; stroke:var(--ground); stroke-width:3px; stroke-linejoin:round; }
.legend { list-style:none; margin:0; padding:8px; background:var(--panel); border-radius:8px;
  font-size:12.5px; }
.legend li { display:flex; gap:7px; align-items:center; padding:1.5px 4px; border-radius:5px;
  overflow-wrap:anywhere; }
.notes { color:var(--muted); font-size:12.5px; margin:8px 0 16px; padding-left:18px; }
.notes .warn { color:var(--warn); font-weight:600; }
#tip { position:fixed; z-index:9; pointer-events:none; max-width:460px; background:var(--panel);
  border:1px solid var(--muted); border-radius:8px; padding:8px 10px; font-size:12.5px;
  box-shadow:0 4px 18px rgba(0,0,0,.25); display:none; }
#tip b { overflow-wrap:anywhere; display:block; margin-bottom:3px; }
#tip table td { padding:0 8px 0 0; vertical-align:top; }
#tip td:first-child { color:var(--muted); white-space:nowrap; }
.scroll { overflow:auto; max-height:520px; border:1px solid var(--grid); border-radius:8px; }
table.names { border-collapse:collapse; width:100%; font-size:12.5px; }
.names th, .names td { padding:3px 8px; text-align:right; white-space:nowrap;
  border-bottom:1px solid var(--grid); font-variant-numeric:tabular-nums; }
.names th { position:sticky; top:0; background:var(--panel); cursor:pointer; }
.names th.text, .names td.text { text-align:left; }
.names td.name { white-space:normal; overflow-wrap:anywhere; min-width:400px; max-width:700px; }
.names td { vertical-align:top; }
.names td.name span { display:-webkit-box; -webkit-box-orient:vertical; -webkit-line-clamp:2; overflow:hidden; }
.names tr.on td.name span { -webkit-line-clamp:none; }
.names tr:hover td, .names tr.on td { background:var(--panel); }
.symbol { cursor:pointer; } .dim { opacity:.10; } .on-symbol { stroke:var(--ink); stroke-width:2.4; }
"""

SCRIPT = r"""
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const NS = 'http://www.w3.org/2000/svg';
const W = 960;
let kind = data.charts[0].kind, level = data.charts[0].level, theme, chosen = -1;
let equal = data.charts[0].equal_decades, H = 620, least = 0, wanted = '', sortBy = 'share', down = true;

function el(name, attributes, parent, text) {
  const made = document.createElementNS(NS, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
function tag(name, parent, text, cls) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  if (parent) parent.appendChild(made);
  return made;
}
const PREFIXES = [[1e18,'E'],[1e15,'P'],[1e12,'T'],[1e9,'G'],[1e6,'M'],[1e3,'k'],[1,''],
  [1e-3,'m'],[1e-6,'u'],[1e-9,'n'],[1e-12,'p']];
function si(value, unit) {
  if (value === null || value === undefined) return '';
  if (value === 0) return ('0 ' + unit).trim();
  for (const [step, prefix] of PREFIXES) if (Math.abs(value) >= step * 0.9995) {
    const shown = value / step;
    const digits = shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
    return (shown.toFixed(digits) + ' ' + prefix + unit).trim();
  }
  return value.toPrecision(3) + ' ' + unit;
}
const percent = value => value === null || value === undefined ? '' : (100 * value).toFixed(1) + ' %';
const plain = value => value === null || value === undefined ? '' : Number(value.toPrecision(4)).toString();
const color = name => data.palettes[theme][name] || data.palettes[theme].ink;

function current() {
  return data.charts.find(c => c.kind === kind && c.level === level)
    || data.charts.find(c => c.kind === kind) || data.charts[0];
}
function shown(point) {
  const p = data.points[point];
  return p.share >= least &&
    (!wanted || p.name.toLowerCase().includes(wanted) || p.short.toLowerCase().includes(wanted));
}

const SHAPES = [
  r => `M${-r},0a${r},${r} 0 1,0 ${2*r},0a${r},${r} 0 1,0 ${-2*r},0Z`,
  r => { const a = r*.89; return `M${-a},${-a}H${a}V${a}H${-a}Z`; },
  r => polygon(3, r*1.25, -90), r => polygon(4, r*1.2, 0), r => polygon(3, r*1.25, 90),
  r => cross(r*1.15, 0), r => cross(r*1.15, 45), r => star(r*1.35), r => polygon(5, r*1.12, -90),
  r => polygon(6, r*1.08, 0),
];
function polygon(n, r, turn) {
  const points = [];
  for (let i = 0; i < n; i++) { const a = (turn + 360*i/n) * Math.PI/180;
    points.push((r*Math.cos(a)).toFixed(2) + ',' + (r*Math.sin(a)).toFixed(2)); }
  return 'M' + points.join('L') + 'Z';
}
function star(r) {
  const points = [];
  for (let i = 0; i < 10; i++) { const a = (-90 + 36*i) * Math.PI/180, q = i % 2 ? r*.42 : r;
    points.push((q*Math.cos(a)).toFixed(2) + ',' + (q*Math.sin(a)).toFixed(2)); }
  return 'M' + points.join('L') + 'Z';
}
function cross(r, turn) {
  const w = r*.36, corners = [[-w,-r],[w,-r],[w,-w],[r,-w],[r,w],[w,w],[w,r],[-w,r],[-w,w],[-r,w],[-r,-w],[-w,-w]];
  const a = turn*Math.PI/180;
  return 'M' + corners.map(([x,y]) => (x*Math.cos(a)-y*Math.sin(a)).toFixed(2) + ',' +
    (x*Math.sin(a)+y*Math.cos(a)).toFixed(2)).join('L') + 'Z';
}

function ticks(axis, most) {
  const first = Math.ceil(Math.log10(axis.low) - 1e-9), last = Math.floor(Math.log10(axis.high) + 1e-9);
  let step = Math.max(1, Math.ceil((last - first + 1) / most));
  if (step > 1 && step % 3) step += 3 - step % 3;
  const found = [];
  if (last - first < 2) {
    for (let e = first - 1; e <= last; e++) for (const part of [1, 2, 5]) {
      const value = part * Math.pow(10, e);
      if (axis.low <= value && value <= axis.high) found.push(value);
    }
    return found;
  }
  for (let e = first + (((-first) % step) + step) % step; e <= last; e += step) found.push(Math.pow(10, e));
  return found;
}
function tickLabel(value) {
  const exponent = Math.floor(Math.log10(value) + 1e-9), front = Math.round(value / Math.pow(10, exponent));
  const power = '10' + [...String(exponent)].map(c => c === '-' ? '\u207b' : '\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079'[c]).join('');
  return front === 1 ? power : `${front}\u00b7${power}`;
}

function draw() {
  const chart = current();
  const lx = [Math.log10(chart.x.low), Math.log10(chart.x.high)];
  const ly = [Math.log10(chart.y.low), Math.log10(chart.y.high)];
  const box = {left:74, right: chart.y2 ? W-78 : W-18, top: chart.x2 ? 52 : 16, bottom: 568};
  if (equal) {
    const across = lx[1]-lx[0], up = ly[1]-ly[0];
    const decade = Math.min((box.right-box.left) / across, (box.bottom-box.top) / up);
    box.right = box.left + decade*across;
    box.bottom = box.top + decade*up;
  }
  H = box.bottom + 52;
  $('equal').setAttribute('aria-pressed', equal);
  const svg = $('chart');
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${W} ${H}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', chart.title);
  const X = v => box.left + (Math.log10(v)-lx[0]) / (lx[1]-lx[0]) * (box.right-box.left);
  const Y = v => box.bottom - (Math.log10(v)-ly[0]) / (ly[1]-ly[0]) * (box.bottom-box.top);
  el('rect', {x:0, y:0, width:W, height:H, fill:color('ground')}, svg);
  const clip = el('clipPath', {id:'plane'}, svg);
  el('rect', {x:box.left, y:box.top, width:box.right-box.left, height:box.bottom-box.top}, clip);
  const grid = el('g', {}, svg);
  for (const value of ticks(chart.x, 10)) {
    el('line', {x1:X(value), x2:X(value), y1:box.top, y2:box.bottom, stroke:color('grid')}, grid);
    el('text', {x:X(value), y:box.bottom+16, 'text-anchor':'middle', fill:color('ink')}, grid, tickLabel(value));
  }
  for (const value of ticks(chart.y, 9)) {
    el('line', {x1:box.left, x2:box.right, y1:Y(value), y2:Y(value), stroke:color('grid')}, grid);
    el('text', {x:box.left-6, y:Y(value)+4, 'text-anchor':'end', fill:color('ink')}, grid, tickLabel(value));
  }
  el('text', {x:(box.left+box.right)/2, y:H-14, 'text-anchor':'middle'}, grid, `${chart.x.label} [${chart.x.unit}]`);
  el('text', {transform:`translate(16 ${(box.top+box.bottom)/2}) rotate(-90)`, 'text-anchor':'middle'}, grid, `${chart.y.label} [${chart.y.unit}]`);
  if (chart.x2) {
    for (const value of ticks(chart.x2, 9)) {
      const at = X(value / chart.x2.low * chart.x.low);
      el('line', {x1:at, x2:at, y1:box.top, y2:box.top-4, stroke:color('muted')}, grid);
      el('text', {x:at, y:box.top-8, 'text-anchor':'middle', style:`fill:${color('muted')}`}, grid, tickLabel(value));
    }
    el('text', {x:(box.left+box.right)/2, y:14, 'text-anchor':'middle', style:`fill:${color('muted')}`}, grid, `${chart.x2.label} [s]`);
  }
  if (chart.y2) {
    for (const value of ticks(chart.y2, 9)) {
      const at = Y(value / chart.y2.low * chart.y.low);
      el('line', {x1:box.right, x2:box.right+4, y1:at, y2:at, stroke:color('muted')}, grid);
      el('text', {x:box.right+7, y:at+4, style:`fill:${color('muted')}`}, grid, tickLabel(value));
    }
    el('text', {transform:`translate(${box.right+70} ${(box.top+box.bottom)/2}) rotate(-90)`, 'text-anchor':'middle', style:`fill:${color('muted')}`}, grid, `${chart.y2.label} [s]`);
  }
  const plane = el('g', {'clip-path':'url(#plane)'}, svg), words = el('g', {}, svg);
  drawBoxes(chart, box, X, Y, plane, words);
  drawLines(chart, box, X, Y, plane, words);
  drawSymbols(chart, X, Y, plane, words);
  drawMarks(chart, box, svg);
  el('rect', {x:box.left, y:box.top, width:box.right-box.left, height:box.bottom-box.top, fill:'none', stroke:color('muted')}, svg);
  legend(chart);
  notes(chart);
}

function drawBoxes(chart, box, X, Y, plane, words) {
  chart.boxes.forEach((one, number) => {
    const x = X(one.x), y = Y(one.y), c = color(one.color);
    el('rect', {x:box.left, y:y, width:Math.max(0, x-box.left), height:Math.max(0, box.bottom-y), fill:c, 'fill-opacity':.10, stroke:c, 'stroke-opacity':.8}, plane);
    el('text', {x:box.left+18, y:y+13+11*chart.boxes.slice(0, number).filter(b => Math.abs(Math.log(b.y/one.y)) < .4).length, class:'halo', style:`fill:${c}`}, words, one.label);
  });
}

function drawLines(chart, box, X, Y, plane, words) {
  const taken = [];
  for (const line of chart.lines) {
    const points = line.points.map(([x, y]) => [X(x), Y(y)]);
    const faint = line.role === 'pair' || line.role === 'isochrone';
    const made = el('polyline', {points:points.map(p => p.join(',')).join(' '), fill:'none', stroke:color(line.color),
      'stroke-width': line.role === 'pair' ? .8 : line.role === 'isochrone' ? 1 : 1.9, 'stroke-opacity': faint ? .55 : 1,
      'stroke-dasharray': line.style === 'solid' ? 'none' : line.style === 'dashed' ? '7 5' : '2 3'}, plane);
    if (line.role === 'compute' || line.role === 'bandwidth' || line.role === 'balance')
      el('title', {}, made, `${line.label}${line.reference ? ' - ' + line.reference : ''}`);
  }
  // From the top down: the upper of two near roofs has its label above, the lower below.
  // What isochrones are called stands at their corners, wherever the others are.
  const spots = chart.symbols.filter(symbol => shown(symbol.point)).map(symbol => [X(symbol.x), Y(symbol.y)]);
  const highest = line => Math.max(...line.points.map(point => point[1]));
  const roofs = chart.lines.filter(line => ['compute', 'bandwidth', 'balance', 'launch'].includes(line.role));
  const late = line => line.role === 'isochrone' ? 0 : line.style === 'dashed' ? 2 : 1;
  const order = [...chart.lines].sort((one, other) => late(one) - late(other) || highest(other) - highest(one));
  for (const line of order) {
    if (!line.label || line.role === 'trajectory' || line.role === 'pair') continue;
    const points = line.points.map(([x, y]) => [X(x), Y(y)]), long = 5.9 * line.label.length;
    if (line.role === 'isochrone') {
      el('text', {x:points[1][0]-3, y:points[1][1]-3, 'text-anchor':'end', class:'halo', style:`fill:${color('muted')}`}, words, line.label);
      taken.push(spread(points[1][0]-long/2, points[1][1]-7, 1, 0, long));
      continue;
    }
    const others = roofs.filter(other => other !== line).map(other => [other.points[0], other.points[other.points.length-1]].map(([x, y]) => [X(x), Y(y)]));
    const best = labelPlace(line.role, points[0], points[points.length-1], long, taken, spots, others);
    if (best.clashes && line.style === 'dashed') continue;  // the notes have it
    taken.push(best.place);
    el('text', {transform:`translate(${best.x} ${best.y}) rotate(${best.angle}) translate(0 ${best.side > 0 ? -5 : 13})`, class:'halo',
      'text-anchor':'middle', style:`fill:${color(line.color)}`}, words, line.label);
  }
}
// Of places along a line, the one that hides no other label and few symbols.
function labelPlace(role, a, b, long, taken, spots, others) {
  const whole = Math.hypot(b[0]-a[0], b[1]-a[1]) || 1, cos = (b[0]-a[0])/whole, sin = (b[1]-a[1])/whole;
  const first = role === 'bandwidth' ? .14 : role === 'balance' ? .8 : .99, half = long/2/whole;
  const middle = first + (first < .2 ? half : first > .9 ? -half : 0);
  let best = null;
  for (let step = 0; step < 8; step++) for (const side of role === 'balance' ? [-1, 1] : [1, -1]) {
    const along = middle + (first < .2 ? .1 : -.1)*step;
    // Within the line; of one that is too short, from its beginning or up to its end.
    const at = first > .2 ? Math.min(Math.max(along, half), 1-half) : Math.max(Math.min(along, 1-half), half);
    const x = a[0]+whole*at*cos, y = a[1]+whole*at*sin, tx = x+9*side*sin, ty = y-9*side*cos;
    const place = spread(tx, ty, cos, sin, long);
    const clashes = taken.filter(other => place.some(p => other.some(q => Math.hypot(p[0]-q[0], p[1]-q[1]) < 13))).length;
    const hidden = spots.filter(p => Math.abs((p[1]-ty)*cos-(p[0]-tx)*sin) < 13
      && Math.abs((p[0]-tx)*cos+(p[1]-ty)*sin) < long/2+5).length + 2 * others.filter(ends => crosses(place, ends)).length;
    if (!best || clashes < best.clashes || clashes === best.clashes && hidden < best.hidden)
      best = {clashes, hidden, x, y, side, place, angle:Number((Math.atan2(sin, cos)*180/Math.PI).toFixed(3))};
  }
  return best;
}
function crosses(place, [a, b]) {
  const whole = Math.hypot(b[0]-a[0], b[1]-a[1]) || 1, cos = (b[0]-a[0])/whole, sin = (b[1]-a[1])/whole;
  return place.some(([x, y]) => {
    const on = (x-a[0])*cos + (y-a[1])*sin;
    return Math.abs((y-a[1])*cos - (x-a[0])*sin) < 7 && on > -7 && on < whole+7;
  });
}
function spread(x, y, cos, sin, long) {
  const count = Math.max(2, Math.floor(long/13)+1), found = [];
  for (let at = 0; at < count; at++) found.push([x+(at/(count-1)-.5)*long*cos, y+(at/(count-1)-.5)*long*sin]);
  return found;
}

function drawSymbols(chart, X, Y, plane, words) {
  const written = [];
  const named = symbol => symbol.color !== 'other';
  const order = [...chart.symbols].sort((one, other) => named(one) - named(other) || other.area - one.area);
  for (const symbol of order) {
    if (!shown(symbol.point)) continue;
    const r = Math.sqrt(14 + symbol.area * 190), c = color(symbol.color);
    const made = el('path', {d:SHAPES[symbol.marker % SHAPES.length](r), transform:`translate(${X(symbol.x)} ${Y(symbol.y)})`,
      fill: symbol.filled ? c : color('ground'), 'fill-opacity': symbol.filled ? .9 : .01,
      stroke: symbol.filled ? color('ground') : c, 'stroke-width': symbol.filled ? 1 : 1.8, class:'symbol', tabindex:0}, plane);
    made.dataset.point = symbol.point;
    if (chosen >= 0) made.classList.add(chosen === symbol.point ? 'on-symbol' : 'dim');
    made.addEventListener('mousemove', event => tip(event, symbol.point, symbol.level || chart.level));
    made.addEventListener('mouseleave', () => { $('tip').style.display = 'none'; });
    made.addEventListener('click', () => choose(symbol.point));
    const crowds = t => Math.abs(t[0]-X(symbol.x)) < 24 && Math.abs(t[1]-Y(symbol.y)) < 10;
    if (symbol.text && !written.some(crowds) && written.push([X(symbol.x), Y(symbol.y)])) el('text', {x:X(symbol.x)+r+3, y:Y(symbol.y)+4, style:`fill:${c}`, class:'halo'}, words, symbol.text);
  }
}

function drawMarks(chart, box, svg) {
  const wide = box.right-box.left, high = box.bottom-box.top, thick = 11;
  for (const mark of chart.marks) {
    if (!shown(mark.point) || mark.high <= mark.low) continue;
    const long = mark.high - mark.low;
    const at = mark.edge === 'bottom'
      ? {x:box.left+mark.low*wide, y:box.bottom-thick, width:long*wide, height:thick}
      : {x: mark.edge === 'left' ? box.left : box.right-thick, y:box.bottom-mark.high*high, width:thick, height:long*high};
    const made = el('rect', {...at, fill:color(mark.color), stroke:color('ground'), 'stroke-width':.5, class:'symbol'}, svg);
    if (chosen >= 0) made.classList.add(chosen === mark.point ? 'on-symbol' : 'dim');
    made.addEventListener('mousemove', event => tip(event, mark.point, chart.level));
    made.addEventListener('mouseleave', () => { $('tip').style.display = 'none'; });
    made.addEventListener('click', () => choose(mark.point));
  }
  if (!chart.marks_label) return;
  // Behind the strip where there is room, else beside it.
  const below = chart.marks.some(mark => mark.edge === 'bottom');
  const end = Math.max(0, ...chart.marks.filter(mark => mark.edge !== 'right').map(mark => mark.high));
  const along = end < .6 ? end + .008 : .012, beside = end < .6 ? 1 : thick+4;
  const at = below ? `translate(${box.left+along*wide} ${box.bottom-beside-2})`
    : `translate(${box.left+beside+9} ${box.bottom-along*high}) rotate(-90)`;
  el('text', {transform:at, class:'halo', style:`fill:${color('muted')}`}, svg, chart.marks_label);
}

function legend(chart) {
  const list = $('legend');
  list.replaceChildren();
  for (const entry of chart.legend) {
    const item = tag('li', list);
    const icon = el('svg', {viewBox:'-9 -9 18 18', style:'width:16px;height:16px;flex:none'}, item);
    el('path', {d:SHAPES[entry.marker % SHAPES.length](6), fill: entry.filled ? color(entry.color) : 'none', stroke:color(entry.color), 'stroke-width':1.6}, icon);
    tag('span', item, entry.label);
  }
}
function notes(chart) {
  const list = $('notes');
  list.replaceChildren();
  for (const text of chart.warnings) tag('li', list, text, 'warn');
  for (const text of chart.notes) tag('li', list, text);
}

function rows(p, at) {
  const found = [['calls', p.calls.toLocaleString('en') + (p.launches && p.of !== 'kernel' ? `, ${p.launches.toLocaleString('en')} launches` : '')]];
  if (p.launches && p.counted < p.launches) found.push(['counted', `${p.counted} of ${p.launches} launches`]);
  found.push(['time', `${si(p.run_time, 's')}, ${percent(p.share)} of the time${p.of === 'kernel' ? ' in kernels' : ''}`]);
  if (p.time !== p.run_time) found.push(['time counted', si(p.time, 's')]);
  for (const name in p.flop) if (p.flop[name]) found.push([`flop ${name === 'any' ? '' : name}`, si(p.flop[name], 'flop')]);
  if (p.total_flop === 0) found.push(['flop', '0']);
  for (const name in p.bytes) {
    const ai = p.intensity[name];
    found.push([name, si(p.bytes[name], 'B') + (ai === null || ai === undefined ? '' : `, ${plain(ai)} flop/B`) + (p.bandwidth[name] ? `, ${si(p.bandwidth[name], 'B/s')}` : '') + (name === at ? '  <' : '')]);
  }
  if (p.performance !== null) found.push(['performance', si(p.performance, 'flop/s')]);
  found.push(['of its roof', percent(p.roof_share)]);
  found.push(['bound by', p.bound_by]);
  if (p.launch_overhead) found.push(['launch overhead', si(p.launch_overhead, 's')]);
  found.push(['numbers are', `flop ${p.flop_tier}, bytes ${p.bytes_tier}`]);
  if (p.processor) found.push(['on', `${p.processor} (trial ${p.trial})`]);
  for (const text of p.notes) found.push(['', text]);
  return found.filter(row => row[1] !== '');
}
function tip(event, point, at) {
  const p = data.points[point], box = $('tip');
  box.replaceChildren();
  tag('b', box, p.name);
  const table = tag('table', box);
  for (const [name, value] of rows(p, at)) {
    const row = tag('tr', table);
    tag('td', row, name); tag('td', row, value);
  }
  box.style.display = 'block';
  const wide = box.offsetWidth, high = box.offsetHeight;
  box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 8)) + 'px';
  box.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - high - 8)) + 'px';
}
function choose(point) { chosen = chosen === point ? -1 : point; draw(); names(); }

function columns() {
  const levels = [...new Set(data.points.flatMap(p => Object.keys(p.bytes)))];
  const order = ['L1', 'shared', 'L2', 'L3', 'DRAM'];
  levels.sort((one, other) => order.indexOf(one) - order.indexOf(other));
  const found = [
    ['rank', '#', p => p.rank, p => p.rank],
    ['name', 'Name', p => p.name, p => p.name, 'text name'],
    ['calls', 'Calls', p => p.calls, p => p.calls.toLocaleString('en')],
    ['run_time', 'Time', p => p.run_time, p => si(p.run_time, 's')],
    ['share', 'Share', p => p.share, p => percent(p.share)],
    ['total_flop', 'Flop', p => p.total_flop, p => si(p.total_flop, '')],
  ];
  for (const one of levels) {
    found.push([`bytes ${one}`, `${one} bytes`, p => p.bytes[one], p => si(p.bytes[one], 'B')]);
    found.push([`ai ${one}`, `AI ${one}`, p => p.intensity[one], p => plain(p.intensity[one])]);
  }
  found.push(['performance', 'flop/s', p => p.performance, p => si(p.performance, '')]);
  found.push(['roof_share', '% of roof', p => p.roof_share, p => percent(p.roof_share)]);
  found.push(['bound_by', 'Bound by', p => p.bound_by, p => p.bound_by, 'text']);
  found.push(['tier', 'Tier', p => p.flop_tier, p => p.flop_tier === p.bytes_tier ? p.flop_tier : `${p.flop_tier} / ${p.bytes_tier}`, 'text']);
  if (new Set(data.points.map(p => p.trial)).size > 1)
    found.push(['trial', 'Trial', p => p.trial, p => `${p.trial} ${p.processor}`, 'text']);
  return found;
}
function names() {
  const table = $('names'), all = columns();
  table.replaceChildren();
  const head = tag('tr', tag('thead', table));
  for (const [key, title, , , cls] of all) {
    const cell = tag('th', head, title + (sortBy === key ? (down ? ' \u25be' : ' \u25b4') : ''), cls || '');
    cell.addEventListener('click', () => { down = sortBy === key ? !down : true; sortBy = key; names(); });
  }
  const by = (all.find(column => column[0] === sortBy) || all[4])[2];
  const body = tag('tbody', table);
  const order = data.points.map((p, number) => [p, number]).filter(([, number]) => shown(number));
  order.sort(([one], [other]) => {
    const a = by(one), b = by(other), turn = down ? -1 : 1;
    if (a === b) return one.rank - other.rank;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    return (a < b ? -1 : 1) * turn;
  });
  for (const [p, number] of order) {
    const row = tag('tr', body, undefined, chosen === number ? 'on' : '');
    for (const [, , , show, cls] of all) {
      const cell = tag('td', row, cls === 'text name' ? undefined : String(show(p)), cls || '');
      if (cls === 'text name') tag('span', cell, p.name).title = p.name;
    }
    row.addEventListener('click', () => choose(number));
  }
}

function controls() {
  const tabs = $('tabs');
  tabs.replaceChildren();
  for (const one of [...new Set(data.charts.map(c => c.kind))]) {
    const made = tag('button', tabs, data.titles[one]);
    made.setAttribute('aria-pressed', one === kind);
    made.addEventListener('click', () => { kind = one; redraw(); });
  }
  const levels = data.charts.filter(c => c.kind === kind && c.level).map(c => c.level);
  const select = $('level');
  select.replaceChildren();
  $('level-label').style.display = levels.length > 1 ? '' : 'none';
  if (levels.length && !levels.includes(level)) level = levels[levels.length-1];
  for (const one of levels) { const made = tag('option', select, one); made.value = one; made.selected = one === level; }
}
function redraw() { controls(); draw(); names(); $('subtitle').textContent = current().subtitle; $('title').textContent = current().title; }
function setTheme(next) { theme = next; document.documentElement.dataset.theme = next; redraw(); }
function save(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

$('level').addEventListener('change', event => { level = event.target.value; redraw(); });
$('least').addEventListener('input', event => {
  least = event.target.value === '0' ? 0 : Math.pow(10, event.target.value / 20 - 4);
  $('least-text').textContent = least ? `${plain(100 * least)} %` : 'all';
  draw(); names();
});
$('find').addEventListener('input', event => { wanted = event.target.value.toLowerCase(); draw(); names(); });
$('equal').addEventListener('click', () => { equal = !equal; draw(); });
$('theme').addEventListener('click', () => setTheme(theme === 'dark' ? 'light' : 'dark'));
$('save').addEventListener('click', () => {
  const copy = $('chart').cloneNode(true);
  copy.setAttribute('xmlns', NS); copy.setAttribute('width', W); copy.setAttribute('height', H);
  el('style', {}, copy, `text{font:11px sans-serif;fill:${color('ink')}}.halo{paint-order:stroke;stroke:${color('ground')};stroke-width:3px}`);
  save('roofline.svg', 'image/svg+xml', new XMLSerializer().serializeToString(copy));
});
const asked = new URLSearchParams(location.search + '&' + location.hash.slice(1));
if (asked.get('chart')) kind = asked.get('chart');
if (asked.get('level')) level = asked.get('level');
const preferred = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
setTheme(asked.get('theme') || data.theme || preferred);
document.body.dataset.ready = 'yes';
"""
