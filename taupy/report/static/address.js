// What is shown, kept in the part of the address after "#", so that a link leads there again.

/** "tab=flame&find=conv" as {tab: "flame", find: "conv"}. */
export function read(hash) {
  return Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
}

/** The hash for these settings; those that are empty are left out. */
export function written(settings) {
  const kept = Object.entries(settings).filter(([, value]) => value !== "" && value != null);
  return "#" + new URLSearchParams(kept).toString();
}
