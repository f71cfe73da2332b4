// A node as a small map: a column for each NUMA node with bars for CPUs and memory, and a square for each
// device.
import { s } from "../core/dom.js";

const WIDTH = 208,
  GAP = 5,
  MOST_COLUMNS = 8,
  LEAST_SQUARE = 2.5;

/** The drawing of a row of the board. */
export function smallMap(row, resources) {
  const paths = { track: "", cpu: "", memory: "", taken: "", free: "" };
  const count = Math.max(1, row.numa.length);
  const columns = Math.min(count, MOST_COLUMNS);
  const lines = Math.ceil(count / columns);
  const dense = lines > 2;
  const wide = (WIDTH - (columns - 1) * GAP) / columns;
  const high = { cpu: dense ? 5 : 10, memory: dense ? 3 : 6, square: dense ? 4 : 9 };
  const devices = resources
    .map((_, at) => at)
    .slice(2)
    .filter((at) => row.size.some((sizes) => sizes[at]) || (!row.numa.length && row.whole[at]));
  let bottom = 0;
  for (let line = 0; line < lines; line += 1) {
    const top = line ? bottom + (dense ? 3 : 6) : 0;
    let lowest = top;
    for (let column = 0; column < columns; column += 1) {
      const at = line * columns + column;
      if (at >= count) break;
      const x = column * (wide + GAP);
      lowest = Math.max(lowest, cell(paths, high, devices, amounts(row, at, count), x, top, wide));
    }
    bottom = lowest;
  }
  const shapes = Object.entries(paths)
    .filter(([, d]) => d)
    .map(([kind, d]) => s("path", { class: `nm-${kind}`, d }));
  return s(
    "svg",
    {
      class: "node-map",
      viewBox: `-0.5 -0.5 ${WIDTH + 1} ${Math.ceil(bottom) + 1}`,
      width: WIDTH + 1,
      height: Math.ceil(bottom) + 1,
      "aria-hidden": "true",
      focusable: "false",
    },
    shapes,
  );
}

/**
 * What is free and what there is of each resource in one column; by sums where it is not given out by NUMA
 * node.
 */
function amounts(row, at, count) {
  const free = row.free[at],
    size = row.size[at];
  return (resource) => {
    const known = size?.[resource];
    if (known !== null && known !== undefined) return [free[resource] ?? 0, known];
    if (resource > 1 && row.numa.length) return [0, 0];
    return [(row.left[resource] ?? 0) / count, (row.whole[resource] ?? 0) / count];
  };
}

function cell(paths, high, devices, amount, x, top, wide) {
  let y = top;
  for (const [at, kind] of /** @type {[number, string][]} */ ([
    [0, "cpu"],
    [1, "memory"],
  ])) {
    const [free, size] = amount(at);
    const used = size ? Math.min(1, Math.max(0, 1 - free / size)) : 0;
    paths.track += box(x, y, wide, high[kind]);
    if (used) paths[kind] += box(x, y, wide * used, high[kind]);
    y += high[kind] + 2;
  }
  y += 2;
  for (const at of devices) {
    const [free, size] = amount(at).map(Math.round);
    if (!size) continue;
    const step = Math.min(high.square + 2, (wide + 2) / size);
    if (step - 2 < LEAST_SQUARE) {
      paths.free += box(x, y, wide, high.square);
      paths.taken += box(x, y, wide * (1 - free / size), high.square);
    } else {
      for (let number = 0; number < size; number += 1) {
        const kind = number < size - free ? "taken" : "free";
        paths[kind] += box(x + number * step, y, step - 2, step - 2);
      }
    }
    y += Math.min(high.square, Math.max(step - 2, LEAST_SQUARE)) + 3;
  }
  return y - 2;
}

function box(x, y, width, height) {
  return `M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}z`;
}

function round(number) {
  return Math.round(number * 10) / 10;
}
