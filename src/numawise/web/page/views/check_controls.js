// What is checked, and by what: files that are dropped or pasted, the release, the machine.
import { h } from "../core/dom.js";
import { dropZone } from "../core/files.js";
import { machineNames } from "../core/machine_names.js";
import { button, dialog, field, panel, select } from "../core/ui.js";
import { EXAMPLE } from "./check_example.js";

export function controlPanel(state, context, { check, change }) {
  const zone = dropZone({
    label: "Drop kubelet configurations, pods, state files, a machine or a bundle",
    hint: "Each is known by what is in it. Nothing leaves this server.",
    onFiles: add,
  });
  function add(files) {
    const before = state.example ? [] : state.files;
    if (state.example) Object.assign(state, { example: false, machine: "" });
    sync();
    state.chosen = before.length;
    change(named([...before, ...files]));
  }
  const machine = h("input", {
    type: "text",
    value: state.machine,
    autocomplete: "off",
    onchange: () => ((state.machine = machine.value.trim()), sync(), check()),
  });
  const choices = [
    ["none", "none: not judged"],
    ["words", "by name or in words"],
    ...(context.overview.node ? [["served", "the node that is served"]] : []),
  ];
  const which = select(choices, chosenMachine(), (value) => {
    state.served = value === "served";
    if (value === "none") state.machine = "";
    if (value === "words" && !state.machine) state.machine = EXAMPLE.machine;
    sync();
    check();
  });
  function chosenMachine() {
    return state.served ? "served" : state.machine ? "words" : "none";
  }
  function sync() {
    which.value = chosenMachine();
    machine.value = state.machine;
    wordsField.hidden = which.value !== "words";
  }
  const release = select(
    context.overview.releases,
    state.release,
    (value) => ((state.release = value), check()),
  );
  const wordsField = field("Its name or words", machine, "Of the catalogue, or as 2s 4n 64c 8gpu");
  const fields = h(
    "div",
    { class: "fields" },
    field("Release", release),
    field("Machine", which),
    wordsField,
  );
  sync();
  const more = h(
    "div",
    { class: "row" },
    button("Paste text…", () => pasting(add)),
    button("Show the example", () => example()),
  );
  function example() {
    Object.assign(state, { machine: EXAMPLE.machine, served: false, example: true, chosen: 0 });
    sync();
    change(EXAMPLE.files);
  }
  return panel(
    "Files",
    h(
      "div",
      { class: "check-given" },
      h("div", { class: "stack-small" }, zone),
      h("div", { class: "stack-small" }, fields, machineNames(machine), more),
    ),
  );
}

function pasting(add) {
  const name = h("input", { type: "text", value: "pasted.yaml", required: true });
  const text = h("textarea", { class: "code", rows: "14", required: true, spellcheck: "false" });
  const take = (event) => {
    event.preventDefault();
    add([{ name: name.value.trim() || "pasted.yaml", text: text.value, size: text.value.length }]);
    shown.close();
  };
  const form = h(
    "form",
    { class: "stack", onsubmit: take },
    field("Name", name),
    field("Text", text, "YAML or JSON, a state file, or flags"),
    h(
      "div",
      { class: "row row-end" },
      h("button", { class: "button button-primary", type: "submit" }, "Check it"),
    ),
  );
  const shown = dialog("Paste text", form);
  text.focus();
}

/** Names that differ, so that findings can be told apart. */
export function named(files) {
  const seen = new Set();
  return files.map((file) => {
    // no more than the server keeps of a name
    const key = (name) => name.replace(/[^\p{L}\p{N}.]/gu, "_").slice(-50);
    let name = file.name;
    for (let number = 2; seen.has(key(name)); number += 1)
      name = file.name.replace(/(\.[^.]*)?$/, (end) => `-${number}${end}`);
    seen.add(key(name));
    return { ...file, name };
  });
}
