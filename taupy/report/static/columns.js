// Columns of numbers, encoded as text (see taupy/report/planes.py).

/** The bytes of a script element's text, which is deflated and in base64. */
export async function unpacked(base64) {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Zigzag-coded numbers whose bytes are in planes: first all lowest bytes, and so on. */
function column(bytes, start, rows, width) {
  const values = new Float64Array(rows);
  let scale = 1;
  for (let plane = 0; plane < width; plane++, scale *= 256) {
    const from = start + plane * rows;
    for (let row = 0; row < rows; row++) values[row] += bytes[from + row] * scale;
  }
  for (let row = 0; row < rows; row++) {
    const value = values[row];
    values[row] = value % 2 ? -(value + 1) / 2 : value / 2;
  }
  return values;
}

/** All columns by name; `widths` has the bytes per number of each, in order. */
export function columns(bytes, widths, rows) {
  const read = {};
  let start = 0;
  for (const [name, width] of Object.entries(widths)) {
    read[name] = column(bytes, start, rows, width);
    start += width * rows;
  }
  return read;
}
