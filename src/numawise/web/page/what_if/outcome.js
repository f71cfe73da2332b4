// What came of one step: verdict and sentence of every pod, its containers in a table, and notes; who holds
// what, and
// how the kubelet decides.
import { breakable, h } from "../core/dom.js";
import { badge, button } from "../core/ui.js";
import { KINDS } from "./timeline.js";

const WORDS = {
  CPUS: "CPUs",
  POD: "Pod",
  CONTAINER: "Container",
  VERDICT: "Verdict",
  MEMORY: "Memory",
  DEVICES: "Devices",
  AFFINITY: "NUMA",
  PREFERRED: "Preferred",
};
const LEFT_OUT = new Set(["POD", "VERDICT"]);
const MOST_NOTES = 6;

/**
 * @param {any} step one step of the answer; null: before all of them
 * @param {string[]} columns
 * @param {(uid: string) => void} [onWhy] shows the whole decision on a pod
 */
export function outcome(step, columns, onWhy) {
  if (!step)
    return h("p", { class: "hint" }, "The machine as it was given. Let a pod come, or choose a step above.");
  const notes = step.notes.slice(0, MOST_NOTES);
  const more = step.notes.length - notes.length;
  return h(
    "div",
    { class: "stack-small" },
    h(
      "p",
      { class: "row" },
      h("strong", null, `Step ${step.number}: ${step.title}`),
      badge(KINDS[step.verdict] ?? "plain", step.verdict),
    ),
    step.pods.map((pod) => onePod(pod, columns, step.pods.length > 1, step.op === "add" && onWhy)),
    notes.length
      ? h(
          "details",
          { class: "what-notes" },
          h("summary", null, step.notes.length === 1 ? "1 note" : `${step.notes.length} notes`),
          h(
            "ul",
            null,
            notes.map((note) => h("li", null, note)),
            more > 0 && h("li", null, `and ${more} more`),
          ),
        )
      : null,
  );
}

function onePod(pod, columns, several, onWhy) {
  const shown = columns.map((name, at) => ({ name, at })).filter(({ name }) => !LEFT_OUT.has(name));
  const granted = pod.verdict === "admitted" || pod.verdict === "started";
  const rows = granted ? pod.rows : [];
  return h(
    "div",
    { class: "stack-small what-pod" },
    several || pod.verdict === "lost" || pod.verdict === "preempted"
      ? h(
          "p",
          { class: "row" },
          h("strong", null, pod.name),
          badge(KINDS[pod.verdict] ?? "plain", pod.verdict),
        )
      : null,
    pod.sentence &&
      h(
        "p",
        { class: "what-sentence" },
        pod.sentence,
        " ",
        onWhy && ["admitted", "rejected"].includes(pod.verdict)
          ? button("Why?", () => onWhy(pod.uid), {
              small: true,
              "aria-label": `Why is ${pod.name} ${pod.verdict}?`,
            })
          : null,
      ),
    rows.length
      ? h(
          "div",
          { class: "what-rows", tabindex: "0", role: "group", "aria-label": `What ${pod.name} has` },
          h(
            "table",
            { class: "table" },
            h(
              "thead",
              null,
              h(
                "tr",
                null,
                shown.map(({ name }) => h("th", { scope: "col" }, WORDS[name] ?? name)),
              ),
            ),
            h(
              "tbody",
              null,
              rows.map((row) =>
                h(
                  "tr",
                  null,
                  shown.map(({ at }) => h("td", null, breakable(row[at]))),
                ),
              ),
            ),
          ),
        )
      : null,
  );
}

/** How a kubelet decides, in a few words. */
export function policiesOf({ release, policies: [topology, ...others] }) {
  return [
    badge("plain", `Kubernetes ${release}`),
    badge("info", topology),
    ...others.map((words) => badge("plain", words)),
  ].flatMap((one) => [one, " "]);
}
