// A configuration suggested for a node, with its reasons, as a file, and the steps from the present one.
import { newest, post } from "../core/api.js";
import { announce, fill, h } from "../core/dom.js";
import { download, dropZone, given } from "../core/files.js";
import { machineNames } from "../core/machine_names.js";
import { busy, button, checkbox, copyButton, field, notice, panel, select, table } from "../core/ui.js";

const GOALS = [
  ["training", "Training: jobs as large as the node"],
  ["inference", "Inference: many small services"],
  ["latency", "Latency: all of a pod on one NUMA node"],
];
const GIB = 2 ** 30;

/**
 * @param {any} context
 * @param {(name: string, text: string, machine: string) => void} onCheck
 */
export function planPanel(context, onCheck) {
  const asked = {
    machine: context.overview.node ? "" : "dgx-h100",
    goal: "training",
    release: context.overview.release,
    cpus: "",
    memory: "",
    pages: "",
    alpha: false,
    files: [],
  };
  const problem = h("div"),
    asking = newest();
  const answer = h("div", { class: "stack" });

  const text = (key, attributes = {}) => {
    const input = h("input", {
      type: "text",
      value: asked[key],
      autocomplete: "off",
      ...attributes,
      onchange: () => (asked[key] = input.value.trim()),
    });
    return input;
  };
  const machine = text("machine", {
    placeholder: context.overview.node ? "the node that is served" : "",
  });
  const old = h("p", { class: "hint" });
  const zone = dropZone({
    label: "Drop the node's present configuration, or its bundle",
    hint: "Its other fields are then kept, and the steps of the switch are shown.",
    onFiles: (files) => {
      asked.files = files;
      fill(
        old,
        `Given: ${files.map((file) => file.name).join(", ")} `,
        button("Forget", () => ((asked.files = []), fill(old)), { small: true }),
      );
    },
  });
  const form = h(
    "form",
    { class: "stack plan-form", onsubmit: (event) => (event.preventDefault(), suggest()) },
    h(
      "div",
      { class: "fields" },
      field(
        "What the node is for",
        select(GOALS, asked.goal, (value) => (asked.goal = value)),
      ),
      field("Machine", machine, "A name of the catalogue, or words"),
      field(
        "Release",
        select(context.overview.releases, asked.release, (value) => (asked.release = value)),
      ),
      field(
        "CPUs for the system",
        text("cpus", { inputmode: "numeric", placeholder: "as many as seem right" }),
      ),
      field(
        "Memory for the system",
        text("memory", { placeholder: "as much as seems right" }),
        "Such as 16Gi",
      ),
      field("Huge pages", text("pages", { placeholder: "none" }), "On every NUMA node, such as 1Gi=16"),
    ),
    checkbox("Use options that are alpha in the release", asked.alpha, (value) => (asked.alpha = value)),
    zone,
    old,
    machineNames(machine),
    h(
      "div",
      { class: "row" },
      h("button", { class: "button button-primary", type: "submit" }, "Suggest a configuration"),
    ),
  );

  async function suggest() {
    const served =
      // a bundle has its machine
      context.overview.node && !asked.machine && asked.files.every((file) => file.text !== undefined);
    const node = { served, machine: asked.machine, release: asked.release, files: asked.files.map(given) };
    const question = {
      node,
      goal: asked.goal,
      reserveMemory: asked.memory,
      hugepages: asked.pages ? asked.pages.split(/[\s,]+/) : [],
      alpha: asked.alpha,
    };
    if (asked.cpus) question.reserveCpus = /^[0-9]+$/.test(asked.cpus) ? Number(asked.cpus) : asked.cpus;
    const page = await busy(answer, problem, () => post("plan", question, asking.next()));
    if (!page) return;
    fill(
      answer,
      planned(page, (words) => onCheck("kubelet.yaml", words, asked.machine)),
    );
    announce(`Suggested: ${page.plan.trial}`);
  }
  suggest();
  return h(
    "div",
    { class: "split plan-split" },
    h("div", { class: "stack" }, problem, answer),
    panel("What for", form),
  );
}

function planned({ plan, text, switch: change, remarks }, onCheck) {
  const actions = [
    copyButton(text),
    button("Check it", () => onCheck(text), { small: true }),
    button("Download kubelet.yaml", () => download("kubelet.yaml", text), { small: true, kind: "primary" }),
  ];
  const kinds = [...new Set(plan.rooms.flatMap((room) => Object.keys(room.devices)))];
  const columns = [
    { title: "NUMA node", cell: (room) => room.numa },
    { title: "CPUs", number: true, cell: (room) => room.cpus },
    { title: "Memory, GiB", number: true, cell: (room) => (room.memory / GIB).toFixed(1) },
    ...kinds.map((kind) => ({ title: kind, number: true, cell: (room) => room.devices[kind] ?? 0 })),
  ];
  return [
    notice("yes", `Tried: ${plan.trial}`, `${plan.machine.summary}, Kubernetes ${plan.kubernetes}`),
    [...new Set([...plan.remarks, ...remarks])].map((remark) => notice("info", remark)),
    panel(
      "kubelet.yaml",
      h(
        "div",
        { class: "code-block plan-text", tabindex: "0", role: "region", "aria-label": "kubelet.yaml" },
        h("pre", null, text),
      ),
      { actions, flush: true },
    ),
    panel("What pods can have", table({ columns, rows: plan.rooms }), { wide: true }),
    change && switched(change),
  ];
}

function switched(change) {
  if (change.refusal) return notice("no", `The kubelet does not start with it: ${change.refusal}`);
  const rows = Object.entries(change.changes).map(([name, { old, new: next }]) => ({ name, old, next }));
  const value = (one) =>
    one === null || one === undefined
      ? "not set"
      : typeof one === "object"
        ? JSON.stringify(one)
        : String(one);
  const columns = [
    { title: "Field", cell: (row) => h("code", null, row.name) },
    { title: "Now", cell: (row) => value(row.old) },
    { title: "Then", cell: (row) => value(row.next) },
  ];
  const steps = change.steps.map((step) =>
    h(
      "li",
      null,
      h("p", null, step.title),
      step.why && h("p", { class: "hint" }, step.why),
      step.commands?.length
        ? h(
            "div",
            { class: "code-block", tabindex: "0", role: "group", "aria-label": step.title },
            h("pre", null, step.commands.join("\n")),
          )
        : null,
    ),
  );
  return [
    panel(
      "What changes",
      rows.length
        ? table({ columns, rows })
        : h("p", { class: "panel-body" }, "Nothing: the node has this configuration."),
      { wide: true },
    ),
    panel("Steps of the switch", h("ol", { class: "switch-steps" }, steps)),
    change.remarks.map((remark) => notice("info", remark)),
  ];
}
