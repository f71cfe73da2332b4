// All nodes: small maps or a table, searched, filtered and sorted. Those out of sight are not laid out.
import { bytesText, grouped, perNuma, resourceTitle, shapeWords, sumText } from "../core/amounts.js";
import { add, announce, fill, h, later } from "../core/dom.js";
import { badge, button, emptyState, field, select } from "../core/ui.js";
import { smallMap } from "./cluster_small_map.js";

const PAGE = 100;
export const KNOWN = {
  exact: ["yes", "exact", "Answers are what its kubelet would say"],
  conservative: ["warn", "conservative", "Careful answers: a no may be one too many"],
  stale: ["warn", "stale", "What is published is old"],
  unknown: ["no", "unknown", "Nothing is published that could be used"],
  given: ["info", "given", "As files describe it"],
};
/** By the share of what is free that is of no use. */
const HOLES = /** @type {[string, string, number][]} */ ([
  ["some", "Some of it", 0],
  ["half", "Half or more", 0.5],
  ["whole", "All of it", 1],
]);
const COLLATOR = new Intl.Collator("en", { numeric: true });

export function nodesView({ onOpen, onSelector, filters }) {
  /** @type {Map<string, {row: any, element: any}>} */
  const cards = new Map();
  let board = null,
    order = [],
    counts = null,
    page = 0,
    current = "";
  const list = h("ul", {
    class: "node-list",
    "aria-label": "Nodes",
    onkeydown: go,
    onclick: (event) => open(event.target),
    onfocusin: (event) => remember(event.target),
  });
  const body = h("div", null, list);
  const told = h("p", { class: "quiet-words", role: "status" });
  const search = h("input", {
    type: "search",
    value: filters.search,
    placeholder: "Name",
    autocomplete: "off",
    oninput: later(80, () => change({ search: search.value })),
  });
  const labels = h("datalist", { id: "cluster-labels" });
  const selector = h("input", {
    type: "text",
    value: filters.selector,
    placeholder: "pool=gpu,zone!=a",
    list: labels.id,
    autocomplete: "off",
    onchange: () => onSelector(selector.value.trim()),
  });
  const least = h("input", {
    type: "number",
    min: 0,
    value: filters.least || "",
    oninput: later(80, () => change({ least: Number(least.value) || 0 })),
  });
  const places = {
    policy: h("div"),
    holes: h("div"),
    sort: h("div"),
    look: h("div", { class: "row", role: "group", "aria-label": "Shown as" }),
  };
  const leastField = field("At least free", least);
  const tools = h(
    "div",
    { class: "node-tools" },
    field("Search", search),
    h("div", { class: "field" }, field("Labels", selector), labels),
    leastField,
    places.holes,
    places.policy,
    places.sort,
  );
  const keys = legend();
  const shapeLine = h("div", { class: "row", hidden: true });
  const element = h(
    "div",
    { class: "stack" },
    tools,
    shapeLine,
    h("div", { class: "node-line" }, told, places.look),
    keys,
    body,
  );

  function change(values) {
    Object.assign(filters, values);
    page = 0;
    draw();
  }

  /** Show a board; rows that did not change keep their cards. */
  function show(next) {
    const focused = list.contains(document.activeElement);
    board = next;
    for (const name of [...cards.keys()]) if (!next.rows.has(name)) cards.delete(name);
    for (const [name, row] of next.rows) {
      const known = cards.get(name);
      if (known?.row === row) continue;
      const made = card(row, next.resources, counts?.get(name));
      if (known) known.element.replaceWith(made);
      cards.set(name, { row, element: made });
    }
    choices();
    draw();
    if (focused) cards.get(current)?.element.firstChild.focus({ preventScroll: true });
  }

  /** How many of a shape each node would let in; null: no shape is looked for. */
  function mark(shape) {
    counts = shape ? new Map(shape.counts) : null;
    filters.shape = shape?.name ?? "";
    fill(
      shapeLine,
      shape && [
        badge("info", `${shape.total}${shape.more ? "+" : ""} of ${shapeWords(shape.name)} fit`),
        h("span", null, "Nodes without a place for it are left out."),
        button("Show all nodes", () => mark(null), { small: true }),
      ],
    );
    shapeLine.hidden = !shape;
    cards.clear();
    if (board) show(board);
  }

  function choices() {
    const policies = [...new Set([...board.rows.values()].map((row) => row.policy))].sort();
    fill(
      places.policy,
      field(
        "Policy",
        select(
          [["", "All"], ...policies.map((one) => [one || "-", one || "not known"])],
          filters.policy,
          (policy) => change({ policy }),
        ),
      ),
    );
    const kinds = [
      ["", "All"],
      ...HOLES.map(([kind, words]) => [
        kind,
        `${words} (${grouped([...board.rows.values()].filter((row) => isHoled(row, kind)).length)})`,
      ]),
    ];
    fill(
      places.holes,
      field(
        "Free, but of no use",
        select(kinds, filters.holes, (holes) => change({ holes })),
      ),
    );
    const sorts = [
      ["name", "Name"],
      ["fragmented", "Fragmented most"],
      ...board.resources.map((one, at) => [`free-${at}`, `Free ${title(one)}`]),
      ["pods", "Pods"],
    ];
    fill(
      places.sort,
      field(
        "Sort by",
        select(sorts, filters.sort, (sort) => change({ sort })),
      ),
    );
    leastField.hidden = board.resources.length < 3;
    leastField.querySelector("label").textContent = `Free ${title(board.resources[2] ?? "")}, at least`;
    fill(
      labels,
      board.labels.flatMap(({ key, values }) =>
        values.map((value) => h("option", { value: value ? `${key}=${value}` : key })),
      ),
    );
    fill(
      places.look,
      ["maps", "table"].map((look) =>
        button(look === "maps" ? "Maps" : "Table", () => change({ look }), {
          "aria-pressed": String(filters.look === look),
        }),
      ),
    );
  }

  function draw() {
    if (!board) return;
    for (const each of places.look.children)
      each.setAttribute("aria-pressed", String(each.textContent.toLowerCase() === filters.look));
    const sought = filters.search.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...board.rows.values()].filter((row) => wanted(row, sought));
    rows.sort(compare);
    order = rows.map((row) => row.name);
    const whole = board.rows.size;
    const counted = `${rows.length === whole ? "" : `${grouped(rows.length)} of `}${grouped(whole)} ${whole === 1 ? "node" : "nodes"}`;
    const words = filters.holes ? `${counted}${holesWords(rows, board.resources)}` : counted;
    if (told.textContent !== words) told.textContent = words;
    keys.hidden = !rows.length || filters.look === "table";
    tools.hidden = !whole && !filters.selector;
    if (!rows.length && tools.hidden)
      fill(
        body,
        emptyState("No node is known here", "Nodes are shown as soon as there are some that may be seen."),
      );
    else if (!rows.length) fill(body, emptyState("No node is like that", "Take back a filter to see more."));
    else if (filters.look === "table") fill(body, tableOf(rows));
    else {
      const items = rows.map((row) => cards.get(row.name).element);
      if (items.length !== list.children.length || items.some((item, at) => list.children[at] !== item))
        list.replaceChildren(...items);
      if (body.firstChild !== list) fill(body, list);
      roam(order.includes(current) ? current : order[0]);
    }
  }

  function wanted(row, words) {
    if (filters.policy && (row.policy || "-") !== filters.policy) return false;
    if (filters.least && (row.left[2] ?? 0) < filters.least) return false;
    if (filters.holes && !isHoled(row, filters.holes)) return false;
    if (counts && !counts.get(row.name)) return false;
    return words.every((word) => row.name.toLowerCase().includes(word));
  }

  function compare(one, other) {
    const [kind, at] = filters.sort.split("-");
    let order = 0;
    if (kind === "free") order = (other.left[at] ?? -1) - (one.left[at] ?? -1);
    else if (kind === "fragmented")
      order = (other.fragmented ?? -1) - (one.fragmented ?? -1) || (other.holes ?? 0) - (one.holes ?? 0);
    else if (kind === "pods") order = other.pods - one.pods;
    return order || COLLATOR.compare(one.name, other.name);
  }

  // --- by keys: one card is in the order of Tab, arrows go from card to card ---

  function remember(target) {
    const name = target.closest?.(".node-card")?.dataset.name;
    if (name && name !== current) roam(name);
  }

  function roam(name) {
    cards.get(current)?.element.firstChild.setAttribute("tabindex", "-1");
    current = name;
    cards.get(name)?.element.firstChild.setAttribute("tabindex", "0");
  }

  function go(event) {
    const at = order.indexOf(current);
    const columns = Math.max(1, Math.round(list.clientWidth / (list.firstElementChild?.offsetWidth || 1)));
    const next = {
      ArrowRight: at + 1,
      ArrowLeft: at - 1,
      ArrowDown: at + columns,
      ArrowUp: at - columns,
      Home: 0,
      End: order.length - 1,
    }[event.key];
    if (next === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const name = order[Math.max(0, Math.min(order.length - 1, next))];
    roam(name);
    cards.get(name)?.element.firstChild.focus();
  }

  function open(target) {
    const name = target.closest?.(".node-card")?.dataset.name;
    if (name) onOpen(name);
  }

  // --- the same as a table, a page at a time ---

  function tableOf(rows) {
    const pages = Math.ceil(rows.length / PAGE);
    page = Math.min(page, pages - 1);
    const shown = rows.slice(page * PAGE, (page + 1) * PAGE);
    const columns = [
      "Node",
      "Policy",
      ...board.resources.map((one) => `${title(one)} free`),
      "Of no use",
      "Fits now",
      "Pods",
      "Known",
    ];
    const head = h(
      "tr",
      null,
      columns.map((one) => h("th", { scope: "col", class: one === "Pods" ? "number" : null }, one)),
    );
    const lines = shown.map((row) =>
      h(
        "tr",
        null,
        h(
          "th",
          { scope: "row" },
          h("button", { type: "button", class: "link-button", onclick: () => onOpen(row.name) }, row.name),
        ),
        h("td", null, row.policy || "-"),
        board.resources.map((one, at) => h("td", { class: "nowrap" }, numaText(row, one, at))),
        h("td", { class: "nowrap" }, holesText(row)),
        h("td", null, counts ? `${counts.get(row.name)} of ${shapeWords(filters.shape)}` : fitsText(row)),
        h("td", { class: "number" }, row.pods),
        h("td", null, knownBadge(row), standing(row)),
      ),
    );
    const turn = (step) => {
      page += step;
      draw();
      announce(`page ${page + 1} of ${pages}`);
    };
    const between =
      pages > 1 &&
      h(
        "div",
        { class: "row row-end node-pages" },
        button("Back", () => turn(-1), { small: true, disabled: page === 0 }),
        h("span", null, `Page ${page + 1} of ${pages}`),
        button("Next", () => turn(1), { small: true, disabled: page === pages - 1 }),
      );
    return h(
      "div",
      { class: "panel" },
      h(
        "div",
        { class: "panel-flush table-scroll", tabindex: "0", role: "group", "aria-label": "Nodes as a table" },
        h("table", { class: "table node-table" }, h("thead", null, head), h("tbody", null, lines)),
      ),
      between,
    );
  }

  return { element, show, mark };
}

function card(row, resources, count) {
  const [kind, word, words] = KNOWN[row.known] ?? KNOWN.unknown;
  const places = count === undefined ? null : `${count} × here`;
  const head = h(
    "span",
    { class: "node-head" },
    h("span", { class: "node-name" }, row.name),
    standing(row),
    row.known !== "exact" && h("span", { title: words }, badge(kind, word)),
  );
  const fits = h(
    "span",
    { class: row.fits === "" && !places ? "node-fits node-none" : "node-fits" },
    places ??
      (row.fits ? `fits ${shortFit(row)}` : row.fits === null ? "not known what fits" : "fits nothing"),
  );
  const holes = row.holes ? h("span", { class: "node-holes" }, `${holesText(row)} of no use`) : null;
  const amounts = h(
    "span",
    { class: "node-amounts" },
    resources.map((one, at) =>
      row.left[at] === null || row.left[at] === undefined
        ? null
        : h("span", null, h("span", { class: "node-unit" }, title(one)), ` ${numaText(row, one, at)}`),
    ),
  );
  const stuck = row.fragmented !== null && row.fragmented >= 0.5;
  const face = h(
    "button",
    {
      type: "button",
      class: `node-card${stuck ? " node-stuck" : ""}${row.known === "unknown" ? " node-unknown" : ""}`,
      "data-name": row.name,
      tabindex: "-1",
    },
    head,
    smallMap(row, resources),
    amounts,
    h("span", { class: "node-foot" }, fits, holes),
  );
  return h("li", null, face);
}

/** Why pods are kept away from it. */
function standing(row) {
  return [row.cordoned && [" ", badge("warn", "cordoned")], !row.ready && [" ", badge("no", "not ready")]];
}

function knownBadge(row) {
  const [kind, word, words] = KNOWN[row.known] ?? KNOWN.unknown;
  return h("span", { title: words }, badge(kind, word));
}

/** A resource as a column is called. */
function title(resource) {
  return resource === "memory" ? "GiB" : resourceTitle(resource);
}

/** What is free by NUMA node; "any 12" where it is not given out by NUMA node. */
function numaText(row, resource, at) {
  const listed = row.free
    .map((values) => values[at])
    .filter((value) => value !== null && value !== undefined);
  const unit = resource === "memory" ? 2 ** 30 : 1;
  if (listed.length) return perNuma(row.free.map((values) => Math.floor((values[at] ?? 0) / unit)));
  if (row.left[at] === null || row.left[at] === undefined) return "-";
  return `any ${resource === "memory" ? Math.floor(row.left[at] / unit) : sumText(resource, row.left[at])}`;
}

export function holesText(row) {
  if (row.holes === null) return "-";
  if (row.unit === "memory") return bytesText(row.holes);
  return row.unit
    ? `${sumText(row.unit, row.holes)} ${oneOf(title(row.unit), row.holes === (row.unit === "cpu" ? 1000 : 1))}`
    : "0";
}

function oneOf(words, single) {
  return single ? words.replace(/^([CG]PU)s$/, "$1") : words;
}

function isHoled(row, kind) {
  return row.holes > 0 && row.fragmented >= HOLES.find(([known]) => known === kind)[2];
}

/** What these nodes have free and of no use, and what that means. */
function holesWords(rows, resources) {
  const sums = new Map();
  for (const row of rows) {
    const [holes, free] = sums.get(row.unit) ?? [0, 0];
    sums.set(row.unit, [holes + row.holes, free + row.left[resources.indexOf(row.unit)]]);
  }
  const parts = [...sums].map(
    ([unit, [holes, free]]) =>
      `${sumText(unit, holes)} of ${sumText(unit, free)} free ${resourceTitle(unit)}`,
  );
  return parts.length
    ? `: ${parts.join(" and ")} on them are of no use. They are free, but the largest pods that these nodes take when idle could not have them, because too few are together on one NUMA node or too little else is free there.`
    : "";
}

export function fitsText(row) {
  if (!row.fits) return row.fits === null ? "not known" : "nothing";
  return `${shapeWords(row.fits)} (${row.places}${row.more ? "+" : ""})`;
}

function shortFit(row) {
  return `${shapeWords(row.fits.split(", ").slice(0, 2).join(", "))} (${row.places}${row.more ? "+" : ""})`;
}

function legend() {
  const item = (kind, words) =>
    h("li", null, h("span", { class: `nm-key nm-key-${kind}`, "aria-hidden": "true" }), words);
  return add(h("ul", { class: "node-legend", "aria-label": "What a small map shows" }), [
    h("li", null, "A column for each NUMA node"),
    item("cpu", "CPUs in use"),
    item("memory", "memory in use"),
    item("taken", "device in use"),
    item("free", "free device"),
    item("stuck", "free, and at least half of it of no use to the largest shape"),
  ]);
}
