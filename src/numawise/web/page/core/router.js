// Which view is shown: #/name?key=value. What is too large for an address is handed over in memory.

/** @typedef {{name: string, params: Record<string, any>}} Place */

/** @type {Record<string, any>} */
let handed = {};

/** @returns {Place} */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const params = { ...Object.fromEntries(new URLSearchParams(query ?? "")), ...handed };
  handed = {};
  return { name: path || "map", params };
}

/**
 * Go to a view; texts and numbers go into the address, everything else is handed over.
 * @param {string} path such as "/why"
 * @param {Record<string, any>} [params]
 */
export function navigate(path, params = {}) {
  const words = new URLSearchParams();
  handed = {};
  for (const [name, value] of Object.entries(params)) {
    if (typeof value === "string" || typeof value === "number") words.set(name, String(value));
    else if (value !== undefined && value !== null) handed[name] = value;
  }
  const hash = `#${path}${words.size ? `?${words}` : ""}`;
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

/** Change the address of the view that is shown, without showing it anew. */
export function rewrite(params) {
  const words = new URLSearchParams(
    Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined),
  );
  const path = location.hash.split("?")[0] || "#/map";
  history.replaceState(null, "", `${path}${words.size ? `?${words}` : ""}`);
}
