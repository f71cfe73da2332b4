// Beside the map: how many CPUs are whose, who holds what, and what is known of a part or a holder that was
// chosen.
import { h } from "../core/dom.js";
import { LEAVES, holderMark, numbers } from "../core/picture.js";
import { badge, button, facts } from "../core/ui.js";

/** A bar and a sentence: of all CPUs, how many are held, reserved and free. */
export function cpuSummary(data) {
  const size = (list) => numbers(list).length;
  const total = size(data.cpus);
  if (!total) return null;
  if (data.unknown.includes("cpus")) return h("p", null, `${total} CPUs: who has which is not known`);
  const held = data.holders.filter((one) => one.kind !== "system").flatMap((one) => numbers(one.cpus));
  const shares = [
    [new Set(held).size, "held alone", "held"],
    [size(data.reserved), "reserved", "system"],
    [size(data.free), data.shared === null ? "free" : "free, in the shared pool", "free"],
  ].filter(([amount]) => amount);
  const pieces = shares.map(([amount, , kind]) => {
    const piece = h("span", { class: `cpu-${kind}` });
    piece.style.setProperty("flex-grow", String(amount / total));
    return piece;
  });
  return [
    h("div", { class: "cpu-bar", "aria-hidden": "true" }, pieces),
    h("p", null, `${total} CPUs: ${shares.map(([amount, words]) => `${amount} ${words}`).join(", ")}`),
  ];
}

/** Everybody who holds something, to be chosen. */
export function holderList({ holders, unknown }, chosen, pick) {
  const nothing = unknown.includes("cpus") ? "its CPUs are not known" : "in the shared pool";
  return h(
    "ul",
    { class: "holder-list" },
    holders.map((one) => {
      const has = [one.cpus && `CPUs ${one.cpus}`, memoryOf(one), one.devices.join(" ")].filter(Boolean);
      const attributes = { "aria-pressed": String(chosen === one.id), onclick: () => pick(one.id) };
      return h(
        "li",
        null,
        h(
          "button",
          { type: "button", class: "holder", ...attributes },
          holderMark(one),
          h("span", { class: "holder-name" }, one.name),
          h("span", { class: "holder-has" }, has.join(" · ") || nothing),
        ),
      );
    }),
  );
}

/** A core, a device or a NUMA node that was chosen. */
export function partDetail(part, data, pick) {
  const holders = part.holders.map((id) => data.holders.find((one) => one.id === id)).filter(Boolean);
  const buttons = holders.map((one) => {
    const attributes = { type: "button", class: "button button-small", onclick: () => pick(one.id) };
    return h("button", attributes, holderMark(one), one.name);
  });
  return h(
    "div",
    { class: "stack-small" },
    h("h3", null, part.label, " ", stateOf(part, data)),
    facts([
      ["NUMA node", part.numa.join(", ")],
      ["CPUs", part.cpus],
    ]),
    buttons.length ? h("div", { class: "row" }, buttons) : null,
    remarks(part.lines),
  );
}

/** A pod or a job that was chosen; a pod that is there and has a name can be asked about. */
export function holderDetail(one, why) {
  const named = one.kind === "pod" && !/^pod [0-9a-f]{8}$| \(gone\)$/.test(one.name);
  return h(
    "div",
    { class: "stack-small" },
    h("h3", null, holderMark(one), " ", one.name),
    facts([
      ["CPUs", one.cpus],
      ["NUMA nodes", one.numa.join(", ")],
      ["Memory", memoryOf(one)],
      ["Devices", one.devices.join(" ")],
    ]),
    remarks(one.lines),
    named && h("div", { class: "row" }, button("Why is it there?", why, { small: true })),
  );
}

const memoryOf = (one) => one.memory.map((part) => `${part.text} on NUMA ${part.numa}`).join(", ");

function remarks(lines) {
  const items = lines.map((line) => h("li", null, line));
  return h("ul", { class: "remarks" }, items);
}

/** Whether a part is free, where that is known; of what has many CPUs, how many of them are. */
function stateOf(part, { free, unknown }) {
  const own = numbers(part.cpus);
  if (LEAVES.has(part.kind) || !own.length)
    return part.free ? badge("yes", "free") : badge("plain", part.holders.length ? "held" : "not known");
  if (unknown.includes("cpus")) return badge("plain", "not known");
  const known = new Set(numbers(free)),
    left = own.filter((cpu) => known.has(cpu)).length;
  const some = left ? `${left} of ${own.length} CPUs free` : "no CPU free";
  return badge(left ? "yes" : "plain", left === own.length ? "all CPUs free" : some);
}
