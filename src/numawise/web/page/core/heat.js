// Links between devices and distances between NUMA nodes: tables whose cells are words, shaded by how good
// they are.
import { h } from "./dom.js";

const WORDS = { fast: "fastest", near: "near", middle: "in between", far: "far", none: "not known" };

/**
 * @param {{title: string, corner: string, columns: string[], rows: {label: string, cells: string[]}[], note: string, shades: Record<string, string>, meanings: Record<string, string>}} table
 */
export function heatMap(table) {
  const note = table.note && h("p", { class: "hint" }, table.note);
  if (!table.columns.length) return h("div", { class: "stack-small" }, note);
  const shade = (word) => table.shades[word] ?? "none";
  const title = (row, column, word) => {
    const means =
      table.meanings[word] ??
      (word === "X"
        ? "the device itself"
        : table.corner === "NUMA"
          ? `distance ${word}, ${WORDS[shade(word)]}`
          : WORDS[shade(word)]);
    return `${table.corner ? `${table.corner} ` : ""}${row} to ${column}: ${means}`;
  };
  const head = h(
    "tr",
    null,
    h("th", { scope: "col", class: "heat-corner" }, table.corner || "to"),
    table.columns.map((column) => h("th", { scope: "col" }, column)),
  );
  const rows = table.rows.map((row) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, row.label),
      row.cells.map((word, at) =>
        h(
          "td",
          {
            class: `heat heat-${word === "X" ? "self" : shade(word)}`,
            title: title(row.label, table.columns[at], word),
          },
          word,
        ),
      ),
    ),
  );
  const dense = table.columns.length > 24 ? " heat-dense" : "";
  const grid = h(
    "table",
    { class: `heat-map${dense}` },
    h("caption", { class: "only-read" }, table.title),
    h("thead", null, head),
    h("tbody", null, rows),
  );
  return h(
    "div",
    { class: "stack-small" },
    h(
      "div",
      { class: "heat-room", tabindex: "0", role: "region", "aria-label": `${table.title}, scrolls` },
      grid,
    ),
    legend(table),
    note,
  );
}

function legend(table) {
  const words = Object.entries(table.meanings);
  if (words.length)
    return h(
      "dl",
      { class: "heat-legend" },
      words.map(([word, means]) =>
        h(
          "div",
          null,
          h("dt", { class: `heat heat-${table.shades[word] ?? table.shades[`${word}#`] ?? "fast"}` }, word),
          h("dd", null, means),
        ),
      ),
    );
  const shown = Object.keys(WORDS).filter(
    (shade) => Object.values(table.shades).includes(shade) && shade !== "none",
  );
  const values = (shade) => Object.keys(table.shades).filter((word) => table.shades[word] === shade);
  return h(
    "dl",
    { class: "heat-legend heat-legend-row" },
    shown.map((shade) =>
      h(
        "div",
        null,
        h("dt", { class: `heat heat-${shade}` }, range(values(shade))),
        h("dd", null, WORDS[shade]),
      ),
    ),
  );
}

function range(words) {
  const sorted = [...words].sort((one, other) => Number.parseInt(one, 10) - Number.parseInt(other, 10));
  return sorted.length > 3 ? `${sorted[0]}–${sorted.at(-1)}` : sorted.join(", ");
}
