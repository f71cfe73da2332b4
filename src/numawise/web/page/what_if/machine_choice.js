// Which machine: the node that is served, one of the catalogue, words, or files.
import { get } from "../core/api.js";
import { fill, h } from "../core/dom.js";
import { dropZone, given, isConfig } from "../core/files.js";
import { button, field, select } from "../core/ui.js";

const WORDS = "2s 4n 64c 2t 8gpu nvlink 1t";

/**
 * @param {{overview: any, onNode: (part: any, words: string) => void}} options what is called gets the changed part of the node
 */
export async function machineChoice({ overview, onNode }) {
  const { machines } = await get("machines");
  const known = new Map(machines.map((one) => [one.name, one.summary]));
  const below = h("div", { class: "stack-small" });
  const choices = [];
  if (overview.node)
    choices.push(["served", `This node: ${overview.nodeName || overview.nodeWords || "as served"}`]);
  const group = (label, options) =>
    h(
      "optgroup",
      { label },
      options.map(([value, words]) => h("option", { value }, words)),
    );
  const chooser = h(
    "select",
    { onchange: () => chosen(chooser.value) },
    choices.map(([value, words]) => h("option", { value }, words)),
    group(
      "Catalogue",
      machines.map(({ name }) => [`name:${name}`, name]),
    ),
    group("Other", [
      ["words", "Describe one…"],
      ["files", "From files…"],
    ]),
  );
  const summary = h("p", { class: "hint" });
  const release = h("div");
  const element = h(
    "div",
    { class: "stack-small" },
    h("div", { class: "what-fields" }, field("Machine", chooser), release),
    summary,
    below,
  );

  function chosen(value) {
    if (value === "served")
      onNode({ served: true, machine: undefined, files: undefined, config: undefined }, "this node");
    else if (value.startsWith("name:"))
      onNode({ served: undefined, machine: value.slice(5), files: undefined }, `machine ${value.slice(5)}`);
    else describe(value);
  }

  function describe(value, text = WORDS) {
    if (value === "words") {
      const input = h("input", { type: "text", value: text, spellcheck: "false", autocomplete: "off" });
      const form = h(
        "form",
        {
          class: "stack-small",
          onsubmit: (event) => (
            event.preventDefault(),
            onNode(
              { served: undefined, machine: input.value.trim(), files: undefined },
              "a described machine",
            )
          ),
        },
        field("Description", input, "s sockets, n NUMA nodes, c cores, t threads per core, gpu, nic, memory"),
        h(
          "div",
          { class: "row" },
          button("Use it", () => form.requestSubmit(), { small: true }),
        ),
      );
      fill(below, form);
    } else {
      fill(
        below,
        dropZone({
          label: "Drop what describes the node",
          hint: "machine file, lscpu, nvidia-smi topo -m, hwloc, a bundle, state files, a kubelet configuration",
          onFiles: (files) =>
            onNode(
              {
                served: undefined,
                machine: undefined,
                files: files.map(given),
                ...(files.some((file) => isConfig(file) || file.base64 !== undefined)
                  ? { config: undefined }
                  : {}),
              },
              `files ${files.map((file) => file.name).join(", ")}`,
            ),
        }),
      );
    }
  }

  /** @param {import("./store.js").ScenarioNode} node */
  function show(node, side) {
    const value = node.served
      ? "served"
      : node.files?.length
        ? "files"
        : known.has(node.machine)
          ? `name:${node.machine}`
          : "words";
    if (chooser.value !== value) chooser.value = value;
    if (value === "words") describe("words", node.machine);
    else if (value === "files")
      fill(
        below,
        h("p", { class: "hint" }, `Files: ${node.files.map((file) => file.name).join(", ")}`),
        button("Other files…", () => describe("files"), { small: true }),
      );
    else fill(below);
    summary.textContent = side?.map?.summary ?? known.get(node.machine) ?? "";
    fill(
      release,
      field(
        "Kubernetes",
        select([["", `default (${overview.release})`], ...overview.releases], node.release ?? "", (version) =>
          onNode({ release: version }, version ? `Kubernetes ${version}` : "the default release"),
        ),
      ),
    );
  }

  return { element, show };
}
