// Parts of views: panels, notices, badges, fields, tables, tabs, dialogs.
import { isAbort, Problem } from "./api.js";
import { add, announce, fill, freshId, h } from "./dom.js";

/** A heading with a line below, and buttons at its end. */
export function viewHead(title, words, ...actions) {
  return h(
    "div",
    { class: "view-head" },
    h("div", null, h("h1", null, title), words && h("p", null, words)),
    h("div", { class: "row" }, actions),
  );
}

/**
 * A frame with a heading. `flush`: without room inside; `wide`: likewise, for a table that may be wider, scrolled by keys as well.
 * @param {string} title
 * @param {any} body
 * @param {{actions?: any[], flush?: boolean, wide?: boolean, level?: number, class?: string}} [options]
 */
export function panel(
  title,
  body,
  { actions = [], flush = false, wide = false, level = 2, class: more = "" } = {},
) {
  const id = freshId("panel");
  const scrolled = wide ? { tabindex: "0", role: "group", "aria-label": title } : {};
  const inside = add(
    h("div", {
      class: wide ? "panel-flush table-scroll" : flush ? "panel-flush" : "panel-body",
      ...scrolled,
    }),
    [body],
  );
  const head = h("div", { class: "panel-head" }, h(`h${level}`, { id }, title), actions);
  return h("section", { class: `panel ${more}`.trim(), "aria-labelledby": id }, head, inside);
}

const MARKS = { yes: "✓", no: "✕", warn: "!", info: "i", plain: "" };

/** A word with a mark, so that its colour is never alone. Kinds: yes, no, warn, info, plain. */
export function badge(kind, words) {
  return h("span", { class: `badge badge-${kind}`, "data-mark": MARKS[kind] || null }, words);
}

/** A sentence with a mark and, below it, what to do. */
export function notice(kind, words, advice = "", ...more) {
  const mark = h("span", { class: "mark", "aria-hidden": "true" }, MARKS[kind] ?? "");
  return h(
    "div",
    { class: `notice notice-${kind}`, role: kind === "no" ? "alert" : null },
    mark,
    h("div", { class: "grow" }, h("p", null, words), advice && h("p", { class: "advice" }, advice), more),
  );
}

/** An error as a sentence; errors that only say that nobody waits any more are nothing. */
export function problemNotice(error) {
  if (isAbort(error)) return null;
  if (!(error instanceof Problem)) console.error(error);
  const place = error instanceof Problem && error.place ? `${error.place}: ` : "";
  return notice("no", `${place}${error.message}`, error.advice ?? "");
}

/** What is shown where there is nothing yet, and what to do about it. */
export function emptyState(title, words, ...actions) {
  return h(
    "div",
    { class: "empty" },
    h("h3", null, title),
    words && h("p", null, words),
    actions.length ? h("div", { class: "row" }, actions) : null,
  );
}

/** A button; one that is not allowed keeps the focus, unlike one that is disabled. */
export function button(words, onclick, { kind = "", small = false, disabled = false, ...attributes } = {}) {
  const act = onclick && ((event) => element.ariaDisabled !== "true" && onclick(event));
  const element = h(
    "button",
    {
      type: "button",
      class: `button ${kind && `button-${kind}`} ${small ? "button-small" : ""}`.trim().replace(/\s+/g, " "),
      onclick: act,
      ...attributes,
    },
    words,
  );
  return allow(element, !disabled);
}

/** Whether a button does what it says. */
export function allow(element, on) {
  element.ariaDisabled = on ? null : "true";
  return element;
}

/** An input with its label; the input gets an id and, with a hint, a description. */
export function field(label, input, hint = "") {
  input.id ||= freshId("field");
  const below = hint && h("span", { class: "hint", id: `${input.id}-hint` }, hint);
  if (below) input.setAttribute("aria-describedby", below.id);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, below);
}

/** A list to choose from: values, or pairs of value and words. */
export function select(values, chosen, onchange, attributes = {}) {
  const options = values.map((value) => {
    const [key, words] = Array.isArray(value) ? value : [value, value];
    return h("option", { value: key, selected: key === chosen }, words);
  });
  const element = h("select", { ...attributes, onchange: () => onchange(element.value) }, options);
  return element;
}

/** A box to tick. */
export function checkbox(label, checked, onchange, attributes = {}) {
  const input = h("input", {
    type: "checkbox",
    checked,
    ...attributes,
    onchange: () => onchange(input.checked),
  });
  return h("label", { class: "check-field" }, input, label);
}

/**
 * A table.
 * @param {{columns: {title: string, number?: boolean, cell: (row: any) => any}[], rows: any[]}} options
 */
export function table({ columns, rows }) {
  const kind = (column) => (column.number ? "number" : null);
  const head = h(
    "tr",
    null,
    columns.map((column) => h("th", { scope: "col", class: kind(column) }, column.title)),
  );
  const body = rows.map((row) =>
    h(
      "tr",
      null,
      columns.map((column) => h("td", { class: kind(column), "data-title": column.title }, column.cell(row))),
    ),
  );
  return h("table", { class: "table table-stacked" }, h("thead", null, head), h("tbody", null, body));
}

/** Facts as a list of names and values; those without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return h(
    "dl",
    { class: "facts" },
    known.map(([name, value]) => [h("dt", null, name), add(h("dd"), [value])]),
  );
}

/**
 * Tabs; each makes its content when it is first shown.
 * @param {string} label
 * @param {{title: string, content: () => any}[]} pages
 * @param {number} [first] shown at the beginning
 * @param {(at: number) => void} [onShow] told which one is shown
 */
export function tabs(label, pages, first = 0, onShow = () => {}) {
  const body = h("div", { role: "tabpanel", tabindex: "0", id: freshId("tab") });
  const made = [];
  const buttons = pages.map((page, at) =>
    h(
      "button",
      { type: "button", role: "tab", id: freshId("tab"), "aria-controls": body.id, onclick: () => show(at) },
      page.title,
    ),
  );
  const list = h("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: keys }, buttons);
  function show(at, focus = false) {
    buttons.forEach((each, number) => {
      each.setAttribute("aria-selected", String(number === at));
      each.tabIndex = number === at ? 0 : -1;
    });
    body.setAttribute("aria-labelledby", buttons[at].id);
    if (focus) buttons[at].focus();
    made[at] ??= pages[at].content();
    fill(body, made[at]);
    onShow(at);
  }
  function keys(event) {
    const at = buttons.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -at, End: -1 - at }[event.key];
    if (at < 0 || step === undefined) return;
    event.preventDefault();
    show((at + step + buttons.length) % buttons.length, true);
  }
  show(first);
  return h("div", { class: "stack" }, list, body);
}

/** A dialog over the page; closes by its button, Escape, or what comes back. */
export function dialog(title, body, actions = []) {
  const id = freshId("dialog");
  const close = () => element.close();
  const element = h("dialog", { "aria-labelledby": id, onclose: () => element.remove() });
  add(element, [
    h("div", { class: "panel-head" }, h("h2", { id }, title), button("Close", close, { kind: "quiet" })),
    h("div", { class: "panel-body" }, body),
    actions.length ? h("div", { class: "panel-body row row-end" }, actions) : null,
  ]);
  document.body.append(element);
  element.showModal();
  return { element, close };
}

/** A button that copies a text. */
export function copyButton(text, words = "Copy") {
  const element = button(
    words,
    async () => {
      try {
        await navigator.clipboard.writeText(typeof text === "function" ? await text() : text);
        announce("copied");
        element.textContent = "Copied";
      } catch {
        element.textContent = "Cannot copy";
      }
      setTimeout(() => (element.textContent = words), 1600);
    },
    { small: true },
  );
  return element;
}

/** A text in a frame. */
export function codeBlock(text, label = "Code") {
  return h(
    "div",
    { class: "code-block", tabindex: "0", role: "group", "aria-label": label },
    h("pre", null, text),
  );
}

/** Dim an element while something is worked out; what went wrong is shown in `place`. */
export async function busy(element, place, work) {
  element.classList.add("busy");
  element.setAttribute("aria-busy", "true");
  try {
    const result = await work();
    if (place) fill(place);
    return result;
  } catch (error) {
    if (place) fill(place, problemNotice(error));
    return undefined;
  } finally {
    element.classList.remove("busy");
    element.removeAttribute("aria-busy");
  }
}
