// The hints of one round in NUMA columns, and how the merge narrowed them.
import { breakable, h } from "./dom.js";
import { rangesOf } from "./step_picture.js";

const FEW = 4; // up to so many NUMA nodes each has a column of its own; of more, equal ones share one
const WORDS = { preferred: ["yes!", "preferred"], possible: ["yes", "possible"], no: ["no", "no"] };
const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"];

/** An amount for people. */
function amount(size, unit) {
  if (unit !== "bytes") return String(size);
  let at = 0;
  let value = size;
  for (; value >= 1024 && at < UNITS.length - 1; at += 1) value /= 1024;
  return `${Math.round(value * 10) / 10} ${UNITS[at]}`;
}

function asked(hints) {
  if (hints.asked === undefined) return "";
  if (hints.unit === "CPUs") return `${hints.asked} CPU${hints.asked === 1 ? "" : "s"}`;
  return amount(hints.asked, hints.unit);
}

function look(hints, id) {
  const place = hints.numa.find((one) => one.id === id);
  if (hints.answer === "no preference") return { kind: "any", words: "any", more: "" };
  if (!place) return { kind: "none", words: "–", more: "" };
  const [words, kind] = WORDS[place.hint];
  const free =
    place.free === undefined ? "" : place.free ? `${amount(place.free, hints.unit)} free` : "none free";
  return { kind, words, more: free, note: place.note ?? "" };
}

/** NUMA nodes that get a column together. */
function columns(round, left) {
  const ids = [...new Set(round.hints.flatMap((hints) => hints.numa.map((place) => place.id)))].sort(
    (a, b) => a - b,
  );
  if (ids.length <= FEW) return ids.map((id) => [id]);
  const groups = new Map();
  for (const id of ids) {
    const key = JSON.stringify([left?.has(id), ...round.hints.map((hints) => look(hints, id))]);
    groups.set(key, [...(groups.get(key) ?? []), id]);
  }
  return [...groups.values()];
}

function masks({ left: list, complete, reach }) {
  if (!list.length) return "nothing";
  if (!complete && list.length > 1 && list.every((mask) => mask.length === 1))
    return `one of NUMA ${rangesOf(reach)}`;
  return `NUMA ${list.map((mask) => rangesOf(mask)).join(" or ")}${complete ? "" : " or others"}`;
}

/**
 * One round as a table. `upTo`: how many resources were heard in the merge; undefined: the hints alone.
 * @param {any} round
 * @param {number} [upTo]
 */
export function hintTable(round, upTo) {
  const merging = upTo !== undefined;
  const known = !merging && round.hints.some((hints) => hints.asked !== undefined);
  const wider = !merging && round.hints.some((hints) => hints.wider.length || hints.answer === "impossible");
  const heard = new Map(round.narrowing.map((one, at) => [one.resource, at]));
  const last = merging ? round.narrowing[upTo] : null;
  const left = last ? new Set(last.reach) : null;
  const groups = columns(round, left);
  const gone = (group) => left !== null && !group.some((id) => left.has(id));
  const head = [
    h("th", { scope: "col" }, "Resource"),
    known && h("th", { scope: "col" }, "Asked"),
    groups.map((group) =>
      h("th", { scope: "col", class: gone(group) ? "hint-gone" : null }, `NUMA ${rangesOf(group)}`),
    ),
    wider && h("th", { scope: "col" }, "Several"),
    merging && h("th", { scope: "col" }, "Left"),
  ];
  const rows = round.hints.map((hints) => {
    const at = heard.get(hints.resource);
    const state = !merging
      ? ""
      : at === undefined
        ? "hint-silent"
        : at === upTo
          ? "hint-heard"
          : at > upTo
            ? "hint-later"
            : "";
    const narrowing = at !== undefined && at <= upTo ? round.narrowing[at] : null;
    return h(
      "tr",
      { class: state || null, "aria-current": state === "hint-heard" ? "true" : null },
      h("th", { scope: "row" }, breakable(hints.resource)),
      known && h("td", null, asked(hints)),
      groups.map((group) => cell(look(hints, group[0]), gone(group), !merging)),
      wider && h("td", { class: "hint-several" }, several(hints)),
      merging &&
        h("td", null, narrowing ? masks(narrowing) : at === undefined ? "has no say" : "not heard yet"),
    );
  });
  const notes = round.hints
    .filter((hints) => hints.note)
    .map((hints) => h("p", { class: "hint-note" }, `${hints.resource}: ${hints.note}`));
  if (!merging && round.hints.some((hints) => hints.numa.some((place) => place.hint === "preferred")))
    notes.push(
      h("p", { class: "hint-note" }, "yes!: preferred, as few NUMA nodes as an idle machine would need"),
    );
  const table = h(
    "table",
    { class: "table hints" },
    h("thead", null, h("tr", null, head)),
    h("tbody", null, rows),
  );
  return h(
    "div",
    { class: "stack-small" },
    h(
      "div",
      { class: "hint-scroll", tabindex: "0", role: "group", "aria-label": "Hints by NUMA node" },
      table,
    ),
    notes,
  );
}

function cell({ kind, words, more: free, note }, gone, whole) {
  const more = [free, whole && note].filter(Boolean).join(", ");
  return h(
    "td",
    { class: `hint hint-${kind}${gone ? " hint-gone" : ""}` },
    h("span", { class: "hint-word" }, words),
    more && h("span", { class: "hint-more" }, more),
  );
}

function several(hints) {
  if (hints.answer === "impossible") return "impossible";
  if (!hints.wider.length) return "–";
  return (
    hints.wider.map((one) => `${rangesOf(one.numa)}${one.preferred ? "!" : ""}`).join(" ") +
    (hints.complete ? "" : " …")
  );
}
