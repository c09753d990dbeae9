// Readable numbers, formatted as by taupy/units.py and taupy/pprof/cells.py (a test compares them).

const STEPS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]];
const SIZES = ["KiB", "MiB", "GiB", "TiB", "PiB"];
const PREFIXES = [
  [1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"],
  [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"], [1e-12, "p"],
];
const MORE = 40; // digits that tell a tie

/** `value[method](digits)`; of two numbers equally near, the even one, where JavaScript takes the larger. */
function rounded(value, method, digits) {
  const text = value[method](digits);
  const [mantissa, power] = text.split("e");
  const [exact] = value[method](digits + MORE).split("e");
  const isTie = /^50*$/.test(exact.slice(-MORE));
  if (!isTie || !"13579".includes(mantissa.at(-1))) return text;
  const lower = exact.slice(0, -MORE).replace(/\.$/, "");
  return power === undefined ? lower : `${lower}e${power}`;
}

function fixed(value, digits) {
  return rounded(value, "toFixed", digits);
}

function exponential(mantissa, power, mark = "e") {
  return `${mantissa}${mark}${power[0]}${power.slice(1).padStart(2, "0")}`;
}

/** Significant digits, as by Python's "g"; "G" if `mark` is "E". */
function general(value, digits, mark = "e") {
  const short = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  const [mantissa, power] = rounded(value, "toExponential", digits - 1).split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= digits) return exponential(short(mantissa), power, mark);
  return short(fixed(value, digits - 1 - exponent));
}

function threeDigits(value) {
  if (value >= 99.95) return fixed(value, 0);
  return fixed(value, value >= 9.995 ? 1 : 2);
}

function grouped(text) {
  return text.replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A time in nanoseconds: "417 ns", "1.23 ms", "2 min 03 s". */
export function duration(ns) {
  if (ns < 0) return "-" + duration(-ns);
  if (ns >= 59.95e9) {
    const seconds = Number(fixed(ns / 1e9, 0));
    const minutes = Math.floor(seconds / 60);
    const two = (value) => String(value).padStart(2, "0");
    if (minutes < 60) return `${minutes} min ${two(seconds % 60)} s`;
    return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }
  for (const [step, unit] of STEPS) {
    if (ns >= step * 0.9995) return `${threeDigits(ns / step)} ${unit}`;
  }
  return `${fixed(ns, 0)} ns`;
}

/** A number of bytes: "512 B", "1.5 KiB". */
export function size(bytes) {
  if (bytes < 0) return "-" + size(-bytes);
  if (bytes < 1024) return `${fixed(bytes, 0)} B`;
  let value = bytes / 1024;
  for (const unit of SIZES) {
    if (value < 1023.95) return `${fixed(value, 1)} ${unit}`;
    value /= 1024;
  }
  return `${fixed(value * 1024, 1)} ${SIZES.at(-1)}`;
}

/** A percentage: "12.5". */
export function percent(value) {
  return fixed(value, 1);
}

/** A share of a whole, with one decimal: "12.5 %", "<0.1 %". */
export function share(value, whole) {
  const percents = whole ? (100 * value) / whole : 0;
  if (percents > 0 && percents < 0.1) return "<0.1 %";
  return `${percents >= 99.95 ? "100" : fixed(percents, 1)} %`;
}

let mark = "";

/** From now on, times of routines are estimates: the trial is sampled. */
export function estimate() {
  mark = "~";
}

/** The time of a routine, as exact as the trial has it. */
export function timeOf(ns) {
  return mark + duration(ns);
}

/** Its share of a whole. */
export function shareOf(value, whole) {
  return mark + share(value, whole);
}

/** Whether they are estimates. */
export function isEstimated() {
  return mark !== "";
}

/** A whole number with separators: "12,345"; toLocaleString takes 10 ms the first time. */
export function count(value) {
  return grouped(String(value));
}

/** A real number, without decimals if it is whole, otherwise with six digits. */
function number(value) {
  return Math.abs(value) < 1e15 && Number.isInteger(value) ? String(value) : general(value, 6);
}

/** How many a second: "37,540", "128.4". */
function rate(value) {
  return Math.abs(value) >= 1000 ? grouped(fixed(value, 0)) : general(value, 4);
}

/** With an SI prefix: "1.74 G"; what needs none and is whole has no decimals: "64". */
function prefixed(value) {
  if (Math.abs(value) < 1000 && Number.isInteger(value)) return String(value);
  for (const [step, prefix] of PREFIXES) {
    if (Math.abs(value) >= step * 0.9995) {
      return `${threeDigits(value / step)} ${prefix}`.trimEnd();
    }
  }
  return general(value, 3);
}

/** All digits of a real number: "3.0", "1e-05". */
function real(value) {
  const [mantissa, power] = value.toExponential().split("e");
  if (Number(power) < -4 || Number(power) >= 16) return exponential(mantissa, power);
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

function plain(value) {
  return Number.isInteger(value) ? String(value) : real(value);
}

/** TAU's cell of a time, in msec; from a second on "s,mmm", then "m:ss.mmm", then "h:mm:ss.mmm". */
function tauTime(ns) {
  if (ns < 0) return "-" + tauTime(-ns);
  if (ns < 1e6) return general(ns / 1e6, 3, "E");
  const two = (value) => String(value).padStart(2, "0");
  const all = Math.floor(ns / 1e6);
  const milliseconds = String(all % 1000).padStart(3, "0");
  const seconds = Math.floor(all / 1000), minutes = Math.floor(seconds / 60);
  if (seconds === 0) return String(all);
  if (seconds < 60) return `${seconds},${milliseconds}`;
  const rest = `${two(seconds % 60)}.${milliseconds}`;
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${rest}`;
}

/** TAU's cell of a time per call, in usec. */
function tauPerCall(ns) {
  const microseconds = ns / 1000;
  if (ns === 0 || Math.abs(microseconds) >= 10) return fixed(microseconds, 0);
  return general(microseconds, 3, "E");
}

/** TAU's cell of a count. */
function tauCount(value) {
  return general(value, 4, "E");
}

const FORMATS = {
  any: plain,
  text: plain,
  range: plain,
  int: plain,
  real,
  float: number,
  percent,
  time_ns: duration,
  about_percent: (value) => `~${percent(value)}`,
  about_ns: (value) => `~${duration(value)}`,
  about_count: (value) => `~${tauCount(value)}`,
  about_tau_time: (value) => `~${tauTime(value)}`,
  about_milliseconds: (value) => `~${fixed(value / 1e6, 6)}`,
  bytes: size,
  prefixed,
  rate,
  milliseconds: (value) => fixed(value / 1e6, 6),
  tau_time: tauTime,
  tau_per_call: tauPerCall,
  tau_count: tauCount,
};

/** A table's cell as text; "" if nothing was measured. */
export function shown(value, kind) {
  if (value === null) return "";
  return typeof value === "number" ? FORMATS[kind](value) : String(value);
}

/** Text in which no line ends between a number and its unit. */
export function withUnits(text) {
  return text.replace(/(\d) (?=([num]?s|[KMG]iB|B|%)(?!\w))/g, "$1\u00a0");
}
