// Readable numbers, formatted as by taupy/units.py (a test compares the two).

const STEPS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]];
const SIZES = ["KiB", "MiB", "GiB", "TiB", "PiB"];

function threeDigits(value) {
  if (value >= 99.95) return value.toFixed(0);
  return value.toFixed(value >= 9.995 ? 1 : 2);
}

/** A time in nanoseconds: "417 ns", "1.23 ms", "2 min 03 s". */
export function duration(ns) {
  if (ns < 0) return "-" + duration(-ns);
  if (ns >= 59.95e9) {
    const seconds = Math.round(ns / 1e9);
    const minutes = Math.floor(seconds / 60);
    const two = (value) => String(value).padStart(2, "0");
    if (minutes < 60) return `${minutes} min ${two(seconds % 60)} s`;
    return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  }
  for (const [step, unit] of STEPS) {
    if (ns >= step * 0.9995) return `${threeDigits(ns / step)} ${unit}`;
  }
  return `${ns.toFixed(0)} ns`;
}

/** A number of bytes: "512 B", "1.5 KiB". */
export function size(bytes) {
  if (bytes < 0) return "-" + size(-bytes);
  if (bytes < 1024) return `${bytes.toFixed(0)} B`;
  let value = bytes / 1024;
  for (const unit of SIZES) {
    if (value < 1023.95) return `${value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${(value * 1024).toFixed(1)} ${SIZES.at(-1)}`;
}

/** A percentage: "12.5". */
export function percent(value) {
  return value.toFixed(1);
}

/** A whole number with separators: "12,345"; toLocaleString takes 10 ms the first time. */
export function count(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A real number, without decimals if it is whole, otherwise with six digits. */
export function number(value) {
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

const FORMATS = { time_ns: duration, bytes: size, percent, float: number };

/** A table's cell as text; "" if nothing was measured. */
export function shown(value, kind) {
  if (value === null) return "";
  const format = FORMATS[kind] ?? number;
  return typeof value === "number" ? format(value) : String(value);
}
