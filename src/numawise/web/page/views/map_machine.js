// The form that asks for another machine on the map: by name, in words, or by files.
import { h } from "../core/dom.js";
import { dropZone, given } from "../core/files.js";
import { machineNames } from "../core/machine_names.js";
import { field } from "../core/ui.js";

/** Which machine: by name, words or files. */
export function machineChooser(first, choose) {
  const input = h("input", {
    type: "text",
    value: first,
    placeholder: "dgx-h100, or 2s 4n 64c 8gpu",
  });
  const form = h(
    "form",
    {
      class: "stack",
      onsubmit: (event) => {
        event.preventDefault();
        if (!input.value.trim()) return;
        choose({ machine: input.value.trim() }, input.value.trim());
        close();
      },
    },
    field("Name or words", input, "A name of the catalogue, or a description of a machine"),
    machineNames(input),
    h(
      "div",
      { class: "row row-end" },
      h("button", { class: "button button-primary", type: "submit" }, "Show"),
    ),
    dropZone({
      label: "Or drop files",
      hint: "A machine, lscpu, nvidia-smi topo -m, state files, a bundle",
      onFiles: (files) => {
        choose({ files: files.map(given) }, files.map((file) => file.name).join(", "));
        close();
      },
    }),
  );
  const close = () => ((shown.open = false), shown.querySelector("summary").focus());
  const shown = h(
    "details",
    { class: "map-other" },
    h("summary", { class: "button" }, "Another machine…"),
    h("div", { class: "map-other-box panel" }, h("div", { class: "panel-body" }, form)),
  );
  return shown;
}
