// What happens next: a pod comes, ends or asks for another size; the kubelet restarts; devices fall ill.
import { shortName } from "../core/amounts.js";
import { fill, h } from "../core/dom.js";
import { checkbox, field, select } from "../core/ui.js";
import { podObject } from "./example.js";
import { configAt } from "./store.js";

const KINDS = [
  ["form", "A pod comes"],
  ["yaml", "Pods come (YAML)"],
  ["remove", "A pod ends"],
  ["resize", "A pod asks for another size"],
  ["restart", "The kubelet restarts"],
  ["devices", "Devices fall ill or recover"],
  ["reconcile", "The CPU Manager reconciles"],
];
const POD = `apiVersion: v1
kind: Pod
metadata:
  name: from-yaml
spec:
  containers:
    - name: main
      resources:
        limits:
          cpu: "8"
          memory: 32Gi
`;
const PAGES = ["2Mi", "1Gi"];

/**
 * @param {{onStep: (step: any, words: string) => void}} options
 */
export function nextStep({ onStep }) {
  const body = h("div", { class: "stack-small" });
  const kind = select(KINDS, "form", show);
  const element = h("div", { class: "stack-small" }, field("What happens next", kind), body);
  const values = {
    name: "",
    cpu: "8",
    memory: "32Gi",
    gpus: "1",
    resource: "",
    page: "",
    pages: "",
    containers: "1",
    count: "1",
    text: POD,
    config: "",
    late: false,
    deleted: false,
  };
  let pods = /** @type {{id: string, name: string}[]} */ ([]);
  let devices = /** @type {any[]} */ ([]);
  let config = "";
  let used = new Set();

  const text = (key, attributes = {}) =>
    h("input", {
      type: "text",
      value: values[key],
      autocomplete: "off",
      spellcheck: "false",
      ...attributes,
      oninput: (event) => (values[key] = event.target.value.trim()),
    });
  const count = (key, least, most) =>
    text(key, { type: "number", min: String(least), max: String(most), inputmode: "numeric" });
  const form = (words, act, ...fields) =>
    h(
      "form",
      { class: "stack-small", onsubmit: (event) => (event.preventDefault(), act()) },
      fields,
      h("div", { class: "row" }, h("button", { class: "button button-primary", type: "submit" }, words)),
    );

  const forms = {
    form() {
      const resources = devices.map(({ resource }) => resource);
      if (!resources.includes(values.resource)) values.resource = resources[0] ?? "nvidia.com/gpu";
      const name = text("name", {
        placeholder: freeName(),
        maxlength: "60",
        pattern: "[a-z0-9]([\\-a-z0-9.]*[a-z0-9])?",
        title: "small letters, digits and -",
      });
      const act = () => {
        const called = values.name || freeName();
        const hugepages = values.page && values.pages ? `${values.page}=${values.pages}` : "";
        const pod = podObject({
          ...values,
          name: called,
          gpus: Number(values.gpus) || 0,
          containers: Math.max(1, Number(values.containers) || 1),
          hugepages,
        });
        const copies = Math.max(1, Number(values.count) || 1);
        values.name = "";
        onStep(
          { add: copies > 1 ? { pod, count: copies } : { pod } },
          copies > 1 ? `${copies} × ${called}` : called,
        );
      };
      return form(
        "Admit",
        act,
        h(
          "div",
          { class: "what-fields" },
          field("Name", name),
          field("CPUs", text("cpu", { inputmode: "decimal" }), "whole ones are its own"),
          field("Memory", text("memory"), "such as 64Gi"),
          resources.length > 1
            ? field(
                "Device",
                select(resources, values.resource, (value) => (values.resource = value)),
              )
            : null,
          field(
            resources.length ? `${shortName(values.resource).toUpperCase()}s` : "Devices",
            count("gpus", 0, 4096),
          ),
        ),
        h(
          "details",
          { class: "what-more" },
          h("summary", null, "Huge pages, containers, copies"),
          h(
            "div",
            { class: "what-fields" },
            field(
              "Huge pages",
              select([["", "none"], ...PAGES], values.page, (value) => (values.page = value)),
            ),
            field("Amount", text("pages", { placeholder: "2Gi" })),
            field("Containers", count("containers", 1, 20), "each asks for all of it"),
            field("Copies", count("count", 1, 200)),
          ),
        ),
      );
    },
    yaml() {
      const area = h("textarea", {
        class: "code",
        rows: "14",
        spellcheck: "false",
        value: values.text,
        oninput: () => (values.text = area.value),
      });
      return form(
        "Admit",
        () => onStep({ add: { text: values.text } }, "pods of YAML"),
        field("Manifests", area, "Pod, Deployment, StatefulSet, Job, List, several documents"),
      );
    },
    remove() {
      if (!pods.length) return none("No pod runs at this step.");
      const which = select(
        pods.map(({ id, name }) => [id, name]),
        pods[0].id,
        () => {},
      );
      return form(
        "Remove",
        () => onStep({ remove: which.value }, `remove ${which.selectedOptions[0].textContent}`),
        field("Pod", which),
      );
    },
    resize() {
      if (!pods.length) return none("No pod runs at this step.");
      const which = select(
        pods.map(({ id, name }) => [id, name]),
        pods[0].id,
        () => {},
      );
      const cpu = h("input", { type: "text", placeholder: "as before", autocomplete: "off" });
      const memory = h("input", { type: "text", placeholder: "as before", autocomplete: "off" });
      const act = () => {
        const size = { pod: which.value };
        if (cpu.value.trim()) size.cpu = cpu.value.trim();
        if (memory.value.trim()) size.memory = memory.value.trim();
        onStep({ resize: size }, `resize ${which.selectedOptions[0].textContent}`);
      };
      return form(
        "Resize",
        act,
        field("Pod", which),
        h("div", { class: "what-fields" }, field("CPUs", cpu), field("Memory", memory)),
      );
    },
    restart() {
      const area = h("textarea", {
        class: "code",
        rows: "12",
        spellcheck: "false",
        value: values.config || config,
        oninput: () => (values.config = area.value),
        "aria-label": "Configuration from then on",
      });
      const other = h(
        "details",
        { class: "what-more", open: Boolean(values.config) },
        h("summary", null, "With another configuration"),
        area,
      );
      const act = () => {
        const given = {};
        if (values.config && values.config !== config) given.text = values.config;
        if (values.late) given.plugins = "after-pods";
        if (values.deleted) given.delete = "all";
        values.config = "";
        onStep(
          Object.keys(given).length ? { restart: given } : "restart",
          given.text ? "restart with another configuration" : "restart",
        );
      };
      return form(
        "Restart",
        act,
        h("p", { class: "hint" }, "All live pods are admitted again; those that are refused are lost."),
        other,
        checkbox("Device plugins register late", values.late, (on) => (values.late = on)),
        checkbox("State files are deleted meanwhile", values.deleted, (on) => (values.deleted = on)),
      );
    },
    devices() {
      if (!devices.length) return none("This machine has no devices.");
      let resource = devices[0];
      const list = h("div", { class: "what-devices", role: "group", "aria-label": "Devices" });
      const fillList = () =>
        fill(
          list,
          resource.devices.map((one) =>
            checkbox(one.health === "healthy" ? one.id : `${one.id} (${one.health})`, false, () => {}, {
              value: one.id,
            }),
          ),
        );
      fillList();
      const which = select(
        devices.map((one) => one.resource),
        resource.resource,
        (value) => ((resource = devices.find((one) => one.resource === value)), fillList()),
      );
      const change = select(
        [
          ["unhealthy", "fall ill"],
          ["gone", "are gone"],
          ["back", "are healthy again"],
        ],
        "unhealthy",
        () => {},
      );
      const act = () => {
        const ids = [...list.querySelectorAll("input:checked")].map((box) => box.value);
        if (!ids.length) return list.querySelector("input")?.focus();
        return onStep(
          { devices: { [resource.resource]: { [change.value]: ids } } },
          `${ids.join(", ")} ${change.selectedOptions[0].textContent}`,
        );
      };
      return form(
        "Change devices",
        act,
        devices.length > 1 ? field("Resource", which) : null,
        list,
        field("They", change),
      );
    },
    reconcile() {
      return form(
        "Reconcile",
        () => onStep("reconcile", "reconcile"),
        h(
          "p",
          { class: "hint" },
          "What ended pods had is collected, and CPU sets are pushed to containers. The kubelet does so every few seconds.",
        ),
      );
    },
  };

  const none = (words) => h("p", { class: "hint" }, words);

  function freeName() {
    for (let number = 1; ; number += 1) if (!used.has(`pod-${number}`)) return `pod-${number}`;
  }

  function show() {
    fill(body, forms[kind.value]());
  }

  /** What there is at the step that is looked at; what is being written stays. */
  function update(side, scenario, at) {
    const was = JSON.stringify([pods, devices.map((one) => one.resource), config]);
    pods = (side.map?.holders ?? [])
      .filter((one) => one.kind === "pod")
      .map(({ id, name }) => ({ id, name }));
    devices = side.devices;
    config = configAt(scenario, at);
    used = new Set(side.steps.flatMap((step) => step.pods.map((pod) => pod.name)));
    const busy = body.contains(document.activeElement) && kind.value === "yaml";
    if (
      !busy &&
      (!body.childElementCount ||
        was !== JSON.stringify([pods, devices.map((one) => one.resource), config]) ||
        kind.value === "devices" ||
        kind.value === "form")
    )
      keepFocus(show);
  }

  /** Draw the form anew; the field that had the focus keeps it. */
  function keepFocus(draw) {
    const inputs = () => [...body.querySelectorAll("input, select, textarea, button")];
    const place = inputs().indexOf(/** @type {any} */ (document.activeElement));
    const open = [...body.querySelectorAll("details")].map((one) => one.open);
    draw();
    body.querySelectorAll("details").forEach((one, at) => (one.open = open[at] ?? one.open));
    if (place >= 0) inputs()[place]?.focus();
  }

  show();
  return { element, update };
}
