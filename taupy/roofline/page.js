// Draws the charts of `chart.py` in a separate page, in plain JavaScript and SVG, without libraries
// or network. Text reaches the page as text only.
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

function draw() {
  const chart = current();
  const lx = [Math.log10(chart.x.low), Math.log10(chart.x.high)];
  const ly = [Math.log10(chart.y.low), Math.log10(chart.y.high)];
  const box = chart.planes[equal ? 'equal' : 'usual'];
  const axis = box.bottom + 38;  // where the name of the axis across stands
  H = axis + 14 + 34 * chart.strips.length;
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
  for (const [value, text] of chart.x.ticks) {
    el('line', {x1:X(value), x2:X(value), y1:box.top, y2:box.bottom, stroke:color('grid')}, grid);
    el('text', {x:X(value), y:box.bottom+16, 'text-anchor':'middle', fill:color('ink')}, grid, text);
  }
  for (const [value, text] of chart.y.ticks) {
    el('line', {x1:box.left, x2:box.right, y1:Y(value), y2:Y(value), stroke:color('grid')}, grid);
    el('text', {x:box.left-6, y:Y(value)+4, 'text-anchor':'end', fill:color('ink')}, grid, text);
  }
  el('text', {x:(box.left+box.right)/2, y:axis, 'text-anchor':'middle'}, grid, `${chart.x.label} [${chart.x.unit}]`);
  el('text', {transform:`translate(16 ${(box.top+box.bottom)/2}) rotate(-90)`, 'text-anchor':'middle'}, grid, `${chart.y.label} [${chart.y.unit}]`);
  if (chart.x2) {
    for (const [value, text] of chart.x2.ticks) {
      const at = X(value / chart.x2.low * chart.x.low);
      el('line', {x1:at, x2:at, y1:box.top, y2:box.top-4, stroke:color('muted')}, grid);
      el('text', {x:at, y:box.top-8, 'text-anchor':'middle', style:`fill:${color('muted')}`}, grid, text);
    }
    el('text', {x:(box.left+box.right)/2, y:14, 'text-anchor':'middle', style:`fill:${color('muted')}`}, grid, `${chart.x2.label} [s]`);
  }
  if (chart.y2) {
    for (const [value, text] of chart.y2.ticks) {
      const at = Y(value / chart.y2.low * chart.y.low);
      el('line', {x1:box.right, x2:box.right+4, y1:at, y2:at, stroke:color('muted')}, grid);
      el('text', {x:box.right+7, y:at+4, style:`fill:${color('muted')}`}, grid, text);
    }
    el('text', {transform:`translate(${box.right+70} ${(box.top+box.bottom)/2}) rotate(-90)`, 'text-anchor':'middle', style:`fill:${color('muted')}`}, grid, `${chart.y2.label} [s]`);
  }
  const plane = el('g', {'clip-path':'url(#plane)'}, svg), words = el('g', {}, svg);
  drawBoxes(chart, box, X, Y, plane);
  drawLines(chart, X, Y, plane);
  drawSymbols(chart, X, Y, plane);
  drawLabels(box, words);
  drawStrips(chart, box, axis + 14, svg);
  el('rect', {x:box.left, y:box.top, width:box.right-box.left, height:box.bottom-box.top, fill:'none', stroke:color('muted')}, svg);
  legend(chart);
  notes(chart);
}

function drawBoxes(chart, box, X, Y, plane) {
  for (const one of chart.boxes) {
    const x = X(one.x), y = Y(one.y), c = color(one.color);
    el('rect', {x:box.left, y:y, width:Math.max(0, x-box.left), height:Math.max(0, box.bottom-y), fill:c, 'fill-opacity':.10, stroke:c, 'stroke-opacity':.8}, plane);
  }
}

// Their places were computed when the page was written.
function drawLabels(box, words) {
  for (const label of box.labels) {
    if (label.point >= 0 && !shown(label.point)) continue;
    const x = box.left + label.x * (box.right-box.left), y = box.bottom - label.y * (box.bottom-box.top);
    el('text', {transform:`translate(${x} ${y}) rotate(${-label.angle})`, dy:'.35em', class:'halo', 'text-anchor':'middle',
      style:`fill:${color(label.color)};font-size:${label.size}px`}, words, label.text);
  }
}

function drawLines(chart, X, Y, plane) {
  for (const line of chart.lines) {
    const points = line.points.map(([x, y]) => [X(x), Y(y)]);
    const faint = line.role === 'pair' || line.role === 'isochrone';
    const made = el('polyline', {points:points.map(p => p.join(',')).join(' '), fill:'none', stroke:color(line.color),
      'stroke-width': line.role === 'pair' ? .8 : line.role === 'isochrone' ? 1 : 1.9, 'stroke-opacity': faint ? .55 : 1,
      'stroke-dasharray': line.style === 'solid' ? 'none' : line.style === 'dashed' ? '7 5' : '2 3'}, plane);
    if (line.role === 'compute' || line.role === 'bandwidth' || line.role === 'balance')
      el('title', {}, made, `${line.label}${line.reference ? ' - ' + line.reference : ''}`);
  }
}

function drawSymbols(chart, X, Y, plane) {
  const named = symbol => symbol.color !== 'other';
  const order = [...chart.symbols].sort((one, other) => named(one) - named(other) || other.area - one.area);
  for (const symbol of order) {
    if (!shown(symbol.point)) continue;
    const r = Math.sqrt(10 + symbol.area * 160), c = color(symbol.color);
    const made = el('path', {d:SHAPES[symbol.marker % SHAPES.length](r), transform:`translate(${X(symbol.x)} ${Y(symbol.y)})`,
      fill: symbol.filled ? c : color('ground'), 'fill-opacity': symbol.filled ? .9 : .01,
      stroke: symbol.filled ? color('ground') : c, 'stroke-width': symbol.filled ? 1 : 1.8, class:'symbol', tabindex:0}, plane);
    made.dataset.point = symbol.point;
    if (chosen >= 0) made.classList.add(chosen === symbol.point ? 'on-symbol' : 'dim');
    made.addEventListener('mousemove', event => tip(event, symbol.point, symbol.level || chart.level));
    made.addEventListener('mouseleave', () => { $('tip').style.display = 'none'; });
    made.addEventListener('click', () => choose(symbol.point));
  }
}

// Points without a place in the plane, drawn below it; lengths are shares of the time.
function drawStrips(chart, box, top, svg) {
  const wide = box.right-box.left, thick = 11;
  chart.strips.forEach((strip, number) => {
    const y = top + 34*number;
    el('rect', {x:box.left, y:y, width:wide, height:thick, fill:'none', stroke:color('grid')}, svg);
    for (const mark of strip.marks) {
      if (!shown(mark.point) || mark.high <= mark.low) continue;
      const made = el('rect', {x:box.left+mark.low*wide, y:y, width:(mark.high-mark.low)*wide, height:thick,
        fill:color(mark.color), stroke:color('ground'), 'stroke-width':.5, class:'symbol'}, svg);
      if (chosen >= 0) made.classList.add(chosen === mark.point ? 'on-symbol' : 'dim');
      made.addEventListener('mousemove', event => tip(event, mark.point, chart.level));
      made.addEventListener('mouseleave', () => { $('tip').style.display = 'none'; });
      made.addEventListener('click', () => choose(mark.point));
    }
    el('text', {x:box.left, y:y+thick+13, style:`fill:${color('muted')}`}, svg, strip.label);
  });
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
