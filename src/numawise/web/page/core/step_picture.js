// The map beside the steps of a decision: what a step is about is marked on it, and said below it.
import { fill, h } from "./dom.js";
import { holdersOf, numbers, pictureView } from "./picture.js";

/** @typedef {{kind: string, title: string, text: string, container: string, ok: boolean | null, round: number | null, narrowing: number | null, numa: number[], cpus: string, before: string, wanted?: number, devices: {resource: string, id: string, numa: number[]}[], rule?: string}} Step */

/**
 * A map on which steps are marked.
 * @param {string} label
 * @returns {{element: HTMLElement, show: (map: any) => void, mark: (step: Step | null, drawn: Record<string, string>, earlier?: Step[]) => void}}
 */
export function stepPicture(label) {
  const view = pictureView({ label });
  const place = h("div", { class: "step-map" }, view.element);
  const legend = h("figcaption", { class: "step-legend" });
  const holders = h("div");
  const element = h("figure", { class: "step-picture" }, place, legend, holders);
  let shown = null;
  function show(map) {
    if (map === shown) return;
    view.show((shown = map));
    fill(holders, holdersOf(map));
  }
  function mark(step, drawn, earlier = []) {
    for (const part of place.querySelectorAll("[data-id]"))
      part.classList.remove("step-now", "step-own", "step-part", "step-before", "step-numa", "step-out");
    fill(
      legend,
      step
        ? [
            h("p", { class: "step-caption" }, h("strong", null, step.title), ": ", step.text),
            keysOf(step, drawn, takenIn(earlier, step)),
          ]
        : null,
    );
    if (!step) return;
    const now = new Set(numbers(step.cpus));
    const before = takenIn(earlier, step);
    const held = new Set(
      step.kind === "outcome"
        ? []
        : earlier.flatMap((one) => one.devices.map((device) => drawn[device.id] ?? device.id)),
    );
    const devices = new Set(step.devices.map((device) => drawn[device.id] ?? device.id));
    // on the map afterwards it has its own colour
    const whole = step.kind === "outcome" ? "step-own" : "step-now";
    const narrowed = step.kind === "merge" || step.kind === "verdict";
    for (const core of place.querySelectorAll(".core[data-cpus]")) {
      const own = numbers(core.dataset.cpus);
      const taken = own.filter((cpu) => now.has(cpu)).length;
      core.classList.toggle(whole, taken > 0 && taken === own.length);
      core.classList.toggle("step-part", taken > 0 && taken < own.length);
      core.classList.toggle("step-before", taken === 0 && own.some((cpu) => before.has(cpu)));
    }
    for (const box of place.querySelectorAll(".numa[data-numa]")) {
      const inside = box.dataset.numa.split(",").some((id) => step.numa.includes(Number(id)));
      box.classList.toggle("step-numa", inside);
      box.classList.toggle(
        "step-out",
        narrowed && !inside && (step.numa.length > 0 || step.kind === "merge"),
      );
    }
    for (const box of place.querySelectorAll("[data-device]")) {
      box.classList.toggle(whole, devices.has(box.dataset.device));
      box.classList.toggle("step-before", held.has(box.dataset.device) && !devices.has(box.dataset.device));
    }
    bringIntoView(
      place.querySelector(".map-room"),
      place.querySelector(".step-now, .step-own, .step-part, .step-numa"),
    );
  }
  return { element, show, mark };
}

/** Scroll a place, and nothing else, until a part of it is seen. */
function bringIntoView(place, part) {
  if (!part) return;
  const frame = place.getBoundingClientRect();
  const box = part.getBoundingClientRect();
  if (box.top < frame.top || box.bottom > frame.bottom) place.scrollTop += box.top - frame.top - 16;
  if (box.left < frame.left || box.right > frame.right) place.scrollLeft += box.left - frame.left - 16;
}

/** The CPUs that earlier steps took for the pod, but for those of this one. */
function takenIn(earlier, step) {
  const taken = new Set(
    step.kind === "outcome" ? [] : [...earlier.flatMap((one) => numbers(one.cpus)), ...numbers(step.before)],
  );
  for (const cpu of numbers(step.cpus)) taken.delete(cpu);
  return taken;
}

/** What the marks mean, in words. */
function keysOf(step, drawn, before) {
  const keys = [];
  const numa = step.numa.length ? `NUMA ${rangesOf(step.numa)}` : "";
  if (step.kind === "merge") keys.push(["numa", numa ? `left: ${numa}` : "nothing left"]);
  else if (step.kind === "verdict")
    keys.push(["numa", numa || (step.ok ? "any NUMA node" : "no NUMA nodes")]);
  else if (step.kind === "memory") keys.push(["numa", `memory from ${numa}`]);
  const own = step.kind === "outcome" ? "own" : "now";
  if (step.cpus) keys.push([own, `${step.kind === "cpus" ? "taken now" : "has"}: CPUs ${step.cpus}`]);
  if (before.size) keys.push(["before", `taken before: CPUs ${rangesOf(before)}`]);
  if (step.devices.length)
    keys.push([own, step.devices.map((device) => drawn[device.id] ?? device.id).join(", ")]);
  return keys.map(([kind, words]) => h("span", { class: `step-key step-key-${kind}` }, words));
}

/** Ids as a list such as "0-3,8". */
export function rangesOf(ids) {
  const parts = [];
  for (const id of [...ids].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && last[1] === id - 1) last[1] = id;
    else parts.push([id, id]);
  }
  return parts.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}
