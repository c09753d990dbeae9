// The page's state, kept in the address after "#", so that a link restores it.

/** "tab=flame&find=conv" as {tab: "flame", find: "conv"}. */
export function read(hash) {
  return Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
}

/** The hash for these settings, without empty ones. */
export function written(settings) {
  const kept = Object.entries(settings).filter(([, value]) => value !== "" && value != null);
  return "#" + new URLSearchParams(kept).toString();
}
